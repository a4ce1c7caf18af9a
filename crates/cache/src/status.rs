//! What the cache did with a request, in RFC 9211's words: for the header, the log and the counters alike.
//! It never decides what is done.

use std::fmt::Write;

use crate::Millis;

/// Why a response was not stored, or a request not answered from what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The request's method is not one whose responses are stored.
    Method,
    RequestNoStore,
    NoStore,
    Private,
    Authorization,
    VaryStar,
    /// The status says nothing to caches.
    Status,
    /// Nothing says how long it is good for, and it can't be validated.
    NoFreshness,
    /// Nothing says how long it is good for, and cookies are in play.
    Cookies,
    /// It sets a cookie that the site's rule does not know, or is a template for everybody.
    SetCookie,
    /// no-cache, which the site's rule respects.
    NoCache,
    /// The response did not come whole.
    Incomplete,
    /// Larger than the cache takes.
    Size,
    /// It was purged while it was on its way.
    Purged,
    /// A generation on trial has made it, and may be taken back.
    Canary,
    /// Its page changed while it was on its way.
    Outdated,
    /// The key has lately had answers that can't be stored.
    Uncacheable,
    /// The site keeps no cache.
    Off,
    /// The request asks for another protocol.
    Upgrade,
    /// A range of something that is not stored.
    Range,
    /// The server's room for responses was taken.
    Full,
    /// Server-sent events: nobody else could have them before they end, if they ever do.
    EventStream,
}

impl Reason {
    /// All of them, for tables of counters.
    pub const ALL: [Reason; 22] = {
        use Reason::*;
        [
            Method,
            RequestNoStore,
            NoStore,
            Private,
            Authorization,
            VaryStar,
            Status,
            NoFreshness,
            Cookies,
            SetCookie,
            NoCache,
            Incomplete,
            Size,
            Purged,
            Canary,
            Outdated,
            Uncacheable,
            Off,
            Upgrade,
            Range,
            Full,
            EventStream,
        ]
    };

    /// As it stands in `detail`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Method => "method",
            Reason::RequestNoStore => "request-no-store",
            Reason::NoStore => "no-store",
            Reason::Private => "private",
            Reason::Authorization => "authorization",
            Reason::VaryStar => "vary-star",
            Reason::Status => "status",
            Reason::NoFreshness => "no-freshness",
            Reason::Cookies => "cookies",
            Reason::SetCookie => "set-cookie",
            Reason::NoCache => "no-cache",
            Reason::Incomplete => "incomplete",
            Reason::Size => "size",
            Reason::Purged => "purged",
            Reason::Canary => "canary",
            Reason::Outdated => "outdated",
            Reason::Uncacheable => "uncacheable",
            Reason::Off => "off",
            Reason::Upgrade => "upgrade",
            Reason::Range => "range",
            Reason::Full => "full",
            Reason::EventStream => "event-stream",
        }
    }

    /// The field that stopped it, and what its sender could do: for `paceline cache stats`.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            Reason::NoStore => "Cache-Control: no-store",
            Reason::Private => "Cache-Control: private",
            Reason::Authorization => "Authorization in the request, without Cache-Control: public",
            Reason::VaryStar => "Vary: *",
            Reason::NoFreshness => "neither max-age nor ETag nor Last-Modified",
            Reason::Cookies => "cookies, without Cache-Control: max-age",
            Reason::SetCookie => "Set-Cookie",
            Reason::NoCache => "Cache-Control: no-cache",
            Reason::Size => "a body larger than cache_object",
            _ => return None,
        })
    }
}

/// Why a request went on to the origin (RFC 9211 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forward {
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    /// The request's own directives wanted it.
    Request,
    Stale,
    Partial,
}

impl Forward {
    pub const ALL: [Forward; 7] = {
        use Forward::*;
        [Bypass, Method, UriMiss, VaryMiss, Request, Stale, Partial]
    };

    pub fn as_str(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Request => "request",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}

/// One request's member of Cache-Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStatus {
    pub hit: bool,
    pub forward: Option<Forward>,
    /// What the origin said, if it is not what the client is told.
    pub forward_status: Option<u16>,
    pub stored: bool,
    pub collapsed: bool,
    /// Milliseconds that the response is fresh yet; below zero: for how long it has been stale.
    pub ttl: Option<i64>,
    pub reason: Option<Reason>,
    /// Said instead of a reason: why a stale response was given.
    pub detail: Option<&'static str>,
}

/// The detail of a stale response that a crawler was given.
const CRAWLER: &str = "crawler";

impl CacheStatus {
    /// A stale response for a crawler.
    pub fn crawlers_stale(ttl: i64) -> CacheStatus {
        CacheStatus { detail: Some(CRAWLER), ..CacheStatus::hit(ttl) }
    }

    pub fn is_crawlers_stale(&self) -> bool {
        self.detail == Some(CRAWLER)
    }

    pub fn hit(ttl: i64) -> CacheStatus {
        CacheStatus { hit: true, ttl: Some(ttl), ..CacheStatus::default() }
    }

    pub fn forward(forward: Forward) -> CacheStatus {
        CacheStatus { forward: Some(forward), ..CacheStatus::default() }
    }

    pub fn bypass(reason: Reason) -> CacheStatus {
        CacheStatus { reason: Some(reason), ..CacheStatus::forward(Forward::Bypass) }
    }
}

impl CacheStatus {
    /// The member, behind those of caches nearer to the origin (RFC 9211 section 2: each appends its own).
    pub fn line(&self) -> String {
        let mut line = String::with_capacity(64);
        line.push_str("paceline");
        if self.hit {
            line.push_str("; hit");
        }
        // "hit and fwd are exclusive" (RFC 9211 section 2.2).
        if let Some(forward) = self.forward.filter(|_| !self.hit) {
            line.push_str("; fwd=");
            line.push_str(forward.as_str());
        }
        // Writing to a string does not fail.
        if let Some(status) = self.forward_status {
            let _ = write!(line, "; fwd-status={status}");
        }
        if let Some(ttl) = self.ttl {
            let _ = write!(line, "; ttl={}", ttl.div_euclid(1000));
        }
        for (said, word) in [(self.stored, "; stored"), (self.collapsed, "; collapsed")] {
            if said {
                line.push_str(word);
            }
        }
        if let Some(detail) = self.detail.or(self.reason.map(Reason::as_str)) {
            line.push_str("; detail=");
            line.push_str(detail);
        }
        line
    }
}

impl CacheStatus {
    /// In the fewest words, for a log: `hit`, `stale`, `uri-miss`, `bypass:private`, `uri-miss:stored`.
    pub fn words(&self) -> String {
        let mut words = String::new();
        self.each_word(|word| words.push_str(word));
        words
    }

    /// Hands the pieces of [`words`](CacheStatus::words) to `say`, in their order, with the colons between them.
    pub fn each_word(&self, mut say: impl FnMut(&str)) {
        say(match (self.hit, self.forward) {
            (true, _) if self.ttl.is_some_and(|ttl| ttl < 0) => "stale",
            (true, _) => "hit",
            (false, Some(forward)) => forward.as_str(),
            (false, None) => "bypass",
        });
        if self.collapsed {
            say(":collapsed");
        }
        if self.stored {
            say(":stored");
        }
        if let Some(reason) = self.reason {
            say(":");
            say(reason.as_str());
        }
    }
}

/// Milliseconds of `remaining`, or below zero of `staleness`.
pub fn ttl(remaining: Millis, staleness: Millis) -> i64 {
    match remaining {
        0 => -i64::try_from(staleness).unwrap_or(i64::MAX),
        remaining => i64::try_from(remaining).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_rfc_9211_has_it() {
        assert_eq!(CacheStatus::hit(41_900).line(), "paceline; hit; ttl=41");
        assert_eq!(CacheStatus::hit(-1).line(), "paceline; hit; ttl=-1");
        let instead = CacheStatus { hit: true, forward_status: Some(500), ..CacheStatus::forward(Forward::Stale) };
        assert_eq!(instead.line(), "paceline; hit; fwd-status=500");
        assert_eq!(CacheStatus::crawlers_stale(-1).line(), "paceline; hit; ttl=-1; detail=crawler");
        let stored = CacheStatus { stored: true, ..CacheStatus::forward(Forward::UriMiss) };
        assert_eq!(stored.line(), "paceline; fwd=uri-miss; stored");
        let revalidated =
            CacheStatus { forward_status: Some(304), ttl: Some(60_000), ..CacheStatus::forward(Forward::Stale) };
        assert_eq!(revalidated.line(), "paceline; fwd=stale; fwd-status=304; ttl=60");
        assert_eq!(CacheStatus::bypass(Reason::SetCookie).line(), "paceline; fwd=bypass; detail=set-cookie");
        let collapsed = CacheStatus { collapsed: true, ..CacheStatus::forward(Forward::UriMiss) };
        assert_eq!(collapsed.line(), "paceline; fwd=uri-miss; collapsed");
    }

    #[test]
    fn in_a_log() {
        assert_eq!(CacheStatus::hit(1).words(), "hit");
        assert_eq!(CacheStatus::hit(-1).words(), "stale");
        assert_eq!(CacheStatus::bypass(Reason::Upgrade).words(), "bypass:upgrade");
        assert_eq!(CacheStatus { stored: true, ..CacheStatus::forward(Forward::UriMiss) }.words(), "uri-miss:stored");
    }

    #[test]
    fn each_reason_has_a_word_of_its_own() {
        let words: std::collections::HashSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
