//! Whether there is memory for a change that takes some. Pure: what is measured is an argument.

use super::rules::Change;
use crate::{apps::headroom::Headroom, config::WorkerLimits, support::units::megabytes};

/// A trial lasts for minutes, and what it takes grows: so many times as much must have room.
const RESERVE: u64 = 2;
/// One part in so many of the machine's memory stays free.
const KEPT: u64 = 16;

/// Why there is none, as the end of a sentence that begins with `but`. `workers`: those that there are to be.
pub fn shortage(change: &Change, limits: &WorkerLimits, workers: usize, room: Option<&Headroom>) -> Option<String> {
    change.tuned.settings.threads?;
    let (Some(more), Some(room)) = (change.memory, room) else {
        return Some("how much memory it takes is not known".into());
    };
    let workers = workers.max(1) as u64;
    let all = u64::try_from(more).unwrap_or(0) * RESERVE;
    let each = all.div_ceil(workers);
    let lowest = |soft: Option<u64>, hard: Option<u64>| soft.into_iter().chain(hard).min();
    let worker = room.worker() + each;
    if let Some(limit) = lowest(limits.worker, limits.worker_hard).filter(|limit| worker > *limit) {
        return Some(format!("a worker may come to {}, and worker_memory is {}", megabytes(worker), megabytes(limit)));
    }
    let site = room.worker() * workers + all;
    if let Some(limit) = lowest(limits.site, limits.site_hard).filter(|limit| site > *limit) {
        return Some(format!("the workers may come to {}, and site_memory is {}", megabytes(site), megabytes(limit)));
    }
    (all + room.limit / KEPT > room.left).then(|| {
        format!("it may take {} more, and {} has {} left", megabytes(all), room.bound_by, megabytes(room.left))
    })
}

#[cfg(test)]
mod tests {
    use doctor::candidate::Kind;

    use super::*;
    use crate::{apps::tuned::Tuned, config::TunedSettings};

    const MB: u64 = 1 << 20;

    fn threads(memory: Option<i64>) -> Change {
        let settings = TunedSettings { threads: Some((1, 9)), ..TunedSettings::default() };
        Change {
            kind: Kind::TooFewThreads,
            short: "threads 3 -> 9".into(),
            tuned: Tuned { settings, ..Tuned::default() },
            gains: Vec::new(),
            memory,
        }
    }

    fn room(left: u64) -> Headroom {
        let workers = vec![100 * MB, 80 * MB];
        let (limit, bound_by) = (1600 * MB, "this machine");
        Headroom { workers, left, limit, bound_by, preloader: 0, front: 0, swapped: 0 }
    }

    #[test]
    fn more_threads_keep_within_every_budget() {
        let of = |limits: WorkerLimits, left: u64| {
            shortage(&threads(Some(20 * MB as i64)), &limits, 2, Some(&room(left * MB)))
        };
        let free = WorkerLimits::default();
        assert_eq!(of(free, 140), None);
        assert_eq!(of(free, 139).unwrap(), "it may take 40.0 MB more, and this machine has 139.0 MB left");
        let limits = |worker, site| WorkerLimits { worker, site, ..free };
        assert_eq!(of(limits(Some(120 * MB), Some(240 * MB)), 500), None);
        let told = "a worker may come to 120.0 MB, and worker_memory is 119.0 MB";
        assert_eq!(of(limits(Some(119 * MB), None), 500).unwrap(), told);
        let told = "the workers may come to 240.0 MB, and site_memory is 239.0 MB";
        assert_eq!(of(limits(None, Some(239 * MB)), 500).unwrap(), told);
        let hard = WorkerLimits { worker: Some(200 * MB), worker_hard: Some(110 * MB), ..free };
        assert!(of(hard, 500).is_some_and(|told| told.contains("110.0 MB")));
    }

    #[test]
    fn what_is_not_known_is_not_risked() {
        let free = WorkerLimits::default();
        let unknown = Some("how much memory it takes is not known".to_owned());
        assert_eq!(shortage(&threads(None), &free, 2, Some(&room(500 * MB))), unknown);
        assert_eq!(shortage(&threads(Some(1)), &free, 2, None), unknown);
        let less = shortage(&threads(Some(-5)), &free, 2, Some(&room(500 * MB)));
        assert_eq!(less, None);
        let other = Change { tuned: Tuned::default(), ..threads(None) };
        assert_eq!(shortage(&other, &free, 2, None), None, "it takes none");
    }
}
