//! Pages of a site that change at a known time: which they are and when, what was prepared for that time, and how it
//! comes into the place of the page before. What is due is also put there by the first request that comes after the
//! time, so that no timer has to be punctual.
//! It never renders a page: `crate::scheduling` does.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc,
    },
};

use bytes::Bytes;
use cache::{
    freshness::{ExchangeTimes, Holds},
    groups,
    status::Reason,
    store::Key,
    stored::Entry,
    storing::{storable, Storable},
    Millis,
};
use http::{header, request, response, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use parking_lot::{Mutex, RwLock};
use scheduled::{
    capping,
    plan::Plan,
    rule::{self, Rule},
    CHANGES_AT,
};

use super::{
    answer::dated,
    keeping::{Kin, StoreTask},
    lookup::{CacheRequest, StoredTarget},
    now, Cache, Purge, SiteCache,
};
use crate::{
    content::body::ResponseBody,
    support::{clock, wall_timer::Wake},
};

/// Pages of a site that are known, at most; of those that are asked for least, half are forgotten then.
const MAX_PAGES: usize = 4096;
/// Requests that are remembered of a page, since it may vary by their fields.
const MAX_SAMPLES: usize = 4;
/// The fields of a request that are remembered: a page may vary by them, and they name nobody.
const SAMPLED: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];
/// Said by proxies, as far as the application sees it.
const BY_PROXIES: [&str; 4] = ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-ssl"];

/// A page that changes, as it was asked for.
#[derive(Debug)]
pub struct ScheduledPage {
    pub url: Arc<str>,
    primary: Key,
    /// Requests for it since it is known.
    pub requests: AtomicU64,
    /// What the application said last of when it changes; 0: nothing.
    announced: AtomicU64,
    samples: Mutex<Vec<HeaderMap>>,
}

impl ScheduledPage {
    /// Path and query.
    pub fn target(&self) -> &str {
        &self.url[groups::origin(&self.url).len()..]
    }

    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or("/")
    }

    /// Scheme and authority.
    pub fn origin(&self) -> (&str, &str) {
        groups::origin(&self.url).split_once("://").unwrap_or(("http", ""))
    }

    pub fn samples(&self) -> Vec<HeaderMap> {
        self.samples.lock().clone()
    }

    /// Whether the application has said that it changes then.
    pub fn is_announced(&self, at: Millis) -> bool {
        self.announced.load(Relaxed) == at
    }

    fn remember(&self, sample: HeaderMap) {
        let mut samples = self.samples.lock();
        if samples.len() < MAX_SAMPLES && !samples.contains(&sample) {
            samples.push(sample);
        }
    }
}

/// A page as it was rendered for the time at which it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPage {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why a page can't be prepared. The application renders it when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unprepared {
    #[error("the response can't be stored: {}", .0.as_str())]
    NotStored(Reason),
    #[error("status {0}")]
    Status(u16),
    #[error("it varies by {0}, which tells visitors apart")]
    Varies(String),
    #[error("it has more than cache_object allows")]
    Size,
}

/// A page that is prepared.
pub struct PreparedPage {
    pub at: Millis,
    pub page: Arc<ScheduledPage>,
    /// The fields of the request that it answers.
    pub request: HeaderMap,
    pub rendered: RenderedPage,
    site: Arc<SiteCache>,
    storable: Storable,
    tags: Vec<Arc<str>>,
    /// It is in its place.
    placed: Mutex<bool>,
}

impl PreparedPage {
    /// Names it among the variants of its page.
    pub fn name(&self) -> String {
        let names = self.storable.nominated.names();
        let said = names.iter().filter_map(|name| Some(format!("{name}: {}", self.request.get(name)?.to_str().ok()?)));
        let said: Vec<String> = said.collect();
        if said.is_empty() {
            self.page.url.to_string()
        } else {
            format!("{} ({})", self.page.url, said.join(", "))
        }
    }

    fn is_variant_of(&self, other: &PreparedPage) -> bool {
        let same = |name: &HeaderName| self.request.get(name) == other.request.get(name);
        self.at == other.at
            && self.storable.nominated == other.storable.nominated
            && self.storable.nominated.names().iter().all(same)
    }

    /// Puts it in its place, unless it is there.
    fn place(&self, wall: Millis) {
        let mut placed = self.placed.lock();
        if std::mem::replace(&mut *placed, true) {
            return;
        }
        let store = &self.site.cache.store;
        let mut storable = self.storable.clone();
        // It is as old as if it had been asked for at the time.
        storable.freshness.initial_age = wall.saturating_sub(self.at);
        storable.freshness.response_time = now();
        let until = self.site.changes_after(&self.page, self.at).unwrap_or(Millis::MAX);
        let until = capping::announced(&self.rendered.headers, self.at).unwrap_or(Millis::MAX).min(until);
        storable.freshness.holds = Holds { from: self.at, until };
        let directory = store.peek(self.page.primary).filter(|kept| matches!(**kept, Entry::Directory(_)));
        let task = StoreTask {
            cache: self.site.clone(),
            wanted: Kin::shared(self.page.url.clone(), self.page.primary, directory),
            request: self.request.clone(),
            status: self.rendered.status,
            range: None,
            before: None,
            tags: Vec::new(),
            moment: store.moment(),
        };
        self.site.cache.uncacheable.forget(self.page.primary);
        task.keep(storable, self.rendered.body.clone());
    }
}

/// What is prepared for all sites.
#[derive(Default)]
pub struct Changes {
    prepared: RwLock<HashMap<Key, Vec<Arc<PreparedPage>>>>,
    count: AtomicUsize,
    /// The thread that prepares, once there is one.
    wake: RwLock<Option<Arc<Wake>>>,
    /// A purge has dropped something that was prepared.
    is_purged: AtomicBool,
    /// A page was asked for that was not known, or that now changes at another time.
    is_met: AtomicBool,
}

impl Changes {
    pub fn set_wake(&self, wake: Option<Arc<Wake>>) {
        *self.wake.write() = wake;
    }

    /// Something may be due that was not before.
    pub fn wake(&self) {
        if let Some(wake) = &*self.wake.read() {
            wake.wake();
        }
    }

    /// Whether a purge has met something since the last call.
    pub fn take_purged(&self) -> bool {
        self.is_purged.swap(false, Relaxed)
    }

    /// Whether there is a page since the last call that may not be prepared.
    pub fn take_met(&self) -> bool {
        self.is_met.swap(false, Relaxed)
    }

    /// Keeps a prepared page until its time, in the place of what was prepared before.
    pub fn hold(&self, prepared: PreparedPage) {
        let mut all = self.prepared.write();
        let variants = all.entry(prepared.page.primary).or_default();
        variants.retain(|other| !other.is_variant_of(&prepared));
        variants.push(Arc::new(prepared));
        self.count.store(all.len(), Relaxed);
    }

    /// Drops what was prepared for sites that are served no more.
    pub fn keep_of(&self, sites: &[&Arc<SiteCache>]) {
        if self.count.load(Relaxed) > 0 {
            self.retain(|prepared| sites.iter().any(|site| Arc::ptr_eq(site, &prepared.site)));
        }
    }

    /// Those that `keep` does not want are dropped.
    fn retain(&self, keep: impl Fn(&PreparedPage) -> bool) -> bool {
        let mut all = self.prepared.write();
        let (mut before, mut after) = (0, 0);
        all.retain(|_, variants| {
            before += variants.len();
            variants.retain(|prepared| keep(prepared));
            after += variants.len();
            !variants.is_empty()
        });
        self.count.store(all.len(), Relaxed);
        before != after
    }

    /// What has to come into its place now. The clock may have been set back since something has.
    fn due(&self, primary: Key, wall: Millis) -> Vec<Arc<PreparedPage>> {
        let all = self.prepared.read();
        let is_due = |prepared: &&Arc<PreparedPage>| {
            let mut placed = prepared.placed.lock();
            *placed &= prepared.at <= wall;
            !*placed && prepared.at <= wall
        };
        all.get(&primary).into_iter().flatten().filter(is_due).cloned().collect()
    }

    pub(super) fn purge(&self, what: &Purge) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let is_meant = |prepared: &PreparedPage| match what {
            Purge::Url(url) => *prepared.page.url == **url,
            Purge::Tag(tag) => prepared.tags.iter().any(|own| **own == **tag),
            Purge::Prefix(prefix) => prepared.page.url.starts_with(prefix.as_str()),
            Purge::All => true,
        };
        if self.retain(|prepared| !is_meant(prepared)) {
            self.is_purged.store(true, Relaxed);
            self.wake();
        }
    }
}

/// The times of a rule around a moment: none lies between them.
#[derive(Clone, Copy, Default)]
struct Around {
    since: Millis,
    next: Option<Millis>,
}

/// A site's pages that change, and when.
pub struct Schedule {
    rules: Vec<(Rule, RwLock<Option<Around>>)>,
    pages: RwLock<HashMap<Key, Arc<ScheduledPage>>>,
    /// What is to be done for each time, and how far it is.
    pub plans: Mutex<BTreeMap<Millis, Plan>>,
    /// Pages that came late are about to be prepared.
    pub is_adding: AtomicBool,
}

impl Schedule {
    pub fn new(rules: &[Rule]) -> Schedule {
        let rules = rules.iter().map(|rule| (rule.clone(), RwLock::default())).collect();
        Schedule { rules, pages: RwLock::default(), plans: Mutex::default(), is_adding: AtomicBool::new(false) }
    }

    fn next_of((rule, around): &(Rule, RwLock<Option<Around>>), wall: Millis) -> Option<Millis> {
        let known = *around.read();
        let fits = |known: &Around| known.since <= wall && known.next.is_none_or(|next| wall < next);
        if let Some(known) = known.filter(fits) {
            return known.next;
        }
        let next = rule.when.next_after(wall);
        *around.write() = Some(Around { since: wall, next });
        next
    }

    /// When a page of this path changes next by the rules.
    fn next_by_rules(&self, path: &str, wall: Millis) -> Option<Millis> {
        let covering = self.rules.iter().filter(|(rule, _)| rule.covers(path));
        covering.filter_map(|rule| Schedule::next_of(rule, wall)).min()
    }

    fn covers(&self, path: &str) -> bool {
        self.rules.iter().any(|(rule, _)| rule.covers(path))
    }

    /// The times to come, each with how long before it pages are prepared.
    pub fn times(&self, wall: Millis) -> BTreeMap<Millis, Millis> {
        let mut times = BTreeMap::new();
        let mut add = |at: Millis, prepare: Millis| {
            let longest = times.entry(at).or_insert(0);
            *longest = prepare.max(*longest);
        };
        for rule in &self.rules {
            if let Some(at) = Schedule::next_of(rule, wall) {
                add(at, rule.0.prepare);
            }
        }
        let announced = |page: &Arc<ScheduledPage>| page.announced.load(Relaxed);
        self.pages.read().values().map(announced).filter(|at| *at > wall).for_each(|at| add(at, rule::PREPARE));
        times
    }

    /// The pages that change at this time, those that are asked for most first.
    pub fn pages_at(&self, at: Millis) -> Vec<Arc<ScheduledPage>> {
        let just_before = at.saturating_sub(1);
        let changes = |page: &&Arc<ScheduledPage>| {
            page.announced.load(Relaxed) == at || self.next_by_rules(page.path(), just_before) == Some(at)
        };
        let mut pages: Vec<_> = self.pages.read().values().filter(changes).cloned().collect();
        pages.sort_by(|one, other| {
            let requests = |page: &ScheduledPage| page.requests.load(Relaxed);
            requests(other).cmp(&requests(one)).then_with(|| one.url.cmp(&other.url))
        });
        pages
    }
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
        let page = known.unwrap_or_else(|| self.meet(url, primary));
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

    fn meet(&self, url: &Arc<str>, primary: Key) -> Arc<ScheduledPage> {
        let mut pages = self.schedule.pages.write();
        if pages.len() >= MAX_PAGES {
            let mut counts: Vec<u64> = pages.values().map(|page| page.requests.load(Relaxed)).collect();
            let middle = counts.len() / 2;
            let (_, median, _) = counts.select_nth_unstable(middle);
            let median = *median;
            let mut room = MAX_PAGES / 2;
            pages.retain(|_, page| {
                let stays = page.requests.load(Relaxed) >= median && room > 0;
                room -= usize::from(stays);
                stays
            });
        }
        let new = || {
            Arc::new(ScheduledPage {
                url: url.clone(),
                primary,
                requests: AtomicU64::new(0),
                announced: AtomicU64::new(0),
                samples: Mutex::default(),
            })
        };
        pages.entry(primary).or_insert_with(new).clone()
    }

    /// Pages that rules name without a `*`: on each host that pages were asked for on, also if nobody has asked for them.
    pub fn meet_plain_paths(&self) {
        let origins: BTreeSet<String> = {
            let pages = self.schedule.pages.read();
            pages.values().map(|page| groups::origin(&page.url).to_owned()).take(64).collect()
        };
        let sample = self.schedule.pages.read().values().find_map(|page| page.samples.lock().first().cloned());
        for path in self.schedule.rules.iter().flat_map(|(rule, _)| rule.plain_paths()) {
            for origin in origins.iter().take(4) {
                self.restore(&format!("{origin}{path}"), sample.clone().unwrap_or_default(), None);
            }
        }
    }

    /// A page by its URL, as a visitor without cookies asks for it.
    pub fn restore(&self, url: &str, sample: HeaderMap, announced: Option<Millis>) -> Arc<ScheduledPage> {
        let url: Arc<str> = url.into();
        let target = super::invalidation::target_of(&url);
        let path = target.path.split('?').next().unwrap_or("/");
        let anonymous = self.rule(path).map_or(Vec::new(), |_| super::sessions::Visitor(None).partition().to_vec());
        let page = self.meet(&url, self.cache.keys.primary(&target, &anonymous));
        page.remember(sample);
        if let Some(at) = announced {
            page.announced.store(at, Relaxed);
        }
        page
    }

    /// What was rendered for a page, as it will be stored at the time.
    ///
    /// # Errors
    /// It can't be: the page depends on who asks, or may not be stored.
    pub fn prepared(
        self: &Arc<Self>,
        page: &Arc<ScheduledPage>,
        request: HeaderMap,
        rendered: RenderedPage,
        at: Millis,
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
        let is_known = |name: &HeaderName| SAMPLED.contains(name) || BY_PROXIES.contains(&name.as_str());
        if let Some(other) = storable.nominated.names().iter().find(|name| !is_known(name)) {
            return Err(Unprepared::Varies(other.to_string()));
        }
        dated(&mut storable.headers, at);
        let tags = groups::tags(&storable.headers, groups::origin(&page.url));
        let (site, page) = (self.clone(), page.clone());
        Ok(PreparedPage { at, page, request, rendered, site, storable, tags, placed: Mutex::new(false) })
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
