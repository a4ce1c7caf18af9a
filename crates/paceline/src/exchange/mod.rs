//! One exchange (RFC 9110 section 3.4): a request, its site and its timeline. All that the steps of the pipeline share.
//! It never does a step itself. Beside it: a request's body and HTTP/2 message as they come in, crawlers, rate limits, the
//! log line and the spans.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    any::Any,
    net::{IpAddr, SocketAddr},
    sync::{atomic::AtomicU32, Arc, OnceLock},
};

use bytes::Bytes;
use cache::status::CacheStatus;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

pub mod access_log;
pub mod conversation;
pub mod crawlers;
mod ending;
pub mod http2_message;
pub mod identity;
pub mod incoming;
mod log_text;
pub mod outbound_advice;
pub mod rate_limit;
pub mod spans;
pub mod tunnel;

use self::crawlers::Crawler;
pub use self::ending::{Ending, Head};
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
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

/// Counts as a request in flight for as long as it is held.
pub type Hold = Arc<dyn Any + Send + Sync>;

/// A connection (or stream of HTTP/2) that the client offers to the app.
pub struct Upgrade {
    pub on: OnUpgrade,
    /// Counts as a request under way for as long as it is held.
    pub stream: Option<Hold>,
    /// Lists the exchange for as long as the connection is the app's.
    pub live: Listed,
}

/// A connection that can send interim responses. To be told within the request's own task, which then has them written.
pub trait Interim: Send + Sync {
    /// One with this status (1xx, but never 101) and these fields; left out where it can't be sent without waiting.
    fn interim(&self, status: StatusCode, headers: &HeaderMap);
}

pub type Hints = Arc<dyn Interim>;

/// What the worker counted over one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pieces the body came in.
    pub chunks: u32,
    /// Time in garbage collection while the request ran, microseconds.
    pub gc: u32,
    /// Objects allocated by the process while the request ran.
    pub allocated: u32,
    pub app_started: Micros,
    pub app_finished: Micros,
    /// Named spans: name, total microseconds, count.
    pub spans: Vec<(String, u64, u32)>,
}

/// Where the record comes of what a page was made of, before the end of its body.
pub type RecordSlot = Arc<Mutex<Option<Bytes>>>;

/// One request on its way.
pub struct Exchange {
    /// X-Request-Id: the client's if it is well formed, else a new one.
    pub id: String,
    pub connection: Arc<Connection>,
    pub client: Client,
    /// The client wants to be told where the time went (`paceline bench`).
    pub asks_times: bool,
    pub timeline: Timeline,
    /// Seconds since the Unix epoch at which the head was read.
    pub received: f64,
    /// Set by the worker; may come after the response head.
    pub counters: Arc<OnceLock<Counters>>,
    /// None: nobody wants to know what the page was made of.
    pub record: Option<RecordSlot>,
    /// The site that answers.
    pub site: Option<Arc<metrics::Site>>,
    /// Who answers.
    pub kind: Kind,
    /// Its span, where there are traces.
    pub trace: Option<traces::Context>,
    /// Where others see it.
    pub live: Listed,
    /// Where interim responses go (RFC 9110 section 15.2). None: the client can't have them.
    pub hints: Option<Hints>,
    /// The client's connection, should the app take it over.
    pub upgrade: Option<Upgrade>,
    /// Who has signed in.
    pub user: Option<identity::User>,
    /// Whether a crawler asks. See `crawler`.
    pub crawling: crawlers::Verdict,
    /// It was refused because a crawler asks.
    pub refused_crawler: bool,
    /// Files of passwords that have let the visitor in, by their numbers.
    pub proved: Vec<u64>,
    /// The largest body, in place of the site's; `u64::MAX`: unbounded.
    pub max_body: Option<u64>,
    /// Only those who have signed in get the page, so that no cache on the way may keep it for others.
    pub protected: bool,
    /// Fields that the response gets beside its own, and no cache.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Said in the log beside a response that the front made itself.
    pub note: Option<String>,
    /// The host of an upstream that the client says it was with.
    pub host_token: Option<String>,
    /// A generation on trial answered, with its share of the requests.
    pub by_canary: bool,
    /// The host that answered, where an upstream has several.
    pub upstream: Option<Arc<str>>,
    /// What the page cache did.
    pub cache: Option<CacheStatus>,
    /// Fragments that the page was put together from; may grow after the response head. None: it was not.
    pub fragments: Option<Arc<AtomicU32>>,
    /// What the log and the traces tell of the request's head. None: nobody wants to know.
    pub request: Option<Head>,
    /// It is left out of the access log.
    pub unlogged: bool,
    pub ending: Ending,
}

impl Exchange {
    /// An exchange that begins now.
    pub fn begin(
        connection: Arc<Connection>,
        client_id: Option<&http::HeaderValue>,
        hints: Option<Hints>,
        upgrade: Option<Upgrade>,
    ) -> Exchange {
        let timeline = Timeline { accepted: connection.accepted, head_read: clock::now(), ..Timeline::default() };
        Exchange {
            id: client_id.and_then(well_formed).unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            client: Client::of(&connection),
            connection,
            asks_times: false,
            timeline,
            received: clock::unix_seconds(),
            counters: Arc::default(),
            record: None,
            site: None,
            kind: Kind::default(),
            trace: None,
            live: Listed::default(),
            hints,
            upgrade,
            user: None,
            crawling: crawlers::Verdict::default(),
            refused_crawler: false,
            proved: Vec::new(),
            max_body: None,
            protected: false,
            fields: Vec::new(),
            note: None,
            host_token: None,
            by_canary: false,
            upstream: None,
            cache: None,
            fragments: None,
            request: None,
            unlogged: false,
            ending: Ending::default(),
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
            self.upgrade.iter_mut().for_each(|upgrade| upgrade.live = self.live.clone());
            self.user.iter().for_each(|user| self.live.signed_in(user.name()));
        }
    }

    /// This exchange for a question to the origin that outlives the client's interest.
    pub fn branch(&self) -> Exchange {
        Exchange {
            id: self.id.clone(),
            connection: self.connection.clone(),
            client: self.client.clone(),
            asks_times: self.asks_times,
            timeline: self.timeline.clone(),
            received: self.received,
            counters: Arc::default(),
            record: None,
            site: self.site.clone(),
            kind: self.kind,
            trace: self.trace,
            live: self.live.clone(),
            hints: self.hints.clone(),
            upgrade: None,
            user: self.user.clone(),
            crawling: self.crawling,
            refused_crawler: false,
            proved: self.proved.clone(),
            max_body: self.max_body,
            protected: self.protected,
            unlogged: self.unlogged,
            fields: Vec::new(),
            note: None,
            host_token: self.host_token.clone(),
            by_canary: false,
            upstream: None,
            cache: None,
            fragments: None,
            request: None,
            ending: Ending::default(),
        }
    }

    /// Adds a field to the response; left out if it can't be one.
    pub fn tell(&mut self, name: HeaderName, value: &str) {
        self.fields.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
    }

    /// Takes over what came of a branch.
    pub fn join(&mut self, branch: Exchange) {
        self.timeline = branch.timeline;
        self.counters = branch.counters;
        self.kind = branch.kind;
        self.upstream = branch.upstream;
        self.by_canary = branch.by_canary;
        self.refused_crawler |= branch.refused_crawler;
        self.fields.extend(branch.fields);
        self.note = self.note.take().or(branch.note);
    }

    /// The crawler whose request it is. None also where somebody has signed in.
    pub fn crawler(&self) -> Option<Crawler> {
        self.crawling.crawler.filter(|_| self.user.is_none() && self.proved.is_empty())
    }

    /// Takes over what the worker reported, if it has.
    pub fn settle(&mut self) {
        if let Some(counters) = self.counters.get() {
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
