//! A request's way, as a list: client, proof of a host, route, redirect to https, static file, cache lookup, worker or upstream, fragments, answer.
//! Each step lives in a room of its own; here they are composed, and here alone is the order decided.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use cache::status::CacheStatus;
use http::{header, request::Parts, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;

use crate::{
    caching::{Fetch, Fetched, Looked, SiteCache},
    content::{body::ResponseBody, compress, fragments},
    edge::acme::http_01,
    front::Front,
    observe::{
        in_flight::{Listed, Step},
        metrics::Kind,
    },
    request::{
        errors,
        exchange::{Connection, Exchange, Hints, Hold, Upgrade},
        finish::{self, Record},
        forwarded, http2_message, https_only,
        incoming::{self, BodyPace, RequestBody},
        route::Site,
    },
    support::clock,
    upstream,
    workers::dispatch,
};
use http_guard::{host, strict::Refusal};
use unix_user::{acting, Acting};

/// A request that is being answered, or has been: what the cache answers needs no future with room for all the rest.
///
/// It is moved once or twice; a box for the answer would cost more.
#[allow(clippy::large_enum_variant)]
pub enum Running {
    Answered(Option<Response<ResponseBody>>),
    Asking(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>),
}

impl Future for Running {
    type Output = Response<ResponseBody>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<ResponseBody>> {
        match self.get_mut() {
            Running::Answered(response) => response.take().map_or(Poll::Pending, Poll::Ready),
            Running::Asking(asking) => asking.as_mut().poll(cx),
        }
    }
}

/// What a connection lends to an exchange.
pub struct Link {
    /// Where interim responses go. None: they can't be sent.
    pub hints: Option<Hints>,
    /// Counts as a request in flight for as long as it is held.
    pub hold: Option<Hold>,
    /// The time that the request's body has, where the connection does not know it by itself.
    pub pace: Option<Box<dyn BodyPace>>,
}

/// Answers one request. Always: whatever goes wrong is an answer too.
pub fn run(server: Arc<Front>, connection: Arc<Connection>, mut request: Request<Incoming>, link: Link) -> Running {
    let Link { hints, hold, pace } = link;
    let client = forwarded::client(request.headers_mut(), &connection, &server.config.trusted_proxies);
    let is_http2 = request.version() == Version::HTTP_2;
    let admitted = if is_http2 { http2_message::admit(&mut request, &server.config.client.heads) } else { Ok(()) };
    // HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
    let hints = hints.filter(|_| request.version() == Version::HTTP_11);
    let web_socket = http2_message::is_web_socket(request.extensions());
    let upgrade = request.headers().contains_key(header::UPGRADE).then(|| Upgrade {
        on: hyper::upgrade::on(&mut request),
        stream: hold,
        live: Listed::default(),
    });
    let mut exchange = Exchange::begin(connection, request.headers().get("x-request-id"), hints, upgrade);
    exchange.client = client;
    let (mut head, body) = request.into_parts();
    let body = incoming::Arriving::new(body, pace);
    exchange.trace = server.tracer.as_ref().map(|tracer| tracer.begin(&mut head.headers));
    let asked = compress::Asked::of(&head.method, &head.headers);

    // route
    let host = exchange.client.host.clone().unwrap_or_else(|| host::host(&head).into_owned());
    let site = server.routes().find(host::split_host(&host).0).cloned();
    exchange.site = site.as_ref().map(|site| site.metrics.clone());
    if let Some(capability) = site.as_deref().and_then(fragments::capability) {
        head.headers.append(fragments::SURROGATE_CAPABILITY, capability);
    }
    let at_once = at_once(&server, admitted, &head, &host, site.as_deref(), &mut exchange);
    let mut looked = match (&at_once, &site) {
        (None, Some(site)) => look_ahead(site, &head, &body, &exchange),
        _ => None,
    };
    let mut record = Record::begin(exchange, &head, &server);
    let closing = site.clone();
    let close = move |mut response: Response<ResponseBody>, record: Record| {
        let site = closing;
        if let Some((config, age)) = site.as_ref().and_then(|site| Some((&site.config, site.config.hsts?))) {
            if record.exchange.client.https {
                https_only::promise(response.headers_mut(), age, config.hsts_subdomains);
            }
        }

        // compress
        let mut response = match site.as_ref().and_then(|site| site.config.compress) {
            Some(settings) => compress::response(&asked, settings, response),
            None => response,
        };

        // write, log
        if is_http2 {
            http2_message::answer(&mut response, web_socket);
        }
        finish::response(response, record, site.as_deref())
    };
    let answered = looked.as_mut().and_then(Looked::answer_as_it_is);
    if let Some((mut response, cache)) = answered.zip(site.as_ref().and_then(|site| site.cache.as_ref())) {
        record.exchange.cache = Some(cache.tell(head.uri.path(), &mut response));
        return Running::Answered(Some(close(response, record)));
    }
    record.exchange.list(&head.method, &head.uri);
    Running::Asking(Box::pin(async move {
        let response = match (at_once, &site) {
            (Some(response), _) => response,
            (None, Some(site)) => steps(&server, site, &head, body, looked, &mut record.exchange).await,
            (None, None) => errors::unknown_host(&server, &head, &host, &mut record.exchange),
        };
        close(response, record)
    }))
}

/// What the cache has, where nothing goes before it: no limit of requests, and no file that might be there.
fn look_ahead(site: &Site, head: &Parts, body: &incoming::Arriving, exchange: &Exchange) -> Option<Looked> {
    let cache = site.cache.as_ref()?;
    let no_file = site.folder.as_ref().is_none_or(|folder| folder.lacks(head.uri.path()));
    (no_file && site.rate_limits.is_empty()).then(|| cache.look(head, has_body(Some(body)), exchange))
}

fn has_body(body: Option<&incoming::Arriving>) -> bool {
    body.is_some_and(|body| !body.is_end_stream())
}

/// What is answered before the site is asked.
fn at_once(
    server: &Front,
    admitted: Result<(), http2_message::Refused>,
    head: &Parts,
    host: &str,
    site: Option<&Site>,
    exchange: &mut Exchange,
) -> Option<Response<ResponseBody>> {
    if let Err(refused) = admitted {
        return Some(errors::refused(head, exchange, refused.0, refused.1));
    }
    // An authority that asks whether a host is served here goes before redirect and host.
    if let Some(proof) = http_01::answer(server.automatic.as_deref(), head) {
        return Some(proof);
    }
    if head.method == Method::CONNECT {
        return Some(errors::no_tunnel(head, exchange));
    }
    if !site?.config.redirect_https || exchange.client.https {
        return None;
    }
    let redirect = https_only::redirect(head, host, &exchange.client, server.https_port);
    Some(
        redirect
            .unwrap_or_else(|| errors::refused(head, exchange, StatusCode::BAD_REQUEST, "This request names no host.")),
    )
}

/// Answers what was no request beyond doubt; `request` only stands in its place.
pub fn refuse(
    server: &Front,
    connection: Arc<Connection>,
    request: Request<Incoming>,
    refusal: Refusal,
) -> Response<ResponseBody> {
    let exchange = Exchange::begin(connection, None, None, None);
    let mut record = Record::begin(exchange, &request.into_parts().0, server);
    let response = errors::malformed(&mut record.exchange, refusal);
    finish::response(response, record, None)
}

async fn steps(
    server: &Arc<Front>,
    site: &Arc<Site>,
    head: &Parts,
    body: incoming::Arriving,
    looked: Option<Looked>,
    exchange: &mut Exchange,
) -> Response<ResponseBody> {
    // rate limit
    let now = Duration::from_micros(exchange.timeline.head_read);
    if let Err(wait) = site.rate_limits.admit(exchange.client.address, head.uri.path(), now) {
        return errors::too_often(site, head, exchange, wait);
    }

    let response = from_site(site, head, Some(body), looked, exchange).await;
    let mut response = match response {
        Given::Finished(response) => return response,
        Given::Cached(response) => response,
    };

    // fragments
    if fragments::asks(response.headers_mut()) && site.config.esi.is_some() {
        // On the heap, so that other pages have no room for it.
        return Box::pin(fragments::answer(server, site, head, exchange, response, include())).await;
    }
    response
}

/// What a site says of itself, and what it says through the cache.
enum Given {
    Finished(Response<ResponseBody>),
    Cached(Response<ResponseBody>),
}

async fn from_site(
    site: &Arc<Site>,
    head: &Parts,
    body: Option<incoming::Arriving>,
    looked: Option<Looked>,
    exchange: &mut Exchange,
) -> Given {
    // static file
    let folder = site.folder.as_ref().filter(|folder| !folder.lacks(head.uri.path()));
    if let (Some(folder), Some(read_as)) = (folder, &site.read_as) {
        if let Some(response) = Acting::new(read_as.clone(), Box::pin(folder.answer(head))).await {
            exchange.kind = Kind::Static;
            return Given::Finished(response.map(ResponseBody::stream));
        }
        let not_allowed = || acting(read_as, || folder.method_not_allowed(head));
        if let Some(response) = site.is_files().then(not_allowed).flatten() {
            exchange.kind = Kind::Static;
            return Given::Finished(response.map(ResponseBody::stream));
        }
    }
    if site.is_files() {
        exchange.kind = Kind::Static;
        let sentence = "There is no such file here.";
        return Given::Finished(errors::status(site, head, exchange, StatusCode::NOT_FOUND, sentence));
    }

    // cache lookup
    let Some(cache) = &site.cache else { return Given::Finished(ask(site, head, body, exchange).await) };
    let looked = looked.unwrap_or_else(|| cache.look(head, has_body(body.as_ref()), exchange));
    let mut response = cached(site, cache, head, (body, looked), exchange).await;
    exchange.cache = Some(cache.tell(head.uri.path(), &mut response));
    Given::Cached(response)
}

/// How a fragment is asked for: as a page of its site, from rate limit to cache.
fn include() -> fragments::Ask {
    Arc::new(|site, head, mut exchange| {
        Box::pin(async move {
            let now = Duration::from_micros(clock::now());
            if let Err(wait) = site.rate_limits.admit(exchange.client.address, head.uri.path(), now) {
                let response = errors::too_often(&site, &head, &mut exchange, wait);
                return (response, exchange.note);
            }
            let (Given::Finished(response) | Given::Cached(response)) =
                from_site(&site, &head, None, None, &mut exchange).await;
            (response, exchange.note)
        })
    })
}

/// By what the cache has, and what it has not.
async fn cached(
    site: &Arc<Site>,
    cache: &Arc<SiteCache>,
    head: &Parts,
    (body, mut looked): (Option<incoming::Arriving>, Looked),
    exchange: &mut Exchange,
) -> Response<ResponseBody> {
    if let Looked::Absent(absent) = &looked {
        cache.recall(absent, &head.headers).await;
        looked = cache.look_again(head, has_body(body.as_ref()), exchange);
    }
    let wanted = match looked {
        Looked::Answer(response) => return response,
        Looked::Refresh(response, wanted) => {
            // In nobody's name: who asked has had his answer.
            let unattended = Exchange { hints: None, live: Listed::default(), ..exchange.branch() };
            tokio::spawn(cache.lead(wanted, head.clone(), unattended, fetch(site)));
            return response;
        }
        Looked::Lead(wanted) => {
            let asking = cache.lead(wanted, head.clone(), exchange.branch(), fetch(site));
            let Fetched { response, exchange: branch } = asking.await;
            exchange.join(branch);
            return response;
        }
        Looked::Join(flight, mut wanted) => {
            exchange.live.step(Step::Waiting, clock::now());
            match cache.join(flight, &mut wanted, head).await {
                Some(response) => return response,
                None => wanted,
            }
        }
        Looked::Pass(wanted) | Looked::Absent(wanted) => wanted,
    };
    if wanted.only_if_cached() {
        let sentence = "This page is not in the cache, and no other was asked for.";
        let mut response = errors::status(site, head, exchange, StatusCode::GATEWAY_TIMEOUT, sentence);
        response.extensions_mut().insert(CacheStatus { detail: Some("only-if-cached"), ..CacheStatus::default() });
        return response;
    }
    let began = cache.begin();
    let response = ask(site, head, body, exchange).await;
    cache.passed(wanted, head, response, began).await
}

/// How the cache asks for what many want: without a body, and to the end.
fn fetch(site: &Arc<Site>) -> Fetch {
    let site = site.clone();
    Arc::new(move |head, mut exchange| {
        let site = site.clone();
        Box::pin(async move {
            let response = ask(&site, &head, None, &mut exchange).await;
            Fetched { response, exchange }
        })
    })
}

/// Asks the app.
async fn ask(
    site: &Site,
    head: &Parts,
    body: Option<incoming::Arriving>,
    exchange: &mut Exchange,
) -> Response<ResponseBody> {
    // A fragment, or a page that is asked for again in nobody's name, is listed from here.
    exchange.list(&head.method, &head.uri);

    // body
    if has_body(body.as_ref()) {
        exchange.live.step(Step::ReadingBody, clock::now());
    }
    let limits = incoming::Limits {
        max: site.config.max_body,
        memory: site.config.body_memory,
        buffer: site.config.buffer_requests,
    };
    let body = match body {
        Some(body) => match incoming::read(body, limits).await {
            Ok(body) => body,
            Err(unread) => return errors::unread(site, head, exchange, unread),
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
    match (&site.app, &site.upstream) {
        (Some(app), _) => match dispatch::run(app.as_ref(), head, body, exchange).await {
            Ok(response) => errors::from_app(site, head, exchange, response).await,
            Err(failure) => errors::failure(site, head, exchange, failure),
        },
        // On the heap, so that requests to apps have no room for it.
        (None, Some(upstream)) => match Box::pin(upstream::run(upstream, head, body, exchange)).await {
            Ok(response) => response,
            Err(failure) => errors::upstream_failure(site, head, exchange, failure),
        },
        (None, None) => errors::status(site, head, exchange, StatusCode::NOT_FOUND, "There is nothing here."),
    }
}
