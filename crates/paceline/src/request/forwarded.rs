//! Who the client is behind proxies: X-Forwarded-* and Forwarded (RFC 7239), believed only from trusted peers.
//! It never lets a client speak for itself: from all others these headers are removed before anybody reads them.

use std::net::{IpAddr, SocketAddr};

use http::{header, HeaderMap, HeaderName};

use crate::{
    config::TrustedProxies,
    exchange::{Client, Connection},
};
use http_guard::strict;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const SCHEME: HeaderName = HeaderName::from_static("x-forwarded-scheme");
const SSL: HeaderName = HeaderName::from_static("x-forwarded-ssl");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// Other names that frameworks take a client's address from.
const ADDRESSES: [HeaderName; 5] = [
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("client-ip"),
    HeaderName::from_static("x-client-ip"),
    HeaderName::from_static("x-cluster-client-ip"),
    HeaderName::from_static("true-client-ip"),
];

/// A surrogate's word on what it does for the app; a client is none.
pub const SURROGATE_CAPABILITY: HeaderName = HeaderName::from_static("surrogate-capability");

/// Who asks. Writes the fields in `headers` from what was understood of them, so that the app, reading them itself,
/// comes to the same result, and the page cache's key holds all that it can see.
pub fn client(headers: &mut HeaderMap, connection: &Connection, trusted: &TrustedProxies) -> Client {
    let mut client = Client::of(connection);
    if !trusted.trusts(client.address) {
        remove(headers);
        return client;
    }
    if headers.keys().any(is_x_forwarded) {
        // The proxy writes these and may let a client's own Forwarded through.
        headers.remove(header::FORWARDED);
        x_forwarded(headers, &mut client, trusted);
    } else if headers.contains_key(header::FORWARDED) {
        forwarded(headers, &mut client, trusted);
    }
    client
}

fn is_x_forwarded(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-forwarded-")
}

fn remove(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            is_x_forwarded(name) || [header::FORWARDED, SURROGATE_CAPABILITY].contains(name) || ADDRESSES.contains(name)
        })
        .cloned()
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
}

fn x_forwarded(headers: &mut HeaderMap, client: &mut Client, trusted: &TrustedProxies) {
    client.proxied = true;
    let chain = list(headers, &FOR);
    let addresses: Vec<_> = chain.iter().map(|node| address_of(node)).collect();
    if let Some((_, address)) = rightmost_untrusted(addresses.iter().copied(), trusted) {
        client.address = Some(address);
    }
    // Readers differ in what they make of an item that is no address; it was none of the proxies next to us that wrote
    // it.
    let from = addresses.iter().rposition(Option::is_none).map_or(0, |at| at + 1);
    write(headers, FOR, Some(chain[from..].join(", ")));
    // The word of the proxy that is next to us is the last; Rack's versions disagree on lists, so there is but one.
    let word = |name: HeaderName| last(headers, &name).and_then(|proto| is_https(&proto));
    let on = || Some(last(headers, &SSL)?.eq_ignore_ascii_case("on"));
    let https = word(PROTO).or_else(|| word(SCHEME)).or_else(on);
    client.https = https.unwrap_or(client.https);
    for name in [PROTO, SCHEME] {
        write(headers, name, https.map(scheme));
    }
    write(headers, SSL, https.map(|https| if https { "on" } else { "off" }));
    client.host = last(headers, &HOST).filter(|host| is_host(host));
    write(headers, HOST, client.host.clone());
    client.port = last(headers, &PORT).and_then(|port| port.parse().ok());
    write(headers, PORT, client.port.map(|port| port.to_string()));
}

fn scheme(https: bool) -> &'static str {
    if https {
        "https"
    } else {
        "http"
    }
}

/// What a proxy calls the protocol that it was asked by. None: a word that nobody here knows.
fn is_https(proto: &str) -> Option<bool> {
    match proto.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(true),
        "http" | "ws" => Some(false),
        _ => None,
    }
}

/// Replaces a field that came; without a value it is removed.
fn write(headers: &mut HeaderMap, name: HeaderName, value: Option<impl AsRef<str>>) {
    let value = value.filter(|value| !value.as_ref().is_empty()).and_then(|value| value.as_ref().parse().ok());
    if headers.contains_key(&name) {
        match value {
            Some(value) => drop(headers.insert(name, value)),
            None => drop(headers.remove(name)),
        }
    }
}

fn forwarded(headers: &mut HeaderMap, client: &mut Client, trusted: &TrustedProxies) {
    client.proxied = true;
    let elements = elements(&text(headers, &header::FORWARDED));
    // What the proxy next to us wrote is the last; what stands left of a malformed element may be anybody's.
    let from = elements.iter().rposition(Option::is_none).map_or(0, |at| at + 1);
    let elements: Vec<&Element> = elements[from..].iter().flatten().collect();
    let found = rightmost_untrusted(elements.iter().map(|element| address_of(element.get("for")?)), trusted);
    // The element that names the client was written by the first trusted proxy: it knows how it was asked.
    let element = match found {
        Some((index, _)) => Some(elements[index]),
        None => elements.last().copied(),
    };
    client.address = found.map(|(_, address)| address).or(client.address);
    let https = element.and_then(|element| is_https(element.get("proto")?));
    client.https = https.unwrap_or(client.https);
    client.host = element.and_then(|element| element.get("host")).filter(|host| is_host(host)).map(str::to_owned);
    let node = found.map(|(_, address)| match address {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    });
    let proto = https.map(|https| format!("proto={}", scheme(https)));
    // A host with a port is no token (RFC 7239 section 4).
    let host = client.host.as_ref().map(|host| {
        if host.contains([':', '[']) {
            format!("host=\"{host}\"")
        } else {
            format!("host={host}")
        }
    });
    let said: Vec<String> = [node, proto, host].into_iter().flatten().collect();
    write(headers, header::FORWARDED, Some(said.join(";")));
}

/// Walks from the proxy next to us towards the client: the first address that is not a trusted proxy's, or else the
/// farthest that is known. Err-like None entries ("unknown", hidden names) end the walk.
fn rightmost_untrusted(
    chain: impl DoubleEndedIterator<Item = Option<IpAddr>> + ExactSizeIterator,
    trusted: &TrustedProxies,
) -> Option<(usize, IpAddr)> {
    let mut farthest = None;
    for (index, address) in chain.enumerate().rev() {
        let Some(address) = address else { break };
        farthest = Some((index, address));
        if !trusted.trusts(Some(address)) {
            break;
        }
    }
    farthest
}

/// An address with or without port, as either header writes it.
fn address_of(node: &str) -> Option<IpAddr> {
    let node = node.trim();
    let bare = || node.parse::<IpAddr>().ok();
    let with_port = || node.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || node.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    bare().or_else(with_port).or_else(bracketed).map(|address| address.to_canonical())
}

/// A host that an app may build links with: of what RFC 3986 allows in a name nothing that means something elsewhere.
fn is_host(host: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    strict::is_host(host) && host.bytes().all(fine)
}

/// All lines of a field as one. What is no text stands there as such, and means nothing.
fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    lines.join(", ")
}

fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    text(headers, name).split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

fn last(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    list(headers, name).pop()
}

/// One hop of a Forwarded header.
#[derive(Debug, PartialEq)]
struct Element {
    pairs: Vec<(String, String)>,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// RFC 7239 section 4. None for an element that is malformed.
fn elements(text: &str) -> Vec<Option<Element>> {
    let parts = split(text, ',').into_iter().filter(|part| !part.trim_matches([' ', '\t', ';']).is_empty());
    parts.map(element).collect()
}

fn element(part: &str) -> Option<Element> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in split(part, ';').into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let name = name.to_ascii_lowercase();
        // Each parameter once (section 4).
        if name.is_empty() || pairs.iter().any(|(other, _)| *other == name) {
            return None;
        }
        pairs.push((name, unquoted(value)?));
    }
    Some(Element { pairs })
}

/// Splits outside quoted strings. A quote that is never closed is none, so that a client can't swallow what a proxy has
/// appended.
fn split(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut from, mut rest) = (Vec::new(), 0, 0);
    while let Some(found) = text[rest..].find(['"', at]).map(|found| found + rest) {
        rest = found + 1;
        if text[found..].starts_with('"') {
            rest = end_of_quoted(text, rest).unwrap_or(rest);
        } else {
            parts.push(&text[from..found]);
            from = rest;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Behind the quote that closes a quoted string (RFC 9110 section 5.6.4), whose first byte is at `start`.
fn end_of_quoted(text: &str, start: usize) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().skip(start);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

fn unquoted(value: &str) -> Option<String> {
    let Some(rest) = value.strip_prefix('"') else { return (!value.contains('"')).then(|| value.to_owned()) };
    let inner = rest.strip_suffix('"')?;
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(characters.next()?),
            '"' => return None,
            character => plain.push(character),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn resolved(peer: Option<&str>, trusted: &[&str], lines: &[(&'static str, &str)]) -> (Client, HeaderMap) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let remote = peer.map(|peer| SocketAddr::new(peer.parse().unwrap(), 9));
        let connection = Connection { remote, local: None, tls: false, accepted: 0, ..Connection::default() };
        let list: Vec<String> = trusted.iter().map(|word| word.to_string()).collect();
        let client = client(&mut headers, &connection, &TrustedProxies::new(&list, !trusted.is_empty()));
        (client, headers)
    }

    fn shown(client: &Client) -> String {
        let address = client.address.map_or("-".into(), |address| address.to_string());
        let host = client.host.as_deref().unwrap_or("-");
        format!("{} {address} {host} {}", client.scheme(), client.port.unwrap_or(0))
    }

    #[test]
    fn strangers_do_not_speak_for_themselves() {
        let lines = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.test"),
            ("x-forwarded-anything", "x"),
            ("forwarded", "for=1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("client-ip", "1.2.3.4"),
            ("surrogate-capability", "x=\"ESI/1.0\""),
            ("accept", "a"),
        ];
        let (client, headers) = resolved(Some("192.0.2.1"), &[], &lines);
        assert_eq!(shown(&client), "http 192.0.2.1 - 0");
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"]);
        assert!(!client.proxied);
    }

    #[test]
    fn x_forwarded_of_trusted_proxies() {
        for (peer, trusted, lines, expected) in [
            (
                Some("127.0.0.1"),
                &[][..],
                &[("x-forwarded-for", "192.0.2.9"), ("x-forwarded-proto", "https")][..],
                "https 192.0.2.9 - 0",
            ),
            (None, &[], &[("x-forwarded-for", "192.0.2.9")], "http 192.0.2.9 - 0"),
            (None, &["10.0.0.0/8"], &[("x-forwarded-for", "192.0.2.9")], "http - - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-for", "6.6.6.6, 192.0.2.9")], "http 192.0.2.9 - 0"),
            (
                Some("127.0.0.1"),
                &[],
                &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.9")],
                "http 192.0.2.9 - 0",
            ),
            (
                Some("10.0.0.1"),
                &["10.0.0.0/8"],
                &[("x-forwarded-for", "6.6.6.6, 192.0.2.9, 10.0.0.2")],
                "http 192.0.2.9 - 0",
            ),
            (Some("10.0.0.1"), &["10.0.0.0/8"], &[("x-forwarded-for", "10.0.0.3, 10.0.0.2")], "http 10.0.0.3 - 0"),
            (
                Some("10.0.0.1"),
                &["10.0.0.0/8"],
                &[("x-forwarded-for", "6.6.6.6, unknown, 10.0.0.2")],
                "http 10.0.0.2 - 0",
            ),
            (Some("10.0.0.1"), &["10.0.0.0/8"], &[("x-forwarded-for", "garbage")], "http 10.0.0.1 - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-for", "[2001:db8::1]:443")], "http 2001:db8::1 - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-for", "2001:db8::1")], "http 2001:db8::1 - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-for", "192.0.2.9:5555")], "http 192.0.2.9 - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-proto", "https, http")], "http 127.0.0.1 - 0"),
            (Some("127.0.0.1"), &[], &[("x-forwarded-ssl", "on")], "https 127.0.0.1 - 0"),
            (
                Some("127.0.0.1"),
                &[],
                &[("x-forwarded-host", "evil.test, a.test:81"), ("x-forwarded-port", "443")],
                "http 127.0.0.1 a.test:81 443",
            ),
            (
                Some("127.0.0.1"),
                &[],
                &[("x-forwarded-host", "a/b"), ("x-forwarded-port", "99999")],
                "http 127.0.0.1 - 0",
            ),
            (
                Some("127.0.0.1"),
                &[],
                &[("x-forwarded-for", "192.0.2.9"), ("forwarded", "for=6.6.6.6;proto=https")],
                "http 192.0.2.9 - 0",
            ),
        ] {
            let (client, headers) = resolved(peer, trusted, lines);
            assert_eq!(shown(&client), expected, "{lines:?}");
            assert!(!headers.contains_key("forwarded"));
        }
        let (_, headers) =
            resolved(Some("127.0.0.1"), &[], &[("x-forwarded-proto", "https, http"), ("x-forwarded-host", "a/b")]);
        assert_eq!(
            (&headers["x-forwarded-proto"], headers.get("x-forwarded-host")),
            (&HeaderValue::from_static("http"), None)
        );
    }

    #[test]
    fn an_item_that_is_no_text_is_but_an_item() {
        let lines = [("x-forwarded-for", "\u{ff}, 192.0.2.9"), ("x-forwarded-host", "\u{ff}, a.test")];
        let (client, headers) = resolved(None, &[], &lines);
        assert_eq!(shown(&client), "http 192.0.2.9 a.test 0");
        assert_eq!(
            (&headers["x-forwarded-for"], &headers["x-forwarded-host"]),
            (&"192.0.2.9".parse().unwrap(), &"a.test".parse().unwrap())
        );
    }

    /// What the app reads is what was understood.
    #[test]
    fn fields_are_written_from_what_was_understood() {
        for (lines, left) in [
            (
                &[("forwarded", "for=\"[2001:DB8::1]:99\";proto=WSS;host=\"a.test:81\";by=_x;secret=1")][..],
                &[("forwarded", "for=\"[2001:db8::1]\";proto=https;host=\"a.test:81\"")][..],
            ),
            (&[("x-forwarded-host", "a.t;host=evil.test")], &[]),
            (&[("forwarded", "host=\"evil.com/\"")], &[]),
            (&[("forwarded", "proto=ws")], &[("forwarded", "proto=http")]),
            (&[("x-forwarded-proto", "ws")], &[("x-forwarded-proto", "http")]),
            (
                &[("x-forwarded-proto", "https"), ("x-forwarded-ssl", "off"), ("x-forwarded-scheme", "http")],
                &[("x-forwarded-proto", "https"), ("x-forwarded-ssl", "on"), ("x-forwarded-scheme", "https")],
            ),
            (
                &[("x-forwarded-proto", "javascript"), ("x-forwarded-host", "evil.com/"), ("x-forwarded-port", "80x")],
                &[],
            ),
            (
                &[("x-forwarded-for", "6.6.6.6, <b>, 192.0.2.9, 127.0.0.1")],
                &[("x-forwarded-for", "192.0.2.9, 127.0.0.1")],
            ),
        ] {
            let (_, headers) = resolved(Some("127.0.0.1"), &[], lines);
            let seen: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            assert_eq!(seen, left, "{lines:?}");
        }
    }

    #[test]
    fn forwarded_of_trusted_proxies() {
        for (lines, expected, left) in [
            (&["for=192.0.2.9;proto=https;host=a.test"][..], "https 192.0.2.9 a.test 0", 1),
            (&["For=\"[2001:db8::1]:4711\"; Proto=HTTPS"], "https 2001:db8::1 - 0", 1),
            (&["for=6.6.6.6;proto=https, for=192.0.2.9;proto=http"], "http 192.0.2.9 - 0", 1),
            (
                &["for=6.6.6.6;host=evil.test", "for=192.0.2.9;proto=https, for=127.0.0.1;proto=http"],
                "https 192.0.2.9 - 0",
                1,
            ),
            (&["for=_hidden;proto=https"], "https 127.0.0.1 - 0", 1),
            (&["for=\"a,b;c\\\"d\", for=192.0.2.9"], "http 192.0.2.9 - 0", 1),
            (&["for=192.0.2.9;for=6.6.6.6"], "http 127.0.0.1 - 0", 0),
            (&["for=\"192.0.2.9"], "http 127.0.0.1 - 0", 0),
            (&["nonsense"], "http 127.0.0.1 - 0", 0),
            (&["for=\"6.6.6.6, for=192.0.2.9;proto=https"], "https 192.0.2.9 - 0", 1),
            (&["\u{ff}", "for=192.0.2.9"], "http 192.0.2.9 - 0", 1),
            (&["for=192.0.2.9;proto=gopher;host=\"evil.com/\""], "http 192.0.2.9 - 0", 1),
            (&[" , ;; ,"], "http 127.0.0.1 - 0", 0),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            let (client, headers) = resolved(Some("127.0.0.1"), &[], &lines);
            assert_eq!(shown(&client), expected, "{lines:?}");
            assert_eq!(headers.get_all("forwarded").iter().count(), left, "{lines:?}");
        }
    }
}
