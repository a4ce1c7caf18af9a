//! Signals as what they tell the server.
//! It never acts on them.

use std::time::{Duration, Instant};

use tokio::signal::unix::{signal, Signal, SignalKind};

/// A second TERM or INT that comes sooner is an echo of the first.
const ECHO: Duration = Duration::from_secs(1);

/// Whether a repetition at this moment is none.
pub fn is_echo(first: Instant) -> bool {
    first.elapsed() < ECHO
}

/// What a signal tells us, in Puma's meaning.
pub enum SignalCommand {
    Stop,
    Halt,
    Restart,
    Upgrade,
    Reopen,
    Tell,
    Grow,
    Shrink,
}

pub struct Signals {
    term: Signal,
    int: Signal,
    quit: Signal,
    usr1: Signal,
    usr2: Signal,
    hup: Signal,
    pwr: Signal,
    ttin: Signal,
    ttou: Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Signals> {
        // TTIN, TTOU and PWR have no name of their own in tokio.
        let raw = |number| signal(SignalKind::from_raw(number));
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            usr1: signal(SignalKind::user_defined1())?,
            usr2: signal(SignalKind::user_defined2())?,
            hup: signal(SignalKind::hangup())?,
            pwr: raw(rustix::process::Signal::POWER.as_raw())?,
            ttin: raw(rustix::process::Signal::TTIN.as_raw())?,
            ttou: raw(rustix::process::Signal::TTOU.as_raw())?,
        })
    }

    pub async fn next(&mut self) -> SignalCommand {
        tokio::select! {
            _ = self.term.recv() => SignalCommand::Stop,
            _ = self.int.recv() => SignalCommand::Stop,
            _ = self.quit.recv() => SignalCommand::Halt,
            _ = self.usr1.recv() => SignalCommand::Restart,
            _ = self.usr2.recv() => SignalCommand::Upgrade,
            _ = self.hup.recv() => SignalCommand::Reopen,
            _ = self.pwr.recv() => SignalCommand::Tell,
            _ = self.ttin.recv() => SignalCommand::Grow,
            _ = self.ttou.recv() => SignalCommand::Shrink,
        }
    }

    /// Told to stop once more. A repetition within a moment is the same word, delivered to the process and to its group
    /// (a terminal and a process manager, `timeout`).
    pub async fn again(&mut self, first: Instant) {
        loop {
            match self.next().await {
                SignalCommand::Stop if is_echo(first) => {}
                SignalCommand::Stop | SignalCommand::Halt => return,
                _ => {}
            }
        }
    }
}
