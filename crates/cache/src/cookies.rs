//! Cookies as a shared cache sees them: what a request brings, and what a response sets. It never keeps one.

use http::{header, HeaderMap};

use crate::fields::{is_token, trim};

/// Names and values of the cookies that a request brings (RFC 6265 section 4.2).
pub fn cookies(request: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs(request).filter(|(_, value)| value.is_some()).map(|(name, value)| (name, value.unwrap_or_default()))
}

/// Cookies with what stands there without a `=`, which some apps take for a name.
pub fn pairs(request: &HeaderMap) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let pairs = request.get_all(header::COOKIE).iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    pairs.map(trim).filter(|pair| !pair.is_empty()).map(|pair| match pair.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&pair[..equals], Some(&pair[equals + 1..])),
        None => (pair, None),
    })
}

/// Name and value that a Set-Cookie sets. Quotes hold nothing together there (RFC 6265 section 5.2).
pub fn set_cookie(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let pair = line.split(|&byte| byte == b';').next()?;
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    Some((trim(&pair[..equals]), trim(&pair[equals + 1..])))
}

/// Whether a response sets a cookie that it keeps from scripts: by such ones a site tells its visitors apart.
pub fn sets_http_only(response: &HeaderMap) -> bool {
    response.get_all(header::SET_COOKIE).iter().any(|line| {
        let mut attributes = line.as_bytes().split(|&byte| byte == b';').skip(1);
        set_cookie(line.as_bytes()).is_some() && attributes.any(|one| trim(one).eq_ignore_ascii_case(b"httponly"))
    })
}

/// How often `name` stands in `text` as a word of its own.
pub fn occurrences(text: &[u8], name: &[u8]) -> usize {
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| !is_token(&[*byte]));
    let starts = (0..=text.len().saturating_sub(name.len())).filter(|at| text[*at..].starts_with(name));
    starts.filter(|at| is_end(at.checked_sub(1).map(|at| &text[at])) && is_end(text.get(at + name.len()))).count()
}

/// Whether every app reads the value as one: some take a comma, a quote or a space for the end of it.
pub fn is_plain(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, b',' | b'"') || byte.is_ascii_whitespace())
}

/// Cookies of scripts that count visitors, and of a CDN in front: apps make no page of them.
const ANALYTICS: &[&str] = &[
    "_ga",
    "_gid",
    "_gat",
    "_gcl_au",
    "_gcl_aw",
    "_gcl_dc",
    "_gcl_gs",
    "__utma",
    "__utmb",
    "__utmc",
    "__utmt",
    "__utmv",
    "__utmz",
    "_fbp",
    "_fbc",
    "_clck",
    "_clsk",
    "_uetsid",
    "_uetvid",
    "__cf_bm",
    "_cfuvid",
    "cf_clearance",
];

/// Names of such cookies that an account's identifier follows: digits, capital letters, `-` and `_`.
/// (`_ga_session` is the session
/// of a Rails app that is called "ga".)
const ANALYTICS_OF: &[&str] = &["_ga_", "_gat_UA-", "_gat_gtag_UA_", "_hjSession_", "_hjSessionUser_"];

/// Names of such cookies that anything may follow (Matomo).
const MATOMO: &[&str] = &["_pk_id.", "_pk_ses.", "_pk_ref.", "_pk_cvar.", "_pk_hsr."];

/// Whether it is the name of a cookie that no page depends on.
pub fn is_analytics(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let is_account = |rest: &str| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
    };
    ANALYTICS.contains(&name)
        || ANALYTICS_OF.iter().any(|start| name.strip_prefix(start).is_some_and(is_account))
        || MATOMO.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn setting(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (header::SET_COOKIE, HeaderValue::from_str(line).unwrap())).collect()
    }

    #[test]
    fn what_is_kept_from_scripts() {
        for (line, kept) in [
            ("a=1; path=/; HttpOnly", true),
            ("c =\"3;httponly", true),
            ("b=2; path=/", false),
            ("httponly=1", false),
            ("HttpOnly; path=/", false),
        ] {
            assert_eq!(sets_http_only(&setting(&["other=1", line])), kept, "{line}");
        }
    }

    #[test]
    fn names_that_no_page_depends_on() {
        for name in ["_ga", "_ga_5XQ2N", "_gat_UA-12-3", "_pk_id.1.1fff", "__cf_bm", "_hjSessionUser_99"] {
            assert!(is_analytics(name.as_bytes()), "{name}");
        }
        for name in ["_ga_session", "_ga_", "_gat_session", "_GA", "_shop_session", "", "_hjSession_x", "_fbp2"] {
            assert!(!is_analytics(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn pairs_of_a_request() {
        let lines = ["a=1; b", " c=; ; =d"].map(|line| (header::COOKIE, HeaderValue::from_static(line)));
        let request = HeaderMap::from_iter(lines);
        let all: Vec<_> = pairs(&request).collect();
        assert_eq!(all, [(&b"a"[..], Some(&b"1"[..])), (b"b", None), (b"c", Some(b"")), (b"", Some(b"d"))]);
        assert_eq!(cookies(&request).count(), 3);
    }
}
