//! One question to the origin for all who ask the same meanwhile (request collapsing). Who asked first leads; the
//! others get the body as it comes, from its first byte. It never decides what may be shared.

use std::sync::Arc;

use cache::{reusing, status::CacheStatus, store::Store, stored::Entry, Millis};
use http::{request::Parts, Response};
use tokio::sync::watch;

use super::{
    answer::{self, StoredAnswer},
    cache_request::CacheRequest,
    flight::{Flight, Flights, Phase, Share},
    now, SiteCache,
};
use crate::{content::body::ResponseBody, support::clock};

impl Flights {
    /// The question that `wanted` may wait for. What was asked before a change (an unsafe request, a purge) answers
    /// no later request.
    pub fn find(&self, wanted: &CacheRequest, store: &Store<Entry>) -> Option<Arc<Flight>> {
        let flight = self.shard(wanted.key).get(&wanted.key).cloned()?;
        let own = wanted.visitor.and_then(|visitor| visitor.tag());
        let is_over = flight.until != Millis::MAX && flight.until <= clock::unix_millis();
        if is_over || store.may_be_purged_since(flight.began, &wanted.url, own.as_deref()) {
            self.end(&flight);
            return None;
        }
        Some(flight)
    }

    /// Makes the request the one that asks. Some: another does already.
    pub fn lead(&self, wanted: &mut CacheRequest, store: &Store<Entry>) -> Option<Arc<Flight>> {
        let began = store.moment();
        let mut shard = self.shard(wanted.key);
        if let Some(flight) = shard.get(&wanted.key) {
            return Some(flight.clone());
        }
        let phase = watch::Sender::new(Phase::Asked);
        let flight = Flight { key: wanted.key, began, began_at: clock::now(), until: wanted.until, phase };
        let flight = Arc::new(flight);
        shard.insert(wanted.key, flight.clone());
        wanted.flight = Some(flight);
        None
    }
}

impl SiteCache {
    /// The others may have it. It stays open for more until `landed`.
    pub(super) fn share(&self, wanted: &CacheRequest, share: Share) {
        if let Some(flight) = &wanted.flight {
            flight.phase.send_replace(Phase::Shared(Arc::new(share)));
        }
    }

    /// Waits for somebody else's answer. None: it is not for this request, which is to be passed on.
    pub async fn join(
        self: &Arc<Self>,
        flight: Arc<Flight>,
        wanted: &mut CacheRequest,
        head: &Parts,
    ) -> Option<Response<ResponseBody>> {
        let mut phase = flight.phase.subscribe();
        let known = phase.wait_for(|phase| !matches!(phase, Phase::Asked)).await.ok()?.clone();
        let Phase::Shared(share) = known else {
            wanted.storable = true;
            return None;
        };
        let variant = self.cache.keys.variant(share.primary, &share.stored.nominated, &head.headers);
        if variant != share.variant || share.primary != wanted.primary {
            return None;
        }
        let mut status = CacheStatus { collapsed: true, ..wanted.status };
        if let Some(failed) = share.instead_of {
            if !reusing::may_stand_in(&share.stored, &wanted.wishes, now()) {
                return None;
            }
            status.hit = true;
            status.ttl = Some(reusing::ttl(&share.stored, now()));
            (status.forward_status, status.detail) = (Some(failed), Some("stale-if-error"));
        }
        let answering = StoredAnswer { cache: &self.cache, key: variant, stored: &share.stored, head, now: now() };
        let mut response = match &share.body {
            None => answer::stored(&answering)?,
            Some(body) => {
                if asks_for_less(head) {
                    // What is wanted of it is known when it is there.
                    let stored = body.whole().await?;
                    let answering = StoredAnswer { stored: &stored, ..answering };
                    answer::stored(&answering)?
                } else {
                    let mut response = answer::stored(&answering)?;
                    *response.body_mut() = ResponseBody::stream(body.reader()?);
                    response.extensions_mut().remove::<crate::content::compress::Memo>();
                    response
                }
            }
        };
        if share.stored.freshness.age(now()) < 1000 {
            response.headers_mut().remove(http::header::AGE);
        }
        response.extensions_mut().insert(status);
        Some(response)
    }
}

fn asks_for_less(head: &Parts) -> bool {
    use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE].iter().any(|name| head.headers.contains_key(name))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::{
        caching::Lookup,
        exchange::{Connection, Exchange},
        support::clock::Micros,
    };

    fn site() -> Arc<SiteCache> {
        SiteCache::of_test(Vec::new())
    }

    fn look(site: &Arc<SiteCache>) -> Lookup {
        look_as_of(site, clock::now())
    }

    fn look_as_of(site: &Arc<SiteCache>, arrived: Micros) -> Lookup {
        let request = Request::builder().uri("/beers").header("host", "shop.test").body(()).unwrap();
        let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
        let mut exchange = Exchange::begin(Arc::new(connection), None, None, None);
        exchange.timeline.head_read = arrived;
        site.look(&request.into_parts().0, false, &exchange)
    }

    /// A client that leaves, a page that another cache answers: nobody may wait for an answer that was never asked for.
    #[test]
    fn a_request_that_is_given_up_before_it_is_asked_lets_go_of_the_others() {
        let site = site();
        let first = look(&site);
        assert!(matches!(first, Lookup::Fetch(_)));
        let Lookup::Collapsed(flight, _) = look(&site) else { panic!("it waits for the first") };
        drop(first);
        assert!(matches!(*flight.phase.borrow(), Phase::Released));
        assert!(matches!(look(&site), Lookup::Fetch(_)), "the next one asks");
    }

    /// What the front that is cut off has not heard may be a purge that was confirmed without it.
    #[test]
    fn cut_off_from_the_cluster_nobody_joins_what_began_before() {
        let site = site();
        let (publish, _published) = tokio::sync::mpsc::unbounded_channel();
        site.cache.share(publish);
        let began = clock::now();
        let first = look(&site);
        assert!(matches!(first, Lookup::Fetch(_)));
        let later = clock::now() + 1_000_000;
        let Lookup::After(flight) = look_as_of(&site, later) else { panic!("it waits until the other is over") };
        assert!(matches!(look_as_of(&site, began - 1), Lookup::Collapsed(..)), "it came before that began");
        drop(first);
        assert!(!flight.is_asked() && matches!(look_as_of(&site, later), Lookup::Fetch(_)));
        site.cache.show_until(Millis::MAX);
        let first = look(&site);
        assert!(matches!(look_as_of(&site, later), Lookup::Collapsed(..)), "it knows of all purges");
        drop(first);
    }
}
