//! What the latest requests of each route took, for those who compare hours (`tune`). It decides nothing, and keeps no
//! request.

use std::collections::HashMap;

use super::{Queue, Route};
use crate::support::clock::Micros;

/// Routes, and times of each: the latest ones.
const ROUTES: usize = 200;
const TIMES: usize = 200;

#[derive(Default)]
pub(super) struct RouteTimes(HashMap<Route, Vec<Micros>>);

impl RouteTimes {
    pub(super) fn note(&mut self, route: Route, took: Micros) {
        if self.0.len() >= ROUTES && !self.0.contains_key(&route) {
            return;
        }
        let times = self.0.entry(route).or_default();
        if times.len() == TIMES {
            times.remove(0);
        }
        times.push(took);
    }
}

impl Queue {
    /// From now on times are kept.
    pub fn keep_times(&self) {
        self.lock().times.get_or_insert_default();
    }

    /// What was kept since the last time, by the names of the routes.
    pub fn take_times(&self) -> Vec<(String, Vec<Micros>)> {
        let mut inner = self.lock();
        let times = inner.times.as_mut().map(std::mem::take).unwrap_or_default();
        let label = |route| inner.expectations.label(route).filter(|label| !label.is_empty());
        times.0.into_iter().filter_map(|(route, times)| Some((label(route)?.to_string(), times))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_times_of_some_routes() {
        let mut times = RouteTimes::default();
        for number in 0..1000 {
            times.note(1, number);
            times.note(number, number);
        }
        assert_eq!((times.0.len(), times.0[&1].len(), times.0[&1].last()), (ROUTES, TIMES, Some(&999)));
    }

    #[test]
    fn nothing_is_kept_unless_it_is_wanted() {
        let queue = Queue::new(9);
        assert!(queue.take_times().is_empty());
        queue.keep_times();
        let route = queue.lock().expectations.know("GET", "/beers/1");
        queue.lock().times.as_mut().unwrap().note(route, 7);
        assert_eq!(queue.take_times(), [("GET /beers/*".to_owned(), vec![7])]);
        assert!(queue.take_times().is_empty());
    }
}
