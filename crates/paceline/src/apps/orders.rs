//! What an app's actor is told, and what it shows of itself. It carries out nothing.

use std::{path::PathBuf, sync::Arc, time::Instant};

use parking_lot::RwLock;
use tokio::sync::oneshot;

use super::{
    attempts::{Cause, Outcome},
    canary::Plan,
    generation::NotForked,
    memory,
    overview::Overview,
    worker_process::Grace,
};
use crate::{caching::auto::Reporter, config::SiteConfig, origins::workers::dispatch::queue::WorkerId};
use startup_report::StartupReport;

/// What the app is doing.
#[derive(Debug, Clone)]
pub enum State {
    /// Not started yet, or stopped.
    Stopped,
    Starting,
    Ready,
    Failed {
        report: Arc<StartupReport>,
        /// When a request may start it again. None: never.
        retry_at: Option<Instant>,
    },
}

/// Why a rollback was refused. Its words are what `paceline rollback` prints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RollbackRefused {
    #[error("{0} is not running")]
    NotRunning(String),
    #[error("{0}: a new version is starting. Wait for it (paceline restart --wait), then roll back")]
    Starting(String),
    #[error("{0}: no version is running. Fix the error, then run `paceline restart`")]
    NothingServes(String),
    #[error("{site}: nothing to roll back to: {why}")]
    NothingBefore { site: String, why: &'static str },
}

/// What the actor is told.
pub enum Order {
    /// Start unless it is up or starting.
    Start,
    /// Boot a new generation beside the one that serves, and switch when it is ready.
    Restart(Wish),
    /// Go back to the release before. Answered with the number of the attempt.
    Rollback(oneshot::Sender<Result<u64, RollbackRefused>>),
    /// Say what came of a restart: see `Attempts::outcome`.
    Outcome(u64, oneshot::Sender<Option<Option<Outcome>>>),
    /// Add (or take away) a worker.
    Grow,
    Shrink,
    /// Say how everything stands.
    Tell(oneshot::Sender<Overview>),
    /// Ask a worker where a thread of it (from 1) is.
    AskBacktrace {
        worker: WorkerId,
        thread: usize,
        answer: oneshot::Sender<String>,
    },
    /// Have the preloader fork a shadow, which connects to this Unix socket. Answered when it has been asked.
    Shadow(PathBuf, oneshot::Sender<Result<(), NotForked>>),
    /// Tell from now on which processes live.
    Report(Reporter),
    /// Ask the processes what Ruby's heaps hold.
    AskMemory(oneshot::Sender<Vec<memory::HeapQuery>>),
    /// Finish what is in hand within the time, then end all processes.
    Stop {
        grace: Grace,
        done: oneshot::Sender<()>,
    },
}

/// The settings that what serves was started with, as they change.
pub type SharedSettings = Arc<RwLock<Arc<SiteConfig>>>;

/// A restart that somebody wants.
pub struct Wish {
    pub cause: Cause,
    /// The new generation is tried with a share of the requests first.
    pub canary: Option<Plan>,
    /// Told the number of the attempt at once.
    pub begun: Option<oneshot::Sender<u64>>,
    /// Told what came of it.
    pub done: Option<oneshot::Sender<Outcome>>,
}

impl Wish {
    /// Of one who does not wait.
    pub fn by(cause: Cause) -> Wish {
        Wish { cause, canary: None, begun: None, done: None }
    }
}
