//! The head of a request as an upstream gets it (RFC 9110 section 7.6): what goes on, what stays here, and what a
//! gateway says of itself and of the client. It never reads a body.

use std::net::IpAddr;

use cache::fields::text_tokens;
use http::{
    header, request::Parts, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};

use super::{address::Address, failure::Failure};
use crate::{
    content::body::ResponseBody,
    exchange::{
        incoming::{announced, RequestBody},
        Exchange,
    },
};
use http_guard::{
    hop::{connection_has, keep_end_to_end},
    host,
    withheld::is_withheld,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_START: HeaderName = HeaderName::from_static("x-request-start");

/// How a body is framed on its way there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

impl Framing {
    /// A body that was announced and is empty is announced again, and so is none where one is expected (RFC 9110
    /// section 8.6).
    pub fn of(head: &Parts, body: &RequestBody) -> Framing {
        let told = announced(&head.headers)
            || head.headers.contains_key(header::CONTENT_LENGTH)
            || [Method::POST, Method::PUT, Method::PATCH].contains(&head.method);
        match body.length() {
            Some(0) if !told => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        }
    }
}

/// The request without its body.
pub fn head(
    head: &Parts,
    framing: Framing,
    exchange: &Exchange,
    upgrade: Option<&HeaderValue>,
    address: &Address,
) -> Request<()> {
    let mut headers = head.headers.clone();
    keep_end_to_end(&mut headers);
    // The front has met the expectation itself.
    let withheld: Vec<HeaderName> =
        headers.keys().filter(|&name| is_withheld(name) || name == header::EXPECT).cloned().collect();
    withheld.iter().for_each(|name| drop(headers.remove(name)));

    let host = host::host(head);
    let host = if host.is_empty() { address.authority().into() } else { host };
    insert(&mut headers, header::HOST, &host);
    match framing {
        Framing::None => {}
        Framing::Length(length) => drop(headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length))),
        Framing::Chunked => {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    if let Some(protocols) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocols.clone());
    }
    count_down(head, &mut headers);
    headers.append(header::VIA, HeaderValue::from_static(via(head.version)));
    insert(&mut headers, REQUEST_ID, &exchange.id);
    let micros = (exchange.timeline.received * 1e6).round() as u64;
    insert(&mut headers, REQUEST_START, &format!("t={}.{:06}", micros / 1_000_000, micros % 1_000_000));
    tell_of_client(&mut headers, exchange, &host);
    exchange.requester.user.iter().for_each(|user| user.tell(&mut headers));

    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.headers_mut() = headers;
    request
}

/// The request as HTTP/2 has it (RFC 9113 section 8): the authority is what Host is in HTTP/1.1, frames end the body.
/// Err: its authority or target can't be part of a URI.
pub fn over_http2(mut request: Request<()>, address: &Address) -> Result<Request<()>, Failure> {
    let headers = request.headers_mut();
    headers.remove(header::TRANSFER_ENCODING);
    let host = headers.remove(header::HOST);
    let authority =
        host.as_ref().and_then(|host| host.to_str().ok()).map_or_else(|| address.authority(), str::to_owned);
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let uri = Uri::builder().scheme("https").authority(authority).path_and_query(target).build();
    *request.uri_mut() =
        uri.map_err(|error| Failure::Broken { upstream: address.to_string(), why: error.to_string() })?;
    *request.version_mut() = Version::HTTP_2;
    Ok(request)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    match HeaderValue::from_str(value) {
        Ok(value) => drop(headers.insert(name, value)),
        Err(_) => drop(headers.remove(name)),
    }
}

/// The version it was received with (RFC 9110 section 7.6.3).
fn via(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0 paceline",
        Version::HTTP_2 => "2.0 paceline",
        _ => "1.1 paceline",
    }
}

/// The protocols that the client offers to go on with. HTTP once more would pass by everything that is decided here.
pub fn protocols(head: &Parts, exchange: &Exchange) -> Option<HeaderValue> {
    let offered = exchange.offers.upgrade.is_some() && connection_has(&head.headers, "upgrade");
    // RFC 9110 section 7.8.
    if !offered || head.version == Version::HTTP_10 {
        return None;
    }
    let is_http = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default();
        ["h2c", "h2", "http", "tls"].iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let others: Vec<&str> = text_tokens(&head.headers, header::UPGRADE).filter(|protocol| !is_http(protocol)).collect();
    HeaderValue::from_str(&others.join(", ")).ok().filter(|others| !others.is_empty())
}

/// RFC 9110 section 7.6.2, for the methods it speaks of.
fn count_down(head: &Parts, headers: &mut HeaderMap) {
    if let Some(left) = forwards_left(head).and_then(|left| left.checked_sub(1)) {
        headers.insert(header::MAX_FORWARDS, HeaderValue::from(left));
    }
}

fn forwards_left(head: &Parts) -> Option<u64> {
    let counted = head.method == Method::OPTIONS || head.method == Method::TRACE;
    let value = head.headers.get(header::MAX_FORWARDS).filter(|_| counted)?;
    value.to_str().ok()?.parse().ok()
}

/// The answer to a request that may go no further. It tells nothing of what lies behind.
pub fn last_hop(head: &Parts) -> Option<Response<ResponseBody>> {
    if forwards_left(head)? > 0 {
        return None;
    }
    let mut response = Response::new(ResponseBody::Empty);
    if head.method == Method::TRACE {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS"));
    }
    Some(response)
}

/// Who asks, and how. What a stranger says of it has been removed, and what a trusted proxy says stands.
fn tell_of_client(headers: &mut HeaderMap, exchange: &Exchange, host: &str) {
    let client = &exchange.client;
    let peer = exchange.connection.remote.map(|remote| remote.ip().to_canonical());
    if let Some(peer) = peer {
        let mut chain: Vec<String> = text_tokens(headers, FORWARDED_FOR).map(str::to_owned).collect();
        if chain.is_empty() {
            chain.extend(client.address.filter(|address| *address != peer).map(|address| address.to_string()));
        }
        chain.push(peer.to_string());
        insert(headers, FORWARDED_FOR, &chain.join(", "));
        if headers.contains_key(header::FORWARDED) {
            if let Ok(element) = HeaderValue::from_str(&format!("for={}", node(peer))) {
                headers.append(header::FORWARDED, element);
            }
        }
    }
    insert(headers, FORWARDED_PROTO, client.scheme());
    let host = client.host.as_deref().unwrap_or(host);
    insert(headers, FORWARDED_HOST, host);
    let default = if client.https { 443 } else { 80 };
    let port = client.port.or_else(|| host::split_host(host).1?.parse().ok()).unwrap_or(default);
    insert(headers, FORWARDED_PORT, &port.to_string());
}

/// RFC 7239 section 6.
fn node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exchange::{Client, Connection};

    fn asked(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri(uri);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn exchange(peer: Option<&str>, client: Client) -> Exchange {
        let remote = peer.map(|peer| peer.parse().unwrap());
        let connection = Connection { remote, local: None, tls: false, accepted: 0, ..Connection::default() };
        let mut exchange = Exchange::begin(Arc::new(connection), None, None, None);
        (exchange.id, exchange.timeline.received, exchange.client) = ("id-1".into(), 1.5, client);
        exchange
    }

    fn sent(head: &Parts, exchange: &Exchange) -> Request<()> {
        let address = Address::Tcp { https: false, host: "app".into(), port: 8000 };
        super::head(head, Framing::None, exchange, protocols(head, exchange).as_ref(), &address)
    }

    fn lines(request: &Request<()>) -> Vec<String> {
        let mut lines: Vec<_> =
            request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_head_goes_on_as_a_gateway_sends_it() {
        let fields = [
            ("host", "shop.test:8080"),
            ("connection", "keep-alive, x-own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("x_forwarded_for", "6.6.6.6"),
            ("proxy", "evil"),
            ("x-request-start", "t=0"),
            ("x-request-id", "other"),
            ("via", "1.1 first"),
            ("cookie", "a=b"),
        ];
        let exchange = exchange(Some("192.0.2.1:9"), Client { address: "192.0.2.1".parse().ok(), ..Client::default() });
        let request = sent(&asked("GET", "/a%20b?c=d", &fields), &exchange);
        assert_eq!(request.uri(), "/a%20b?c=d");
        assert_eq!(
            lines(&request),
            [
                "cookie: a=b",
                "host: shop.test:8080",
                "via: 1.1 first",
                "via: 1.1 paceline",
                "x-forwarded-for: 192.0.2.1",
                "x-forwarded-host: shop.test:8080",
                "x-forwarded-port: 8080",
                "x-forwarded-proto: http",
                "x-request-id: id-1",
                "x-request-start: t=1.500000",
            ]
        );
    }

    #[test]
    fn what_is_withheld_goes_to_no_upstream() {
        for &(name, withheld) in http_guard::withheld::EXAMPLES {
            let request = sent(&asked("GET", "/", &[(name, "of-the-client")]), &exchange(None, Client::default()));
            assert_eq!(request.headers().values().any(|value| value == "of-the-client"), !withheld, "{name}");
        }
    }

    #[test]
    fn targets_are_in_origin_form() {
        let exchange = exchange(None, Client::default());
        for (method, uri, host, target, authority) in [
            ("GET", "http://shop.test/a?b", Some("other.test"), "/a?b", "shop.test"),
            ("GET", "http://shop.test", None, "/", "shop.test"),
            ("OPTIONS", "*", Some("shop.test"), "*", "shop.test"),
            ("GET", "/", None, "/", "app:8000"),
            ("GET", "/", Some(""), "/", "app:8000"),
        ] {
            let fields: Vec<_> = host.map(|host| ("host", host)).into_iter().collect();
            let request = sent(&asked(method, uri, &fields), &exchange);
            assert_eq!(
                (request.uri().to_string().as_str(), &request.headers()["host"]),
                (target, &authority.parse::<HeaderValue>().unwrap()),
                "{uri}"
            );
        }
    }

    #[test]
    fn http2_has_the_authority_in_place_of_the_host_and_no_transfer_coding() {
        let address = Address::Tcp { https: true, host: "app".into(), port: 443 };
        let asked = asked("POST", "/a?b", &[("host", "shop.test")]);
        let request = head(&asked, Framing::Chunked, &exchange(None, Client::default()), None, &address);
        assert_eq!(request.headers()["transfer-encoding"], "chunked");
        let request = over_http2(request, &address).unwrap();
        assert_eq!((request.uri().to_string().as_str(), request.version()), ("https://shop.test/a?b", Version::HTTP_2));
        assert!(!["host", "transfer-encoding"].iter().any(|name| request.headers().contains_key(*name)));
    }

    #[test]
    fn what_a_trusted_proxy_says_is_continued() {
        let client = Client {
            address: "192.0.2.9".parse().ok(),
            proxied: true,
            https: true,
            host: Some("shop.test".into()),
            ..Client::default()
        };
        let told =
            |peer, fields: &[(&str, &str)]| lines(&sent(&asked("GET", "/", fields), &exchange(peer, client.clone())));
        let of = |lines: Vec<String>, name: &str| -> Vec<String> {
            lines.into_iter().filter_map(|line| Some(line.strip_prefix(&format!("{name}: "))?.to_owned())).collect()
        };
        let chained = told(Some("10.0.0.1:9"), &[("x-forwarded-for", "192.0.2.9"), ("host", "inner")]);
        assert_eq!(of(chained.clone(), "x-forwarded-for"), ["192.0.2.9, 10.0.0.1"]);
        assert_eq!(of(chained.clone(), "x-forwarded-host"), ["shop.test"]);
        assert_eq!(of(chained.clone(), "x-forwarded-proto"), ["https"]);
        assert_eq!(of(chained.clone(), "x-forwarded-port"), ["443"]);
        assert_eq!(of(chained, "host"), ["inner"]);
        let by_forwarded = told(Some("[::1]:9"), &[("forwarded", "for=192.0.2.9;proto=https")]);
        assert_eq!(of(by_forwarded.clone(), "forwarded"), ["for=\"[::1]\"", "for=192.0.2.9;proto=https"]);
        assert_eq!(of(by_forwarded, "x-forwarded-for"), ["192.0.2.9, ::1"]);
        assert_eq!(of(told(None, &[("x-forwarded-for", "192.0.2.9")]), "x-forwarded-for"), ["192.0.2.9"]);
    }

    #[test]
    fn the_last_hop_is_here_where_the_client_says_so() {
        let status = |method, left: &str| {
            last_hop(&asked(method, "/", &[("max-forwards", left)])).map(|response| response.status().as_u16())
        };
        assert_eq!((status("OPTIONS", "0"), status("TRACE", "0")), (Some(200), Some(405)));
        assert_eq!((status("GET", "0"), status("TRACE", "1"), status("TRACE", "x")), (None, None, None));
        let request = sent(&asked("TRACE", "/", &[("max-forwards", "5")]), &exchange(None, Client::default()));
        assert_eq!(request.headers()["max-forwards"], "4");
    }

    #[test]
    fn framing_is_what_is_known_of_the_body() {
        let framing = |fields: &[(&str, &str)], bytes: &'static [u8]| {
            Framing::of(&asked("DELETE", "/", fields), &RequestBody::Memory(bytes.into()))
        };
        let of_post = Framing::of(&asked("POST", "/", &[]), &RequestBody::Memory(Default::default()));
        assert_eq!((framing(&[], b""), of_post), (Framing::None, Framing::Length(0)));
        assert_eq!(framing(&[("content-length", "0")], b""), Framing::Length(0));
        assert_eq!(framing(&[("transfer-encoding", "chunked")], b""), Framing::Length(0));
        assert_eq!(framing(&[("transfer-encoding", "chunked")], b"abc"), Framing::Length(3));
    }
}
