//! A worker process as the front knows it: where it stands between its fork and its end. What is to be done with it is
//! decided in `actor`.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

use super::reaper::Exit;
use crate::origins::workers::protocol::{
    channel::Channel,
    control::ControlWriter,
    fields,
    frame::{encode, kind},
    ruby_heap::RubyHeap,
};

/// A process that was killed and has not ended is killed again after this time.
const NEXT_KILL: Duration = Duration::from_secs(3600);
/// What a request has for its `ensure` after it was interrupted.
const LAST_CODE: Duration = Duration::from_secs(2);

/// The times of a worker that is told to finish what it has.
#[derive(Debug, Clone, Copy)]
pub struct Grace {
    /// After this an exception ends what it still does, so that `ensure` and `close` run.
    pub interrupt: Duration,
    pub kill: Duration,
}

impl From<Duration> for Grace {
    fn from(kill: Duration) -> Grace {
        Grace { interrupt: kill - LAST_CODE.min(kill / 2), kill }
    }
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerStage {
    /// It has not said yet that it is ready. It is killed at this moment.
    Booting { kill_at: Instant },
    /// It takes requests, or would as soon as its generation does.
    Serving,
    /// It takes no requests while it becomes the mold of the next generation. It is killed at this moment.
    Preparing { kill_at: Instant },
    /// It was told to finish what it has. It is killed at this moment. `ready`: it had become ready.
    Draining { kill_at: Instant, ready: bool },
}

/// How much of its end has been seen. It is told twice: its preloader says how it ended, and its control socket closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// Nothing: it runs.
    None,
    /// The socket is closed. How it ended is waited for until this moment.
    Closed { until: Instant },
    /// It has ended. Its last frames are waited for until this moment: a process that it forked may hold its socket open.
    Exited { exit: Exit, until: Instant },
}

/// One worker process.
pub struct Worker {
    pub index: usize,
    pub pid: i32,
    pub control: ControlWriter,
    pub forked: Instant,
    pub stage: WorkerStage,
    pub end: WorkerEnd,
    /// Pipes of its outputs that it has sent.
    pub outputs: usize,
    /// Channels that came before the worker was ready.
    #[allow(clippy::vec_box)]
    pub early: Vec<Box<Channel>>,
    /// The memory that came for the channel of this thread, which comes next.
    pub mailbox: Option<(usize, OwnedFd)>,
    /// It has answered requests, or died with one that was known to be dangerous: its end says nothing against the
    /// next one.
    pub served: bool,
    /// It was complained of.
    pub faulty: bool,
    /// Its successor has been asked for, or it is to have none: it was one too many.
    pub replaced: bool,
    /// Who wants to know where a thread is.
    pub asked: Vec<(usize, oneshot::Sender<String>)>,
    /// Nothing is expected of it any more but where it is stuck.
    pub end_on_backtrace: bool,
    /// What it told last of Ruby's heap.
    pub heap: watch::Sender<Option<RubyHeap>>,
    /// It is to go after so many requests.
    pub quota: Option<u64>,
    /// It was killed for its memory.
    pub condemned: bool,
}

impl Worker {
    /// One that was just forked, and may boot for this long.
    pub fn new(index: usize, pid: i32, control: ControlWriter, start_timeout: Duration, quota: Option<u64>) -> Worker {
        let forked = Instant::now();
        Worker {
            index,
            pid,
            control,
            forked,
            stage: WorkerStage::Booting { kill_at: forked + start_timeout },
            end: WorkerEnd::None,
            outputs: 0,
            early: Vec::new(),
            mailbox: None,
            served: false,
            faulty: false,
            replaced: false,
            asked: Vec::new(),
            end_on_backtrace: false,
            heap: watch::Sender::new(None),
            quota,
            condemned: false,
        }
    }

    /// Whether it has booted.
    pub fn is_ready(&self) -> bool {
        self.stage.is_ready()
    }

    /// Tells it to finish what it has, and to end.
    pub async fn drain(&mut self, grace: Grace) {
        let interrupt = grace.interrupt.as_millis().to_string();
        let _ = self.control.send(&encode(kind::DRAIN, |out| fields::put(out, interrupt))).await;
        self.stage = self.stage.draining(Instant::now() + grace.kill);
    }

    /// Whether its control socket is still open.
    pub fn is_reachable(&self) -> bool {
        !matches!(self.end, WorkerEnd::Closed { .. })
    }

    /// Whether it takes requests, and is there to take them.
    pub fn serves(&self) -> bool {
        self.stage == WorkerStage::Serving && self.is_reachable()
    }

    /// The moments until which something of it is waited for.
    pub fn deadlines(&mut self) -> impl Iterator<Item = &mut Instant> {
        let end = match &mut self.end {
            WorkerEnd::None => None,
            WorkerEnd::Closed { until } | WorkerEnd::Exited { until, .. } => Some(until),
        };
        self.stage.kill_at_mut().into_iter().chain(end)
    }

    /// When the other sign of its end is waited for no longer.
    pub fn end_due(&self) -> Option<Instant> {
        match self.end {
            WorkerEnd::None => None,
            WorkerEnd::Closed { until } | WorkerEnd::Exited { until, .. } => Some(until),
        }
    }

    /// How it ended, as far as that was told.
    pub fn exit(&self) -> Option<Exit> {
        match self.end {
            WorkerEnd::Exited { exit, .. } => Some(exit),
            WorkerEnd::None | WorkerEnd::Closed { .. } => None,
        }
    }
}

impl WorkerStage {
    /// Whether the worker has booted.
    pub fn is_ready(self) -> bool {
        !matches!(self, WorkerStage::Booting { .. } | WorkerStage::Draining { ready: false, .. })
    }

    /// Whether it was asked to go, one way or the other, after it had booted.
    pub fn is_leaving(self) -> bool {
        matches!(self, WorkerStage::Preparing { .. } | WorkerStage::Draining { ready: true, .. })
    }

    /// Whether it was told to finish what it has.
    pub fn is_draining(self) -> bool {
        matches!(self, WorkerStage::Draining { .. })
    }

    /// When the process is killed if it has not gone on by then. None: it may stay.
    pub fn kill_at(mut self) -> Option<Instant> {
        self.kill_at_mut().copied()
    }

    fn kill_at_mut(&mut self) -> Option<&mut Instant> {
        match self {
            WorkerStage::Serving => None,
            WorkerStage::Booting { kill_at }
            | WorkerStage::Preparing { kill_at }
            | WorkerStage::Draining { kill_at, .. } => Some(kill_at),
        }
    }

    /// It has said that it is ready. One that is to finish does so all the same.
    pub fn booted(self) -> WorkerStage {
        match self {
            WorkerStage::Draining { kill_at, .. } => WorkerStage::Draining { kill_at, ready: true },
            _ => WorkerStage::Serving,
        }
    }

    /// It is told to finish what it has by this moment.
    pub fn draining(self, kill_at: Instant) -> WorkerStage {
        WorkerStage::Draining { kill_at, ready: self.is_ready() }
    }

    /// Whether its time is over; the next time is set.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        let overdue = self.kill_at_mut().filter(|at| **at <= now);
        overdue.map(|at| *at = now + NEXT_KILL).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_drains_before_it_is_ready_drains_on() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let booting = WorkerStage::Booting { kill_at: now };
        assert!(!booting.is_ready() && !booting.is_leaving());
        assert_eq!(booting.booted(), WorkerStage::Serving);
        let draining = booting.draining(now + second);
        assert!(!draining.is_ready() && !draining.is_leaving() && draining.is_draining());
        let ready = draining.booted();
        assert!(ready.is_ready() && ready.is_leaving());
        assert_eq!(ready.kill_at(), Some(now + second));
        assert_eq!(WorkerStage::Serving.draining(now), WorkerStage::Draining { kill_at: now, ready: true });
    }

    #[test]
    fn what_is_interrupted_has_time_before_the_kill() {
        for (kill, interrupt) in [(30_000, 28_000), (2_000, 1_000), (0, 0)] {
            let grace = Grace::from(Duration::from_millis(kill));
            assert_eq!(grace.interrupt, Duration::from_millis(interrupt));
        }
    }

    #[test]
    fn one_that_outlives_its_time_is_killed_again_much_later() {
        let now = Instant::now();
        let mut stage = WorkerStage::Draining { kill_at: now, ready: true };
        assert!(stage.is_overdue(now) && !stage.is_overdue(now));
        assert_eq!(stage.kill_at(), Some(now + NEXT_KILL));
        assert!(!WorkerStage::Serving.is_overdue(now));
    }
}
