//! A request with what the cache knows of its target, on its way to the origin and back. It never looks anything up.

use std::sync::Arc;

use cache::{
    directives::RequestDirectives,
    status::CacheStatus,
    store::Key,
    stored::{Entry, Stored},
    Millis,
};

use super::{
    flight::{Flight, FlightLead},
    sessions::Visitor,
    tier::TierLease,
    Purging,
};

/// A request, and what the cache knows of its target.
pub struct CacheRequest {
    pub(super) url: Arc<str>,
    /// The key of the target.
    pub(super) primary: Key,
    /// The key that a response to this request is looked up by, as far as it is known what responses vary by.
    pub(super) key: Key,
    pub(super) directory: Option<Arc<Entry>>,
    /// What is there, but has to be validated.
    pub(super) stored: Option<Arc<Stored>>,
    pub(super) wishes: RequestDirectives,
    pub(super) status: CacheStatus,
    /// Others may share the answer.
    pub(super) shareable: bool,
    /// The answer may be stored.
    pub(super) storable: bool,
    pub(super) visitor: Option<Visitor>,
    /// What parts its key from others of the same target.
    pub(super) partition: Vec<u8>,
    /// It is the page of all who come by the same proxies. None: it is the page of one visitor, which nobody can prepare.
    pub(super) for_all: Option<ForAll>,
    /// The path, for rules and counters.
    pub(super) path: String,
    pub(super) flight: Option<Arc<Flight>>,
    /// Lets go of those who wait, if the request is answered in another way or given up before it is asked.
    pub(super) leading: Option<FlightLead>,
    /// An answer that is asked for now is not given to those who ask from this time of day on.
    pub(super) until: Millis,
    /// What the request has purged, until it is so on disk and on other fronts.
    pub(super) purging: Vec<Purging>,
    /// The other fronts wait for its answer.
    pub(super) lease: Option<Box<TierLease>>,
}

impl CacheRequest {
    /// The origin is not to be asked at all (only-if-cached).
    pub fn only_if_cached(&self) -> bool {
        self.wishes.only_if_cached
    }

    /// Whether a stored response is whole.
    pub(super) fn has_whole(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.whole().is_some())
    }
}

/// What is under a target's keys.
pub(super) struct StoredTarget {
    pub(super) key: Key,
    pub(super) directory: Option<Arc<Entry>>,
    pub(super) stored: Option<Arc<Stored>>,
}

/// Who shares a page with all who come by the same proxies.
#[derive(Debug, Clone, Default)]
pub struct ForAll {
    /// What these said, which is in the partition.
    pub by_proxies: Vec<u8>,
    /// The network that asks.
    pub asker: u64,
}
