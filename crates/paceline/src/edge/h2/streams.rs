//! The streams of one connection: how many are open, which were taken back, and whose client does not take its answer.
//! It never reads or writes one.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc, Weak,
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

/// The time over which resets are counted.
const RESET_WINDOW: Duration = Duration::from_secs(10);
/// Bytes of its answer that a client has to take in each `write_timeout`, if so many wait for it.
const PROGRESS: usize = 1 << 10;
/// Intervals in which a stream may come too short because its client is taking others.
const EXCUSES: u32 = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The streams of one connection, counted.
pub struct Streams {
    open: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Resets that are too many in RESET_WINDOW.
    limit: usize,
    resets: Mutex<(Instant, usize)>,
    pub flooded: Notify,
    next: AtomicU64,
    all: Mutex<HashMap<u64, Weak<Stream>>>,
    /// Something waits for the client, and somebody has been told to look after it.
    watched: AtomicBool,
    pub waiting: Notify,
    /// Pieces of responses handed out that the guard has not heard of.
    pieces: AtomicU32,
    /// Bytes of responses handed out that the socket has not got, and all that it ever got.
    unsent: AtomicUsize,
    sent: AtomicU64,
    socket: Mutex<Socket>,
    /// Bytes of DATA frames that came, and bodies that are waited for.
    pub received: AtomicU64,
    pub bodies: AtomicUsize,
}

/// How long the socket took nothing.
#[derive(Default)]
struct Socket {
    full_since: Option<Instant>,
    full_before: Duration,
}

/// What a look at the streams has found.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamCheck {
    /// Nothing waits for the client.
    Nothing,
    Waiting,
    /// An end of a response that can't be taken back from the connection, and that the client does not take.
    Stuck,
}

impl Streams {
    pub fn new(limit: usize) -> Streams {
        let now = Instant::now();
        Streams {
            open: AtomicUsize::new(0),
            idle_since: Mutex::new(now),
            limit,
            resets: Mutex::new((now, 0)),
            flooded: Notify::new(),
            next: AtomicU64::new(0),
            all: Mutex::default(),
            watched: AtomicBool::new(false),
            waiting: Notify::new(),
            pieces: AtomicU32::new(0),
            unsent: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            socket: Mutex::default(),
            received: AtomicU64::new(0),
            bodies: AtomicUsize::new(0),
        }
    }

    pub fn open(this: &Arc<Streams>) -> Arc<Stream> {
        this.open.fetch_add(1, Relaxed);
        let number = this.next.fetch_add(1, Relaxed);
        let stream = Arc::new(Stream {
            of: this.clone(),
            number,
            answered: AtomicBool::new(false),
            left: Notify::new(),
            taking: Mutex::default(),
        });
        lock(&this.all).insert(number, Arc::downgrade(&stream));
        stream
    }

    /// None while a stream is open whose client is not given up.
    pub fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Relaxed) == 0;
        idle.then(|| *lock(&self.idle_since))
    }

    fn close_one(&self) {
        *lock(&self.idle_since) = Instant::now();
        self.open.fetch_sub(1, Relaxed);
    }

    /// A request that its client took back before it was answered (CVE-2023-44487, "rapid reset").
    fn reset(&self) {
        let mut resets = lock(&self.resets);
        if resets.0.elapsed() > RESET_WINDOW {
            *resets = (Instant::now(), 0);
        }
        resets.1 += 1;
        if resets.1 > self.limit {
            self.flooded.notify_one();
        }
    }

    /// The socket takes nothing (true), or something again.
    pub fn socket_is_full(&self, full: bool) {
        let mut socket = lock(&self.socket);
        if full {
            socket.full_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = socket.full_since.take() {
            socket.full_before += since.elapsed();
        }
    }

    fn full_so_far(&self, now: Instant) -> Duration {
        let socket = lock(&self.socket);
        socket.full_before + socket.full_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    pub fn anything_waits(&self) -> bool {
        self.unsent.load(Relaxed) > 0
    }

    /// The pieces handed out since this was asked last.
    pub fn take_pieces(&self) -> u32 {
        if self.pieces.load(Relaxed) == 0 {
            return 0;
        }
        self.pieces.swap(0, Relaxed)
    }

    /// Resets each stream whose client has taken too little of its answer for `timeouts`. The time in which the socket
    /// was full does not count: then streams wait for each other, and the socket has a time-out of its own. They
    /// also wait for each other where the connection's window is small (RFC 9113 section 5.2): one is excused for a
    /// while if together they got what is asked of all.
    pub fn look(&self, now: Instant, timeouts: Duration) -> StreamCheck {
        self.watched.store(false, Relaxed);
        let mut streams: Vec<_> = lock(&self.all).values().filter_map(Weak::upgrade).collect();
        streams.retain(|stream| lock(&stream.taking).waits());
        let asked = PROGRESS.saturating_mul(streams.len()) as u64;
        let (full, sent) = (self.full_so_far(now), self.sent.load(Relaxed));
        let mut found = StreamCheck::Nothing;
        for stream in streams {
            let mut taking = lock(&stream.taking);
            if !taking.waits() {
                continue;
            }
            let waited = now.saturating_duration_since(taking.since.unwrap_or(now));
            if waited.saturating_sub(full.saturating_sub(taking.full_before)) < timeouts {
                found = if found == StreamCheck::Stuck { found } else { StreamCheck::Waiting };
                continue;
            }
            if sent - taking.sent_before >= asked && taking.excused < EXCUSES {
                taking.excused += 1;
                stream.begin_interval(&mut taking);
                found = if found == StreamCheck::Stuck { found } else { StreamCheck::Waiting };
                continue;
            }
            taking.given_up = true;
            if taking.handed_over {
                found = StreamCheck::Stuck;
            }
            drop(taking);
            self.close_one();
            stream.left.notify_one();
        }
        if found != StreamCheck::Nothing {
            self.watched.store(true, Relaxed);
        }
        found
    }
}

/// One of them, from its request until the last byte is with the socket, of a WebSocket too.
pub struct Stream {
    of: Arc<Streams>,
    number: u64,
    answered: AtomicBool,
    left: Notify,
    taking: Mutex<ClientProgress>,
}

/// What of a response waits for its client.
#[derive(Default)]
struct ClientProgress {
    /// Bytes handed out that the socket has not got.
    waiting: usize,
    /// The beginning of an interval in which PROGRESS bytes have to be taken, and how many were.
    since: Option<Instant>,
    full_before: Duration,
    sent_before: u64,
    taken: usize,
    excused: u32,
    /// The whole response has been handed out.
    handed_over: bool,
    given_up: bool,
}

impl ClientProgress {
    fn waits(&self) -> bool {
        self.waiting > 0 && !self.given_up
    }
}

impl Stream {
    pub fn of(&self) -> &Arc<Streams> {
        &self.of
    }

    pub fn answered(&self) {
        self.answered.store(true, Relaxed);
    }

    /// A piece of the response is with the connection.
    pub fn handed_out(&self, bytes: usize) {
        let mut taking = lock(&self.taking);
        if taking.waiting == 0 {
            self.begin_interval(&mut taking);
        }
        taking.waiting += bytes;
        self.of.unsent.fetch_add(bytes, Relaxed);
        self.of.pieces.fetch_add(1, Relaxed);
        if !self.of.watched.swap(true, Relaxed) {
            self.of.waiting.notify_one();
        }
    }

    fn begin_interval(&self, taking: &mut ClientProgress) {
        let now = Instant::now();
        (taking.since, taking.full_before, taking.taken) = (Some(now), self.of.full_so_far(now), 0);
        taking.sent_before = self.of.sent.load(Relaxed);
    }

    /// The socket got so much of it.
    pub fn taken(&self, bytes: usize) {
        self.of.unsent.fetch_sub(bytes, Relaxed);
        self.of.sent.fetch_add(bytes as u64, Relaxed);
        let mut taking = lock(&self.taking);
        taking.waiting = taking.waiting.saturating_sub(bytes);
        taking.taken += bytes;
        if taking.taken >= PROGRESS && taking.waiting > 0 {
            taking.excused = 0;
            self.begin_interval(&mut taking);
        }
    }

    /// So much of it will never be sent.
    pub fn dropped(&self, bytes: usize) {
        self.of.unsent.fetch_sub(bytes, Relaxed);
        let mut taking = lock(&self.taking);
        taking.waiting = taking.waiting.saturating_sub(bytes);
    }

    /// All of the response is with the connection.
    pub fn handed_over(&self) {
        lock(&self.taking).handed_over = true;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        lock(&self.of.all).remove(&self.number);
        if !lock(&self.taking).given_up {
            self.of.close_one();
        }
        if !self.answered.load(Relaxed) {
            self.of.reset();
        }
    }
}

/// Runs what belongs to streams. A stream whose client is given up ends there and then, for which hyper knows no other
/// way: what it was is dropped, and the library sends RST_STREAM (CANCEL).
#[derive(Clone, Default)]
pub struct Tasks {
    next: Arc<Mutex<Option<Arc<Stream>>>>,
}

impl Tasks {
    /// The stream whose task is the next to be run.
    pub fn expect(&self, stream: Arc<Stream>) {
        *lock(&self.next) = Some(stream);
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let Some(stream) = lock(&self.next).take() else {
            tokio::spawn(task);
            return;
        };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = task => {}
                () = stream.left.notified() => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const TIMEOUTS: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn resets_are_counted_for_a_while() {
        let streams = Arc::new(Streams::new(2));
        for _ in 0..2 {
            drop(Streams::open(&streams));
        }
        Streams::open(&streams).answered();
        assert!(timeout(Duration::from_millis(5), streams.flooded.notified()).await.is_err());
        drop(Streams::open(&streams));
        assert!(timeout(Duration::from_millis(5), streams.flooded.notified()).await.is_ok());
        assert!(streams.idle_since().is_some());
        let open = Streams::open(&streams);
        assert!(streams.idle_since().is_none());
        drop(open);
    }

    fn look(streams: &Streams) -> StreamCheck {
        streams.look(Instant::now(), TIMEOUTS)
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_others_are_not() {
        let streams = Arc::new(Streams::new(2));
        let (idle, slow, drip, stuck) =
            (Streams::open(&streams), Streams::open(&streams), Streams::open(&streams), Streams::open(&streams));
        assert_eq!(look(&streams), StreamCheck::Nothing);
        [&slow, &drip, &stuck].iter().for_each(|stream| stream.handed_out(100_000));
        stuck.handed_over();
        assert!(timeout(Duration::from_millis(1), streams.waiting.notified()).await.is_ok());
        for quarter in 0..3 {
            advance(TIMEOUTS / 4).await;
            slow.taken(if quarter == 1 { 1024 } else { 0 });
            drip.taken(10);
            assert_eq!(look(&streams), StreamCheck::Waiting);
        }
        advance(TIMEOUTS / 4).await;
        slow.taken(1024);
        assert_eq!(look(&streams), StreamCheck::Stuck);
        assert!(timeout(Duration::from_millis(1), drip.left.notified()).await.is_ok());
        assert!(timeout(Duration::from_millis(1), slow.left.notified()).await.is_err());
        assert_eq!(look(&streams), StreamCheck::Waiting);
        slow.taken(100_000 - 2048);
        assert_eq!(look(&streams), StreamCheck::Nothing);
        drop((idle, slow));
        // Those given up are not waited for.
        assert!(streams.idle_since().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_wait_for_each_other_are_excused_for_a_while() {
        let streams = Arc::new(Streams::new(2));
        let (one, other) = (Streams::open(&streams), Streams::open(&streams));
        [&one, &other].iter().for_each(|stream| stream.handed_out(1 << 20));
        for _ in 0..EXCUSES {
            other.taken(2048);
            advance(TIMEOUTS).await;
            assert_eq!(look(&streams), StreamCheck::Waiting);
            assert!(streams.idle_since().is_none() && !lock(&one.taking).given_up);
        }
        other.taken(2048);
        advance(TIMEOUTS).await;
        look(&streams);
        assert!(lock(&one.taking).given_up);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_full_socket_is_not_a_streams_fault() {
        let streams = Arc::new(Streams::new(2));
        let stream = Streams::open(&streams);
        stream.handed_out(5000);
        streams.socket_is_full(true);
        advance(TIMEOUTS * 2).await;
        assert_eq!(look(&streams), StreamCheck::Waiting);
        streams.socket_is_full(false);
        advance(TIMEOUTS / 2).await;
        assert_eq!(look(&streams), StreamCheck::Waiting);
        advance(TIMEOUTS / 2).await;
        assert_eq!(look(&streams), StreamCheck::Nothing);
        assert!(streams.idle_since().is_some());
    }
}
