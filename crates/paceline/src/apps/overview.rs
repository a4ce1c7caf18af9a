//! How an app stands at one moment: its state, its generations and their workers, as status pages, metrics and memory
//! accounting want it. A picture, taken by the actor; it never changes anything and holds nothing open.

use std::{path::PathBuf, sync::Arc, time::Instant};

use super::{generation::Phase, processes::ProcessView};
use crate::origins::workers::dispatch::queue::WorkerId;
use startup_report::StartupReport;

/// One app at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    pub state: Standing,
    /// How the last start failed, if it did: with `Failed` there is nothing that serves, otherwise an older generation
    /// goes on.
    pub failure: Option<Arc<StartupReport>>,
    /// Workers of the generation that serves, as they are wanted.
    pub workers_wanted: usize,
    /// Restarts that were asked for and have not come to an end.
    pub restarts: usize,
    /// The one that serves first, then one on trial, the one that boots, the one kept for a rollback, then those that
    /// finish.
    pub generations: Vec<GenerationView>,
    /// What runs beside its workers.
    pub processes: Vec<ProcessView>,
}

/// What the app is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Stopped,
    Starting,
    Ready,
    Failed,
}

impl Standing {
    /// As status and JSON say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Stopped => "stopped",
            Standing::Starting => "starting",
            Standing::Ready => "ready",
            Standing::Failed => "failed",
        }
    }
}

/// What a generation is for the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves.
    Current,
    /// Boots, or is asked whether it is ready.
    Next,
    /// Has a share of the requests, on trial.
    Canary,
    /// Its preloader is kept for a rollback.
    Previous,
    /// Finishes its last requests.
    Leaving,
}

impl Role {
    /// As status and JSON say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Current => "current",
            Role::Next => "next",
            Role::Canary => "canary",
            Role::Previous => "previous",
            Role::Leaving => "leaving",
        }
    }
}

/// One generation.
#[derive(Debug, Clone)]
pub struct GenerationView {
    pub role: Role,
    pub number: u64,
    pub phase: Phase,
    pub began: Instant,
    /// Unix seconds.
    pub began_at: f64,
    /// The real path of the root that it was loaded from.
    pub release: PathBuf,
    /// Such as "ruby 3.1.2, rack 2.2.6"; empty until the app is loaded.
    pub versions: String,
    /// It was forked from a worker of the one before.
    pub reforked: bool,
    /// None: the preloader was there before the front and is not its child.
    pub preloader: Option<i32>,
    /// By index.
    pub workers: Vec<WorkerView>,
}

/// One worker process.
#[derive(Debug, Clone)]
pub struct WorkerView {
    pub id: WorkerId,
    /// 1-based; a worker and its successor have the same.
    pub index: usize,
    pub pid: i32,
    pub forked: Instant,
    pub ready: bool,
    /// It gets no more requests.
    pub leaving: bool,
    /// Requests it has answered.
    pub answered: u64,
    /// Requests in its hands.
    pub busy: usize,
    /// Streams beside these.
    pub streams: usize,
    /// Connections that the app has taken over, such as WebSockets.
    pub hijacked: usize,
}

#[cfg(test)]
impl WorkerView {
    /// One that is ready and has work in hand, for tests.
    pub fn sample() -> WorkerView {
        WorkerView {
            id: 7,
            index: 1,
            pid: 42,
            forked: Instant::now(),
            ready: true,
            leaving: false,
            answered: 5,
            busy: 2,
            streams: 1,
            hijacked: 0,
        }
    }
}

impl Overview {
    /// Of an app that has no processes.
    pub fn empty(state: Standing, failure: Option<Arc<StartupReport>>) -> Overview {
        Overview { state, failure, workers_wanted: 0, restarts: 0, generations: Vec::new(), processes: Vec::new() }
    }

    /// The generation that serves.
    pub fn current(&self) -> Option<&GenerationView> {
        self.generations.iter().find(|generation| generation.role == Role::Current)
    }
}
