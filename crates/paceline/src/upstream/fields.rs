//! Fields that speak of one connection and go no further (RFC 9110 section 7.6.1), for messages in either direction.
//! It never adds a field.

use http::{header, HeaderMap, HeaderName};

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
        options(headers).filter_map(|option| HeaderName::from_bytes(option.as_bytes()).ok()).collect();
    named.iter().chain(&OF_THE_CONNECTION).for_each(|name| drop(headers.remove(name)));
}

/// Whether the Connection field has this option.
pub fn connection_has(headers: &HeaderMap, wanted: &str) -> bool {
    options(headers).any(|option| option.eq_ignore_ascii_case(wanted))
}

fn options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    members(headers, header::CONNECTION)
}

/// The members of a list field, over all its lines (RFC 9110 section 5.6.1).
pub fn members(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|member| !member.is_empty())
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
        // A line that is no text names nothing.
        assert_eq!(left, ["cookie", "x-mine", "x-other"]);
    }
}
