//! What two generations answered while both had a share of the requests, side by side. It never decides which is
//! better.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};

use super::{expectations::Route, route_times::RouteTimes};
use crate::support::clock::Micros;

/// How a request ended in the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this status, after so long.
    Answered(u16, Micros),
    /// It raised.
    Raised,
    TimedOut,
    /// Its worker went away.
    Died,
}

/// One generation's part.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub requests: u64,
    /// Answers of 5xx, exceptions, time-outs, deaths.
    pub errors: u64,
    pub times: RouteTimes,
}

/// Both.
#[derive(Debug, Default)]
pub struct Comparison {
    sides: Mutex<[Side; 2]>,
    /// Of these routes alone the settled times are kept.
    awaited: HashSet<Route>,
    settled: Mutex<[RouteTimes; 2]>,
}

/// A worker's first answers are slower: caches and compiled code are its own. After so many it has settled.
pub const SETTLING: u32 = 20;

impl Comparison {
    /// Of these routes the times are also kept of settled workers alone.
    pub fn awaiting(routes: impl IntoIterator<Item = Route>) -> Comparison {
        Comparison { awaited: routes.into_iter().collect(), ..Comparison::default() }
    }

    /// `settled`: its worker is.
    pub fn note(&self, canary: bool, settled: bool, route: Route, end: End) {
        if let (true, End::Answered(0..500, took)) = (settled && self.awaited.contains(&route), end) {
            self.settled.lock()[usize::from(canary)].note(route, took);
        }
        let mut sides = self.lock();
        let side = &mut sides[usize::from(canary)];
        side.requests += 1;
        match end {
            End::Answered(status, took) if status < 500 => side.times.note(route, took),
            _ => side.errors += 1,
        }
    }

    /// The old generation's, and the canary's.
    pub fn sides(&self) -> [Side; 2] {
        self.lock().clone()
    }

    /// What settled workers took for this route: the old generation's, and the canary's.
    pub fn settled(&self, route: Route) -> [Vec<Micros>; 2] {
        self.settled.lock().each_ref().map(|times| times.get(&route).cloned().unwrap_or_default())
    }

    /// Requests of the canary.
    pub fn requests(&self) -> u64 {
        self.lock()[1].requests
    }

    fn lock(&self) -> MutexGuard<'_, [Side; 2]> {
        self.sides.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origins::workers::dispatch::route_times::{ROUTES, TIMES};

    #[test]
    fn each_side_counts_its_own() {
        let comparison = Comparison::default();
        comparison.note(false, true, 1, End::Answered(200, 10));
        for end in [End::Answered(404, 30), End::Answered(503, 9), End::Raised, End::TimedOut, End::Died] {
            comparison.note(true, true, 1, end);
        }
        let [old, new] = comparison.sides();
        assert_eq!((old.requests, old.errors, new.requests, new.errors), (1, 0, 5, 4));
        assert_eq!((&old.times[&1][..], &new.times[&1][..]), (&[10][..], &[30][..]));
        for n in 0..1000 {
            comparison.note(true, true, n, End::Answered(200, n));
            comparison.note(true, true, 1, End::Answered(200, n));
        }
        let [_, new] = comparison.sides();
        assert_eq!((new.times.len(), new.times[&1].len()), (ROUTES, TIMES));
    }

    #[test]
    fn settled_times_of_awaited_routes_the_latest_ones() {
        let comparison = Comparison::awaiting([7]);
        for took in 0..1000 {
            comparison.note(true, true, 7, End::Answered(200, took));
        }
        comparison.note(false, false, 7, End::Answered(200, 1));
        comparison.note(false, true, 7, End::Answered(503, 2));
        comparison.note(false, true, 7, End::Answered(304, 3));
        comparison.note(false, true, 8, End::Answered(200, 4));
        let [old, new] = comparison.settled(7);
        assert_eq!((old, new.len(), new.first()), (vec![3], TIMES, Some(&800)));
        assert!(comparison.settled(8).iter().all(Vec::is_empty));
    }
}
