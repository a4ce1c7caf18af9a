//! What the cache has for a request: an answer, or how the request goes on to the origin.
//! It never waits.

use std::{borrow::Cow, sync::Arc};

use cache::{
    directives::RequestDirectives,
    fields::tokens,
    groups,
    key::Target,
    reusing::{self, Use},
    search::NoVarySearch,
    status::{CacheStatus, Forward, Reason},
    store::Key,
    stored::{Directory, Entry, Stored},
    stubborn::Rule,
    targeted, Millis,
};
use http::{header, request::Parts, HeaderMap, HeaderName, Method, Response};

use super::{
    answer::{self, StoredAnswer},
    cache_request::{CacheRequest, ForAll, StoredTarget},
    flight::{Flight, FlightLead},
    now,
    partition::partition,
    sessions::Visitor,
    SiteCache,
};
use crate::{content::body::ResponseBody, exchange::Exchange, support::clock::Micros};
use http_guard::host;

/// What is to be done with a request.
pub enum Lookup {
    Hit(Response<ResponseBody>),
    /// Answered by a stale response, which is to be validated now (RFC 5861 section 3).
    StaleWhileRevalidate(Response<ResponseBody>, Box<CacheRequest>),
    /// The origin is to be asked, for all who want the same.
    Fetch(Box<CacheRequest>),
    /// The origin was asked for it before the request came, and this front does not know what other fronts have purged since.
    /// To be waited for, and then looked for again.
    After(Arc<Flight>),
    /// Somebody has asked the origin for it.
    Collapsed(Arc<Flight>, Box<CacheRequest>),
    /// The origin is to be asked for this request alone.
    Bypass(Box<CacheRequest>),
    /// Memory has nothing, but the disk may have something. To be looked for there (`recall`), and then again.
    DiskLookup(Box<CacheRequest>),
}

impl Lookup {
    /// The answer, if it can go out as it is. (A template of a page can't.)
    pub fn answer_as_it_is(&mut self) -> Option<Response<ResponseBody>> {
        match self {
            Lookup::Hit(response) if !response.headers().contains_key(targeted::SURROGATE_CONTROL) => {
                Some(std::mem::replace(response, Response::new(ResponseBody::Empty)))
            }
            _ => None,
        }
    }
}

/// A request as it is looked up.
struct Question<'a> {
    head: &'a Parts,
    now: Millis,
    /// When it came.
    arrived: Micros,
    target: Target<'a>,
    visitor: Option<Visitor>,
    partition: Vec<u8>,
    for_all: Option<ForAll>,
    primary: Key,
    wishes: RequestDirectives,
    /// A crawler asks.
    crawler: bool,
}

impl Question<'_> {
    /// The request as it goes on to the origin. `found`: what is under its keys.
    fn wanted(&self, status: CacheStatus, found: Option<StoredTarget>) -> Box<CacheRequest> {
        let found = found.unwrap_or(StoredTarget { key: self.primary, directory: None, stored: None });
        Box::new(CacheRequest {
            url: self.target.url().into(),
            primary: self.primary,
            key: found.key,
            directory: found.directory,
            stored: found.stored,
            wishes: self.wishes.clone(),
            status,
            shareable: false,
            storable: false,
            visitor: self.visitor,
            partition: self.partition.clone(),
            for_all: self.for_all.clone(),
            path: self.head.uri.path().to_owned(),
            flight: None,
            leading: None,
            until: Millis::MAX,
            purging: Vec::new(),
            lease: None,
        })
    }
}

/// What a stored response is good for.
enum StoredUse {
    Answers(Response<ResponseBody>),
    /// It answers, and is to be validated now.
    AnswersStale(Response<ResponseBody>),
    /// The origin is to be asked.
    Forward(CacheStatus),
}

impl SiteCache {
    /// Looks for what answers the request. `body`: it has one.
    pub fn look(self: &Arc<Self>, head: &Parts, body: bool, exchange: &Exchange) -> Lookup {
        self.look_for(head, body, exchange, self.cache.may_recall())
    }

    /// Looks once more, after `Lookup::DiskLookup`, which does not come again, or after `Lookup::After`.
    pub fn look_again(self: &Arc<Self>, head: &Parts, body: bool, exchange: &Exchange) -> Lookup {
        self.look_for(head, body, exchange, false)
    }

    fn look_for(self: &Arc<Self>, head: &Parts, body: bool, exchange: &Exchange, may_recall: bool) -> Lookup {
        let now = now();
        let path = head.uri.path();
        let is_read = [Method::GET, Method::HEAD].contains(&head.method);
        let rule = if is_read { self.rule(path) } else { None };
        let own = rule.filter(|rule| {
            rule.admits(head).is_err()
                || rule.is_somebodys_own(&head.headers)
                // What somebody has changed is shown to them at once only where a cookie names them.
                || exchange.requester.user.is_some() && rule.cookies.is_empty()
        });
        let rule = rule.filter(|_| own.is_none());
        let visitor = rule.map(|rule| self.cache.visitor(rule, &head.headers));
        let host = exchange.client.host.as_deref().map_or_else(|| host::host(head), Cow::Borrowed);
        let full = head.uri.path_and_query().map_or(path, |full| full.as_str());
        let canonical = self.canonical(exchange.client.scheme(), &host, full);
        let target =
            Target { scheme: exchange.client.scheme(), authority: &host, path: canonical.as_deref().unwrap_or(full) };
        let (partition, for_all) = partition(visitor, head, exchange);
        let primary = self.cache.keys.primary(&target, &partition);
        let (wishes, crawler) = (self.wishes(head, rule), exchange.requester.crawler().is_some());
        let arrived = exchange.timeline.head_read;
        let asked = Question { head, now, arrived, target, visitor, partition, for_all, primary, wishes, crawler };
        if let Some(forward) = beside(head, body) {
            // A POST's answer may be what a GET would get (RFC 9110 section 9.3.3).
            let storable =
                is_read && !body && !head.headers.contains_key(header::UPGRADE) || head.method == Method::POST;
            let storable = storable && own.is_none() && !takes_back(&head.headers);
            return Lookup::Bypass(Box::new(CacheRequest { storable, ..*asked.wanted(forward, None) }));
        }
        if let Some(rule) = own {
            self.warn_of_unnamed(rule, &head.headers);
            return Lookup::Bypass(asked.wanted(CacheStatus::bypass(Reason::Cookies), None));
        }

        let found = self.holding(self.find(primary, &head.headers), primary, &head.headers);
        let absent = found.stored.is_none() && visitor.is_none();
        if absent && may_recall && !self.cache.uncacheable.knows(found.key, now) {
            let forward = CacheStatus::forward(Forward::UriMiss);
            return Lookup::DiskLookup(Box::new(CacheRequest {
                storable: true,
                ..*asked.wanted(forward, Some(found))
            }));
        }
        match self.by_what_is_stored(&asked, &found) {
            StoredUse::Answers(response) => Lookup::Hit(response),
            StoredUse::AnswersStale(response) => self.revalidated(&asked, found, response),
            StoredUse::Forward(forward) => self.forwarded(&asked, asked.wanted(forward, Some(found))),
        }
    }

    /// The directives of a request that are obeyed.
    fn wishes(&self, head: &Parts, rule: Option<&Rule>) -> RequestDirectives {
        if !head.headers.contains_key(header::CACHE_CONTROL) && !head.headers.contains_key(header::PRAGMA) {
            RequestDirectives::default()
        } else if self.settings.obey_requests && rule.is_none() {
            RequestDirectives::of(&head.headers)
        } else {
            // A page that an owner keeps against the app's word is kept against the visitor's, too.
            RequestDirectives { no_store: false, ..RequestDirectives::default() }
        }
    }

    /// Whether what is stored answers the request, or why the origin has to be asked.
    fn by_what_is_stored(&self, asked: &Question, found: &StoredTarget) -> StoredUse {
        let miss = if found.directory.is_some() { Forward::VaryMiss } else { Forward::UriMiss };
        let Some(stored) = &found.stored else { return StoredUse::Forward(CacheStatus::forward(miss)) };
        if !self.cache.may_show(asked.now) {
            // What other fronts have purged is not known here.
            let status = CacheStatus { detail: Some("cluster"), ..CacheStatus::forward(Forward::Stale) };
            return StoredUse::Forward(status);
        }
        let means = reusing::judge(stored, &asked.wishes, asked.now);
        let for_crawler = matches!(means, Use::Validate(Forward::Stale))
            && asked.crawler
            && reusing::may_serve_crawler(stored, &asked.wishes, self.settings.crawlers_stale, asked.now);
        if let (Use::Validate(why), false) = (means, for_crawler) {
            return StoredUse::Forward(CacheStatus::forward(why));
        }
        let answering = StoredAnswer { cache: &self.cache, key: found.key, stored, head: asked.head, now: asked.now };
        let Some(mut response) = answer::stored(&answering) else {
            return StoredUse::Forward(CacheStatus::forward(Forward::Partial));
        };
        let is_stale = means == Use::WhileRevalidating;
        let ttl = reusing::ttl(stored, asked.now);
        let mut status = if for_crawler { CacheStatus::crawlers_stale(ttl) } else { CacheStatus::hit(ttl) };
        status.detail = status.detail.or(is_stale.then_some("stale-while-revalidate"));
        stored.count_hit();
        if let Some(for_all) = &asked.for_all {
            self.see_hit(asked.head, asked.primary, for_all, stored);
        }
        self.end_with_page(asked.primary, &mut response);
        response.extensions_mut().insert(status);
        if is_stale {
            StoredUse::AnswersStale(response)
        } else {
            StoredUse::Answers(response)
        }
    }

    /// A stale response goes out, and the first who gets it validates it.
    fn revalidated(
        self: &Arc<Self>,
        asked: &Question,
        found: StoredTarget,
        response: Response<ResponseBody>,
    ) -> Lookup {
        // Visitors would wait for what a crawler has asked for, and crawlers come last.
        if asked.crawler {
            return Lookup::Hit(response);
        }
        let mut wanted = asked.wanted(CacheStatus::forward(Forward::Stale), Some(found));
        (wanted.storable, wanted.shareable) = (true, true);
        wanted.until = self.holds_until(&wanted);
        match self.cache.flights.lead(&mut wanted, &self.cache.store) {
            Some(_) => Lookup::Hit(response),
            None => Lookup::StaleWhileRevalidate(response, self.leading(wanted)),
        }
    }

    /// The origin is asked: for this request alone, or for all who want the same.
    fn forwarded(self: &Arc<Self>, asked: &Question, mut wanted: Box<CacheRequest>) -> Lookup {
        let head = asked.head;
        wanted.storable = true;
        if head.method == Method::HEAD || wanted.wishes.no_store || wanted.wishes.only_if_cached {
            return Lookup::Bypass(wanted);
        }
        if self.cache.uncacheable.knows(wanted.key, asked.now) && wanted.stored.is_none() {
            wanted.status.reason = Some(Reason::Uncacheable);
            return Lookup::Bypass(wanted);
        }
        let asks_for_part = head.headers.contains_key(header::RANGE);
        let validates = wanted.has_whole();
        // Who has something already may be told so by the origin alone, and that answer serves nobody else.
        let conditional =
            [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE].iter().any(|name| head.headers.contains_key(name));
        wanted.until = self.holds_until(&wanted);
        // What has to be validated for each request is shared with nobody.
        wanted.shareable = !asks_for_part
            && wanted.stored.as_ref().is_none_or(|stored| !stored.freshness.no_cache && stored.freshness.lifetime > 0);
        if let Some(flight) = wanted.shareable.then(|| self.cache.flights.find(&wanted, &self.cache.store)).flatten() {
            if self.cache.may_show(asked.now) || flight.began_after(asked.arrived) {
                return Lookup::Collapsed(flight, wanted);
            }
            if flight.is_asked() {
                return Lookup::After(flight);
            }
            self.cache.flights.end(&flight);
        }
        if (conditional || asks_for_part) && !validates {
            return Lookup::Bypass(wanted);
        }
        // A crawler leads nobody: see `revalidated`.
        if wanted.shareable && !asked.crawler {
            if let Some(flight) = self.cache.flights.lead(&mut wanted, &self.cache.store) {
                return Lookup::Collapsed(flight, wanted);
            }
        }
        Lookup::Fetch(self.leading(wanted))
    }

    /// The request asks for all who want the same, if it leads them.
    fn leading(self: &Arc<Self>, mut wanted: Box<CacheRequest>) -> Box<CacheRequest> {
        wanted.leading = wanted.flight.clone().map(|flight| FlightLead::new(self, Some(flight)));
        wanted
    }

    /// What is stored for a target and the request's nominated fields: of several the latest (RFC 9111 section 4).
    pub(super) fn find(&self, primary: Key, request: &HeaderMap) -> StoredTarget {
        let Some(kept) = self.cache.store.get(primary) else {
            return StoredTarget { key: primary, directory: None, stored: None };
        };
        match &*kept {
            Entry::Response(stored) => StoredTarget { key: primary, directory: None, stored: Some(stored.clone()) },
            Entry::Directory(Directory { nominations, .. }) => {
                let mut best: Option<(Key, Arc<Stored>)> = None;
                let mut first = None;
                for nominated in nominations {
                    let key = self.cache.keys.variant(primary, nominated, request);
                    first.get_or_insert(key);
                    if let Some(Entry::Response(stored)) = self.cache.store.get(key).as_deref() {
                        // Of one millisecond the one that was made later.
                        let made = |stored: &Stored| (stored.freshness.response_time, stored.version);
                        let newer = |best: &(Key, Arc<Stored>)| made(&best.1) < made(stored);
                        if best.as_ref().is_none_or(newer) {
                            best = Some((key, stored.clone()));
                        }
                    }
                }
                let (key, stored) = match best {
                    Some((key, stored)) => (key, Some(stored)),
                    None => (first.unwrap_or(primary), None),
                };
                StoredTarget { key, stored, directory: Some(kept) }
            }
            _ => StoredTarget { key: primary, directory: None, stored: None },
        }
    }

    /// The path and query without what the origin said does not matter. None: it said nothing.
    fn canonical(&self, scheme: &str, authority: &str, full: &str) -> Option<String> {
        let (path, _) = full.split_once('?')?;
        let said = self.searches.read();
        if said.is_empty() {
            return None;
        }
        let target = Target { scheme, authority, path };
        said.get(&target.url()).map(|said: &NoVarySearch| said.canonical(full))
    }

    /// The URL that responses for `url` are kept under, if that is another.
    pub fn kept_under(&self, url: &str) -> Option<String> {
        let origin = groups::origin(url);
        let (scheme, authority) = origin.split_once("://")?;
        let path = self.canonical(scheme, authority, &url[origin.len()..])?;
        Some(Target { scheme, authority, path: &path }.url()).filter(|kept| kept != url)
    }

    /// The rule that a request was looked up by.
    pub(super) fn rule_of(&self, wanted: &CacheRequest) -> Option<&Rule> {
        wanted.visitor.and_then(|_| self.rule(&wanted.path))
    }

    /// A stored response for a request that the origin can't answer.
    pub(super) fn stand_in(
        &self,
        wanted: &CacheRequest,
        head: &Parts,
        now: Millis,
        status: &mut CacheStatus,
    ) -> Option<Response<ResponseBody>> {
        // What was purged elsewhere is not known here.
        if !self.cache.may_show(now) {
            return None;
        }
        let stored = wanted.stored.as_ref().filter(|stored| reusing::may_stand_in(stored, &wanted.wishes, now))?;
        status.ttl = Some(reusing::ttl(stored, now));
        let answering = StoredAnswer { cache: &self.cache, key: wanted.key, stored, head, now };
        answer::stored(&answering)
    }
}

/// Whether Connection names a field of the request: an upstream does not get it (RFC 9110 section 7.6.1), and in the
/// key it would stand all the same.
fn takes_back(request: &HeaderMap) -> bool {
    const USUAL: [&[u8]; 6] = [b"keep-alive", b"close", b"te", b"upgrade", b"http2-settings", b"proxy-connection"];
    tokens(request, header::CONNECTION).any(|option| {
        !USUAL.iter().any(|usual| option.eq_ignore_ascii_case(usual))
            && HeaderName::from_bytes(option).is_ok_and(|name| request.contains_key(name))
    })
}

/// Requests that the cache has nothing to do with, or nothing to say to.
fn beside(head: &Parts, body: bool) -> Option<CacheStatus> {
    if ![Method::GET, Method::HEAD].contains(&head.method) {
        return Some(CacheStatus { reason: None, ..CacheStatus::forward(Forward::Method) });
    }
    if head.headers.contains_key(header::UPGRADE) {
        return Some(CacheStatus::bypass(Reason::Upgrade));
    }
    // What a GET brings along is in no key (RFC 9110 section 9.3.1).
    if body {
        return Some(CacheStatus::bypass(Reason::Method));
    }
    if takes_back(&head.headers) {
        return Some(CacheStatus { detail: Some("connection"), ..CacheStatus::forward(Forward::Bypass) });
    }
    // Preconditions that only the origin can evaluate (RFC 9111 section 4.3.2).
    let strict = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE].iter().any(|name| head.headers.contains_key(name));
    strict.then(|| CacheStatus::forward(Forward::Request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_guard::hop::keep_end_to_end;

    /// A page that the origin makes without a field must not be kept as the page for requests with it.
    #[test]
    fn what_connection_takes_from_the_origin_is_not_in_the_key() {
        for (connection, takes) in [
            ("close, cookie", true),
            ("Cookie", true),
            (r#"", cookie"#, true),
            (r#"a="1, cookie, 2""#, true),
            ("\u{fc}, cookie", true),
            ("keep-alive, x-absent", false),
            (r#""cookie""#, false),
        ] {
            let fields = [("connection", connection), ("cookie", "a=b")];
            let mut headers = HeaderMap::from_iter(fields.map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())));
            assert_eq!(takes_back(&headers), takes, "{connection}");
            keep_end_to_end(&mut headers);
            assert_eq!(!headers.contains_key("cookie"), takes, "{connection}");
        }
    }
}
