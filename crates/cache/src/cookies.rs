//! Cookies as a shared cache sees them: what a request brings, what a response sets, and what the names tell of
//! visitors. It never keeps a value.

use http::{header, HeaderMap};

use crate::fields::{is_token, trim};

/// Names of one kind that are remembered of a site, at most: more than any app has.
pub const MAX_NAMES: usize = 64;
/// Bytes of a name that is remembered, at most.
pub const MAX_NAME: usize = 128;
/// Names of cookies with tokens that are remembered of a site, at most.
const MAX_TOKENS: usize = 16;
/// Bytes of a path that is remembered as an example, at most.
const MAX_PATH: usize = 200;

/// What a site's responses have told of its cookies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CookieKnowledge {
    /// Names of cookies that the app keeps from scripts (`HttpOnly`), in order: by such ones it knows its visitors.
    pub http_only: Vec<String>,
    /// Cookies that hand a form's token to scripts, by name.
    pub tokens: Vec<Token>,
    /// There were names that could not be remembered: any cookie may be one by which the app knows its visitors.
    pub overflowed: bool,
}

/// A cookie with a token against forged requests that scripts may read (`XSRF-TOKEN`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub name: String,
    /// Path of a page that sets it and was stored for everybody, with the cookie.
    pub page: Option<String>,
}

impl CookieKnowledge {
    /// What is known after a response, too. None: it tells nothing new.
    pub fn after(&self, response: &HeaderMap) -> Option<CookieKnowledge> {
        if !response.contains_key(header::SET_COOKIE) || !set_names(response).any(|set| self.is_new(&set)) {
            return None;
        }
        let mut told = CookieKnowledge::default();
        for Set { name, http_only } in set_names(response) {
            match readable(name) {
                Some(name) if http_only => told.http_only.push(name.into()),
                Some(name) if is_token_like(name.as_bytes()) => {
                    told.tokens.push(Token { name: name.into(), page: None })
                }
                None if http_only => told.overflowed = true,
                _ => {}
            }
        }
        self.merged(&told)
    }

    fn is_new(&self, set: &Set<'_>) -> bool {
        if set.http_only {
            return !self.overflowed && !self.http_only.iter().any(|known| known.as_bytes() == set.name);
        }
        is_token_like(set.name)
            && self.tokens.len() < MAX_TOKENS
            && !self.tokens.iter().any(|known| known.name.as_bytes() == set.name)
    }

    /// What is known after a page was stored for everybody with the cookies that it sets. None: that tells nothing new.
    pub fn after_storing(&self, response: &HeaderMap, path: &str) -> Option<CookieKnowledge> {
        let end = (0..=MAX_PATH.min(path.len())).rev().find(|end| path.is_char_boundary(*end)).unwrap_or(0);
        let names = set_names(response).filter(|set| !set.http_only && is_token_like(set.name));
        let tokens =
            names.filter_map(|set| Some(Token { name: readable(set.name)?.into(), page: Some(path[..end].into()) }));
        self.merged(&CookieKnowledge { tokens: tokens.collect(), ..CookieKnowledge::default() })
    }

    /// With what another has learned of the same site. None: it is nothing new.
    pub fn merged(&self, other: &CookieKnowledge) -> Option<CookieKnowledge> {
        let mut all = self.clone();
        all.overflowed |= other.overflowed;
        for name in other.http_only.iter().filter(|name| !self.http_only.contains(name)) {
            match all.http_only.len() < MAX_NAMES && readable(name.as_bytes()).is_some() {
                true => all.http_only.push(name.clone()),
                false => all.overflowed = true,
            }
        }
        all.http_only.sort();
        all.http_only.dedup();
        for token in &other.tokens {
            let has_room = all.tokens.len() < MAX_TOKENS && readable(token.name.as_bytes()).is_some();
            match all.tokens.iter_mut().find(|known| known.name == token.name) {
                Some(known) => known.page = known.page.take().or_else(|| token.page.clone()),
                None if has_room => all.tokens.push(token.clone()),
                None => {}
            }
        }
        all.tokens.sort_by(|one, other| one.name.cmp(&other.name));
        (all != *self).then_some(all)
    }
}

/// A name that can be remembered.
fn readable(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && name.len() <= MAX_NAME)
}

/// Names and values of the cookies that a request brings (RFC 6265 section 4.2).
pub fn cookies(request: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs(request).filter(|(_, value)| value.is_some()).map(|(name, value)| (name, value.unwrap_or_default()))
}

/// The same, with what stands there without a `=`, which some apps take for a name.
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

/// A cookie that a response sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<'a> {
    pub name: &'a [u8],
    /// Scripts may not read it.
    pub http_only: bool,
}

/// The cookies that a response sets.
pub fn set_names(response: &HeaderMap) -> impl Iterator<Item = Set<'_>> {
    response.get_all(header::SET_COOKIE).iter().filter_map(|line| {
        let (name, _) = set_cookie(line.as_bytes())?;
        let mut attributes = line.as_bytes().split(|&byte| byte == b';').skip(1);
        let http_only = attributes.any(|one| trim(one).eq_ignore_ascii_case(b"httponly"));
        Some(Set { name, http_only })
    })
}

/// Whether a response sets a cookie that it keeps from scripts: by such ones a site tells its visitors apart.
pub fn sets_http_only(response: &HeaderMap) -> bool {
    set_names(response).any(|set| set.http_only)
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

/// The same, followed by an account's identifier: digits, capital letters, `-` and `_`. (`_ga_session` is the session
/// of a Rails app that is called "ga".)
const ANALYTICS_OF: &[&str] = &["_ga_", "_gat_UA-", "_gat_gtag_UA_", "_hjSession_", "_hjSessionUser_"];

/// The same, followed by anything (Matomo).
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

/// Whether it is the name of a cookie with a token against forged requests, as frameworks call it: `XSRF-TOKEN`,
/// `csrf_token`, `_csrf`, `csrftoken`, `__RequestVerificationToken`.
pub fn is_token_like(name: &[u8]) -> bool {
    const WORDS: [&[u8]; 5] = [b"csrf", b"xsrf", b"antiforgery", b"authenticity", b"requestverification"];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.windows(word.len()).any(|part| part == *word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn setting(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (header::SET_COOKIE, HeaderValue::from_str(line).unwrap())).collect()
    }

    #[test]
    fn cookies_kept_from_scripts_and_tokens_are_remembered() {
        let response =
            setting(&["a=1; path=/; HttpOnly", "b=2; path=/", "c =\"3;httponly", "XSRF-TOKEN=x", "_csrf=y; HttpOnly"]);
        let learned = CookieKnowledge::default().after(&response).unwrap();
        assert_eq!(learned.http_only, ["_csrf", "a", "c"]);
        assert_eq!(learned.tokens, [Token { name: "XSRF-TOKEN".into(), page: None }]);
        assert_eq!((learned.overflowed, learned.after(&response)), (false, None), "nothing new");
        let stored = learned.after_storing(&response, "/page").unwrap();
        assert_eq!(stored.tokens[0].page.as_deref(), Some("/page"));
        assert_eq!(stored.after_storing(&response, "/other"), None, "one example is enough");
        assert_eq!(learned.merged(&stored), Some(stored.clone()));
        assert_eq!(stored.merged(&learned), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut learned = CookieKnowledge::default();
        for n in 0..MAX_NAMES {
            learned = learned.after(&setting(&[&format!("n{n}=1; HttpOnly"), &format!("csrf{n}=1")])).unwrap();
        }
        assert_eq!((learned.http_only.len(), learned.tokens.len(), learned.overflowed), (MAX_NAMES, MAX_TOKENS, false));
        let more = learned.after(&setting(&["one-more=1; HttpOnly"])).unwrap();
        assert_eq!((more.http_only.len(), more.overflowed), (MAX_NAMES, true));
        assert_eq!(more.after(&setting(&["another=1; HttpOnly", "csrf-too=1"])), None);
        let long = format!("{}=1; HttpOnly", "n".repeat(MAX_NAME + 1));
        assert!(CookieKnowledge::default().after(&setting(&[&long])).unwrap().overflowed);
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
    fn names_of_tokens() {
        for name in [
            "XSRF-TOKEN",
            "csrf_token",
            "_csrf",
            "csrftoken",
            ".AspNetCore.Antiforgery.x",
            "__RequestVerificationToken",
        ] {
            assert!(is_token_like(name.as_bytes()), "{name}");
        }
        for name in ["token", "_session", "theme", ""] {
            assert!(!is_token_like(name.as_bytes()), "{name}");
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
