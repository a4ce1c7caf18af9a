//! Why an upstream gave no response. It never decides which status that is.

use std::{io, time::Duration};

use super::address::Address;
use crate::exchange::incoming::Unread;

/// Errors of a connection that was not even tried.
const LOCAL: [i32; 3] = [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL];

/// Why there is no response. Each that is the upstream's fault names it.
#[derive(Debug)]
pub enum Failure {
    /// Its name can't be resolved, nobody takes the connection, or its certificate is refused. `is_local`: this machine has
    /// no descriptor or port for it.
    Unreachable { upstream: String, why: String, is_local: bool },
    /// The connection was not made in time.
    ConnectTimedOut { upstream: String, after: Duration },
    /// It closed, or what it sent is no HTTP response.
    Broken { upstream: String, why: String },
    /// No answer within the time for it.
    TimedOut { upstream: String, after: Duration },
    /// The client did not send the body it had begun.
    Body(Unread),
    /// The request's body, a file, can't be read.
    Spool(io::Error),
}

impl Failure {
    /// No connection, in the words of the pool. `after`: the time that was allowed.
    pub(super) fn of_opening(failure: &client_pool::Failure, upstream: &Address, after: Duration) -> Failure {
        let upstream = upstream.to_string();
        match failure {
            client_pool::Failure::OpenTimeout(_) => Failure::ConnectTimedOut { upstream, after },
            other => {
                let is_local = matches!(other, client_pool::Failure::Connect { errno, .. } if LOCAL.contains(errno));
                Failure::Unreachable { upstream, why: other.explain(), is_local }
            }
        }
    }

    /// Whether it says nothing about the host.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Failure::Unreachable { is_local: true, .. })
    }

    /// What went wrong, without the host's name.
    pub(super) fn words(&self) -> String {
        match self {
            Failure::Unreachable { why, .. } | Failure::Broken { why, .. } => why.clone(),
            Failure::ConnectTimedOut { .. } => "no connection in time".into(),
            Failure::TimedOut { .. } => "no answer in time".into(),
            Failure::Body(_) | Failure::Spool(_) => "the request's body can't be read".into(),
        }
    }

    /// A connection, and no response on it.
    pub(super) fn of_exchange(failure: &client_pool::Failure, upstream: &Address) -> Failure {
        Failure::Broken { upstream: upstream.to_string(), why: failure.explain() }
    }
}
