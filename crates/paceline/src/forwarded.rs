//! Who the client is behind proxies: X-Forwarded-* and Forwarded (RFC 7239), believed only from trusted peers.
//! It never lets a client speak for itself: from all others these headers are removed before anybody reads them.

use std::net::{IpAddr, SocketAddr};

use http::{header, HeaderMap, HeaderName, HeaderValue};

use crate::{
    config::TrustedProxies,
    exchange::{Client, Connection},
};

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

/// Who asks. Changes `headers` so that the app, reading them itself, comes to the same result.
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
        .filter(|name| is_x_forwarded(name) || **name == header::FORWARDED || ADDRESSES.contains(name))
        .cloned()
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
}

fn x_forwarded(headers: &mut HeaderMap, client: &mut Client, trusted: &TrustedProxies) {
    client.proxied = true;
    let chain = list(headers, &FOR);
    if let Some((_, address)) = rightmost_untrusted(chain.iter().map(|node| address_of(node)), trusted) {
        client.address = Some(address);
    }
    // The word of the proxy that is next to us is the last; Rack's versions disagree on lists, so there is but one.
    if let Some(proto) = last(headers, &PROTO).or_else(|| last(headers, &SCHEME)) {
        client.https = matches!(proto.to_ascii_lowercase().as_str(), "https" | "wss");
    } else if let Some(ssl) = last(headers, &SSL) {
        client.https = ssl.eq_ignore_ascii_case("on");
    }
    client.host = last(headers, &HOST);
    if client.host.as_deref().is_some_and(|host| !is_host(host)) {
        headers.remove(&HOST);
        client.host = None;
    }
    client.port = last(headers, &PORT).and_then(|port| port.parse().ok());
    if client.port.is_none() {
        headers.remove(&PORT);
    }
}

fn forwarded(headers: &mut HeaderMap, client: &mut Client, trusted: &TrustedProxies) {
    let text = list_text(headers, &header::FORWARDED);
    let Some(elements) = text.as_deref().and_then(elements).filter(|elements| !elements.is_empty()) else {
        headers.remove(header::FORWARDED);
        return;
    };
    client.proxied = true;
    let found = rightmost_untrusted(elements.iter().map(|element| address_of(element.get("for")?)), trusted);
    // The element that names the client was written by the first trusted proxy: it knows how it was asked.
    let index = found.map_or(elements.len() - 1, |(index, _)| index);
    let element = &elements[index];
    client.address = found.map(|(_, address)| address).or(client.address);
    if let Some(proto) = element.get("proto") {
        client.https = matches!(proto.to_ascii_lowercase().as_str(), "https" | "wss");
    }
    client.host = element.get("host").filter(|host| is_host(host)).map(str::to_owned);
    match HeaderValue::from_str(&element.text) {
        Ok(only) => drop(headers.insert(header::FORWARDED, only)),
        Err(_) => drop(headers.remove(header::FORWARDED)),
    }
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

fn is_host(host: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.len() <= 255 && host.bytes().all(fine)
}

/// All lines of a header as one; None when there is none, or it is no text.
fn list_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Result<Vec<_>, _> = headers.get_all(name).iter().map(|line| line.to_str()).collect();
    lines.ok().filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}

fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let text = list_text(headers, name).unwrap_or_default();
    text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

/// The last of a list, which is then all that the header says.
fn last(headers: &mut HeaderMap, name: &HeaderName) -> Option<String> {
    let last = list(headers, name).pop();
    match last.as_deref().and_then(|last| HeaderValue::from_str(last).ok()) {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    }
    last
}

/// One hop of a Forwarded header.
#[derive(Debug, PartialEq)]
struct Element {
    pairs: Vec<(String, String)>,
    text: String,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// RFC 7239 section 4. None: malformed, and then nothing of it counts.
fn elements(text: &str) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    for part in split(text, ',')? {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in split(part, ';')?.into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let name = name.to_ascii_lowercase();
            // Each parameter once (section 4).
            if name.is_empty() || pairs.iter().any(|(other, _)| *other == name) {
                return None;
            }
            pairs.push((name, unquoted(value)?));
        }
        if !pairs.is_empty() {
            elements.push(Element { pairs, text: part.trim().to_owned() });
        }
    }
    Some(elements)
}

/// Splits outside quoted strings; None when one is not closed.
fn split(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == at && !quoted => {
                parts.push(&text[from..index]);
                from = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    (!quoted).then_some(parts)
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
    use super::*;

    fn resolved(peer: Option<&str>, trusted: &[&str], lines: &[(&'static str, &str)]) -> (Client, HeaderMap) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let remote = peer.map(|peer| SocketAddr::new(peer.parse().unwrap(), 9));
        let connection = Connection { remote, local: None, tls: false, accepted: 0 };
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
            (&[" , ;; ,"], "http 127.0.0.1 - 0", 0),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            let (client, headers) = resolved(Some("127.0.0.1"), &[], &lines);
            assert_eq!(shown(&client), expected, "{lines:?}");
            assert_eq!(headers.get_all("forwarded").iter().count(), left, "{lines:?}");
        }
    }
}
