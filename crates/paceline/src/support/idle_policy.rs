//! Lets a process run only while no other wants the processor. The least priority is not enough for that: a process that
//! wakes up may wait until the slice of one with the least priority is over, and is put behind another on a busy
//! processor while such a one runs on the next. Linux's idle policy (sched(7)) has neither.
//! It never gives a process more of the processor.

use std::{fs, mem::size_of};

use super::time_slice::SHORTEST;

const LEAST_PRIORITY: i32 = 19;

/// The process with this number, and all that it starts from now on. Where the kernel refuses, all stays as it was.
pub fn make_idle(pid: i32) {
    // Threads that start meanwhile have the policy of the one that started them: the second look finds the others.
    for _ in 0..2 {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).for_each(make_thread_idle);
    }
}

#[allow(unsafe_code)]
fn make_thread_idle(thread: i32) {
    // SAFETY: the structure consists of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_IDLE as u32;
    attributes.sched_nice = LEAST_PRIORITY;
    // Those of another session wait for the end of a slice all the same.
    attributes.sched_runtime = SHORTEST;
    // SAFETY: the kernel reads `size` bytes, which the structure has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        process::{Command, Stdio},
    };

    use super::*;

    /// Of a thread, as the kernel tells it: the 41st field of proc_pid_stat(5).
    fn policy(stat: &str) -> i32 {
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn a_process_and_what_it_starts_are_idle() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r go; cat /proc/self/stat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let stat = format!("/proc/{}/stat", shell.id());
        assert_eq!(policy(&fs::read_to_string(&stat).unwrap()), libc::SCHED_OTHER);
        make_idle(shell.id() as i32);
        assert_eq!(policy(&fs::read_to_string(&stat).unwrap()), libc::SCHED_IDLE);
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut of_child = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut of_child).unwrap();
        assert_eq!(policy(&of_child), libc::SCHED_IDLE);
        shell.wait().unwrap();
    }
}
