//! The times that the queue keeps of each route, for those who compare hours (`tune`). It decides nothing.

use super::{Queue, Route};
use crate::{support::clock::Micros, workers::dispatch::route_times::RouteTimes};

/// What the latest requests of each route took.
#[derive(Debug, Default)]
pub(super) struct VisitTimes {
    app: RouteTimes,
    whole: RouteTimes,
}

/// The latest requests of a route, in the order in which they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteVisits {
    pub route: String,
    /// What each took of a thread.
    pub app: Vec<Micros>,
    /// The same, with what it waited for that thread before.
    pub whole: Vec<Micros>,
}

impl VisitTimes {
    pub(super) fn note(&mut self, route: Route, held: Micros, waited: Micros) {
        self.app.note(route, held);
        self.whole.note(route, held.saturating_add(waited));
    }
}

impl Queue {
    /// From now on times are kept.
    pub fn keep_times(&self) {
        self.lock().times.get_or_insert_default();
    }

    /// What was kept since the last time, by the names of the routes.
    pub fn take_times(&self) -> Vec<RouteVisits> {
        let mut inner = self.lock();
        let VisitTimes { app, mut whole } = inner.times.as_mut().map(std::mem::take).unwrap_or_default();
        let name = |route| inner.expectations.label(route).filter(|label| !label.is_empty());
        let visits = |(route, app)| {
            let whole = whole.take(route);
            Some(RouteVisits { route: name(route)?.to_string(), app, whole })
        };
        app.into_iter().filter_map(visits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_unless_it_is_wanted() {
        let queue = Queue::new(9);
        assert!(queue.take_times().is_empty());
        queue.keep_times();
        let route = queue.lock().expectations.know("GET", "/beers/1");
        queue.lock().times.as_mut().unwrap().note(route, 7, 4);
        let visits = RouteVisits { route: "GET /beers/*".into(), app: vec![7], whole: vec![11] };
        assert_eq!(queue.take_times(), [visits]);
        assert!(queue.take_times().is_empty());
    }
}
