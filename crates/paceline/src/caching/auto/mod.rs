//! Watches what an automatic page cache would do (`[auto_cache]`): answers of the application with what they were made of, and
//! the writes that its processes announce. A thread of its own does it, so that no visitor waits. It answers no request, and
//! never changes an answer. The rules are in `crates/auto-cache`.
//!
//! Reading order: `observing` (an answer on its way to the client), `asked` (what its request had), here (the thread), `journal`
//! (what processes announce).

mod journal;
mod observing;
mod request_parts;

use std::{
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use ::auto_cache::watch::{Answer, Watch};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use self::journal::serve;
use self::request_parts::RequestParts;
use crate::{request::exchange::RecordSlot, support::clock};

/// Bytes of answers that wait to be looked at. What comes while there are more is not looked at.
const MAX_WAITING: usize = 16 << 20;
/// How long a record is waited for that is not there when its body is, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// One site's.
pub struct AutoCache {
    watch: Mutex<Watch>,
    /// Grows with each answer that is whole, and each write that is done.
    moment: AtomicU64,
    answers: mpsc::UnboundedSender<Observed>,
    waiting: AtomicUsize,
    /// Answers that were not looked at, because too many waited.
    passed_over: AtomicU64,
    /// Processes of the application that are connected.
    processes: AtomicUsize,
}

/// Answers that wait to be looked at.
pub type Answers = mpsc::UnboundedReceiver<Observed>;

/// An answer that has been sent.
pub struct Observed {
    url: String,
    route: String,
    began: u64,
    ended: u64,
    asked: RequestParts,
    record: RecordSlot,
    refused: Option<String>,
    sets_cookie: Option<String>,
    content_type: String,
    nonce: Option<String>,
    body: Vec<Bytes>,
    /// Bytes that count as waiting.
    size: usize,
}

impl Observed {
    fn measured(&self) -> usize {
        let record = self.record.lock().as_ref().map_or(0, Bytes::len);
        self.body.iter().map(Bytes::len).sum::<usize>() + record + 1024
    }

    /// The record may still come: a body of known length ends for its client before the frames after it are read.
    fn is_incomplete(&self) -> bool {
        self.record.lock().is_none() && Arc::strong_count(&self.record) > 1
    }
}

impl AutoCache {
    pub fn new() -> (Arc<AutoCache>, Answers) {
        let (answers, waiting) = mpsc::unbounded_channel();
        let auto = AutoCache {
            watch: Mutex::default(),
            moment: AtomicU64::new(0),
            answers,
            waiting: AtomicUsize::new(0),
            passed_over: AtomicU64::new(0),
            processes: AtomicUsize::new(0),
        };
        (Arc::new(auto), waiting)
    }

    /// Looks at answers as they come; until the site is gone.
    pub async fn run(self: Arc<AutoCache>, mut answers: Answers) {
        while let Some(observed) = answers.recv().await {
            // What processes have written to their sockets before the answer was complete is read first.
            tokio::task::yield_now().await;
            if observed.is_incomplete() {
                tokio::spawn(self.clone().await_record(observed));
                continue;
            }
            self.waiting.fetch_sub(observed.size, Relaxed);
            self.look_at(&observed);
        }
    }

    async fn await_record(self: Arc<AutoCache>, observed: Observed) {
        let until = Instant::now() + PATIENCE;
        while observed.is_incomplete() && Instant::now() < until {
            tokio::time::sleep(STEP).await;
        }
        self.waiting.fetch_sub(observed.size, Relaxed);
        self.look_at(&observed);
    }

    fn offer(&self, mut observed: Observed) {
        observed.size = observed.measured();
        observed.ended = self.next();
        if self.waiting.load(Relaxed) + observed.size > MAX_WAITING {
            self.passed_over.fetch_add(1, Relaxed);
            return;
        }
        self.waiting.fetch_add(observed.size, Relaxed);
        let _ = self.answers.send(observed);
    }

    fn look_at(&self, observed: &Observed) {
        let whole = match &observed.body[..] {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        };
        let record = observed.record.lock().clone();
        let answer = Answer {
            url: &observed.url,
            route: &observed.route,
            began: observed.began,
            ended: observed.ended,
            now: clock::unix_millis(),
            record: record.as_deref(),
            refused: observed.refused.as_deref(),
            sets_cookie: observed.sets_cookie.as_deref(),
            content_type: &observed.content_type,
            nonce: observed.nonce.as_deref(),
            body: &whole,
        };
        self.change(|watch| watch.answered(&answer, &observed.asked));
    }

    fn next(&self) -> u64 {
        self.moment.fetch_add(1, Relaxed) + 1
    }

    fn change<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> T {
        act(&mut self.watch.lock())
    }

    /// What was counted, for people.
    pub fn with<T>(&self, see: impl FnOnce(&Watch) -> T) -> T {
        see(&self.watch.lock())
    }

    pub fn passed_over(&self) -> u64 {
        self.passed_over.load(Relaxed)
    }

    pub fn processes(&self) -> usize {
        self.processes.load(Relaxed)
    }
}
