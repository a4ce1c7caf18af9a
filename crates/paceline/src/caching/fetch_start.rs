//! When a question to the origin began, by which it is known whether its answer may still be stored. It asks nothing.

use cache::{store::Moment, Millis};

use super::{now, SiteCache};
use crate::{
    exchange::Exchange,
    support::clock::{self, Micros},
};

/// When a question to the origin began (`wall`: the time of day); see `SiteCache::passed`.
#[derive(Clone, Copy)]
pub struct FetchStart {
    pub(super) request_time: u64,
    pub(super) wall: Millis,
    pub(super) began: Micros,
    pub(super) moment: Moment,
}

impl FetchStart {
    /// Once it is answered. What a canary has made is stored nowhere: most visitors are to get the old code's pages, and it may be
    /// taken back.
    pub fn answered(self, exchange: &Exchange) -> FetchStart {
        if exchange.worker.by_canary {
            FetchStart { moment: Moment::NEVER, ..self }
        } else {
            self
        }
    }

    /// Whether its answer may be stored.
    pub(super) fn may_be_stored(&self) -> bool {
        self.moment != Moment::NEVER
    }
}

impl SiteCache {
    /// Before a request is passed on.
    pub fn begin(&self) -> FetchStart {
        let wall = clock::unix_millis();
        FetchStart { request_time: now(), wall, began: clock::now(), moment: self.cache.store.moment() }
    }
}
