//! Between two readings of memory a look at the mere size of each worker, which costs next to nothing: one that grows
//! fast is seen in time for its limit. It never judges: it has memory read at once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Actor;
use crate::{
    apps::events::MemoryReading, config::WorkerLimits, observe::memory_usage::process::resident,
    origins::workers::dispatch::queue::WorkerId,
};

/// A worker that leaks as fast as it can takes some megabytes meanwhile.
const INTERVAL: Duration = Duration::from_millis(50);

/// When it is looked, and what the last reading found.
#[derive(Default)]
pub struct SizeWatch {
    next: Option<Instant>,
    read: HashMap<WorkerId, Size>,
}

/// A worker at its last reading: pages in memory, shared ones included, and what it had for itself.
#[derive(Clone, Copy)]
struct Size {
    resident: u64,
    own: u64,
}

impl SizeWatch {
    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

impl Actor {
    /// Keeps the sizes of a reading: what has grown since is told by them.
    pub(super) fn note_sizes(&mut self, reading: &MemoryReading) {
        let size = |(id, memory): &(WorkerId, crate::observe::memory_usage::Memory)| {
            (*id, Size { resident: memory.rss, own: memory.own() })
        };
        self.size_watch.read = reading.workers.iter().map(size).collect();
        self.size_watch.next = has_bounds(&self.context.site.limits).then(|| Instant::now() + INTERVAL);
    }

    /// Has memory read if somebody may have passed a limit since the last time.
    pub(super) fn check_sizes(&mut self) {
        self.size_watch.next = Some(Instant::now() + INTERVAL);
        let Some(current) = &self.current else { return };
        let sizes = current.workers.iter().filter_map(|(id, worker)| {
            let read = self.size_watch.read.get(id)?;
            // What it has written to of the pages it shared is not seen; it is no more than the preloader has.
            let grown = resident(worker.pid)?.saturating_sub(read.resident);
            Some((read.own, read.own + grown))
        });
        if passed(&self.context.site.limits, &sizes.collect::<Vec<_>>()) {
            self.measuring.at_once();
            // Not again before that has been read.
            self.size_watch.next = None;
        }
    }
}

fn has_bounds(limits: &WorkerLimits) -> bool {
    [limits.worker, limits.worker_hard, limits.site, limits.site_hard].iter().any(Option::is_some)
}

/// Whether a limit lies between what was read and what may be now. Of one that was passed before, the reading has told.
fn passed(limits: &WorkerLimits, sizes: &[(u64, u64)]) -> bool {
    let between = |limit: Option<u64>, (was, is): (u64, u64)| limit.is_some_and(|limit| was <= limit && limit < is);
    let sum = sizes.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    sizes.iter().any(|size| between(limits.worker, *size) || between(limits.worker_hard, *size))
        || between(limits.site, sum)
        || between(limits.site_hard, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_passed_once() {
        let worker = WorkerLimits { worker: Some(60), worker_hard: Some(110), ..WorkerLimits::default() };
        assert!(!passed(&worker, &[(10, 60), (20, 30)]));
        assert!(passed(&worker, &[(10, 60), (20, 61)]));
        assert!(!passed(&worker, &[(70, 110)]), "it is known to have passed the first");
        assert!(passed(&worker, &[(70, 111)]));
        let site = WorkerLimits { site: Some(100), ..WorkerLimits::default() };
        assert!(passed(&site, &[(40, 60), (40, 41)]) && !passed(&site, &[(40, 60), (40, 40)]));
        assert!(!has_bounds(&WorkerLimits::default()) && has_bounds(&site));
    }
}
