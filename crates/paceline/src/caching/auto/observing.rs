//! An answer of the application on its way to the client: its body is seen as it passes, and what has come whole is handed to
//! the thread that looks at it. Neither head nor body is changed, and nothing waits.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    pin::Pin,
    sync::{atomic::Ordering::Relaxed, Arc},
    task::{ready, Context, Poll},
    time::{SystemTime, UNIX_EPOCH},
};

use ::auto_cache::{
    keys::{Name, Source},
    watch::{Mode, MAX_BODY},
};
use bytes::Bytes;
use cache::{parts::wanted_part, storing::kept, vary::VaryNames};
use http::{header, request::Parts, HeaderMap, HeaderName, Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_guard::host::host;
use path_patterns::route::label;
use scheduled::CHANGES_AT;

use super::{
    file_marks::AskedFiles,
    observed::{Observed, OwnCookie},
    request_parts::{is_for_pages, RequestParts, RequestView, EMBEDDING_SITE},
    AutoCache, MAX_WAITING,
};
use crate::{
    content::body::{ResponseBody, Stream},
    exchange::{Exchange, RecordSlot},
    support::clock,
};

/// A request that may be watched.
pub struct Watched {
    began: u64,
    record: RecordSlot,
}

impl AutoCache {
    /// Before the request is handed to the application. None: it is not one that a cache answers.
    pub fn begin(&self, head: &Parts, exchange: &mut Exchange) -> Option<Watched> {
        if head.method != Method::GET || head.headers.contains_key(header::UPGRADE) {
            return None;
        }
        if self.policy.mode == Mode::Watch && !self.samples.take(clock::now()) {
            return None;
        }
        let record = RecordSlot::default();
        exchange.worker.record = Some(record.clone());
        Some(Watched { began: self.moment.load(Relaxed), record })
    }

    /// A request is handed to the application that may change something.
    pub fn has_acted(&self, head: &Parts, exchange: &Exchange) {
        if self.policy.mode != Mode::Watch {
            let files = AskedFiles::new(&self.marks);
            let (headers, query, address) = (&head.headers, head.uri.query(), exchange.client.address);
            self.change(|watch| watch.has_acted(&RequestView { headers, query, address, files: &files }));
        }
    }

    /// The application has answered it.
    pub fn observe(
        self: &Arc<AutoCache>,
        watched: Watched,
        head: &Parts,
        exchange: &Exchange,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let status = response.status();
        if status != StatusCode::OK {
            let is_for_pages = is_lasting(status) && is_for_pages(head, exchange);
            // Of a session that it renews, pages are shown to the new cookie as well.
            if is_for_pages || response.headers().contains_key(header::SET_COOKIE) {
                let observed = observed(watched, head, exchange, response.headers());
                self.offer(Observed { status: Some(status.as_u16()), is_for_pages, ..observed });
            }
            return response;
        }
        let observed = observed(watched, head, exchange, response.headers());
        let (head, body) = response.into_parts();
        let body = match body {
            ResponseBody::Empty => {
                self.offer(observed);
                ResponseBody::Empty
            }
            ResponseBody::Whole(bytes) => {
                self.offer(with_body(observed, bytes.clone()));
                ResponseBody::Whole(bytes)
            }
            ResponseBody::Stream(inner) => {
                let held = Held { auto: self.clone(), bytes: 0 };
                ResponseBody::stream(Observing { inner, size: 0, seen: Some((held, observed)) })
            }
            // It is the application's own connection.
            ResponseBody::Hijacked(stream) => ResponseBody::Hijacked(stream),
        };
        Response::from_parts(head, body)
    }
}

/// With this the application answers as it would the next time as well. Other statuses come and go, such as those of limits, or belong to what
/// the request asked for besides.
fn is_lasting(status: StatusCode) -> bool {
    matches!(status.as_u16(), 204 | 301 | 302 | 303 | 307 | 308 | 401 | 403 | 404 | 406 | 410 | 451)
}

fn with_body(mut observed: Observed, bytes: Bytes) -> Observed {
    if bytes.len() > MAX_BODY {
        observed.refused.get_or_insert_with(too_large);
    } else {
        observed.body.push(bytes);
    }
    observed
}

fn too_large() -> String {
    "the page is larger than 1 MB".into()
}

/// Scheme, host, path and query, by which its page is found; and which part of it is asked for, which no URL can say.
pub(super) fn url(head: &Parts, exchange: &Exchange) -> String {
    let host = exchange.client.host.clone().unwrap_or_else(|| host(head).into_owned());
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut url = format!("{}://{host}{target}", exchange.client.scheme());
    let part = wanted_part(&head.headers);
    if !part.is_empty() {
        url.push('\n');
        url.push_str(&part.escape_ascii().to_string());
    }
    url
}

fn observed(watched: Watched, head: &Parts, exchange: &Exchange, headers: &HeaderMap) -> Observed {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    Observed {
        url: url(head, exchange),
        status: None,
        is_for_pages: is_for_pages(head, exchange),
        route: label("GET", head.uri.path()),
        began: watched.began,
        ended: 0,
        asked: RequestParts {
            headers: head.headers.clone(),
            query: head.uri.query().map(str::to_owned),
            address: exchange.client.address,
        },
        record: watched.record,
        refused: refusal(head, exchange, headers),
        cookies: set_cookies(headers, clock::unix_millis()),
        head: lines(headers),
        etag: text(header::ETAG).map(str::to_owned),
        vary: vary(headers),
        visitor: visitor(head, exchange),
        nonce: text(header::CONTENT_SECURITY_POLICY).and_then(nonce),
        body: Vec::new(),
        size: 0,
    }
}

/// Fields that differ with each answer, or that a page gets when it is given.
const OF_ONE_ANSWER: [&str; 9] =
    ["age", "content-length", "date", "etag", "expires", "server-timing", "set-cookie", "x-request-id", "x-runtime"];

/// What of its head the next answer has as well.
fn lines(headers: &HeaderMap) -> Vec<u8> {
    let kept = kept(headers);
    let mut names: Vec<_> = kept.keys().filter(|name| !OF_ONE_ANSWER.contains(&name.as_str())).collect();
    names.sort_by_key(|name| name.as_str());
    let mut lines = Vec::new();
    for name in names {
        for value in kept.get_all(name) {
            lines.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
        }
    }
    lines
}

/// Address and browser: what most visitors differ in.
fn visitor(head: &Parts, exchange: &Exchange) -> u64 {
    let mut hasher = DefaultHasher::new();
    exchange.client.address.hash(&mut hasher);
    head.headers.get(header::USER_AGENT).map(|value| value.as_bytes()).hash(&mut hasher);
    hasher.finish()
}

/// What the answer says that it depends on. How it is compressed is not the application's concern. `*` is refused.
fn vary(headers: &HeaderMap) -> Vec<Name> {
    let Some(nominated) = VaryNames::of(headers) else { return Vec::new() };
    let names = nominated.names().iter().filter(|name| **name != header::ACCEPT_ENCODING);
    let name = |name: &HeaderName| match name {
        &header::COOKIE => Name { source: Source::Cookie, name: "*".into() },
        name if nominated.is_for_forms(name) => Name { source: Source::Request, name: EMBEDDING_SITE.into() },
        name => Name { source: Source::Header, name: name.as_str().into() },
    };
    names.map(name).collect()
}

/// Why the heads do not let the answer be kept.
fn refusal(head: &Parts, exchange: &Exchange, headers: &HeaderMap) -> Option<String> {
    let has = |name: &str, word: &str| {
        let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let is_events =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if exchange.response.protected || exchange.requester.user.is_some() {
        Some("is for those who have signed in ([[sso]])".into())
    } else if head.headers.contains_key(header::AUTHORIZATION) {
        Some("was asked for with Authorization".into())
    } else if has("cache-control", "no-store") {
        Some("says Cache-Control: no-store".into())
    } else if VaryNames::of(headers).is_none() {
        Some("says Vary: *".into())
    } else if is_events {
        Some("is an event stream".into())
    } else if headers.contains_key(CHANGES_AT) {
        Some("changes at a known time (Paceline.changes_at)".into())
    } else if headers.contains_key(header::EXPIRES) && !limits_age(headers) {
        // It is not given with a page, and without it browsers would keep the page for as long as they like.
        Some("says Expires, and no max-age in Cache-Control".into())
    } else if headers.contains_key("surrogate-control") {
        Some("says Surrogate-Control".into())
    } else if headers.contains_key(header::CONTENT_ENCODING) {
        Some("is compressed by the application".into())
    } else if ["x-sendfile", "x-accel-redirect"].iter().any(|name| headers.contains_key(*name)) {
        Some("is a file".into())
    } else {
        None
    }
}

/// Cache-Control says for how long a browser may keep it, so that Expires does not count.
fn limits_age(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(|part| part.trim().to_ascii_lowercase())
        .any(|part| part == "no-cache" || part.starts_with("max-age="))
}

fn set_cookies(headers: &HeaderMap, now: u64) -> Vec<OwnCookie> {
    headers.get_all(header::SET_COOKIE).iter().map(|line| set_cookie(line.as_bytes(), now)).collect()
}

fn set_cookie(line: &[u8], now: u64) -> OwnCookie {
    let mut parts = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let first = parts.next().unwrap_or_default();
    let (name, value) = first.split_at(first.iter().position(|byte| *byte == b'=').unwrap_or(first.len()));
    let (mut max_age, mut expires) = (None, None);
    for part in parts {
        let part = String::from_utf8_lossy(part);
        let (name, value) = part.split_once('=').unwrap_or((&part, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            // What can't be read has ended.
            "max-age" => {
                max_age = Some(
                    value.trim().parse().map_or(0, |seconds: u64| now.saturating_add(seconds.saturating_mul(1000))),
                )
            }
            "expires" => expires = Some(httpdate::parse_http_date(value.trim()).ok().and_then(millis).unwrap_or(0)),
            _ => {}
        }
    }
    let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii();
    let name = String::from_utf8_lossy(name).trim().to_owned();
    OwnCookie { name, value: value.to_vec(), until: max_age.or(expires) }
}

fn millis(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

/// Of `script-src 'nonce-...'`, the first one.
fn nonce(policy: &str) -> Option<String> {
    let (_, rest) = policy.split_once("'nonce-")?;
    rest.split_once('\'').map(|(nonce, _)| nonce.to_owned())
}

/// A body that is seen as it passes.
struct Observing {
    inner: Stream,
    size: usize,
    /// None: it was handed over, broke off, or was passed over.
    seen: Option<(Held, Observed)>,
}

/// Bytes of a body under way, which count as waiting.
struct Held {
    auto: Arc<AutoCache>,
    bytes: usize,
}

impl Held {
    /// False: too many wait.
    fn add(&mut self, bytes: usize) -> bool {
        let fits = self.auto.waiting.load(Relaxed) + bytes <= MAX_WAITING;
        if fits {
            self.auto.waiting.fetch_add(bytes, Relaxed);
            self.bytes += bytes;
        }
        fits
    }

    fn give_back(&mut self) {
        self.auto.waiting.fetch_sub(std::mem::take(&mut self.bytes), Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Observing {
    fn passed(&mut self, bytes: &Bytes) {
        let Some((held, observed)) = &mut self.seen else { return };
        self.size += bytes.len();
        if self.size > MAX_BODY {
            observed.body = Vec::new();
            observed.refused.get_or_insert_with(too_large);
            held.give_back();
        } else if observed.refused.is_none() {
            if held.add(bytes.len()) {
                observed.body.push(bytes.clone());
            } else {
                held.auto.passed_over.fetch_add(1, Relaxed);
                self.seen = None;
            }
        }
    }

    fn ended(&mut self) {
        if let Some((mut held, observed)) = self.seen.take() {
            held.give_back();
            held.auto.offer(observed);
        }
    }
}

impl Body for Observing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(self.inner.as_mut().poll_frame(cx));
        match &frame {
            None => self.ended(),
            Some(Err(_)) => self.seen = None,
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    self.passed(bytes);
                }
                // Of a body whose length is known, nobody asks for the end.
                if self.inner.is_end_stream() {
                    self.ended();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
