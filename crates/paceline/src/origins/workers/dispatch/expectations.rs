//! How long a request will hold a worker thread, learned from those before it on the same route. It decides nothing:
//! the queue does. Pure: time is an argument.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::Arc,
};

pub use path_patterns::route::label;
use path_patterns::route::{is_id, SEGMENTS};

use crate::support::clock::Micros;

/// Routes remembered in each of two generations; the older one is forgotten when the younger is full.
const REMEMBERED: usize = 2048;
/// Weight of the newest observation in a route's mean: one in so many.
const WEIGHT: i64 = 8;
/// A request that is expected to take less is never long.
const LONG: Micros = 50_000;
/// Long is what takes so many times as long as the usual request.
const TIMES_USUAL: Micros = 8;

/// What of a request tells how long it will take.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    pub method: &'a str,
    pub path: &'a str,
}

impl<'a> RequestLine<'a> {
    pub const fn get(path: &'a str) -> RequestLine<'a> {
        RequestLine { method: "GET", path }
    }
}

/// A method with the shape of a path: `GET /orders/17` and `GET /orders/18` are one route.
pub type Route = u64;

/// What is expected of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpectedTime {
    /// The time for which it will hold a thread.
    pub time: Micros,
    /// What those before it took, whatever runs now.
    pub mean: Micros,
    /// It takes many times as long as most: others must not be kept waiting by such as it.
    pub long: bool,
}

struct LearnedTime {
    label: Arc<str>,
    mean: Micros,
    running: usize,
    /// When the oldest of those that run was handed over, or later.
    since: Micros,
}

/// A route is a hash with a secret already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, route: Route) {
        self.0 = route;
    }
}

type ByRoute = HashMap<Route, LearnedTime, BuildHasherDefault<AsItIs>>;

/// What was learned of one app's routes.
pub struct Expectations {
    hasher: RandomState,
    young: ByRoute,
    old: ByRoute,
    /// About the median of all requests.
    usual: f64,
}

impl Default for Expectations {
    fn default() -> Expectations {
        Expectations { hasher: RandomState::new(), young: ByRoute::default(), old: ByRoute::default(), usual: 1000.0 }
    }
}

impl Expectations {
    pub fn route(&self, method: &str, path: &str) -> Route {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(method.as_bytes());
        for segment in path.split('/').take(SEGMENTS + 1) {
            hasher.write_u8(b'/');
            hasher.write(if is_id(segment) { b"*" } else { segment.as_bytes() });
        }
        hasher.finish()
    }

    /// The route, which from now on has a name.
    pub fn know(&mut self, RequestLine { method, path }: RequestLine) -> Route {
        let route = self.route(method, path);
        if !self.young.contains_key(&route) && self.find(route).is_none() {
            self.learn(route, label(method, path).into());
        }
        route
    }

    /// As `GET /orders/*`. None: it has been forgotten.
    pub fn label(&self, route: Route) -> Option<Arc<str>> {
        self.young.get(&route).or_else(|| self.old.get(&route)).map(|learned| learned.label.clone())
    }

    /// The routes whose requests take longest, with their means: the slowest first.
    pub fn slowest(&self, most: usize) -> Vec<(Arc<str>, Micros)> {
        let named = self.young.values().chain(self.old.values()).filter(|learned| !learned.label.is_empty());
        let mut slowest: Vec<(Micros, &Arc<str>)> = named.map(|learned| (learned.mean, &learned.label)).collect();
        slowest.sort_unstable_by(|one, other| other.cmp(one));
        slowest.into_iter().take(most).map(|(mean, label)| (label.clone(), mean)).collect()
    }

    /// Of a route that nobody asked for yet: what is usual here.
    pub fn expected(&mut self, route: Route, now: Micros) -> ExpectedTime {
        let usual = self.usual as Micros;
        let (time, mean) = match self.find(route) {
            // One that has been running for long says more than those that have ended.
            Some(learned) if learned.running > 0 => (learned.mean.max(now.saturating_sub(learned.since)), learned.mean),
            Some(learned) => (learned.mean, learned.mean),
            None => (usual, usual),
        };
        ExpectedTime { time, mean, long: time >= LONG.max(TIMES_USUAL * usual) }
    }

    /// A request of `route` has been handed over.
    pub fn begin(&mut self, route: Route, now: Micros) {
        if self.find(route).is_none() {
            self.learn(route, "".into());
        }
        if let Some(learned) = self.find(route) {
            if learned.running == 0 {
                learned.since = now;
            }
            learned.running += 1;
        }
    }

    fn learn(&mut self, route: Route, label: Arc<str>) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        // What is usual at this moment is what is expected of it.
        self.young.insert(route, LearnedTime { label, mean: self.usual as Micros, running: 0, since: 0 });
    }

    /// It is over, and held its thread for `time`; None: it was given up, and teaches nothing.
    pub fn end(&mut self, route: Route, time: Option<Micros>, now: Micros) {
        if let Some(time) = time {
            self.usual = if time as f64 > self.usual { self.usual * 1.05 + 1.0 } else { self.usual * 0.95 };
        }
        let Some(learned) = self.find(route) else { return };
        learned.running = learned.running.saturating_sub(1);
        learned.since = now;
        if let Some(time) = time {
            learned.mean = (learned.mean as i64 + (time as i64 - learned.mean as i64) / WEIGHT) as Micros;
        }
    }

    /// A route that is asked for stays.
    fn find(&mut self, route: Route) -> Option<&mut LearnedTime> {
        if let Some(learned) = self.old.remove(&route) {
            self.young.insert(route, learned);
        }
        self.young.get_mut(&route)
    }
}

#[cfg(test)]
mod tests {
    use path_patterns::route::LONGEST_LABEL;

    use super::*;

    #[test]
    fn ids_do_not_make_a_route() {
        let expectations = Expectations::default();
        let same = |a: &str, b: &str| expectations.route("GET", a) == expectations.route("GET", b);
        assert!(same("/orders/17", "/orders/18"));
        assert!(same("/o/7f9c2ba4-e88f-4d3f-9a1b-000000000001", "/o/7f9c2ba4-e88f-4d3f-9a1b-000000000002"));
        assert!(!same("/orders/17", "/orders/17/lines"));
        assert!(!same("/orders", "/users"));
        assert!(!same("/facade", "/decade"), "words of hexadecimal letters are words");
        assert_ne!(expectations.route("GET", "/orders"), expectations.route("POST", "/orders"));
    }

    fn serve(expectations: &mut Expectations, route: Route, times: usize, time: Micros) {
        for _ in 0..times {
            expectations.begin(route, 0);
            expectations.end(route, Some(time), time);
        }
    }

    #[test]
    fn a_route_is_long_when_it_takes_many_times_the_usual() {
        let mut expectations = Expectations::default();
        let (page, report) = (expectations.route("GET", "/page"), expectations.route("GET", "/report"));
        for _ in 0..30 {
            serve(&mut expectations, page, 9, 5_000);
            serve(&mut expectations, report, 1, 200_000);
        }
        let (short, long) = (expectations.expected(page, 0), expectations.expected(report, 0));
        assert!((4_900..=5_100).contains(&short.time) && !short.long, "{short:?}");
        assert!((180_000..=200_000).contains(&long.time) && long.long, "{long:?}");
        let unknown = expectations.route("GET", "/new");
        assert!(!expectations.expected(unknown, 0).long);
    }

    #[test]
    fn where_everything_is_slow_nothing_is_long() {
        let mut expectations = Expectations::default();
        let route = expectations.route("GET", "/");
        serve(&mut expectations, route, 300, 200_000);
        assert!(!expectations.expected(route, 0).long);
    }

    #[test]
    fn a_route_has_a_name() {
        let mut expectations = Expectations::default();
        for (method, path, name) in [
            ("GET", "/", "GET /"),
            ("GET", "/orders/17", "GET /orders/*"),
            ("PUT", "/orders/17/lines/7f9c2ba4", "PUT /orders/*/lines/*"),
            ("GET", "/a/b/c/d/e/f/g/h", "GET /a/b/c/d/e/f/…"),
        ] {
            let route = expectations.know(RequestLine { method, path });
            assert_eq!(expectations.label(route).as_deref(), Some(name));
            expectations.begin(route, 5);
            assert_eq!(expectations.label(route).as_deref(), Some(name));
        }
        assert_eq!(expectations.label(1), None);
        assert!(label("GET", &"/worthless".repeat(100)).len() < 2 * LONGEST_LABEL);
    }

    #[test]
    fn the_slowest_routes_come_first() {
        let mut expectations = Expectations::default();
        for (path, time) in [("/page", 5_000), ("/report", 900_000), ("/search", 90_000)] {
            let route = expectations.know(RequestLine::get(path));
            serve(&mut expectations, route, 50, time);
        }
        serve(&mut expectations, 1, 50, 2_000_000);
        let slowest = expectations.slowest(2);
        let names: Vec<&str> = slowest.iter().map(|(label, _)| &**label).collect();
        assert_eq!(names, ["GET /report", "GET /search"], "one without a name is left out");
        assert!((880_000..=900_000).contains(&slowest[0].1), "{slowest:?}");
    }

    #[test]
    fn one_that_still_runs_is_believed_before_it_ends() {
        let mut expectations = Expectations::default();
        let (page, stream) = (expectations.route("GET", "/page"), expectations.route("GET", "/events"));
        serve(&mut expectations, page, 100, 2_000);
        expectations.begin(stream, 1_000);
        assert!(!expectations.expected(stream, 10_000).long);
        let expected = expectations.expected(stream, 5_001_000);
        assert_eq!((expected.time, expected.long), (5_000_000, true));
        assert!(expected.mean < 5_000, "what those before it took is another matter");
        expectations.end(stream, None, 5_001_000);
        assert!(!expectations.expected(stream, 5_001_000).long, "what was given up teaches nothing");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_keeps_what_is_used() {
        let mut expectations = Expectations::default();
        let kept = expectations.route("GET", "/kept");
        serve(&mut expectations, kept, 50, 80_000);
        for number in 0..10 * REMEMBERED as u64 {
            serve(&mut expectations, number, 1, 1_000);
            if number % 1000 == 0 {
                assert!(expectations.expected(kept, 0).time > 50_000, "{number}");
            }
        }
        assert!(expectations.young.len() + expectations.old.len() <= 2 * REMEMBERED + 2);
    }
}
