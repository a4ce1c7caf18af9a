//! The end of an exchange: what every response gets (HSTS, compression, `Server-Timing`), and when the last byte has
//! been handed to the connection, or the client has left, it is counted and logged. It never changes what a response
//! says otherwise.

use std::{
    borrow::Cow,
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
    task::{ready, Context, Poll},
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{header, request::Parts, HeaderValue, Method, Response};
use http_body::{Body, Frame, SizeHint};
use httpdate::fmt_http_date;

use crate::{
    content::{
        body::ResponseBody,
        compress,
        live_reload::{self, PageRequest},
    },
    exchange::{access_log, http2_message, spans::spans, Exchange, Head},
    observe::{
        in_flight::{Client, Step},
        log::AccessLogFormat,
        metrics::{CrawlerOutcome, Kind, RequestOutcome},
    },
    origins::workers::dispatch::expectations::label,
    request::{access_rules, front::Front, https_only, private, route::Site, rules::Target, server_timing},
    support::clock,
};

/// How a response is sent, by its request.
#[derive(Default)]
pub struct Manner {
    pub site: Option<Arc<Site>>,
    /// Host and path, if rules of the site change headers of responses.
    pub ruled: Option<(String, String)>,
    /// The response gets the script of live reload, if it is a page.
    pub page: Option<PageRequest>,
    pub is_http2: bool,
    /// The request was extended CONNECT for a WebSocket.
    pub web_socket: bool,
}

/// Prepares the response for the connection.
pub fn send(
    mut response: Response<ResponseBody>,
    request: &Parts,
    mut guard: ExchangeGuard,
    manner: &Manner,
) -> Response<ResponseBody> {
    let config = manner.site.as_ref().map(|site| &site.config);
    if let Some(crawlers) = manner.site.as_ref().and_then(|site| site.crawlers.as_ref()) {
        let Exchange { client, requester, timeline, .. } = &*guard.exchange;
        crawlers.note(client.address, requester.crawling, response.headers(), timeline.head_read / 1_000_000);
    }
    if let (Some((host, path)), Some(rules)) =
        (&manner.ruled, manner.site.as_ref().and_then(|site| site.rules.as_ref()))
    {
        let status = response.status();
        rules.change(Target { host: Some(host.as_str()), path }, status, response.headers_mut());
    }
    if let Some((config, age)) = config.and_then(|config| Some((config, config.hsts?))) {
        if guard.exchange.client.https {
            https_only::promise(response.headers_mut(), age, config.hsts_subdomains);
        }
    }
    if let Some(page) = &manner.page {
        response = live_reload::inject(page, response);
    }
    if let Some(settings) = config.and_then(|config| config.compress) {
        response = compress::response(request, settings, response);
    }
    if guard.exchange.response.protected {
        private::mark(response.headers_mut());
    }
    for (name, value) in guard.exchange.response.fields.drain(..) {
        // Beside those of the application: it has cookies, too.
        response.headers_mut().append(name, value);
    }
    if manner.is_http2 {
        http2_message::answer(&mut response, manner.web_socket);
    }

    if let Some(date) = date_after_setback(clock::unix_seconds() as u64) {
        response.headers_mut().entry(header::DATE).or_insert(date);
    }

    let exchange = &mut guard.exchange;
    exchange.timeline.first_byte = clock::now();
    exchange.live.step(Step::Sending, exchange.timeline.first_byte);
    exchange.settle();
    if exchange.client.asks_times || config.is_some_and(|config| config.server_timing) {
        if let Ok(value) = HeaderValue::from_str(&server_timing::value(exchange)) {
            if !value.is_empty() {
                response.headers_mut().append("server-timing", value);
            }
        }
    }
    exchange.log.ending.status = response.status().as_u16();
    exchange.log.ending.complete = response.body().is_end_stream();
    if let (Some(config), Some(head)) = (config, &exchange.log.head) {
        let (path, status) = (head.uri.path(), exchange.log.ending.status);
        exchange.log.unlogged = config.log_skip.iter().any(|skip| skip.covers(path, status));
    }
    let is_logged = guard.front.config.log.access_format != AccessLogFormat::Off;
    if let ResponseBody::Empty | ResponseBody::Whole(_) = response.body() {
        // The connection takes it in one piece, and at once; HTTP/2 when the client has room for it, which the log tells.
        if !(manner.is_http2 && is_logged) {
            let is_head = exchange.log.head.as_ref().is_some_and(|head| head.method == Method::HEAD);
            exchange.log.ending.bytes = if is_head { 0 } else { response.body().size_hint().lower() };
            exchange.log.ending.complete = true;
            exchange.timeline.last_byte = exchange.timeline.first_byte;
            return response;
        }
    }
    response.map(|body| ResponseBody::stream(LoggedBody { body, guard }))
}

/// The date at `second` (Unix time), if the clock has been set back: hyper writes the latest second that it has seen
/// until that is past.
fn date_after_setback(second: u64) -> Option<HeaderValue> {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let latest = LATEST.load(Relaxed);
    if second > latest {
        LATEST.store(second, Relaxed);
    }
    // Two threads may look around the turn of a second.
    let set_back = second + 1 < latest;
    set_back.then(|| fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)).try_into().ok()).flatten()
}

/// Counts and logs an exchange that is over.
pub fn conclude(front: &Front, exchange: &mut Exchange) {
    if exchange.timeline.last_byte == 0 {
        exchange.timeline.last_byte = clock::now();
    }
    exchange.settle();
    let client = if exchange.log.ending.complete { Client::Answered } else { Client::Gone };
    exchange.live.left(client, exchange.timeline.last_byte);
    count(front, exchange);
    let Some(head) = &exchange.log.head else { return };
    let route = || label(head.method.as_str(), head.uri.path());
    if let (Some(tracer), Some(context)) = (&front.tracer, exchange.trace.filter(|trace| trace.sampled)) {
        let route = (exchange.kind == Kind::App).then(route);
        tracer.tell(spans(&context, head, exchange, exchange.log.ending, route));
    }
    if let Some(counters) = exchange.worker.counters.get().filter(|counters| !counters.spans.is_empty()) {
        if let Some((name, said)) = front.advice.of(counters, exchange.timeline.total(), route) {
            let log = exchange.site.as_ref().map_or_else(|| front.log.clone(), |site| front.log.of(&site.name));
            log.event(name, said);
        }
    }
    let line = || access_log::line(front.config.log.access_format, head, exchange, exchange.log.ending);
    if let Some(line) = (!exchange.log.unlogged).then(line).flatten() {
        front.log.access(line);
    }
}

fn count(front: &Front, exchange: &Exchange) {
    let Exchange { site, timeline, kind, log, .. } = exchange;
    let kind = match &log.cache {
        Some(cache) if cache.hit || cache.collapsed && *kind == Kind::Front => Kind::Cache,
        _ => *kind,
    };
    site.as_ref().unwrap_or(&front.metrics.elsewhere).count(&RequestOutcome {
        kind,
        status: log.ending.status,
        bytes: log.ending.bytes,
        total: timeline.total(),
        queue: timeline.queue().filter(|_| kind == Kind::App),
        app: timeline.app(),
        aborted: !log.ending.complete && !log.ending.broken,
        crawler: crawler_outcome(exchange),
    });
}

fn crawler_outcome(exchange: &Exchange) -> Option<CrawlerOutcome> {
    exchange.requester.crawler().map(|_| match &exchange.log.cache {
        _ if exchange.log.refused_crawler && exchange.log.ending.status == 503 => CrawlerOutcome::Refused,
        Some(cache) if cache.is_crawlers_stale() => CrawlerOutcome::Stale,
        _ => CrawlerOutcome::Answered,
    })
}

/// An exchange, which is concluded when this is dropped: also where a client leaves or a step panics.
pub struct ExchangeGuard {
    front: Arc<Front>,
    pub exchange: Box<Exchange>,
}

impl ExchangeGuard {
    /// Keeps of the head what the log and the traces tell.
    pub fn begin(front: Arc<Front>, mut exchange: Box<Exchange>, head: &Parts) -> ExchangeGuard {
        let traced = front.tracer.is_some() && exchange.trace.is_some_and(|trace| trace.sampled);
        let told = front.config.log.access_format != AccessLogFormat::Off || traced;
        exchange.log.head = told.then(|| {
            let mut told = Head::of(head);
            if let Cow::Owned(shown) = access_rules::shown(&told.uri) {
                told.uri = shown;
            }
            told
        });
        ExchangeGuard { front, exchange }
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        conclude(&self.front, &mut self.exchange);
    }
}

/// A body whose end is counted and logged.
struct LoggedBody {
    body: ResponseBody,
    guard: ExchangeGuard,
}

impl Body for LoggedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let complete = self.body.is_end_stream();
        let ending = &mut self.guard.exchange.log.ending;
        match &frame {
            Some(Ok(frame)) => {
                ending.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                ending.complete = complete;
            }
            Some(Err(_)) => ending.broken = true,
            None => ending.complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
