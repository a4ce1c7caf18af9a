//! What is left of the first front when another has taken its place: a process with the pid by which service managers,
//! terminals and pidfiles know the server. It passes signals on to the front that serves, and ends as that one ends. It
//! never serves.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::{Command, ExitCode},
};

use rustix::{
    io::{fcntl_setfd, FdFlags},
    process::{getpid, kill_process, set_child_subreaper, wait, Pid, Signal, WaitOptions},
};
use tokio::{
    signal::unix::{signal, SignalKind},
    sync::mpsc,
};

use super::{lineage::Lineage, Successor};
use crate::{apps::reaper::Exit, content::spool, support::signal_mask};

/// The first argument of a stand-in; then the front's pid and the descriptor where it is told of later ones.
pub const FLAG: &str = "--stand-in-for";

/// Ends this front, which has been replaced: the first becomes the stand-in, a later one just ends. The other threads
/// have ended or don't take signals.
pub fn follow(mut successor: Successor, mut lineage: Lineage) -> ExitCode {
    signal_mask::block();
    if let Ok(exit) = successor.exit.try_recv() {
        return status(exit);
    }
    let Some(hearing) = lineage.hearing() else { return ExitCode::SUCCESS };
    // What has not ended by now would outlive us.
    for child in children() {
        if child != successor.pid {
            send(child, Signal::KILL);
        }
    }
    let failed = fcntl_setfd(&hearing, FdFlags::empty()).map_err(io::Error::from).map(|()| {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("paceline").arg(FLAG).arg(successor.pid.to_string()).arg(hearing.as_raw_fd().to_string());
        // This very program, also if its file has been replaced. It has the same children and the same pid.
        command.exec()
    });
    let (Ok(error) | Err(error)) = failed;
    eprintln!("paceline: can't stand in for the new server: {error}");
    ExitCode::FAILURE
}

fn children() -> Vec<i32> {
    let own = getpid().as_raw_nonzero();
    let tasks = std::fs::read_dir(format!("/proc/{own}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The stand-in itself. `arguments`: those after its flag.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || arguments.next().and_then(|text| text.to_str()?.parse::<i32>().ok());
    let (Some(front), Some(fd)) = (number(), number()) else {
        eprintln!("paceline: {FLAG} is used only by a server that starts itself");
        return ExitCode::from(2);
    };
    // Otherwise `ps` and `pkill` know it as `exe`.
    let _ = rustix::thread::set_name(c"paceline");
    match stand_in(front, fd) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("paceline: can't stand in for the new server: {error}");
            send(front, Signal::TERM);
            ExitCode::FAILURE
        }
    }
}

fn stand_in(mut front: i32, fd: RawFd) -> io::Result<ExitCode> {
    set_child_subreaper(Some(getpid()))?;
    spool::sweep_own();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ended = signal(SignalKind::child())?;
        let (sender, mut told) = mpsc::unbounded_channel();
        for number in signal_mask::TOLD_BY {
            let (mut signals, sender) = (signal(SignalKind::from_raw(number))?, sender.clone());
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    let _ = sender.send(number);
                }
            });
        }
        let mut successors = receive(fd)?;
        signal_mask::unblock();
        loop {
            if let Some(status) = collect(front) {
                return Ok(status);
            }
            tokio::select! {
                biased;
                Some(pid) = successors.recv() => front = pid,
                Some(number) = told.recv() => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        send(front, signal);
                    }
                }
                _ = ended.recv() => {}
            }
        }
    })
}

/// Pids of fronts that have taken over.
#[allow(unsafe_code)]
fn receive(fd: RawFd) -> io::Result<mpsc::UnboundedReceiver<i32>> {
    if !std::path::Path::new(&format!("/proc/self/fd/{fd}")).exists() {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: the front that became us left this descriptor open for us; it was just seen to be open, and nothing else
    // owns it.
    let pipe = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(&pipe, FdFlags::CLOEXEC)?;
    let (sender, pids) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("successors".into()).spawn(move || {
        signal_mask::block();
        let lines = BufReader::new(std::fs::File::from(pipe)).lines();
        for pid in lines.map_while(Result::ok).filter_map(|line| line.trim().parse().ok()) {
            let _ = sender.send(pid);
        }
        // Nobody writes any more: the front is about to end. Its exit is what counts.
        std::thread::park();
    })?;
    Ok(pids)
}

/// Collects whoever has ended. Some: the front has, and so do we.
fn collect(front: i32) -> Option<ExitCode> {
    let mut last = None;
    let mut over = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, how))) => {
                let exit = match (how.exit_status(), how.terminating_signal()) {
                    (Some(status), _) => Exit::Status(status),
                    (_, Some(signal)) => Exit::Signal(signal),
                    _ => continue,
                };
                last = Some(exit);
                if pid.as_raw_nonzero().get() == front {
                    over = Some(exit);
                }
            }
            Ok(None) => return over.map(status),
            // Nobody is left: the front ended before the one that it had replaced, which tells of it.
            Err(_) => return Some(status(over.or(last).unwrap_or(Exit::Status(1)))),
        }
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// As shells tell it.
fn status(exit: Exit) -> ExitCode {
    ExitCode::from(match exit {
        Exit::Untold => 1,
        Exit::Status(status) => u8::try_from(status).unwrap_or(1),
        Exit::Signal(signal) => u8::try_from(128 + signal).unwrap_or(1),
    })
}
