//! Pages as they were rendered for the time at which they change, and how each comes into its place then.
//! It never decides when a page changes.

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc,
    },
};

use super::ScheduledPage;
use crate::{
    caching::{keeping::StoreTask, kin::Kin, now, Purge, SiteCache},
    support::{clock, wall_timer::Wake},
};
use bytes::Bytes;
use cache::{
    freshness::Holds,
    status::Reason,
    store::{Key, Moment},
    stored::Entry,
    storing::Storable,
    Millis,
};
use http::{HeaderMap, HeaderName, StatusCode};
use parking_lot::{Mutex, RwLock};

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

/// Whether a page that is prepared was kept until its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Kept,
    /// Something like it was purged since it was asked for.
    Purged,
    /// What is prepared has as much memory as the page cache may have.
    Full,
}

/// What a prepared page takes beside its body.
const OVERHEAD: u64 = 2048;

/// A page that is prepared.
pub struct PreparedPage {
    pub at: Millis,
    pub page: Arc<ScheduledPage>,
    /// The fields of the request that it answers.
    pub request: HeaderMap,
    pub rendered: RenderedPage,
    /// When the page changes after its time, as it says itself.
    pub(super) says: Vec<Millis>,
    pub(super) site: Arc<SiteCache>,
    pub(super) storable: Storable,
    pub(super) tags: Vec<Arc<str>>,
    /// Before it was asked for.
    pub(super) moment: Moment,
    /// It is in its place.
    pub(super) placed: Mutex<bool>,
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

    fn size(&self) -> u64 {
        self.rendered.body.len() as u64 + OVERHEAD
    }

    fn is_variant_of(&self, other: &PreparedPage) -> bool {
        let same = |name: &HeaderName| self.request.get(name) == other.request.get(name);
        self.at == other.at
            && self.storable.nominated == other.storable.nominated
            && self.storable.nominated.names().iter().all(same)
    }

    /// Puts it in its place, unless it is there, or was purged meanwhile.
    pub(super) fn place(&self, wall: Millis) {
        // A purge waits for this: it finds the page here, or in its place.
        let all = self.site.cache.changes.prepared.read();
        let is_held = |variants: &Vec<Arc<PreparedPage>>| variants.iter().any(|held| std::ptr::eq(&**held, self));
        if !all.get(&self.page.primary).is_some_and(is_held) {
            return;
        }
        let mut placed = self.placed.lock();
        if std::mem::replace(&mut *placed, true) {
            return;
        }
        let store = &self.site.cache.store;
        let mut storable = self.storable.clone();
        // It is as old as if it had been asked for at the time.
        storable.freshness.initial_age = wall.saturating_sub(self.at);
        storable.freshness.response_time = now();
        let next = self.site.changes_after(&self.page, self.at);
        let until = self.says.first().copied().into_iter().chain(next).min().unwrap_or(Millis::MAX);
        storable.freshness.holds = Holds { from: self.at, until };
        let directory = store.peek(self.page.primary).filter(|kept| matches!(**kept, Entry::Directory(_)));
        let task = StoreTask {
            lease: None,
            cache: self.site.clone(),
            wanted: Kin::shared(self.page.url.clone(), self.page.primary, directory),
            request: self.request.clone(),
            status: self.rendered.status,
            range: None,
            before: None,
            tags: Vec::new(),
            moment: store.moment(),
            storable,
        };
        self.site.cache.uncacheable.forget(self.page.primary);
        task.keep(self.rendered.body.clone());
    }
}

type PreparedPages = HashMap<Key, Vec<Arc<PreparedPage>>>;

/// What is prepared for all sites.
#[derive(Default)]
pub struct Changes {
    pub(super) prepared: RwLock<PreparedPages>,
    pub(super) count: AtomicUsize,
    /// Bytes of what is prepared.
    bytes: AtomicU64,
    /// The thread that prepares, once there is one.
    wake: RwLock<Option<Arc<Wake>>>,
    /// A purge has dropped something that was prepared.
    is_purged: AtomicBool,
    /// Something that was prepared is not good any more, or its file has to say otherwise of it.
    pub(super) is_dropped: AtomicBool,
    /// A page was asked for that was not known, or that now changes at another time.
    pub(super) is_met: AtomicBool,
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

    /// The files of what is prepared are to be written once more.
    pub fn save(&self) {
        self.is_dropped.store(true, Relaxed);
        self.wake();
    }

    /// Whether a purge has met something since the last call.
    pub fn take_purged(&self) -> bool {
        self.is_purged.swap(false, Relaxed)
    }

    /// Whether something was dropped since the last call that may be in a file yet.
    pub fn take_dropped(&self) -> bool {
        self.is_dropped.swap(false, Relaxed)
    }

    /// Whether there is a page since the last call that may not be prepared.
    pub fn take_met(&self) -> bool {
        self.is_met.swap(false, Relaxed)
    }

    /// Keeps a prepared page until its time, in the place of what was prepared before. Where there is no room for it, that
    /// stays. When the page changes after that, as it says, is known from now on.
    pub fn hold(&self, prepared: impl Into<Arc<PreparedPage>>) -> Held {
        let prepared = prepared.into();
        let mut all = self.prepared.write();
        if prepared.site.cache.store.purged_since(prepared.moment, &prepared.page.url, &prepared.tags) {
            self.is_purged.store(true, Relaxed);
            self.wake();
            return Held::Purged;
        }
        let variants = all.get(&prepared.page.primary).into_iter().flatten();
        let before: u64 = variants.filter(|other| other.is_variant_of(&prepared)).map(|other| other.size()).sum();
        let bytes = self.bytes.load(Relaxed).saturating_sub(before) + prepared.size();
        if bytes > prepared.site.cache.store.usage().budget {
            return Held::Full;
        }
        let variants = all.entry(prepared.page.primary).or_default();
        variants.retain(|other| !other.is_variant_of(&prepared));
        variants.push(prepared.clone());
        self.bytes.store(bytes, Relaxed);
        let of_this_time = variants.iter().filter(|other| other.at == prepared.at);
        let says: Vec<Millis> = of_this_time.flat_map(|other| other.says.iter().copied()).collect();
        let (wall, site) = (clock::unix_millis(), &prepared.site);
        let is_other =
            site.schedule.of(&prepared.page, |times, by_rules| times.prepare(prepared.at, &says, wall, by_rules));
        self.count.store(all.len(), Relaxed);
        drop(all);
        if is_other {
            site.settle(&prepared.page, wall);
            self.is_met.store(true, Relaxed);
            self.wake();
        }
        Held::Kept
    }

    /// Gives the URL of each page for which something is prepared.
    pub fn each_url(&self, give: impl FnMut(&str)) {
        if self.count.load(Relaxed) > 0 {
            self.prepared.read().values().flatten().map(|prepared| &*prepared.page.url).for_each(give);
        }
    }

    /// The page of this key, if something is prepared for it.
    pub(super) fn page_of(&self, primary: Key) -> Option<Arc<ScheduledPage>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        Some(self.prepared.read().get(&primary)?.first()?.page.clone())
    }

    /// Drops what was prepared for sites that are served no more.
    pub fn keep_of(&self, sites: &[&Arc<SiteCache>]) {
        if self.count.load(Relaxed) > 0 {
            self.retain(|prepared| sites.iter().any(|site| Arc::ptr_eq(site, &prepared.site)));
        }
    }

    /// Those that `keep` does not want are dropped. Returns whether there were any.
    pub(super) fn retain(&self, keep: impl Fn(&PreparedPage) -> bool) -> bool {
        self.retain_of(&mut self.prepared.write(), keep)
    }

    fn retain_of(&self, all: &mut PreparedPages, keep: impl Fn(&PreparedPage) -> bool) -> bool {
        let (mut before, mut after, mut bytes) = (0, 0, 0);
        all.retain(|_, variants| {
            before += variants.len();
            let mut gone = Vec::new();
            variants.retain(|prepared| {
                let is_kept = keep(prepared);
                if !is_kept {
                    gone.push(prepared.clone());
                }
                is_kept
            });
            for prepared in gone.iter().filter(|gone| variants.iter().all(|kept| kept.at != gone.at)) {
                prepared.page.forget_prepared(prepared.at, *prepared.placed.lock());
            }
            after += variants.len();
            bytes += variants.iter().map(|prepared| prepared.size()).sum::<u64>();
            !variants.is_empty()
        });
        self.count.store(all.len(), Relaxed);
        self.bytes.store(bytes, Relaxed);
        before != after
    }

    /// What has to come into its place now. The clock may have been set back since something has.
    pub(super) fn due(&self, primary: Key, wall: Millis) -> Vec<Arc<PreparedPage>> {
        let all = self.prepared.read();
        let Some(variants) = all.get(&primary) else { return Vec::new() };
        // What was in their place before is gone with them.
        let mut is_undone = false;
        for prepared in variants.iter().filter(|prepared| prepared.at > wall) {
            is_undone |= std::mem::take(&mut *prepared.placed.lock());
        }
        let come = variants.iter().filter(|prepared| prepared.at <= wall);
        let is_due = |prepared: &&Arc<PreparedPage>| {
            let mut placed = prepared.placed.lock();
            *placed &= !is_undone;
            !*placed
        };
        let mut due: Vec<Arc<PreparedPage>> = come.filter(is_due).cloned().collect();
        // What is of a later time takes the place of the earlier.
        due.sort_by_key(|prepared| prepared.at);
        due
    }

    /// Drops what a purge means, and has `purge_store` do the same to what is stored. No page is held or comes into its
    /// place meanwhile.
    pub fn purge<T>(&self, what: &Purge, purge_store: impl FnOnce() -> T) -> T {
        let is_meant = |prepared: &PreparedPage| match what {
            Purge::Url(url) => *prepared.page.url == **url,
            Purge::Tag(tag) => prepared.tags.iter().any(|own| **own == **tag),
            Purge::Prefix(prefix) => prepared.page.url.starts_with(prefix.as_str()),
            Purge::All => true,
        };
        let mut all = self.prepared.write();
        let is_dropped = !all.is_empty() && self.retain_of(&mut all, |prepared| !is_meant(prepared));
        let purged = purge_store();
        drop(all);
        if is_dropped {
            self.is_purged.store(true, Relaxed);
            self.wake();
        }
        purged
    }
}
