//! A request's way, as a list. Each step lives in a room of its own; here they are composed, and here alone is the
//! order decided.
//!
//! Reading order: `run` (from the connection to the answer), `admit` (what is answered before a site is asked), `hit`
//! (the fast path), `answer` (all the rest), `ruled` (`[[rule]]` and maintenance), `gate` (single sign-on), then `cached` (by what the cache has), `origin` (the app or the
//! upstream) and `sampled` (what a doctor wants to know of it).

// Err is an answer, which is moved once; a box for each would cost more.
#![allow(clippy::result_large_err)]

mod cached;
mod gate;
mod hit;
mod origin;
mod ruled;
mod sampled;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{header, request::Parts, HeaderName, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use self::hit::Ahead;
use crate::{
    caching,
    content::{body::ResponseBody, live_reload::PageRequest},
    exchange::{
        http2_message::{self, Refused},
        incoming::{Arriving, BodyPace},
        Client, Connection, Exchange, Hints, Hold, Upgrade,
    },
    observe::{in_flight::Listed, metrics::Kind},
    request::{
        access_rules,
        auth::Glance,
        errors,
        finish::{self, ExchangeGuard, Manner},
        forwarded::{self, SURROGATE_CAPABILITY},
        fragments::{self, FragmentResponse},
        front::Front,
        http_01, https_only,
        preview::{self, Previewed},
        route::Site,
        rules::Rules,
        server_timing,
    },
    support::{
        clock::{self, Micros},
        event_loops,
    },
};
use http_guard::{
    host::{self, split_host},
    strict::Refusal,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a step that may answer says. Err: the answer; no later step is asked.
type Step<T = ()> = Result<T, Response<ResponseBody>>;

/// What a connection lends to an exchange.
pub struct Link {
    /// Where interim responses go. None: they can't be sent.
    pub hints: Option<Hints>,
    /// Counts as a request in flight for as long as it is held.
    pub hold: Option<Hold>,
    /// The time that the request's body has, where the connection does not know it by itself.
    pub pace: Option<Box<dyn BodyPace>>,
}

/// A request as its connection hands it over.
struct ReceivedRequest {
    head: Parts,
    body: Arriving,
    /// Whether HTTP/2 lets it pass; HTTP/1.1 was judged before it was parsed.
    admitted: Result<(), Refused>,
    manner: Manner,
}

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

/// Answers one request. Always: whatever goes wrong is an answer too.
pub fn run(front: Arc<Front>, connection: Arc<Connection>, request: Request<Incoming>, link: Link) -> Running {
    event_loops::note_exchange();
    let (mut received, mut exchange) = receive(&front, connection, request, link);
    let host = exchange.client.host.clone().unwrap_or_else(|| host::host(&received.head).into_owned());
    let site = front.routes().find(host::split_host(&host).0).cloned();
    exchange.site = site.as_ref().map(|site| site.metrics.clone());
    received.manner.site = site.clone();
    if site.as_ref().is_some_and(|site| site.live_reload.is_some()) {
        received.manner.page = PageRequest::take(&mut received.head);
    }
    if let Some(upstream) = site.as_ref().and_then(|site| site.upstream.as_ref()) {
        exchange.upstream.token = upstream.take_token(&mut received.head.headers);
    }
    if let Some(capability) = site.as_deref().and_then(fragments::capability) {
        received.head.headers.append(SURROGATE_CAPABILITY, capability);
    }

    if site.as_ref().and_then(|site| site.rules.as_ref()).is_some_and(Rules::changes_headers) {
        received.manner.ruled = Some((split_host(&host).0.to_owned(), received.head.uri.path().to_owned()));
    }

    let mut is_proved = true;
    let admitted = admit(&front, site.as_ref(), &received, &host, &mut exchange).and_then(|site| {
        is_proved = ruled::glance(&site, &mut received.head, &host, &mut exchange)?;
        Ok(site)
    });
    let ReceivedRequest { mut head, mut body, manner, .. } = received;
    let glance = admitted.as_ref().ok().and_then(|site| gate::glance(site, &mut head, &mut exchange));
    if let Some(crawlers) = admitted.as_ref().ok().and_then(|site| site.crawlers.as_ref()) {
        exchange.requester.crawling =
            crawlers.judge(exchange.client.address, &head, exchange.timeline.head_read / 1_000_000);
    }
    let passes = admitted.as_ref().ok().filter(|_| is_proved && gate::passes(glance.as_ref()));
    let mut ahead = Ahead::default();
    let learned = passes.map_or(Err(false), |site| hit::learned_ahead(site, &head, &body, &mut exchange));
    if let Err(is_unlearned) = learned {
        let lookup = passes.and_then(|site| hit::look_ahead(site, &head, &body, &exchange));
        ahead = Ahead { lookup, is_unlearned };
    }
    let mut guard = ExchangeGuard::begin(front.clone(), exchange, &head);
    let found =
        learned.ok().or_else(|| hit::answer(site.as_deref(), ahead.lookup.as_mut(), &head, &mut guard.exchange));
    if let Some(response) = found {
        return Running::Answered(Some(finish::send(response, &head, guard, &manner)));
    }
    guard.exchange.list(&head.method, &access_rules::shown(&head.uri));
    let unproved = (!is_proved).then_some(host);
    Running::Asking(Box::pin(async move {
        let response = match admitted {
            Ok(site) => {
                match admit_visitor(&front, &site, unproved, glance, &mut head, &mut body, &mut guard.exchange).await {
                    Ok(()) => answer(&front, &site, &head, body, ahead, &mut guard.exchange).await,
                    Err(answered) => Err(answered),
                }
            }
            Err(answered) => Err(answered),
        };
        let (Ok(mut response) | Err(mut response)) = response;
        if let Some(site) = &manner.site {
            response = errors::complete(site, response).await;
        }
        finish::send(response, &head, guard, &manner)
    }))
}

/// Answers what was no request beyond doubt; `request` only stands in its place.
pub fn refuse(
    front: &Arc<Front>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
    refusal: Refusal,
) -> Response<ResponseBody> {
    let exchange = Box::new(Exchange::begin(connection, None, None, None));
    let (head, _) = request.into_parts();
    let mut guard = ExchangeGuard::begin(front.clone(), exchange, &head);
    let response = errors::malformed(&mut guard.exchange, refusal);
    finish::send(response, &head, guard, &Manner::default())
}

/// Begins the exchange: who asks (behind proxies), what the connection lends, the trace.
fn receive(
    front: &Front,
    connection: Arc<Connection>,
    mut request: Request<Incoming>,
    link: Link,
) -> (ReceivedRequest, Box<Exchange>) {
    let client = forwarded::client(request.headers_mut(), &connection, &front.config.trusted_proxies);
    let is_http2 = request.version() == Version::HTTP_2;
    let admitted = if is_http2 { http2_message::admit(&mut request, &front.config.client.heads) } else { Ok(()) };
    // HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
    let hints = link.hints.filter(|_| request.version() == Version::HTTP_11);
    let web_socket = http2_message::is_web_socket(request.extensions());
    let upgrade = request.headers().contains_key(header::UPGRADE).then(|| Upgrade {
        on: hyper::upgrade::on(&mut request),
        stream: link.hold,
        live: Listed::default(),
    });
    // On the heap, since it changes hands.
    let mut exchange = Box::new(Exchange::begin(connection, request.headers().get(REQUEST_ID), hints, upgrade));
    let asks_times = server_timing::is_asked(request.headers_mut(), &client);
    exchange.client = Client { asks_times, ..client };
    let (mut head, body) = request.into_parts();
    let body = Arriving::new(body, link.pace);
    exchange.trace = front.tracer.as_ref().map(|tracer| tracer.begin(&mut head.headers));
    (ReceivedRequest { head, body, admitted, manner: Manner { is_http2, web_socket, ..Manner::default() } }, exchange)
}

/// What is answered before a site is asked. Ok: the site that is.
fn admit(
    front: &Front,
    site: Option<&Arc<Site>>,
    received: &ReceivedRequest,
    host: &str,
    exchange: &mut Exchange,
) -> Step<Arc<Site>> {
    let head = &received.head;
    if let Err(refused) = &received.admitted {
        return Err(errors::refused(head, exchange, refused.0, refused.1));
    }
    // An authority that asks whether a host is served here goes before redirect and host.
    if let Some(proof) = http_01::answer(front.automatic.as_deref(), head) {
        return Err(proof);
    }
    if head.method == Method::CONNECT {
        return Err(errors::no_tunnel(head, exchange));
    }
    let Some(site) = site else { return Err(errors::unknown_host(front, head, host, exchange)) };
    if site.config.redirect_https && !exchange.client.https && !is_health_check(site, head) {
        let redirect = https_only::redirect(head, host, &exchange.client, front.https_port);
        return Err(redirect.unwrap_or_else(|| {
            errors::refused(head, exchange, StatusCode::BAD_REQUEST, "This request names no host.")
        }));
    }
    Ok(site.clone())
}

/// Container engines and load balancers check by http, and take a redirect for a failure.
fn is_health_check(site: &Site, head: &Parts) -> bool {
    matches!(head.method, Method::GET | Method::HEAD) && site.maintenance.is_check(head.uri.path())
}

/// What stands between a site and its visitors: how often they may ask, and who they are.
///
/// `unproved`: the host that was asked, if a `[[rule]]` asks for a password that has to be checked.
async fn admit_visitor(
    front: &Front,
    site: &Site,
    unproved: Option<String>,
    glance: Option<Glance>,
    head: &mut Parts,
    body: &mut Arriving,
    exchange: &mut Exchange,
) -> Step {
    rate_limit(front, site, head, exchange, exchange.timeline.head_read).await?;
    if let Some(host) = unproved {
        // On the heap, so that other requests have no room for it.
        Box::pin(ruled::prove(front, site, head, &host, exchange)).await?;
    }
    gate::judge(front, site, glance, head, body, exchange).await
}

/// The steps of a site.
async fn answer(
    front: &Arc<Front>,
    site: &Arc<Site>,
    head: &Parts,
    body: Arriving,
    ahead: Ahead,
    exchange: &mut Exchange,
) -> Step<Response<ResponseBody>> {
    live_reload(site, head, exchange)?;
    preview(site, head, exchange).await?;
    // What the page cache was asked for ahead has no file.
    if ahead.lookup.is_none() {
        static_file(site, head, exchange).await?;
    }
    let mut page = page(site, head, Some(body), ahead, exchange).await?;
    if fragments::are_asked_for(site, page.headers_mut()) {
        // On the heap, so that other pages have no room for it.
        return Ok(Box::pin(fragments::answer(front, site, head, exchange, page, include(front))).await);
    }
    Ok(page)
}

async fn rate_limit(front: &Front, site: &Site, head: &Parts, exchange: &mut Exchange, now: Micros) -> Step {
    let (limits, now) = (&site.rate_limits, Duration::from_micros(now));
    let (address, path) = (exchange.client.address, head.uri.path());
    let admitted = match front.cluster.as_ref().filter(|cluster| cluster.shares_rate_limits() && !limits.is_empty()) {
        // On the heap, so that other requests have no room for it.
        Some(cluster) => Box::pin(cluster.admit(&site.config.name, limits, address, path, now)).await,
        None => limits.admit(address, path, now),
    };
    admitted.map_err(|wait| errors::too_often(site, head, exchange, wait))
}

/// What pages that are open ask for, to follow changes of their files. It is no news for the log.
fn live_reload(site: &Site, head: &Parts, exchange: &mut Exchange) -> Step {
    let Some(answer) = site.live_reload.as_ref().and_then(|live| live.answer(head)) else { return Ok(()) };
    exchange.log.head = None;
    Err(answer)
}

/// A page as it will be, behind a signed link.
async fn preview(site: &Arc<Site>, head: &Parts, exchange: &mut Exchange) -> Step {
    if !preview::is_asked(head) {
        return Ok(());
    }
    let host = exchange.client.host.clone().unwrap_or_else(|| host::host(head).into_owned());
    // On the heap, so that other requests have no room for it.
    match Box::pin(preview::answer(site, head, exchange, &host)).await {
        None => Ok(()),
        Some(Previewed::Page(response)) => Err(response),
        Some(Previewed::Refused(status, sentence, note)) => {
            exchange.log.note = note;
            Err(errors::status(site, head, exchange, status, &sentence))
        }
    }
}

async fn static_file(site: &Site, head: &Parts, exchange: &mut Exchange) -> Step {
    let folder = site.folder.as_ref().filter(|folder| !folder.lacks(head.uri.path()));
    if let Some(folder) = folder {
        let mut file = folder.answer(head).await;
        if file.is_none() && site.is_files() {
            file = folder.method_not_allowed(head).await;
        }
        if let Some(response) = file {
            exchange.kind = Kind::Static;
            return Err(response.map(ResponseBody::stream));
        }
    }
    if site.is_files() {
        exchange.kind = Kind::Static;
        return Err(errors::status(site, head, exchange, StatusCode::NOT_FOUND, "There is no such file here."));
    }
    Ok(())
}

/// The page cache, and behind it the origin. Err: the site keeps no pages, so the origin has answered by itself.
async fn page(
    site: &Arc<Site>,
    head: &Parts,
    body: Option<Arriving>,
    ahead: Ahead,
    exchange: &mut Exchange,
) -> Step<Response<ResponseBody>> {
    if !ahead.is_unlearned {
        // On the heap, so that other requests have no room for it.
        let has_body = origin::has_body(body.as_ref());
        let learned = hit::learns(site).then(|| Box::pin(hit::learned_in_time(site, head, has_body, exchange)));
        if let Some(learned) = learned {
            if let Some(page) = learned.await {
                return Ok(page);
            }
        }
    }
    let Some(cache) = &site.cache else {
        let mut response = origin::ask(site, head, body, exchange).await;
        caching::bound_unseen(&mut response);
        return Err(response);
    };
    let lookup = ahead.lookup.unwrap_or_else(|| cache.look(head, origin::has_body(body.as_ref()), exchange));
    let mut response = cached::answer(site, cache, head, body, lookup, exchange).await;
    exchange.log.cache = Some(cache.tell(head.uri.path(), &mut response));
    Ok(response)
}

/// How a fragment is asked for: as a page of its site, from rate limit to cache.
fn include(front: &Arc<Front>) -> fragments::Ask {
    let front = front.clone();
    Arc::new(move |site, head, mut exchange| {
        let front = front.clone();
        Box::pin(async move {
            let response = fragment(&front, &site, &head, &mut exchange).await;
            let (Ok(response) | Err(response)) = response;
            FragmentResponse { response, note: exchange.log.note, is_protected: exchange.response.protected }
        })
    })
}

async fn fragment(
    front: &Front,
    site: &Arc<Site>,
    head: &Parts,
    exchange: &mut Exchange,
) -> Step<Response<ResponseBody>> {
    rate_limit(front, site, head, exchange, clock::now()).await?;
    ruled::part(site, head, exchange)?;
    gate::part(site, head, exchange)?;
    static_file(site, head, exchange).await?;
    page(site, head, None, Ahead::default(), exchange).await
}
