//! Questions to the origin that are under way, each for all who ask the same meanwhile. When the answer turns out to be
//! nobody else's, they all go at once. It never decides what may be shared.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use cache::{
    store::{Key, Moment},
    stored::Stored,
    Millis,
};
use http::{request::Parts, Response};
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::watch};

use super::{streaming::SharedBody, SiteCache};
use crate::{content::body::ResponseBody, exchange::Exchange, support::clock::Micros};

/// What the origin answered, and the exchange it was asked in.
pub struct OriginAnswer {
    pub response: Response<ResponseBody>,
    pub exchange: Exchange,
}

/// How the origin is asked. A failure is an answer too: with a status from 500 on.
pub type Fetch = Arc<dyn Fn(Parts, Exchange) -> Pin<Box<dyn Future<Output = OriginAnswer> + Send>> + Send + Sync>;

/// A question to the origin that others wait for.
pub struct Flight {
    pub(super) key: Key,
    pub(super) began: Moment,
    /// When it began, by the timeline's clock.
    pub(super) began_at: Micros,
    /// Those who ask from this time of day on want another answer.
    pub(super) until: Millis,
    pub(super) phase: watch::Sender<Phase>,
}

/// How far it is.
#[derive(Clone)]
pub enum Phase {
    Asked,
    /// The answer may be shared.
    Shared(Arc<Share>),
    /// It may not: everybody for himself.
    Released,
}

/// An answer that those who wait may have.
pub struct Share {
    pub stored: Arc<Stored>,
    /// What the origin failed with; the stored response stands in for it.
    pub instead_of: Option<u16>,
    /// The body, if it is still on its way.
    pub body: Option<Arc<SharedBody>>,
    pub primary: Key,
    /// The key of those whose nominated fields select it.
    pub variant: Key,
}

impl Flight {
    /// Whether it began after a request came.
    pub fn began_after(&self, arrived: Micros) -> bool {
        self.began_at > arrived
    }

    /// Whether the origin has not answered yet.
    pub fn is_asked(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Asked)
    }

    /// Waits until the origin has answered, or nobody asks any more.
    pub async fn answered(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| !matches!(phase, Phase::Asked)).await;
    }
}

const SHARDS: usize = 16;

/// The questions that are under way.
#[derive(Default)]
pub struct Flights {
    shards: [Mutex<HashMap<Key, Arc<Flight>>>; SHARDS],
}

impl Flights {
    pub(super) fn shard(&self, key: Key) -> MutexGuard<'_, HashMap<Key, Arc<Flight>>> {
        self.shards[(key.0 % SHARDS as u128) as usize].lock()
    }

    /// From now on nobody joins it.
    pub fn end(&self, flight: &Arc<Flight>) {
        let mut shard = self.shard(flight.key);
        if shard.get(&flight.key).is_some_and(|found| Arc::ptr_eq(found, flight)) {
            shard.remove(&flight.key);
        }
    }
}

impl SiteCache {
    /// It is over.
    pub(super) fn landed(&self, flight: Option<&Arc<Flight>>) {
        if let Some(flight) = flight {
            self.cache.flights.end(flight);
            flight.phase.send_if_modified(|phase| match phase {
                Phase::Asked => {
                    *phase = Phase::Released;
                    true
                }
                _ => false,
            });
        }
    }
}

/// A question that is asked to its end as long as anybody waits for the answer, whoever has asked it.
pub struct FlightGuard {
    asking: Option<Pin<Box<dyn Future<Output = OriginAnswer> + Send>>>,
    flight: Option<Arc<Flight>>,
}

impl FlightGuard {
    pub fn new(
        flight: Option<Arc<Flight>>,
        asking: impl Future<Output = OriginAnswer> + Send + 'static,
    ) -> FlightGuard {
        FlightGuard { asking: Some(Box::pin(asking)), flight }
    }
}

impl Future for FlightGuard {
    type Output = OriginAnswer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OriginAnswer> {
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let fetched = std::task::ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(fetched)
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        // Whoever comes from now on finds that it is over, and asks for himself.
        let awaited = self.flight.take().is_some_and(|flight| flight.phase.receiver_count() > 0);
        if let (true, Some(asking), Ok(runtime)) = (awaited, self.asking.take(), Handle::try_current()) {
            runtime.spawn(async move { drop(asking.await) });
        }
    }
}

/// A question that others may wait for: they are let go when this is dropped, whatever happens.
pub struct FlightLead {
    cache: Arc<SiteCache>,
    flight: Option<Arc<Flight>>,
}

impl FlightLead {
    pub fn new(cache: &Arc<SiteCache>, flight: Option<Arc<Flight>>) -> FlightLead {
        FlightLead { cache: cache.clone(), flight }
    }

    pub fn cache(&self) -> Arc<SiteCache> {
        self.cache.clone()
    }

    pub fn land(&mut self) {
        self.cache.landed(self.flight.take().as_ref());
    }

    /// For who goes on with it.
    pub fn take(&mut self) -> FlightLead {
        FlightLead { cache: self.cache.clone(), flight: self.flight.take() }
    }
}

impl Drop for FlightLead {
    fn drop(&mut self) {
        self.land();
    }
}
