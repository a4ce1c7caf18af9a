//! One exchange (RFC 9110 section 3.4): a request, its site and its timeline. All that the steps of the pipeline share.
//! It never does a step itself. Beside it: a request's body and HTTP/2 message as they come in, crawlers, rate limits, the
//! log line and the spans.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::{HeaderName, HeaderValue, Method, Uri};

pub mod access_log;
pub mod conversation;
pub mod crawlers;
pub mod http2_message;
pub mod identity;
pub mod incoming;
mod log_record;
mod log_text;
mod offers;
mod outbound;
pub mod rate_limit;
mod requester;
pub mod spans;
pub mod tunnel;
mod worker_report;

pub use self::{
    log_record::{Ending, Head, LogRecord},
    offers::{Hints, Hold, Interim, Offers, Upgrade},
    outbound::{Advice, Calls, CALLS},
    requester::Requester,
    worker_report::{Counters, RecordSlot, WorkerReport},
};
use crate::{
    observe::{
        in_flight::{self as live, Listed, EXCHANGES},
        metrics::{self, Kind},
        traces,
    },
    support::clock::{self, Micros},
};

/// What is known of the client's connection.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// None on a Unix socket.
    pub remote: Option<SocketAddr>,
    pub local: Option<SocketAddr>,
    /// TLS guards it.
    pub tls: bool,
    pub accepted: Micros,
    /// The certificate that was shown, by which tickets are bound to this connection. None: there is no TLS.
    pub certificate: Option<Arc<rustls::sign::CertifiedKey>>,
    /// What its client has said so far to sign in.
    pub conversation: conversation::ConnectionConversation,
}

/// Who asks, and how: as the connection shows it, or as a trusted proxy says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// None on a Unix socket.
    pub address: Option<IpAddr>,
    /// A trusted proxy spoke for it.
    pub proxied: bool,
    /// The client speaks TLS, with us or with the proxy.
    pub https: bool,
    /// Host (with a port, if any) that a proxy was asked for.
    pub host: Option<String>,
    /// Port that a proxy was asked on.
    pub port: Option<u16>,
    /// It wants to be told where the time went (`paceline bench`).
    pub asks_times: bool,
}

impl Client {
    /// As the connection shows it.
    pub fn of(connection: &Connection) -> Client {
        let address = connection.remote.map(|remote| remote.ip().to_canonical());
        Client { address, https: connection.tls, ..Client::default() }
    }

    pub fn scheme(&self) -> &'static str {
        if self.https {
            "https"
        } else {
            "http"
        }
    }
}

/// Marks at the boundaries of the steps, microseconds of CLOCK_MONOTONIC; 0: not reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The time of day at `head_read`, seconds since the Unix epoch.
    pub received: f64,
    pub accepted: Micros,
    pub head_read: Micros,
    pub body_read: Micros,
    pub queued: Micros,
    pub handed_over: Micros,
    pub app_started: Micros,
    pub app_finished: Micros,
    pub first_byte: Micros,
    pub last_byte: Micros,
}

impl Timeline {
    /// Takes over when the worker began and ended. A request that was posted may be begun, and even be answered, before
    /// the front knows that it was handed over: it was so when it began, at the latest.
    pub fn set_app(&mut self, started: Micros, finished: Micros) {
        self.app_started = started;
        self.app_finished = finished;
        self.handed_over = self.handed_over.min(started);
    }

    /// Microseconds waited for a worker thread.
    pub fn queue(&self) -> Option<Micros> {
        (self.handed_over != 0).then(|| self.handed_over.saturating_sub(self.queued))
    }

    /// Microseconds until the app began: for a worker thread, and there for the virtual machine's lock.
    pub fn until_app(&self) -> Option<Micros> {
        (self.app_started != 0).then(|| self.app_started.saturating_sub(self.queued))
    }

    /// Microseconds in the app, as the worker measured them.
    pub fn app(&self) -> Option<Micros> {
        (self.app_finished != 0).then(|| self.app_finished.saturating_sub(self.app_started))
    }

    /// Microseconds from the request head to the last byte.
    pub fn total(&self) -> Micros {
        self.last_byte.max(self.first_byte).saturating_sub(self.head_read)
    }
}

/// Marks a response that HTTP/2 can't carry: the client has to ask again by HTTP/1.1 (RFC 9113 section 7).
#[derive(Debug, Clone, Copy)]
pub struct NeedsHttp1;

/// The host of an upstream that has several.
#[derive(Default)]
pub struct UpstreamHost {
    /// The one that the client says it was with, as its token.
    pub token: Option<String>,
    /// The one that answered.
    pub answered: Option<Arc<str>>,
}

/// What the response gets beside what its maker says.
#[derive(Default)]
pub struct ResponseExtras {
    /// Only those who have signed in get the page, so that no cache on the way may keep it for others.
    pub protected: bool,
    /// Fields beside its own, which no cache gets.
    pub fields: Vec<(HeaderName, HeaderValue)>,
}

/// One request on its way.
pub struct Exchange {
    /// X-Request-Id: the client's if it is well formed, else a new one.
    pub id: String,
    pub connection: Arc<Connection>,
    pub client: Client,
    pub timeline: Timeline,
    /// The site that answers.
    pub site: Option<Arc<metrics::Site>>,
    /// Who answers.
    pub kind: Kind,
    /// Its span, where there are traces.
    pub trace: Option<traces::Context>,
    /// Where others see it.
    pub live: Listed,
    pub offers: Offers,
    pub requester: Requester,
    /// The largest body, in place of the site's; `u64::MAX`: unbounded.
    pub max_body: Option<u64>,
    pub worker: WorkerReport,
    pub upstream: UpstreamHost,
    pub response: ResponseExtras,
    pub log: LogRecord,
}

impl Exchange {
    /// An exchange that begins now.
    pub fn begin(
        connection: Arc<Connection>,
        client_id: Option<&http::HeaderValue>,
        hints: Option<Hints>,
        upgrade: Option<Upgrade>,
    ) -> Exchange {
        let (accepted, head_read) = (connection.accepted, clock::now());
        Exchange {
            id: client_id.and_then(well_formed).unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            client: Client::of(&connection),
            connection,
            timeline: Timeline { received: clock::unix_seconds(), accepted, head_read, ..Timeline::default() },
            site: None,
            kind: Kind::default(),
            trace: None,
            live: Listed::default(),
            offers: Offers { hints, upgrade },
            requester: Requester::default(),
            max_body: None,
            worker: WorkerReport::default(),
            upstream: UpstreamHost::default(),
            response: ResponseExtras::default(),
            log: LogRecord::default(),
        }
    }

    /// Lists it among those that are under way, unless it is.
    pub fn list(&mut self, method: &Method, uri: &Uri) {
        if !self.live.is_listed() {
            self.live = EXCHANGES.enter(live::About {
                id: self.id.clone(),
                site: self.site.clone(),
                method: method.clone(),
                uri: uri.clone(),
                client: self.client.address,
                since: self.timeline.head_read,
            });
            self.offers.upgrade.iter_mut().for_each(|upgrade| upgrade.live = self.live.clone());
            self.requester.user.iter().for_each(|user| self.live.signed_in(user.name()));
        }
    }

    /// This exchange for a question to the origin that outlives the client's interest.
    pub fn branch(&self) -> Exchange {
        Exchange {
            id: self.id.clone(),
            connection: self.connection.clone(),
            client: self.client.clone(),
            timeline: self.timeline.clone(),
            site: self.site.clone(),
            kind: self.kind,
            trace: self.trace,
            live: self.live.clone(),
            offers: Offers { hints: self.offers.hints.clone(), upgrade: None },
            requester: self.requester.clone(),
            max_body: self.max_body,
            worker: WorkerReport::default(),
            upstream: UpstreamHost { token: self.upstream.token.clone(), answered: None },
            response: ResponseExtras { protected: self.response.protected, fields: Vec::new() },
            log: LogRecord::default(),
        }
    }

    /// Adds a field to the response; left out if it can't be one.
    pub fn tell(&mut self, name: HeaderName, value: &str) {
        self.response.fields.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
    }

    /// Takes over what came of a branch.
    pub fn join(&mut self, branch: Exchange) {
        self.timeline = branch.timeline;
        self.kind = branch.kind;
        self.worker.counters = branch.worker.counters;
        self.worker.by_canary = branch.worker.by_canary;
        self.upstream.answered = branch.upstream.answered;
        self.response.fields.extend(branch.response.fields);
        self.log.refused_crawler |= branch.log.refused_crawler;
        self.log.note = self.log.note.take().or(branch.log.note);
    }

    /// Takes over what the worker reported, if it has.
    pub fn settle(&mut self) {
        if let Some(counters) = self.worker.counters.get() {
            self.timeline.set_app(counters.app_started, counters.app_finished);
        }
    }
}

/// A client's request id, if it is short and harmless in a log.
fn well_formed(id: &http::HeaderValue) -> Option<String> {
    let id = id.to_str().ok()?;
    let valid = (1..=200).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:=+/".contains(&byte));
    valid.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Timeline;

    #[test]
    fn a_request_waits_no_longer_than_until_the_application_begins() {
        let mut seen_late = Timeline { queued: 100, handed_over: 900, ..Timeline::default() };
        seen_late.set_app(250, 400);
        assert_eq!((seen_late.queue(), seen_late.app()), (Some(150), Some(150)));

        let mut seen_at_once = Timeline { queued: 100, handed_over: 200, ..Timeline::default() };
        seen_at_once.set_app(250, 400);
        assert_eq!(seen_at_once.queue(), Some(100));
    }
}
