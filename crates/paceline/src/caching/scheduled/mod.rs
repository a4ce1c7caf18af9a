//! Pages of a site that change at a known time: how what was prepared for that time comes into the place of the page
//! before. What is due is also put there by the first request that comes after the time, so that no timer has to be
//! punctual.
//! It never renders a page: `crate::scheduling` does.
//!
//! Reading order: `schedule` (which pages they are, and when), `prepared` (what was rendered for them).

mod prepared;
mod schedule;

use std::{
    collections::BTreeSet,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use cache::{
    freshness::{ExchangeTimes, Holds},
    groups,
    store::{Key, Moment},
    storing::storable,
    Millis,
};
use http::{header, request, response, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use parking_lot::Mutex;
use scheduled::{capping, CHANGES_AT};

pub use self::{
    prepared::{Changes, PreparedPage, RenderedPage, Unprepared},
    schedule::{Schedule, ScheduledPage},
};
use super::{
    answer::dated,
    invalidation::target_of,
    lookup::{CacheRequest, StoredTarget},
    now,
    sessions::Visitor,
    Cache, SiteCache,
};
use crate::{content::body::ResponseBody, support::clock};

/// The fields of a request that are remembered: a page may vary by them, and they name nobody.
const SAMPLED: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];
/// Said by proxies, as far as the application sees it.
const BY_PROXIES: [&str; 4] = ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-ssl"];

/// Goes with a response until it is told (`SiteCache::tell`).
#[derive(Clone, Copy)]
pub struct HoldsUntil(pub Millis);

/// Ends what a response promises to other caches when its page changes.
pub fn bound(response: &mut Response<ResponseBody>) {
    if let Some(HoldsUntil(until)) = response.extensions_mut().remove::<HoldsUntil>() {
        let age = response.headers().get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok());
        capping::cap(response.headers_mut(), age.unwrap_or(0), until, clock::unix_millis());
    }
}

/// Takes the announcement out of a response that no cache sees, and obeys it.
pub fn bound_unseen(response: &mut Response<ResponseBody>) {
    if response.headers().contains_key(CHANGES_AT) {
        let until = capping::announced(response.headers(), clock::unix_millis());
        response.headers_mut().remove(CHANGES_AT);
        if let Some(until) = until {
            response.extensions_mut().insert(HoldsUntil(until));
            bound(response);
        }
    }
}

impl Cache {
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Take it before a page is rendered: what is purged after it counts.
    pub fn moment(&self) -> Moment {
        self.store.moment()
    }
}

impl SiteCache {
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// When this page changes next after `wall`, as far as it is known.
    fn changes_after(&self, page: &ScheduledPage, wall: Millis) -> Option<Millis> {
        let announced = Some(page.announced.load(Relaxed)).filter(|at| *at > wall);
        announced.into_iter().chain(self.schedule.next_by_rules(page.path(), wall)).min()
    }

    /// Until when an answer holds that is asked for now.
    pub(super) fn holds_until(&self, primary: Key, path: &str) -> Millis {
        if self.schedule.rules.is_empty() && self.schedule.pages.read().is_empty() {
            return Millis::MAX;
        }
        let wall = clock::unix_millis();
        let known = self.schedule.pages.read().get(&primary).cloned();
        match known {
            Some(page) => self.changes_after(&page, wall),
            None => self.schedule.next_by_rules(path, wall),
        }
        .unwrap_or(Millis::MAX)
    }

    /// What is stored for a request, without what does not hold now, and with what was prepared for this time.
    pub(super) fn holding(&self, found: StoredTarget, primary: Key, request: &HeaderMap) -> StoredTarget {
        let is_bounded =
            |found: &StoredTarget| found.stored.as_ref().is_some_and(|stored| stored.freshness.holds.is_bounded());
        if self.cache.changes.count.load(Relaxed) == 0 && !is_bounded(&found) {
            return found;
        }
        let wall = clock::unix_millis();
        let due = self.cache.changes.due(primary, wall);
        due.iter().for_each(|prepared| prepared.place(wall));
        let mut found = if due.is_empty() { found } else { self.find(primary, request) };
        found.stored = found.stored.filter(|stored| stored.freshness.holds.at(wall));
        found
    }

    /// A response has come: until when it holds. The announcement is taken out of it.
    pub(super) fn told_of_changes(
        &self,
        wanted: &CacheRequest,
        head: &request::Parts,
        parts: &mut response::Parts,
        at: ExchangeTimes,
    ) -> Holds {
        let announces = parts.headers.contains_key(CHANGES_AT);
        if !announces && self.schedule.rules.is_empty() {
            return Holds::ALWAYS;
        }
        // What was asked for before a change may be from before it.
        let asked = at.date.saturating_sub(at.response_time.saturating_sub(at.request_time));
        let announced = announces.then(|| capping::announced(&parts.headers, asked)).flatten();
        parts.headers.remove(CHANGES_AT);
        if parts.status == StatusCode::OK
            && wanted.storable
            && wanted.visitor.is_none_or(|visitor| visitor.tag().is_none())
        {
            self.see(&wanted.url, wanted.primary, &wanted.path, &head.headers, announced);
        }
        let by_rules = self.schedule.next_by_rules(&wanted.path, asked);
        announced.into_iter().chain(by_rules).min().map_or(Holds::ALWAYS, Holds::until)
    }

    /// A page was asked for that changes.
    pub(super) fn see(&self, url: &Arc<str>, primary: Key, path: &str, request: &HeaderMap, announced: Option<Millis>) {
        if announced.is_none() && !self.schedule.covers(path) {
            return;
        }
        let known = self.schedule.pages.read().get(&primary).cloned();
        let mut is_new = known.is_none();
        let page = known.unwrap_or_else(|| self.schedule.meet(url, primary));
        page.requests.fetch_add(1, Relaxed);
        page.remember(sampled(request, self.settings.recode));
        if let Some(at) = announced {
            is_new |= page.announced.swap(at, Relaxed) != at;
        }
        if is_new {
            self.cache.changes.is_met.store(true, Relaxed);
            self.cache.changes.wake();
        }
    }

    /// Pages that rules name without a `*`: on each host that pages were asked for on, also if nobody has asked for them.
    pub fn meet_plain_paths(&self) {
        let origins: BTreeSet<String> = {
            let pages = self.schedule.pages.read();
            pages.values().map(|page| groups::origin(&page.url).to_owned()).take(64).collect()
        };
        let sample = self.schedule.pages.read().values().find_map(|page| page.samples().into_iter().next());
        for path in self.schedule.rules.iter().flat_map(|(rule, _)| rule.plain_paths()) {
            for origin in origins.iter().take(4) {
                self.restore(&format!("{origin}{path}"), sample.clone().unwrap_or_default(), None);
            }
        }
    }

    /// A page by its URL, as a visitor without cookies asks for it.
    pub fn restore(&self, url: &str, sample: HeaderMap, announced: Option<Millis>) -> Arc<ScheduledPage> {
        let url: Arc<str> = url.into();
        let target = target_of(&url);
        let path = target.path.split('?').next().unwrap_or("/");
        let anonymous = self.rule(path).map_or(Vec::new(), |_| Visitor(None).partition().to_vec());
        let page = self.schedule.meet(&url, self.cache.keys.primary(&target, &anonymous));
        page.remember(sample);
        if let Some(at) = announced {
            page.announced.store(at, Relaxed);
        }
        page
    }

    /// What was rendered for a page, as it will be stored at the time. `moment`: of the store, before it was rendered.
    ///
    /// # Errors
    /// It can't be: the page depends on the visitor, or may not be stored.
    pub fn prepared(
        self: &Arc<Self>,
        page: &Arc<ScheduledPage>,
        request: HeaderMap,
        rendered: RenderedPage,
        at: Millis,
        moment: Moment,
    ) -> Result<PreparedPage, Unprepared> {
        if !(200..400).contains(&rendered.status.as_u16()) || matches!(rendered.status.as_u16(), 206 | 304) {
            return Err(Unprepared::Status(rendered.status.as_u16()));
        }
        if rendered.body.len() as u64 > self.settings.object {
            return Err(Unprepared::Size);
        }
        let head = request_parts(page, &request);
        let parts = response_parts(&rendered);
        let times = ExchangeTimes { request_time: now(), response_time: now(), date: at };
        let decided = match self.rule(page.path()) {
            Some(rule) => rule.storable(&head, &parts, times, &self.learned()),
            None => storable(&head, &parts, times, self.settings.stale_if_error),
        };
        let mut storable = decided.map_err(Unprepared::NotStored)?;
        let nominated = &storable.nominated;
        let is_known = |name: &HeaderName| {
            SAMPLED.contains(name) || BY_PROXIES.contains(&name.as_str()) || nominated.is_for_forms(name)
        };
        if let Some(other) = nominated.names().iter().find(|name| !is_known(name)) {
            return Err(Unprepared::Varies(other.to_string()));
        }
        dated(&mut storable.headers, at);
        let tags = groups::tags(&storable.headers, groups::origin(&page.url));
        let (site, page) = (self.clone(), page.clone());
        Ok(PreparedPage { at, page, request, rendered, site, storable, tags, moment, placed: Mutex::new(false) })
    }

    /// Whether answers differ by fields of the request that this site's samples differ in.
    pub fn varies(prepared: &PreparedPage) -> bool {
        prepared.storable.nominated.names().iter().any(|name| *name != header::ACCEPT_ENCODING)
            || !prepared.site.settings.recode && !prepared.storable.nominated.is_empty()
    }

    /// The pages of this site that are prepared for a time.
    pub fn prepared_at(&self, at: Millis) -> Vec<Arc<PreparedPage>> {
        let all = self.cache.changes.prepared.read();
        all.values()
            .flatten()
            .filter(|prepared| prepared.at == at && std::ptr::eq(&*prepared.site, self))
            .cloned()
            .collect()
    }

    /// The time has come: what is prepared is in its place when this returns, and of the other pages nothing is left.
    /// Returns how many are in their place.
    pub fn swap(&self, at: Millis, wall: Millis) -> usize {
        let prepared = self.prepared_at(at);
        prepared.iter().for_each(|prepared| prepared.place(wall));
        let is_prepared: BTreeSet<&str> = prepared.iter().map(|prepared| &*prepared.page.url).collect();
        for page in self.schedule.pages_at(at).iter().filter(|page| !is_prepared.contains(&*page.url)) {
            // It gives nothing from before in any case; this makes room.
            self.cache.take(page.primary, false);
        }
        prepared.len()
    }

    /// The clock was set back before the time: what is in its place does not hold yet, and has to come again.
    pub fn undo(&self, at: Millis) {
        self.prepared_at(at).iter().for_each(|prepared| *prepared.placed.lock() = false);
    }

    /// Forgets what was prepared for a time.
    pub fn forget(&self, at: Millis) {
        self.cache.changes.retain(|prepared| prepared.at != at || !std::ptr::eq(&*prepared.site, self));
        self.schedule.plans.lock().remove(&at);
    }

    /// Drops one page that could not be prepared again.
    pub fn drop_prepared(&self, page: &ScheduledPage, at: Millis) {
        self.cache.changes.retain(|prepared| prepared.at != at || prepared.page.primary != page.primary);
    }
}

/// `recode`: the page is stored without a coding, so it does not matter which one a client takes.
fn sampled(request: &HeaderMap, recode: bool) -> HeaderMap {
    let is_kept = |name: &HeaderName| {
        SAMPLED.contains(name) && !(recode && *name == header::ACCEPT_ENCODING) || BY_PROXIES.contains(&name.as_str())
    };
    request.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn request_parts(page: &ScheduledPage, request: &HeaderMap) -> request::Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.uri = page.target().parse().unwrap_or_default();
    parts.headers = request.clone();
    if let Ok(host) = HeaderValue::try_from(page.origin().1) {
        parts.headers.insert(header::HOST, host);
    }
    parts
}

fn response_parts(rendered: &RenderedPage) -> response::Parts {
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = rendered.status;
    parts.headers = rendered.headers.clone();
    parts.headers.remove(CHANGES_AT);
    parts
}

#[cfg(test)]
mod tests {
    use super::{schedule::MAX_PAGES, *};
    use crate::{
        caching::{Lookup, Purge, Settings},
        observe::log::{Log, LogConfig},
        request::exchange::{Connection, Exchange},
    };
    use ::scheduled::rule::Rule;
    use cache::store::How;

    /// Of a test whose pages change around the time at which it runs.
    fn site(at: &str) -> Arc<SiteCache> {
        let rule = Rule::new(vec!["/sales/*".into(), "/".into()], at, 600_000).unwrap();
        let settings = Settings {
            object: 1 << 20,
            stale_if_error: 0,
            crawlers_stale: 0,
            obey_requests: true,
            recode: true,
            rules: Vec::new(),
            scheduled: vec![rule],
        };
        let log = Log::open(&LogConfig::nowhere()).unwrap();
        Arc::new(SiteCache::new(Arc::new(Cache::new(4 << 20)), settings, "shop", log))
    }

    fn headers(fields: &[(&str, &'static str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        HeaderMap::from_iter(fields)
    }

    fn rendered(fields: &[(&str, &'static str)]) -> RenderedPage {
        RenderedPage { status: StatusCode::OK, headers: headers(fields), body: "new".into() }
    }

    const FRESH: (&str, &str) = ("cache-control", "max-age=60");

    fn prepare(
        site: &Arc<SiteCache>,
        url: &str,
        at: Millis,
        fields: &[(&str, &'static str)],
    ) -> Result<(), Unprepared> {
        let page = site.restore(url, HeaderMap::new(), Some(at));
        let prepared = site.prepared(&page, HeaderMap::new(), rendered(fields), at, site.cache.store.moment())?;
        assert!(site.cache.changes.hold(prepared));
        Ok(())
    }

    /// The page that a request gets; None: the application is asked.
    fn given(site: &Arc<SiteCache>, path: &str) -> Option<Response<ResponseBody>> {
        let request = Request::builder().uri(path).header("host", "shop.test").body(()).unwrap();
        let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
        let exchange = Exchange::begin(Arc::new(connection), None, None, None);
        match site.look(&request.into_parts().0, false, &exchange) {
            Lookup::Hit(response) => Some(response),
            _ => None,
        }
    }

    #[test]
    fn a_prepared_page_is_given_from_its_time_on() {
        let site = site("2036-01-01 00:00 UTC");
        let now = clock::unix_millis();
        prepare(&site, "http://shop.test/sales/1", now - 5_000, &[FRESH]).unwrap();
        prepare(&site, "http://shop.test/sales/2", now + 3_600_000, &[FRESH]).unwrap();
        let given_now = given(&site, "/sales/1").expect("its time has come");
        assert_eq!(given_now.headers()["age"], "5", "as old as if it had been asked for then");
        assert!(given(&site, "/sales/2").is_none(), "nothing is given early");
    }

    #[test]
    fn what_is_given_follows_the_clock_in_both_directions() {
        let site = site("2036-01-01 00:00 UTC");
        let now = clock::unix_millis();
        let page = site.restore("http://shop.test/sales/1", HeaderMap::new(), None);
        prepare(&site, "http://shop.test/sales/1", now, &[FRESH]).unwrap();
        let due = |wall| site.cache.changes.due(page.primary, wall).len();
        assert_eq!((due(now - 1), due(now)), (0, 1));
        assert_eq!(site.swap(now, now), 1);
        assert_eq!((due(now), due(now + 1)), (0, 0), "it is in its place");
        assert_eq!((due(now - 1), due(now)), (0, 1), "the clock was set back, and comes to the time again");
    }

    #[test]
    fn a_purge_drops_what_is_prepared() {
        for (what, stays) in [
            (Purge::Url("http://shop.test/sales/1".into()), vec!["http://shop.test/"]),
            (Purge::Prefix("http://shop.test/sales/".into()), vec!["http://shop.test/"]),
            (Purge::Tag("http://shop.test sale-1".into()), vec!["http://shop.test/", "http://shop.test/sales/1"]),
            (Purge::All, vec![]),
        ] {
            let site = site("2036-01-01 00:00 UTC");
            let at = clock::unix_millis() + 3_600_000;
            prepare(&site, "http://shop.test/sales/1", at, &[FRESH]).unwrap();
            prepare(&site, "http://shop.test/", at, &[FRESH]).unwrap();
            site.cache.purge(&what, How::Drop);
            let mut names: Vec<String> = site.prepared_at(at).iter().map(|prepared| prepared.name()).collect();
            names.sort();
            assert_eq!(names, stays, "{what:?}");
            assert_eq!(site.cache.changes.take_purged(), stays.len() < 2);
        }
    }

    #[test]
    fn a_page_that_is_purged_while_it_is_rendered_is_not_held() {
        let site = site("2036-01-01 00:00 UTC");
        let at = clock::unix_millis() - 5_000;
        let page = site.restore("http://shop.test/sales/1", HeaderMap::new(), Some(at));
        let moment = site.cache.store.moment();
        let ready = |moment| site.prepared(&page, HeaderMap::new(), rendered(&[FRESH]), at, moment).unwrap();
        site.cache.purge(&Purge::Url("http://shop.test/sales/2".into()), How::Drop);
        assert!(site.cache.changes.hold(ready(moment)), "of another page");
        let held = site.prepared_at(at).remove(0);
        site.cache.purge(&Purge::Url("http://shop.test/sales/1".into()), How::Drop);
        assert!(site.cache.changes.take_purged());
        // Another thread has found it just before the purge.
        held.place(clock::unix_millis());
        assert!(given(&site, "/sales/1").is_none());
        assert!(!site.cache.changes.hold(ready(moment)));
        assert!(site.cache.changes.take_purged(), "it is to be prepared again");
        assert!(site.cache.changes.hold(ready(site.cache.store.moment())));
    }

    #[test]
    fn what_depends_on_who_asks_is_not_prepared() {
        let site = site("2036-01-01 00:00 UTC");
        let prepare = |fields: &[(&str, &'static str)]| {
            prepare(&site, "http://shop.test/", 1, fields).map_err(|why| why.to_string())
        };
        assert_eq!(prepare(&[FRESH, ("vary", "Accept-Language, Accept-Encoding")]), Ok(()));
        assert_eq!(prepare(&[FRESH, ("vary", "Sec-Fetch-Site")]), Ok(()), "as Rails 8.2 says of all pages");
        for (fields, told) in [
            (&[("cache-control", "private, max-age=60")][..], "the response can't be stored: private"),
            (&[FRESH, ("vary", "Cookie")], "it varies by cookie"),
            (&[FRESH, ("vary", "User-Agent")], "it varies by user-agent"),
            (&[FRESH, ("vary", "Sec-Fetch-Dest, Sec-Fetch-Site")], "it varies by sec-fetch-dest"),
            (&[FRESH, ("set-cookie", "_session=1; HttpOnly")], "the response can't be stored: "),
            (&[], "the response can't be stored: "),
        ] {
            assert!(prepare(fields).unwrap_err().starts_with(told), "{fields:?}: {:?}", prepare(fields));
        }
    }

    #[test]
    fn pages_that_many_ask_for_stay_known() {
        let site = site("2036-01-01 00:00 UTC");
        let see = |path: &str| {
            let page = site.restore(&format!("http://shop.test{path}"), HeaderMap::new(), None);
            site.see(&page.url, page.primary, page.path(), &HeaderMap::new(), None);
        };
        (0..3).for_each(|_| see("/"));
        (0..MAX_PAGES + 10).for_each(|number| see(&format!("/sales/{number}")));
        let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
        let pages = site.schedule.pages_at(at);
        assert!(pages.len() <= MAX_PAGES, "{}", pages.len());
        assert_eq!(pages[0].target(), "/");
    }
}
