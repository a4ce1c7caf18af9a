//! A worker's answer as an HTTP response (RFC 9110 sections 6 and 15, RFC 9112 section 6).
//! It never changes a body, but for a transfer coding that the app has applied; framing is hyper's.

use bytes::Bytes;
use http::{header, HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::dechunk::{self, DechunkedBody, UnknownCoding};
use crate::{
    content::{body::ResponseBody, static_files::FileBody},
    origins::workers::{
        protocol::frame::{HeaderPairs, MAX_HEADERS},
        response_buffer::Reader,
    },
};

/// A response body: whole, arriving, or in a file.
pub enum AnswerBody {
    Whole(Bytes),
    Arriving(Reader),
    /// Whole, but too many such bodies are in memory.
    Spooled {
        length: u64,
        body: Reader,
    },
    File {
        length: u64,
        file: FileBody,
    },
}

/// The app gave a response that can't be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsendable(pub String);

/// Fields that speak of one connection (RFC 9110 section 7.6.1): the front's own connection to the client is not the
/// app's.
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
    let status = status_code(status)?;
    let mut headers = header_map(pairs)?;
    if status.is_informational() {
        return Err(Unsendable(format!("{status} as the last status of a response")));
    }
    CONNECTION_FIELDS.iter().for_each(|name| drop(headers.remove(name)));
    if status == StatusCode::NO_CONTENT || promised(&headers).is_none() {
        // RFC 9110 section 8.6.
        headers.remove(header::CONTENT_LENGTH);
    }
    let coding = dechunk::take_coding(&mut headers);
    let bodiless = head_only || matches!(status.as_u16(), 204 | 304);
    let chunked = !bodiless && coding.map_err(unknown_coding)?;
    let body = match body {
        _ if bodiless => ResponseBody::Empty,
        AnswerBody::Whole(bytes) if chunked => {
            let bytes = dechunk::whole(bytes).map_err(|error| Unsendable(error.to_string()))?;
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            ResponseBody::Whole(bytes)
        }
        AnswerBody::Whole(bytes) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            ResponseBody::Whole(bytes)
        }
        AnswerBody::File { length, file } => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            ResponseBody::stream(file)
        }
        AnswerBody::Spooled { length, body } if chunked => {
            headers.remove(header::CONTENT_LENGTH);
            ResponseBody::stream(DechunkedBody::new(body.promise(length)))
        }
        AnswerBody::Spooled { length, body } => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            ResponseBody::stream(body.promise(length))
        }
        AnswerBody::Arriving(reader) if chunked => {
            headers.remove(header::CONTENT_LENGTH);
            ResponseBody::stream(DechunkedBody::new(reader))
        }
        AnswerBody::Arriving(reader) => ResponseBody::stream(match promised(&headers) {
            Some(length) => reader.promise(length),
            None => reader,
        }),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// A status that HTTP knows the class of (RFC 9110 section 15).
pub fn status_code(status: u16) -> Result<StatusCode, Unsendable> {
    let known = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() < 600);
    known.ok_or_else(|| Unsendable(format!("status {status}")))
}

/// Refuses a transfer coding that the front can't take off.
pub fn unknown_coding(why: UnknownCoding) -> Unsendable {
    Unsendable(why.to_string())
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
    // Most have more bytes than this; they get Content-Length, Cache-Status and Connection besides.
    let mut headers = HeaderMap::with_capacity((pairs.size() / 32).min(MAX_HEADERS) + 4);
    for (name, value) in pairs.iter() {
        // A header map panics when it is asked to hold some tens of thousands.
        if headers.len() == MAX_HEADERS {
            return Err(Unsendable(format!("more than {MAX_HEADERS} header fields")));
        }
        let refused = || Unsendable(format!("header {:?}: {:?}", Bytes::copy_from_slice(name), value));
        let name = HeaderName::from_bytes(name).map_err(|_| refused())?;
        headers.append(name, HeaderValue::from_maybe_shared(value.clone()).map_err(|_| refused())?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origins::workers::{
        protocol::fields::put_pair,
        response_buffer::{buffer, Reader},
    };
    use bytes::Bytes;
    use http_body_util::BodyExt;

    fn pairs(list: &[(&'static str, &'static str)]) -> HeaderPairs {
        let mut fields = Vec::new();
        list.iter().for_each(|(name, value)| put_pair(&mut fields, name, value));
        HeaderPairs::new(fields.into())
    }

    fn whole(status: u16, list: &[(&'static str, &'static str)], head_only: bool) -> Response<ResponseBody> {
        response(status, &pairs(list), AnswerBody::Whole(Bytes::from_static(b"abc")), head_only).unwrap()
    }

    #[test]
    fn a_whole_body_has_its_true_length() {
        assert_eq!(whole(200, &[("content-length", "99")], false).headers()["content-length"], "3");
    }

    #[test]
    fn statuses_are_those_of_http() {
        let status = |status| response(status, &pairs(&[]), AnswerBody::Whole(Bytes::new()), false).is_ok();
        assert_eq!(
            [0, 99, 100, 199, 200, 599, 600, 999, 1000].map(status),
            [false, false, false, false, true, true, false, false, false]
        );
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

    /// The body's bytes; Err: it broke off.
    fn read(response: Response<ResponseBody>) -> Result<Bytes, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let collected = runtime.block_on(response.into_body().collect());
        collected.map(|body| body.to_bytes()).map_err(|error| error.to_string())
    }

    const CODED: &[u8] = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";

    fn coded(body: AnswerBody, head_only: bool) -> Result<Response<ResponseBody>, Unsendable> {
        let pairs = pairs(&[("transfer-encoding", "chunked"), ("trailer", "x-sum"), ("content-length", "5")]);
        response(200, &pairs, body, head_only)
    }

    /// As a body lies in memory or a file that the worker has ended.
    fn arrived(bytes: &'static [u8]) -> Reader {
        let (mut writer, reader) = buffer(1 << 20, 1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(writer.write(Bytes::from_static(bytes))).unwrap();
        reader
    }

    #[test]
    fn the_chunked_coding_of_an_app_ends_here_however_the_body_comes() {
        let whole = coded(AnswerBody::Whole(Bytes::from_static(CODED)), false).unwrap();
        let fields = whole.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        assert_eq!(fields.collect::<Vec<_>>(), [("content-length", "5")]);
        assert_eq!(read(whole).unwrap(), "abcde");

        let spooled = AnswerBody::Spooled { length: CODED.len() as u64, body: arrived(CODED) };
        for body in [AnswerBody::Arriving(arrived(CODED)), spooled] {
            let response = coded(body, false).unwrap();
            assert!(response.headers().is_empty());
            assert_eq!(read(response).unwrap(), "abcde");
        }
    }

    #[test]
    fn a_broken_chunked_coding_is_no_body() {
        let cut = &CODED[..10];
        assert!(coded(AnswerBody::Whole(Bytes::from_static(cut)), false).is_err());
        assert!(read(coded(AnswerBody::Arriving(arrived(cut)), false).unwrap()).is_err());
        let spooled = AnswerBody::Spooled { length: cut.len() as u64, body: arrived(cut) };
        assert!(read(coded(spooled, false).unwrap()).is_err());
        let head = coded(AnswerBody::Whole(Bytes::new()), true).unwrap();
        assert_eq!(head.headers()["content-length"], "5");
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
        assert_eq!(header_map(&fields(MAX_HEADERS)).unwrap().len(), MAX_HEADERS);
        assert!(header_map(&fields(MAX_HEADERS + 1)).is_err());
        assert!(header_map(&fields(40_000)).is_err());
    }

    #[test]
    fn values_that_would_split_a_response_are_refused() {
        for (name, value) in [("a b", "x"), ("a", "x\r\ny: z"), ("a", "x\x01")] {
            assert!(response(200, &pairs(&[(name, value)]), AnswerBody::Whole(Bytes::new()), false).is_err());
        }
        for status in [99, 100, 101, 103] {
            assert!(response(status, &pairs(&[]), AnswerBody::Whole(Bytes::new()), false).is_err(), "{status}");
        }
    }
}
