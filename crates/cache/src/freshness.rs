//! How long a response is fresh, how old it is, and for how long after that it may still be used (RFC 9111 sections
//! 4.2, RFC 5861). It never decides about one request.

use http::{header, HeaderMap, StatusCode};

use crate::{
    directives::{Delta, FieldScope},
    fields::{self, date_in, seconds},
    targeted::Policy,
    Millis, FOREVER,
};

/// A response without a lifetime of its own is fresh for a tenth of the time that it has been as it is, at most this
/// long. (Section 4.2.2: "a typical setting of this fraction might be 10%".)
const LONGEST_HEURISTIC: Millis = 86_400_000;

/// A response of a time that is further ahead than this was stored while the clock was wrong: nobody knows how old it
/// is.
const AHEAD: Millis = 60_000;

/// When a request was sent and its response came, by a clock that is never set: ages are differences of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeTimes {
    pub request_time: Millis,
    pub response_time: Millis,
    /// `response_time` by the time of day, which dates in fields are compared to.
    pub date: Millis,
}

impl ExchangeTimes {
    /// Where the time of day has never been set.
    pub const fn by_one_clock(request_time: Millis, response_time: Millis) -> ExchangeTimes {
        ExchangeTimes { request_time, response_time, date: response_time }
    }
}

/// All that has to do with time, worked out once when a response is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    pub lifetime: Millis,
    /// Nobody said how long, and guessing was allowed (section 4.2.2).
    pub heuristic: bool,
    /// `corrected_initial_age` of section 4.2.3.
    pub initial_age: Millis,
    pub response_time: Millis,
    /// To be validated each time, fresh or not (no-cache).
    pub no_cache: bool,
    /// Never to be used stale (must-revalidate, proxy-revalidate, s-maxage, no-cache).
    pub must_revalidate: bool,
    pub immutable: bool,
    /// How long after `lifetime` it may be used while it is validated, and when that fails.
    pub stale_while_revalidate: Millis,
    pub stale_if_error: Millis,
    pub holds: Holds,
}

/// When the page is what the application would say, by the time of day: it may be known when a page changes. Beyond that
/// it answers nobody, fresh or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    pub from: Millis,
    pub until: Millis,
}

impl Holds {
    pub const ALWAYS: Holds = Holds { from: 0, until: Millis::MAX };

    /// Up to, and not at, this time.
    pub const fn until(until: Millis) -> Holds {
        Holds { from: 0, until }
    }

    /// Whether there is a time at which it does not.
    pub fn is_bounded(&self) -> bool {
        *self != Holds::ALWAYS
    }

    pub fn at(&self, wall: Millis) -> bool {
        self.from <= wall && wall < self.until
    }
}

impl Freshness {
    /// `heuristics`: guessing is allowed for this response.
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        policy: &Policy,
        at: ExchangeTimes,
        heuristics: bool,
    ) -> Freshness {
        let told = &policy.directives;
        let explicit = explicit_lifetime(headers, policy, at);
        let guess = || {
            if heuristics && (is_heuristically_cacheable(status) || told.public) {
                heuristic_lifetime(headers, at)
            } else {
                0
            }
        };
        let no_cache = told.no_cache == FieldScope::Everything;
        let windows = |delta: Delta| delta.or_zero().unwrap_or(0) * 1000;
        Freshness {
            lifetime: explicit.unwrap_or_else(guess),
            heuristic: heuristics && explicit.is_none(),
            initial_age: initial_age(headers, at),
            response_time: at.response_time,
            no_cache,
            must_revalidate: no_cache
                || told.must_revalidate
                || told.proxy_revalidate
                // "The s-maxage directive incorporates the semantics of the proxy-revalidate response directive" (5.2.2.10).
                || told.s_maxage != Delta::Absent,
            immutable: told.immutable,
            stale_while_revalidate: windows(told.stale_while_revalidate),
            stale_if_error: windows(told.stale_if_error),
            holds: Holds::ALWAYS,
        }
    }

    /// `current_age` of section 4.2.3.
    pub fn age(&self, now: Millis) -> Millis {
        if self.response_time > now.saturating_add(AHEAD) {
            return FOREVER;
        }
        self.initial_age.saturating_add(now.saturating_sub(self.response_time)).min(FOREVER)
    }

    /// `response_is_fresh` of section 4.2.
    pub fn is_fresh(&self, now: Millis) -> bool {
        self.lifetime > self.age(now)
    }

    /// How long it is fresh yet; 0 when it is stale.
    pub fn remaining(&self, now: Millis) -> Millis {
        self.lifetime.saturating_sub(self.age(now))
    }

    /// How long it has been stale; 0 while it is fresh.
    pub fn staleness(&self, now: Millis) -> Millis {
        self.age(now).saturating_sub(self.lifetime)
    }
}

/// Section 4.2.1. None: nothing says how long.
fn explicit_lifetime(headers: &HeaderMap, policy: &Policy, at: ExchangeTimes) -> Option<Millis> {
    let told = &policy.directives;
    let seconds = told.s_maxage.or_zero().or_else(|| told.max_age.or_zero());
    if seconds.is_some() || policy.targeted {
        return seconds.map(|seconds| seconds * 1000);
    }
    if !headers.contains_key(header::EXPIRES) {
        return None;
    }
    // Not a date, or several: "a cache recipient MUST interpret invalid date formats as in the past" (5.3).
    let expires = date_in(headers, header::EXPIRES).unwrap_or(0);
    let date = date_in(headers, header::DATE).unwrap_or(at.date);
    Some(expires.saturating_sub(date).min(FOREVER))
}

fn heuristic_lifetime(headers: &HeaderMap, at: ExchangeTimes) -> Millis {
    let Some(modified) = date_in(headers, header::LAST_MODIFIED) else { return 0 };
    let date = date_in(headers, header::DATE).unwrap_or(at.date);
    (date.saturating_sub(modified) / 10).min(LONGEST_HEURISTIC)
}

/// Statuses that may be kept without being told (RFC 9110 section 15.1).
pub fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Section 4.2.3.
fn initial_age(headers: &HeaderMap, at: ExchangeTimes) -> Millis {
    let date = date_in(headers, header::DATE).unwrap_or(at.date);
    let apparent_age = at.date.saturating_sub(date);
    let response_delay = at.response_time.saturating_sub(at.request_time);
    let corrected_age = age_value(headers).saturating_add(response_delay);
    // Dates count whole seconds: less than one is no age.
    let apparent_age = if apparent_age < 1000 { 0 } else { apparent_age };
    apparent_age.max(corrected_age)
}

/// Age (section 5.1), in milliseconds. Of a list the first member counts. One that is no number, or that two caches
/// have both written, tells only that the response is older than anybody knows: it is as old as can be.
fn age_value(headers: &HeaderMap) -> Millis {
    let mut lines = headers.get_all(header::AGE).iter();
    let Some(line) = lines.next() else { return 0 };
    let text = fields::trim(line.as_bytes());
    let (first, others) = match text.iter().position(|&byte| byte == b',') {
        Some(comma) => (&text[..comma], Some(fields::trim(&text[comma + 1..]))),
        None => (text, None),
    };
    match seconds(fields::trim(first)) {
        Some(seconds) if lines.next().is_none() && others != Some(first) => seconds * 1000,
        _ => FOREVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    /// Wed, 01 Jan 2020 00:00:00 GMT
    const NOW: Millis = 1_577_836_800_000;

    fn of(lines: &[(&'static str, &'static str)]) -> Freshness {
        with(200, lines, ExchangeTimes::by_one_clock(NOW, NOW))
    }

    fn with(status: u16, lines: &[(&'static str, &'static str)], at: ExchangeTimes) -> Freshness {
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        Freshness::of(StatusCode::from_u16(status).unwrap(), &headers, &Policy::of(&headers), at, true)
    }

    const DATE: (&str, &str) = ("date", "Wed, 01 Jan 2020 00:00:00 GMT");

    #[test]
    fn s_maxage_then_max_age_then_expires() {
        let expires = ("expires", "Wed, 01 Jan 2020 00:00:30 GMT");
        assert_eq!(of(&[DATE, ("cache-control", "max-age=10, s-maxage=20"), expires]).lifetime, 20_000);
        assert_eq!(of(&[DATE, ("cache-control", "max-age=10"), expires]).lifetime, 10_000);
        assert_eq!(of(&[DATE, expires]).lifetime, 30_000);
        assert_eq!(of(&[DATE, ("expires", "0")]).lifetime, 0);
        assert_eq!(of(&[DATE, expires, expires]).lifetime, 0, "twice is invalid");
        assert_eq!(of(&[("date", "foo"), expires]).lifetime, 30_000, "without a Date it came when it came");
        assert_eq!(of(&[("cache-control", "max-age=9"), ("cdn-cache-control", "no-cache"), expires]).lifetime, 0);
    }

    #[test]
    fn the_age_it_came_with_counts() {
        let age = |value| of(&[DATE, ("age", value)]).initial_age;
        assert_eq!((age("30"), age("0,7200")), (30_000, 0));
        for value in ["abc", "-7200", "7200.0", "0, 0", "3600, 3600", "7200;foo=bar", ""] {
            assert_eq!(age(value), FOREVER, "{value}");
        }
        assert_eq!(of(&[("age", "0"), ("age", "0")]).initial_age, FOREVER);
    }

    #[test]
    fn age_grows_from_the_greater_of_clock_and_field() {
        let at = ExchangeTimes::by_one_clock(NOW + 3_000, NOW + 5_000);
        assert_eq!(with(200, &[DATE], at).initial_age, 5_000, "apparent_age");
        assert_eq!(with(200, &[DATE, ("age", "10")], at).initial_age, 12_000, "age_value and response_delay");
        assert_eq!(with(200, &[DATE, ("age", "10")], at).age(NOW + 6_000), 13_000);
    }

    /// The clock of ages is an hour behind the time of day, which has been set.
    #[test]
    fn dates_are_compared_to_the_time_of_day_and_ages_to_their_own_clock() {
        let at = ExchangeTimes { request_time: NOW - 3_600_000, response_time: NOW - 3_600_000, date: NOW };
        let read = with(200, &[("expires", "Wed, 01 Jan 2020 00:01:00 GMT")], at);
        assert_eq!((read.lifetime, read.initial_age), (60_000, 0));
        assert_eq!(with(200, &[DATE], ExchangeTimes { date: NOW + 5_000, ..at }).initial_age, 5_000);
        assert_eq!(read.age(NOW - 3_599_000), 1_000);
    }

    #[test]
    fn what_is_of_a_time_to_come_is_as_old_as_can_be() {
        let read = of(&[DATE, ("cache-control", "max-age=86400")]);
        assert_eq!([0, AHEAD, AHEAD + 1].map(|ahead| read.age(NOW - ahead)), [0, 0, FOREVER]);
    }

    #[test]
    fn guesses() {
        let modified = ("last-modified", "Tue, 31 Dec 2019 23:58:20 GMT");
        let at = ExchangeTimes::by_one_clock(NOW, NOW);
        for (status, lifetime) in [(200, 10_000), (404, 10_000), (302, 0), (503, 0)] {
            let read = with(status, &[DATE, modified], at);
            assert_eq!((read.lifetime, read.heuristic), (lifetime, true), "{status}");
        }
        assert_eq!(with(599, &[DATE, modified, ("cache-control", "public")], at).lifetime, 10_000);
        assert_eq!(of(&[DATE, ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")]).lifetime, LONGEST_HEURISTIC);
    }

    #[test]
    fn a_page_holds_from_a_time_to_another() {
        let holds = Holds { from: 10, until: 20 };
        assert_eq!([9, 10, 19, 20].map(|wall| holds.at(wall)), [false, true, true, false]);
        assert!(holds.is_bounded() && Holds::until(20).is_bounded() && !Holds::ALWAYS.is_bounded());
        assert!(Holds::ALWAYS.at(0) && Holds::ALWAYS.at(NOW));
    }

    #[test]
    fn it_is_fresh_up_to_its_lifetime() {
        let read = of(&[DATE, ("cache-control", "max-age=10, stale-while-revalidate=5")]);
        assert!(read.is_fresh(NOW + 9_999) && !read.is_fresh(NOW + 10_000));
        assert_eq!((read.remaining(NOW + 4_000), read.staleness(NOW + 12_000)), (6_000, 2_000));
        assert_eq!(read.stale_while_revalidate, 5_000);
    }
}
