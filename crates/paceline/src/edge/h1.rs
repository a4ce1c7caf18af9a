//! A client's connection in HTTP/1: hyper reads requests and frames responses; interim responses are slipped in
//! between. While a connection is idle it has no hyper, which would keep its buffers. It never looks at what a request
//! asks for.

use std::{
    future::{poll_fn, Future},
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        Arc,
    },
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use http::{header, HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{
    content::body::ResponseBody,
    exchange::{self, incoming::LeftUnread, Connection},
    request::{
        front::{
            drain::{Readiness, Stop},
            Front,
        },
        pipeline::{self, Link},
    },
    support::event_loops,
};
use http_guard::{
    guard::{GuardedStream, MessageTracker, MessageTurn},
    hop::connection_has,
};

/// The parser's buffer, at least: what it writes at once, and reads of a body at once.
const BUFFER: usize = 64 << 10;

/// Field lines the parser has room for without being told.
const PARSERS_OWN_FIELDS: usize = 100;

/// Bytes of interim responses that may wait for a client.
const MAX_INTERIM: usize = 64 << 10;

/// How long a client that is still sending is listened to after its answer.
const LINGER: Duration = Duration::from_secs(3);

/// Serves a connection until it is closed, or until `stop` says so and the exchange in hand is done.
pub fn serve<S>(
    stream: S,
    connection: Connection,
    server: Arc<Front>,
    mut stop: Stop,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, messages) = GuardedStream::new(stream, server.config.client.heads, server.config.client.timeouts);
    let served = ConnectionContext { connection: Arc::new(connection), server, messages, interim: Interim::default() };
    let mut stream = Box::new(stream);
    // What is parsed is on the heap, so that an idle connection has no room for it.
    async move {
        while let Some(resting) = Box::pin(parse(stream, served.clone(), stop.clone())).await {
            stream = resting;
            let rest = Rest::begin();
            let woken = tokio::select! {
                woken = poll_fn(|cx| {
                    event_loops::may_move(true);
                    stream.poll_wake(cx)
                }) => woken,
                _ = stop.closing() => false,
            };
            if !woken {
                let _ = stream.shutdown().await;
                return;
            }
            drop(rest);
        }
    }
}

/// Idle connections without a parser.
static RESTING: AtomicUsize = AtomicUsize::new(0);

/// How many connections are idle and have been left without a parser.
pub fn resting() -> usize {
    RESTING.load(SeqCst)
}

/// One that is counted until this is dropped.
struct Rest;

impl Rest {
    fn begin() -> Rest {
        RESTING.fetch_add(1, SeqCst);
        Rest
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        RESTING.fetch_sub(1, SeqCst);
    }
}

/// What the exchanges of a connection share, for as long as it lives.
#[derive(Clone)]
struct ConnectionContext {
    connection: Arc<Connection>,
    server: Arc<Front>,
    messages: Arc<MessageTracker>,
    interim: Interim,
}

/// Serves a connection until it is closed, or until it rests: then it is returned.
async fn parse<S>(
    stream: Box<GuardedStream<S>>,
    served: ConnectionContext,
    mut stop: Stop,
) -> Option<Box<GuardedStream<S>>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ConnectionContext { connection, server, messages, interim } = served;
    let limits = server.config.client.heads;
    let resting = RestingStream::default();
    let talk = messages.clone();
    let stream =
        ClientStream { stream: Some(stream), resting: resting.clone(), interim: interim.clone(), lingering: None };
    let io = TokioIo::new(stream);
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (server, connection, interim) = (server.clone(), connection.clone(), interim.clone());
        let (messages, (refusal, turn)) = (messages.clone(), messages.begin());
        let is_last = is_last(&request);
        if is_last {
            messages.is_last();
        }
        // Of a request that changes something its client wants to know what became of it.
        let is_waited_for = is_last || !request.method().is_safe();
        messages.may_half_close(is_waited_for && !is_passed_on(request.headers()));
        let asks_for_another_protocol = request.headers().contains_key(header::UPGRADE);
        let version = request.version();
        async move {
            if let Some(refusal) = refusal {
                let response = pipeline::refuse(&server, connection, request, refusal);
                interim.lock().still_sending = true;
                return Ok(response.map(|body| AnswerBody { body, _turn: turn }));
            }
            let draining = server.clone();
            let link = Link { hints: Some(interim.0.clone()), hold: None, pace: None };
            let mut response = pipeline::run(server, connection, request, link).await;
            interim.lock().still_sending = response.extensions().get::<LeftUnread>().is_some();
            if asks_for_another_protocol {
                messages.protocol(response.status() == StatusCode::SWITCHING_PROTOCOLS);
            }
            if draining.readiness() == Readiness::Draining {
                tell_to_go(&mut response, &messages);
            }
            if version == Version::HTTP_10 && says_close(&response) {
                // Otherwise the parser adds `keep-alive`, which such clients believe.
                *response.version_mut() = version;
            }
            Ok::<Response<_>, io::Error>(response.map(|body| AnswerBody { body, _turn: turn }))
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // Time is the guard's matter.
    builder.header_read_timeout(None).half_close(false).max_buf_size(BUFFER.max(limits.most_held() + (8 << 10)));
    if limits.fields > PARSERS_OWN_FIELDS {
        builder.max_headers(limits.fields);
    }
    let mut serving = std::pin::pin!(builder.serve_connection(io, service).with_upgrades());
    let parsing = poll_fn(|cx| {
        let ended = serving.as_mut().poll(cx);
        event_loops::may_move(talk.is_between());
        ended
    });
    let stopped = tokio::select! {
        // A client's broken connection is its own affair.
        _ = parsing => false,
        _ = stop.closing() => true,
    };
    if stopped {
        // One that is idle is closed; the answer of any other is its last.
        serving.as_mut().graceful_shutdown();
        tokio::select! {
            _ = serving => {}
            // What answers it learns that its client is gone.
            _ = stop.cut() => return None,
        }
    }
    let mut resting = resting.lock();
    resting.take()
}

/// Makes this answer the connection's last, unless the client has sent more already: what it sends ahead of answers it
/// may not be able to send again.
fn tell_to_go<B>(response: &mut Response<B>, messages: &MessageTracker) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS && !messages.has_more() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        messages.is_last();
    }
}

fn says_close<B>(response: &Response<B>) -> bool {
    response.headers().get(header::CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}

/// Whether the client closes after the answer (RFC 9112 section 9.3).
fn is_last<B>(request: &http::Request<B>) -> bool {
    let says = |word: &str| connection_has(request.headers(), word);
    says("close") || request.version() < http::Version::HTTP_11 && !says("keep-alive")
}

/// Whether a proxy sends the request for somebody else. It closes when that client leaves, and never halfway.
fn is_passed_on(headers: &HeaderMap) -> bool {
    ["via", "forwarded", "x-forwarded-for", "x-real-ip"].iter().any(|name| headers.contains_key(*name))
}

/// Where a connection is put that rests: hyper itself gives none back.
type RestingStream<S> = Arc<Mutex<Option<Box<GuardedStream<S>>>>>;

/// The body of an answer that is not done until this is dropped.
struct AnswerBody {
    body: ResponseBody,
    _turn: MessageTurn,
}

impl Body for AnswerBody {
    type Data = bytes::Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<bytes::Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of interim responses on their way to the client's stream.
#[derive(Clone, Default)]
struct Interim(Arc<Mutex<Pending>>);

#[derive(Default)]
struct Pending {
    bytes: BytesMut,
    /// hyper has bytes of an earlier response that the socket did not take yet: nothing may be slipped in.
    busy: bool,
    /// The client is sending a body that nobody reads.
    still_sending: bool,
}

impl Interim {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock()
    }
}

impl exchange::Interim for Mutex<Pending> {
    /// Left out when an earlier response is still being written, or the client takes none: nothing depends on them.
    fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        let mut pending = self.lock();
        if pending.busy || pending.bytes.len() > MAX_INTERIM {
            return;
        }
        let line = format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default());
        pending.bytes.extend_from_slice(line.as_bytes());
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                pending.bytes.extend_from_slice(part);
            }
        }
        pending.bytes.extend_from_slice(b"\r\n");
    }
}

/// The client's stream with a place for interim responses.
struct ClientStream<S> {
    /// None: it rests.
    stream: Option<Box<GuardedStream<S>>>,
    resting: RestingStream<S>,
    interim: Interim,
    /// Set when the client was still sending as its last answer was out.
    lingering: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<S> ClientStream<S> {
    fn stream(&mut self) -> io::Result<&mut GuardedStream<S>> {
        self.stream.as_deref_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: AsyncWrite + Unpin> ClientStream<S> {
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pending = self.interim.lock();
        while !pending.bytes.is_empty() {
            let Some(stream) = self.stream.as_deref_mut() else { break };
            let count = ready!(Pin::new(stream).poll_write(cx, &pending.bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            pending.bytes.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    fn note(&self, written: &Poll<io::Result<usize>>, offered: usize) {
        let mut pending = self.interim.lock();
        pending.busy = !matches!(written, Poll::Ready(Ok(count)) if *count == offered);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()?).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + Unpin> ClientStream<S> {
    /// A client that is still sending (a body over the bound) would be reset by a close, and might never see its answer
    /// (RFC 9112 section 9.6): for a while what it sends is read and thrown away.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.interim.lock().still_sending {
            self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        }
        let mut space = [std::mem::MaybeUninit::uninit(); 16 << 10];
        loop {
            if let Some(lingering) = &mut self.lingering {
                if lingering.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
            }
            let mut buffer = ReadBuf::uninit(&mut space);
            let Some(stream) = self.stream.as_deref_mut() else { return Poll::Ready(()) };
            match Pin::new(stream.bare()).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
                }
                Poll::Pending if self.lingering.is_some() => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let written = Pin::new(self.stream()?).poll_write(cx, bytes);
        self.note(&written, bytes.len());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let written = Pin::new(self.stream()?).poll_write_vectored(cx, slices);
        self.note(&written, slices.iter().map(|slice| slice.len()).sum());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        Pin::new(self.stream()?).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // To hyper the connection is over.
        if let Some(stream) = self.stream.take_if(|stream| stream.is_resting()) {
            *self.resting.lock() = Some(stream);
        }
        if self.stream.is_none() {
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(self.stream()?).poll_shutdown(cx))?;
        self.poll_linger(cx).map(Ok)
    }
}

/// Connections that are being told that there is no room.
static TURNED_AWAY: AtomicUsize = AtomicUsize::new(0);

/// How many are told; further ones are just closed.
const TOLD: usize = 64;

/// Tells a client that there is no room for it, and closes.
pub fn turn_away<S>(mut stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
        Content-Type: text/plain\r\nContent-Length: 32\r\n\r\nThere are too many connections.\n";
    if TURNED_AWAY.fetch_add(1, SeqCst) >= TOLD {
        TURNED_AWAY.fetch_sub(1, SeqCst);
        return;
    }
    tokio::spawn(async move {
        let _ = tokio::time::timeout(Duration::from_secs(1), async {
            stream.write_all(ANSWER).await?;
            stream.shutdown().await?;
            // A close with bytes unread would be a reset, and might take the answer along (RFC 9112 section 9.6).
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
        })
        .await;
        TURNED_AWAY.fetch_sub(1, SeqCst);
    });
}
