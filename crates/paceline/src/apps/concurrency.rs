//! How many requests a worker gets beside each other, up to the number of its threads. More help as long as they wait
//! for something else than each other: for a database, a service, a disk. Once Ruby's lock (one thread at a time) is
//! taken nearly always, more make every request slower, and all of them together dearer. It decides; the queue holds to
//! it.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use crate::origins::workers::dispatch::queue::{WorkerId, WorkerLoad};

/// How often it looks ...
pub const INTERVAL: Duration = Duration::from_millis(50);
/// ... and while no request is in progress, which leaves an idle machine asleep.
pub const IDLE_INTERVAL: Duration = Duration::from_millis(250);

/// Share of the time in which a thread of the worker runs, or would if it had a core, below which one more thread is of
/// use ...
const FREE: f64 = 0.75;
/// ... and above which there is one too many.
const TAKEN: f64 = 0.95;

/// After this time without a request that waited, each worker gets one more, up to all: the application may have changed
/// what it does. Until then it is known how many it can use, so that a burst does not find that out anew.
const MEMORY: Duration = Duration::from_secs(10);

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
    /// When a request waited last, or a worker got one more because none did.
    waited_at: Instant,
}

impl Concurrency {
    /// None: there is nothing to decide.
    pub fn new(min: usize, max: usize) -> Option<Concurrency> {
        (min < max).then(|| Concurrency { min, max, seen: HashMap::new(), waited_at: Instant::now() })
    }

    /// Whether there is nothing to see: no request waits, none has another beside it in its worker, and no worker is held
    /// back.
    pub fn is_at_rest(&self, waiting: usize, workers: &[WorkerLoad]) -> bool {
        waiting == 0 && workers.iter().all(|worker| worker.limit >= self.max && worker.young <= 1)
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
        let forgets = self.forgets(waiting > 0, now);
        let mut changes = Vec::new();
        // One request beside no other says nothing of how many could be.
        if waiting == 0 && workers.iter().all(|worker| worker.young <= 1) {
            let more = workers.iter().filter(|worker| forgets && worker.limit < self.max);
            return more.map(|worker| (worker.id, worker.limit + 1)).collect();
        }
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
            let limit = self.decide(share, waiting > 0, forgets, worker);
            if limit != worker.limit {
                changes.push((worker.id, limit));
            }
        }
        changes
    }

    /// Whether no request has waited for so long that each worker gets one more.
    fn forgets(&mut self, waited: bool, now: Instant) -> bool {
        let forgets = !waited && now.duration_since(self.waited_at) >= MEMORY;
        if waited || forgets {
            self.waited_at = now;
        }
        forgets
    }

    fn decide(&self, share: f64, waited: bool, forgets: bool, worker: &WorkerLoad) -> usize {
        let all_used = worker.young >= worker.limit;
        match share {
            _ if share > TAKEN => worker.limit.saturating_sub(1).max(self.min),
            _ if forgets || waited && share < FREE && all_used => (worker.limit + 1).min(self.max),
            _ => worker.limit,
        }
    }
}

/// The time for which the threads of a process have run or waited for a core. None: it is gone, or the kernel does not
/// say.
fn runnable(pid: i32) -> Option<Duration> {
    of_threads(pid, 2)
}

/// The time for which the threads that it has now have run.
pub fn running(pid: i32) -> Option<Duration> {
    of_threads(pid, 1)
}

fn of_threads(pid: i32, fields: usize) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // "running waiting slices", the first two in nanoseconds. A thread may have ended since.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        let nanoseconds = text.split_whitespace().take(fields).map_while(|word| word.parse::<u64>().ok());
        sum += Duration::from_nanos(nanoseconds.sum());
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(share: f64, waited: bool, limit: usize, young: usize) -> usize {
        let rule = Concurrency::new(2, 8).unwrap();
        rule.decide(share, waited, false, &WorkerLoad { id: 1, limit, young })
    }

    #[test]
    fn more_threads_while_the_lock_is_free_and_requests_wait() {
        assert_eq!(decided(0.2, true, 2, 2), 3);
        assert_eq!(decided(0.2, true, 8, 8), 8, "never beyond the maximum");
        assert_eq!(decided(0.2, true, 4, 3), 4, "those there are are not all used");
        assert_eq!(decided(0.2, false, 2, 2), 2, "nobody waits");
        assert_eq!(decided(0.85, true, 4, 4), 4, "neither free nor taken");
    }

    #[test]
    fn fewer_when_they_wait_for_each_other() {
        assert_eq!(decided(0.97, true, 5, 5), 4);
        assert_eq!(decided(0.97, true, 2, 2), 2, "never below the minimum");
    }

    #[test]
    fn requests_beside_each_other_are_looked_at_also_while_none_waits() {
        let rule = Concurrency::new(1, 5).unwrap();
        let load = |limit, young| [WorkerLoad { id: 1, limit, young }, WorkerLoad { id: 2, limit: 5, young: 0 }];
        assert!(rule.is_at_rest(0, &load(5, 0)) && rule.is_at_rest(0, &load(5, 1)));
        assert!(!rule.is_at_rest(0, &load(5, 2)), "they may wait for each other");
        assert!(!rule.is_at_rest(1, &load(5, 0)) && !rule.is_at_rest(0, &load(4, 0)));
        assert_eq!(decided(0.97, false, 5, 2), 4);
    }

    #[test]
    fn what_was_learned_outlives_a_pause() {
        let mut rule = Concurrency::new(1, 5).unwrap();
        let idle = [WorkerLoad { id: 1, limit: 2, young: 0 }, WorkerLoad { id: 2, limit: 5, young: 1 }];
        assert_eq!(rule.look(0, &idle, |_| None), []);
        rule.waited_at -= MEMORY;
        assert_eq!(rule.look(1, &idle, |_| None), [], "a request waits");
        rule.waited_at -= MEMORY;
        assert_eq!(rule.look(0, &idle, |_| None), [(1, 3)]);
        assert_eq!(rule.look(0, &idle, |_| None), [], "one at a time");
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
        assert!(runnable(-1).is_none() && running(-1).is_none());
        assert!(running(pid).unwrap() <= runnable(pid).unwrap());
    }
}
