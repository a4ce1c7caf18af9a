//! The host that a request is for (RFC 9112 section 3.2.2, RFC 9110 section 7.2).

use std::borrow::Cow;

use http::{header, request::Parts};

/// The host the request is for: of the absolute form if there is one, else of the Host header (RFC 9112 section 3.2.2).
pub fn host(head: &Parts) -> Cow<'_, str> {
    match head.uri.authority() {
        Some(authority) => authority.as_str().rsplit('@').next().unwrap_or("").into(),
        None => head.headers.get(header::HOST).map_or("".into(), |host| text(host.as_bytes())),
    }
}

/// As text. `from_utf8_lossy` goes byte by byte, also where all of it is UTF-8.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Splits `name:port`; an IPv6 name keeps its brackets.
pub fn split_host(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.ends_with(']') && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (name, Some(port))
        }
        Some((name, "")) => (name, None),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_split() {
        let table = [
            ("a", ("a", None)),
            ("a:1", ("a", Some("1"))),
            ("a:", ("a", None)),
            ("[::1]", ("[::1]", None)),
            ("[::1]:80", ("[::1]", Some("80"))),
            ("a:b", ("a:b", None)),
            ("", ("", None)),
        ];
        for (host, expected) in table {
            assert_eq!(split_host(host), expected, "{host}");
        }
    }
}
