//! Where the fronts of a cluster share pages, and the permission to render one for all of them. Where the pages are is
//! hidden behind `SharedTier`. It never waits, and without a cluster there is none.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use ::cluster::{Position, SharedPage, Verdict};
use bytes::Bytes;
use cache::{
    freshness::Freshness,
    key::KeyMaker,
    record,
    status::Reason,
    store::{Key, Moment},
    stored::{Directory, Entry, Stored},
    storing::Storable,
    vary::VaryNames,
    Millis,
};
use http::{HeaderMap, StatusCode};
use tokio::task::AbortHandle;

use super::{now, Cache};

/// So many values are looked at that are of no use, or lead on: who can write there must not keep a request busy.
pub(super) const MAX_STEPS: u32 = 3;
/// Bytes of a value beside the body: its head, and what other fronts have to know.
const ROOM: u64 = 256 << 10;
/// For how long no front waits for a page that could not be shared, and for one whose like never can.
const FAILED: Duration = Duration::from_secs(1);
const NOT_SHARED: Duration = Duration::from_secs(10);

/// What is found at a key.
pub enum TierValue {
    /// A page, or what it varies by; and the time there, in milliseconds.
    Found(Bytes, Millis),
    /// There is none: this front is to render it.
    Lead(Granted),
    /// Another front renders it.
    Wait,
    /// Each front renders its own for a while.
    Alone,
}

/// Permission to render a page for all fronts.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    /// When it was given, by the clock of where the pages are, in microseconds.
    pub at: u64,
    /// The time by our clock, after it was given.
    pub known: Millis,
}

/// What is asked at a key.
#[derive(Debug, Clone)]
pub struct TierQuestion {
    pub key: Key,
    /// Of this request: it tells its permission from another's.
    pub token: Arc<str>,
    /// The beginning of a value that is of no use (`SharedPage::id`).
    pub refused: Option<Bytes>,
    /// Nor is one of more bytes.
    pub most: u64,
}

/// A page that is to be stored there.
pub struct TierWrite {
    /// The key for which the permission was given.
    pub lease: Key,
    pub token: Arc<str>,
    pub page: (Key, Vec<u8>),
    /// What leads to it.
    pub directory: Option<(Key, Vec<u8>)>,
    /// When it expires, by the clock there.
    pub expires: Millis,
}

/// What becomes of a permission without a page.
pub struct TierRelease {
    pub lease: Key,
    pub token: Arc<str>,
    /// So long nobody waits; zero: the next front gets it.
    pub alone: Duration,
    /// The page that is there is outdated.
    pub is_outdated: bool,
}

/// Where fronts share pages.
pub trait SharedTier: Send + Sync {
    /// None: it is not asked now.
    fn session(self: Arc<Self>) -> Option<Arc<dyn TierSession>>;
}

/// That place, for as long as it is one and the same server. What is sent goes there, or nowhere.
pub trait TierSession: Send + Sync {
    fn keys(&self) -> &KeyMaker;
    /// Bytes of a page, at most.
    fn max_object(&self) -> u64;
    /// None: it took too long, or failed.
    fn look(&self, question: TierQuestion) -> Pin<Box<dyn Future<Output = Option<TierValue>> + Send + '_>>;
    /// Looks, by a thread that may wait.
    fn look_and_wait(&self, question: TierQuestion) -> Option<TierValue>;
    /// Keeps a permission until the task is ended.
    fn renew(&self, lease: Key, token: Arc<str>) -> Option<AbortHandle>;
    /// In the background.
    fn write(&self, write: TierWrite);
    fn release(&self, release: TierRelease);
    /// Up to where purges are applied here. None: there are more.
    fn position(&self) -> Option<Position>;
    /// Whether a page was purged since it was asked for, and the moment for which that is true.
    fn judge(&self, since: &Position, url: &str, tags: &[Arc<str>]) -> (Verdict, Moment);
    /// What was found was of use, or not.
    fn count(&self, use_of_it: TierUse);
}

/// What a question has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierUse {
    Hit,
    Miss,
}

impl Cache {
    /// From now on pages are shared there.
    pub fn share_pages(&self, tier: Weak<dyn SharedTier>) {
        let _ = self.tier.set(tier);
    }
}

/// Another for each request, and longer than a page's serial.
pub(super) fn new_token() -> Arc<str> {
    uuid::Uuid::new_v4().simple().to_string().into()
}

/// Bytes of a value that is taken from there, or brought there, at most.
pub(super) fn most(session: &Arc<dyn TierSession>) -> u64 {
    session.max_object().saturating_add(ROOM)
}

/// The key of a target's response, as the latest response to it varies.
pub(super) fn variant(session: &Arc<dyn TierSession>, primary: Key, directory: &Directory, request: &HeaderMap) -> Key {
    let latest = directory.nominations.first();
    latest.map_or(primary, |nominated| session.keys().variant(primary, nominated, request))
}

/// What was found there under a key.
pub(super) struct TierPage<'a> {
    pub key: Key,
    pub value: &'a Bytes,
    /// By the clock there, the way back included.
    pub time: Millis,
}

/// A page that is brought there.
pub(super) struct OwnPage<'a> {
    pub key: Key,
    pub record: &'a [u8],
    /// Leads to it, unless it is the only page of its target.
    pub directory: Directory,
    pub age: Millis,
    /// It is of use for so long yet.
    pub remaining: Millis,
}

/// Permission to render a page for all fronts. Dropped without a page, it passes on to the next.
pub struct TierLease {
    session: Arc<dyn TierSession>,
    primary: Key,
    key: Key,
    token: Arc<str>,
    granted: Granted,
    /// All purges up to here were applied when the application was asked.
    since: Position,
    renewal: Option<AbortHandle>,
    is_over: bool,
}

impl TierLease {
    pub(super) fn new(
        session: Arc<dyn TierSession>,
        primary: Key,
        key: Key,
        token: Arc<str>,
        granted: Granted,
        since: Position,
    ) -> TierLease {
        let renewal = session.renew(key, token.clone());
        TierLease { session, primary, key, token, granted, since, renewal, is_over: false }
    }

    /// The page is there. `stored`: whether it was stored here. `request`: the fields that it was asked for with.
    pub(super) fn conclude(mut self, response: &Arc<Stored>, stored: Result<(), Reason>, request: &HeaderMap) {
        let now = now();
        match stored {
            Ok(()) => {}
            // The next one may be stored.
            Err(Reason::Purged | Reason::Outdated) => return self.pass_on(),
            Err(_) => return self.end(NOT_SHARED, false),
        }
        if !is_shared(response, now) || !self.fits(response.whole().map(|body| body.len() as u64)) {
            return self.end(NOT_SHARED, false);
        }
        let key = self.key_of(&response.nominated, request);
        let Some(record) = record::encode(key, &Entry::Response(response.clone())) else {
            return self.end(NOT_SHARED, false);
        };
        let directory = Directory::with(None, response.url.clone(), response.nominated.clone());
        let (age, remaining) = (response.freshness.age(now), response.freshness.remaining(now));
        self.bring(OwnPage { key, record: &record, directory, age, remaining }, now);
    }

    /// The key of a page that varies by these fields.
    pub(super) fn key_of(&self, nominated: &VaryNames, request: &HeaderMap) -> Key {
        self.session.keys().variant(self.primary, nominated, request)
    }

    /// Brings a page there, which is as old as it says at `now`.
    pub(super) fn bring(mut self, own: OwnPage, now: Millis) {
        let OwnPage { key, record, directory, age, remaining } = own;
        // An age is never too low: the time there is at least this.
        let as_of = self.granted.at / 1000 + now.saturating_sub(self.granted.known);
        let envelope = |age, record: &[u8]| {
            let page = SharedPage {
                granted: self.granted.at,
                serial: &self.token[..16],
                since: self.since.clone(),
                age,
                as_of,
                record,
            };
            page.to_bytes()
        };
        let page = envelope(age, record);
        // What no other would take is not brought there.
        if page.len() as u64 > most(&self.session) {
            return self.end(NOT_SHARED, false);
        }
        let directory = (key != self.primary).then(|| {
            let record = record::encode(self.primary, &Entry::Directory(directory))?;
            Some((self.primary, envelope(0, &record)))
        });
        let (lease, token, directory) = (self.key, self.token.clone(), directory.flatten());
        self.finish();
        self.session.write(TierWrite { lease, token, page: (key, page), directory, expires: as_of + remaining });
    }

    /// Whether a body of this length may be shared.
    pub(super) fn fits(&self, length: Option<u64>) -> bool {
        length.is_none_or(|length| length <= self.session.max_object())
    }

    /// Whether a page may be shared that begins like this.
    pub(super) fn may_share(&self, status: StatusCode, storable: &Storable, length: Option<u64>) -> bool {
        let is_fresh = storable.freshness.is_fresh(now());
        is_fresh && is_for_others(status, &storable.freshness, &storable.headers) && self.fits(length)
    }

    /// No answer that could be shared: those who wait ask for themselves.
    pub(super) fn let_all_go(mut self) {
        self.end(FAILED, false);
    }

    /// Nor could any other. What is there is outdated if `is_outdated`.
    pub(super) fn end_unshared(mut self, is_outdated: bool) {
        self.end(NOT_SHARED, is_outdated);
    }

    /// The next front gets it.
    pub(super) fn pass_on(mut self) {
        self.end(Duration::ZERO, false);
    }

    /// Whether it was over already.
    fn finish(&mut self) -> bool {
        self.renewal.take().iter().for_each(AbortHandle::abort);
        std::mem::replace(&mut self.is_over, true)
    }

    fn end(&mut self, alone: Duration, is_outdated: bool) {
        if !self.finish() {
            let (lease, token) = (self.key, self.token.clone());
            self.session.release(TierRelease { lease, token, alone, is_outdated });
        }
    }
}

impl Drop for TierLease {
    fn drop(&mut self) {
        self.end(Duration::ZERO, false);
    }
}

/// Whether a page may be shown by other fronts: it answers as it is, and all they have to know of it is in it.
pub(super) fn is_shared(response: &Stored, now: Millis) -> bool {
    let is_for_others = is_for_others(response.status, &response.freshness, &response.headers);
    response.whole().is_some() && response.is_fresh(now) && is_for_others
}

/// As far as its head says.
fn is_for_others(status: StatusCode, freshness: &Freshness, headers: &HeaderMap) -> bool {
    // Its URL is one of several, which only the front knows that has asked.
    let is_one_of_several = headers.contains_key("no-vary-search");
    let holds = !freshness.no_cache && !freshness.holds.is_bounded();
    status != StatusCode::PARTIAL_CONTENT && holds && !is_one_of_several
}
