//! The share of an app's requests that goes to a canary: dealt out without chance, so that 5 % are 5 of each 100, also where
//! all threads of the old side are busy: others wait for one of these then, as they would without a canary. It never lets a
//! request wait for the canary, nor for an old side that is stuck.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Inner, Member, Queue, WorkerId};
use crate::{
    origins::workers::dispatch::{
        comparison::{Comparison, End, SETTLING},
        expectations::Route,
    },
    support::clock::Micros,
};

/// The whole.
const WHOLE: u32 = 10_000;

/// An old side that took no request for so long waits for what it has in hand: the canary serves in its place.
const STUCK: Micros = 5_000_000;

/// Who may have a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The old side, or the canary where that has no thread for it. Without a canary all workers are the old side.
    OldFirst,
    /// The old side alone.
    Old,
    /// The canary, or the old side where that has no thread for it.
    CanaryFirst,
}

impl Turn {
    pub(super) fn allows(self, is_canary: bool) -> bool {
        !is_canary || self != Turn::Old
    }

    pub(super) fn prefers(self, is_canary: bool) -> bool {
        is_canary == (self == Turn::CanaryFirst)
    }
}

/// Which workers are the canary's, and how much they get.
pub struct Share {
    canary: HashSet<WorkerId>,
    /// Of 10,000.
    part: u32,
    /// What the canary has not been given yet of its part, in the same measure.
    owed: u32,
    /// What each of the canary's workers has been given.
    given: HashMap<WorkerId, u32>,
    /// When the old side was last given one.
    old_given: Micros,
    comparison: Arc<Comparison>,
}

impl Share {
    fn new(canary: HashSet<WorkerId>, part: u32, comparison: Arc<Comparison>, now: Micros) -> Share {
        Share { canary, part, owed: 0, given: HashMap::new(), old_given: now, comparison }
    }

    pub(super) fn is_canary(&self, worker: WorkerId) -> bool {
        self.canary.contains(&worker)
    }

    /// Whether the next request is to go to the canary.
    fn is_canarys_turn(&self) -> bool {
        self.owed + self.part >= WHOLE
    }

    /// A request was given to this worker. `counts`: not one whose worker has died, which goes to the old side.
    pub(super) fn given(&mut self, worker: WorkerId, counts: bool, route: Route, now: Micros) -> OutcomeSlot {
        let canary = self.is_canary(worker);
        if !canary {
            self.old_given = now;
        }
        if counts {
            // Of what could not be given, one request is made up for.
            self.owed = (self.owed + self.part).min(2 * WHOLE - 1);
        }
        let mut settled = true;
        if canary {
            self.owed = self.owed.saturating_sub(WHOLE);
            let given = self.given.entry(worker).or_default();
            *given = given.saturating_add(1);
            settled = *given > SETTLING;
        }
        OutcomeSlot { comparison: self.comparison.clone(), canary, settled, route }
    }
}

/// Where the end of one request is noted.
pub struct OutcomeSlot {
    comparison: Arc<Comparison>,
    canary: bool,
    settled: bool,
    route: Route,
}

impl OutcomeSlot {
    pub fn is_canarys(&self) -> bool {
        self.canary
    }

    pub fn note(&self, end: End) {
        self.comparison.note(self.canary, self.settled, self.route, end);
    }
}

impl Queue {
    /// From now on these workers, which are known, get `part` of 10,000 requests.
    pub fn share(&self, canary: HashSet<WorkerId>, part: u32, comparison: Arc<Comparison>) {
        let now = self.now();
        self.lock().share = Some(Share::new(canary, part, comparison, now));
    }

    /// The route of a name like `GET /beers/*`.
    pub fn route_of(&self, label: &str) -> Route {
        let (method, path) = label.split_once(' ').unwrap_or((label, ""));
        self.lock().expectations.route(method, path)
    }

    /// From now on all workers are alike.
    pub fn share_no_more(self: &Arc<Self>) {
        let mut inner = self.lock();
        inner.share = None;
        self.settle(&mut inner, None);
    }
}

impl Inner {
    pub(super) fn is_canary(&self, worker: WorkerId) -> bool {
        self.share.as_ref().is_some_and(|share| share.is_canary(worker))
    }

    /// Whose turn it is. `is_repeated`: what has died with one worker already goes to the old side.
    pub(super) fn turn(&self, is_repeated: bool, now: Micros) -> Turn {
        let Some(share) = &self.share else { return Turn::OldFirst };
        if is_repeated {
            return Turn::Old;
        }
        if share.is_canarys_turn() {
            return Turn::CanaryFirst;
        }
        let is_stuck = now.saturating_sub(share.old_given) >= STUCK;
        let serves = |member: &Member| !member.idle.is_empty() || !member.in_hand.is_empty();
        if !is_stuck && self.side(false).any(serves) {
            Turn::Old
        } else {
            Turn::OldFirst
        }
    }

    /// The workers of the canary, or those of the old side.
    pub(super) fn side(&self, of_canary: bool) -> impl Iterator<Item = &Member> {
        let of_side = move |(id, member): &(&WorkerId, &Member)| self.is_canary(**id) == of_canary && !member.leaving;
        self.members.iter().filter(of_side).map(|(_, member)| member)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{queue, run, LONG, PAGE},
        *,
    };

    fn share(part: u32) -> Share {
        Share::new(HashSet::from([7]), part, Arc::default(), 0)
    }

    #[test]
    fn five_percent_are_five_of_each_hundred() {
        let mut share = share(500);
        let mut deal = |counts| {
            let worker = if counts && share.is_canarys_turn() { 7 } else { 1 };
            share.given(worker, counts, 1, 0).canary
        };
        for _ in 0..3 {
            assert_eq!((0..100).filter(|_| deal(true)).count(), 5);
        }
        assert_eq!((0..100).filter(|_| deal(false)).count(), 0);
        assert_eq!((0..20).filter(|_| deal(true)).count(), 1);
    }

    #[test]
    fn what_the_canary_had_no_thread_for_is_not_made_up_in_a_burst() {
        let mut share = share(1000);
        (0..1000).for_each(|_| drop(share.given(1, true, 1, 0)));
        let given = (0..10).filter(|_| {
            let worker = if share.is_canarys_turn() { 7 } else { 1 };
            share.given(worker, true, 1, 0).canary
        });
        assert!(given.count() <= 3);
    }

    /// Worker 1 is the old side, 7 the canary; each has two threads.
    fn shared() -> Arc<Queue> {
        let (queue, complaints) = queue(1000, &[(1, 2), (7, 2)]);
        std::mem::forget(complaints);
        queue.share(HashSet::from([7]), 1000, Arc::default());
        queue
    }

    /// Requests that wait, and put the workers that they are given in a list; each is over at once.
    fn visitors(queue: &Arc<Queue>, count: usize) -> Arc<parking_lot::Mutex<Vec<WorkerId>>> {
        let workers = Arc::<parking_lot::Mutex<Vec<WorkerId>>>::default();
        for _ in 0..count {
            let (queue, workers) = (queue.clone(), workers.clone());
            tokio::spawn(async move {
                let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
                workers.lock().push(lease.worker);
                tokio::task::yield_now().await;
                lease.give_back();
            });
        }
        workers
    }

    async fn pass(times: usize) {
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn where_all_threads_are_wanted_the_canary_gets_its_part_and_no_more() {
        run(async {
            let queue = shared();
            let workers = visitors(&queue, 500);
            pass(5000).await;
            let workers = workers.lock();
            let of_canary = |given: &[WorkerId]| given.iter().filter(|worker| **worker == 7).count();
            assert_eq!((workers.len(), of_canary(&workers)), (500, 50));
            let each_hundred: Vec<usize> = workers.chunks(100).map(of_canary).collect();
            assert!(each_hundred.iter().all(|count| (9..=11).contains(count)), "{each_hundred:?}");
        });
    }

    #[test]
    fn an_old_side_that_is_gone_or_stuck_is_not_waited_for() {
        run(async {
            let queue = shared();
            let mut stuck = Vec::new();
            for _ in 0..2 {
                stuck.push(queue.checkout(PAGE, LONG, None, None).await.unwrap());
            }
            assert_eq!(stuck.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 1]);
            let began = tokio::time::Instant::now();
            let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
            assert_eq!((lease.worker, began.elapsed().as_secs()), (7, STUCK / 1_000_000));
            lease.give_back();

            let queue = shared();
            queue.leave(1);
            for _ in 0..20 {
                let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
                assert_eq!(lease.worker, 7);
                lease.give_back();
            }
            assert!(began.elapsed().as_secs() <= STUCK / 1_000_000, "nothing was waited for");
        });
    }

    #[test]
    fn those_who_wait_for_the_old_side_have_all_threads_when_the_canary_takes_over() {
        run(async {
            let queue = shared();
            let _held = [queue.checkout(PAGE, LONG, None, None).await, queue.checkout(PAGE, LONG, None, None).await];
            let workers = visitors(&queue, 2);
            pass(10).await;
            assert_eq!(workers.lock().len(), 0);
            queue.share_no_more();
            pass(10).await;
            assert_eq!(*workers.lock(), [7, 7]);
        });
    }
}
