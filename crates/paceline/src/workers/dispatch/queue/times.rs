//! The times that the queue keeps of each route, for those who compare hours (`tune`). It decides nothing.

use super::Queue;
use crate::support::clock::Micros;

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
        times.into_iter().filter_map(|(route, times)| Some((label(route)?.to_string(), times))).collect()
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
        queue.lock().times.as_mut().unwrap().note(route, 7);
        assert_eq!(queue.take_times(), [("GET /beers/*".to_owned(), vec![7])]);
        assert!(queue.take_times().is_empty());
    }
}
