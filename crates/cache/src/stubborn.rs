//! An owner's rules against the app's word: pages that say `private` or `max-age=0` are kept for a while all the same,
//! one for each visitor that the named cookies tell apart. It never keeps what says no-store, nor what two visitors
//! might share by mistake: that is refused, whatever the rule says.

use http::{header, request, response, HeaderMap, HeaderName, Method};

use crate::{
    cookies::{cookies, is_analytics, is_plain, occurrences, pairs, set_cookie},
    directives::FieldScope,
    fields::tokens,
    freshness::{ExchangeTimes, Freshness, Holds},
    status::Reason,
    storing::{kept, Storable},
    targeted::Policy,
    vary::VaryNames,
    Millis,
};

/// What becomes of a response that sets a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetCookie {
    /// It is not stored.
    #[default]
    Refuse,
    /// It is stored without. Who asked for it gets it as it is, and the new value of a named cookie stands for the
    /// same session.
    Strip,
}

/// One `[[cache]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// A path with `*` for anything, slashes included. Query strings are not looked at.
    pub path: String,
    /// Milliseconds for which a page is fresh.
    pub ttl: Millis,
    /// Cookies whose values tell visitors apart.
    pub cookies: Vec<String>,
    /// Cookies that no page depends on; with `*` at the end all that begin so. A request with any other is private.
    pub ignore_cookies: Vec<String>,
    pub set_cookie: SetCookie,
    /// Pages that say no-cache are kept too.
    pub no_cache: bool,
    /// Milliseconds after `ttl` for which a page is still given: while a new one is made, and when that fails.
    pub stale_while_revalidate: Millis,
    pub stale_if_error: Millis,
}

impl Rule {
    pub fn covers(&self, path: &str) -> bool {
        path_patterns::matches(&self.path, path)
    }

    /// Whether a request may be answered by the rule. Who authenticates otherwise than by a cookie gets his own.
    pub fn admits(&self, request: &request::Parts) -> Result<(), Reason> {
        if ![Method::GET, Method::HEAD].contains(&request.method) {
            return Err(Reason::Method);
        }
        if request.headers.keys().any(authenticates) {
            return Err(Reason::Authorization);
        }
        if self.is_ambiguous(&request.headers) {
            Err(Reason::Cookies)
        } else {
            Ok(())
        }
    }

    /// Whether an app might find a named cookie where this one finds none: apps differ in what parts cookies and in
    /// whether names are decoded.
    fn is_ambiguous(&self, request: &HeaderMap) -> bool {
        if cookies(request).any(|(name, _)| name.contains(&b'%')) {
            return true;
        }
        self.cookies.iter().any(|named| {
            let said = |line: &http::HeaderValue| occurrences(line.as_bytes(), named.as_bytes());
            let all: usize = request.get_all(header::COOKIE).iter().map(said).sum();
            all != cookies(request).filter(|(name, _)| *name == named.as_bytes()).count()
        })
    }

    /// Which visitor this is, as far as the rule tells them apart: the named cookies with their values, in the rule's
    /// order, so that the order in the request does not matter. Empty: none of them was sent.
    pub fn visitor(&self, request: &HeaderMap) -> Vec<u8> {
        let mut said = Vec::new();
        for name in &self.cookies {
            for (_, value) in cookies(request).filter(|(sent, _)| *sent == name.as_bytes()) {
                said.extend_from_slice(name.as_bytes());
                said.push(b'=');
                said.extend_from_slice(value);
                said.push(b';');
            }
        }
        said
    }

    /// Whether the request brings a cookie of which the rule says nothing: it may be the one by which the app knows its
    /// visitor, so the answer is somebody's own.
    pub fn is_somebodys_own(&self, request: &HeaderMap) -> bool {
        self.unknown_cookies(request).next().is_some()
    }

    /// Names of the cookies of a request of which the rule says nothing, and that no script is known for.
    pub fn unknown_cookies<'a>(&'a self, request: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
        let known = |name: &[u8], value: Option<&[u8]>| {
            let harmless = self.ignores(name) || is_analytics(name);
            self.names(name) || harmless && value.is_some_and(is_plain)
        };
        pairs(request).filter(move |(name, value)| !known(name, *value)).map(|(name, _)| name)
    }

    fn ignores(&self, name: &[u8]) -> bool {
        self.ignore_cookies.iter().any(|ignored| match ignored.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => ignored.as_bytes() == name,
        })
    }

    /// May it be stored, and how?
    pub fn storable(
        &self,
        request: &request::Parts,
        response: &response::Parts,
        at: ExchangeTimes,
    ) -> Result<Storable, Reason> {
        self.admits(request)?;
        if request.method != Method::GET {
            return Err(Reason::Method);
        }
        if !matches!(response.status.as_u16(), 200 | 203 | 204 | 301 | 308 | 404 | 410) {
            return Err(Reason::Status);
        }
        if crate::storing::is_event_stream(&response.headers) {
            return Err(Reason::EventStream);
        }
        let policy = Policy::of(&response.headers);
        if policy.directives.no_store {
            return Err(Reason::NoStore);
        }
        if policy.directives.no_cache == FieldScope::Everything && !self.no_cache {
            return Err(Reason::NoCache);
        }
        if self.is_somebodys_own(&request.headers) {
            return Err(Reason::Cookies);
        }
        for line in response.headers.get_all(header::SET_COOKIE) {
            // A visitor's first cookie goes with his page (its forms' tokens); of the unknown ones nobody knows.
            if self.set_cookie == SetCookie::Refuse || !self.renews(&request.headers, line.as_bytes()) {
                return Err(Reason::SetCookie);
            }
        }
        // Vary: Cookie says what the rule says better.
        let mut varies = response.headers.clone();
        strike(&mut varies, header::COOKIE);
        let nominated = VaryNames::of(&varies).ok_or(Reason::VaryStar)?;
        let mut headers = kept(&response.headers);
        headers.remove(header::SET_COOKIE);
        let freshness = Freshness {
            lifetime: self.ttl,
            heuristic: false,
            initial_age: at.response_time.saturating_sub(at.request_time),
            response_time: at.response_time,
            no_cache: false,
            must_revalidate: false,
            immutable: false,
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
            holds: Holds::ALWAYS,
        };
        Ok(Storable { freshness, nominated, headers })
    }

    fn names(&self, name: &[u8]) -> bool {
        self.cookies.iter().any(|named| named.as_bytes() == name)
    }

    /// Whether a Set-Cookie gives a session another cookie. What is too short to be one visitor's alone (`guest`, or
    /// nothing, as after a logout) is no session, and is no other's either.
    fn renews(&self, request: &HeaderMap, line: &[u8]) -> bool {
        let Some((name, new)) = set_cookie(line) else { return false };
        let old = cookies(request).find(|(sent, _)| *sent == name);
        self.names(name) && new.len() >= SHORTEST && old.is_some_and(|(_, old)| old.len() >= SHORTEST)
    }

    /// The visitor by the cookies he has after a response that only renewed his session. None: it did not.
    pub fn renewed_visitor(&self, request: &HeaderMap, response: &HeaderMap) -> Option<Vec<u8>> {
        let mut lines = response.get_all(header::SET_COOKIE).iter().peekable();
        lines.peek()?;
        lines.all(|line| self.renews(request, line.as_bytes())).then(|| self.visitor_after(request, response))?
    }

    /// The visitor by the cookies he has after a response. None: it sets none of the named ones.
    pub fn visitor_after(&self, request: &HeaderMap, response: &HeaderMap) -> Option<Vec<u8>> {
        let set: Vec<(&[u8], &[u8])> =
            response.get_all(header::SET_COOKIE).iter().filter_map(|line| set_cookie(line.as_bytes())).collect();
        let mut said = Vec::new();
        let mut changed = false;
        for name in self.cookies.iter().map(String::as_bytes) {
            let new = set.iter().rev().find(|(set, _)| *set == name).map(|(_, value)| *value);
            let old = cookies(request).find(|(sent, _)| *sent == name).map(|(_, value)| value);
            changed |= new.is_some();
            if let Some(value) = new.or(old) {
                said.extend_from_slice(name);
                said.push(b'=');
                said.extend_from_slice(value);
                said.push(b';');
            }
        }
        changed.then_some(said)
    }
}

/// Bytes of a session's cookie, at least: 64 bits in hexadecimal digits.
const SHORTEST: usize = 16;

/// Words in the names of fields by which a client shows who it is, besides cookies.
const CREDENTIALS: [&str; 22] = [
    "auth",
    "key",
    "token",
    "secret",
    "session",
    "user",
    "signature",
    "credential",
    "passw",
    "cookie",
    "identity",
    "login",
    "jwt",
    "bearer",
    "assertion",
    "account",
    "customer",
    "member",
    "email",
    "person",
    "tenant",
    "visitor",
];
/// Such words that count only between hyphens: other names have such letters in them.
const SHORT: [&str; 4] = ["sid", "uid", "dn", "upn"];
/// Fields with such a word that show it to nobody: the browser's own, what pages send against forged requests, and Cookie, which rules read.
const HARMLESS: [&str; 8] = [
    "cookie",
    "user-agent",
    "sec-fetch-user",
    "sec-websocket-key",
    "x-csrf-token",
    "x-xsrf-token",
    "idempotency-key",
    "x-idempotency-key",
];

fn authenticates(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_short = || name.split('-').any(|word| SHORT.contains(&word));
    !HARMLESS.contains(&name) && (CREDENTIALS.iter().any(|word| name.contains(word)) || is_short())
}

/// Takes a name out of Vary.
fn strike(headers: &mut HeaderMap, name: HeaderName) {
    let left: Vec<Vec<u8>> = tokens(headers, header::VARY)
        .filter(|member| !member.eq_ignore_ascii_case(name.as_str().as_bytes()))
        .map(<[u8]>::to_vec)
        .collect();
    headers.remove(header::VARY);
    if let Ok(value) = http::HeaderValue::from_bytes(&left.join(&b", "[..])) {
        if !left.is_empty() {
            headers.insert(header::VARY, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};

    const AT: ExchangeTimes = ExchangeTimes::by_one_clock(1_577_836_800_000, 1_577_836_800_000);

    type Lines<'a> = &'a [(&'static str, &'static str)];

    fn rule() -> Rule {
        Rule {
            path: "/projects/*".into(),
            ttl: 5_000,
            cookies: vec!["_session".into(), "lang".into()],
            ..Rule::default()
        }
    }

    fn request(lines: Lines) -> request::Parts {
        let build = lines
            .iter()
            .fold(Request::builder().uri("/projects/1"), |build, (name, value)| build.header(*name, *value));
        build.body(()).unwrap().into_parts().0
    }

    fn decide(rule: &Rule, asked: Lines, told: Lines) -> Result<Storable, Reason> {
        let build = told.iter().fold(Response::builder(), |build, (name, value)| build.header(*name, *value));
        rule.storable(&request(asked), &build.body(()).unwrap().into_parts().0, AT)
    }

    #[test]
    fn paths() {
        for (pattern, path, covers) in [
            ("/projects/*", "/projects/1/issues", true),
            ("/projects/*", "/projects", false),
            ("/*/issues", "/a/b/issues", true),
            ("/*/issues", "/a/b/issues/1", false),
            ("/", "/", true),
            ("/", "/a", false),
            ("*", "/", true),
            ("/a*b*c", "/aXbYbZc", true),
            ("/a**", "/a", true),
        ] {
            assert_eq!(Rule { path: pattern.into(), ..Rule::default() }.covers(path), covers, "{pattern} {path}");
        }
        let slow = Rule { path: "*a".repeat(30), ..Rule::default() };
        assert!(!slow.covers(&"b".repeat(5000)));
    }

    #[test]
    fn it_keeps_what_says_private() {
        let told =
            decide(&rule(), &[("cookie", "_session=1")], &[("cache-control", "max-age=0, private, must-revalidate")])
                .unwrap();
        assert_eq!((told.freshness.lifetime, told.freshness.must_revalidate), (5_000, false));
    }

    #[test]
    fn what_it_never_keeps() {
        let session = ("cookie", "_session=1");
        for (asked, told, reason) in [
            (session, ("cache-control", "no-store"), Reason::NoStore),
            (session, ("cache-control", "no-cache"), Reason::NoCache),
            (session, ("vary", "*"), Reason::VaryStar),
            (session, ("set-cookie", "_session=2; HttpOnly"), Reason::SetCookie),
            (session, ("set-cookie", "unknown=2"), Reason::SetCookie),
            (("cookie", "other=1"), ("x", "y"), Reason::Cookies),
            (("authorization", "Basic x"), ("x", "y"), Reason::Authorization),
            (("x-redmine-api-key", "5eed"), ("x", "y"), Reason::Authorization),
        ] {
            assert_eq!(decide(&rule(), &[asked], &[told]), Err(reason), "{asked:?} {told:?}");
        }
        assert!(decide(&Rule { no_cache: true, ..rule() }, &[session], &[("cache-control", "no-cache")]).is_ok());
    }

    #[test]
    fn whoever_shows_who_he_is_gets_his_own() {
        for name in [
            "authorization",
            "proxy-authorization",
            "private-token",
            "api-key",
            "apikey",
            "token",
            "session",
            "x-session-id",
            "x-amz-signature",
            "x-user",
            "remote-user",
            "secret",
            "x-shop-access-token",
            "job-token",
            "x-goog-iap-jwt-assertion-signature",
            "x-jwt",
            "x-account-id",
            "x-customer-number",
            "member-id",
            "x-person",
            "x-tenant",
            "sid",
            "x-uid",
            "x-client-dn",
            "x-visitor",
        ] {
            assert_eq!(rule().admits(&request(&[(name, "5eed")])), Err(Reason::Authorization), "{name}");
        }
        for name in [
            "user-agent",
            "x-csrf-token",
            "sec-fetch-user",
            "accept",
            "x-requested-with",
            "turbo-frame",
            "x-guid",
            "x-side",
        ] {
            assert_eq!(rule().admits(&request(&[(name, "5eed")])), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_session_that_is_renewed_may_be_stripped() {
        let strip = Rule { set_cookie: SetCookie::Strip, ..rule() };
        let old = ("cookie", "_session=0123456789abcdef");
        let told = decide(&strip, &[old], &[("set-cookie", "_session=fedcba9876543210; HttpOnly")]).unwrap();
        assert!(!told.headers.contains_key("set-cookie"));
        for (asked, told) in [
            (("x", "a visitor's first"), "_session=fedcba9876543210"),
            (old, "unknown=fedcba9876543210"),
            (old, "_session=; Max-Age=0"),
            (old, "_session=guest"),
            (("cookie", "_session=guest"), "_session=fedcba9876543210"),
            (("cookie", "_session="), "_session=fedcba9876543210"),
        ] {
            assert_eq!(decide(&strip, &[asked], &[("set-cookie", told)]), Err(Reason::SetCookie), "{asked:?} {told}");
        }
        let new = "_session=fedcba9876543210; path=/";
        let set: HeaderMap = [(header::SET_COOKIE, http::HeaderValue::from_static(new))].into_iter().collect();
        let with = |cookie: &'static str| request(&[("cookie", cookie)]).headers;
        let after = Some(strip.visitor(&with("_session=fedcba9876543210; lang=de")));
        assert_eq!(strip.renewed_visitor(&with("lang=de; _session=0123456789abcdef"), &set), after);
        assert_eq!(strip.renewed_visitor(&with("lang=de"), &set), None);
        assert_eq!(strip.visitor_after(&with("lang=de"), &set), after, "it may be another visitor");
    }

    #[test]
    fn cookies_that_an_app_might_read_otherwise() {
        for cookie in [
            "a=1, _session=2",
            "_session =2",
            "%5Fsession=2",
            "_session",
            "a=\"1; _session=2",
            "a=_session",
            "a=1 _session=2",
        ] {
            let admitted = rule().admits(&request(&[("cookie", cookie)]));
            let parsed = cookies(&request(&[("cookie", cookie)]).headers).any(|(name, _)| name == b"_session");
            assert_eq!(admitted, if parsed { Ok(()) } else { Err(Reason::Cookies) }, "{cookie}");
        }
        for cookie in ["_session=1", "my_session=1; _session2=3", "_session=1; _session=2", "a=%5F"] {
            assert_eq!(rule().admits(&request(&[("cookie", cookie)])), Ok(()), "{cookie}");
        }
    }

    #[test]
    fn visitors_are_told_apart_by_the_named_cookies_alone() {
        let visitor = |cookie: &'static str| rule().visitor(&request(&[("cookie", cookie)]).headers);
        assert_eq!(visitor("_session=1; ga=2; lang=de"), visitor("lang=de;_session=1"));
        for other in
            ["_session=2; lang=de", "_session=1", "lang=de", "_session=1; _session=2; lang=de", "x=_session=1; lang=de"]
        {
            assert_ne!(visitor("_session=1; lang=de"), visitor(other), "{other}");
        }
        assert!(visitor("ga=2").is_empty());
        assert_ne!(visitor("_session=1;lang=2"), visitor("lang=\"_session=1;\""));
    }

    #[test]
    fn vary_by_cookie_is_the_rules_matter() {
        let told = decide(&rule(), &[("cookie", "_session=1")], &[("vary", "Accept, Cookie")]).unwrap();
        assert_eq!(told.nominated.names(), [header::ACCEPT]);
    }

    fn is_own(rule: &Rule, cookie: &'static str) -> bool {
        rule.is_somebodys_own(&request(&[("cookie", cookie)]).headers)
    }

    #[test]
    fn where_no_cookies_are_named_an_unknown_one_is_somebodys() {
        let bare = Rule { cookies: Vec::new(), ignore_cookies: vec!["theme".into(), "consent_*".into()], ..rule() };
        for (cookie, own) in [
            ("_id=1", true),
            ("_id", true),
            ("_ga=GA1.2.3; theme=dark; consent_v2=a%2Cb", false),
            ("_ga=1; _id=1", true),
            ("themes=1", true),
            ("theme=dark, _id=1", true),
            ("_ga=\"1; _id=1", true),
            ("theme", true),
            ("=x", true),
            ("", false),
            (" ; ", false),
        ] {
            assert_eq!(is_own(&bare, cookie), own, "{cookie}");
        }
    }

    #[test]
    fn where_cookies_are_named_an_unknown_one_is_somebodys_too() {
        let rule = Rule { ignore_cookies: vec!["theme".into()], ..rule() };
        for (cookie, own) in [
            ("_session=1; lang=de; theme=dark; _ga=1", false),
            ("_session=1; other=2", true),
            ("_id=1", true),
            ("x=1, _id=2", true),
            ("x=\"1; _id=2\"", true),
            ("theme=dark, _id=2", true),
        ] {
            assert_eq!(is_own(&rule, cookie), own, "{cookie}");
        }
    }
}
