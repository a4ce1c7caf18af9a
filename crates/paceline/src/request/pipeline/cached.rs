//! Acts on the lookup: hit, revalidate, fetch, collapse or bypass.
//! It decides nothing of what may be stored.

use std::sync::Arc;

use cache::status::CacheStatus;
use http::{request::Parts, Response, StatusCode};

use super::origin::{self, has_body};
use crate::{
    caching::{Fetch, Lookup, OriginAnswer, SiteCache},
    content::body::ResponseBody,
    exchange::{incoming::Arriving, Exchange, Offers},
    observe::in_flight::{Listed, Step},
    request::{errors, route::Site},
    support::clock,
};

/// The response to a request that the cache was asked for.
pub async fn answer(
    site: &Arc<Site>,
    cache: &Arc<SiteCache>,
    head: &Parts,
    body: Option<Arriving>,
    mut looked: Lookup,
    exchange: &mut Exchange,
) -> Response<ResponseBody> {
    if let Lookup::DiskLookup(absent) = &looked {
        cache.recall(absent, &head.headers).await;
        looked = cache.look_again(head, has_body(body.as_ref()), exchange);
    }
    let wanted = loop {
        match looked {
            Lookup::Hit(response) => return response,
            Lookup::StaleWhileRevalidate(response, wanted) => {
                // In nobody's name: who asked has had his answer.
                let unattended = Exchange { offers: Offers::default(), live: Listed::default(), ..exchange.branch() };
                tokio::spawn(cache.lead(wanted, head.clone(), unattended, fetch(site)));
                return response;
            }
            Lookup::Fetch(wanted) => {
                let asking = cache.lead(wanted, head.clone(), exchange.branch(), fetch(site));
                let OriginAnswer { response, exchange: branch } = asking.await;
                exchange.join(branch);
                return response;
            }
            Lookup::After(flight) => {
                exchange.live.step(Step::Waiting, clock::now());
                flight.answered().await;
                looked = cache.look_again(head, has_body(body.as_ref()), exchange);
            }
            Lookup::Collapsed(flight, mut wanted) => {
                exchange.live.step(Step::Waiting, clock::now());
                match cache.join(flight, &mut wanted, head).await {
                    Some(response) => return response,
                    None => break wanted,
                }
            }
            Lookup::Bypass(wanted) | Lookup::DiskLookup(wanted) => break wanted,
        }
    };
    if wanted.only_if_cached() {
        let sentence = "This page is not in the cache, and no other was asked for.";
        let mut response = errors::status(site, head, exchange, StatusCode::GATEWAY_TIMEOUT, sentence);
        response.extensions_mut().insert(CacheStatus { detail: Some("only-if-cached"), ..CacheStatus::default() });
        return response;
    }
    let began = cache.begin();
    let response = origin::ask(site, head, body, exchange).await;
    cache.passed(wanted, head, response, began.answered(exchange)).await
}

/// How the cache asks for what many want: without a body, and to the end.
fn fetch(site: &Arc<Site>) -> Fetch {
    let site = site.clone();
    Arc::new(move |head, mut exchange| {
        let site = site.clone();
        Box::pin(async move {
            let response = origin::ask(&site, &head, None, &mut exchange).await;
            OriginAnswer { response, exchange }
        })
    })
}
