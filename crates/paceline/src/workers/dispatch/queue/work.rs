//! What a worker's requests have allocated, by route, since this was last taken: by it the growth of the worker's
//! memory is attributed. It never measures memory.

use crate::workers::dispatch::expectations::Route;

/// Routes told apart between two readings; a worker rarely answers more of them.
const MAX: usize = 32;

/// The requests of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteWork {
    /// None: of all those that found no place of their own.
    pub route: Option<Route>,
    pub requests: u64,
    /// Objects that the process allocated while they ran.
    pub allocated: u64,
}

#[derive(Debug, Default)]
pub struct Work(Vec<RouteWork>);

impl Work {
    pub fn add(&mut self, route: Route, allocated: u32) {
        let mut place = self.0.iter().position(|done| done.route == Some(route));
        if place.is_none() {
            let route = if self.0.len() < MAX { Some(route) } else { None };
            place = self.0.iter().position(|done| route.is_none() && done.route.is_none());
            if place.is_none() {
                self.0.push(RouteWork { route, requests: 0, allocated: 0 });
                place = Some(self.0.len() - 1);
            }
        }
        if let Some(done) = place.and_then(|place| self.0.get_mut(place)) {
            done.requests += 1;
            done.allocated += u64::from(allocated);
        }
    }

    pub fn take(&mut self) -> Vec<RouteWork> {
        std::mem::take(&mut self.0)
    }
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
        assert_eq!(all[0], RouteWork { route: Some(0), requests: 1, allocated: 10 });
        let seventh = all.iter().find(|done| done.route == Some(7)).unwrap();
        assert_eq!((seventh.requests, seventh.allocated), (101, 110));
        let rest = all.last().unwrap();
        assert_eq!((rest.route, rest.requests), (None, 100 - MAX as u64));
        assert!(work.take().is_empty());
    }
}
