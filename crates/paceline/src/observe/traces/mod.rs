//! OpenTelemetry traces: a span for each exchange and for its time in the queue and in the app, in the trace of whoever
//! asked. Without a collector there is nothing of it. It never makes a request wait.
//!
//! Reading order: `context` (which trace), `spans` (what is told), `otlp` (in which form), `delivery` (to whom).

mod context;
mod delivery;
mod otlp;

use std::{
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{sync_channel, SyncSender},
    },
    time::Duration,
};

use http::{header::HeaderValue, HeaderMap, Uri};

pub use self::context::{Context, TRACEPARENT};
use self::delivery::Message;
use crate::{observe::log::Log, support::signal_mask};

/// Exchanges whose spans may wait for the thread; what comes then is dropped.
const WAITING: usize = 4096;
/// What the last of them get when the server ends.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// Where traces go, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub endpoint: Endpoint,
    /// What traces call this server.
    pub service: String,
    /// The share of traces that begin here which is told, 0 to 1.
    pub sample: f64,
}

/// A collector, as OTEL_EXPORTER_OTLP_ENDPOINT names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

/// Why a setting of traces can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("must be a URL like http://127.0.0.1:4318 (a collector is asked without TLS), not {0:?}")]
    Endpoint(String),
    #[error("must be a number from 0 to 1 such as \"0.1\", not {0:?}")]
    Share(String),
}

impl Endpoint {
    pub fn parse(text: &str) -> Result<Endpoint, SettingError> {
        let wrong = || SettingError::Endpoint(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty() && uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
        if uri.query().is_some() || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong());
        }
        let base = uri.path().trim_end_matches('/');
        let path = if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Endpoint { host, port: uri.port_u16().unwrap_or(80), path })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

/// The share of traces, as OTEL_TRACES_SAMPLER_ARG says it.
pub fn share(text: &str) -> Result<f64, SettingError> {
    let share = text.trim().parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
    share.ok_or_else(|| SettingError::Share(text.to_owned()))
}

/// One span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub trace: u128,
    pub id: u64,
    pub parent: Option<u64>,
    pub name: String,
    /// Of a request to us; otherwise of something within.
    pub server: bool,
    /// Unix time in nanoseconds.
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(&'static str, serde_json::Value)>,
    pub failed: bool,
}

/// Takes spans to the collector.
pub struct Tracer {
    sample: f64,
    messages: SyncSender<Message>,
    dropped: AtomicU64,
}

impl Tracer {
    /// Starts its thread.
    pub fn start(settings: Settings, log: Log) -> std::io::Result<Tracer> {
        let (messages, receiver) = sync_channel(WAITING);
        let Settings { endpoint, service, sample } = settings;
        let deliver = move || {
            signal_mask::block();
            delivery::deliver(&receiver, &endpoint, &service, &log);
        };
        std::thread::Builder::new().name("traces".into()).spawn(deliver)?;
        Ok(Tracer { sample, messages, dropped: AtomicU64::new(0) })
    }

    /// Begins the span of a request, whose headers name it to whoever is asked next.
    pub fn begin(&self, headers: &mut HeaderMap<HeaderValue>) -> Context {
        let context = Context::begin(headers, self.sample);
        if let Some(value) = context.header() {
            headers.insert(TRACEPARENT, value);
        }
        context
    }

    pub fn tell(&self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        if self.messages.try_send(Message::Spans(spans)).is_err() {
            self.dropped.fetch_add(count, Relaxed);
        }
    }

    /// Spans that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Sends what still waits, before the server ends.
    pub fn close(&self) {
        let (heard, hear) = sync_channel(1);
        if self.messages.try_send(Message::Close(heard)).is_ok() {
            let _ = hear.recv_timeout(LAST_MOMENTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_collector_is() {
        for (text, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://collector/base", "http://collector:80/base/v1/traces"),
            ("http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), shown);
        }
        for wrong in ["https://collector:4318", "collector:4318", "", "http://", "http://a:b@c", "http://a?b"] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        assert_eq!((share("0.25"), share("1"), share(" 0 ")), (Ok(0.25), Ok(1.0), Ok(0.0)));
        assert!(["", "x", "-0.1", "1.1", "NaN"].iter().all(|wrong| share(wrong).is_err()));
    }
}
