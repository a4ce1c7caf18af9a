//! Bodies of HTTP/2 and their clients: a response's pieces tell when the socket has them, a request's have to come in
//! time. It never knows what is in one.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{atomic::Ordering::Relaxed, Arc},
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{sleep, sleep_until, Instant, Sleep};

use super::streams::Stream;
use crate::{
    content::body::ResponseBody,
    exchange::incoming::BodyPace,
    support::buffer_memory::{BufferLease, BODIES},
};

/// A response is handed out in pieces of this, so that most of one that nobody takes is not with the connection.
const PIECE: usize = 64 << 10;
/// Smaller pieces are left out of the account.
const SMALL: usize = 4 << 10;
/// How soon a piece that found no room in the memory for bodies is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// A response body whose stream is open until the socket has all of it.
pub struct Answer {
    body: ResponseBody,
    rest: Bytes,
    stream: Arc<Stream>,
    retry: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    pub fn new(body: ResponseBody, stream: Arc<Stream>) -> Answer {
        Answer { body, rest: Bytes::new(), stream, retry: None }
    }

    /// Where the memory for bodies is full, a connection with pieces that wait for its client gets no further one.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.stream.of().anything_waits() && BODIES.take(PIECE).is_none() {
            let retry = self.retry.get_or_insert_with(|| Box::pin(sleep(RETRY)));
            ready!(retry.as_mut().poll(cx));
            self.retry = None;
        }
        Poll::Ready(())
    }

    /// The next piece, of bytes that are there.
    fn piece(&mut self) -> Frame<Piece> {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        self.stream.handed_out(bytes.len());
        let held = if bytes.len() > SMALL { BODIES.take(bytes.len()) } else { None };
        Frame::data(Piece { bytes, stream: self.stream.clone(), _held: held })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.stream.handed_over();
    }
}

impl Body for Answer {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Piece>>>> {
        let this = &mut *self;
        ready!(this.poll_room(cx));
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match frame.into_data() {
                Ok(bytes) => this.rest = bytes,
                Err(other) => return Poll::Ready(other.into_trailers().ok().map(|fields| Ok(Frame::trailers(fields)))),
            }
        }
        Poll::Ready(Some(Ok(this.piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of a response on its way to the socket.
pub struct Piece {
    bytes: Bytes,
    stream: Arc<Stream>,
    _held: Option<BufferLease>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.taken(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.stream.dropped(self.bytes.len());
        }
    }
}

/// In how much time how much of a request body has to come.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub time: Duration,
    pub bytes: usize,
}

/// Intervals that a body may be late for because its client is sending others.
const EXCUSES: u32 = 16;

/// The time that a request body has been waited for: as for HTTP/1 (`guard.rs`), it is progress in each interval of
/// waiting that is asked for. The bodies of a connection come one frame after the other: one is excused for a while if
/// they do together what is asked of all, which a client can have no cheaper than by connections of their own.
pub struct BodyTimeout {
    pace: Pace,
    stream: Arc<Stream>,
    timer: Option<Pin<Box<Sleep>>>,
    since: Option<Instant>,
    waited: Duration,
    got: usize,
    /// What had come on the connection when the interval began.
    before: u64,
    excused: u32,
}

impl BodyTimeout {
    pub fn new(pace: Pace, stream: Arc<Stream>) -> BodyTimeout {
        stream.of().bodies.fetch_add(1, Relaxed);
        let before = stream.of().received.load(Relaxed);
        BodyTimeout { pace, stream, timer: None, since: None, waited: Duration::ZERO, got: 0, before, excused: 0 }
    }

    fn begin_interval(&mut self) {
        (self.waited, self.got, self.since) = (Duration::ZERO, 0, None);
        self.before = self.stream.of().received.load(Relaxed);
    }
}

impl BodyPace for BodyTimeout {
    fn got(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.got += bytes;
        if self.got >= self.pace.bytes {
            self.excused = 0;
            self.begin_interval();
        }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = Instant::now();
            let due = *self.since.get_or_insert(now) + self.pace.time.saturating_sub(self.waited);
            if due <= now {
                let streams = self.stream.of();
                let came = streams.received.load(Relaxed).saturating_sub(self.before);
                let asked = self.pace.bytes.saturating_mul(streams.bodies.load(Relaxed)) as u64;
                if came < asked || self.excused == EXCUSES {
                    return Poll::Ready(());
                }
                self.excused += 1;
                self.begin_interval();
                continue;
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            // A timer that ends early is moved then: most waits are over before, and moving it costs.
            if timer.is_elapsed() || timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
        }
    }
}

impl Drop for BodyTimeout {
    fn drop(&mut self) {
        self.stream.of().bodies.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body_util::BodyExt;
    use tokio::time::{advance, timeout};

    use super::{super::streams::Streams, *};

    const PACE: Pace = Pace { time: Duration::from_secs(20), bytes: 1000 };

    /// Lets time pass in which nothing comes; whether the body is late then.
    async fn late(body: &mut BodyTimeout, time: Duration) -> bool {
        let before = poll_fn(|cx| Poll::Ready(body.poll_late(cx))).await;
        assert!(before.is_pending());
        advance(time).await;
        poll_fn(|cx| Poll::Ready(body.poll_late(cx))).await.is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_late_when_too_little_of_it_came_while_it_was_waited_for() {
        let streams = Arc::new(Streams::new(1));
        let mut body = BodyTimeout::new(PACE, Streams::open(&streams));
        for _ in 0..5 {
            assert!(!late(&mut body, PACE.time - Duration::from_millis(1)).await);
            body.got(1000);
            // What is not waited for does not count.
            advance(PACE.time * 3).await;
        }
        assert!(!late(&mut body, PACE.time / 2).await);
        body.got(999);
        assert!(late(&mut body, PACE.time / 2).await);
        drop(body);
        assert_eq!(streams.bodies.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_excused_for_a_while_when_the_connection_does_enough() {
        let streams = Arc::new(Streams::new(1));
        let mut one = BodyTimeout::new(PACE, Streams::open(&streams));
        let _other = BodyTimeout::new(PACE, Streams::open(&streams));
        for _ in 0..EXCUSES {
            streams.received.fetch_add(2000, Relaxed);
            assert!(!late(&mut one, PACE.time).await);
        }
        streams.received.fetch_add(2000, Relaxed);
        assert!(late(&mut one, PACE.time).await);
        let mut one = BodyTimeout::new(PACE, Streams::open(&streams));
        streams.received.fetch_add(1999, Relaxed);
        assert!(late(&mut one, PACE.time).await);
    }

    #[tokio::test]
    async fn an_answer_comes_in_pieces_and_its_stream_is_open_until_they_are_taken() {
        let streams = Arc::new(Streams::new(1));
        let stream = Streams::open(&streams);
        stream.answered();
        let bytes: Vec<_> = (0..200_000u32).map(|number| number as u8).collect();
        let mut answer = Answer::new(bytes.clone().into(), stream);
        let (mut pieces, mut joined) = (Vec::new(), Vec::new());
        while !answer.is_end_stream() {
            pieces.push(answer.frame().await.unwrap().unwrap().into_data().unwrap_or_else(|_| panic!("no data")));
        }
        drop(answer);
        assert_eq!(pieces.iter().map(Buf::remaining).collect::<Vec<_>>(), [PIECE, PIECE, PIECE, 200_000 - 3 * PIECE]);
        assert!(streams.anything_waits() && streams.idle_since().is_none());
        for piece in &mut pieces[1..] {
            let length = piece.remaining();
            joined.extend_from_slice(&piece.copy_to_bytes(length));
        }
        assert_eq!(joined, bytes[PIECE..]);
        drop(pieces);
        assert!(!streams.anything_waits() && streams.idle_since().is_some());
        assert!(timeout(Duration::from_millis(5), streams.flooded.notified()).await.is_err());
    }
}
