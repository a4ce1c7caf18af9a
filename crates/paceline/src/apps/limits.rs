//! Which worker is to be replaced, because it has too much memory or has answered enough. Pure: what is known of the
//! workers is an argument. It counts private memory alone: what is free again when the worker ends.

use std::collections::HashSet;

use crate::{config::WorkerLimits, origins::workers::dispatch::queue::WorkerId};

/// A worker that serves.
#[derive(Debug, Clone, Copy)]
pub struct WorkerMemory {
    pub id: WorkerId,
    /// Bytes that it has for itself (`accounting::Memory::own`). None: not read yet.
    pub own: Option<u64>,
    /// Bytes that it had for itself at its first reading.
    pub born: u64,
    pub answered: u64,
    /// It is to go after so many requests.
    pub quota: Option<u64>,
    /// It finishes its requests already.
    pub leaving: bool,
}

/// Why a worker is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It has more than this for itself.
    Worker(u64),
    /// All of them have `sum`, more than `limit`, and it has most.
    Site { limit: u64, sum: u64 },
    /// It has answered as many as this.
    Requests(u64),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Another takes its place, then it finishes its requests.
    Retire(WorkerId, Why),
    /// It is ended at once.
    End(WorkerId, Why),
}

/// The next one to go. Those that are over a hard limit come before all others.
pub fn judge(limits: &WorkerLimits, workers: &[WorkerMemory]) -> Option<Verdict> {
    let own = |worker: &&WorkerMemory| worker.own.unwrap_or(0);
    let over = |limit: Option<u64>, worker: &&WorkerMemory| {
        limit.is_some_and(|limit| exceeds(own(worker), worker.born, limit))
    };
    let largest = workers.iter().max_by_key(own);
    let sum: u64 = workers.iter().map(|worker| own(&worker)).sum();
    let born: u64 = workers.iter().map(|worker| worker.born).sum();
    let of_site = |limit: Option<u64>| limit.filter(|limit| exceeds(sum, born, *limit));
    if let Some(worker) = workers.iter().filter(|worker| over(limits.worker_hard, worker)).max_by_key(own) {
        return Some(Verdict::End(worker.id, Why::Worker(limits.worker_hard?)));
    }
    if let (Some(limit), Some(worker)) = (of_site(limits.site_hard), largest) {
        return Some(Verdict::End(worker.id, Why::Site { limit, sum }));
    }
    // One at a time.
    if workers.iter().any(|worker| worker.leaving) {
        return None;
    }
    if let Some(worker) = workers.iter().filter(|worker| over(limits.worker, worker)).max_by_key(own) {
        return Some(Verdict::Retire(worker.id, Why::Worker(limits.worker?)));
    }
    if let (Some(limit), Some(worker)) = (of_site(limits.site), largest) {
        return Some(Verdict::Retire(worker.id, Why::Site { limit, sum }));
    }
    let done = workers.iter().filter(|worker| worker.quota.is_some_and(|quota| worker.answered >= quota));
    let worker = done.max_by_key(|worker| worker.answered - worker.quota.unwrap_or(0))?;
    Some(Verdict::Retire(worker.id, Why::Requests(worker.quota?)))
}

/// The workers that have come more than half of the way to a hard limit: one may be ended before its next request is
/// done.
pub fn nearly_ended(limits: &WorkerLimits, workers: &[WorkerMemory]) -> HashSet<WorkerId> {
    let halfway = |own: u64, born: u64, limit: Option<u64>| {
        limit.is_some_and(|limit| own.saturating_sub(born) > limit.saturating_sub(born) / 2)
    };
    let own = |worker: &WorkerMemory| worker.own.unwrap_or(0);
    let sum: u64 = workers.iter().map(own).sum();
    let born: u64 = workers.iter().map(|worker| worker.born).sum();
    let over = workers.iter().filter(|worker| halfway(own(worker), worker.born, limits.worker_hard));
    let largest = workers.iter().max_by_key(|worker| own(worker)).filter(|_| halfway(sum, born, limits.site_hard));
    over.chain(largest).map(|worker| worker.id).collect()
}

/// Whether what was `born` so large is to go. If a successor would be as large at once, there is nothing to be gained
/// before it is twice that.
fn exceeds(own: u64, born: u64, limit: u64) -> bool {
    own > if born < limit { limit } else { born.saturating_mul(2) }
}

/// After how many requests a worker that is forked now is to go.
pub fn quota(limits: &WorkerLimits) -> Option<u64> {
    limits.requests.map(|requests| requests + fastrand::u64(..=limits.requests_jitter))
}

/// A limit that workers reach at their birth, by the setting's name, and what they have then: it can't be kept.
pub fn hopeless(limits: &WorkerLimits, workers: &[WorkerMemory]) -> Option<(&'static str, u64, u64)> {
    let sum: u64 = workers.iter().map(|worker| worker.born).sum();
    let most = workers.iter().map(|worker| worker.born).max()?;
    let reached = [
        ("worker_memory", limits.worker, most),
        ("worker_memory_hard", limits.worker_hard, most),
        ("site_memory", limits.site, sum),
        ("site_memory_hard", limits.site_hard, sum),
    ];
    reached
        .into_iter()
        .find_map(|(name, limit, born)| limit.filter(|limit| born >= *limit).map(|limit| (name, limit, born)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: WorkerId, own: u64) -> WorkerMemory {
        WorkerMemory { id, own: Some(own), born: 10, answered: 5, quota: None, leaving: false }
    }

    const LIMITS: WorkerLimits = WorkerLimits {
        worker: Some(100),
        worker_hard: Some(200),
        site: Some(250),
        site_hard: Some(400),
        requests: None,
        requests_jitter: 0,
    };

    #[test]
    fn the_largest_goes_first_and_a_hard_limit_before_a_soft_one() {
        let judged = |own: &[u64]| {
            let workers: Vec<_> = own.iter().enumerate().map(|(at, own)| seen(at as u64, *own)).collect();
            judge(&LIMITS, &workers)
        };
        for (own, verdict) in [
            (&[90, 100, 20][..], None),
            (&[110, 130], Some(Verdict::Retire(1, Why::Worker(100)))),
            (&[90, 90, 95], Some(Verdict::Retire(2, Why::Site { limit: 250, sum: 275 }))),
            (&[210, 20, 220], Some(Verdict::End(2, Why::Worker(200)))),
            (&[90, 98, 95, 97, 96], Some(Verdict::End(1, Why::Site { limit: 400, sum: 476 }))),
            (&[], None),
        ] {
            assert_eq!(judged(own), verdict, "{own:?}");
        }
    }

    #[test]
    fn who_is_halfway_to_a_hard_limit_is_nearly_ended() {
        let near = |own: &[u64]| {
            let workers: Vec<_> = own.iter().enumerate().map(|(at, own)| seen(at as u64, *own)).collect();
            let mut near: Vec<_> = nearly_ended(&LIMITS, &workers).into_iter().collect();
            near.sort();
            near
        };
        for (own, expected) in [(&[105, 20][..], &[][..]), (&[106, 20], &[0]), (&[80, 90, 85], &[1]), (&[], &[])] {
            assert_eq!(near(own), expected, "{own:?}");
        }
    }

    #[test]
    fn one_at_a_time_but_a_hard_limit_waits_for_nobody() {
        let leaving = WorkerMemory { leaving: true, ..seen(1, 150) };
        assert_eq!(judge(&LIMITS, &[leaving, seen(2, 120)]), None);
        assert_eq!(judge(&LIMITS, &[leaving, seen(2, 201)]), Some(Verdict::End(2, Why::Worker(200))));
    }

    #[test]
    fn enough_requests() {
        let after = |id, answered, quota| WorkerMemory { answered, quota: Some(quota), ..seen(id, 20) };
        let limits = WorkerLimits::default();
        assert_eq!(judge(&limits, &[after(1, 99, 100), after(2, 5, 100)]), None);
        let verdict = Some(Verdict::Retire(2, Why::Requests(103)));
        assert_eq!(judge(&limits, &[after(1, 101, 100), after(2, 105, 103)]), verdict);
        let unread = WorkerMemory { own: None, ..after(3, 100, 100) };
        assert_eq!(judge(&LIMITS, &[unread]), Some(Verdict::Retire(3, Why::Requests(100))));
    }

    #[test]
    fn a_limit_below_what_a_worker_has_at_birth_is_not_kept() {
        let large = WorkerMemory { born: 120, ..seen(1, 130) };
        assert_eq!(judge(&LIMITS, &[large]), None);
        assert_eq!(hopeless(&LIMITS, &[large]), Some(("worker_memory", 100, 120)));
        let both = [WorkerMemory { born: 90, ..seen(1, 99) }; 3];
        assert_eq!((judge(&LIMITS, &both), hopeless(&LIMITS, &both)), (None, Some(("site_memory", 250, 270))));
        assert_eq!(hopeless(&LIMITS, &[seen(1, 500)]), None);
        let grown = WorkerMemory { own: Some(241), ..large };
        assert_eq!(judge(&LIMITS, &[grown]), Some(Verdict::End(1, Why::Worker(200))), "it was not born so large");
    }

    #[test]
    fn workers_do_not_come_to_their_end_together() {
        let limits = WorkerLimits { requests: Some(1000), requests_jitter: 50, ..WorkerLimits::default() };
        let quotas: std::collections::BTreeSet<u64> = (0..1000).filter_map(|_| quota(&limits)).collect();
        assert!(quotas.iter().all(|quota| (1000..=1050).contains(quota)) && quotas.len() > 20, "{quotas:?}");
        assert_eq!(quota(&WorkerLimits { requests_jitter: 0, ..limits }), Some(1000));
        assert_eq!(quota(&WorkerLimits::default()), None);
    }
}
