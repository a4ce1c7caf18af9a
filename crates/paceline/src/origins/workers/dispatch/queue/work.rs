//! What a worker's requests have allocated, by route, since this was last taken, and which of them run: by it the growth
//! of the worker's memory is attributed. It never measures memory.

use crate::origins::workers::dispatch::expectations::Route;

/// Routes told apart between two readings; a worker rarely answers more of them.
const MAX: usize = 32;

/// The requests of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteWork {
    /// None: of all those that found no place of their own.
    pub route: Option<Route>,
    /// Those that have ended.
    pub requests: u64,
    /// Those that run, as streams do for hours.
    pub running: u64,
    /// Objects that the process allocated while they ran.
    pub allocated: u64,
}

#[derive(Debug, Default)]
pub struct Work {
    done: Vec<RouteWork>,
    /// There are no more of them than the worker has threads.
    running: Vec<Route>,
}

impl Work {
    pub fn begin(&mut self, route: Route) {
        self.running.push(route);
    }

    /// It runs no more, answered or not.
    pub fn end(&mut self, route: Route) {
        if let Some(at) = self.running.iter().position(|one| *one == route) {
            self.running.swap_remove(at);
        }
    }

    pub fn add(&mut self, route: Route, allocated: u32) {
        let done = place(&mut self.done, route);
        done.requests += 1;
        done.allocated += u64::from(allocated);
    }

    pub fn take(&mut self) -> Vec<RouteWork> {
        let mut all = std::mem::take(&mut self.done);
        self.running.iter().for_each(|route| place(&mut all, *route).running += 1);
        all
    }
}

/// Where a route is counted: with the others if there are too many.
fn place(all: &mut Vec<RouteWork>, route: Route) -> &mut RouteWork {
    let known = all.iter().position(|done| done.route == Some(route));
    let route = if known.is_some() || all.len() < MAX { Some(route) } else { None };
    let at = known.or_else(|| all.iter().position(|done| done.route == route)).unwrap_or_else(|| {
        all.push(RouteWork { route, requests: 0, running: 0, allocated: 0 });
        all.len() - 1
    });
    &mut all[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_route_and_bounded() {
        let mut work = Work::default();
        for route in 0..100 {
            work.add(route, 10);
            work.add(7, 1);
        }
        let all = work.take();
        assert_eq!(all.len(), MAX + 1);
        assert_eq!(all[0], RouteWork { route: Some(0), requests: 1, running: 0, allocated: 10 });
        let seventh = all.iter().find(|done| done.route == Some(7)).unwrap();
        assert_eq!((seventh.requests, seventh.allocated), (101, 110));
        let rest = all.last().unwrap();
        assert_eq!((rest.route, rest.requests), (None, 100 - MAX as u64));
        assert!(work.take().is_empty());
    }

    #[test]
    fn what_runs_is_told_each_time_until_it_has_ended() {
        let mut work = Work::default();
        [1, 1, 2].into_iter().for_each(|route| work.begin(route));
        work.end(2);
        work.add(2, 5);
        let (running, done) = (
            RouteWork { route: Some(1), requests: 0, running: 2, allocated: 0 },
            RouteWork { route: Some(2), requests: 1, running: 0, allocated: 5 },
        );
        assert_eq!(work.take(), [done, running]);
        work.end(1);
        assert_eq!(work.take(), [RouteWork { running: 1, ..running }]);
    }
}
