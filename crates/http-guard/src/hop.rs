//! Fields that speak of one connection and go no further (RFC 9110 section 7.6.1), for messages in either direction.
//! It never adds a field.

use std::time::Duration;

use cache::fields::{members, tokens};
use http::{header, HeaderMap, HeaderName, Version};

const OF_THE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes them, and those that the Connection field names.
pub fn keep_end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        tokens(headers, header::CONNECTION).filter_map(|option| HeaderName::from_bytes(option).ok()).collect();
    named.iter().chain(&OF_THE_CONNECTION).for_each(|name| drop(headers.remove(name)));
}

/// Removes them for a process that we speak for: what it and its proxy say to each other goes through.
pub fn keep_end_to_end_and_proxy(headers: &mut HeaderMap) {
    let names = [header::PROXY_AUTHENTICATE, header::PROXY_AUTHORIZATION];
    let said =
        names.map(|name| headers.get_all(&name).iter().cloned().map(|value| (name.clone(), value)).collect::<Vec<_>>());
    keep_end_to_end(headers);
    headers.extend(said.into_iter().flatten());
}

/// Whether the Connection field has this option.
pub fn connection_has(headers: &HeaderMap, wanted: &str) -> bool {
    tokens(headers, header::CONNECTION).any(|option| option.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// For how long the other side says that it keeps the connection: zero, or until it says more; None: it does not say.
pub fn kept_for(headers: &HeaderMap, version: Version) -> Option<Duration> {
    let stays = match version {
        Version::HTTP_10 => connection_has(headers, "keep-alive"),
        _ => !connection_has(headers, "close"),
    };
    if !stays {
        return Some(Duration::ZERO);
    }
    let timeout = members(headers, HeaderName::from_static("keep-alive")).find_map(|member| {
        let (name, value) = std::str::from_utf8(member).ok()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().trim_matches('"').parse::<u64>().ok())?
    })?;
    // Its clock began before ours.
    Some(Duration::from_secs(timeout.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_speaks_of_the_connection_stays_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("connection", "x-other,, ü"),
            ("connection", "upgrade"),
            ("x-own", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-mine", "1"),
            ("cookie", "a=b"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        assert!(connection_has(&headers, "Upgrade") && !connection_has(&headers, "keep-alive"));
        keep_end_to_end(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        // A member that is no name leaves the others what they are.
        assert_eq!(left, ["cookie", "x-mine"]);
    }

    #[test]
    fn a_quote_hides_no_option_of_the_connection() {
        for connection in [r#"", x-own, close"#, r#"a="1, x-own, close, 2""#, "\u{fc}, x-own, close"] {
            let fields = [("connection", connection), ("x-own", "1"), ("x-mine", "1")];
            let mut headers = HeaderMap::from_iter(fields.map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())));
            assert!(connection_has(&headers, "close"), "{connection}");
            keep_end_to_end(&mut headers);
            assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-mine"], "{connection}");
        }
    }

    #[test]
    fn what_is_said_to_a_proxy_may_stay() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("proxy-authenticate", "Basic"), ("proxy-authenticate", "Digest"), ("te", "trailers")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        keep_end_to_end_and_proxy(&mut headers);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(left, [("proxy-authenticate", &b"Basic"[..]), ("proxy-authenticate", b"Digest")]);
    }

    #[test]
    fn how_long_a_connection_is_kept() {
        let of = |fields: &[(&'static str, &'static str)], version| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            kept_for(&headers, version)
        };
        assert_eq!(of(&[], Version::HTTP_11), None);
        assert_eq!(of(&[], Version::HTTP_10), Some(Duration::ZERO));
        assert_eq!(of(&[("connection", "x, Close")], Version::HTTP_11), Some(Duration::ZERO));
        assert_eq!(of(&[("connection", "keep-alive")], Version::HTTP_10), None);
        assert_eq!(of(&[("keep-alive", "max=100, Timeout=5")], Version::HTTP_11), Some(Duration::from_secs(4)));
        assert_eq!(
            of(&[("keep-alive", r#"x="a, timeout=9", timeout=5"#)], Version::HTTP_11),
            Some(Duration::from_secs(4))
        );
        assert_eq!(of(&[("keep-alive", "timeout=0")], Version::HTTP_11), Some(Duration::ZERO));
        assert_eq!(of(&[("keep-alive", "timeout=soon")], Version::HTTP_11), None);
    }
}
