//! What the latest requests of each route took, within bounds. It decides nothing, and keeps no request.

use std::{collections::HashMap, ops::Deref};

use super::expectations::Route;
use crate::support::clock::Micros;

/// Routes, and times of each: the latest ones.
pub(super) const ROUTES: usize = 200;
pub(super) const TIMES: usize = 200;

/// Microseconds of each route, in the order in which they were noted.
#[derive(Debug, Clone, Default)]
pub struct RouteTimes(HashMap<Route, Vec<Micros>>);

impl RouteTimes {
    /// A route beyond the bound is left out.
    pub fn note(&mut self, route: Route, took: Micros) {
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

impl Deref for RouteTimes {
    type Target = HashMap<Route, Vec<Micros>>;

    fn deref(&self) -> &HashMap<Route, Vec<Micros>> {
        &self.0
    }
}

#[cfg(test)]
impl std::ops::DerefMut for RouteTimes {
    fn deref_mut(&mut self) -> &mut HashMap<Route, Vec<Micros>> {
        &mut self.0
    }
}

#[cfg(test)]
impl<const N: usize> From<[(Route, Vec<Micros>); N]> for RouteTimes {
    fn from(times: [(Route, Vec<Micros>); N]) -> RouteTimes {
        RouteTimes(times.into())
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
}
