//! The counters that the requests of one front thread add to, so that no two threads write to the same memory.
//! It never adds them up across threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{
    histogram::AtomicHistogram,
    snapshot::{CrawlerOutcome, Kind, RequestOutcome, Snapshot},
};

const KINDS: usize = Kind::ALL.len();
/// Status classes 1xx to 5xx.
const CLASSES: usize = 5;

/// One thread's part.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Shard {
    by_kind: [OfKind; KINDS],
    crawlers: [AtomicU64; CrawlerOutcome::ALL.len()],
    crawlers_queue: AtomicHistogram,
    queue: AtomicHistogram,
    app: AtomicHistogram,
    aborted: AtomicU64,
}

#[derive(Default)]
struct OfKind {
    classes: [AtomicU64; CLASSES],
    bytes: AtomicU64,
    total: AtomicHistogram,
}

impl Shard {
    pub fn count(&self, answered: &RequestOutcome) {
        let of_kind = &self.by_kind[answered.kind as usize];
        of_kind.classes[usize::from(answered.status / 100).clamp(1, CLASSES) - 1].fetch_add(1, Relaxed);
        of_kind.bytes.fetch_add(answered.bytes, Relaxed);
        let queue = match answered.crawler {
            Some(outcome) => {
                self.crawlers[outcome as usize].fetch_add(1, Relaxed);
                &self.crawlers_queue
            }
            None => {
                of_kind.total.add(answered.total);
                &self.queue
            }
        };
        answered.queue.into_iter().for_each(|time| queue.add(time));
        answered.app.into_iter().for_each(|app| self.app.add(app));
        if answered.aborted {
            self.aborted.fetch_add(1, Relaxed);
        }
    }

    pub fn add_to(&self, snapshot: &mut Snapshot) {
        for (sum, of_kind) in snapshot.by_kind.iter_mut().zip(&self.by_kind) {
            sum.classes.iter_mut().zip(&of_kind.classes).for_each(|(sum, count)| *sum += count.load(Relaxed));
            sum.bytes += of_kind.bytes.load(Relaxed);
            of_kind.total.add_to(&mut sum.total);
        }
        snapshot.crawlers.iter_mut().zip(&self.crawlers).for_each(|(sum, count)| *sum += count.load(Relaxed));
        self.crawlers_queue.add_to(&mut snapshot.crawlers_queue);
        self.queue.add_to(&mut snapshot.queue);
        self.app.add_to(&mut snapshot.app);
        snapshot.aborted += self.aborted.load(Relaxed);
    }
}
