//! How many workers there are to be, between the least and the most that were asked for: more when requests have waited
//! for a while, fewer when the others could have done without one for a longer while. Pure: time is an argument. It
//! never forks.

use std::time::{Duration, Instant};

/// How often it looks.
pub const INTERVAL: Duration = Duration::from_millis(200);
/// Requests have to wait at each look for so long; a new worker gets as long to show that it helps.
const GROW_AFTER: Duration = Duration::from_secs(1);
/// What has happened counts for about this part of the time for which a worker has to be of no use.
const MEMORY: f64 = 1.0 / 6.0;
/// With one worker fewer no more than this share of the threads may be busy on the average.
const ROOMY: f64 = 0.5;

/// What is seen at a look.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Requests that wait for a thread.
    pub waiting: usize,
    /// Threads that have a request.
    pub busy: usize,
    /// Threads of one worker.
    pub threads: usize,
    /// Workers that are wanted.
    pub workers: usize,
    /// All of them are ready and none is on its way.
    pub settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Grow,
    Shrink,
}

/// The rule, and what it remembers.
#[derive(Debug)]
pub struct Pool {
    pub least: usize,
    pub most: usize,
    idle: Duration,
    /// Busy threads on the average of the last while.
    busy: f64,
    last: Option<Instant>,
    waiting_since: Option<Instant>,
    roomy_since: Option<Instant>,
}

impl Pool {
    /// `idle`: for so long the last worker has to be of no use before it goes.
    pub fn new(least: usize, most: usize, idle: Duration) -> Pool {
        Pool { least, most, idle, busy: 0.0, last: None, waiting_since: None, roomy_since: None }
    }

    pub fn is_elastic(&self) -> bool {
        self.least < self.most
    }

    /// Somebody has said how many there are to be now: that lies within the bounds from now on.
    pub fn set_workers(&mut self, workers: usize) {
        if self.is_elastic() {
            self.least = self.least.min(workers);
            self.most = self.most.max(workers);
        }
        (self.waiting_since, self.roomy_since) = (None, None);
    }

    pub fn look(&mut self, now: Instant, load: Load) -> Option<Change> {
        let elapsed = self.last.map_or(0.0, |last| now.saturating_duration_since(last).as_secs_f64());
        self.last = Some(now);
        let demand = (load.busy + load.waiting) as f64;
        self.busy += (demand - self.busy) * (1.0 - (-elapsed / (MEMORY * self.idle.as_secs_f64()).max(1e-3)).exp());
        if load.waiting == 0 || !load.settled {
            self.waiting_since = None;
        } else if load.workers < self.most {
            let since = *self.waiting_since.get_or_insert(now);
            if now - since >= GROW_AFTER {
                (self.waiting_since, self.roomy_since) = (None, None);
                return Some(Change::Grow);
            }
        }
        let with_one_fewer = (load.workers.saturating_sub(1) * load.threads) as f64 * ROOMY;
        if load.waiting > 0 || self.busy > with_one_fewer || load.workers <= self.least || !load.settled {
            self.roomy_since = None;
            return None;
        }
        let since = *self.roomy_since.get_or_insert(now);
        if now - since < self.idle {
            return None;
        }
        self.roomy_since = None;
        Some(Change::Shrink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clock {
        pool: Pool,
        now: Instant,
        workers: usize,
    }

    impl Clock {
        fn new(least: usize, most: usize) -> Clock {
            Clock { pool: Pool::new(least, most, Duration::from_secs(60)), now: Instant::now(), workers: least }
        }

        /// Passes time with the same load; the moments, in seconds, at which something changed.
        fn pass(&mut self, seconds: u64, waiting: usize, busy: usize) -> Vec<(u64, Change)> {
            let (began, mut changes) = (self.now, Vec::new());
            while self.now - began < Duration::from_secs(seconds) {
                self.now += INTERVAL;
                let load = Load { waiting, busy, threads: 3, workers: self.workers, settled: true };
                if let Some(change) = self.pool.look(self.now, load) {
                    match change {
                        Change::Grow => self.workers += 1,
                        Change::Shrink => self.workers -= 1,
                    }
                    changes.push(((self.now - began).as_secs(), change));
                }
            }
            changes
        }
    }

    #[test]
    fn it_grows_while_requests_wait_and_no_further_than_it_may() {
        let mut clock = Clock::new(1, 3);
        assert_eq!(clock.pass(10, 5, 3), [(1, Change::Grow), (2, Change::Grow)]);
        assert_eq!(clock.workers, 3);
    }

    #[test]
    fn a_queue_that_empties_in_between_is_no_reason() {
        let mut clock = Clock::new(1, 3);
        for _ in 0..50 {
            assert!(clock.pass(1, 0, 3).is_empty() && clock.pass(0, 4, 3).is_empty());
            clock.now += Duration::from_millis(600);
            let load = Load { waiting: 4, busy: 3, threads: 3, workers: 1, settled: true };
            assert_eq!(clock.pool.look(clock.now, load), None);
        }
    }

    #[test]
    fn it_shrinks_when_one_fewer_would_have_done_for_a_while() {
        let mut clock = Clock::new(1, 3);
        clock.workers = 3;
        clock.pass(60, 0, 9);
        // The average falls first.
        let changes = clock.pass(240, 0, 0);
        assert_eq!(changes.iter().map(|(_, change)| *change).collect::<Vec<_>>(), [Change::Shrink; 2]);
        assert!(changes[0].0 >= 60 && changes[1].0 - changes[0].0 >= 60, "{changes:?}");
        assert_eq!(clock.workers, 1);
    }

    #[test]
    fn neither_at_a_load_between() {
        let mut clock = Clock::new(1, 4);
        clock.workers = 2;
        assert!(clock.pass(600, 0, 3).is_empty(), "3 of 6 threads busy are too many for one worker");
        assert_eq!(clock.pass(120, 0, 1).len(), 1);
        assert!(clock.pass(600, 0, 1).is_empty());
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let mut pool = Pool::new(1, 4, Duration::from_secs(60));
        let mut now = Instant::now();
        for _ in 0..100 {
            now += INTERVAL;
            let load = Load { waiting: 9, busy: 3, threads: 3, workers: 2, settled: false };
            assert_eq!(pool.look(now, load), None);
        }
    }

    #[test]
    fn what_somebody_says_widens_the_bounds() {
        let mut pool = Pool::new(2, 4, Duration::ZERO);
        pool.set_workers(6);
        pool.set_workers(1);
        assert_eq!((pool.least, pool.most), (1, 6));
        let mut fixed = Pool::new(2, 2, Duration::ZERO);
        fixed.set_workers(5);
        assert!(!fixed.is_elastic());
    }
}
