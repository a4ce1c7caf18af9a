//! HTTP/2 (RFC 9113) on a client's connection: hyper frames it, here are its limits and what differs for a request.
//! WebSocket over it (RFC 8441) is shown to the app as the HTTP/1.1 handshake it knows. It never routes or answers.

use std::{
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Mutex,
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{header, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, ext::Protocol, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch, Notify},
    time::{sleep_until, timeout, Instant},
};

use crate::{config::Http2Config, exchange::Connection, http::body::ResponseBody, pipeline, server::Server};

/// How long a client that was told to go (GOAWAY) may stay without an exchange.
const FAREWELL: Duration = Duration::from_secs(5);
/// The time over which resets are counted.
const RESET_WINDOW: Duration = Duration::from_secs(10);
/// Errors of one client in single streams, before its connection is closed.
const STREAM_ERRORS: usize = 100;
/// Bytes of one stream that wait for the client here; the rest waits in the response's own buffer.
const SEND_BUFFER: usize = 64 << 10;

/// Serves a connection until it is closed, or until `stop` says so and the exchanges in hand are done.
pub async fn serve<S>(stream: S, connection: Connection, server: Arc<Server>, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = server.config.http2.clone();
    let connection = Arc::new(connection);
    let streams = Arc::new(Streams::new(limits.resets));
    let service = service_fn({
        let streams = streams.clone();
        move |mut request: Request<Incoming>| {
            let (server, connection, stream) = (server.clone(), connection.clone(), Streams::open(&streams));
            request.extensions_mut().insert(stream.clone());
            async move {
                // Early hints would need an informational HEADERS frame, which hyper can't send.
                let (hints, _) = mpsc::unbounded_channel();
                let response = pipeline::run(server, connection, request, hints).await;
                stream.answered.store(true, Ordering::Relaxed);
                Ok::<_, io::Error>(response.map(|body| Counted { body, _stream: stream }))
            }
        }
    });
    let serving = builder(&limits).serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let mut idle_until = Instant::now() + limits.idle_timeout;
    loop {
        tokio::select! {
            // A client's broken connection is its own affair.
            _ = serving.as_mut() => return,
            _ = streams.flooded.notified() => return,
            _ = stop.wait_for(|stop| *stop) => break,
            _ = sleep_until(idle_until) => {
                let Some(since) = streams.idle_since() else {
                    idle_until = Instant::now() + limits.idle_timeout;
                    continue;
                };
                idle_until = since + limits.idle_timeout;
                if idle_until <= Instant::now() {
                    break;
                }
            }
        }
    }
    serving.as_mut().graceful_shutdown();
    // Exchanges in hand are finished; a client that then does not go is left.
    while timeout(FAREWELL, serving.as_mut()).await.is_err() {
        if streams.idle_since().is_some_and(|since| since.elapsed() >= FAREWELL) {
            return;
        }
    }
}

fn builder(limits: &Http2Config) -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_list)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(STREAM_ERRORS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    builder
}

/// The streams of one connection, counted.
struct Streams {
    open: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Resets that are too many in RESET_WINDOW.
    limit: usize,
    resets: Mutex<(Instant, usize)>,
    flooded: Notify,
}

impl Streams {
    fn new(limit: usize) -> Streams {
        let now = Instant::now();
        let (idle_since, resets) = (Mutex::new(now), Mutex::new((now, 0)));
        Streams { open: AtomicUsize::new(0), idle_since, limit, resets, flooded: Notify::new() }
    }

    fn open(this: &Arc<Streams>) -> Arc<Stream> {
        this.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(Stream { of: this.clone(), answered: AtomicBool::new(false) })
    }

    /// None while a stream is open.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Ordering::Relaxed) == 0;
        idle.then(|| *self.idle_since.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// A request that its client took back before it was answered (CVE-2023-44487, "rapid reset").
    fn reset(&self) {
        let mut resets = self.resets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if resets.0.elapsed() > RESET_WINDOW {
            *resets = (Instant::now(), 0);
        }
        resets.1 += 1;
        if resets.1 > self.limit {
            self.flooded.notify_one();
        }
    }
}

/// One of them, from its request until the last byte, of a WebSocket too.
pub struct Stream {
    of: Arc<Streams>,
    answered: AtomicBool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.of.idle_since.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Instant::now();
        self.of.open.fetch_sub(1, Ordering::Relaxed);
        if !self.answered.load(Ordering::Relaxed) {
            self.of.reset();
        }
    }
}

/// A response body whose stream is open until it ends.
struct Counted {
    body: ResponseBody,
    _stream: Arc<Stream>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request that is refused before anybody looks at what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub StatusCode, pub &'static str);

/// A WebSocket that was asked for by extended CONNECT; marks its request.
#[derive(Clone, Copy)]
struct ExtendedConnect;

/// Checks an HTTP/2 request as a whole, and makes of extended CONNECT the handshake of RFC 6455.
pub fn admit<B>(request: &mut Request<B>) -> Result<(), Refused> {
    let host = request.headers().get(header::HOST);
    match (request.uri().authority(), host) {
        (None, None) => return Err(Refused(StatusCode::BAD_REQUEST, "This request names no host.")),
        // RFC 9113 section 8.3.1: the two must not differ.
        (Some(authority), Some(host)) if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
            return Err(Refused(StatusCode::BAD_REQUEST, "This request names two hosts."));
        }
        _ => {}
    }
    if request.method() != Method::CONNECT {
        return Ok(());
    }
    match request.extensions().get::<Protocol>().map(Protocol::as_str) {
        Some("websocket") => {}
        Some(_) => return Err(Refused(StatusCode::NOT_IMPLEMENTED, "This server speaks no such protocol.")),
        // A tunnel, which the pipeline refuses in every version.
        None => return Ok(()),
    }
    *request.method_mut() = Method::GET;
    let key = HeaderValue::from_str(&base64(uuid::Uuid::new_v4().as_bytes()));
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = key {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    request.extensions_mut().insert(ExtendedConnect);
    Ok(())
}

/// Whether the request was extended CONNECT.
pub fn is_web_socket(extensions: &http::Extensions) -> bool {
    extensions.get::<ExtendedConnect>().is_some()
}

/// HTTP/2 knows no 101 (RFC 9113 section 8.6): to extended CONNECT the answer is 200, elsewhere the app was wrong.
pub fn answer<B>(response: &mut Response<B>, web_socket: bool) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    *response.status_mut() = if web_socket { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    strip(response.headers_mut());
}

fn strip(headers: &mut HeaderMap) {
    const HANDSHAKE: [HeaderName; 4] =
        [header::CONNECTION, header::UPGRADE, header::SEC_WEBSOCKET_ACCEPT, header::CONTENT_LENGTH];
    HANDSHAKE.iter().for_each(|name| drop(headers.remove(name)));
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= three.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_rfc_4648_shows_it() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    fn admitted(
        method: &str,
        uri: &str,
        host: Option<&str>,
        protocol: Option<&'static str>,
    ) -> Result<Request<()>, u16> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let mut request = request.body(()).unwrap();
        if let Some(protocol) = protocol {
            request.extensions_mut().insert(Protocol::from_static(protocol));
        }
        admit(&mut request).map(|()| request).map_err(|refused| refused.0.as_u16())
    }

    #[test]
    fn one_host_and_no_tunnels() {
        let status = |method, uri, host, protocol| admitted(method, uri, host, protocol).map(drop).err();
        assert_eq!(status("GET", "https://a.test/", None, None), None);
        assert_eq!(status("GET", "https://a.test/", Some("A.test"), None), None);
        assert_eq!(status("GET", "https://a.test/", Some("b.test"), None), Some(400));
        assert_eq!(status("GET", "/", Some("b.test"), None), None);
        assert_eq!(status("GET", "/", None, None), Some(400));
        assert_eq!(status("CONNECT", "a.test:443", None, None), None);
        assert_eq!(status("CONNECT", "https://a.test/", None, Some("connect-udp")), Some(501));
    }

    #[test]
    fn a_web_socket_is_shown_as_its_handshake() {
        let request = admitted("CONNECT", "https://a.test/cable", None, Some("websocket")).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::GET, "/cable"));
        assert_eq!(request.headers()["upgrade"], "websocket");
        assert_eq!(request.headers()["sec-websocket-key"].len(), 24);
        assert!(is_web_socket(request.extensions()));
    }

    #[test]
    fn switching_protocols_is_ok_or_an_error() {
        for (web_socket, status) in [(true, 200), (false, 500)] {
            let mut response =
                Response::builder().status(101).header("upgrade", "x").header("a", "b").body(()).unwrap();
            answer(&mut response, web_socket);
            assert_eq!((response.status().as_u16(), response.headers().len()), (status, 1));
        }
    }

    #[tokio::test]
    async fn resets_are_counted_for_a_while() {
        let streams = Arc::new(Streams::new(2));
        for _ in 0..2 {
            drop(Streams::open(&streams));
        }
        Streams::open(&streams).answered.store(true, Ordering::Relaxed);
        assert!(timeout(Duration::from_millis(5), streams.flooded.notified()).await.is_err());
        drop(Streams::open(&streams));
        assert!(timeout(Duration::from_millis(5), streams.flooded.notified()).await.is_ok());
        assert!(streams.idle_since().is_some());
        let open = Streams::open(&streams);
        assert!(streams.idle_since().is_none());
        drop(open);
    }
}
