//! What a private cache does otherwise (RFC 9111 sections 3, 3.5 and 5.2.2.7): the word is turned into that for a
//! shared one, by leaving out what is for these alone. It judges nothing: `storing` and `updating` do.

use http::{header, HeaderMap, HeaderName, HeaderValue};

use crate::{
    fields::{members, pair},
    targeted::CDN_CACHE_CONTROL,
};

/// Directives that don't concern a private cache.
const OF_SHARED: [&[u8]; 3] = [b"private", b"s-maxage", b"proxy-revalidate"];

/// The response's fields without what is for shared caches.
pub fn response(headers: &HeaderMap) -> HeaderMap {
    let mut own = headers.clone();
    own.remove(CDN_CACHE_CONTROL);
    own.remove(HeaderName::from_static("surrogate-control"));
    own.remove(header::CACHE_CONTROL);
    for member in members(headers, header::CACHE_CONTROL) {
        let name = pair(member).map_or(member, |(name, _)| name);
        if OF_SHARED.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            continue;
        }
        if let Ok(value) = HeaderValue::from_bytes(member) {
            own.append(header::CACHE_CONTROL, value);
        }
    }
    own
}

/// The request's fields without those by which a shared cache tells that an answer is for one alone. Who does without
/// has to keep what differs by them apart by `partition`.
pub fn request(headers: &HeaderMap) -> HeaderMap {
    let mut own = headers.clone();
    own.remove(header::AUTHORIZATION);
    own.remove(header::COOKIE);
    own
}

/// Who asks, for the key.
pub fn partition(headers: &HeaderMap) -> Vec<u8> {
    let mut who = Vec::new();
    for name in [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE] {
        for value in headers.get_all(&name) {
            who.extend_from_slice(name.as_str().as_bytes());
            who.push(0);
            who.extend_from_slice(value.as_bytes());
            who.push(0);
        }
    }
    who
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{freshness::ExchangeTimes, storing::storable};
    use http::{Request, Response};

    fn stored(cache_control: &str) -> Option<u64> {
        let mut asked =
            Request::builder().uri("/").header("authorization", "Bearer x").body(()).unwrap().into_parts().0;
        asked.headers = request(&asked.headers);
        let answer = Response::builder().header("cache-control", cache_control).header("cdn-cache-control", "no-store");
        let mut answer = answer.body(()).unwrap().into_parts().0;
        answer.headers = response(&answer.headers);
        let at = ExchangeTimes::by_one_clock(0, 0);
        storable(&asked, &answer, at, 0).ok().map(|storable| storable.freshness.lifetime)
    }

    #[test]
    fn what_is_for_one_user_may_be_kept_for_him() {
        assert_eq!(stored("private, max-age=60"), Some(60_000));
        assert_eq!(stored("max-age=60, s-maxage=5, Private=\"set-cookie\""), Some(60_000));
        assert_eq!(stored("max-age=60, proxy-revalidate"), Some(60_000));
        assert_eq!(stored("private, no-store, max-age=60"), None);
        assert_eq!(stored("s-maxage=5"), None);
    }

    #[test]
    fn who_asks_is_told_apart() {
        let of = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            fields.iter().for_each(|(name, value)| {
                headers.append(*name, HeaderValue::from_static(value));
            });
            partition(&headers)
        };
        assert_eq!(of(&[("accept", "x")]), b"");
        assert_ne!(of(&[("authorization", "a")]), of(&[("cookie", "a")]));
        assert_ne!(of(&[("proxy-authorization", "a")]), of(&[("authorization", "a")]));
        assert_ne!(of(&[("cookie", "a"), ("cookie", "b")]), of(&[("cookie", "ab")]));
    }
}
