//! How long the kernel lets a thread run before another gets its turn. A front thread works for microseconds at a time, but
//! waits for its turn behind workers that compute. With a short slice of time it gets its turn sooner when it wakes up.
//! It never gives a thread more of the processor: over a while each gets the same share.

use std::mem::size_of;

/// The shortest that Linux knows (`sched(7)`, since 6.12; earlier kernels ignore it).
const SHORTEST: u64 = 100_000;

/// Gives the calling thread the shortest slice of time. Threads and processes that it starts have the usual one. If the
/// kernel has none, or the thread has a real-time policy, all stays as it was.
#[allow(unsafe_code)]
pub fn shorten() {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the structure consists of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; the kernel writes no more than `size` bytes, which the structure has.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if read != 0 || !matches!(attributes.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return;
    }
    attributes.size = size;
    attributes.sched_runtime = SHORTEST;
    attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    // SAFETY: the same, and the kernel only reads.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
