//! Where a page comes from: an app's workers, or an upstream.
//! It knows no cache.

use bytes::Bytes;
use cache::invalidating::is_safe;
use http::{request::Parts, Response, StatusCode};
use http_body::Body;

use super::sampled;
use crate::{
    content::body::ResponseBody,
    exchange::{
        incoming::{self, Arriving, RequestBody},
        Exchange,
    },
    observe::{in_flight::Step, metrics::Kind},
    origins::{upstream, workers::dispatch},
    request::{errors, route::Site},
    support::clock,
};

pub fn has_body(body: Option<&Arriving>) -> bool {
    body.is_some_and(|body| !body.is_end_stream())
}

/// Reads the body, and asks the app or the upstream.
pub async fn ask(site: &Site, head: &Parts, body: Option<Arriving>, exchange: &mut Exchange) -> Response<ResponseBody> {
    // A fragment, or a page that is asked for again in nobody's name, is listed from here.
    exchange.list(&head.method, &head.uri);

    // body
    if has_body(body.as_ref()) {
        exchange.live.step(Step::ReadingBody, clock::now());
    }
    let limits = incoming::Limits {
        max: exchange.max_body.map_or(site.config.max_body, |max| (max < u64::MAX).then_some(max)),
        memory: site.config.body_memory,
        buffer: site.config.buffer_requests,
    };
    let body = match body {
        Some(body) => match incoming::read(body, limits).await {
            Ok(body) => body,
            Err(unread) => return errors::complete(site, errors::unread(site, head, exchange, unread)).await,
        },
        None => RequestBody::Memory(Bytes::new()),
    };
    exchange.timeline.body_read = clock::now();

    // queue, worker; or upstream
    exchange.kind = match (&site.app, &site.upstream) {
        (Some(_), _) => Kind::App,
        (None, Some(_)) => Kind::Upstream,
        (None, None) => Kind::Front,
    };
    let answer = match (&site.app, &site.upstream) {
        (Some(app), _) => {
            let is_empty = body.length() == Some(0);
            let acts = site.auto_cache.as_ref().filter(|_| !is_safe(&head.method));
            acts.inspect(|auto| auto.has_acted(head, exchange));
            let auto_cache = site.auto_cache.as_ref().filter(|_| is_empty);
            let watched = auto_cache.and_then(|auto| Some((auto, auto.begin(head, exchange)?)));
            let mut answered = dispatch::run(app.as_ref(), head, body, exchange).await;
            acts.inspect(|auto| auto.has_acted(head, exchange));
            if let Some((auto, watched)) = watched {
                answered = answered.map(|response| auto.observe(watched, head, exchange, response));
            }
            if app.reservoir.is_watching() {
                sampled::offer(&app.reservoir, head, is_empty, exchange, answered.as_ref().ok());
            }
            match answered {
                Ok(response) => errors::from_app(site, head, exchange, response).await,
                Err(failure) => errors::failure(site, head, exchange, failure),
            }
        }
        // On the heap, so that requests to apps have no room for it.
        (None, Some(upstream)) => match Box::pin(upstream::run(upstream, head, body, exchange)).await {
            Ok(response) => response,
            Err(failure) => errors::upstream_failure(site, head, exchange, failure),
        },
        (None, None) => errors::status(site, head, exchange, StatusCode::NOT_FOUND, "There is nothing here."),
    };
    // Here, since caches and others who wait for it may be given it, too.
    errors::complete(site, answer).await
}
