//! One connection to an upstream, and one exchange on it: HTTP/1.1, which a call has for itself, or HTTP/2, which calls
//! share. It never chooses a connection, and never asks twice.

use std::{
    future::{poll_fn, Future},
    net::SocketAddr,
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2, TrySendError},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use super::{
    failure::Failure,
    stream::{ResponseStream, StreamState},
};

/// Bytes of a response that are read ahead of who takes it, by HTTP/1.1; a longer head is refused.
const BUFFER: usize = 256 << 10;
/// Fields of a response by HTTP/1.1; one with more is refused.
const MAX_FIELDS: usize = 1024;
/// Bytes that are read ahead by HTTP/2, for each stream and for all of a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// An HTTP/2 connection is probed as often while nobody uses it, and has as long to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(10);

/// How long the parts of opening a connection took.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectTimes {
    pub dns: Duration,
    pub connect: Duration,
    pub tls: Duration,
}

/// A connection that may be asked.
pub struct Connection {
    pub speaks: Protocol,
    pub address: SocketAddr,
    pub opened: ConnectTimes,
    /// It has served a call before this one.
    pub reused: bool,
    /// When it was last used.
    pub since: Instant,
    state: Arc<StreamState>,
}

pub enum Protocol {
    Http1(http1::SendRequest<CallRequestBody>),
    Http2(Shared),
}

/// An HTTP/2 connection, which several have.
#[derive(Clone)]
pub struct Shared {
    sender: http2::SendRequest<CallRequestBody>,
    pub streams: Arc<AtomicUsize>,
    /// As many as the upstream takes.
    most: Arc<AtomicUsize>,
}

/// A stream that is counted for as long as this lives.
pub struct Stream(Arc<AtomicUsize>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether the upstream takes one more stream.
    pub fn has_room(&self) -> bool {
        self.streams.load(Relaxed) < self.most.load(Relaxed)
    }

    pub fn begin(&self) -> Stream {
        self.streams.fetch_add(1, Relaxed);
        Stream(self.streams.clone())
    }
}

/// A request that was not answered.
pub struct UnansweredRequest {
    pub failure: Failure,
    /// The request, if nothing of it has left.
    pub unsent: Option<Request<CallRequestBody>>,
    /// No byte of an answer has come on this connection since the request began, or the upstream says it has not
    /// looked at it.
    pub untouched: bool,
    /// The connection is of no use any more. A stream of HTTP/2 may end badly and leave it as it is.
    pub broken: bool,
}

impl Connection {
    /// Begins to speak HTTP on a stream: HTTP/2 if that was agreed.
    pub async fn speak<S>(
        stream: S,
        http2: bool,
        address: SocketAddr,
        opened: ConnectTimes,
    ) -> Result<Connection, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let state = Arc::new(StreamState::default());
        let io = TokioIo::new(ResponseStream::new(stream, state.clone()));
        let failed = |error: hyper::Error| Failure::of(&error, false);
        let speaks = if http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_WITHIN)
                .keep_alive_while_idle(true)
                .max_header_list_size(BUFFER as u32);
            let (sender, mut connection) = builder.handshake(io).await.map_err(failed)?;
            let most = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
            let told = most.clone();
            // Its end is told to whoever has a request on it.
            tokio::spawn(poll_fn(move |cx| {
                let ended = Pin::new(&mut connection).poll(cx);
                told.store(connection.current_max_send_streams(), Relaxed);
                ended.map(drop)
            }));
            Protocol::Http2(Shared { sender, streams: Arc::default(), most })
        } else {
            let mut builder = http1::Builder::new();
            builder.max_buf_size(BUFFER).max_headers(MAX_FIELDS).preserve_header_case(true);
            let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
            tokio::spawn(async move { drop(connection.await) });
            Protocol::Http1(sender)
        };
        Ok(Connection { speaks, address, opened, reused: false, since: Instant::now(), state })
    }

    /// The same connection for one more, which only HTTP/2 allows.
    pub fn share(&self) -> Option<Connection> {
        match &self.speaks {
            Protocol::Http1(_) => None,
            Protocol::Http2(shared) => Some(Connection {
                speaks: Protocol::Http2(shared.clone()),
                address: self.address,
                opened: self.opened,
                reused: true,
                since: Instant::now(),
                state: self.state.clone(),
            }),
        }
    }

    /// Whether it is known to be of no use any more.
    pub fn is_closed(&self) -> bool {
        match &self.speaks {
            Protocol::Http1(sender) => sender.is_closed() || self.state.is_ended(),
            Protocol::Http2(shared) => shared.is_closed(),
        }
    }

    /// Whether a request may be sent right now.
    pub fn is_ready(&self) -> bool {
        match &self.speaks {
            Protocol::Http1(sender) => sender.is_ready(),
            Protocol::Http2(shared) => shared.has_room(),
        }
    }

    /// Asks, and waits for the head of the answer.
    pub async fn ask(&mut self, request: Request<CallRequestBody>) -> Result<Response<Incoming>, UnansweredRequest> {
        let asked = match &mut self.speaks {
            Protocol::Http1(sender) => {
                self.state.begin(request.method() == Method::HEAD);
                sender.try_send_request(request).await
            }
            Protocol::Http2(shared) => shared.sender.try_send_request(request).await,
        };
        asked.map_err(|error| self.unanswered(error))
    }

    fn unanswered(&self, mut error: TrySendError<Request<CallRequestBody>>) -> UnansweredRequest {
        let unsent = error.take_message();
        let error = error.into_error();
        let (untouched, broken) = match self.speaks {
            Protocol::Http1(_) => (!self.state.is_heard(), true),
            Protocol::Http2(_) => of_stream(&error),
        };
        UnansweredRequest {
            failure: Failure::of(&error, unsent.is_none()),
            untouched: untouched || unsent.is_some(),
            broken,
            unsent,
        }
    }
}

/// Whether an HTTP/2 upstream says that it has done nothing with a request (RFC 9113 section 8.7): REFUSED_STREAM, or a
/// GOAWAY that does not reach it. And whether the connection has failed, and not the stream alone.
fn of_stream(error: &hyper::Error) -> (bool, bool) {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(error) = one.downcast_ref::<h2::Error>() {
            let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let gone = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
            return (refused || gone, !error.is_reset());
        }
        cause = one.source();
    }
    (false, true)
}

/// The body of a request.
pub enum CallRequestBody {
    Whole(Option<Bytes>),
    Arriving(Incoming),
}

impl Body for CallRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            CallRequestBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            CallRequestBody::Arriving(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CallRequestBody::Whole(bytes) => bytes.is_none(),
            CallRequestBody::Arriving(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CallRequestBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            CallRequestBody::Arriving(body) => body.size_hint(),
        }
    }
}
