//! A worker's answer as an HTTP response (RFC 9110 sections 6 and 15, RFC 9112 section 6).
//! It never changes a body; framing is hyper's.

use http::{header, HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::{body::ResponseBody, dechunk::Dechunked};
use crate::{
    dispatch::conversation::AnswerBody,
    worker::frame::{HeaderPairs, MOST_HEADERS},
};

/// The app gave a response that can't be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsendable(pub String);

/// Fields that speak of one connection (RFC 9110 section 7.6.1): the front's own connection to the client is not the app's.
const CONNECTION_FIELDS: [HeaderName; 4] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::UPGRADE,
    HeaderName::from_static("proxy-connection"),
];

/// Builds the response. `head_only`: the request was HEAD.
pub fn response(
    status: u16,
    pairs: &HeaderPairs,
    body: AnswerBody,
    head_only: bool,
) -> Result<Response<ResponseBody>, Unsendable> {
    let status = StatusCode::from_u16(status).map_err(|_| Unsendable(format!("status {status}")))?;
    let mut headers = header_map(pairs)?;
    if status.is_informational() {
        return Err(Unsendable(format!("{status} as the last status of a response")));
    }
    CONNECTION_FIELDS.iter().for_each(|name| drop(headers.remove(name)));
    if status == StatusCode::NO_CONTENT || promised(&headers).is_none() {
        // RFC 9110 section 8.6.
        headers.remove(header::CONTENT_LENGTH);
    }
    let chunked = headers
        .remove(header::TRANSFER_ENCODING)
        .is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    let bodiless = matches!(status.as_u16(), 204 | 304);
    let body = match body {
        _ if bodiless || head_only => ResponseBody::Empty,
        AnswerBody::Whole(bytes) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            ResponseBody::Whole(bytes)
        }
        AnswerBody::File { length, file } => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            ResponseBody::File(file)
        }
        AnswerBody::Spooled { length, body } => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            ResponseBody::Arriving(body.promise(length))
        }
        AnswerBody::Arriving(reader) if chunked => {
            headers.remove(header::CONTENT_LENGTH);
            ResponseBody::Dechunked(Dechunked::new(reader))
        }
        AnswerBody::Arriving(reader) => ResponseBody::Arriving(match promised(&headers) {
            Some(length) => reader.promise(length),
            None => reader,
        }),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The Content-Length that the app gave, if it is one.
fn promised(headers: &HeaderMap) -> Option<u64> {
    let mut given = headers.get_all(header::CONTENT_LENGTH).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// Pairs as a header map; the shim has checked them, this is the second lock.
pub fn header_map(pairs: &HeaderPairs) -> Result<HeaderMap, Unsendable> {
    // A header map panics when it is asked to hold some tens of thousands.
    if pairs.len() > MOST_HEADERS {
        return Err(Unsendable(format!("more than {MOST_HEADERS} header fields")));
    }
    let mut headers = HeaderMap::with_capacity(pairs.len() + 2);
    for (name, value) in pairs {
        let refused = || Unsendable(format!("header {:?}: {:?}", name, value));
        let name = HeaderName::from_bytes(name).map_err(|_| refused())?;
        headers.append(name, HeaderValue::from_maybe_shared(value.clone()).map_err(|_| refused())?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn pairs(list: &[(&'static str, &'static str)]) -> HeaderPairs {
        list.iter()
            .map(|(name, value)| (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes())))
            .collect()
    }

    fn whole(status: u16, list: &[(&'static str, &'static str)], head_only: bool) -> Response<ResponseBody> {
        response(status, &pairs(list), AnswerBody::Whole(Bytes::from_static(b"abc")), head_only).unwrap()
    }

    #[test]
    fn a_whole_body_has_its_true_length() {
        assert_eq!(whole(200, &[("content-length", "99")], false).headers()["content-length"], "3");
    }

    #[test]
    fn a_head_response_keeps_the_length_the_app_gave() {
        assert_eq!(whole(200, &[("content-length", "99")], true).headers()["content-length"], "99");
    }

    #[test]
    fn a_length_that_is_none_or_given_twice_is_left_out() {
        for given in [&[("content-length", "3x")][..], &[("content-length", "3"), ("content-length", "4")]] {
            assert_eq!(whole(200, given, true).headers().get("content-length"), None, "{given:?}");
        }
    }

    #[test]
    fn fields_of_the_connection_stay_with_the_app() {
        let response = whole(200, &[("connection", "keep-alive"), ("transfer-encoding", "chunked"), ("x", "y")], false);
        assert_eq!(response.headers().keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["x", "content-length"]);
    }

    #[test]
    fn no_content_has_neither_body_nor_length() {
        let response = whole(204, &[("content-length", "0")], false);
        assert!(response.headers().is_empty());
        assert!(matches!(response.body(), ResponseBody::Empty));
    }

    #[test]
    fn too_many_fields_are_refused() {
        let fields = |count| pairs(&vec![("x", "y"); count]);
        assert_eq!(header_map(&fields(MOST_HEADERS)).unwrap().len(), MOST_HEADERS);
        assert!(header_map(&fields(MOST_HEADERS + 1)).is_err());
        assert!(header_map(&fields(40_000)).is_err());
    }

    #[test]
    fn values_that_would_split_a_response_are_refused() {
        for (name, value) in [("a b", "x"), ("a", "x\r\ny: z"), ("a", "x\0")] {
            assert!(response(200, &pairs(&[(name, value)]), AnswerBody::Whole(Bytes::new()), false).is_err());
        }
        for status in [99, 100, 101, 103] {
            assert!(response(status, &pairs(&[]), AnswerBody::Whole(Bytes::new()), false).is_err(), "{status}");
        }
    }
}
