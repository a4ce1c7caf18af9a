//! How a request enters the queue: it is given an idle thread, posted behind another one, or waits in the line.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{lease::QueuePlace, pipe::Offer, Again, Class, Lease, Queue, Refused, RequestLine, Waiter};

/// How a request enters the queue.
pub(super) enum Entry {
    Leased(Box<Lease>),
    Waiting(QueuePlace),
}

impl Queue {
    /// Waits for a worker thread for this request. One that was handed over before, and whose
    /// worker died, comes `again`: it goes to the head, and takes none of the channels that worker left behind. One
    /// that is offered may be posted behind another one. Dropping the future leaves the queue.
    pub async fn checkout(
        self: &Arc<Self>,
        request: RequestLine<'_>,
        patience: Duration,
        again: Option<Again>,
        offer: Option<Offer>,
    ) -> Result<Lease, Refused> {
        self.checkout_as(Class::Visitor, request, patience, again, offer).await
    }

    /// `checkout` for a request of this class. A crawler's is never posted; once a worker has died with it, it is as any other.
    pub async fn checkout_as(
        self: &Arc<Self>,
        class: Class,
        request: RequestLine<'_>,
        patience: Duration,
        again: Option<Again>,
        offer: Option<Offer>,
    ) -> Result<Lease, Refused> {
        let entry = match (class, again) {
            (Class::Crawler { is_patient }, None) => self.join_crawlers(request, is_patient),
            _ => self.join_line(request, again, offer),
        };
        match entry? {
            Entry::Leased(lease) => Ok(*lease),
            Entry::Waiting(place) => place.lease(patience).await,
        }
    }

    fn join_line(
        self: &Arc<Self>,
        request: RequestLine<'_>,
        again: Option<Again>,
        offer: Option<Offer>,
    ) -> Result<Entry, Refused> {
        let now = self.now();
        let mut inner = self.lock();
        inner.rest.visitor_comes(now);
        let route = inner.expectations.know(request);
        let expected = inner.expectations.expected(route, now);
        let free = inner.line.is_free(expected.long);
        let offer = offer.filter(|_| again.is_none());
        let wait = |give| Waiter { route, expected, again, since: now, offer: offer.clone(), give };
        let full = inner.line.len() + inner.posted() >= self.max && again.is_none();
        if offer.is_some() && free && !full && !inner.has_resting_worker() {
            let place = inner.line.reserve(expected, now);
            let (give, receive) = oneshot::channel();
            if inner.line.is_first(place) && inner.follow(place, wait(give), now).is_ok() {
                return Ok(Entry::Waiting(QueuePlace { queue: self.clone(), offer, place, receive }));
            }
        }
        if free {
            if let Some(lease) = self.idle_channel(&mut inner, route, expected, again, offer.as_ref(), now) {
                return Ok(Entry::Leased(Box::new(lease)));
            }
        }
        if full {
            return Err(Refused::Full);
        }
        let (give, receive) = oneshot::channel();
        let place = match again {
            Some(_) => inner.line.rejoin(wait(give)),
            None => inner.line.join(expected, now, wait(give)),
        };
        // Those at the head may wait to be alone, and hold back nobody.
        self.settle(&mut inner, None);
        Ok(Entry::Waiting(QueuePlace { queue: self.clone(), offer: offer.clone(), place, receive }))
    }
}
