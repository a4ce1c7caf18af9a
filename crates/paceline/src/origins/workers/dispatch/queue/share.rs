//! The share of an app's requests that goes to a canary: dealt out without chance, so that 5 % are 5 of each 100. It
//! never lets a request wait for a side while the other has a thread for it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Queue, WorkerId};
use crate::origins::workers::dispatch::{
    comparison::{Comparison, End, SETTLING},
    expectations::Route,
};

/// The whole.
const WHOLE: u32 = 10_000;

/// Which workers are the canary's, and how much they get.
pub struct Share {
    canary: HashSet<WorkerId>,
    /// Of 10,000.
    part: u32,
    /// What the canary has not been given yet of its part, in the same measure.
    owed: u32,
    /// What each of the canary's workers has been given.
    given: HashMap<WorkerId, u32>,
    comparison: Arc<Comparison>,
}

impl Share {
    pub(super) fn is_canary(&self, worker: WorkerId) -> bool {
        self.canary.contains(&worker)
    }

    /// Whether the next request is to go to the canary.
    pub(super) fn is_canarys_turn(&self) -> bool {
        self.owed + self.part >= WHOLE
    }

    /// A request was given to this worker. `counts`: not one whose worker has died, which goes to the old side.
    pub(super) fn given(&mut self, worker: WorkerId, counts: bool, route: Route) -> OutcomeSlot {
        let canary = self.is_canary(worker);
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
        self.lock().share = Some(Share { canary, part, owed: 0, given: HashMap::new(), comparison });
    }

    /// The route of a name like `GET /beers/*`.
    pub fn route_of(&self, label: &str) -> Route {
        let (method, path) = label.split_once(' ').unwrap_or((label, ""));
        self.lock().expectations.route(method, path)
    }

    /// From now on all workers are alike.
    pub fn share_no_more(&self) {
        self.lock().share = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_are_five_of_each_hundred() {
        let comparison = Arc::new(Comparison::default());
        let mut share = Share { canary: HashSet::from([7]), part: 500, owed: 0, given: HashMap::new(), comparison };
        let mut deal = |counts| {
            let worker = if counts && share.is_canarys_turn() { 7 } else { 1 };
            share.given(worker, counts, 1).canary
        };
        for _ in 0..3 {
            assert_eq!((0..100).filter(|_| deal(true)).count(), 5);
        }
        assert_eq!((0..100).filter(|_| deal(false)).count(), 0);
        assert_eq!((0..20).filter(|_| deal(true)).count(), 1);
    }

    #[test]
    fn what_the_canary_had_no_thread_for_is_not_made_up_in_a_burst() {
        let (canary, given) = (HashSet::from([7]), HashMap::new());
        let mut share = Share { canary, part: 1000, owed: 0, given, comparison: Arc::default() };
        (0..1000).for_each(|_| drop(share.given(1, true, 1)));
        let given = (0..10).filter(|_| {
            let worker = if share.is_canarys_turn() { 7 } else { 1 };
            share.given(worker, true, 1).canary
        });
        assert!(given.count() <= 3);
    }
}
