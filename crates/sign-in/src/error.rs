//! Why a session can't be looked up or kept. It never has the session's content.

use std::path::PathBuf;

/// What went wrong, in words for the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The file can't be used as it is. Nothing is changed.
    #[error("the sessions of single sign-on can't be kept in {path}: {why}", path = path.display())]
    File { path: PathBuf, why: String },
    /// Redis does not answer, or refuses the command. `server` has no password.
    #[error("the sessions of single sign-on can't be reached in Redis at {server}: {why}")]
    Redis { server: String, why: String },
    /// The setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The task that did it has panicked: a mistake in Paceline.
    #[error("the sessions of single sign-on can't be used: a mistake in Paceline; please report it")]
    Mistake,
}
