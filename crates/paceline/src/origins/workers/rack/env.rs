//! The Rack environment of a request, as the REQUEST frame carries it (Rack SPEC "The Environment"; RFC 3875 names).
//! It never lets a client set what the server itself says.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use http::{header, request::Parts, HeaderMap, Version};

use crate::{
    exchange::{identity::User, incoming::RequestBody, Client},
    origins::workers::protocol::{fields, frame},
    support::short_text::AddressText,
};
use http_guard::{
    host::{host, split_host},
    withheld::is_withheld,
};

const INLINE: u8 = 1;
const SPOOLED: u8 = 2;
const STREAMED: u8 = 4;

/// What the front knows of a request beside its head.
pub struct Facts<'a> {
    pub client: &'a Client,
    pub local: Option<SocketAddr>,
    pub request_id: &'a str,
    /// Who has signed in.
    pub user: Option<&'a User>,
    /// Seconds since the Unix epoch at which the head was read.
    pub received: f64,
    pub may_hijack: bool,
    /// See the worker protocol.
    pub number: frame::RequestNumber,
    /// `rack.early_hints` is offered; HTTP/1.0 knows no interim responses (RFC 9110 section 15.2), on HTTP/2 they are
    /// not sent.
    pub early_hints: bool,
}

/// Encodes the REQUEST frame.
pub fn request_frame(head: &Parts, facts: &Facts, body: &RequestBody) -> Vec<u8> {
    let (flags, inline): (u8, &[u8]) = match body {
        RequestBody::Memory(bytes) => (INLINE, bytes),
        RequestBody::Spooled { .. } => (SPOOLED, b""),
        RequestBody::Streamed { .. } => (STREAMED, b""),
    };
    frame::request(facts.number, flags, |out| put_env(out, head, facts, body), inline)
}

fn put_env(out: &mut Vec<u8>, head: &Parts, facts: &Facts, body: &RequestBody) {
    let host = host(head);
    fields::put_pair(out, "REQUEST_METHOD", head.method.as_str());
    fields::put_pair(out, "SCRIPT_NAME", "");
    fields::put_pair(out, "PATH_INFO", head.uri.path());
    fields::put_pair(out, "QUERY_STRING", head.uri.query().unwrap_or(""));
    fields::put_pair(out, "REQUEST_URI", head.uri.path_and_query().map_or("/", |path| path.as_str()));
    put_server(out, &host, facts);
    fields::put_pair(out, "SERVER_PROTOCOL", protocol(head.version));
    let address = facts.client.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    fields::put_pair(out, "REMOTE_ADDR", AddressText::of(address).as_str());
    fields::put_pair(out, "rack.url_scheme", facts.client.scheme());
    if facts.client.https {
        fields::put_pair(out, "HTTPS", "on");
    }
    if let Some(user) = facts.user {
        fields::put_pair(out, "REMOTE_USER", user.name());
        fields::put_pair(out, "AUTH_TYPE", user.auth_type());
        fields::put_pair(out, "paceline.user", user.encoded());
    }
    if facts.may_hijack {
        fields::put_pair(out, "paceline.hijack", "1");
    }
    if facts.early_hints && head.version == Version::HTTP_11 {
        fields::put_pair(out, "paceline.early_hints", "1");
    }
    if !host.is_empty() {
        fields::put_pair(out, "HTTP_HOST", host.as_bytes());
    }
    fields::put_pair(out, "HTTP_X_REQUEST_ID", facts.request_id);
    // Formatting a float exactly takes longer than all the other fields together.
    let micros = (facts.received * 1e6).round() as u64;
    fields::put(out, "HTTP_X_REQUEST_START");
    out.extend_from_slice(b"t=");
    out.extend_from_slice(itoa::Buffer::new().format(micros / 1_000_000).as_bytes());
    out.push(b'.');
    // The million is there for the zeros behind it.
    let mut fraction = itoa::Buffer::new();
    fields::put(out, &fraction.format(1_000_000 + micros % 1_000_000)[1..]);
    put_headers(out, &head.headers);
    match body {
        RequestBody::Memory(bytes) if bytes.is_empty() && !crate::exchange::incoming::announced(&head.headers) => {}
        _ => {
            if let Some(length) = body.length() {
                fields::put_pair(out, "CONTENT_LENGTH", itoa::Buffer::new().format(length));
            }
        }
    }
    if let RequestBody::Spooled { file, .. } = body {
        use std::os::unix::ffi::OsStrExt;
        fields::put_pair(out, "paceline.input", file.path().as_os_str().as_bytes());
    }
}

/// SERVER_NAME and SERVER_PORT: what the client asked for, or else the socket's own.
fn put_server(out: &mut Vec<u8>, host: &str, facts: &Facts) {
    let client = facts.client;
    let (name, port) = split_host(client.host.as_deref().unwrap_or(host));
    let default = if client.https { 443 } else { 80 };
    if name.is_empty() {
        let local = facts.local.map_or(Cow::Borrowed("localhost"), |local| local.ip().to_string().into());
        fields::put_pair(out, "SERVER_NAME", local.as_bytes());
    } else {
        fields::put_pair(out, "SERVER_NAME", name);
    }
    match (client.port, port) {
        (Some(port), _) => fields::put_pair(out, "SERVER_PORT", itoa::Buffer::new().format(port)),
        (None, Some(port)) => fields::put_pair(out, "SERVER_PORT", port),
        (None, None) if name.is_empty() => {
            fields::put_pair(out, "SERVER_PORT", facts.local.map_or(default, |local| local.port()).to_string());
        }
        (None, None) => fields::put_pair(out, "SERVER_PORT", itoa::Buffer::new().format(default)),
    }
}

fn put_headers(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut before = None;
    for (name, value) in headers.iter().filter(|(name, _)| !is_withheld(name)) {
        if before.replace(name) == Some(name) {
            // RFC 9110 section 5.3: several lines of one name are one list; cookies are joined as RFC 9113 section 8.2.3
            // says. The separator takes the place of the NUL behind the line before.
            out.pop();
            out.extend_from_slice(if name == header::COOKIE { b"; " } else { b", " });
        } else if name == header::CONTENT_TYPE {
            out.extend_from_slice(b"CONTENT_TYPE\0");
        } else {
            out.extend_from_slice(b"HTTP_");
            let variable = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
            out.extend(name.as_str().bytes().map(variable));
            out.push(0);
        }
        fields::put(out, value);
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_3 => "HTTP/3",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::collections::HashMap;

    fn env(request: http::Request<()>, body: &'static [u8]) -> HashMap<String, String> {
        env_of(request, body, &Client { address: Some("192.0.2.1".parse().unwrap()), ..Client::default() })
    }

    fn env_of(request: http::Request<()>, body: &'static [u8], client: &Client) -> HashMap<String, String> {
        let facts = Facts {
            number: 1,
            client,
            local: Some("127.0.0.1:3000".parse().unwrap()),
            request_id: "id-1",
            user: None,
            received: 1.5,
            may_hijack: true,
            early_hints: false,
        };
        let frame = request_frame(&request.into_parts().0, &facts, &RequestBody::Memory(Bytes::from_static(body)));
        let length = u32::from_be_bytes(frame[14..18].try_into().unwrap()) as usize;
        assert_eq!(&frame[18 + length..], body);
        let texts = fields::texts(&frame[18..18 + length]);
        texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    #[test]
    fn names_and_values_follow_the_rack_spec() {
        let request = http::Request::builder()
            .method("POST")
            .uri("/a%20b?c=d")
            .header("Host", "shop.test:8080")
            .header("Content-Type", "text/plain")
            .header("Content-Length", "3")
            .header("Accept", "a")
            .header("Accept", "b")
            .header("Cookie", "x=1")
            .header("Cookie", "y=2");
        let env = env(request.body(()).unwrap(), b"abc");
        for (name, value) in [
            ("REQUEST_METHOD", "POST"),
            ("PATH_INFO", "/a%20b"),
            ("QUERY_STRING", "c=d"),
            ("REQUEST_URI", "/a%20b?c=d"),
            ("SERVER_NAME", "shop.test"),
            ("SERVER_PORT", "8080"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("HTTP_HOST", "shop.test:8080"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "3"),
            ("HTTP_ACCEPT", "a, b"),
            ("HTTP_COOKIE", "x=1; y=2"),
            ("HTTP_X_REQUEST_START", "t=1.500000"),
            ("rack.url_scheme", "http"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!env.contains_key("HTTP_CONTENT_TYPE") && !env.contains_key("HTTP_CONTENT_LENGTH"));
    }

    #[test]
    fn a_client_cannot_say_what_the_server_says() {
        let request = http::Request::builder()
            .uri("/")
            .header("X-Request-Start", "t=0")
            .header("X_Forwarded_For", "10.0.0.1")
            .header("Proxy", "http://evil")
            .header("Transfer-Encoding", "chunked");
        let env = env(request.body(()).unwrap(), b"");
        assert_eq!(env["HTTP_X_REQUEST_START"], "t=1.500000");
        for name in ["HTTP_X_FORWARDED_FOR", "HTTP_PROXY", "HTTP_TRANSFER_ENCODING"] {
            assert!(!env.contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_is_withheld_is_in_no_variable() {
        for &(name, withheld) in http_guard::withheld::EXAMPLES {
            let env = env(http::Request::builder().uri("/").header(name, "of-the-client").body(()).unwrap(), b"");
            assert_eq!(env.values().any(|value| value == "of-the-client"), !withheld, "{name}");
        }
    }

    #[test]
    fn the_server_is_what_the_client_asked_for() {
        for (host, https, forwarded, port, server) in [
            ("shop.test", false, None, None, ("shop.test", "80")),
            ("shop.test", true, None, None, ("shop.test", "443")),
            ("shop.test:81", true, None, None, ("shop.test", "81")),
            ("", true, None, None, ("127.0.0.1", "3000")),
            ("app:3000", true, Some("shop.test"), None, ("shop.test", "443")),
            ("app:3000", false, Some("shop.test:82"), None, ("shop.test", "82")),
            ("shop.test:3000", true, None, Some(8443), ("shop.test", "8443")),
        ] {
            let client = Client { https, host: forwarded.map(str::to_owned), port, ..Client::default() };
            let request = http::Request::builder().uri("/").header("Host", host);
            let env = env_of(request.body(()).unwrap(), b"", &client);
            assert_eq!((env["SERVER_NAME"].as_str(), env["SERVER_PORT"].as_str()), server, "{host} {client:?}");
            assert_eq!(env.get("HTTPS").map(String::as_str), https.then_some("on"));
            assert_eq!(env["rack.url_scheme"], client.scheme());
        }
    }
}
