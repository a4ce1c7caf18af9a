//! Why a request has no response. It never decides what becomes of the request.

use std::{
    error::Error,
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// Each is one kind of docs/egress-protocol.md, which has their meanings.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The name has no address.
    Resolve(String),
    Connect {
        /// None: a Unix socket.
        address: Option<SocketAddr>,
        errno: i32,
        message: String,
    },
    /// No connection in time; to this address, if one was being made.
    OpenTimeout(Option<SocketAddr>),
    /// The response was not there in time.
    Deadline,
    Tls(String),
    /// What the proxy said in place of 200.
    Proxy {
        status: u16,
        message: String,
    },
    /// The connection was closed before a response.
    Closed {
        sent: bool,
    },
    Reset {
        errno: i32,
        sent: bool,
    },
    /// What came is no HTTP.
    Protocol(String),
    /// Who it was made for has left.
    Cancelled,
    /// Whom the operator has forbidden to ask.
    Denied {
        address: Option<IpAddr>,
        message: String,
    },
    /// Too many calls wait already.
    Full(String),
    OpenCircuit {
        retry_after: Duration,
    },
    /// What the front can't do as it is asked for.
    Unsupported(String),
    /// What makes no sense.
    Request(String),
}

impl Failure {
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Resolve(_) => "resolve",
            Failure::Connect { .. } => "connect",
            Failure::OpenTimeout(_) => "open_timeout",
            Failure::Deadline => "deadline",
            Failure::Tls(_) => "tls",
            Failure::Proxy { .. } => "proxy",
            Failure::Closed { .. } => "closed",
            Failure::Reset { .. } => "reset",
            Failure::Protocol(_) => "protocol",
            Failure::Cancelled => "cancelled",
            Failure::Denied { .. } => "denied",
            Failure::Full(_) => "full",
            Failure::OpenCircuit { .. } => "open_circuit",
            Failure::Unsupported(_) => "unsupported",
            Failure::Request(_) => "request",
        }
    }

    /// What hyper's client says of an exchange. `sent`: the request may have left.
    pub fn of(error: &(dyn Error + 'static), sent: bool) -> Failure {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(one) = cause {
            if let Some(error) = one.downcast_ref::<io::Error>() {
                use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
                match error.kind() {
                    ConnectionReset | ConnectionAborted | BrokenPipe => {
                        return Failure::Reset { errno: error.raw_os_error().unwrap_or(libc::ECONNRESET), sent }
                    }
                    UnexpectedEof => return Failure::Closed { sent },
                    _ => {}
                }
            }
            if let Some(error) = one.downcast_ref::<hyper::Error>() {
                if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
                    return Failure::Closed { sent };
                }
            }
            cause = one.source();
        }
        Failure::Protocol(with_causes(error))
    }
}

impl Failure {
    /// What went wrong, in words for the operator. They have nothing of what was sent.
    pub fn explain(&self) -> String {
        match self {
            Failure::Connect { message, .. }
            | Failure::Denied { message, .. }
            | Failure::Resolve(message)
            | Failure::Tls(message)
            | Failure::Protocol(message)
            | Failure::Full(message)
            | Failure::Unsupported(message)
            | Failure::Request(message) => message.clone(),
            Failure::OpenTimeout(_) => "no connection in time".into(),
            Failure::Deadline => "no response in time".into(),
            Failure::Proxy { status, message } => format!("the proxy answered {status} {message}"),
            Failure::Closed { .. } => "connection closed before message completed".into(),
            Failure::Reset { errno, .. } => io::Error::from_raw_os_error(*errno).to_string(),
            Failure::Cancelled => "the client has left".into(),
            Failure::OpenCircuit { .. } => "it failed too often; it is left alone for a while".into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Error for Failure {}

/// An error's words and those of what is behind it.
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let more = one.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = one.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_connection_did_is_found_among_the_causes() {
        let reset = io::Error::from_raw_os_error(libc::ECONNRESET);
        assert!(matches!(Failure::of(&reset, true), Failure::Reset { errno: libc::ECONNRESET, sent: true }));
        let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(matches!(Failure::of(&ended, false), Failure::Closed { sent: false }));
        let other = io::Error::other("nonsense");
        assert!(matches!(Failure::of(&other, true), Failure::Protocol(message) if message == "nonsense"));
    }
}
