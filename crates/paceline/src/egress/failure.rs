//! Why an outbound call has no response, in the words of the egress protocol. It never decides what becomes of the
//! call.

use std::{
    error::Error,
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use http::{HeaderValue, StatusCode};
use sfv::{BareItem, ItemSerializer, StringRef, Token};

/// Each is one kind of docs/egress-protocol.md.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The name has no address.
    Resolve(String),
    Connect {
        address: SocketAddr,
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

    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Request(_) => StatusCode::BAD_REQUEST,
            Failure::OpenTimeout(_) | Failure::Deadline => StatusCode::GATEWAY_TIMEOUT,
            Failure::Full(_) | Failure::OpenCircuit { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// The value of `Paceline-Egress-Error`.
    pub fn field(&self) -> HeaderValue {
        let kind = Token::from_string(self.kind().into()).unwrap_or_else(|_| unreachable!("kinds are tokens"));
        let mut item = ItemSerializer::new().bare_item(&BareItem::Token(kind));
        let mut parameter = |name: &str, value: BareItem| {
            let name = sfv::KeyRef::from_str(name).unwrap_or_else(|_| unreachable!("names are keys"));
            let serializer = std::mem::replace(&mut item, ItemSerializer::new().bare_item(true));
            item = serializer.parameter(name, &value);
        };
        match self {
            Failure::Connect { address, errno, message } => {
                parameter("errno", i64::from(*errno).try_into().map_or(BareItem::Boolean(true), BareItem::Integer));
                parameter("address", text(&address.to_string()));
                parameter("message", text(message));
            }
            Failure::OpenTimeout(Some(address)) => parameter("address", text(&address.to_string())),
            Failure::Proxy { status, message } => {
                parameter("status", BareItem::Integer((*status).into()));
                parameter("message", text(message));
            }
            Failure::Closed { sent } => parameter("sent", BareItem::Boolean(*sent)),
            Failure::Reset { errno, sent } => {
                parameter("errno", BareItem::Integer((*errno).into()));
                parameter("sent", BareItem::Boolean(*sent));
            }
            Failure::Denied { address, message } => {
                address.iter().for_each(|address| parameter("address", text(&address.to_string())));
                parameter("message", text(message));
            }
            Failure::OpenCircuit { retry_after } => {
                parameter("retry_after", BareItem::Integer((retry_after.as_secs().min(86_400) as u32).into()));
            }
            Failure::Resolve(message)
            | Failure::Tls(message)
            | Failure::Protocol(message)
            | Failure::Full(message)
            | Failure::Unsupported(message)
            | Failure::Request(message) => parameter("message", text(message)),
            Failure::OpenTimeout(None) | Failure::Deadline | Failure::Cancelled => {}
        }
        HeaderValue::from_str(&item.finish()).unwrap_or_else(|_| HeaderValue::from_static("protocol"))
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

/// A String of structured fields has printable ASCII only.
fn text(words: &str) -> BareItem {
    let printable: String = words.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect();
    StringRef::from_str(&printable).map_or(BareItem::Boolean(true), |text| BareItem::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_tells_kind_and_parameters() {
        let address = "127.0.0.1:81".parse().unwrap();
        let failed = Failure::Connect { address, errno: 111, message: "Connection refused\n\"ü\"".into() };
        assert_eq!(failed.field(), r#"connect;errno=111;address="127.0.0.1:81";message="Connection refused?\"?\"""#);
        assert_eq!(Failure::Deadline.field(), "deadline");
        assert_eq!(Failure::Closed { sent: false }.field(), "closed;sent=?0");
        assert_eq!(Failure::OpenCircuit { retry_after: Duration::from_secs(3) }.field(), "open_circuit;retry_after=3");
        assert_eq!(Failure::OpenTimeout(None).field(), "open_timeout");
    }

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
