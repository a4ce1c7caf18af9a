//! What happens to the processes of a generation, as its actor is told. It never says what follows.

use std::{os::fd::OwnedFd, time::Duration};

use super::{
    canary::LastLook,
    pages::{Purged, Settled},
    reaper::Exit,
};
use crate::{
    observe::memory_usage::{Machine, Memory},
    origins::workers::{dispatch::queue::WorkerId, protocol::frame::Raw},
};
use startup_report::Failure;

/// Something happened to a process of a generation.
pub struct Event {
    pub generation: u64,
    /// None: the preloader.
    pub worker: Option<WorkerId>,
    pub happened: ActorEvent,
}

pub enum ActorEvent {
    Frame(Raw, Option<OwnedFd>),
    /// The control socket was closed: the process is gone.
    Closed,
    /// Who printed it, and the line.
    Printed(String, String),
    /// Nobody will print to this pipe any more.
    PrintedAll,
    /// The preloader, the front's child, has been reaped.
    Exited(Exit),
    /// The pause before a crashed worker is replaced is over.
    Refork(usize),
    /// The workers' memory has been read.
    Measured(MemoryReading),
    /// What takes a moment was looked at beside the canary.
    LookedAt(LastLook),
    /// It has been asked whether it is ready.
    Rehearsed(Result<Rehearsal, Failure>),
    /// The kept pages are what they are to be with the code that it has loaded.
    PagesRenewed(Purged, Box<Settled>),
}

/// What was read of the memory of all processes.
pub struct MemoryReading {
    pub workers: Vec<(WorkerId, Memory)>,
    pub preloader: Option<Memory>,
    pub front: Memory,
    pub machine: Option<Machine>,
    /// Of processor time.
    pub took: Duration,
}

/// What came of asking a generation whether it is ready.
pub struct Rehearsal {
    /// The path that was asked for, and the answer's status.
    pub asked: Option<(String, u16)>,
    /// Pages that it was warmed with.
    pub warmed: usize,
}
