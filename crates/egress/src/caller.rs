//! The connection of a process that asks: from the first byte of a call's head to its last there is a time, and heads that are larger than
//! usual take of what those of the account may. Between two calls it may be silent, and within one take its time. It reads no head.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    task::{ready, Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::{sleep, Sleep},
};

/// Time for the head of a call. Then the connection is closed.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// A wait for room.
type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The calls of one connection.
#[derive(Clone, Default)]
pub struct Calls(Arc<State>);

#[derive(Default)]
struct State {
    /// How many have begun.
    begun: AtomicUsize,
    /// Parts of the call that are not over: its request, its response.
    parts: AtomicUsize,
    /// What its head takes of the account's.
    room: Mutex<Option<OwnedSemaphorePermit>>,
}

/// A part of a call. When the last one is dropped, the call is over, and its head takes nothing any more.
pub struct UnderWay(Arc<State>);

impl Calls {
    /// A head has come whole.
    pub fn begin(&self) -> UnderWay {
        self.0.begun.fetch_add(1, Relaxed);
        self.0.parts.fetch_add(1, Relaxed);
        UnderWay(self.0.clone())
    }

    fn is_under_way(&self) -> bool {
        self.0.parts.load(Relaxed) > 0
    }

    fn hold(&self, room: OwnedSemaphorePermit) {
        let mut held = self.0.room.lock();
        match &mut *held {
            Some(held) => held.merge(room),
            None => *held = Some(room),
        }
    }
}

impl Clone for UnderWay {
    fn clone(&self) -> UnderWay {
        self.0.parts.fetch_add(1, Relaxed);
        UnderWay(self.0.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.parts.fetch_sub(1, Relaxed) == 1 {
            *self.0.room.lock() = None;
        }
    }
}

/// Its stream.
pub struct Caller {
    stream: UnixStream,
    calls: Calls,
    /// Bytes that heads of the account may take, but for the first piece of each.
    heads: Arc<Semaphore>,
    head: Head,
}

/// A head that is coming.
#[derive(Default)]
struct Head {
    /// How many calls had begun before it.
    after: usize,
    received: usize,
    /// Pieces that have room beside the first.
    pieces: usize,
    late: Option<Pin<Box<Sleep>>>,
    waiting: Option<Waiting>,
}

impl Caller {
    pub fn new(stream: UnixStream, calls: Calls, heads: Arc<Semaphore>) -> Caller {
        Caller { stream, calls, heads, head: Head::default() }
    }

    /// How many bytes may be read now.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let head = &mut self.head;
        if head.received > 0 {
            let late = head.late.get_or_insert_with(|| Box::pin(sleep(HEAD_TIME)));
            if late.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        if head.received >= PIECE * (1 + head.pieces) {
            let heads = &self.heads;
            let waiting = head.waiting.get_or_insert_with(|| Box::pin(heads.clone().acquire_many_owned(PIECE as u32)));
            let room = ready!(waiting.as_mut().poll(cx));
            head.waiting = None;
            head.pieces += 1;
            self.calls.hold(room.map_err(io::Error::other)?);
        }
        Poll::Ready(Ok(PIECE * (1 + head.pieces) - head.received))
    }
}

impl AsyncRead for Caller {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let begun = this.calls.0.begun.load(Relaxed);
        if this.head.after != begun {
            this.head = Head { after: begun, ..Head::default() };
        }
        if this.calls.is_under_way() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let most = ready!(this.poll_room(cx))?.min(buf.remaining());
        let mut piece = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.stream).poll_read(cx, &mut piece))?;
        let count = piece.filled().len();
        buf.advance(count);
        this.head.received += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Caller {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        all: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
