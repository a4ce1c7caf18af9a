//! Cache-Control (RFC 9111 section 5.2), with stale-while-revalidate and stale-if-error (RFC 5861) and immutable (RFC
//! 8246). It never decides what follows from a directive.

use http::{header, HeaderMap, HeaderName};

use crate::fields::{members, pair, seconds, split};

/// A directive that names fields, or stands for the whole response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FieldScope {
    #[default]
    Absent,
    /// Only these fields are meant (the qualified form).
    Fields(Vec<HeaderName>),
    Everything,
}

/// A directive with a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delta {
    #[default]
    Absent,
    Seconds(u64),
    /// There, but no number: whoever wrote it meant some limit (RFC 9111 section 4.2.1: consider the response stale).
    Invalid,
}

impl Delta {
    pub fn read(value: Option<&[u8]>) -> Delta {
        value.and_then(seconds).map_or(Delta::Invalid, Delta::Seconds)
    }

    /// Seconds, an invalid number being none at all.
    pub fn or_zero(self) -> Option<u64> {
        match self {
            Delta::Absent => None,
            Delta::Seconds(seconds) => Some(seconds),
            Delta::Invalid => Some(0),
        }
    }

    /// "Either the first occurrence should be used or the response should be considered stale" (section 4.2.1): the
    /// first.
    fn first(&mut self, read: Delta) {
        if *self == Delta::Absent {
            *self = read;
        }
    }
}

/// What a response says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseDirectives {
    pub max_age: Delta,
    pub s_maxage: Delta,
    pub no_cache: FieldScope,
    pub private: FieldScope,
    pub no_store: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub public: bool,
    pub immutable: bool,
    pub stale_while_revalidate: Delta,
    pub stale_if_error: Delta,
}

/// `no-transform` in Cache-Control (section 5.2.2.6).
pub fn forbids_transforming(headers: &HeaderMap) -> bool {
    members(headers, header::CACHE_CONTROL).any(|member| member.eq_ignore_ascii_case(b"no-transform"))
}

impl ResponseDirectives {
    /// From Cache-Control alone. (`targeted` knows what goes before it.)
    pub fn of(headers: &HeaderMap) -> ResponseDirectives {
        let mut read = ResponseDirectives::default();
        for member in members(headers, header::CACHE_CONTROL) {
            match pair(member) {
                Some((name, value)) => read.take(name, value.as_deref()),
                None => read.damaged(member),
            }
        }
        read
    }

    /// Whether the response is to be given to one client alone, or to nobody before the origin has been asked.
    pub fn restricts_reuse(&self) -> bool {
        self.private != FieldScope::Absent || self.no_cache != FieldScope::Absent
    }

    /// One directive; unknown ones are ignored (section 5.2.3).
    pub fn take(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("max-age") => self.max_age.first(Delta::read(value)),
            () if is("s-maxage") => self.s_maxage.first(Delta::read(value)),
            () if is("no-cache") => self.no_cache.add(value),
            () if is("private") => self.private.add(value),
            () if is("no-store") => self.no_store = true,
            () if is("must-revalidate") => self.must_revalidate = true,
            () if is("proxy-revalidate") => self.proxy_revalidate = true,
            () if is("must-understand") => self.must_understand = true,
            () if is("public") => self.public = true,
            () if is("immutable") => self.immutable = true,
            () if is("stale-while-revalidate") => self.stale_while_revalidate.first(Delta::read(value)),
            () if is("stale-if-error") => self.stale_if_error.first(Delta::read(value)),
            () => {}
        }
    }

    /// What is no directive, but begins like one (`max-age =1`), restricts as that one would.
    fn damaged(&mut self, member: &[u8]) {
        let name = split(member, b'=').next().unwrap_or_default();
        let name = name.split(|byte| b" \t".contains(byte)).next().unwrap_or_default();
        let restricts = [
            &b"max-age"[..],
            b"s-maxage",
            b"no-cache",
            b"private",
            b"no-store",
            b"must-revalidate",
            b"proxy-revalidate",
        ];
        if restricts.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            self.take(name, None);
        }
    }
}

impl FieldScope {
    fn add(&mut self, value: Option<&[u8]>) {
        let names = value.map(|value| split(value, b',').map(HeaderName::from_bytes).collect::<Result<Vec<_>, _>>());
        *self = match (std::mem::take(self), names) {
            // A list that names nothing, or no fields, can only be taken for the whole.
            (FieldScope::Everything, _) | (_, None | Some(Err(_))) => FieldScope::Everything,
            (FieldScope::Absent, Some(Ok(names))) => FieldScope::Fields(names),
            (FieldScope::Fields(mut fields), Some(Ok(names))) => {
                fields.extend(names);
                FieldScope::Fields(fields)
            }
        };
    }

    pub fn fields(&self) -> &[HeaderName] {
        match self {
            FieldScope::Fields(fields) => fields,
            _ => &[],
        }
    }
}

/// What a request asks (RFC 9111 section 5.2.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestDirectives {
    pub max_age: Option<u64>,
    /// Some(None): however stale.
    pub max_stale: Option<Option<u64>>,
    pub min_fresh: Option<u64>,
    pub no_cache: bool,
    pub no_store: bool,
    pub only_if_cached: bool,
    pub stale_if_error: Option<u64>,
}

impl RequestDirectives {
    pub fn of(headers: &HeaderMap) -> RequestDirectives {
        let mut read = RequestDirectives::default();
        if !headers.contains_key(header::CACHE_CONTROL) {
            // RFC 9111 section 5.4, for clients from before Cache-Control.
            read.no_cache = members(headers, header::PRAGMA).any(|member| member.eq_ignore_ascii_case(b"no-cache"));
            return read;
        }
        for (name, value) in members(headers, header::CACHE_CONTROL).filter_map(pair) {
            let delta = || Delta::read(value.as_deref()).or_zero();
            match &name.to_ascii_lowercase()[..] {
                b"max-age" => read.max_age = read.max_age.or_else(delta),
                b"max-stale" => read.max_stale = Some(value.as_deref().map(|value| seconds(value).unwrap_or(0))),
                b"min-fresh" => read.min_fresh = read.min_fresh.or_else(delta),
                b"no-cache" => read.no_cache = true,
                b"no-store" => read.no_store = true,
                b"only-if-cached" => read.only_if_cached = true,
                b"stale-if-error" => read.stale_if_error = delta(),
                _ => {}
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (header::CACHE_CONTROL, http::HeaderValue::from_static(line))).collect()
    }

    fn response(lines: &[&'static str]) -> ResponseDirectives {
        ResponseDirectives::of(&headers(lines))
    }

    #[test]
    fn names_have_no_case_and_lines_are_one_list() {
        let read = response(&["MaX-aGe=3600, foobar, PUBLIC", "s-maxage=\"10\""]);
        assert_eq!((read.max_age, read.s_maxage, read.public), (Delta::Seconds(3600), Delta::Seconds(10), true));
    }

    #[test]
    fn a_directive_counts_beside_what_is_no_text_and_not_within_quotes() {
        let of = |line: &str| HeaderMap::from_iter([(header::CACHE_CONTROL, line.parse().unwrap())]);
        for (line, forbids, restricts) in [
            ("no-transform, \u{fc}", true, false),
            ("\u{fc}, private", false, true),
            (r#"x="a, no-transform, private""#, false, false),
            (r#"x="\", no-transform", no-cache"#, false, true),
            (r#"private="x-a, x-b", No-Transform"#, true, true),
            ("privately, no-cached, no-transformation", false, false),
        ] {
            let read = (forbids_transforming(&of(line)), ResponseDirectives::of(&of(line)).restricts_reuse());
            assert_eq!(read, (forbids, restricts), "{line}");
        }
    }

    #[test]
    fn the_first_of_several_counts() {
        assert_eq!(response(&["max-age=1800, max-age=1"]).max_age, Delta::Seconds(1800));
        assert_eq!(response(&["max-age=x", "max-age=1"]).max_age, Delta::Invalid);
    }

    #[test]
    fn what_is_no_number_is_a_limit_all_the_same() {
        for line in
            ["max-age=-1", "max-age='3600'", "max-age", "max-age=", "max-age =3600", "max-age= 3600", "max-age=1.5"]
        {
            assert_eq!(response(&[line]).max_age, Delta::Invalid, "{line}");
        }
    }

    #[test]
    fn directives_within_quotes_are_none() {
        let read = response(&["extension=\"max-age=3600, no-store\", max-age=1"]);
        assert_eq!((read.max_age, read.no_store), (Delta::Seconds(1), false));
    }

    #[test]
    fn qualified_and_bare_forms() {
        let names =
            |list: &[&'static str]| FieldScope::Fields(list.iter().map(|name| HeaderName::from_static(name)).collect());
        assert_eq!(response(&["private=\"a, b\""]).private, names(&["a", "b"]));
        assert_eq!(response(&["no-cache=\"a\"", "no-cache=b"]).no_cache, names(&["a", "b"]));
        for line in ["private", "private=\"a\", private", "private=\"a b\"", "private=\"\""] {
            assert_eq!(response(&[line]).private, FieldScope::Everything, "{line}");
        }
    }

    #[test]
    fn requests() {
        let read = RequestDirectives::of(&headers(&["max-age=0, max-stale, min-fresh=x, no-store, only-if-cached"]));
        let told = RequestDirectives {
            max_age: Some(0),
            max_stale: Some(None),
            min_fresh: Some(0),
            no_store: true,
            only_if_cached: true,
            ..Default::default()
        };
        assert_eq!(read, told);
        let mut pragma = HeaderMap::new();
        pragma.insert(header::PRAGMA, http::HeaderValue::from_static("x, No-Cache"));
        assert!(RequestDirectives::of(&pragma).no_cache);
        pragma.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("foo"));
        assert!(!RequestDirectives::of(&pragma).no_cache, "Cache-Control goes before Pragma");
    }
}
