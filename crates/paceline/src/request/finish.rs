//! The end of an exchange: `Server-Timing`, and when the last byte has been handed to the connection, or the client has left, it
//! is counted and logged.
//! It never changes what a response says otherwise.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use http::{request::Parts, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};

use crate::{
    content::body::ResponseBody,
    front::Front,
    observe::{
        in_flight::{Client, Step},
        log::{AccessLogFormat, Log, Name},
        metrics::{self, Answered, Kind},
        traces::{self, Tracer},
    },
    request::{
        access_log,
        exchange::{Ending, Exchange, Head},
        outbound_advice::Advice,
        route::Site,
    },
    support::clock,
    workers::dispatch::expectations::label,
};

/// The response as it goes to the connection.
pub type Outgoing = Response<ResponseBody>;

/// Prepares the response for the connection.
pub fn response(mut response: Outgoing, mut record: Record, site: Option<&Site>) -> Outgoing {
    let exchange = &mut record.exchange;
    exchange.timeline.first_byte = clock::now();
    exchange.live.step(Step::Sending, exchange.timeline.first_byte);
    exchange.settle();
    if site.is_some_and(|site| site.config.server_timing) {
        if let Ok(value) = HeaderValue::from_str(&access_log::server_timing(exchange)) {
            if !value.is_empty() {
                response.headers_mut().append("server-timing", value);
            }
        }
    }
    record.status = response.status().as_u16();
    record.complete = response.body().is_end_stream();
    if record.format == AccessLogFormat::Off {
        if let ResponseBody::Empty | ResponseBody::Whole(_) = response.body() {
            // The connection takes it in one piece.
            record.bytes = response.body().size_hint().lower();
            record.complete = true;
            record.exchange.timeline.last_byte = record.exchange.timeline.first_byte;
            return response;
        }
    }
    response.map(|body| ResponseBody::stream(Logged { body, record }))
}

/// A body whose end is counted and logged.
pub struct Logged {
    body: ResponseBody,
    record: Record,
}

/// An exchange, which is counted and logged when this is dropped.
pub struct Record {
    pub exchange: Exchange,
    /// Counts it where no site does.
    elsewhere: Option<Arc<metrics::Site>>,
    log: Log,
    tracer: Option<Arc<Tracer>>,
    advice: Arc<Advice>,
    format: AccessLogFormat,
    /// None: nobody wants to know.
    head: Option<Head>,
    status: u16,
    bytes: u64,
    complete: bool,
    /// The body broke off, and not because the client has left.
    broken: bool,
}

impl Record {
    /// Until there is a response: the client left, which has no status of its own; 499 is what nginx made familiar.
    pub fn begin(exchange: Exchange, head: &Parts, server: &Front) -> Record {
        let (log, format) = (server.log.clone(), server.config.log.access_format);
        let traced = exchange.trace.is_some_and(|trace| trace.sampled);
        let tracer = server.tracer.clone().filter(|_| traced);
        let head = (format != AccessLogFormat::Off || traced).then(|| Head::of(head));
        let advice = server.outbound_advice.clone();
        let elsewhere = exchange.site.is_none().then(|| server.metrics.elsewhere.clone());
        Record {
            exchange,
            elsewhere,
            log,
            tracer,
            advice,
            format,
            head,
            status: 499,
            bytes: 0,
            complete: false,
            broken: false,
        }
    }

    fn count(&self) {
        let Exchange { site, timeline, cache, kind, .. } = &self.exchange;
        let kind = match cache {
            Some(cache) if cache.hit || cache.collapsed && *kind == Kind::Front => Kind::Cache,
            _ => *kind,
        };
        if let Some(metrics) = site.as_ref().or(self.elsewhere.as_ref()) {
            metrics.count(&Answered {
                kind,
                status: self.status,
                bytes: self.bytes,
                total: timeline.total(),
                queue: timeline.queue().filter(|_| kind == Kind::App),
                app: timeline.app(),
                aborted: !self.complete && !self.broken,
            });
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.exchange.timeline.last_byte == 0 {
            self.exchange.timeline.last_byte = clock::now();
        }
        self.exchange.settle();
        self.exchange.live.left(if self.complete { Client::Answered } else { Client::Gone });
        self.count();
        let Some(head) = &self.head else { return };
        let ending = Ending { status: self.status, bytes: self.bytes, complete: self.complete };
        if let (Some(tracer), Some(context)) = (&self.tracer, &self.exchange.trace) {
            let is_app = self.exchange.kind == Kind::App;
            let route = is_app.then(|| label(head.method.as_str(), head.uri.path()));
            tracer.tell(traces::spans(context, head, &self.exchange, ending, route));
        }
        if let Some(counters) = self.exchange.counters.get().filter(|counters| !counters.spans.is_empty()) {
            let route = || label(head.method.as_str(), head.uri.path());
            if let Some(said) = self.advice.of(counters, self.exchange.timeline.total(), route) {
                let log = self.exchange.site.as_ref().map_or_else(|| self.log.clone(), |site| self.log.of(&site.name));
                log.event(Name::Outbound, said);
            }
        }
        if let Some(line) = access_log::line(self.format, head, &self.exchange, ending) {
            self.log.access(line);
        }
    }
}

impl Body for Logged {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.record.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                self.record.complete = self.body.is_end_stream();
            }
            Some(Err(_)) => self.record.broken = true,
            None => self.record.complete = true,
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
