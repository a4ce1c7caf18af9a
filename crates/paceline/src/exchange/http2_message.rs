//! What differs for a message in HTTP/2: the checks of a request as a whole, and WebSocket by extended CONNECT (RFC
//! 8441), which is shown to the app as the HTTP/1.1 handshake it knows. It never routes or answers.

use base64::{engine::general_purpose::STANDARD, Engine};
use bytes::Bytes;
use http::{header, uri::PathAndQuery, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::ext::Protocol;

use http_guard::strict::{self, Limits, Refusal};

/// What a field line of HTTP/1.1 has beside name and value: colon, space, line end.
const FIELD_LINE: usize = 4;

/// A request that is refused before anybody looks at what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub StatusCode, pub &'static str);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused(StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST), refusal.reason)
    }
}

/// A WebSocket that was asked for by extended CONNECT; marks its request.
#[derive(Clone, Copy)]
struct ExtendedConnect;

/// Checks an HTTP/2 request as a whole, its head against the limits of any request, and makes of extended CONNECT the
/// handshake of RFC 6455.
pub fn admit<B>(request: &mut Request<B>, limits: &Limits) -> Result<(), Refused> {
    encode_target(request)?;
    if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > limits.uri) {
        return Err(Refused(StatusCode::URI_TOO_LONG, "The request target is too long."));
    }
    if request.headers().len() > limits.fields {
        return Err(Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The request has too many header fields."));
    }
    let measure = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + FIELD_LINE;
    if request.headers().iter().map(measure).sum::<usize>() > limits.fields_bytes {
        return Err(Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The header fields are too large."));
    }
    let protocol = request.extensions().get::<Protocol>();
    let method = if protocol.is_some() { &Method::GET } else { request.method() };
    strict::check_parsed(method, request.uri(), request.headers()).map_err(Refused::from)?;
    if request.method() != Method::CONNECT {
        return Ok(());
    }
    match protocol.map(Protocol::as_str) {
        Some("websocket") => {}
        Some(_) => return Err(Refused(StatusCode::NOT_IMPLEMENTED, "This server does not support that protocol.")),
        // A tunnel, which the pipeline refuses in every version.
        None => return Ok(()),
    }
    *request.method_mut() = Method::GET;
    let key = HeaderValue::from_str(&STANDARD.encode(uuid::Uuid::new_v4().as_bytes()));
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = key {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    request.extensions_mut().insert(ExtendedConnect);
    Ok(())
}

/// Percent-encodes what of the target is not ASCII, as the guard does for HTTP/1.1.
fn encode_target<B>(request: &mut Request<B>) -> Result<(), Refused> {
    let Some(target) = request.uri().path_and_query().filter(|target| !target.as_str().is_ascii()) else {
        return Ok(());
    };
    const INVALID: Refused = Refused(StatusCode::BAD_REQUEST, "The request target is not valid.");
    let encoded = PathAndQuery::from_maybe_shared(Bytes::from(strict::percent_encode(target.as_str().as_bytes())));
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = Some(encoded.map_err(|_| INVALID)?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| INVALID)?;
    Ok(())
}

/// Whether the request was extended CONNECT.
pub fn is_web_socket(extensions: &http::Extensions) -> bool {
    extensions.get::<ExtendedConnect>().is_some()
}

/// HTTP/2 knows no 101 (RFC 9113 section 8.6): to extended CONNECT the answer is 200, elsewhere the app was wrong.
pub fn answer<B>(response: &mut Response<B>, web_socket: bool) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    *response.status_mut() = if web_socket { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    strip(response.headers_mut());
}

fn strip(headers: &mut HeaderMap) {
    const HANDSHAKE: [HeaderName; 4] =
        [header::CONNECTION, header::UPGRADE, header::SEC_WEBSOCKET_ACCEPT, header::CONTENT_LENGTH];
    HANDSHAKE.iter().for_each(|name| drop(headers.remove(name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(
        method: &str,
        uri: &str,
        host: Option<&str>,
        protocol: Option<&'static str>,
    ) -> Result<Request<()>, u16> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let mut request = request.body(()).unwrap();
        if let Some(protocol) = protocol {
            request.extensions_mut().insert(Protocol::from_static(protocol));
        }
        admit(&mut request, &LIMITS).map(|()| request).map_err(|refused| refused.0.as_u16())
    }

    const LIMITS: Limits = Limits { uri: 100, fields_bytes: 200, fields: 3 };

    #[test]
    fn a_head_has_the_limits_of_any_request() {
        let status = |uri: &str, fields: &[(&str, &str)]| {
            let request = Request::builder().uri(format!("https://a.test{uri}"));
            let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            admit(&mut request.body(()).unwrap(), &LIMITS).err().map(|refused| refused.0.as_u16())
        };
        assert_eq!(status(&format!("/{}", "a".repeat(99)), &[]), None);
        assert_eq!(status(&format!("/{}?{}", "a".repeat(50), "b".repeat(49)), &[]), Some(414));
        assert_eq!(status("/", &[("a", "1"), ("b", "2"), ("b", "3")]), None);
        assert_eq!(status("/", &[("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")]), Some(431));
        assert_eq!(status("/", &[("a", &"x".repeat(195))]), None);
        assert_eq!(status("/", &[("a", &"x".repeat(196))]), Some(431));
    }

    #[test]
    fn a_raw_target_is_percent_encoded() {
        let request = admitted("GET", "https://a.test/bière/%2F?q=€", None, None).unwrap();
        assert_eq!(request.uri(), "https://a.test/bi%C3%A8re/%2F?q=%E2%82%AC");
        assert_eq!(admitted("GET", &format!("/{}", "é".repeat(17)), Some("a.test"), None).err(), Some(414));
    }

    #[test]
    fn one_host_and_no_tunnels() {
        let status = |method, uri, host, protocol| admitted(method, uri, host, protocol).map(drop).err();
        assert_eq!(status("GET", "https://a.test/", None, None), None);
        assert_eq!(status("GET", "https://a.test/", Some("A.test"), None), None);
        assert_eq!(status("GET", "https://a.test/", Some("b.test"), None), Some(400));
        assert_eq!(status("GET", "/", Some("b.test"), None), None);
        assert_eq!(status("GET", "/", None, None), Some(400));
        assert_eq!(status("CONNECT", "a.test:443", None, None), None);
        assert_eq!(status("CONNECT", "https://a.test/", None, Some("connect-udp")), Some(501));
        assert_eq!(status("GET", "/", Some("evil.com/x.example.org"), None), Some(400));
        assert_eq!(status("GET", "*", Some("a.test"), None), Some(400));
        assert_eq!(status("CONNECT", "https://a.test/\"", None, Some("websocket")), Some(400));
    }

    #[test]
    fn a_web_socket_is_shown_as_its_handshake() {
        let request = admitted("CONNECT", "https://a.test/cable", None, Some("websocket")).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::GET, "/cable"));
        assert_eq!(request.headers()["upgrade"], "websocket");
        assert_eq!(request.headers()["sec-websocket-key"].len(), 24);
        assert!(is_web_socket(request.extensions()));
    }

    #[test]
    fn switching_protocols_is_ok_or_an_error() {
        for (web_socket, status) in [(true, 200), (false, 500)] {
            let mut response =
                Response::builder().status(101).header("upgrade", "x").header("a", "b").body(()).unwrap();
            answer(&mut response, web_socket);
            assert_eq!((response.status().as_u16(), response.headers().len()), (status, 1));
        }
    }
}
