//! Connections to one upstream: made, kept for the next request, closed when nobody needs them.
//! It never looks at a message. A connection is used by the event loop that made it, which alone can move its bytes.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc, Mutex, MutexGuard, Weak,
    },
    task::{ready, Context, Poll},
    thread::{self, ThreadId},
    time::Duration,
};

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{lookup_host, TcpStream, UnixStream},
    time::{timeout_at, Instant},
};

use super::{address::Address, failure::Failure, outgoing::Outgoing};

/// How long a connection is kept without a request. Many servers close theirs after 5 s (Node, Apache, uvicorn): who
/// closes first loses no request.
const KEEP: Duration = Duration::from_secs(4);
/// A connection that is silent for so long is probed: a machine that is gone says nothing, and a response or a
/// WebSocket may be silent for as long as it likes.
const PROBED: Duration = Duration::from_secs(60);
/// How many are kept by each event loop.
pub const MAX: usize = 32;
/// Bytes of a response that are read ahead of the client; a longer head is refused.
const BUFFER: usize = 64 << 10;

/// An upstream's connections.
pub struct Pool {
    pub address: Address,
    connect_timeout: Duration,
    idle: Mutex<HashMap<ThreadId, Shelf>>,
}

/// What one event loop keeps, the oldest first.
#[derive(Default)]
struct Shelf {
    kept: Vec<(Connection, Instant)>,
    /// A task is there that closes what is too old.
    swept: bool,
}

/// A connection that one request has.
pub struct Connection {
    pub sender: SendRequest<Outgoing>,
    /// It has served a request before this.
    pub reused: bool,
    talk: Arc<MessageTracker>,
}

/// What is noted of a connection's bytes.
#[derive(Default)]
struct MessageTracker {
    /// Something has come since the request began.
    heard: AtomicBool,
    /// Nothing can be sent any more.
    deaf: AtomicBool,
    /// Its bytes are HTTP no more.
    switched: AtomicBool,
}

impl Connection {
    /// A request begins.
    pub fn begin(&self) {
        self.talk.heard.store(false, Relaxed);
    }

    /// It goes on with another protocol.
    pub fn switch(self) {
        self.talk.switched.store(true, Relaxed);
    }

    /// Whether a byte of an answer has come.
    pub fn has_heard(&self) -> bool {
        self.talk.heard.load(Relaxed)
    }
}

impl Pool {
    pub fn new(address: Address, connect_timeout: Duration) -> Pool {
        Pool { address, connect_timeout, idle: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Shelf>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A kept connection that is open, as far as is known; the one used last.
    pub fn kept(&self) -> Option<Connection> {
        let mut idle = self.lock();
        let shelf = idle.get_mut(&thread::current().id())?;
        let now = Instant::now();
        shelf.kept.retain(|(connection, since)| !connection.sender.is_closed() && *since + KEEP > now);
        // One that is not ready is still being sent a body that its answer did not wait for.
        let index = shelf.kept.iter().rposition(|(connection, _)| connection.sender.is_ready())?;
        let (connection, _) = shelf.kept.remove(index);
        Some(Connection { reused: true, ..connection })
    }

    /// Keeps a connection whose response is complete.
    pub fn keep(self: &Arc<Self>, connection: Connection) {
        if connection.sender.is_closed() || connection.talk.deaf.load(Relaxed) {
            return;
        }
        let thread = thread::current().id();
        let mut idle = self.lock();
        let shelf = idle.entry(thread).or_default();
        if shelf.kept.len() >= MAX {
            return;
        }
        shelf.kept.push((connection, Instant::now()));
        if !shelf.swept {
            shelf.swept = true;
            tokio::spawn(sweep(Arc::downgrade(self), thread));
        }
    }

    /// Drops what is too old; returns when the next will be.
    fn drop_old(&self, thread: ThreadId) -> Option<Instant> {
        let mut idle = self.lock();
        let shelf = idle.get_mut(&thread)?;
        let now = Instant::now();
        shelf.kept.retain(|(connection, since)| !connection.sender.is_closed() && *since + KEEP > now);
        let next = shelf.kept.first().map(|(_, since)| *since + KEEP);
        shelf.swept = next.is_some();
        next
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let until = Instant::now() + self.connect_timeout;
        let late = |_| Failure::ConnectTimedOut { upstream: self.address.to_string(), after: self.connect_timeout };
        let unreachable = |error: io::Error| self.unreachable(error.to_string());
        match &self.address {
            Address::Unix(path) => {
                let stream = timeout_at(until, UnixStream::connect(path)).await.map_err(late)?;
                self.speak(stream.map_err(unreachable)?).await
            }
            Address::Tcp { host, port } => {
                let found = timeout_at(until, lookup_host((host.as_str(), *port))).await.map_err(late)?;
                let mut addresses = found.map_err(unreachable)?.peekable();
                let mut failed = self.unreachable("the name has no address".into());
                while let Some(address) = addresses.next() {
                    // One that is silent leaves time for those after it.
                    let now = Instant::now();
                    let share = if addresses.peek().is_some() { (until - now) / 2 } else { until - now };
                    match timeout_at(now + share, TcpStream::connect(address)).await {
                        Ok(Ok(stream)) => {
                            let _ = stream.set_nodelay(true);
                            let probes = TcpKeepalive::new().with_time(PROBED).with_interval(PROBED / 4);
                            let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
                            return self.speak(stream).await;
                        }
                        Ok(Err(error)) => failed = unreachable(error),
                        Err(elapsed) => failed = late(elapsed),
                    }
                }
                Err(failed)
            }
        }
    }

    fn unreachable(&self, why: String) -> Failure {
        Failure::Unreachable { upstream: self.address.to_string(), why }
    }

    async fn speak<S>(&self, stream: S) -> Result<Connection, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let talk = Arc::new(MessageTracker::default());
        let io = TokioIo::new(UploadTracker { stream, talk: talk.clone() });
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER);
        let (sender, connection) = builder.handshake(io).await.map_err(|error| Failure::of(error, &self.address))?;
        // Its end, good or bad, is told to whoever has the request.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        Ok(Connection { sender, reused: false, talk })
    }
}

/// Closes what an event loop keeps too long, until it keeps nothing.
async fn sweep(pool: Weak<Pool>, thread: ThreadId) {
    let mut next = Instant::now() + KEEP;
    loop {
        tokio::time::sleep_until(next).await;
        match pool.upgrade().and_then(|pool| pool.drop_old(thread)) {
            Some(later) => next = later,
            None => return,
        }
    }
}

/// A stream that notes when something has come. A server may answer before it has read the whole body, and close (RFC
/// 9112 section 9.6): what it takes no more is thrown away here, so that its answer is still read, or that there is
/// none.
struct UploadTracker<S> {
    stream: S,
    talk: Arc<MessageTracker>,
}

impl<S> UploadTracker<S> {
    fn written(&self, written: io::Result<usize>, offered: usize) -> io::Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match written {
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) && !self.talk.switched.load(Relaxed) => {
                self.talk.deaf.store(true, Relaxed);
                Ok(offered)
            }
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UploadTracker<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.talk.heard.store(true, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UploadTracker<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        Poll::Ready(self.written(written, bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        Poll::Ready(self.written(written, slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
