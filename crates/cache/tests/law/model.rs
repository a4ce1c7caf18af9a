//! The model: what RFC 9111 says of one exchange.

use super::*;

fn said<'a>(all: &'a [Said], name: &'a str) -> impl Iterator<Item = Said> + 'a {
    all.iter().copied().filter(move |one| one.name() == name)
}

pub fn has(all: &[Said], name: &str) -> bool {
    said(all, name).next().is_some()
}

/// "either the first occurrence should be used or the response should be considered stale"; "caches are encouraged
/// to consider responses that have invalid freshness information ... to be stale" (4.2.1).
pub fn seconds(all: &[Said], name: &str) -> Option<u64> {
    said(all, name).next().map(|first| if let Said::Seconds(_, seconds) = first { seconds } else { 0 })
}

/// The directive without names of fields: it is for the whole response.
fn wholly(all: &[Said], name: &str) -> bool {
    said(all, name).any(|one| matches!(one, Said::Flag(_)))
}

impl Told {
    pub fn directives(&self) -> &[Said] {
        self.cache_control.as_deref().unwrap_or_default()
    }

    /// RFC 9110 section 15.1.
    fn heuristically_cacheable(&self) -> bool {
        [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&self.status)
    }

    /// 4.2.1, up to the last bullet.
    fn explicit(&self, response_time: u64) -> Option<u64> {
        // "If the cache is shared and the s-maxage response directive is present, use its value, or
        // if the max-age response directive is present, use its value, or ..."
        if let Some(seconds) = seconds(self.directives(), "s-maxage").or(seconds(self.directives(), "max-age")) {
            return Some(seconds * 1000);
        }
        // "If the Expires response header field is present, use its value minus the value of the Date response
        // header field (using the time the message was received if it is not present)."
        let from = self.date.map_or(response_time, |date| date * 1000);
        match self.expires {
            Some(Expires::At(at)) => Some((at * 1000).saturating_sub(from)),
            // "MUST interpret invalid date formats, especially the value "0", as representing a time in the past"
            // (5.3).
            Some(Expires::Invalid) => Some(0),
            None => None,
        }
    }

    pub fn lifetime(&self, response_time: u64, guessing: bool) -> u64 {
        // 4.2.2: "a cache MUST NOT use heuristics to determine freshness when an explicit expiration time is
        // present"; "only ... on responses without explicit freshness whose status codes are defined as
        // heuristically cacheable ... or [that] have been marked as explicitly cacheable (e.g., with a
        // public response directive)."
        let guess = || {
            let may = guessing && (self.heuristically_cacheable() || has(self.directives(), "public"));
            let from = self.date.map_or(response_time, |date| date * 1000);
            let since = self.last_modified.filter(|_| may).map_or(0, |at| from.saturating_sub(at * 1000));
            // "A typical setting of this fraction might be 10%." A day is this cache's own bound.
            (since / 10).min(86_400_000)
        };
        self.explicit(response_time).unwrap_or_else(guess)
    }

    /// 4.2.3.
    pub fn initial_age(&self, at: ExchangeTimes) -> u64 {
        let date_value = self.date.map_or(at.response_time, |date| date * 1000);
        let age_value = self.age.unwrap_or(0) * 1000;
        // "apparent_age = max(0, response_time - date_value);" in whole seconds, as Date has no others.
        let apparent_age = match at.response_time.saturating_sub(date_value) {
            less if less < 1000 => 0,
            more => more,
        };
        // "response_delay = response_time - request_time; corrected_age_value = age_value + response_delay;"
        let corrected_age_value = age_value + (at.response_time - at.request_time);
        // "corrected_initial_age = max(apparent_age, corrected_age_value);"
        apparent_age.max(corrected_age_value)
    }

    /// Never stale: must-revalidate (5.2.2.2), proxy-revalidate (5.2.2.8), s-maxage (5.2.2.10), no-cache (5.2.2.4).
    pub fn forbids_stale(&self) -> bool {
        let said = self.directives();
        ["must-revalidate", "proxy-revalidate", "s-maxage"].iter().any(|name| has(said, name)) || self.no_cache()
    }

    pub fn no_cache(&self) -> bool {
        wholly(self.directives(), "no-cache")
    }

    pub fn window(&self, name: &str) -> u64 {
        seconds(self.directives(), name).unwrap_or(0) * 1000
    }

    /// What may differ from user to user is not kept on a guess (this cache's own rule).
    pub fn guessable(&self, asked: &Asked) -> bool {
        !(asked.cookie || self.set_cookie) || has(self.directives(), "public")
    }

    /// Says 304, or a new response, that it may not be kept.
    pub fn forbids_storing(&self) -> bool {
        let said = self.directives();
        // "a cache MUST NOT store" (5.2.2.5); "SHOULD ignore the no-store directive" with must-understand
        // (5.2.2.3).
        (has(said, "no-store") && !has(said, "must-understand")) || wholly(said, "private") || self.vary_star
    }
}

/// "A cache MUST NOT store a response to a request unless" (section 3), in its order.
pub fn may_store(asked: &Asked, told: &Told) -> bool {
    let said = told.directives();
    // "the request method is understood by the cache;"
    if asked.method != Method::GET {
        return false;
    }
    // "the response status code is final"; "if the response status code is 206 or 304, or the must-understand cache
    // directive is present: the cache understands the response status code"
    if told.status == 304 || (has(said, "must-understand") && told.status == 599) {
        return false;
    }
    // "the no-store cache directive is not present"; "if the cache is shared: the private response directive is
    // either not present or allows a shared cache to store a modified response"
    if told.forbids_storing() {
        return false;
    }
    // "if the cache is shared: the Authorization header field is not present in the request or a response directive
    // is present that explicitly allows shared caching (see Section 3.5)": must-revalidate, public,
    // s-maxage.
    let allowed = ["must-revalidate", "public", "s-maxage"].iter().any(|name| has(said, name));
    if asked.authorization && !allowed {
        return false;
    }
    // "the response contains at least one of the following"
    let explicit = has(said, "public")
        || told.expires.is_some()
        || has(said, "max-age")
        || has(said, "s-maxage")
        || told.heuristically_cacheable();
    // "A cache MUST NOT store any part of either this request or any response to it." (5.2.1.5)
    explicit && !has(&asked.cache_control, "no-store")
}

/// Storing it is of use: it can answer something, some day; and it is not somebody's by guess.
pub fn is_worth_storing(asked: &Asked, told: &Told, at: ExchangeTimes) -> bool {
    let guessed = told.explicit(at.response_time).is_none() && !has(told.directives(), "public");
    if guessed && (asked.cookie || told.set_cookie) {
        return false;
    }
    let age = told.initial_age(at);
    let lifetime = told.lifetime(at.response_time, told.guessable(asked));
    let fresh = lifetime > age && !told.no_cache();
    let validator = told.etag || told.last_modified.is_some();
    let window = told.window("stale-while-revalidate").max(told.window("stale-if-error"));
    fresh || validator || (!told.forbids_stale() && window > age.saturating_sub(lifetime))
}

/// Section 4, 5.2.1; RFC 5861 section 3; RFC 8246.
pub fn reuse(told: &Told, lifetime: u64, initial_age: u64, response_time: u64, asked: &Asked, now: u64) -> Use {
    use cache::status::Forward::Stale;
    let wishes = &asked.cache_control;
    // 4.2.3: "resident_time = now - response_time; current_age = corrected_initial_age + resident_time;"
    let current_age = initial_age + (now - response_time);
    let fresh = lifetime > current_age;
    let staleness = current_age.saturating_sub(lifetime);
    // "the stored response does not contain the no-cache directive, unless it is successfully validated" (section
    // 4) "the request does not contain the no-cache directive" (5.2.1.4; Pragma: 5.4)
    if told.no_cache() || has(wishes, "no-cache") || (asked.pragma && wishes.is_empty()) {
        return Use::Validate(Stale);
    }
    // "the client prefers a response whose age is less than or equal to the specified number of seconds" (5.2.1.1).
    // What is immutable and fresh does not change for a reload (RFC 8246 section 2).
    let immutable = fresh && has(told.directives(), "immutable");
    match seconds(wishes, "max-age") {
        Some(limit) if !immutable && (limit == 0 || current_age > limit * 1000) => return Use::Validate(Stale),
        _ => {}
    }
    // "the client prefers a response whose freshness lifetime is no less than its current age plus the specified
    // time" (5.2.1.3)
    if seconds(wishes, "min-fresh").is_some_and(|wanted| lifetime < current_age + wanted * 1000) {
        return Use::Validate(Stale);
    }
    if fresh {
        return Use::Fresh;
    }
    // "A cache MUST NOT generate a stale response if it is prohibited by an explicit in-protocol directive" (4.2.4)
    if told.forbids_stale() {
        return Use::Validate(Stale);
    }
    // "If no value is assigned to max-stale, then the client will accept a stale response of any age." (5.2.1.2)
    let takes = wishes.iter().rev().find(|one| one.name() == "max-stale");
    match takes {
        Some(Said::Flag(_)) => return Use::Stale,
        Some(Said::Seconds(_, limit)) if staleness <= limit * 1000 => return Use::Stale,
        _ => {}
    }
    // "Unless the max-stale request directive is also present, the client does not wish to receive a stale
    // response." (5.2.1.1)
    if has(wishes, "max-age") && takes.is_none() {
        return Use::Validate(Stale);
    }
    // "caches MAY serve the response ... after it becomes stale, up to the indicated number of seconds" (RFC 5861)
    if staleness < told.window("stale-while-revalidate") {
        Use::WhileRevalidating
    } else {
        Use::Validate(Stale)
    }
}

/// RFC 5861 section 4: "when an error is encountered, a cached stale response MAY be used ... regardless of other
/// freshness information"; but not what forbids it (RFC 9111 section 4.2.4).
pub fn stands_in(told: &Told, lifetime: u64, initial_age: u64, response_time: u64, asked: &Asked, now: u64) -> bool {
    let wishes = &asked.cache_control;
    let staleness = (initial_age + (now - response_time)).saturating_sub(lifetime);
    let fresh = lifetime > initial_age + (now - response_time);
    let asked_for = wishes.iter().rev().find(|one| one.name() == "stale-if-error");
    let theirs = if let Some(Said::Seconds(_, seconds)) = asked_for { seconds * 1000 } else { 0 };
    let window = told.window("stale-if-error").max(theirs);
    let unwilling = has(wishes, "no-cache") || (asked.pragma && wishes.is_empty());
    !told.forbids_stale() && !unwilling && (fresh || staleness < window)
}
