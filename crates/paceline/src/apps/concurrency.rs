//! How many requests a worker gets beside each other, up to the number of its threads. More help as long as they wait
//! for something else than each other: for a database, a service, a disk. Once Ruby's lock (one thread at a time) is
//! taken nearly always, more make every request slower, and all of them together dearer. It decides; the queue holds to
//! it.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use crate::workers::dispatch::queue::{WorkerId, WorkerLoad};

/// How often it looks.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Share of the time in which a thread of the worker runs, or would if it had a core, below which one more thread is of
/// use ...
const FREE: f64 = 0.75;
/// ... and above which there is one too many.
const TAKEN: f64 = 0.95;

/// The newest look counts one in so many: what was seen in 50 ms alone is mostly noise.
const SMOOTHING: f64 = 4.0;

/// What was seen of a worker the last time.
struct WorkerTimes {
    at: Instant,
    runnable: Duration,
    /// Share of the time in which a thread of it ran, or would have if it had a core; the mean of the last looks.
    share: f64,
}

/// The rule, and what it remembers of each worker.
pub struct Concurrency {
    min: usize,
    max: usize,
    seen: HashMap<WorkerId, WorkerTimes>,
}

impl Concurrency {
    /// None: there is nothing to decide.
    pub fn new(min: usize, max: usize) -> Option<Concurrency> {
        (min < max).then(|| Concurrency { min, max, seen: HashMap::new() })
    }

    /// The limits that are to change. `pid_of` tells a worker's process.
    pub fn look(
        &mut self,
        waiting: usize,
        workers: &[WorkerLoad],
        pid_of: impl Fn(WorkerId) -> Option<i32>,
    ) -> Vec<(WorkerId, usize)> {
        self.seen.retain(|id, _| workers.iter().any(|worker| worker.id == *id));
        let now = Instant::now();
        let mut changes = Vec::new();
        for worker in workers {
            let Some(runnable) = pid_of(worker.id).and_then(runnable) else { continue };
            let first = WorkerTimes { at: now, runnable, share: TAKEN };
            let Some(seen) = self.seen.get_mut(&worker.id) else {
                self.seen.insert(worker.id, first);
                continue;
            };
            let before = std::mem::replace(seen, WorkerTimes { share: seen.share, ..first });
            let elapsed = now.duration_since(before.at).as_secs_f64();
            if elapsed <= 0.0 || elapsed > 10.0 * INTERVAL.as_secs_f64() {
                continue;
            }
            let share = runnable.saturating_sub(before.runnable).as_secs_f64() / elapsed;
            seen.share += (share - seen.share) / SMOOTHING;
            let share = seen.share;
            let limit = self.decide(share, waiting > 0, worker);
            if limit != worker.limit {
                changes.push((worker.id, limit));
            }
        }
        changes
    }

    fn decide(&self, share: f64, waited: bool, worker: &WorkerLoad) -> usize {
        let all_used = worker.young >= worker.limit;
        match share {
            _ if share > TAKEN => worker.limit.saturating_sub(1).max(self.min),
            // When nobody waits there is nothing to be gained by a limit.
            _ if !waited || share < FREE && all_used => (worker.limit + 1).min(self.max),
            _ => worker.limit,
        }
    }
}

/// The time for which the threads of a process have run or waited for a core. None: it is gone, or the kernel does not
/// say.
fn runnable(pid: i32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // "running waiting slices", the first two in nanoseconds. A thread may have ended since.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        let nanoseconds = text.split_whitespace().take(2).map_while(|word| word.parse::<u64>().ok());
        sum += Duration::from_nanos(nanoseconds.sum());
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(share: f64, waited: bool, limit: usize, young: usize) -> usize {
        let rule = Concurrency::new(2, 8).unwrap();
        rule.decide(share, waited, &WorkerLoad { id: 1, limit, young })
    }

    #[test]
    fn more_threads_while_the_lock_is_free_and_requests_wait() {
        assert_eq!(decided(0.2, true, 2, 2), 3);
        assert_eq!(decided(0.2, true, 8, 8), 8, "never beyond the maximum");
        assert_eq!(decided(0.2, true, 4, 3), 4, "those there are are not all used");
        assert_eq!(decided(0.9, false, 2, 2), 3, "nobody waits");
        assert_eq!(decided(0.85, true, 4, 4), 4, "neither free nor taken");
    }

    #[test]
    fn fewer_when_they_wait_for_each_other() {
        assert_eq!(decided(0.97, true, 5, 5), 4);
        assert_eq!(decided(0.97, true, 2, 2), 2, "never below the minimum");
    }

    #[test]
    fn a_fixed_number_needs_no_rule() {
        assert!(Concurrency::new(5, 5).is_none());
    }

    #[test]
    fn this_process_has_run() {
        let pid = std::process::id() as i32;
        // Threads of other tests that end meanwhile take their time with them.
        let grew = || {
            let before = runnable(pid).unwrap();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            runnable(pid).unwrap() > before
        };
        assert!((0..50).any(|_| grew()));
        assert!(runnable(-1).is_none());
    }
}
