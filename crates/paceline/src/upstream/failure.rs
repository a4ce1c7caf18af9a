//! Why an upstream gave no response. It never decides which status that is.

use std::{error::Error, io, time::Duration};

use super::address::Address;
use crate::request::incoming::Unread;

/// Why there is no response. Each that is the upstream's fault names it.
#[derive(Debug)]
pub enum Failure {
    /// Its name can't be resolved, or nobody takes the connection.
    Unreachable { upstream: String, why: String },
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
    /// What hyper's client says of an exchange.
    pub(super) fn of(error: hyper::Error, upstream: &Address) -> Failure {
        let why = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Failure::Broken { upstream: upstream.to_string(), why }
    }
}
