//! A request of the control socket, and the forms that its answers have. It never says what may be asked.

use std::convert::Infallible;

use bytes::Bytes;
use http::{header, request::Parts, HeaderValue, Response, StatusCode};
use http_body_util::{combinators::UnsyncBoxBody, BodyExt, Full};
use percent_encoding::percent_decode_str;
use serde_json::{json, Value};

use crate::observe::{dashboard::history::Span, metrics::Histogram};

pub const HTML: &str = "text/html; charset=utf-8";

/// A request, whole.
pub struct ControlRequest {
    pub head: http::request::Parts,
    pub body: Bytes,
}

/// An answer with nothing wrong is JSON and 200; a refusal says what is wrong.
pub type JsonResult = Result<Value, Refusal>;

#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: String,
}

impl Refusal {
    /// 400.
    pub fn bad(why: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, why: why.into() }
    }
}

/// A body that is there, or that comes over time.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What is not done, and why.
pub fn refused(refusal: Refusal) -> Response<Body> {
    rendered(refusal.status, &json!({ "error": refusal.why }))
}

pub fn rendered(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = whole("application/json", format!("{value}\n"));
    *response.status_mut() = status;
    response
}

/// An answer that is there.
pub fn whole(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Does work that may take a while away from the event loop.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        why: "internal error: a bug in the server".into(),
    })
}

/// The site and the stretch of time that the address names.
pub fn wanted(head: &Parts) -> (Option<String>, Span) {
    let pairs = head.uri.query().unwrap_or("").split('&').filter_map(|pair| pair.split_once('='));
    let (mut site, mut span) = (None, Span::default());
    for (name, value) in pairs {
        match name {
            "site" => site = Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
            "span" if value == Span::TwoHours.as_str() => span = Span::TwoHours,
            _ => {}
        }
    }
    (site, span)
}

/// Of durations, in milliseconds.
pub fn quantiles(histogram: &Histogram) -> Value {
    let millis = |share| histogram.quantile(share).map(|micros| rounded(micros / 1000.0));
    match histogram.count() {
        0 => Value::Null,
        count => json!({
            "count": count,
            "mean": rounded(histogram.sum() as f64 / 1000.0 / count as f64),
            "p50": millis(0.5),
            "p95": millis(0.95),
            "p99": millis(0.99),
        }),
    }
}

/// To three digits after the point: more is noise.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let response = refused(Refusal::bad("no \"tag\""));
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (400, &HeaderValue::from_static("application/json"))
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        assert_eq!(&body[..], b"{\"error\":\"no \\\"tag\\\"\"}\n");
        let failed = runtime.block_on(aside(|| panic!("in the middle")));
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().status, 500);
    }

    #[test]
    fn the_address_names_site_and_span() {
        let head = |uri: &str| http::Request::builder().uri(uri).body(()).unwrap().into_parts().0;
        assert_eq!(wanted(&head("/")), (None, Span::TenMinutes));
        assert_eq!(wanted(&head("/events?site=a%20%26b&span=2h")), (Some("a &b".into()), Span::TwoHours));
        assert_eq!(wanted(&head("/?span=9y&x")), (None, Span::TenMinutes));
    }
}
