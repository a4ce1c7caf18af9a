//! Pages of a site that change at a known time: how what was prepared for that time comes into the place of the page
//! before. What is due is also put there by the first request that comes after the time, so that no timer has to be
//! punctual.
//! It never renders a page: `crate::server::scheduling` does.
//!
//! Reading order: `schedule` (which pages they are, and when), `hearing` (how that is known), `prepared` (what was rendered
//! for them), `record` (the same as bytes), `shared` (of several fronts one renders a page).

mod hearing;
mod prepared;
mod record;
mod schedule;
mod shared;

use std::{
    collections::BTreeSet,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use cache::{
    freshness::{ExchangeTimes, Holds},
    groups,
    store::{Key, Moment},
    stored::Stored,
    storing::storable,
    Millis,
};
use http::{header, request, response, HeaderMap, HeaderName, HeaderValue, Request, Response};
use parking_lot::Mutex;
use scheduled::{capping, CHANGES_AT};

use self::hearing::is_sampled;
pub use self::{
    prepared::{Changes, Held, PreparedPage, RenderedPage, Unprepared},
    record::{PageRecord, FORMAT},
    schedule::{Schedule, ScheduledPage, MAX_TIMES},
    shared::{Preparation, PreparationLease, Preparer},
};
use super::{
    answer::{dated, HoldsUntil},
    cache_request::{CacheRequest, StoredTarget},
    now, Cache, SiteCache,
};
use crate::{content::body::ResponseBody, support::clock};

/// Ends what a response promises to other caches when its page changes. Returns how long that is from now.
pub fn bound(response: &mut Response<ResponseBody>) -> Option<Millis> {
    let HoldsUntil(until) = response.extensions_mut().remove::<HoldsUntil>()?;
    let (age, wall) = (response.headers().get(header::AGE), clock::unix_millis());
    let age = age.and_then(|age| age.to_str().ok()?.parse().ok());
    capping::cap(response.headers_mut(), age.unwrap_or(0), until, wall);
    Some(until.saturating_sub(wall))
}

/// Takes the announcement out of a response that no cache sees, and obeys it.
pub fn bound_unseen(response: &mut Response<ResponseBody>) {
    if response.headers().contains_key(CHANGES_AT) {
        let times = capping::announced(response.headers(), clock::unix_millis());
        response.headers_mut().remove(CHANGES_AT);
        if let Some(until) = times.first().copied() {
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
        let said = self.schedule.of(page, |times, by_rules| times.next(wall, by_rules));
        said.into_iter().chain(self.schedule.next_by_rules(page.path(), wall)).min()
    }

    /// When it changed last, as its renderings say: nothing from before that is the page any more.
    fn last_change(&self, page: &ScheduledPage, wall: Millis) -> Millis {
        self.schedule.of(page, |times, by_rules| times.last_change(wall, by_rules))
    }

    /// The page of a key, if it changes. It may be prepared, and forgotten since.
    fn page_of(&self, primary: Key) -> Option<Arc<ScheduledPage>> {
        let known = self.schedule.pages.read().get(&primary).cloned();
        known.or_else(|| self.cache.changes.page_of(primary))
    }

    /// Until when an answer holds that is asked for now.
    pub(super) fn holds_until(&self, wanted: &CacheRequest) -> Millis {
        // What is stored knows it also of pages that are one visitor's.
        let stored = wanted.stored.as_ref().map_or(Millis::MAX, |stored| stored.freshness.holds.until);
        if self.schedule.rules.is_empty() && self.schedule.pages.read().is_empty() {
            return stored;
        }
        let wall = clock::unix_millis();
        let next = match self.page_of(wanted.primary) {
            Some(page) => self.changes_after(&page, wall),
            None => self.schedule.next_by_rules(&wanted.path, wall),
        };
        next.unwrap_or(Millis::MAX).min(stored)
    }

    /// What is stored for a request, without what does not hold now, and with what was prepared for this time.
    pub(super) fn holding(&self, found: StoredTarget, primary: Key, request: &HeaderMap) -> StoredTarget {
        let is_bounded =
            |found: &StoredTarget| found.stored.as_ref().is_some_and(|stored| stored.freshness.holds.is_bounded());
        let page = self.page_of(primary);
        if page.is_none() && !is_bounded(&found) {
            return found;
        }
        let wall = clock::unix_millis();
        let due = self.cache.changes.due(primary, wall);
        due.iter().for_each(|prepared| prepared.place(wall));
        // Another variant of it may have said an earlier change than this one knew.
        let changed = page.map_or(0, |page| self.last_change(&page, wall));
        let is_good = |stored: &Arc<Stored>| {
            let holds = stored.freshness.holds;
            holds.at(wall) && holds.from >= changed
        };
        // Another thread may have put the new page there since this one looked.
        let is_there = due.is_empty() && found.stored.as_ref().is_some_and(is_good);
        let mut found = if is_there { found } else { self.find(primary, request) };
        found.stored = found.stored.filter(is_good);
        found
    }

    /// Whether what holds so may be the page's answer, now or later.
    pub(super) fn may_hold(&self, primary: Key, holds: Holds) -> bool {
        let wall = clock::unix_millis();
        let page = self.schedule.pages.read().get(&primary).cloned();
        wall < holds.until && page.is_none_or(|page| holds.from >= self.last_change(&page, wall))
    }

    /// What is given of a page that is known ends when that changes next, whatever its own answer said.
    pub(super) fn end_with_page(&self, primary: Key, response: &mut Response<ResponseBody>) {
        let Some(page) = self.page_of(primary) else { return };
        let own = response.extensions().get::<HoldsUntil>().map_or(Millis::MAX, |HoldsUntil(until)| *until);
        let wall = clock::unix_millis();
        let next = self.schedule.of(&page, |times, by_rules| times.next(wall, by_rules));
        if let Some(next) = next.filter(|next| *next < own) {
            response.extensions_mut().insert(HoldsUntil(next));
        }
    }

    /// A page that the automatic page cache has: what it promises to other caches ends when a rule says that it changes.
    pub fn end_with_rules(&self, path: &str, page: &mut Response<ResponseBody>) {
        if let Some(until) = self.schedule.next_by_rules(path, clock::unix_millis()) {
            page.extensions_mut().insert(HoldsUntil(until));
        }
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
            Some(rule) => rule.storable(&head, &parts, times),
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
        let says = capping::announced(&rendered.headers, at);
        let (site, page) = (self.clone(), page.clone());
        Ok(PreparedPage { at, page, request, rendered, says, site, storable, tags, moment, placed: Mutex::new(false) })
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

    /// The clock was set back before the time: what is in its place does not hold yet, and has to come again. So has what
    /// was there before, if that was prepared, too.
    pub fn undo(&self, at: Millis) {
        let undone = self.prepared_at(at);
        let all = self.cache.changes.prepared.read();
        for prepared in undone {
            let variants = all.get(&prepared.page.primary).into_iter().flatten();
            variants.filter(|one| one.at <= at).for_each(|one| *one.placed.lock() = false);
        }
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
mod tests;
