//! May a response be stored? (RFC 9111 section 3.) It never stores, and it never knows of an owner's own rules
//! (`stubborn`).

use http::{header, request, response, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::{
    cookies::sets_http_only,
    directives::{FieldScope, RequestDirectives},
    fields::tokens,
    freshness::{is_heuristically_cacheable, ExchangeTimes, Freshness},
    status::Reason,
    targeted::{self, Policy},
    vary::VaryNames,
};

/// What is to be stored: how long it is good for, and which requests it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storable {
    pub freshness: Freshness,
    pub nominated: VaryNames,
    /// The fields that are kept.
    pub headers: HeaderMap,
}

impl Storable {
    /// As the representation without a content coding, of which any other can be made. Its tag becomes a weak one: what
    /// is sent is not the same bytes (RFC 9110 section 8.8.3.3).
    pub fn for_all_codings(mut self) -> Storable {
        self.nominated = self.nominated.without(&header::ACCEPT_ENCODING);
        for name in OF_THE_CODED_BODY {
            self.headers.remove(name);
        }
        let tag = self.headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""));
        if let Some(weak) = tag.and_then(|tag| HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()).ok()) {
            self.headers.insert(header::ETAG, weak);
        }
        self
    }
}

/// Fields that are true of the coded bytes only.
const OF_THE_CODED_BODY: [&str; 6] =
    ["content-encoding", "content-length", "content-md5", "digest", "content-digest", "repr-digest"];

/// Decides by what request and response say. `default_stale_if_error`: the window of a response that names none.
pub fn storable(
    request: &request::Parts,
    response: &response::Parts,
    at: ExchangeTimes,
    default_stale_if_error: u64,
) -> Result<Storable, Reason> {
    let policy = Policy::of(&response.headers);
    let told = &policy.directives;
    // The request's own wishes first, then the response's, as section 3 lists them.
    if RequestDirectives::of(&request.headers).no_store {
        return Err(Reason::RequestNoStore);
    }
    if !is_understood(&request.method, &request.uri, response) {
        return Err(Reason::Method);
    }
    if matches!(response.status.as_u16(), 100..=199 | 304) || (told.must_understand && !is_known(response.status)) {
        return Err(Reason::Status);
    }
    if is_event_stream(&response.headers) {
        return Err(Reason::EventStream);
    }
    // "A cache that supports must-understand ... SHOULD ignore the no-store directive" (5.2.2.3).
    if told.no_store && !told.must_understand {
        return Err(Reason::NoStore);
    }
    if told.private == FieldScope::Everything {
        return Err(Reason::Private);
    }
    // Section 3.5.
    let shared = told.must_revalidate || told.public || told.s_maxage.or_zero().is_some();
    if request.headers.contains_key(header::AUTHORIZATION) && !shared {
        return Err(Reason::Authorization);
    }
    // RFC 9111 section 7.3 lets it be stored. But a cookie that is kept from scripts tells a visitor from others, and
    // everybody would get this one.
    if sets_http_only(&response.headers) {
        return Err(Reason::SetCookie);
    }
    let nominated = VaryNames::of(&response.headers).ok_or(Reason::VaryStar)?;
    // What may differ from user to user is not kept on a guess.
    let personal = request.headers.contains_key(header::COOKIE) || response.headers.contains_key(header::SET_COOKIE);
    if targeted::gives_all_a_cookie(&response.headers) {
        return Err(Reason::SetCookie);
    }
    let explicit = told.public || told.max_age.or_zero().is_some() || told.s_maxage.or_zero().is_some() || {
        !policy.targeted && response.headers.contains_key(header::EXPIRES)
    };
    if !explicit && !is_heuristically_cacheable(response.status) {
        return Err(Reason::NoFreshness);
    }
    if !explicit && personal && !policy.targeted {
        return Err(Reason::Cookies);
    }
    let mut freshness = Freshness::of(response.status, &response.headers, &policy, at, !personal || told.public);
    if told.stale_if_error.or_zero().is_none() && !freshness.must_revalidate {
        freshness.stale_if_error = default_stale_if_error;
    }
    if !is_of_use(&freshness, &response.headers, at) {
        return Err(Reason::NoFreshness);
    }
    let mut headers = kept(&response.headers);
    for name in told.private.fields().iter().chain(told.no_cache.fields()) {
        headers.remove(name);
    }
    Ok(Storable { freshness, nominated, headers })
}

/// GET, and POST if its answer says that it is what a GET would get: "explicit freshness information and a
/// Content-Location header field that has the same value as the POST's target URI" (RFC 9110 section 9.3.3). HEAD is
/// `updating`'s.
fn is_understood(method: &Method, uri: &Uri, response: &response::Parts) -> bool {
    if *method != Method::POST {
        return *method == Method::GET;
    }
    let location = response.headers.get(header::CONTENT_LOCATION).and_then(|location| location.to_str().ok());
    let same = location.is_some_and(|location| uri.path_and_query().is_some_and(|target| target.as_str() == location));
    let policy = Policy::of(&response.headers);
    let told = &policy.directives;
    let explicit =
        told.max_age.or_zero().or(told.s_maxage.or_zero()).is_some() || response.headers.contains_key(header::EXPIRES);
    same && explicit && response.status == StatusCode::OK
}

/// Statuses whose rules for caches this one knows (RFC 9110 section 15).
fn is_known(status: StatusCode) -> bool {
    status.canonical_reason().is_some()
}

/// Whether it can ever answer a request: fresh now, or to be validated, or usable stale.
fn is_of_use(freshness: &Freshness, headers: &HeaderMap, at: ExchangeTimes) -> bool {
    let fresh = freshness.is_fresh(at.response_time) && !freshness.no_cache;
    let validator = headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED);
    let window = freshness.stale_while_revalidate.max(freshness.stale_if_error);
    let stale = !freshness.must_revalidate && window > freshness.staleness(at.response_time);
    fresh || validator || stale
}

/// Fields that are not stored (section 3.1): those of one connection, of proxies, and what only this server was told.
/// Age is worked out anew for each use.
const NOT_KEPT: [HeaderName; 11] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    header::PROXY_AUTHORIZATION,
    header::AGE,
    HeaderName::from_static("server-timing"),
];

/// The fields of a response that are stored. They hold on to no more memory than they have bytes: a value as it was
/// read is a slice of the whole read buffer.
pub fn kept(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in tokens(headers, header::CONNECTION).filter_map(|name| HeaderName::from_bytes(name).ok()) {
        kept.remove(name);
    }
    NOT_KEPT.iter().for_each(|name| drop(kept.remove(name)));
    targeted::consume(&mut kept);
    for value in kept.values_mut() {
        if let Ok(own) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = own;
        }
    }
    kept
}

/// Server-sent events. Rails says `no-cache` of them, so they would be stored for a validation that never comes, and all
/// requests for the same URL would wait for the end of the first stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};

    /// RFC 9111 section 3.1.
    #[test]
    fn what_connection_names_is_not_kept() {
        for connection in ["x-secret", "close, X-Secret", r#"", x-secret"#, "\u{fc}, x-secret"] {
            let fields = [("connection", connection), ("x-secret", "1"), ("x-other", "1")];
            let headers = fields.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let kept = kept(&HeaderMap::from_iter(headers));
            assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-other"], "{connection}");
        }
    }

    #[test]
    fn what_is_kept_leaves_the_read_buffer_free() {
        let read = bytes::Bytes::from(b"max-age=60".to_vec());
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_maybe_shared(read.clone()).unwrap());
        let kept = kept(&headers);
        drop(headers);
        assert_eq!(kept[header::CACHE_CONTROL], "max-age=60");
        assert!(read.is_unique());
    }

    const AT: ExchangeTimes = ExchangeTimes::by_one_clock(1_577_836_800_000, 1_577_836_800_000);

    type Lines<'a> = &'a [(&'static str, &'static str)];

    #[test]
    fn an_event_stream_is_for_one_visitor() {
        for kind in ["text/event-stream", "Text/Event-Stream; charset=utf-8"] {
            let told = [("content-type", kind), ("cache-control", "no-cache"), ("etag", "\"a\"")];
            assert_eq!(decide("GET", &[], 200, &told).err(), Some(Reason::EventStream), "{kind}");
        }
        assert!(
            decide("GET", &[], 200, &[("content-type", "text/event-streams"), ("cache-control", "max-age=9")]).is_ok()
        );
    }

    fn decide(method: &str, asked: Lines, status: u16, told: Lines) -> Result<Storable, Reason> {
        let mut request = Request::builder().method(method).uri("/page?x=1");
        for (name, value) in asked {
            request = request.header(*name, *value);
        }
        let mut response = Response::builder().status(status);
        for (name, value) in told {
            response = response.header(*name, *value);
        }
        storable(&request.body(()).unwrap().into_parts().0, &response.body(()).unwrap().into_parts().0, AT, 0)
    }

    fn get(status: u16, told: Lines) -> Result<Storable, Reason> {
        decide("GET", &[], status, told)
    }

    const FRESH: (&str, &str) = ("cache-control", "max-age=60");
    const DATE: (&str, &str) = ("date", "Wed, 01 Jan 2020 00:00:00 GMT");
    const LAST_MODIFIED: (&str, &str) = ("last-modified", "Tue, 31 Dec 2019 00:00:00 GMT");

    #[test]
    fn any_final_status_with_explicit_freshness() {
        for status in [200, 203, 204, 299, 302, 307, 400, 404, 499, 500, 503, 599] {
            assert_eq!(get(status, &[FRESH]).unwrap().freshness.lifetime, 60_000, "{status}");
        }
        assert_eq!(get(304, &[FRESH]), Err(Reason::Status));
    }

    #[test]
    fn section_3_in_its_order() {
        assert_eq!(decide("GET", &[("cache-control", "no-store")], 200, &[FRESH]), Err(Reason::RequestNoStore));
        assert_eq!(decide("PUT", &[], 200, &[FRESH]), Err(Reason::Method));
        assert_eq!(get(200, &[FRESH, ("cache-control", "no-store")]), Err(Reason::NoStore));
        assert_eq!(get(200, &[FRESH, ("cache-control", "private")]), Err(Reason::Private));
        assert_eq!(get(200, &[FRESH, ("vary", "accept, *")]), Err(Reason::VaryStar));
        assert_eq!(get(200, &[]), Err(Reason::NoFreshness), "neither fresh nor to be validated");
        assert_eq!(get(200, &[("cache-control", "max-age=0")]), Err(Reason::NoFreshness));
        assert!(get(200, &[("cache-control", "no-cache"), ("etag", "\"a\"")]).unwrap().freshness.no_cache);
    }

    #[test]
    fn must_understand_replaces_no_store() {
        let told = ("cache-control", "max-age=60, must-understand, no-store");
        assert!(get(200, &[told]).is_ok());
        assert_eq!(get(599, &[told]), Err(Reason::Status));
    }

    #[test]
    fn authorization_wants_a_word_of_consent() {
        let asked = &[("authorization", "Basic eDp5")];
        assert_eq!(decide("GET", asked, 200, &[FRESH]), Err(Reason::Authorization));
        for word in ["public", "must-revalidate", "s-maxage=60"] {
            assert!(decide("GET", asked, 200, &[FRESH, ("cache-control", word)]).is_ok(), "{word}");
        }
        assert!(decide("GET", asked, 200, &[FRESH, ("cache-control", "proxy-revalidate")]).is_err());
    }

    #[test]
    fn guesses_are_for_known_statuses_without_cookies() {
        assert_eq!(get(200, &[DATE, LAST_MODIFIED]).unwrap().freshness.lifetime, 8_640_000);
        assert_eq!(get(403, &[DATE, LAST_MODIFIED]), Err(Reason::NoFreshness));
        assert_eq!(get(200, &[DATE, LAST_MODIFIED, ("set-cookie", "a=b")]), Err(Reason::Cookies));
        assert_eq!(decide("GET", &[("cookie", "a=b")], 200, &[DATE, LAST_MODIFIED]), Err(Reason::Cookies));
        assert!(get(200, &[FRESH, ("set-cookie", "a=b")]).is_ok(), "RFC 9111 section 7.3");
        for told in ["max-age=60", "public, max-age=60"] {
            let decided = get(200, &[("cache-control", told), ("set-cookie", "_session=1; path=/; HttpOnly")]);
            assert_eq!(decided, Err(Reason::SetCookie), "a session's cookie is one visitor's");
        }
    }

    #[test]
    fn a_template_that_sets_a_cookie_is_not_stored() {
        let template = ("surrogate-control", "max-age=60, content=\"ESI/1.0\"");
        assert!(get(200, &[template]).is_ok());
        assert_eq!(get(200, &[template, ("set-cookie", "a=b")]), Err(Reason::SetCookie));
    }

    #[test]
    fn a_post_whose_answer_is_the_page() {
        let decide = |told: Lines| decide("POST", &[], 200, told);
        assert!(decide(&[FRESH, ("content-location", "/page?x=1")]).is_ok());
        assert_eq!(decide(&[FRESH, ("content-location", "/other")]), Err(Reason::Method));
        assert_eq!(decide(&[("content-location", "/page?x=1"), ("etag", "\"a\"")]), Err(Reason::Method));
    }

    #[test]
    fn fields_of_the_connection_and_listed_ones_stay_out() {
        let told = get(
            200,
            &[
                ("cache-control", "max-age=60, no-cache=\"a\", private=\"b\""),
                ("connection", "c, close"),
                ("a", "1"),
                ("b", "2"),
                ("c", "3"),
                ("d", "4"),
                ("set-cookie", "x=y"),
                ("age", "3"),
                ("keep-alive", "x"),
                ("surrogate-control", "foo"),
                ("content-range", "kept"),
            ],
        );
        let mut names: Vec<_> = told.unwrap().headers.keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["cache-control", "content-range", "d", "set-cookie"]);
    }
}
