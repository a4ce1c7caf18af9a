//! Why an outbound call has no response, in the words of the egress protocol. It never decides what becomes of the
//! call.

use client_pool::Failure;
use http::{HeaderValue, StatusCode};
use sfv::{BareItem, ItemSerializer, StringRef, Token};

pub fn status(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Request(_) => StatusCode::BAD_REQUEST,
        Failure::OpenTimeout(_) | Failure::Deadline => StatusCode::GATEWAY_TIMEOUT,
        Failure::Full(_) | Failure::OpenCircuit { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// The value of `Paceline-Egress-Error`.
pub fn field(failure: &Failure) -> HeaderValue {
    let kind = Token::from_string(failure.kind().into()).unwrap_or_else(|_| unreachable!("kinds are tokens"));
    let mut item = ItemSerializer::new().bare_item(&BareItem::Token(kind));
    let mut parameter = |name: &str, value: BareItem| {
        let name = sfv::KeyRef::from_str(name).unwrap_or_else(|_| unreachable!("names are keys"));
        let serializer = std::mem::replace(&mut item, ItemSerializer::new().bare_item(true));
        item = serializer.parameter(name, &value);
    };
    match failure {
        Failure::Connect { address, errno, message } => {
            parameter("errno", i64::from(*errno).try_into().map_or(BareItem::Boolean(true), BareItem::Integer));
            address.iter().for_each(|address| parameter("address", text(&address.to_string())));
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

/// A String of structured fields has printable ASCII only.
fn text(words: &str) -> BareItem {
    let printable: String = words.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect();
    StringRef::from_str(&printable).map_or(BareItem::Boolean(true), |text| BareItem::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_field_tells_kind_and_parameters() {
        let address = "127.0.0.1:81".parse().ok();
        let failed = Failure::Connect { address, errno: 111, message: "Connection refused\n\"ü\"".into() };
        assert_eq!(field(&failed), r#"connect;errno=111;address="127.0.0.1:81";message="Connection refused?\"?\"""#);
        assert_eq!(field(&Failure::Deadline), "deadline");
        assert_eq!(field(&Failure::Closed { sent: false }), "closed;sent=?0");
        assert_eq!(field(&Failure::OpenCircuit { retry_after: Duration::from_secs(3) }), "open_circuit;retry_after=3");
        assert_eq!(field(&Failure::OpenTimeout(None)), "open_timeout");
    }
}
