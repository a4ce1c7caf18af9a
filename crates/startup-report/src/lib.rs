//! What happened while an app started, and what to do about it: one record, shown alike on the terminal and in the
//! browser. It never starts anything.

pub mod backtrace;
pub mod excerpt;
pub mod html;
pub mod phrases;
pub mod place;
pub mod record;
#[cfg(test)]
mod samples;
pub mod suggestion;
pub mod text;

pub use suggestion::{suggest, suggest_for_request, Suggestion};

use std::{path::PathBuf, time::Duration};

use unix_user::RunAs;

/// The steps of a start, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Found,
    Bundler,
    /// Shown only where it was begun.
    Settings,
    Boot,
    Preload,
    Fork,
    Ready,
    /// Shown only where it was begun.
    Check,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    pub step: Step,
    /// Since the start began.
    pub began: Duration,
    /// None: still running, or it failed here.
    pub took: Option<Duration>,
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A Ruby exception reported by the preloader or a worker (docs/worker-protocol.md, FAILED).
    Exception {
        class: String,
        message: String,
        file: Option<PathBuf>,
        line: Option<u32>,
        backtrace: Vec<String>,
        cause: Option<String>,
        detail: Option<String>,
    },
    /// The process ended without a report: exit status or signal.
    Exited { status: Option<i32>, signal: Option<i32>, who: String },
    /// Not ready within the start-up time-out.
    TimedOut { after: Duration },
    /// Its workers were ready, but `GET path` got no good answer; `told`: as "was answered 500 Internal Server Error".
    Unready { path: String, told: String },
    /// The front could not do its own part (no such directory, Ruby not found, permission denied ...).
    System { doing: String, error: String },
}

/// One start of one app, finished or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupReport {
    /// Shown in production pages and in the log: 8 hex digits.
    pub id: String,
    pub site: String,
    pub root: PathBuf,
    pub environment: String,
    pub steps: Vec<StepRecord>,
    pub failure: Option<Failure>,
    /// The last lines the app printed (stdout and stderr), oldest first, bounded.
    pub output: Vec<String>,
    /// The Ruby that was started, and versions when known: "ruby 3.1.2, rails 6.1.7".
    pub versions: String,
    /// With whose rights the files are read that it shows parts of. None: none are.
    pub read_as: Option<RunAs>,
}
