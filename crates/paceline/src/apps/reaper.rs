//! Collects the exit statuses of all children, also of orphans that were handed to the front (child subreaper).
//! It never starts or signals a process.

use std::{collections::HashMap, io, sync::Arc};

use parking_lot::Mutex;
use rustix::process::{wait, WaitOptions, WaitStatus};
use tokio::{
    signal::unix::{signal, SignalKind},
    sync::oneshot,
};

/// How a process ended: its exit status, or the signal that killed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Status(i32),
    Signal(i32),
    /// It is gone, and who should tell how does not.
    Untold,
}

impl Exit {
    /// As the worker protocol writes it: `0`..`255`, or `-9` for signal 9.
    pub fn parse(text: &str) -> Option<Exit> {
        let number: i32 = text.parse().ok()?;
        Some(if number < 0 { Exit::Signal(-number) } else { Exit::Status(number) })
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Untold => write!(f, "has closed its sockets, and its preloader does not tell how it ended"),
            Exit::Signal(9) => write!(f, "was killed by signal 9 (KILL)"),
            Exit::Signal(11) => write!(f, "was killed by signal 11 (SEGV)"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// Collects children from now on.
#[derive(Clone, Default)]
pub struct Reaper {
    awaited: Arc<Mutex<HashMap<i32, oneshot::Sender<Exit>>>>,
}

impl Reaper {
    /// Makes the front the reaper of its orphaned descendants and starts collecting. Must be called within an event
    /// loop.
    pub fn start() -> io::Result<Reaper> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let reaper = Reaper::default();
        let mut signals = signal(SignalKind::child())?;
        let collecting = reaper.clone();
        tokio::spawn(async move {
            loop {
                collecting.collect();
                if signals.recv().await.is_none() {
                    return;
                }
            }
        });
        Ok(reaper)
    }

    /// Resolves with the exit of a child that was just started: by this thread, and nothing was awaited since. So it
    /// can't have been collected yet.
    pub fn exit_of(&self, pid: i32) -> oneshot::Receiver<Exit> {
        let (sender, receiver) = oneshot::channel();
        self.awaited.lock().insert(pid, sender);
        receiver
    }

    fn collect(&self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(exit) = exit_of(status) else { continue };
            // Orphans that were handed to us are not awaited by anybody.
            let mut awaited = self.awaited.lock();
            if let Some(sender) = awaited.remove(&pid.as_raw_nonzero().get()) {
                let _ = sender.send(exit);
            }
        }
    }
}

fn exit_of(status: WaitStatus) -> Option<Exit> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Some(Exit::Status(status)),
        (_, Some(signal)) => Some(Exit::Signal(signal)),
        _ => None,
    }
}
