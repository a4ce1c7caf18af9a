//! Pages of a site that change at a known time: how what was prepared for that time comes into the place of the page
//! before. What is due is also put there by the first request that comes after the time, so that no timer has to be
//! punctual.
//! It never renders a page: `crate::scheduling` does.
//!
//! Reading order: `schedule` (which pages they are, and when), `prepared` (what was rendered for them), `record` (the same
//! as bytes), `shared` (of several fronts one renders a page).

mod prepared;
mod record;
mod schedule;
mod shared;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
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
    prepared::{Changes, Held, PreparedPage, RenderedPage, Unprepared},
    record::{PageRecord, FORMAT},
    schedule::{Schedule, ScheduledPage, MAX_TIMES},
    shared::{Preparation, PreparationLease, Preparer},
};
use super::{
    answer::dated,
    invalidation::target_of,
    lookup::{CacheRequest, StoredTarget},
    now,
    partition::ForAll,
    sessions::Visitor,
    Cache, SiteCache,
};
use crate::{content::body::ResponseBody, support::clock};

/// The fields of a request that are remembered: a page may vary by them, and they name nobody.
const SAMPLED: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];
/// Said by proxies, as far as the application sees it.
const BY_PROXIES: [&str; 4] = ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-ssl"];

/// A request for a page that changes, and that is for all who come by the same proxies.
pub(super) struct PageRequest<'a> {
    pub url: &'a Arc<str>,
    pub primary: Key,
    pub for_all: &'a ForAll,
    pub path: &'a str,
    pub headers: &'a HeaderMap,
}

/// When a page changes by itself, as far as the application has said it.
#[derive(Clone, Copy)]
pub(super) enum Announcement {
    /// With the answer to this request.
    Now(Option<Millis>),
    /// With the stored answer.
    Stored(Option<Millis>),
}

/// Whether a field of a request is remembered with its page, so that the copy of the application gets it, too.
pub(super) fn is_sampled(name: &HeaderName) -> bool {
    SAMPLED.contains(name) || BY_PROXIES.contains(&name.as_str())
}

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
    pub(super) fn holds_until(&self, wanted: &CacheRequest) -> Millis {
        // What is stored knows it also of pages that are one visitor's.
        let stored = wanted.stored.as_ref().map_or(Millis::MAX, |stored| stored.freshness.holds.until);
        if self.schedule.rules.is_empty() && self.schedule.pages.read().is_empty() {
            return stored;
        }
        let wall = clock::unix_millis();
        let known = self.schedule.pages.read().get(&wanted.primary).cloned();
        let next = match known {
            Some(page) => self.changes_after(&page, wall),
            None => self.schedule.next_by_rules(&wanted.path, wall),
        };
        next.unwrap_or(Millis::MAX).min(stored)
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
        // Another thread may have put the new page there since this one looked.
        let is_good = found.stored.as_ref().is_some_and(|stored| stored.freshness.holds.at(wall));
        let mut found = if due.is_empty() && is_good { found } else { self.find(primary, request) };
        found.stored = found.stored.filter(|stored| stored.freshness.holds.at(wall));
        found
    }

    /// A page that the automatic page cache has: what it promises to other caches ends when a rule says that it changes.
    pub fn end_with_rules(&self, path: &str, page: &mut Response<ResponseBody>) {
        if let Some(until) = self.schedule.next_by_rules(path, clock::unix_millis()) {
            page.extensions_mut().insert(HoldsUntil(until));
        }
    }

    /// A response has come: until when it holds. The announcement is taken out of it. `wall`: the time of day at which it
    /// was asked for.
    pub(super) fn told_of_changes(
        &self,
        wanted: &CacheRequest,
        head: &request::Parts,
        parts: &mut response::Parts,
        (at, wall): (ExchangeTimes, Millis),
    ) -> Holds {
        let announces = parts.headers.contains_key(CHANGES_AT);
        if !announces && self.schedule.rules.is_empty() && self.schedule.pages.read().is_empty() {
            return Holds::ALWAYS;
        }
        // What was asked for before a change may be from before it, also if the clock was set over the change meanwhile.
        let asked = at.date.saturating_sub(at.response_time.saturating_sub(at.request_time)).min(wall);
        let announced = announces.then(|| capping::announced(&parts.headers, asked)).flatten();
        parts.headers.remove(CHANGES_AT);
        if let Some(for_all) = wanted.for_all.as_ref().filter(|_| parts.status == StatusCode::OK && wanted.storable) {
            let (url, primary, path) = (&wanted.url, wanted.primary, &wanted.path);
            self.see(
                &PageRequest { url, primary, for_all, path, headers: &head.headers },
                Announcement::Now(announced),
            );
        }
        let by_rules = self.schedule.next_by_rules(&wanted.path, asked);
        let until = announced.into_iter().chain(by_rules).min().unwrap_or(Millis::MAX);
        // A page that is one visitor's may be of a time, and is not among those that are known.
        let changes = wanted.for_all.is_none()
            || self.schedule.covers(&wanted.path)
            || self.schedule.pages.read().contains_key(&wanted.primary);
        Holds { from: if changes { self.schedule.last_change(asked) } else { 0 }, until }
    }

    /// A page was asked for that changes.
    pub(super) fn see(&self, asked: &PageRequest, said: Announcement) {
        let known = self.schedule.pages.read().get(&asked.primary).cloned();
        let (Announcement::Now(announced) | Announcement::Stored(announced)) = said;
        if known.is_none() && announced.is_none() && !self.schedule.covers(asked.path) {
            return;
        }
        let mut is_new = known.is_none();
        let page = known.unwrap_or_else(|| self.schedule.meet(asked.url, asked.primary, &asked.for_all.by_proxies));
        page.requests.fetch_add(1, Relaxed);
        page.was_asked_by(asked.for_all.asker);
        page.remember(sampled(asked.headers, self.settings.recode), asked.for_all.asker);
        is_new |= match said {
            Announcement::Now(announced) => self.announce(&page, announced.unwrap_or(0), clock::unix_millis()),
            // It was restored from disk. Of a page that is known the application's last word counts.
            Announcement::Stored(Some(at)) if is_new && !self.schedule.changes_by_rule(asked.path, at) => {
                page.announced.store(at, Relaxed);
                true
            }
            Announcement::Stored(_) => false,
        };
        if is_new {
            self.cache.changes.is_met.store(true, Relaxed);
            self.cache.changes.wake();
        }
    }

    /// The application says that a page changes at a time; 0: at none. Returns whether it is another one than before.
    fn announce(&self, page: &ScheduledPage, at: Millis, wall: Millis) -> bool {
        let before = page.announced.swap(at, Relaxed);
        if before == at {
            return false;
        }
        if before <= wall {
            // That time has come.
            page.moves.store(0, Relaxed);
            return at != 0;
        }
        let moves = page.moves.fetch_add(1, Relaxed);
        // What is prepared for a time that was taken back is not what the application says now: the sale does not begin.
        if !self.schedule.changes_by_rule(page.path(), before) {
            self.drop_prepared(page, before);
            if let Some(plan) = self.schedule.plans.lock().get_mut(&before) {
                plan.pages.remove(&*page.url);
            }
        }
        moves < schedule::MAX_MOVES
    }

    /// Pages that rules name without a `*`: on each host, and by each kind of proxies, that pages were asked for on, also if
    /// nobody has asked for them.
    pub fn meet_plain_paths(&self) {
        let mut ways = BTreeMap::new();
        for page in self.schedule.pages.read().values() {
            let Some(sample) = page.sample(0) else { continue };
            let way = (groups::origin(&page.url).to_owned(), page.by_proxies.clone());
            let known: &mut ((usize, u64), HeaderMap) = ways.entry(way).or_insert_with(|| (page.rank(), sample));
            known.0 = known.0.max(page.rank());
        }
        // Anybody can ask for any host: those that most people ask for come first.
        let mut ways: Vec<_> = ways.into_iter().collect();
        ways.sort_by_key(|(_, (rank, _))| Reverse(*rank));
        for path in self.schedule.rules.iter().flat_map(|(rule, _)| rule.plain_paths()) {
            for ((origin, by_proxies), (_, sample)) in ways.iter().take(4) {
                self.restore(&format!("{origin}{path}"), by_proxies, sample.clone(), None);
            }
        }
    }

    /// A page by its URL, as a visitor without cookies asks for it. `by_proxies`: what proxies said of it.
    pub fn restore(
        &self,
        url: &str,
        by_proxies: &[u8],
        sample: HeaderMap,
        announced: Option<Millis>,
    ) -> Arc<ScheduledPage> {
        let url: Arc<str> = url.into();
        let target = target_of(&url);
        let path = target.path.split('?').next().unwrap_or("/");
        let mut partition = self.rule(path).map_or(Vec::new(), |_| Visitor(None).partition().to_vec());
        partition.extend(by_proxies);
        let page = self.schedule.meet(&url, self.cache.keys.primary(&target, &partition), by_proxies);
        page.remember(sample, 0);
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
        let is_known = |name: &HeaderName| is_sampled(name) || nominated.is_for_forms(name);
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

    /// The times for which something is prepared.
    pub fn prepared_times(&self) -> BTreeSet<Millis> {
        let all = self.cache.changes.prepared.read();
        all.values()
            .flatten()
            .filter(|prepared| std::ptr::eq(&*prepared.site, self))
            .map(|prepared| prepared.at)
            .collect()
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
        self.schedule.note_change(at);
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

    /// Drops one page that is not to be shown as it is prepared. The file has to follow.
    pub fn drop_prepared(&self, page: &ScheduledPage, at: Millis) {
        if self.cache.changes.retain(|prepared| prepared.at != at || prepared.page.primary != page.primary) {
            self.cache.changes.is_dropped.store(true, Relaxed);
        }
    }
}

/// `recode`: the page is stored without a coding, so it does not matter which one a client takes.
fn sampled(request: &HeaderMap, recode: bool) -> HeaderMap {
    let is_kept = |name: &HeaderName| is_sampled(name) && !(recode && *name == header::ACCEPT_ENCODING);
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
        caching::{exchanged, Lookup, Purge, Settings},
        observe::log::{Log, LogConfig},
        request::exchange::{identity::User, Connection, Exchange},
    };
    use ::scheduled::rule::Rule;
    use cache::{
        status::Reason,
        store::How,
        stored::{Content, Stored},
    };
    use sign_in::{Identity, Limits, Mechanism, NewSession, Session};

    /// Of a test whose pages change around the time at which it runs.
    pub(super) fn site(at: &str) -> Arc<SiteCache> {
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

    pub(super) fn headers(fields: &[(&str, &'static str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        HeaderMap::from_iter(fields)
    }

    pub(super) fn rendered(fields: &[(&str, &'static str)]) -> RenderedPage {
        RenderedPage { status: StatusCode::OK, headers: headers(fields), body: "new".into() }
    }

    pub(super) const FRESH: (&str, &str) = ("cache-control", "max-age=60");

    fn prepare(
        site: &Arc<SiteCache>,
        url: &str,
        at: Millis,
        fields: &[(&str, &'static str)],
    ) -> Result<(), Unprepared> {
        let page = site.restore(url, &[], HeaderMap::new(), Some(at));
        let prepared = site.prepared(&page, HeaderMap::new(), rendered(fields), at, site.cache.store.moment())?;
        assert_eq!(site.cache.changes.hold(prepared), Held::Kept);
        Ok(())
    }

    fn request(path: &str, fields: &[(&str, &'static str)]) -> (request::Parts, Exchange) {
        let (mut head, ()) = Request::builder().uri(path).header("host", "shop.test").body(()).unwrap().into_parts();
        head.headers.extend(headers(fields));
        let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
        (head, Exchange::begin(Arc::new(connection), None, None, None))
    }

    /// The page that a request gets; None: the application is asked.
    pub(super) fn given(site: &Arc<SiteCache>, path: &str) -> Option<Response<ResponseBody>> {
        given_to(site, &request(path, &[]))
    }

    fn given_to(
        site: &Arc<SiteCache>,
        (head, exchange): &(request::Parts, Exchange),
    ) -> Option<Response<ResponseBody>> {
        match site.look(head, false, exchange) {
            Lookup::Hit(response) => Some(response),
            _ => None,
        }
    }

    /// The application answers a request so.
    fn answer(
        site: &Arc<SiteCache>,
        (head, exchange): &(request::Parts, Exchange),
        fields: &[(&str, &'static str)],
    ) -> Holds {
        let Lookup::Fetch(wanted) = site.look(head, false, exchange) else { panic!("it is not asked") };
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.headers = headers(fields);
        site.told_of_changes(&wanted, head, &mut parts, (exchanged(now()), clock::unix_millis()))
    }

    fn alice() -> User {
        let identity = Identity { name: "alice".into(), groups: Vec::new(), subject: None, sid: None };
        let (provider, proved_until, refresh_token, id_token) = (None, None, None, None);
        let mechanism = Mechanism::Kerberos;
        let proof = NewSession { identity, mechanism, provider, proved_until, refresh_token, id_token };
        User::new(Arc::new(Session::new(proof, &Limits::DEFAULT, 0)), None)
    }

    /// The copy of the application would render it as for nobody, and its key is somebody's.
    #[test]
    fn a_page_of_somebody_who_has_signed_in_is_not_prepared() {
        let known = |fields: &[(&str, &'static str)], proxied: bool, user: Option<User>| {
            let site = site("2036-01-01 00:00 UTC");
            let mut asked = request("/sales/1", fields);
            asked.1.user = user;
            asked.1.client.proxied = proxied;
            let holds = answer(&site, &asked, &[FRESH]);
            assert_ne!(holds.until, Millis::MAX, "it changes for everybody");
            let known = site.schedule.pages.read().len();
            known
        };
        assert_eq!(known(&[], false, None), 1);
        assert_eq!(known(&[], false, Some(alice())), 0);
        assert_eq!(known(&[("x-forwarded-user", "alice")], true, None), 0, "a proxy has signed them in");
        assert_eq!(known(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https")], true, None), 1);
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

    /// It was asked for before the time, and comes after it.
    #[test]
    fn a_slow_answer_does_not_take_the_place_of_what_was_prepared() {
        let site = site("2036-01-01 00:00 UTC");
        let now = clock::unix_millis();
        let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
        prepare(&site, "http://shop.test/sales/1", now - 5_000, &[FRESH]).unwrap();
        assert!(given(&site, "/sales/1").is_some());
        let (head, parts) = (request_parts(&page, &HeaderMap::new()), response_parts(&rendered(&[FRESH])));
        let at = exchanged(super::now());
        for (until, stored) in [(now - 5_000, Err(Reason::Outdated)), (now + 60_000, Ok(()))] {
            let mut storable = storable(&head, &parts, at, 0).unwrap();
            storable.freshness.holds = Holds::until(until);
            let content = Content::Whole("old".into());
            let slow = Arc::new(Stored::new(page.url.clone(), StatusCode::OK, storable, content, &[]));
            let moment = site.cache.store.moment();
            assert_eq!(site.place((page.primary, false), None, &HeaderMap::new(), slow, moment).1, stored);
            assert!(given(&site, "/sales/1").is_some(), "one of them answers");
        }
    }

    #[test]
    fn what_is_given_follows_the_clock_in_both_directions() {
        let site = site("2036-01-01 00:00 UTC");
        let now = clock::unix_millis();
        let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
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
        let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), Some(at));
        let moment = site.cache.store.moment();
        let ready = |moment| site.prepared(&page, HeaderMap::new(), rendered(&[FRESH]), at, moment).unwrap();
        site.cache.purge(&Purge::Url("http://shop.test/sales/2".into()), How::Drop);
        assert_eq!(site.cache.changes.hold(ready(moment)), Held::Kept, "of another page");
        let held = site.prepared_at(at).remove(0);
        site.cache.purge(&Purge::Url("http://shop.test/sales/1".into()), How::Drop);
        assert!(site.cache.changes.take_purged());
        // Another thread has found it just before the purge.
        held.place(clock::unix_millis());
        assert!(given(&site, "/sales/1").is_none());
        assert_eq!(site.cache.changes.hold(ready(moment)), Held::Purged);
        assert!(site.cache.changes.take_purged(), "it is to be prepared again");
        assert_eq!(site.cache.changes.hold(ready(site.cache.store.moment())), Held::Kept);
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

    /// After kill -9 they are found by the key that the next request has.
    #[test]
    fn a_page_that_is_asked_for_behind_a_proxy_is_known_by_what_it_says() {
        let site = site("2036-01-01 00:00 UTC");
        let mut asked = request("/sales/1", &[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-port", "443")]);
        asked.1.client.proxied = true;
        answer(&site, &asked, &[FRESH]);
        let seen = site.schedule.pages.read().values().next().cloned().unwrap();
        assert_eq!(seen.samples(), [headers(&[("x-forwarded-port", "443")])]);
        let again = site.restore(&seen.url, &seen.by_proxies, HeaderMap::new(), None);
        assert!(Arc::ptr_eq(&seen, &again));
        site.meet_plain_paths();
        asked.0.uri = "/".parse().unwrap();
        let keys: Vec<Key> = site.schedule.pages.read().values().map(|page| page.primary).collect();
        let Lookup::Fetch(wanted) = site.look(&asked.0, false, &asked.1) else { panic!("it is not asked") };
        assert!(keys.contains(&wanted.primary), "the page of a rule without a star");
    }

    #[test]
    fn what_the_automatic_cache_gives_ends_with_a_rule_s_time() {
        let site = site("2036-01-01 00:00 UTC");
        for (path, ends) in [("/sales/1", true), ("/beers/1", false)] {
            let mut page = Response::new(ResponseBody::Empty);
            page.headers_mut().insert(header::EXPIRES, HeaderValue::from_static("Thu, 01 Jan 2037 00:00:00 GMT"));
            site.end_with_rules(path, &mut page);
            site.tell(path, &mut page);
            assert_eq!(page.headers()["expires"] == "Tue, 01 Jan 2036 00:00:00 GMT", ends, "{path}");
        }
    }

    /// An editor moves a sale, or calls it off, after its page was prepared.
    #[test]
    fn a_sale_that_is_moved_does_not_begin_at_its_old_time() {
        let now = clock::unix_millis();
        let (at, later) = (now + 3_600_000, now + 7_200_000);
        for (said, stays) in [(Some(at), 1), (Some(later), 0), (None, 0)] {
            let site = site("2036-01-01 00:00 UTC");
            prepare(&site, "http://shop.test/beers/1", at, &[FRESH]).unwrap();
            let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
            let (url, primary, path, headers) = (&page.url, page.primary, page.path(), &HeaderMap::new());
            site.see(
                &PageRequest { url, primary, for_all: &ForAll::default(), path, headers },
                Announcement::Stored(Some(now + 5)),
            );
            assert_eq!(site.prepared_at(at).len(), 1, "what is stored may be older than what is prepared");
            site.see(
                &PageRequest { url, primary, for_all: &ForAll::default(), path, headers },
                Announcement::Now(said),
            );
            assert_eq!(site.prepared_at(at).len(), stays, "{said:?}");
            assert_eq!(site.cache.changes.take_dropped(), stays == 0, "the file follows");
            assert_eq!(site.schedule.times(now).contains_key(&at), stays == 1);
        }
    }

    #[test]
    fn the_time_of_a_rule_stays_where_the_application_says_another() {
        let site = site("2036-01-01 00:00 UTC");
        let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
        prepare(&site, "http://shop.test/sales/1", at, &[FRESH]).unwrap();
        let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
        assert!(site.announce(&page, 0, 1));
        assert_eq!(site.prepared_at(at).len(), 1);
    }

    #[test]
    fn what_was_asked_for_before_the_clock_was_set_over_a_time_does_not_hold_after_it() {
        let site = site("2036-01-01 00:00 UTC");
        let (head, exchange) = request("/sales/1", &[]);
        let Lookup::Fetch(wanted) = site.look(&head, false, &exchange) else { panic!("it is not asked") };
        let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
        let times = ExchangeTimes { date: at + 5, ..exchanged(now()) };
        let until = |wall| {
            let (mut parts, ()) = Response::new(()).into_parts();
            site.told_of_changes(&wanted, &head, &mut parts, (times, wall)).until
        };
        assert_eq!((until(at - 300_000), until(at + 5)), (at, Millis::MAX));
    }

    /// As an action does that says `Paceline.changes_at(1.minute.from_now)`.
    #[test]
    fn a_page_that_says_another_time_with_each_request_is_prepared_for_a_few() {
        let site = site("2036-01-01 00:00 UTC");
        let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
        let planned = |number: Millis| {
            site.announce(&page, 1_000 + number, 1);
            site.schedule.times(1).contains_key(&(1_000 + number))
        };
        assert_eq!((1..100).filter(|number| planned(*number)).count(), 9);
        assert!(site.announce(&page, 5_000, 2_000), "the time that was said has come");
        assert!(site.schedule.times(2_000).contains_key(&5_000));
    }

    #[test]
    fn only_the_nearest_times_are_prepared_for() {
        let site = site("2036-01-01 00:00 UTC");
        for number in 1..=200 {
            site.restore(&format!("http://shop.test/beers/{number}"), &[], HeaderMap::new(), Some(1_000 + number));
        }
        let times: Vec<Millis> = site.schedule.times(1_010).into_keys().take(65).collect();
        assert_eq!((times[0], times[63]), (1_011, 1_074));
        assert!(times[64] > 2_000, "that of the rule");
    }

    #[test]
    fn what_is_prepared_takes_no_more_memory_than_the_cache_may() {
        let site = site("2036-01-01 00:00 UTC");
        let at = clock::unix_millis() + 3_600_000;
        let ready = |number: u32| {
            let page = site.restore(&format!("http://shop.test/sales/{number}"), &[], HeaderMap::new(), None);
            let rendered = RenderedPage { body: vec![b'x'; 1 << 20].into(), ..rendered(&[FRESH]) };
            site.prepared(&page, HeaderMap::new(), rendered, at, site.cache.store.moment()).unwrap()
        };
        // The cache has 4 MB.
        let held: Vec<Held> = (1..=5).map(|number| site.cache.changes.hold(ready(number))).collect();
        assert_eq!(held[..3], [Held::Kept; 3]);
        assert_eq!(held[4], Held::Full);
        assert_eq!(site.cache.changes.hold(ready(1)), Held::Kept, "in the place of the one before");
        site.forget(at);
        assert_eq!(site.cache.changes.hold(ready(9)), Held::Kept);
    }

    /// Somebody of this network asks.
    fn ask_from(site: &SiteCache, asker: u64, url: &str, language: Option<&'static str>) {
        let page = site.restore(url, &[], HeaderMap::new(), None);
        let headers = HeaderMap::from_iter(language.map(|own| (header::ACCEPT_LANGUAGE, own.parse().unwrap())));
        let (url, primary, path) = (&page.url, page.primary, page.path());
        let for_all = &ForAll { asker, ..ForAll::default() };
        site.see(&PageRequest { url, primary, for_all, path, headers: &headers }, Announcement::Now(None));
    }

    #[test]
    fn pages_that_many_ask_for_stay_known() {
        let site = site("2036-01-01 00:00 UTC");
        (0..3).for_each(|asker| ask_from(&site, asker, "http://shop.test/", None));
        // One network asks for more than there is room for, and often.
        for _ in 0..5 {
            (0..MAX_PAGES + 10)
                .for_each(|number| ask_from(&site, 9, &format!("http://shop.test/sales/{number}"), None));
        }
        let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
        let pages = site.schedule.pages_at(at);
        assert!(pages.len() <= MAX_PAGES, "{}", pages.len());
        assert_eq!(pages[0].target(), "/");
    }

    #[test]
    fn foreign_hosts_and_odd_requests_take_nobodys_place() {
        let site = site("2036-01-01 00:00 UTC");
        for asker in 1..4 {
            ask_from(&site, asker, "http://shop.test/sales/1", Some("de"));
        }
        for number in 0..100 {
            ask_from(&site, 9, &format!("http://a{number}.evil.test/sales/1"), None);
            let language: &'static str = format!("x-{number}").leak();
            ask_from(&site, 9, "http://shop.test/sales/1", Some(language));
        }
        site.meet_plain_paths();
        let known: Vec<_> = site.schedule.pages.read().values().map(|page| page.url.to_string()).collect();
        assert!(known.contains(&"http://shop.test/".to_owned()), "the page of a rule without a star");
        let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
        assert_eq!(page.samples()[0].get(header::ACCEPT_LANGUAGE).unwrap(), "de");
        // Another language that people have is found a place for.
        (5..7).for_each(|asker| ask_from(&site, asker, "http://shop.test/sales/1", Some("fr")));
        assert_eq!(page.samples()[1].get(header::ACCEPT_LANGUAGE).unwrap(), "fr");
    }
}
