//! What `config.paceline.front` leaves to the front of a response: its entity tag, as Rack::ETag makes it, and the 304
//! that Rack::ConditionalGet would answer. It never changes a response that the worker has not marked.

use bytes::Bytes;
use http::{header, request::Parts, HeaderName, HeaderValue, Response, StatusCode};
use ring::digest;

use crate::content::{
    body::ResponseBody,
    static_files::conditional::{self, Precondition, Validators},
};

/// The field by which a worker marks a response. It goes no further.
const FIELD: HeaderName = HeaderName::from_static("paceline-validation");
/// Its value: the tag is to be made from the body. Any other one: the response has its own validators.
const TAG: &[u8] = b"tag";

/// The largest body that is hashed, in bytes: the event loop waits. The worker marks none that is larger.
const MAX: usize = 64 << 10;

/// How many digits of the digest Rack::ETag takes.
const DIGITS: usize = 32;

/// The marked response with its tag, or the 304 in its place (RFC 9110 section 13.2.2).
pub fn apply(request: &Parts, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let Some(mark) = response.headers_mut().remove(FIELD) else { return response };
    if mark.as_bytes() == TAG {
        if let ResponseBody::Whole(body) = response.body() {
            let tag = entity_tag(body);
            response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        }
    }
    let is_unchanged = response.status() == StatusCode::OK && {
        let validators = Validators::from_headers(response.headers());
        conditional::revalidate(&request.method, &request.headers, &validators) == Precondition::NotModified
    };
    if is_unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = ResponseBody::Empty;
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
            response.headers_mut().remove(name);
        }
    }
    response
}

/// `W/"..."` of SHA-256. None: there are no bytes, or too many.
fn entity_tag(body: &Bytes) -> Option<HeaderValue> {
    if body.is_empty() || body.len() > MAX {
        return None;
    }
    let mut tag = Vec::with_capacity(DIGITS + 4);
    tag.extend_from_slice(b"W/\"");
    for byte in &digest::digest(&digest::SHA256, body).as_ref()[..DIGITS / 2] {
        tag.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    tag.push(b'"');
    HeaderValue::from_maybe_shared(Bytes::from(tag)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request};

    /// Of Rack::ETag for the body `hello`.
    const HELLO: &str = "W/\"2cf24dba5fb0a30e26e83b2ac5b9e29e\"";

    fn asked(method: Method, conditions: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in conditions {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn answer(status: u16, fields: &[(&'static str, &str)], body: &[u8]) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::Whole(Bytes::copy_from_slice(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            response.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        response
    }

    fn tag(response: &Response<ResponseBody>) -> Option<&str> {
        response.headers().get(header::ETAG).map(|tag| tag.to_str().unwrap())
    }

    #[test]
    fn a_marked_response_gets_the_tag_of_rack() {
        for status in [200, 201] {
            let response = answer(status, &[("paceline-validation", "tag")], b"hello");
            let response = apply(&asked(Method::POST, &[]), response);
            assert_eq!((tag(&response), response.headers().len()), (Some(HELLO), 1));
        }
    }

    #[test]
    fn a_response_without_mark_stays_as_it_is() {
        let response =
            apply(&asked(Method::GET, &[("if-none-match", "\"a\"")]), answer(200, &[("etag", "\"a\"")], b"x"));
        assert_eq!((response.status(), tag(&response)), (StatusCode::OK, Some("\"a\"")));
    }

    #[test]
    fn bodies_that_are_empty_or_large_get_no_tag() {
        for body in [&b""[..], &[b'x'; MAX + 1]] {
            let response = apply(&asked(Method::GET, &[]), answer(200, &[("paceline-validation", "tag")], body));
            assert_eq!((tag(&response), response.headers().len()), (None, 0));
        }
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let fields =
            [("paceline-validation", "tag"), ("content-type", "text/plain"), ("content-length", "5"), ("x-kept", "1")];
        for known in [HELLO, "\"other\", \"2cf24dba5fb0a30e26e83b2ac5b9e29e\"", "*"] {
            let response = apply(&asked(Method::GET, &[("if-none-match", known)]), answer(200, &fields, b"hello"));
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED, "{known}");
            assert!(matches!(response.body(), ResponseBody::Empty));
            let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
            assert_eq!(names.len(), 2, "{names:?}");
            assert_eq!((tag(&response), &response.headers()["x-kept"]), (Some(HELLO), &HeaderValue::from_static("1")));
        }
    }

    #[test]
    fn own_validators_are_compared() {
        let monday = "Mon, 23 Nov 2026 10:00:00 GMT";
        let fields = [("paceline-validation", "own"), ("last-modified", monday)];
        for (since, status) in [(monday, 304), ("Mon, 23 Nov 2026 09:59:59 GMT", 200)] {
            let response = apply(&asked(Method::GET, &[("if-modified-since", since)]), answer(200, &fields, b"hello"));
            assert_eq!((response.status().as_u16(), tag(&response)), (status, None));
        }
    }

    #[test]
    fn only_pages_that_are_read_can_be_unchanged() {
        for (method, status) in [(Method::POST, 200), (Method::GET, 201)] {
            let response = answer(status, &[("paceline-validation", "tag")], b"hello");
            let response = apply(&asked(method, &[("if-none-match", HELLO)]), response);
            assert_eq!(response.status().as_u16(), status);
        }
    }
}
