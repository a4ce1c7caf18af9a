//! May a stored response answer a request, now? (RFC 9111 section 4 and 5.2.1, RFC 5861, RFC 8246.)
//! It never looks for the response: that it is the one the request selects is `key`'s and `vary`'s matter.

use crate::{
    directives::RequestDirectives,
    status::{self, Forward},
    stored::Stored,
    Millis,
};

/// What may be done with a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It answers.
    Fresh,
    /// It is stale, and the client said that it takes that (max-stale).
    Stale,
    /// It answers, and is validated meanwhile (stale-while-revalidate).
    WhileRevalidating,
    /// It is to be validated first, for this reason.
    Validate(Forward),
}

/// Judges by what request and response say.
pub fn judge(stored: &Stored, wishes: &RequestDirectives, now: Millis) -> Use {
    let freshness = &stored.freshness;
    if freshness.no_cache {
        return Use::Validate(Forward::Stale);
    }
    // A reload says max-age=0; of what never changes while it is fresh nothing is to be had by it (RFC 8246 section 2).
    let reload = !(freshness.immutable && stored.is_fresh(now));
    if wishes.no_cache {
        return Use::Validate(Forward::Request);
    }
    let age = freshness.age(now);
    if reload && wishes.max_age.is_some_and(|limit| age > limit * 1000 || limit == 0) {
        return Use::Validate(Forward::Request);
    }
    if stored.is_fresh(now) {
        return if wishes.min_fresh.is_some_and(|wanted| freshness.remaining(now) < wanted * 1000) {
            Use::Validate(Forward::Request)
        } else {
            Use::Fresh
        };
    }
    let staleness = freshness.staleness(now);
    if freshness.must_revalidate || wishes.min_fresh.is_some() {
        return Use::Validate(Forward::Stale);
    }
    match wishes.max_stale {
        Some(limit) if limit.is_none_or(|limit| staleness <= limit * 1000) => Use::Stale,
        // "Unless the max-stale request directive is also present, the client does not wish to receive a stale
        // response." (5.2.1.1)
        None if wishes.max_age.is_some() => Use::Validate(Forward::Stale),
        _ if staleness < freshness.stale_while_revalidate => Use::WhileRevalidating,
        _ => Use::Validate(Forward::Stale),
    }
}

/// Whether it may answer because the origin can't (RFC 5861 section 4): it failed, is down, or has no room.
pub fn may_stand_in(stored: &Stored, wishes: &RequestDirectives, now: Millis) -> bool {
    let freshness = &stored.freshness;
    if freshness.must_revalidate || freshness.no_cache || wishes.no_cache {
        return false;
    }
    let window = freshness.stale_if_error.max(wishes.stale_if_error.unwrap_or(0) * 1000);
    stored.is_fresh(now) || freshness.staleness(now) < window
}

/// Whether a crawler may have it though it is stale, for `window` after it became so: the owner of the site allows that
/// ("configuration in accordance with an out-of-band contract", RFC 9111 section 4.2.4), unless the response forbids it.
pub fn may_serve_crawler(stored: &Stored, wishes: &RequestDirectives, window: Millis, now: Millis) -> bool {
    let freshness = &stored.freshness;
    let is_forbidden = freshness.must_revalidate || freshness.no_cache || stored.is_expired();
    let is_unwanted = wishes.no_cache || wishes.max_age.is_some() || wishes.min_fresh.is_some();
    !is_forbidden && !is_unwanted && freshness.staleness(now) < window
}

/// `ttl` for Cache-Status.
pub fn ttl(stored: &Stored, now: Millis) -> i64 {
    let remaining = if stored.is_expired() { 0 } else { stored.freshness.remaining(now) };
    status::ttl(remaining, stored.freshness.staleness(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        freshness::ExchangeTimes,
        store::Object,
        stored::{Content, Entry},
        storing::storable,
    };
    use bytes::Bytes;
    use http::{Request, Response};
    use std::sync::Arc;

    const NOW: Millis = 1_577_836_800_000;

    fn stored(told: &str) -> Arc<Stored> {
        let request = Request::builder().uri("/").body(()).unwrap().into_parts().0;
        let response =
            Response::builder().header("cache-control", told).header("etag", "\"a\"").body(()).unwrap().into_parts().0;
        let at = ExchangeTimes::by_one_clock(NOW, NOW);
        let storable = storable(&request, &response, at, 0).unwrap();
        Arc::new(Stored::new("http://a/".into(), response.status, storable, Content::Whole(Bytes::new()), &[]))
    }

    #[test]
    fn what_a_crawler_may_have() {
        let may = |told: &str, asked, seconds: u64| {
            may_serve_crawler(&stored(told), &wishes(asked), 60_000, NOW + seconds * 1000)
        };
        assert!(may("max-age=10", "", 10) && may("max-age=10", "", 69) && !may("max-age=10", "", 70));
        for told in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=10"] {
            assert!(!may(&format!("max-age=10, {told}"), "", 20), "{told}");
        }
        for asked in ["no-cache", "max-age=100", "min-fresh=1"] {
            assert!(!may("max-age=10", asked, 20), "{asked}");
        }
        let purged = stored("max-age=10");
        Entry::Response(purged.clone()).expire();
        assert!(!may_serve_crawler(&purged, &wishes(""), 60_000, NOW + 20_000));
    }

    fn wishes(asked: &'static str) -> RequestDirectives {
        RequestDirectives::of(
            &[(http::header::CACHE_CONTROL, http::HeaderValue::from_static(asked))].into_iter().collect(),
        )
    }

    #[test]
    fn by_what_is_said() {
        use Use::*;
        let stale = Validate(Forward::Stale);
        let request = Validate(Forward::Request);
        for (told, asked, seconds, want) in [
            ("max-age=10", "", 9, Fresh),
            ("max-age=10", "", 10, stale),
            ("max-age=10, no-cache", "", 0, stale),
            ("max-age=10", "no-cache", 1, request),
            ("max-age=10", "max-age=0", 0, request),
            ("max-age=10", "max-age=5", 5, Fresh),
            ("max-age=10", "max-age=5", 6, request),
            ("max-age=10, immutable", "max-age=0", 6, Fresh),
            ("max-age=10, immutable", "no-cache", 6, request),
            ("max-age=10, immutable", "max-age=0", 10, request),
            ("max-age=10", "min-fresh=5", 5, Fresh),
            ("max-age=10", "min-fresh=5", 6, request),
            ("max-age=10", "max-stale", 1000, Stale),
            ("max-age=10", "max-stale=5", 15, Stale),
            ("max-age=10", "max-stale=5", 16, stale),
            ("max-age=10, must-revalidate", "max-stale", 11, stale),
            ("max-age=10, proxy-revalidate", "max-stale", 11, stale),
            ("s-maxage=10", "max-stale", 11, stale),
            ("max-age=10, stale-while-revalidate=5", "", 14, WhileRevalidating),
            ("max-age=10, stale-while-revalidate=5", "", 15, stale),
            ("max-age=10, stale-while-revalidate=5, must-revalidate", "", 12, stale),
        ] {
            assert_eq!(
                judge(&stored(told), &wishes(asked), NOW + seconds * 1000),
                want,
                "{told} | {asked} | {seconds}"
            );
        }
    }

    #[test]
    fn standing_in_for_an_origin_that_fails() {
        for (told, asked, seconds, want) in [
            ("max-age=10", "", 11, false),
            ("max-age=10, stale-if-error=5", "", 14, true),
            ("max-age=10, stale-if-error=5", "", 15, false),
            ("max-age=10", "stale-if-error=5", 14, true),
            ("max-age=10, stale-if-error=5, must-revalidate", "", 11, false),
            ("max-age=10, stale-if-error=5", "no-cache", 11, false),
        ] {
            assert_eq!(
                may_stand_in(&stored(told), &wishes(asked), NOW + seconds * 1000),
                want,
                "{told} | {asked} | {seconds}"
            );
        }
    }

    #[test]
    fn what_was_purged_softly_is_stale_from_then_on() {
        let kept = Entry::Response(stored("max-age=10, stale-while-revalidate=5"));
        kept.expire();
        let Entry::Response(stored) = kept else { unreachable!() };
        assert_eq!(judge(&stored, &wishes(""), NOW + 1000), Use::WhileRevalidating);
        assert_eq!(ttl(&stored, NOW + 1000), 0);
    }
}
