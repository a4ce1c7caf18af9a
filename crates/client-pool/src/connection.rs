//! One connection to an upstream, and one exchange on it: HTTP/1.1, which a call has for itself, or HTTP/2, which calls
//! share. It never chooses a connection, and never asks twice.

use std::{
    error::Error,
    future::{poll_fn, Future},
    net::SocketAddr,
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2, TrySendError},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedSemaphorePermit,
    time::Instant,
};

use super::{
    failure::Failure,
    stream::{ResponseStream, StreamState},
};

/// How HTTP is spoken.
#[derive(Debug, Clone, Copy)]
pub struct HttpSettings {
    /// Bytes of a response that are read ahead of who takes it, by HTTP/1.1; a longer head is refused.
    pub buffer: usize,
    /// Fields of a response by HTTP/1.1; one with more is refused. None: hyper's own bound (100).
    pub max_fields: Option<usize>,
    /// Names of fields keep their case, both ways (HTTP/1.1).
    pub preserves_case: bool,
    /// A head of a response to HEAD that is broken off after a line is complete.
    pub ends_cut_heads: bool,
    /// The response is read although the upstream takes no more of the request.
    pub reads_early_answers: bool,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings {
            buffer: 64 << 10,
            max_fields: None,
            preserves_case: false,
            ends_cut_heads: false,
            reads_early_answers: false,
        }
    }
}

/// What can be a request's body.
pub trait RequestBody: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static {}

impl<B> RequestBody for B where B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{}

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
pub struct Connection<B> {
    pub speaks: Protocol<B>,
    /// None: a Unix socket.
    pub address: Option<SocketAddr>,
    pub opened: ConnectTimes,
    /// It has served a call before this one.
    pub reused: bool,
    /// When it was last used.
    pub since: Instant,
    state: Arc<StreamState>,
    /// What it takes of the places of all, together with those that share it.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

pub enum Protocol<B> {
    Http1(http1::SendRequest<B>),
    Http2(Shared<B>),
}

/// An HTTP/2 connection, which several have.
pub struct Shared<B> {
    sender: http2::SendRequest<B>,
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

impl<B> Clone for Shared<B> {
    fn clone(&self) -> Shared<B> {
        Shared { sender: self.sender.clone(), streams: self.streams.clone(), most: self.most.clone() }
    }
}

impl<B> Shared<B> {
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
pub struct UnansweredRequest<B> {
    pub failure: Failure,
    /// The request, if nothing of it has left.
    pub unsent: Option<Request<B>>,
    /// No byte of an answer has come on this connection since the request began, or the upstream says it has not
    /// looked at it.
    pub untouched: bool,
    /// The connection is of no use any more. A stream of HTTP/2 may end badly and leave it as it is.
    pub broken: bool,
}

impl<B> UnansweredRequest<B> {
    /// Whether the request may be sent once more, on another connection: the upstream has not looked at it; or it is
    /// idempotent, and the connection had been kept and proved to be closed (RFC 9110 section 9.2.2). `reused`: it had
    /// been kept.
    pub fn is_repeatable(&self, over_http2: bool, is_idempotent: bool, reused: bool) -> bool {
        let kept = is_idempotent && reused;
        if over_http2 {
            // A connection of HTTP/2 is heard all the time: only its end says that it was closed.
            self.untouched || kept && self.broken
        } else {
            self.untouched && (self.unsent.is_some() || kept)
        }
    }
}

impl<B> Connection<B> {
    pub fn is_http2(&self) -> bool {
        matches!(self.speaks, Protocol::Http2(_))
    }

    /// It has this place for as long as it is open.
    pub fn in_place(self, place: OwnedSemaphorePermit) -> Connection<B> {
        Connection { place: Some(Arc::new(place)), ..self }
    }

    /// It goes on with another protocol.
    pub fn switch(&self) {
        self.state.switch();
    }
}

impl<B: RequestBody> Connection<B> {
    /// Begins to speak HTTP on a stream: HTTP/2 if that was agreed.
    pub async fn speak<S>(
        stream: S,
        http2: bool,
        address: Option<SocketAddr>,
        opened: ConnectTimes,
        settings: &HttpSettings,
    ) -> Result<Connection<B>, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let state = Arc::new(StreamState::default());
        let io = TokioIo::new(ResponseStream::new(stream, state.clone(), settings));
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
                .max_header_list_size(settings.buffer as u32);
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
            builder.max_buf_size(settings.buffer).preserve_header_case(settings.preserves_case);
            if let Some(most) = settings.max_fields {
                builder.max_headers(most);
            }
            let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
            // Its end, good or bad, is told to whoever has the request.
            tokio::spawn(async move { drop(connection.with_upgrades().await) });
            Protocol::Http1(sender)
        };
        Ok(Connection { speaks, address, opened, reused: false, since: Instant::now(), state, place: None })
    }

    /// The connection for one more request, which only HTTP/2 allows.
    pub fn share(&self) -> Option<Connection<B>> {
        match &self.speaks {
            Protocol::Http1(_) => None,
            Protocol::Http2(shared) => Some(Connection {
                speaks: Protocol::Http2(shared.clone()),
                address: self.address,
                opened: self.opened,
                reused: true,
                since: Instant::now(),
                state: self.state.clone(),
                place: self.place.clone(),
            }),
        }
    }

    /// Whether a call is on it, of those that share it.
    pub fn is_in_use(&self) -> bool {
        match &self.speaks {
            Protocol::Http1(_) => false,
            Protocol::Http2(shared) => shared.streams.load(Relaxed) > 0,
        }
    }

    /// Whether it is known to be of no use any more.
    pub fn is_closed(&self) -> bool {
        match &self.speaks {
            Protocol::Http1(sender) => sender.is_closed() || self.state.is_ended() || self.state.is_deaf(),
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
    pub async fn ask(&mut self, request: Request<B>) -> Result<Response<Incoming>, UnansweredRequest<B>> {
        let asked = match &mut self.speaks {
            Protocol::Http1(sender) => {
                self.state.begin(request.method() == Method::HEAD);
                sender.try_send_request(request).await
            }
            Protocol::Http2(shared) => shared.sender.try_send_request(request).await,
        };
        asked.map_err(|error| self.unanswered(error))
    }

    fn unanswered(&self, mut error: TrySendError<Request<B>>) -> UnansweredRequest<B> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_safe_is_sent_once_more() {
        let failed = |untouched, broken, is_unsent: bool| UnansweredRequest {
            failure: Failure::Closed { sent: !is_unsent },
            unsent: is_unsent.then(|| Request::new(())),
            untouched: untouched || is_unsent,
            broken,
        };
        // Over HTTP/2, idempotent, reused.
        for (request, over_http2, is_idempotent, reused, repeatable) in [
            (failed(true, true, false), false, true, true, true),
            (failed(true, true, false), false, false, true, false),
            (failed(true, true, false), false, true, false, false),
            (failed(false, true, false), false, true, true, false),
            (failed(true, true, true), false, false, false, true),
            (failed(true, false, false), true, false, false, true),
            (failed(false, true, false), true, true, true, true),
            (failed(false, true, false), true, false, true, false),
            (failed(false, true, false), true, true, false, false),
            (failed(false, false, false), true, true, true, false),
        ] {
            let told = request.is_repeatable(over_http2, is_idempotent, reused);
            let what = (request.untouched, request.broken, over_http2, is_idempotent, reused);
            assert_eq!(told, repeatable, "untouched, broken, over HTTP/2, idempotent, reused: {what:?}");
        }
    }
}
