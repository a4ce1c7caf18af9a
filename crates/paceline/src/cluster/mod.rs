//! The fronts of several machines, joined by a Valkey or Redis: a purge on one of them reaches all, and a front that
//! can't know what was purged asks the application. The rules are in the crate `cluster`. It never stores a page
//! there unless `shared_cache` says so, and without `[cluster]` it connects to nothing.
//!
//! Reading order: `address` and `settings`, `error`, `primary` (which server has our keys; `stream` and `reply_limit`: a connection to it), `link` and `scripts` (what is asked at the
//! server), `following` (the journal is read and obeyed), `publishing` (own purges, and who has confirmed them),
//! `position_file` (up to where the cache on disk is purged), `own_front` (what the others have done here), `closing`
//! (maintenance of all), `rolling` (a restart of all), `report` (for `paceline cluster`), `tier` (pages that are shared),
//! `rates` (rate limits that are shared).

mod address;
mod closing;
mod error;
mod following;
mod link;
mod own_front;
mod position_file;
mod primary;
mod publishing;
mod rates;
mod reach;
mod reply_limit;
mod report;
mod rolling;
mod scripts;
mod settings;
mod stream;
mod tier;

use std::{
    path::{Path, PathBuf},
    sync::{
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
        Arc, OnceLock,
    },
    time::{Duration, Instant},
};

use ::cluster::{Follower, Member, Millis, Position, RestartProgress, Status};
use cache::store::How;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc::UnboundedReceiver, watch, Notify},
    task::AbortHandle,
};
use units::show_duration;

use crate::{
    caching::{Cache, Publication, Purge, SharedTier},
    observe::log::{Log, Name},
    support::clock,
};

use self::{
    closing::Closing, error::LinkError, link::Link, position_file::PositionFile, publishing::Numbered, rates::Rates,
    reach::Reach, report::WatchedMembers, tier::Tier,
};

pub use address::{Address, AddressError};
pub use error::SharedStateError;
pub use own_front::OwnFront;
pub use rates::RateFigures;
pub use rolling::NotBegun;
pub use settings::{Settings, SharedCache};
pub use tier::TierFigures;

/// What the last words to the others may take; and how long somebody waits until they have heard of a change.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The others are told how this front is doing not more often than this.
const STATUS_EACH: Duration = Duration::from_secs(1);

/// This front as a member of its cluster.
pub struct Cluster {
    settings: Settings,
    me: Member,
    cache: Arc<Cache>,
    log: Log,
    link: Link,
    follower: Mutex<Follower>,
    /// Up to where purges are applied.
    file: Option<PositionFile>,
    keeps_position: AtomicBool,
    own: OnceLock<Box<dyn OwnFront>>,
    event_loop: OnceLock<Handle>,
    /// Something was applied that others may wait for.
    news: Notify,
    /// How often this front has begun to say how it is doing, and the last of these times that has reached Valkey.
    begun: AtomicU64,
    told: watch::Sender<u64>,
    /// The server answers again, or does not.
    reach: Mutex<Reach>,
    /// Where it was when it answered last, if it can be at several places.
    primary: Mutex<Option<String>>,
    back: Notify,
    publications: Mutex<Option<UnboundedReceiver<Publication>>>,
    unsent: AtomicU64,
    /// How often the journal was another one: numbers of entries from before mean nothing any more.
    replaced: AtomicU64,
    /// Own purges that are in the journal and not read back yet.
    numbered: Mutex<Numbered>,
    tier: Option<Tier>,
    rates: Option<Rates>,
    closing: Mutex<Closing>,
    /// The last order to restart.
    restart: Mutex<Option<RestartProgress>>,
    status: Mutex<Option<(Instant, Status)>>,
    watched: Mutex<WatchedMembers>,
    unconfirmed: AtomicU64,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Cluster {
    /// Does not connect. From now on no page of the cache is shown without asking the application, until it is known what
    /// was purged. `folder`: that of the cache's disk; `memory`: the file of what is closed on all fronts; `inherited`: the
    /// place of a front whose cache goes on here. It reads files, so no event loop calls it.
    pub fn open(
        settings: &Settings,
        cache: Arc<Cache>,
        folder: Option<&Path>,
        memory: Option<PathBuf>,
        inherited: Option<&str>,
        log: Log,
    ) -> Arc<Cluster> {
        let (publish, publications) = tokio::sync::mpsc::unbounded_channel();
        cache.share(publish);
        let file = folder.map(|folder| PositionFile::new(folder, &settings.name));
        let me = Member {
            id: uuid::Uuid::new_v4().simple().to_string(),
            host: host(),
            pid: u64::from(std::process::id()),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Member::default()
        };
        let known = match inherited {
            // Of what the other front kept on disk it has told this, too.
            Some(place) => place.strip_prefix(&settings.name).and_then(|at| Position::parse(at.strip_prefix(' ')?)),
            None => file.as_ref().and_then(PositionFile::read),
        };
        let ttl = settings.partition_ttl.as_millis() as u64;
        let cluster = Arc::new(Cluster {
            follower: Mutex::new(Follower::new(&me.id, ttl, known)),
            link: Link::open(settings),
            tier: settings.shared_cache.map(Tier::new),
            rates: settings.shared_rate_limits.map(Rates::new),
            settings: settings.clone(),
            me,
            cache,
            log,
            file,
            keeps_position: AtomicBool::new(true),
            own: OnceLock::new(),
            event_loop: OnceLock::new(),
            news: Notify::new(),
            begun: AtomicU64::new(0),
            told: watch::Sender::default(),
            reach: Mutex::new(Reach::Unknown),
            primary: Mutex::default(),
            back: Notify::new(),
            publications: Mutex::new(Some(publications)),
            unsent: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            numbered: Mutex::default(),
            closing: Mutex::new(Closing::in_file(memory)),
            restart: Mutex::default(),
            status: Mutex::default(),
            watched: Mutex::default(),
            unconfirmed: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        if cluster.tier.is_some() {
            let tier: Arc<dyn SharedTier> = cluster.clone();
            cluster.cache.share_pages(Arc::downgrade(&tier));
        }
        cluster
    }

    /// Closes what was closed, connects, on this event loop, and stays connected.
    pub fn begin(self: &Arc<Self>, event_loop: &Handle, own: Box<dyn OwnFront>) {
        let _ = self.own.set(own);
        self.recall_closed();
        let _ = self.event_loop.set(event_loop.clone());
        let Some(publications) = self.publications.lock().take() else { return };
        let (beating, reading, saving, watching) = (self.clone(), self.clone(), self.clone(), self.clone());
        let tasks = [
            event_loop.spawn(async move { beating.beat().await }),
            event_loop.spawn(async move { reading.read().await }),
            event_loop.spawn(async move { saving.save().await }),
            event_loop.spawn(async move { watching.watch().await }),
            event_loop.spawn(publishing::run(self.clone(), publications)),
        ];
        self.tasks.lock().extend(tasks.iter().map(|task| task.abort_handle()));
        self.connect_tier();
        self.connect_rates();
    }

    /// What the shared cache has done, if there is one.
    pub fn tier_figures(&self) -> Option<TierFigures> {
        self.tier.as_ref().map(Tier::figures)
    }

    /// Up to where the cache is purged, for a front that goes on with it.
    pub fn place(&self) -> Option<String> {
        let follower = self.follower.lock();
        Some(format!("{} {}", self.settings.name, follower.applied_at()?))
    }

    /// Another front has taken over the cache: it keeps the position from now on.
    pub fn hand_over(&self) {
        self.keeps_position.store(false, Relaxed);
    }

    /// Tells the others that this front shows nothing any more. What could not be sent is lost: that is said.
    pub async fn leave(self: &Arc<Self>) {
        self.cache.show_until(0);
        // Who has something to tell gets a moment for it.
        let unsent = async {
            while self.unsent.load(Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if self.is_reached() {
            let _ = tokio::time::timeout(LAST_WORDS, unsent).await;
        }
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        let lost = self.unsent.load(Relaxed);
        if lost > 0 {
            let place = self.link.place();
            let purges = if lost == 1 { "1 purge".to_owned() } else { format!("{lost} purges") };
            let text = format!(
                "Cluster: {purges} could not be sent to {place} before the end: servers that reach it show these pages until they \
                 expire. Purge them there"
            );
            self.log.event(Name::Cluster, text);
        }
        let leaving = self.clone();
        let last_words = async move {
            // An answer may have come since.
            leaving.cache.show_until(0);
            let gone = |since| Member { has_left: true, ..leaving.myself(since) };
            let ttl = leaving.settings.partition_ttl.as_millis() as u64;
            let _ = tokio::time::timeout(LAST_WORDS, leaving.link.beat(now(), gone, ttl, "")).await;
        };
        // The connection belongs to that loop.
        if let Some(event_loop) = self.event_loop.get() {
            let _ = event_loop.spawn(last_words).await;
        }
    }

    /// After the cache was closed: all that was applied is on its disk.
    pub fn close(&self) {
        if self.keeps_position.load(Relaxed) {
            self.keep_position(true);
        }
    }

    /// How long the others are waited for, at most.
    pub fn patience(&self) -> Duration {
        self.settings.partition_ttl + Duration::from_secs(5)
    }

    /// What this front says of itself, by a connection to the server that is asked since then.
    fn myself(&self, since: Millis) -> Member {
        let applied = self.follower.lock().applied_since(since);
        Member {
            applied,
            unsent: self.unsent.load(Relaxed),
            closed: Some(self.closed_version().number),
            status: self.status(),
            restart: self.restart.lock().clone(),
            ..self.me.clone()
        }
    }

    /// Something has changed that the others are to know now.
    fn has_news(&self) {
        *self.status.lock() = None;
        self.news.notify_one();
    }

    /// Tells the others how this front is doing now. Returns when Valkey has it, or cannot be reached.
    pub async fn tell(&self) {
        let beat = self.begun.load(SeqCst) + 1;
        let mut told = self.told.subscribe();
        self.has_news();
        if self.is_reached() {
            let _ = tokio::time::timeout(LAST_WORDS, told.wait_for(|last| *last >= beat)).await.is_ok();
        }
    }

    /// How this front is doing, not older than a second.
    fn status(&self) -> Option<Status> {
        let mut known = self.status.lock();
        if known.as_ref().is_none_or(|(at, _)| at.elapsed() >= STATUS_EACH) {
            *known = self.own.get().map(|own| (Instant::now(), own.status()));
        }
        known.as_ref().map(|(_, status)| status.clone())
    }

    fn apply_purge(&self, order: ::cluster::Order) {
        use ::cluster::What;
        let how = if order.soft { How::Expire } else { How::Drop };
        let what = match order.what {
            What::Url(url) => {
                let aliases = self.own.get().map_or_else(Vec::new, |own| own.aliases(&url));
                aliases.into_iter().for_each(|alias| self.cache.purge_as_told(&Purge::Url(alias), how));
                Purge::Url(url)
            }
            What::Tag(tag) => Purge::Tag(tag),
            What::Prefix(prefix) => Purge::Prefix(prefix),
            What::All => Purge::All,
        };
        self.cache.purge_as_told(&what, how);
    }

    fn keep_position(&self, is_closed: bool) {
        let at: Option<Position> = self.follower.lock().applied_at().cloned();
        if let (Some(file), Some(at)) = (&self.file, at) {
            if self.cache.disk().is_some() && (is_closed || self.cache.is_purged_on_disk()) {
                file.write(&at, is_closed);
            }
        }
    }

    fn reached(&self) {
        self.follow();
        let before = std::mem::replace(&mut *self.reach.lock(), Reach::Reached);
        if let Reach::Lost(_) = before {
            self.log.event(
                Name::Cluster,
                format!("Cluster {}: {} is reached again", self.settings.name, self.link.place()),
            );
        }
        if !matches!(before, Reach::Reached) {
            self.back.notify_waiters();
        }
    }

    /// Says so if it is at another place now.
    fn follow(&self) {
        let Some(now) = self.link.primary() else { return };
        let before = self.primary.lock().replace(now.clone());
        if let Some(before) = before.filter(|before| *before != now) {
            let text = format!("Cluster {}: the primary is {now} now, and not {before}", self.settings.name);
            self.log.event(Name::Cluster, text);
        }
    }

    fn lost(&self, why: &LinkError) {
        if self.reach.lock().lose(&why.to_string()) {
            let (name, place) = (&self.settings.name, self.link.place());
            let ttl = show_duration(self.settings.partition_ttl);
            let text = format!(
                "Cluster {name}: {place} can't be reached: {why}. Pages are shown from the cache for {ttl}, then each is asked from \
                 the application"
            );
            self.log.event(Name::Cluster, text);
        }
    }

    fn is_reached(&self) -> bool {
        matches!(*self.reach.lock(), Reach::Reached)
    }

    /// Waits until it is known what the others have decided, or that the server does not answer; not for long.
    pub async fn settled(&self, time: Duration) {
        let known = async {
            while matches!(*self.reach.lock(), Reach::Unknown) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = tokio::time::timeout(time, known).await;
    }

    /// Why the server does not answer, if it does not.
    pub fn trouble(&self) -> Option<String> {
        self.reach.lock().trouble().map(str::to_owned)
    }
}

fn now() -> ::cluster::Millis {
    clock::age_millis()
}

/// The machine's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
