//! How long the kernel lets a thread run before another gets its turn. A front thread works for microseconds at a time, but
//! waits for its turn behind workers that compute. With a short slice of time it gets its turn sooner when it wakes up.
//! It never gives a thread more of the processor: over a while each gets the same share.

use std::mem::size_of;

/// In nanoseconds: the shortest that Linux knows (`sched_setattr(2)`, since 6.12; earlier kernels ignore it).
pub const SHORTEST: u64 = 100_000;

/// Gives the calling thread the shortest slice of time. Threads and processes that it starts have the usual one. If the
/// kernel has none, or the thread has a real-time policy, all stays as it was.
#[allow(unsafe_code)]
pub fn shorten() {
    let Some(mut attributes) = attributes() else { return };
    if !matches!(attributes.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return;
    }
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_runtime = SHORTEST;
    attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    // SAFETY: 0 is the calling thread; the kernel reads `size` bytes, which the structure has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// What the kernel knows of the calling thread.
#[allow(unsafe_code)]
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the structure consists of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; the kernel writes no more than `size` bytes, which the structure has.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (read == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice() -> u64 {
        attributes().unwrap().sched_runtime
    }

    #[test]
    fn a_thread_has_a_short_slice_and_those_it_starts_have_the_usual_one() {
        let usual = slice();
        if usual == 0 {
            return; // A kernel before 6.12 has no slices that can be asked for.
        }
        let (own, childs) = std::thread::spawn(|| {
            shorten();
            (slice(), std::thread::spawn(slice).join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(own, SHORTEST);
        assert_eq!(childs, usual);
    }
}
