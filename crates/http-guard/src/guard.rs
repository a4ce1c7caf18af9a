//! Stands between a client's stream and the HTTP/1.1 parser: what the parser reads has been found good
//! (`http::strict`), in time, and a client that takes nothing of its answer for too long is let go.
//!
//! A message that is refused reaches the parser as a stand-in request of its place in the order, so that the answers to
//! those before it go out first; `MessageTracker` tells the service what to answer it. Between two messages the parser
//! with its buffers can be given up: to it the connection then has ended, and the guard waits for the next message
//! alone. It never makes an answer itself.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::{atomic::Ordering::SeqCst, Arc},
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use crate::{
    stall::{GRACE, STALL},
    strict::{encode_target, BadBody, Follower, Limits, Next, Refusal},
    write_timeout::{Timer, WriteTimeout},
};

mod message_tracker;
#[cfg(test)]
mod tests;

pub use message_tracker::{MessageTracker, MessageTurn};
use message_tracker::{CHANGED, KEPT, UNKNOWN};

/// What the parser reads in place of a refused message. The access log shows it as `"- * HTTP/1.1"`.
const STAND_IN: &[u8] = b"- * HTTP/1.1\r\nHost: -\r\n\r\n";

/// Bytes that may wait for the answer to a request for another protocol.
const UNDECIDED: usize = 64 << 10;

/// After so long between an answer and the next request the connection rests: it keeps no parser. (One that is in use
/// never gets here; each rest costs a new parser and a copy of the first bytes.)
const REST: Duration = Duration::from_millis(200);

/// How long a client may take for what. Each time-out is about progress, never about the whole.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From the first byte of a head to its last (408), and from the connection to the first byte.
    pub head: Duration,
    /// Between an answer and the next request.
    pub idle: Duration,
    /// In each such interval of waiting for a body ...
    pub body: Duration,
    /// ... so many bytes of it have to come (408).
    pub body_bytes: usize,
    /// While bytes wait to be written and the client takes none.
    pub write: Duration,
}

enum Mode {
    Following,
    /// The stand-in has been queued; what still comes is thrown away.
    Refused,
    Broken(Refusal),
    /// Another protocol: bytes pass untouched.
    Through,
}

/// A client's stream, guarded.
pub struct GuardedStream<S> {
    stream: S,
    talk: Arc<MessageTracker>,
    follower: Follower,
    mode: Mode,
    /// Bytes that the parser has not read: found good up to `good`, then not judged to the end.
    held: BytesMut,
    good: usize,
    timeouts: Timeouts,
    reading: Waits,
    /// Nobody parses: what comes is kept.
    resting: bool,
    /// When the client has closed its side and waits for its answer: since when it has taken nothing of that.
    half_closed: Option<Instant>,
    writing: WriteTimeout,
}

/// What of a time-out is counted so far.
#[derive(Default)]
struct Waits {
    timer: Timer,
    head: Option<Instant>,
    idle: Option<Instant>,
    /// The connection could not rest, although it was time.
    restless: bool,
    body: Option<Instant>,
    body_before: Duration,
    body_bytes: usize,
    /// What was due while this process did not run, and until when the client is heard.
    heard: Option<(Instant, Instant)>,
}

#[derive(Clone, Copy)]
enum Due {
    Head,
    Rest,
    Idle,
    Body,
}

impl<S> GuardedStream<S> {
    pub fn new(stream: S, limits: Limits, timeouts: Timeouts) -> (GuardedStream<S>, Arc<MessageTracker>) {
        let talk = Arc::<MessageTracker>::default();
        let guarded = GuardedStream {
            stream,
            talk: talk.clone(),
            follower: Follower::new(limits),
            mode: Mode::Following,
            held: BytesMut::new(),
            good: 0,
            timeouts,
            reading: Waits::default(),
            resting: false,
            half_closed: None,
            writing: WriteTimeout::default(),
        };
        (guarded, talk)
    }

    /// The stream itself, for a connection that is over.
    pub fn bare(&mut self) -> &mut S {
        &mut self.stream
    }

    fn hand_over(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.good.min(buffer.remaining());
        buffer.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.good -= count;
        if self.held.is_empty() {
            // The memory of a head that came in pieces is not kept for the life of the connection.
            self.held = BytesMut::new();
        }
    }

    /// Judges what is held behind the good bytes.
    fn judge_held(&mut self) {
        let heads = self.follower.heads();
        let (good, next) = self.follower.judge(&self.held[self.good..]);
        if self.follower.raw_heads().is_empty() {
            self.good += good;
        } else {
            let rest = self.held.split_off(self.good);
            self.hold_encoded(&rest, good);
        }
        self.after_judging(heads, next);
    }

    /// Holds `bytes`, of which `good` are good, with the raw targets in them percent-encoded.
    fn hold_encoded(&mut self, bytes: &[u8], good: usize) {
        let mut done = 0;
        for head in self.follower.raw_heads() {
            self.held.extend_from_slice(&bytes[done..head.start]);
            self.held.extend_from_slice(&encode_target(&bytes[head.clone()]));
            done = head.end;
        }
        self.held.extend_from_slice(&bytes[done..good]);
        self.good = self.held.len();
        self.held.extend_from_slice(&bytes[good..]);
    }

    fn after_judging(&mut self, heads_before: u64, next: Next) {
        let heads = self.follower.heads();
        if heads != heads_before {
            self.reading.head = None;
            self.talk.heads.store(heads, SeqCst);
        }
        match next {
            Next::More | Next::Undecided => {}
            Next::Refused(refusal) => self.refuse(refusal),
            Next::Broken(refusal) => {
                self.held.truncate(self.good);
                self.mode = Mode::Broken(refusal);
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        let _ = self.talk.refused.set((self.follower.heads(), refusal));
        self.held.truncate(self.good);
        self.held.extend_from_slice(STAND_IN);
        self.good = self.held.len();
        self.mode = Mode::Refused;
    }

    /// When the client has taken too long for what is waited for; None: it is not the client that is waited for.
    fn due(&mut self, now: Instant) -> Option<(Instant, Due)> {
        let waits = &mut self.reading;
        if self.follower.in_head() {
            return Some((*waits.head.get_or_insert(now) + self.timeouts.head, Due::Head));
        }
        if self.follower.in_body() {
            let left = self.timeouts.body.saturating_sub(waits.body_before);
            return Some((*waits.body.get_or_insert(now) + left, Due::Body));
        }
        if self.is_busy() {
            self.reading.idle = None;
            return None;
        }
        let waits = &mut self.reading;
        let timeouts = if self.follower.heads() == 0 { self.timeouts.head } else { self.timeouts.idle };
        let since = *waits.idle.get_or_insert(now);
        if REST < timeouts && !self.resting && !waits.restless {
            return Some((since + REST, Due::Rest));
        }
        Some((since + timeouts, Due::Idle))
    }

    /// Between two messages: something is still to be answered or written.
    fn is_busy(&self) -> bool {
        let answered = self.talk.done.load(SeqCst) == self.follower.heads();
        !answered || self.writing.is_blocked() || self.follower.is_undecided()
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        loop {
            let now = Instant::now();
            let at = match self.due(now) {
                Some((at, due)) if at <= now => match self.heard_until(at, now) {
                    Some(until) => until,
                    None => return Poll::Ready(due),
                },
                Some((at, _)) => at,
                // `poll_flush` sees the end of the answer. A timer that would be the loop's first costs a system call.
                None => return Poll::Pending,
            };
            ready!(self.reading.timer.poll(cx, at));
        }
    }

    /// Until when what was due `at` waits yet. When this process has been stopped for a while (SIGSTOP), its timers
    /// fire before its sockets are looked at: what the client has sent meanwhile may be there.
    fn heard_until(&mut self, at: Instant, now: Instant) -> Option<Instant> {
        match self.reading.heard {
            Some((due, until)) if due == at => (now < until).then_some(until),
            _ if now < at + STALL => None,
            _ => {
                self.reading.heard = Some((at, now + GRACE));
                Some(now + GRACE)
            }
        }
    }

    /// The client has closed its side. Ready: for it the connection is over. Otherwise its answer is under way, but it is
    /// not waited for without end: a client that has gone closes just so.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let in_message = self.follower.in_head() || self.follower.in_body();
        if !self.talk.half_close.load(SeqCst) || in_message || !self.is_busy() {
            return Poll::Ready(());
        }
        let due = *self.half_closed.get_or_insert_with(Instant::now) + self.timeouts.idle;
        self.reading.timer.poll(cx, due)
    }

    /// Something has come.
    fn received(&mut self, count: usize) {
        let waits = &mut self.reading;
        (waits.idle, waits.restless) = (None, false);
        if let Some(since) = waits.body.take() {
            waits.body_before += since.elapsed();
        }
        if !self.follower.in_body() {
            (waits.body_before, waits.body_bytes) = (Duration::ZERO, 0);
            return;
        }
        waits.body_bytes = waits.body_bytes.saturating_add(count);
        if waits.body_bytes >= self.timeouts.body_bytes {
            (waits.body_before, waits.body_bytes) = (Duration::ZERO, 0);
        }
    }
}

const SLOW_HEAD: Refusal = Refusal { status: 408, reason: "The request did not come in time" };
pub const SLOW_BODY: Refusal = Refusal { status: 408, reason: "The body of this request came too slowly" };

impl<S: AsyncRead + Unpin> GuardedStream<S> {
    /// Reads to where the bytes are kept until they can be judged. Ready(0): the client has closed.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); 4 << 10];
        let mut read = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        self.held.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Throws away what comes; ready when the client closes.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [MaybeUninit::uninit(); 4 << 10];
        for _ in 0..64 {
            let mut read = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// While the connection rests. Ready: whether there is something to parse; if not, the connection is over.
    pub fn poll_wake(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.poll_hold(cx) {
            Poll::Ready(Ok(count)) if count > 0 => {
                self.resting = false;
                self.judge_held();
                self.received(count);
                Poll::Ready(true)
            }
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => self.poll_due(cx).map(|_| false),
        }
    }
}

impl<S> GuardedStream<S> {
    /// Whether the parser was told of an end only so that it can be given up.
    pub fn is_resting(&self) -> bool {
        self.resting
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> GuardedStream<S> {
    /// Nothing is there to read. Ready: the client is late. (Ok: the connection ends as if it had closed.)
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Late>> {
        Poll::Ready(match ready!(self.poll_due(cx)) {
            // Nobody would flush while it rests.
            Due::Rest => match Pin::new(&mut self.stream).poll_flush(cx)? {
                Poll::Ready(()) => {
                    self.resting = true;
                    self.writing = WriteTimeout::default();
                    Ok(Late::Close)
                }
                Poll::Pending => {
                    self.reading.restless = true;
                    Ok(Late::NotYet)
                }
            },
            Due::Idle => Ok(Late::Close),
            Due::Head => {
                self.refuse(SLOW_HEAD);
                Ok(Late::NotYet)
            }
            Due::Body => Err(io::Error::new(io::ErrorKind::TimedOut, BadBody(SLOW_BODY))),
        })
    }
}

enum Late {
    Close,
    /// There is more to do.
    NotYet,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Ready without a byte means that the client has closed: nothing but that may end the loop so.
        loop {
            if this.good > 0 {
                this.hand_over(buffer);
                return Poll::Ready(Ok(()));
            }
            match this.mode {
                Mode::Following => {}
                Mode::Refused => return this.poll_discard(cx),
                Mode::Broken(refusal) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, BadBody(refusal))));
                }
                Mode::Through if this.held.is_empty() => return Pin::new(&mut this.stream).poll_read(cx, buffer),
                Mode::Through => {
                    this.good = this.held.len();
                    continue;
                }
            }
            if this.follower.is_undecided() {
                match this.talk.protocol.swap(UNKNOWN, SeqCst) {
                    CHANGED => this.mode = Mode::Through,
                    KEPT => {
                        this.follower.keep_protocol();
                        this.judge_held();
                    }
                    _ => {
                        this.talk.wait(cx);
                        if this.held.len() >= UNDECIDED {
                            return Poll::Pending;
                        }
                        if ready!(this.poll_hold(cx))? == 0 {
                            return Poll::Ready(Ok(()));
                        }
                    }
                }
                continue;
            }
            let came = if this.held.is_empty() {
                let before = buffer.filled().len();
                let read = Pin::new(&mut this.stream).poll_read(cx, buffer)?;
                read.map(|()| {
                    let heads = this.follower.heads();
                    let new = &buffer.filled()[before..];
                    let (mut good, next) = this.follower.judge(new);
                    let count = new.len();
                    if this.follower.raw_heads().is_empty() {
                        this.held.extend_from_slice(&new[good..]);
                    } else {
                        this.hold_encoded(&buffer.filled()[before..], good);
                        good = 0;
                    }
                    buffer.set_filled(before + good);
                    this.after_judging(heads, next);
                    (count, good > 0)
                })
            } else {
                let read = this.poll_hold(cx)?;
                read.map(|count| {
                    this.judge_held();
                    (count, false)
                })
            };
            match came {
                Poll::Ready((0, _)) => return this.poll_closed(cx).map(Ok),
                Poll::Ready((count, done)) => {
                    this.received(count);
                    if done {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Pending => match ready!(this.poll_late(cx))? {
                    Late::Close => return Poll::Ready(Ok(())),
                    Late::NotYet => {}
                },
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> GuardedStream<S> {
    /// Lets a write wait no longer than it may.
    fn timed(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.half_closed = self.half_closed.map(|_| Instant::now());
        } else if matches!(self.mode, Mode::Through) {
            return Poll::Pending;
        }
        self.writing.judge(cx, written, self.timeouts.write)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.timed(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        // The parser that has written an answer doesn't read again before it is woken: the time between two messages
        // begins here.
        let between = !this.follower.in_head() && !this.follower.in_body() && !this.is_busy();
        if between
            && !this.talk.last.load(SeqCst)
            && this.reading.idle.is_none()
            && matches!(this.mode, Mode::Following)
            && this.poll_due(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
