//! Answers to those of whom it can't be found out who they are, and the address that failures are counted for.
//! It never decides whether somebody comes in.

use std::net::{IpAddr, Ipv4Addr};

use http::{header, HeaderValue, StatusCode};
use sign_in::RetryAfter;

use super::{provider::Fault, GateAnswer};
use crate::exchange::Exchange;

/// The address that failures are counted for. All clients without one share it.
pub fn address(exchange: &Exchange) -> IpAddr {
    exchange.client.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

pub fn too_often(RetryAfter(millis): RetryAfter) -> GateAnswer {
    let seconds = millis.div_ceil(1000).max(1);
    let mut answer = GateAnswer::new(
        StatusCode::TOO_MANY_REQUESTS,
        "Signing in has failed too often. Please wait a moment before you try again.",
    );
    answer.fields.push((header::RETRY_AFTER, HeaderValue::from(seconds)));
    answer.noted("too-often", format!("signing in has failed too often; {seconds} s to wait"))
}

/// Nobody can find out who this is, and so nobody comes in.
pub fn unavailable(fault: Fault) -> GateAnswer {
    let (kind, text) = match fault {
        Fault::Ours { kind, text } | Fault::Denied { kind, text } => (kind, text),
        other => ("other", format!("{other:?}")),
    };
    let sentence = "Signing in is not possible at the moment. Please try again shortly.";
    let mut answer = GateAnswer::new(StatusCode::SERVICE_UNAVAILABLE, sentence).noted(kind, text);
    answer.fields.push((header::RETRY_AFTER, HeaderValue::from_static("5")));
    answer
}
