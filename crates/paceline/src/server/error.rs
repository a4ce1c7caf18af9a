//! Why the server could not begin, and why a new front does not take over from one that serves.
//! It never decides what follows from it.

use std::io;

use super::{opening::ListenerError, pidfile::PidfileError};
use crate::{
    edge::{acme::StorageError, tls::own::OwnCertificateError},
    request::rules::passwords::PasswordFileError,
    server::control::ControlError,
};

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A log's file.
    #[error("{0}")]
    Log(io::Error),
    #[error(transparent)]
    Pidfile(#[from] PidfileError),
    #[error(transparent)]
    Certificates(#[from] StorageError),
    #[error(transparent)]
    OwnCertificate(#[from] OwnCertificateError),
    #[error(transparent)]
    Listener(#[from] ListenerError),
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A file of passwords.
    #[error(transparent)]
    Passwords(#[from] PasswordFileError),
    #[error("event loop: {0}")]
    EventLoop(io::Error),
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Why this front does not take over. The other one goes on serving.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    #[error("nothing to take over: {0}")]
    Nothing(io::Error),
    #[error("site {site}: the old server runs an application there, and its root has none now")]
    NoApplication { site: String },
    /// The report of a start that failed.
    #[error("{0}")]
    FailedStart(String),
    #[error("the server that started this program is gone")]
    Orphaned,
    #[error("the handover failed: a bug of the server's")]
    Panicked,
    #[error("{0}")]
    System(#[from] io::Error),
}
