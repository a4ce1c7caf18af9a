//! Sees that nothing of a side process outlives the front, however that ends: a process of our own that is told their
//! process groups and kills them when the pipe to it is closed. (PDEATHSIG reaches only the process itself, not what it
//! has forked.) It never does anything as long as the front lives.

use std::{
    collections::HashSet,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, ExitCode, Stdio},
};

use parking_lot::Mutex;
use rustix::process::{kill_process_group, Pid, Signal};

/// The first argument of the program that does it.
pub const GUARD: &str = "--guard";

static PIPE: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// The process group `group` is to end with the front.
pub fn watch(group: i32) {
    tell(format!("+{group}\n"));
}

/// It has ended.
pub fn forget(group: i32) {
    tell(format!("-{group}\n"));
}

fn tell(line: String) {
    let mut pipe = PIPE.lock();
    if pipe.is_none() {
        *pipe = start().ok();
    }
    // Without a guard there is still PDEATHSIG.
    if pipe.as_mut().is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_err()) {
        *pipe = None;
    }
}

fn start() -> io::Result<ChildStdin> {
    let mut command = Command::new("/proc/self/exe");
    // A group of its own: what a terminal sends is for the server.
    command.arg(GUARD).env_clear().current_dir("/").process_group(0);
    let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    guard.stdin.take().ok_or_else(|| io::Error::other("no pipe to the guard"))
}

/// The guard's own life: until the front's is over.
pub fn run() -> ExitCode {
    let mut groups = HashSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        apply(&mut groups, &line);
    }
    for group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

fn apply(groups: &mut HashSet<Pid>, line: &str) {
    let (sign, number) = line.split_at_checked(1).unwrap_or_default();
    let group = number.parse().ok().filter(|number| *number > 1).and_then(Pid::from_raw);
    match (sign, group) {
        ("+", Some(group)) => drop(groups.insert(group)),
        ("-", Some(group)) => drop(groups.remove(&group)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_still_runs_is_killed() {
        let mut groups = HashSet::new();
        for line in ["+12", "+13", "-12", "", "+", "+0", "+1", "+-5", "é", "-99"] {
            apply(&mut groups, line);
        }
        assert_eq!(groups.into_iter().map(|group| group.as_raw_nonzero().get()).collect::<Vec<_>>(), [13]);
    }
}
