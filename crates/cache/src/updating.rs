//! What a newer word of the origin does to a stored response: 304 (RFC 9111 section 4.3.4) and answers to HEAD (section
//! 4.3.5). It never changes a stored response: a new one takes its place, with the same body.

use std::sync::Arc;

use http::{header, response, HeaderMap, HeaderName};

use crate::{
    cookies::sets_http_only,
    freshness::{ExchangeTimes, Freshness},
    groups,
    status::Reason,
    stored::{Content, Stored},
    storing::{kept, Storable},
    targeted::{self, Policy, CONSUMED},
    validating::is_meant,
    vary::VaryNames,
};

/// Fields that describe the stored body and stay as they are (section 3.2).
const OF_THE_BODY: [HeaderName; 5] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-md5"),
    header::ETAG,
];

/// The stored response with the fields of a 304, or of a HEAD's answer, in place of its own. Err: it says that nothing
/// may be stored.
pub fn freshened(
    stored: &Stored,
    newer: &HeaderMap,
    at: ExchangeTimes,
    default_stale_if_error: u64,
) -> Result<Stored, Reason> {
    let mut headers = stored.headers.clone();
    let newer_kept = kept(newer);
    // A session's cookie is for who asked, not for all who come later.
    let personal = sets_http_only(newer);
    let stays = |name: &HeaderName| OF_THE_BODY.contains(name) || personal && *name == header::SET_COOKIE;
    for name in newer_kept.keys().filter(|name| !stays(name)) {
        headers.remove(name);
        newer_kept.get_all(name).iter().for_each(|value| {
            headers.append(name, value.clone());
        });
    }
    // Age and the targeted fields are not kept, but count.
    let mut told = headers.clone();
    for name in newer.keys().filter(|name| CONSUMED.contains(name) || !newer_kept.contains_key(*name)) {
        newer.get_all(name).iter().for_each(|value| {
            told.append(name, value.clone());
        });
    }
    let policy = Policy::of(&told);
    if policy.directives.no_store && !policy.directives.must_understand {
        return Err(Reason::NoStore);
    }
    if policy.directives.private == crate::directives::FieldScope::Everything {
        return Err(Reason::Private);
    }
    if targeted::gives_all_a_cookie(&headers) {
        return Err(Reason::SetCookie);
    }
    let nominated = VaryNames::of(&told).ok_or(Reason::VaryStar)?;
    // What is kept for clients of all codings stays so.
    let nominated = if stored.nominated.names().contains(&header::ACCEPT_ENCODING) {
        nominated
    } else {
        nominated.without(&header::ACCEPT_ENCODING)
    };
    // A 304 that sets a cookie speaks to one visitor: nothing is guessed from it.
    let guessing = stored.freshness.heuristic && (policy.directives.public || !newer.contains_key(header::SET_COOKIE));
    let mut freshness = Freshness::of(stored.status, &told, &policy, at, guessing);
    if policy.directives.stale_if_error.or_zero().is_none() && !freshness.must_revalidate {
        freshness.stale_if_error = default_stale_if_error;
    }
    for name in policy.directives.private.fields().iter().chain(policy.directives.no_cache.fields()) {
        headers.remove(name);
    }
    let ours = groups::tags(&stored.headers, groups::origin(&stored.url));
    let added: Vec<Arc<str>> = stored.tags.iter().filter(|tag| !ours.contains(tag)).cloned().collect();
    let storable = Storable { freshness, nominated, headers };
    Ok(Stored::new(stored.url.clone(), stored.status, storable, stored.content.clone(), &added))
}

/// What an answer to HEAD means for the stored answer to GET.
#[derive(Debug)]
pub enum HeadMeans {
    /// It is still that one, and as fresh as the newer one.
    Freshened(Box<Stored>),
    /// It is another by now: the stored one is stale.
    Outdated,
    /// Nothing.
    Unrelated,
}

/// Section 4.3.5.
pub fn head(stored: &Stored, answer: &response::Parts, at: ExchangeTimes, default_stale_if_error: u64) -> HeadMeans {
    if answer.status != stored.status {
        return if answer.status.is_server_error() { HeadMeans::Unrelated } else { HeadMeans::Outdated };
    }
    let validator = [header::ETAG, header::LAST_MODIFIED].iter().any(|name| answer.headers.contains_key(name));
    let length = match (answer.headers.get(header::CONTENT_LENGTH), &stored.content) {
        (Some(length), Content::Whole(body)) => length.to_str().is_ok_and(|length| length == body.len().to_string()),
        _ => true,
    };
    if !length || (validator && !is_meant(stored, &answer.headers)) {
        return HeadMeans::Outdated;
    }
    match freshened(stored, &answer.headers, at, default_stale_if_error) {
        Ok(freshened) => HeadMeans::Freshened(Box::new(freshened)),
        Err(_) => HeadMeans::Outdated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{storing::storable, targeted};
    use bytes::Bytes;
    use http::{HeaderValue, Request, Response, StatusCode};

    const AT: ExchangeTimes = ExchangeTimes::by_one_clock(1_577_836_800_000, 1_577_836_800_000);
    const LATER: ExchangeTimes = ExchangeTimes::by_one_clock(1_577_836_900_000, 1_577_836_900_000);

    type Lines<'a> = &'a [(&'static str, &'static str)];

    fn parts(status: u16, lines: Lines) -> response::Parts {
        let build =
            lines.iter().fold(Response::builder().status(status), |build, (name, value)| build.header(*name, *value));
        build.body(()).unwrap().into_parts().0
    }

    fn stored(lines: Lines) -> Stored {
        let request = Request::builder().uri("/").body(()).unwrap().into_parts().0;
        let storable = storable(&request, &parts(200, lines), AT, 0).unwrap();
        Stored::new(
            "http://a/".into(),
            StatusCode::OK,
            storable,
            Content::Whole(Bytes::from_static(b"abc")),
            &["mine".into()],
        )
    }

    #[test]
    fn a_template_stays_one_and_hears_what_a_304_says_to_surrogates() {
        let old = stored(&[("surrogate-control", "max-age=2, content=\"ESI/1.0\""), ("etag", "\"1\"")]);
        assert!(targeted::asks_for_esi(&old.headers));
        let renewed = |lines: Lines| freshened(&old, &parts(304, lines).headers, LATER, 0).unwrap();
        let silent = renewed(&[("etag", "\"1\""), ("cache-control", "max-age=9")]);
        assert!(targeted::asks_for_esi(&silent.headers));
        let said = renewed(&[("surrogate-control", "max-age=60, content=\"ESI/1.0\""), ("cache-control", "max-age=9")]);
        let cookie = parts(304, &[("set-cookie", "a=b")]);
        assert_eq!(freshened(&old, &cookie.headers, LATER, 0).unwrap_err(), Reason::SetCookie);
        assert_eq!((said.freshness.lifetime, said.headers.get_all("surrogate-control").iter().count()), (60_000, 1));
    }

    #[test]
    fn a_304_that_sets_a_session_leaves_none_behind() {
        let old = stored(&[("cache-control", "max-age=2"), ("etag", "\"1\"")]);
        let session = HeaderValue::from_static("_session=0123456789; HttpOnly");
        let newer = [(header::SET_COOKIE, session)].into_iter().collect();
        assert!(!freshened(&old, &newer, LATER, 0).unwrap().headers.contains_key("set-cookie"));
    }

    #[test]
    fn a_304_renews_all_fields_but_those_of_the_body() {
        let old = stored(&[
            ("cache-control", "max-age=2"),
            ("etag", "\"1\""),
            ("x", "old"),
            ("y", "old"),
            ("y", "older"),
            ("content-type", "a/a"),
            ("content-encoding", "gzip"),
            ("content-length", "3"),
            ("cache-tag", "t1"),
        ]);
        let newer = parts(
            304,
            &[
                ("cache-control", "max-age=9"),
                ("etag", "W/\"1\""),
                ("y", "new"),
                ("content-type", "b/b"),
                ("content-encoding", "br"),
                ("content-length", "7"),
                ("cache-tag", "t2"),
                ("age", "1"),
            ],
        );
        let new = freshened(&old, &newer.headers, LATER, 0).unwrap();
        let get = |name: &str| {
            new.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b","[..])
        };
        for (name, value) in [
            ("x", "old"),
            ("y", "new"),
            ("content-type", "b/b"),
            ("content-encoding", "gzip"),
            ("content-length", "3"),
            ("etag", "\"1\""),
            ("age", ""),
        ] {
            assert_eq!(String::from_utf8(get(name)).unwrap(), value, "{name}");
        }
        assert_eq!((new.freshness.lifetime, new.freshness.age(LATER.response_time)), (9_000, 1_000));
        assert_eq!(new.whole().unwrap(), "abc");
        assert_eq!(new.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["mine", "t2"]);
        assert_ne!(new.version, old.version);
    }

    #[test]
    fn a_sessions_cookie_in_a_304_is_for_who_asked() {
        let old = stored(&[("cache-control", "max-age=2"), ("etag", "\"1\""), ("set-cookie", "a=b")]);
        let cookie = |said: &'static str| {
            let new = freshened(&old, &parts(304, &[("set-cookie", said)]).headers, LATER, 0).unwrap();
            new.headers["set-cookie"].to_str().unwrap().to_owned()
        };
        assert_eq!((cookie("a=c"), cookie("s=1; HttpOnly")), ("a=c".into(), "a=b".into()));
    }

    #[test]
    fn a_304_may_take_the_right_to_store_back() {
        let old = stored(&[("cache-control", "max-age=2"), ("etag", "\"1\"")]);
        for (told, reason) in [("no-store", Reason::NoStore), ("private", Reason::Private)] {
            assert_eq!(freshened(&old, &parts(304, &[("cache-control", told)]).headers, LATER, 0).unwrap_err(), reason);
        }
    }

    #[test]
    fn which_response_a_304_means() {
        let old = stored(&[
            ("cache-control", "max-age=2"),
            ("etag", "\"1\""),
            ("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT"),
        ]);
        for (lines, meant) in [
            (&[][..], true),
            (&[("etag", "\"1\"")], true),
            (&[("etag", "W/\"1\"")], true),
            (&[("etag", "\"2\"")], false),
            (&[("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT")], true),
            (&[("last-modified", "Wed, 01 Jan 2020 00:00:01 GMT")], false),
        ] {
            assert_eq!(is_meant(&old, &parts(304, lines).headers), meant, "{lines:?}");
        }
    }

    #[test]
    fn what_a_head_says() {
        let old = stored(&[("cache-control", "max-age=2"), ("etag", "\"1\"")]);
        let means = |status, lines| head(&old, &parts(status, lines), LATER, 0);
        assert!(
            matches!(means(200, &[("cache-control", "max-age=9"), ("etag", "\"1\"")]), HeadMeans::Freshened(new) if new.freshness.lifetime == 9_000)
        );
        assert!(matches!(means(200, &[("etag", "\"2\"")]), HeadMeans::Outdated));
        assert!(matches!(means(200, &[("content-length", "4")]), HeadMeans::Outdated));
        assert!(matches!(means(410, &[]), HeadMeans::Outdated));
        assert!(matches!(means(503, &[]), HeadMeans::Unrelated));
    }
}
