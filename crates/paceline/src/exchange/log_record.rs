//! What is kept of an exchange for its log line, its spans and the metrics: the request head in short, what the steps
//! said of it, and how it ended. It never writes any of them.

use std::sync::{atomic::AtomicU32, Arc};

use cache::status::CacheStatus;
use http::{header, request::Parts, HeaderValue, Method, Uri, Version};

/// What the log line, the spans and the metrics tell.
#[derive(Default)]
pub struct LogRecord {
    /// None: nobody wants to know.
    pub head: Option<Head>,
    pub ending: Ending,
    /// What the page cache did.
    pub cache: Option<CacheStatus>,
    /// Fragments that the page was put together from; may grow after the response head. None: it was not.
    pub fragments: Option<Arc<AtomicU32>>,
    /// Said beside a response that the front made itself.
    pub note: Option<String>,
    /// It was refused because a crawler asks.
    pub refused_crawler: bool,
    /// It is left out of the access log.
    pub unlogged: bool,
}

/// What the log and traces keep of the request head.
#[derive(Debug, Clone)]
pub struct Head {
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub referer: Option<HeaderValue>,
    pub user_agent: Option<HeaderValue>,
}

impl Head {
    pub fn of(parts: &Parts) -> Head {
        Head {
            method: parts.method.clone(),
            uri: asked(parts),
            version: parts.version,
            referer: parts.headers.get(header::REFERER).cloned(),
            user_agent: parts.headers.get(header::USER_AGENT).cloned(),
        }
    }
}

/// The request target as the client wrote it; of HTTP/2's pseudo-header fields only the path.
fn asked(parts: &Parts) -> Uri {
    match parts.uri.path_and_query() {
        Some(path) if parts.version == Version::HTTP_2 => Uri::from(path.clone()),
        _ => parts.uri.clone(),
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub status: u16,
    /// Body bytes handed to the connection.
    pub bytes: u64,
    /// The client was handed the whole response. false: it was cut off, by the client or by an app that broke off.
    pub complete: bool,
    /// The body broke off, and not because the client has left.
    pub broken: bool,
}

impl Default for Ending {
    /// Until there is a response: the client left, which has no status of its own; 499 is what nginx made familiar.
    fn default() -> Ending {
        Ending { status: 499, bytes: 0, complete: false, broken: false }
    }
}
