//! The page cache: what the app said once is said again without it, as far as RFC 9111 and the site's own rules allow.
//! The law is the crate `cache`; here are its clock, its bytes and its waiting. It never asks the origin by itself: how
//! that is done is handed to it.
//!
//! Reading order: `lookup` (what is there for a request), `answer` (a stored response as the client gets it), `flight`
//! and `collapsing` (one question to the origin for all who ask), `arrival` (what is made of the origin's answer), `invalidation` (what
//! it says of others), `keeping` (where it is kept), `recalling` and `disk` (what outlives the process), `streaming` (a
//! body that is given on while it comes), `sessions` (visitors under an owner's rules), `scheduled` (pages that change at a known time), `auto` (pages that are known by what they were made of), `counters`, `succession` (what another
//! process takes over), `release` and `code` (what another load of the application takes over), `sharing` (what other machines' fronts hear of), `tier` and `tier_pages` (pages that they share).

mod answer;
mod arrival;
pub mod auto;
mod cache_request;
pub mod code;
mod collapsing;
mod counters;
mod disk;
mod fetch_start;
mod flight;
mod invalidation;
mod keeping;
mod kin;
mod lookup;
mod partition;
mod recalling;
mod recode;
mod release;
pub mod scheduled;
mod sessions;
mod sharing;
mod streaming;
mod succession;
mod tier;
mod tier_pages;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc, OnceLock, Weak,
    },
    thread::JoinHandle,
};

use cache::{
    freshness::ExchangeTimes,
    groups,
    key::KeyMaker,
    search::NoVarySearch,
    status::{CacheStatus, Forward},
    store::{How, Key, Object, Store},
    stored::Entry,
    stubborn::Rule,
    Millis,
};
use http::{HeaderName, HeaderValue, Response};
use parking_lot::{Mutex, RwLock};
use path_patterns::PatternSet;

use crate::{content::body::ResponseBody, observe::log::Log, support::clock};

use auto::AutoHit;

pub use self::scheduled::bound_unseen;
pub use cache_request::CacheRequest;
pub use counters::{Counters, MissedPath};
pub use disk::{Disk, DiskUsage, Say};
pub use flight::{Fetch, OriginAnswer};
pub use lookup::Lookup;
pub use release::{Codes, MadeBy, OnRestart};
pub use sharing::{Publication, PurgeShared, SHARING_TIME};
pub use streaming::SharedReader;
pub use succession::{Relay, RelayedPurge};
pub use tier::{Granted, SharedTier, TierQuestion, TierRelease, TierSession, TierUse, TierValue, TierWrite};

/// What the sites of a server keep together.
pub struct Cache {
    store: Arc<Store<Entry>>,
    keys: KeyMaker,
    secret: [u64; 2],
    disk: RwLock<Option<Arc<Disk>>>,
    /// Who takes over, while somebody does.
    relay: Mutex<Option<Relay>>,
    /// The fronts of other machines, if there are any.
    sharing: sharing::Sharing,
    /// Where they share pages, if they do.
    tier: OnceLock<Weak<dyn SharedTier>>,
    /// The thread that writes to the disk.
    writing: Mutex<Option<JoinHandle<()>>>,
    flights: flight::Flights,
    uncacheable: Uncacheable,
    /// Bodies that are being compressed.
    making: Mutex<HashSet<Key>>,
    /// How many had been dropped when memory was given back last.
    tidied: AtomicU64,
    /// Stands where what is kept has no URL.
    no_url: Arc<str>,
    /// What is prepared for a time to come.
    changes: scheduled::Changes,
    /// Which code has made what is kept.
    releases: Arc<release::Releases>,
}

/// How a site caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a body, at most.
    pub object: u64,
    /// Milliseconds for which a stale response may stand in for an error, where it does not say so itself.
    pub stale_if_error: Millis,
    /// Milliseconds for which crawlers get a stale response in place of a new one.
    pub crawlers_stale: Millis,
    /// Clients' Cache-Control counts (RFC 9111 section 5.2.1).
    pub obey_requests: bool,
    /// Responses are compressed for those who take it, so that one body is kept for clients of all codings.
    pub recode: bool,
    /// The owner's rules; the first that covers a path counts.
    pub rules: Vec<Rule>,
    /// Pages that change at a known time.
    pub scheduled: Vec<::scheduled::rule::Rule>,
    pub on_restart: OnRestart,
}

#[cfg(test)]
impl SiteCache {
    /// A site whose cache is large enough for a test. `scheduled`: its rules for pages that change at a known time.
    pub fn of_test(scheduled: Vec<::scheduled::rule::Rule>) -> Arc<SiteCache> {
        let (obey_requests, recode) = (true, true);
        let settings = Settings { object: 1 << 20, obey_requests, recode, scheduled, ..Settings::default() };
        let log = Log::open(&crate::observe::log::LogConfig::nowhere()).unwrap();
        Arc::new(SiteCache::new(Arc::new(Cache::new(4 << 20)), settings, log))
    }
}

/// A site's part of the cache.
pub struct SiteCache {
    pub settings: Settings,
    /// The paths of its rules, in their order.
    patterns: PatternSet,
    pub counters: Counters,
    log: Log,
    cache: Arc<Cache>,
    warned: sessions::Warned,
    schedule: scheduled::Schedule,
    /// Paths whose queries hold what does not matter, by URL.
    searches: RwLock<HashMap<String, NoVarySearch>>,
}

impl Cache {
    /// `budget`: bytes for all that is kept, its index included.
    pub fn new(budget: u64) -> Cache {
        Cache::over(budget, <[u64; 2]>::from(uuid::Uuid::new_v4().as_u64_pair()))
    }

    /// A cache with a part on disk. Err: its thread could not be started.
    pub fn with_disk(budget: u64, disk: Disk) -> io::Result<Arc<Cache>> {
        let cache = Arc::new(Cache::succeeding(budget, disk.secret()));
        cache.attach_any(disk)?;
        cache.recall_codes();
        Ok(cache)
    }

    fn over(budget: u64, secret: [u64; 2]) -> Cache {
        Cache {
            store: Arc::new(Store::new(budget)),
            keys: KeyMaker::new(secret),
            secret,
            disk: RwLock::default(),
            relay: Mutex::default(),
            sharing: sharing::Sharing::default(),
            tier: OnceLock::new(),
            writing: Mutex::default(),
            flights: flight::Flights::default(),
            uncacheable: Uncacheable::default(),
            making: Mutex::default(),
            tidied: AtomicU64::new(0),
            no_url: "".into(),
            changes: scheduled::Changes::default(),
            releases: Arc::default(),
        }
    }

    /// Whether much was dropped since the last time that this was true: then the allocator has memory to give back.
    pub fn has_shed(&self) -> bool {
        let usage = self.store.usage();
        let dropped = usage.evicted + usage.purged;
        // Of pages of the usual size that is some megabytes.
        let much = dropped >= self.tidied.load(Relaxed) + 1000;
        if much {
            self.tidied.store(dropped, Relaxed);
        }
        much
    }

    /// What is kept, for purges and statistics.
    pub fn store(&self) -> &Store<Entry> {
        &self.store
    }

    /// The disk's part, if there is one.
    pub fn disk(&self) -> Option<Arc<Disk>> {
        self.disk.read().clone()
    }

    /// Writes what still waits for the disk, before the server ends.
    pub fn close(&self) {
        if let Some(disk) = self.disk() {
            disk.end();
        }
        self.join_writer();
    }

    fn join_writer(&self) {
        let thread = self.writing.lock().take();
        if let Some(thread) = thread {
            // It says by itself what went wrong.
            let _ = thread.join();
        }
    }

    /// Drops, or expires, what is named, in memory and on disk. How many responses that were. It waits for the disk:
    /// call it where that may be.
    pub fn purge(&self, what: &Purge, how: How) -> usize {
        self.purge_everywhere(what, how).0
    }

    /// Purges, and returns what becomes of it on other fronts, if there are any.
    pub fn purge_everywhere(&self, what: &Purge, how: How) -> (usize, Option<PurgeShared>) {
        let (count, Purging { on_disk, shared }) = self.purge_soon(what, how);
        (met(count, on_disk), shared)
    }

    /// Purges without waiting: nothing of it is given here any more.
    fn purge_soon(&self, what: &Purge, how: How) -> (usize, Purging) {
        self.relayed(|| RelayedPurge(what.clone(), how));
        let announced = self.announce(what);
        let (count, on_disk) = self.purge_here(what, how);
        (count, Purging { on_disk, shared: announced.and_then(|number| self.publish(number, what, how)) })
    }

    /// Drops what this server keeps of the authorities ("host:port") that are meant, in memory and on disk; other fronts
    /// keep theirs. How many there were. It waits for the disk: call it where that may be.
    pub fn drop_origins(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        // A page that is under way may be the first of its origin.
        self.store.refuse_earlier();
        self.drop_kept(is_meant)
    }

    fn drop_kept(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let mut origins = self.disk().map(|disk| disk.origins()).unwrap_or_default();
        let mut note = |url: &str| {
            let origin = groups::origin(url);
            if !origins.contains(origin) {
                origins.insert(origin.to_owned());
            }
        };
        self.store.each(|_, kept| note(kept.url()));
        // A page may be prepared that is kept nowhere yet.
        self.changes.each_url(note);
        let is_meant = |origin: &String| origin.split_once("://").is_some_and(|(_, authority)| is_meant(authority));
        let dropped = origins.into_iter().filter(is_meant).map(|origin| {
            let what = Purge::Prefix(format!("{origin}/"));
            self.relayed(|| RelayedPurge(what.clone(), How::Drop));
            self.purge_here(&what, How::Drop)
        });
        // All of it is gone from memory before the disk is waited for.
        let dropped: Vec<_> = dropped.collect();
        dropped.into_iter().map(|(count, on_disk)| met(count, on_disk)).sum()
    }

    fn purge_here(&self, what: &Purge, how: How) -> (usize, Option<disk::PurgeDone>) {
        let Some(disk) = self.disk() else { return (self.purge_memory(what, how), None) };
        let purging = disk.begin_purge(&self.store);
        let count = self.purge_memory(what, how);
        (count, Some(disk.purge(purging, what.clone(), how)))
    }

    fn purge_memory(&self, what: &Purge, how: How) -> usize {
        self.changes.purge(what, || match what {
            Purge::Url(url) => self.store.purge_url(url, how),
            Purge::Tag(tag) => self.store.purge_tag(tag, how),
            Purge::Prefix(prefix) => self.store.purge_prefix(prefix, how),
            Purge::All => self.store.purge_all(how),
        })
    }
}

/// How many a purge has met: most are both in memory and on disk, for which it waits. A thread that is gone purges nothing; it has
/// said why.
fn met(count: usize, on_disk: Option<disk::PurgeDone>) -> usize {
    let on_disk = on_disk.and_then(|purged| purged.blocking_recv().ok()).unwrap_or(0) as usize;
    count.max(on_disk)
}

/// A purge that is under way: it is done in memory.
struct Purging {
    /// When it is done on disk.
    on_disk: Option<disk::PurgeDone>,
    /// What becomes of it on other fronts.
    shared: Option<PurgeShared>,
}

/// What is to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// All variants of one URL.
    Url(String),
    Tag(String),
    /// All whose URL begins so.
    Prefix(String),
    All,
}

impl Purge {
    /// Whether it is for a page of this URL with these tags.
    fn covers(&self, url: &str, tags: &[Arc<str>]) -> bool {
        match self {
            Purge::Url(purged) => purged == url,
            Purge::Tag(purged) => tags.iter().any(|tag| **tag == **purged),
            Purge::Prefix(prefix) => url.starts_with(&**prefix),
            Purge::All => true,
        }
    }
}

impl SiteCache {
    pub fn new(cache: Arc<Cache>, settings: Settings, log: Log) -> SiteCache {
        SiteCache {
            schedule: scheduled::Schedule::new(&settings.scheduled),
            patterns: PatternSet::new(settings.rules.iter().map(|rule| &rule.path)),
            settings,
            log,
            counters: Counters::default(),
            warned: sessions::Warned::default(),
            cache,
            searches: RwLock::default(),
        }
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Says what the cache did, in the response and in the counters.
    pub fn tell(&self, path: &str, response: &mut Response<ResponseBody>) -> CacheStatus {
        let unknown = || CacheStatus::forward(Forward::Bypass);
        let own = response.extensions_mut().remove::<CacheStatus>();
        let auto = response.extensions_mut().remove::<AutoHit>().map(AutoHit::status);
        let mut status = auto.or(own).unwrap_or_else(unknown);
        if let Some(left) = scheduled::bound(response) {
            status.ttl = status.ttl.map(|ttl| ttl.min(left as i64));
        }
        self.counters.count(&status, path);
        say(&status, response);
        status
    }
}

/// Says what the automatic page cache did, for a site without a page cache. None: no cache did anything.
pub fn tell_auto(response: &mut Response<ResponseBody>) -> Option<CacheStatus> {
    let status = response.extensions_mut().remove::<AutoHit>()?.status();
    say(&status, response);
    Some(status)
}

fn say(status: &CacheStatus, response: &mut Response<ResponseBody>) {
    if let Ok(line) = HeaderValue::try_from(status.line()) {
        response.headers_mut().append(CACHE_STATUS, line);
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

fn now() -> Millis {
    clock::age_millis()
}

/// A response has come to a request that was sent at `request_time`.
fn exchanged(request_time: Millis) -> ExchangeTimes {
    ExchangeTimes { request_time, response_time: now(), date: clock::unix_millis() }
}

/// Keys whose answers could not be stored: for a while nobody waits there for somebody else's answer. A table of fixed
/// size in which a key may push another out: then one request more is led by one that need not have been.
struct Uncacheable(Box<[AtomicU64]>);

const PLACES: usize = 1 << 15;

/// Milliseconds for which a key is remembered.
const REMEMBERED: Millis = 10_000;

impl Default for Uncacheable {
    fn default() -> Uncacheable {
        Uncacheable((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Uncacheable {
    /// 40 bits of the key and 24 of the time when it is forgotten, in tenths of a second.
    fn mark(&self, key: Key, now: Millis) {
        self.place(key).store(Self::print(key) | Self::tenths(now + REMEMBERED), Relaxed);
    }

    fn knows(&self, key: Key, now: Millis) -> bool {
        let found = self.place(key).load(Relaxed);
        // Whoever comes within half the range of the counter is not yet past it.
        let left = (found & 0xff_ffff).wrapping_sub(Self::tenths(now)) & 0xff_ffff;
        found != 0 && found & !0xff_ffff == Self::print(key) && left > 0 && left <= REMEMBERED / 100
    }

    fn forget(&self, key: Key) {
        let place = self.place(key);
        if place.load(Relaxed) & !0xff_ffff == Self::print(key) {
            place.store(0, Relaxed);
        }
    }

    fn place(&self, key: Key) -> &AtomicU64 {
        &self.0[(key.0 as usize) % PLACES]
    }

    fn print(key: Key) -> u64 {
        (key.0 >> 64) as u64 & !0xff_ffff
    }

    fn tenths(at: Millis) -> u64 {
        (at / 100) & 0xff_ffff
    }
}
