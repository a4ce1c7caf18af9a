//! Stands between a client's stream and the HTTP/2 library: frames are counted and timed as they pass, a client that
//! sends too many of those that carry nothing is told to calm down, and one that takes nothing is let go. It copies no frame, and
//! changes none but for a `#` in a path.
//!
//! A client that has to go is told so by the library, which alone knows where its own frames end: instead of what the
//! client sends next it reads a header block without end, which it refuses with GOAWAY (ENHANCE_YOUR_CALM).

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{atomic::Ordering::Relaxed, Arc},
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::{
    frames::{Allowance, Follower},
    streams::Streams,
};
use http_guard::{
    guard::Timeouts,
    write_timeout::{Timer, WriteTimeout},
};

/// TLS does not tell what the socket takes of the last bytes it was given, so these may take this many times as long.
const FLUSHES: u32 = 4;

/// A client's stream, watched.
pub struct WatchedStream<S> {
    stream: S,
    streams: Arc<Streams>,
    timeouts: Timeouts,
    header_list: u32,
    follower: Follower,
    allowance: Allowance,
    born: Instant,
    /// What the client has begun and has to end, by its number, and since when.
    begun: Option<(u64, Instant)>,
    /// The allowance is spent: the connection ends with the frame that is under way.
    spent: bool,
    /// What the library reads in place of what the client sends.
    stand_in: Option<Bytes>,
    reading: Timer,
    writing: WriteTimeout,
}

impl<S> WatchedStream<S> {
    pub fn new(stream: S, streams: Arc<Streams>, timeouts: Timeouts, header_list: u32) -> WatchedStream<S> {
        let born = Instant::now();
        WatchedStream {
            stream,
            streams,
            timeouts,
            header_list,
            follower: Follower::default(),
            allowance: Allowance::default(),
            born,
            begun: Some((0, born)),
            spent: false,
            stand_in: None,
            reading: Timer::default(),
            writing: WriteTimeout::default(),
        }
    }

    /// Looks at what came; returns how much of it passes.
    fn inspect(&mut self, bytes: &mut [u8]) -> usize {
        let (good, passed) = self.follower.follow(bytes, self.spent);
        if passed.data > 0 {
            self.streams.received.fetch_add(passed.data, Relaxed);
        }
        let (pieces, born) = (self.streams.take_pieces(), self.born);
        self.spent |= !self.allowance.pay(passed, pieces, || born.elapsed());
        match self.follower.unfinished() {
            None => self.begun = None,
            Some(number) if self.begun.is_some_and(|(before, _)| before == number) => {}
            Some(number) => self.begun = Some((number, Instant::now())),
        }
        good
    }

    /// More CONTINUATION frames than the library takes for a list of the size it was told, in the header block that is
    /// open or in one of its own.
    fn stand_in(&self) -> Bytes {
        const EMPTY_HEADERS: [u8; 9] = [0, 0, 0, 1, 0, 0, 0, 0, 1];
        let mut bytes = Vec::new();
        let stream = self.follower.block().unwrap_or_else(|| {
            bytes.extend(EMPTY_HEADERS);
            1
        });
        for _ in 0..self.header_list / (8 << 10) + 8 {
            bytes.extend([0, 0, 0, 9, 0]);
            bytes.extend(stream.to_be_bytes());
        }
        bytes.into()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(rest) = &mut this.stand_in {
                if rest.is_empty() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                let count = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..count]);
                rest.advance(count);
                return Poll::Ready(Ok(()));
            }
            if this.spent && this.follower.at_boundary() {
                this.stand_in = Some(this.stand_in());
                continue;
            }
            let before = buffer.filled().len();
            if Pin::new(&mut this.stream).poll_read(cx, buffer)?.is_ready() {
                let good = this.inspect(&mut buffer.filled_mut()[before..]);
                let end = buffer.filled().len() == before;
                buffer.set_filled(before + good);
                if good > 0 || end {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let Some((_, since)) = this.begun else { return Poll::Pending };
            ready!(this.reading.poll(cx, since + this.timeouts.head));
            if !this.follower.at_boundary() {
                // Amid a frame nothing can stand in.
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            this.spent = true;
        }
    }
}

impl<S: AsyncWrite + Unpin> WatchedStream<S> {
    /// Lets a write wait no longer than it may.
    fn timed<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>, timeouts: Duration) -> Poll<io::Result<T>> {
        let was_full = self.writing.is_blocked();
        let done = self.writing.judge(cx, done, timeouts);
        if self.writing.is_blocked() != was_full {
            self.streams.socket_is_full(!was_full);
        }
        done
    }

    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &written {
            self.allowance.written(*count);
        }
        self.timed(cx, written, self.timeouts.write)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.timed(cx, flushed, this.timeouts.write * FLUSHES)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.timed(cx, shut, this.timeouts.write * FLUSHES)
    }
}
