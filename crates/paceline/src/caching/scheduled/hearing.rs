//! What is heard of a site's pages: that somebody asks for one, and what the application says of when it changes.
//! It never decides what a request gets.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use cache::{
    freshness::{ExchangeTimes, Holds},
    groups,
    store::Key,
    stored::Stored,
    Millis,
};
use http::{header, request, response, HeaderMap, HeaderName, StatusCode};
use scheduled::{
    capping,
    times::{ByRules, Times},
    CHANGES_AT,
};

use super::ScheduledPage;
use crate::{
    caching::{
        cache_request::{CacheRequest, ForAll},
        invalidation::target_of,
        partition::SEEN_OF_PROXIES,
        sessions::Visitor,
        SiteCache,
    },
    support::clock,
};

/// The fields of a request that are remembered: a page may vary by them, and they name nobody.
const SAMPLED: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];

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
pub(super) enum Announcement<'a> {
    /// With the answer to this request, all times that it says. By the time of day, when it was asked for.
    Now(&'a [Millis], Millis),
    /// With the stored answer.
    Stored(Option<Millis>),
}

/// Whether a field of a request is remembered with its page, so that the copy of the application gets it, too.
pub(super) fn is_sampled(name: &HeaderName) -> bool {
    SAMPLED.contains(name) || SEEN_OF_PROXIES.contains(&name.as_str())
}

impl SiteCache {
    /// A response has come: until when it holds. The announcement is taken out of it. `wall`: the time of day at which it
    /// was asked for.
    pub(in crate::caching) fn told_of_changes(
        &self,
        wanted: &CacheRequest,
        head: &request::Parts,
        parts: &mut response::Parts,
        at: ExchangeTimes,
        wall: Millis,
    ) -> Holds {
        let announces = parts.headers.contains_key(CHANGES_AT);
        if !announces && self.schedule.rules.is_empty() && self.schedule.pages.read().is_empty() {
            return Holds::ALWAYS;
        }
        // What was asked for before a change may be from before it, also if the clock was set over the change meanwhile.
        let asked = at.date.saturating_sub(at.response_time.saturating_sub(at.request_time)).min(wall);
        let announced = capping::announced(&parts.headers, asked);
        parts.headers.remove(CHANGES_AT);
        // An answer that the page is as it was may say nothing of its times, and they are as they were.
        let is_rendering = parts.status == StatusCode::OK || parts.status == StatusCode::NOT_MODIFIED && announces;
        if let Some(for_all) = wanted.for_all.as_ref().filter(|_| is_rendering && wanted.storable) {
            let (url, primary, path) = (&wanted.url, wanted.primary, &wanted.path);
            self.see(
                &PageRequest { url, primary, for_all, path, headers: &head.headers },
                Announcement::Now(&announced, asked),
            );
        }
        let by_rules = self.schedule.next_by_rules(&wanted.path, asked);
        let until = announced.first().copied().into_iter().chain(by_rules).min().unwrap_or(Millis::MAX);
        // A page that is one visitor's may be of a time, and is not among those that are known.
        let page = self.page_of(wanted.primary);
        let changes = wanted.for_all.is_none() || self.schedule.covers(&wanted.path) || page.is_some();
        let own = page.map_or(0, |page| self.last_change(&page, asked));
        Holds { from: if changes { self.schedule.last_change(asked).max(own) } else { 0 }, until }
    }

    /// A stored page was asked for, and is given.
    pub(in crate::caching) fn see_hit(&self, head: &request::Parts, primary: Key, for_all: &ForAll, stored: &Stored) {
        let holds = stored.freshness.holds;
        if holds.is_bounded() {
            let announced = Some(holds.until).filter(|until| *until != Millis::MAX);
            let (path, headers) = (head.uri.path(), &head.headers);
            let page = PageRequest { url: &stored.url, primary, for_all, path, headers };
            self.see(&page, Announcement::Stored(announced));
        }
    }

    /// A page was asked for that changes.
    pub(super) fn see(&self, asked: &PageRequest, said: Announcement) {
        let known = self.schedule.pages.read().get(&asked.primary).cloned();
        let before = if known.is_none() { self.page_of(asked.primary) } else { None };
        let says_nothing = matches!(said, Announcement::Now(&[], _) | Announcement::Stored(None));
        if known.is_none() && before.is_none() && says_nothing && !self.schedule.covers(asked.path) {
            return;
        }
        let mut is_new = known.is_none();
        let meet = || self.schedule.meet(asked.url, asked.primary, &asked.for_all.by_proxies, before);
        let page = known.unwrap_or_else(meet);
        page.requests.fetch_add(1, Relaxed);
        page.was_asked_by(asked.for_all.asker);
        page.remember(sampled(asked.headers, self.settings.recode), asked.for_all.asker);
        is_new |= match said {
            Announcement::Now(announced, asked) => self.announce(&page, announced, asked, clock::unix_millis()),
            // It was restored from disk. Of a page that is known the application's last word counts.
            Announcement::Stored(Some(at)) if is_new && !self.schedule.changes_by_rule(asked.path, at) => {
                page.restore_time(at);
                true
            }
            Announcement::Stored(_) => false,
        };
        if is_new {
            self.cache.changes.is_met.store(true, Relaxed);
            self.cache.changes.wake();
        }
    }

    /// The application says with an answer when a page changes; by the time of day, when that was asked for, and what it is
    /// by now. Returns whether there are other times to prepare it for than before.
    pub(super) fn announce(&self, page: &ScheduledPage, times: &[Millis], asked: Millis, wall: Millis) -> bool {
        let say = |said: &mut Times, by_rules: ByRules| (said.say(asked, times, wall, by_rules), said.is_fickle());
        let (is_other, is_fickle) = self.schedule.of(page, say);
        if is_other {
            self.settle(page, wall);
        }
        is_other && !is_fickle
    }

    /// What is prepared for a time that the page does not say any more is dropped: the sale does not begin then.
    pub(super) fn settle(&self, page: &ScheduledPage, wall: Millis) {
        let known = self.schedule.of(page, |times, by_rules| times.known(wall, by_rules));
        let is_over = |at: Millis| at > wall && !known.contains(&at) && !self.schedule.changes_by_rule(page.path(), at);
        if self.cache.changes.retain(|prepared| prepared.page.primary != page.primary || !is_over(prepared.at)) {
            self.cache.changes.is_dropped.store(true, Relaxed);
        }
        for (at, plan) in self.schedule.plans.lock().iter_mut() {
            if is_over(*at) {
                plan.pages.remove(&*page.url);
            }
        }
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
        for path in self.schedule.rules.iter().flat_map(|one| one.rule.plain_paths()) {
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
        let primary = self.cache.keys.primary(&target, &partition);
        let page = self.schedule.meet(&url, primary, by_proxies, self.page_of(primary));
        page.remember(sample, 0);
        if let Some(at) = announced {
            page.restore_time(at);
        }
        page
    }
}

/// `recode`: the page is stored without a coding, so it does not matter which one a client takes.
fn sampled(request: &HeaderMap, recode: bool) -> HeaderMap {
    let is_kept = |name: &HeaderName| is_sampled(name) && !(recode && *name == header::ACCEPT_ENCODING);
    request.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}
