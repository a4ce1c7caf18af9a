//! A sample of the GET requests that reach a site's application, for `paceline doctor`: a few of each route, in memory,
//! and only while a doctor watches. At other times a request costs one look at a flag.
//! It never writes a request anywhere, and keeps nothing beyond the time for which it was asked.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use fastrand::Rng;
use parking_lot::Mutex;

use crate::support::clock;

/// Requests kept of one route, and of all routes together.
const MAX_OF_ROUTE: usize = 30;
const MAX_SAMPLES: usize = 300;
/// Routes that are told apart; requests of further ones are counted together.
const MAX_ROUTES: usize = 300;
/// Bytes of a request's target and headers; larger requests are counted and not kept.
pub const MAX_SAMPLE: usize = 16 << 10;
/// Waiting times kept.
const MAX_WAITS: usize = 2000;
/// A doctor that has not asked for so long is gone.
pub const LEASE: Duration = Duration::from_secs(15);

/// A GET request as the application got it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sample {
    pub scheme: String,
    pub host: String,
    pub path: String,
    /// Without the question mark; empty if there is none.
    pub query: String,
    /// End-to-end fields, cookies included.
    pub headers: Vec<(String, String)>,
    /// Whom the front has signed in, as workers are told.
    pub user: Option<String>,
}

impl Sample {
    fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let user = self.user.as_ref().map_or(0, String::len);
        self.host.len() + self.path.len() + self.query.len() + headers + user
    }
}

/// Says nothing of the fields: a sample must not get into a log by accident.
impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {} with {} headers", self.path, self.headers.len())
    }
}

/// What one request took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// Waiting for a worker thread.
    pub queue: u64,
    /// In the application.
    pub app: u64,
    /// Of that, collecting garbage; requests side by side each have all of it.
    pub gc: u64,
}

/// What was seen of a route.
#[derive(Debug, Clone, Default)]
pub struct RouteSamples {
    pub route: String,
    /// Requests, kept or not.
    pub requests: u64,
    /// The sum over these, in microseconds.
    pub times: RequestTimes,
    /// A uniform sample of them.
    pub kept: Vec<Sample>,
    /// `kept` may have so many.
    capacity: usize,
}

/// What a doctor has seen.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// Since the watch began.
    pub elapsed: Duration,
    pub routes: Vec<RouteSamples>,
    /// Microseconds in the application, of all requests.
    pub app: u64,
    /// Of that, collecting garbage.
    pub gc: u64,
    /// How long requests waited for a worker thread, in microseconds: a uniform sample of all.
    pub waits: Vec<u64>,
    /// GETs of routes beyond those.
    pub of_other_routes: u64,
    /// Requests of other methods.
    pub other_methods: u64,
}

/// Somebody else watches.
#[derive(Debug, PartialEq, Eq)]
pub struct AlreadyWatched;

/// Of one application.
#[derive(Default)]
pub struct Reservoir {
    watching: AtomicBool,
    watch: Mutex<Option<Watch>>,
}

struct Watch {
    /// Who watches.
    id: String,
    began: Instant,
    until: Instant,
    observed: Observation,
    /// Where in `observed` a route is.
    places: HashMap<String, usize>,
    kept: usize,
    /// Of all methods.
    requests: usize,
    random: Rng,
}

impl Reservoir {
    /// Whether a request should be offered.
    pub fn is_watching(&self) -> bool {
        self.watching.load(Relaxed)
    }

    /// Begins to watch, or goes on: for LEASE from `now` on. Answers with what was seen so far: GETs and routes.
    pub fn watch(&self, id: &str, now: Instant) -> Result<(u64, usize), AlreadyWatched> {
        let mut held = self.watch.lock();
        let watch = match &mut *held {
            Some(watch) if watch.id == id => watch,
            Some(watch) if watch.until > now => return Err(AlreadyWatched),
            free => free.insert(Watch::new(id, now)),
        };
        watch.until = now + LEASE;
        self.watching.store(true, Relaxed);
        let observed = &watch.observed;
        let requests: u64 = observed.routes.iter().map(|route| route.requests).sum();
        Ok((requests + observed.of_other_routes, observed.routes.len()))
    }

    /// Ends the watch, and gives what it has seen. None: it is over already, or another's.
    pub fn take(&self, id: &str, now: Instant) -> Option<Observation> {
        let mut held = self.watch.lock();
        let watch = held.take_if(|watch| watch.id == id)?;
        self.watching.store(false, Relaxed);
        Some(Observation { elapsed: now.saturating_duration_since(watch.began), ..watch.observed })
    }

    /// What it has seen by now; the watch goes on. None: as for `take`.
    pub fn so_far(&self, id: &str, now: Instant) -> Option<Observation> {
        let held = self.watch.lock();
        let watch = held.as_ref().filter(|watch| watch.id == id)?;
        Some(Observation { elapsed: now.saturating_duration_since(watch.began), ..watch.observed.clone() })
    }

    /// Drops what nobody has asked for in time. Some: when to look again.
    pub fn expire(&self, now: Instant) -> Option<Instant> {
        let mut held = self.watch.lock();
        if let Some(until) = held.as_ref().map(|watch| watch.until).filter(|until| *until > now) {
            return Some(until);
        }
        *held = None;
        self.watching.store(false, Relaxed);
        None
    }

    /// A request that is no GET has reached the application.
    pub fn count_other(&self, times: RequestTimes) {
        if let Some(watch) = &mut *self.watch.lock() {
            watch.count(times);
            watch.observed.other_methods += 1;
        }
    }

    /// A GET of `route` has been answered. `sample` is called if it is to be kept; None: it can't be replayed.
    pub fn offer(&self, route: &str, times: RequestTimes, sample: impl FnOnce() -> Option<Sample>) {
        if let Some(watch) = &mut *self.watch.lock() {
            watch.offer(route, times, sample);
        }
    }
}

impl Watch {
    fn new(id: &str, now: Instant) -> Watch {
        let (observed, places) = Default::default();
        Watch {
            id: id.to_owned(),
            began: now,
            until: now,
            requests: 0,
            observed,
            places,
            kept: 0,
            random: Rng::with_seed(clock::now()),
        }
    }

    fn count(&mut self, times: RequestTimes) {
        self.requests += 1;
        let Observation { app, gc, waits, .. } = &mut self.observed;
        *app = app.saturating_add(times.app);
        *gc = gc.saturating_add(times.gc);
        if waits.len() < MAX_WAITS {
            waits.push(times.queue);
        } else if let Some(wait) = waits.get_mut(self.random.usize(..self.requests)) {
            *wait = times.queue;
        }
    }

    fn offer(&mut self, route: &str, times: RequestTimes, sample: impl FnOnce() -> Option<Sample>) {
        self.count(times);
        let routes = &mut self.observed.routes;
        let place = match self.places.get(route) {
            Some(place) => *place,
            None if routes.len() == MAX_ROUTES => {
                self.observed.of_other_routes += 1;
                return;
            }
            None => {
                routes.push(RouteSamples { route: route.to_owned(), capacity: MAX_OF_ROUTE, ..Default::default() });
                self.places.insert(route.to_owned(), routes.len() - 1);
                routes.len() - 1
            }
        };
        let seen = &mut routes[place];
        seen.requests += 1;
        seen.times.queue = seen.times.queue.saturating_add(times.queue);
        seen.times.app = seen.times.app.saturating_add(times.app);
        seen.times.gc = seen.times.gc.saturating_add(times.gc);
        // Each request of a route is kept with the same probability (Vitter's algorithm R).
        let full = seen.kept.len() >= seen.capacity;
        let slot = if full { self.random.usize(..seen.requests as usize) } else { seen.kept.len() };
        if slot >= seen.capacity {
            return;
        }
        let Some(sample) = sample().filter(|sample| sample.size() <= MAX_SAMPLE) else { return };
        if full {
            seen.kept[slot] = sample;
        } else {
            seen.kept.push(sample);
            self.kept += 1;
        }
        if self.kept > MAX_SAMPLES {
            self.make_room();
        }
    }

    /// Drops any one of the route with the most samples. What is left of them is a uniform sample still.
    fn make_room(&mut self) {
        let Some(largest) = self.observed.routes.iter_mut().max_by_key(|route| route.kept.len()) else { return };
        let dropped = self.random.usize(..largest.kept.len());
        largest.kept.swap_remove(dropped);
        largest.capacity = largest.kept.len();
        self.kept -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str) -> Sample {
        let headers = vec![("cookie".into(), "secret=1".into())];
        Sample { scheme: "http".into(), host: "a".into(), path: path.into(), query: String::new(), headers, user: None }
    }

    fn offer(reservoir: &Reservoir, route: &str, path: &str) {
        reservoir.offer(route, RequestTimes { queue: 1, app: 10, gc: 2 }, || Some(sample(path)));
    }

    #[test]
    fn nothing_is_kept_unless_a_doctor_watches() {
        let (reservoir, now) = (Reservoir::default(), Instant::now());
        offer(&reservoir, "GET /a", "/a");
        assert!(!reservoir.is_watching());
        assert_eq!(reservoir.watch("one", now), Ok((0, 0)));
        offer(&reservoir, "GET /a", "/a");
        assert!(reservoir.is_watching());
        assert_eq!(reservoir.watch("one", now), Ok((1, 1)));
        assert_eq!(reservoir.watch("two", now), Err(AlreadyWatched));
        assert!(reservoir.take("two", now).is_none() && reservoir.so_far("two", now).is_none());
        assert_eq!(reservoir.so_far("one", now).unwrap().routes[0].kept, [sample("/a")]);
        assert!(reservoir.is_watching());
        let observed = reservoir.take("one", now).unwrap();
        assert_eq!(observed.routes[0].kept, [sample("/a")]);
        assert!(!reservoir.is_watching() && reservoir.take("one", now).is_none());
    }

    #[test]
    fn a_doctor_that_went_away_leaves_nothing() {
        let (reservoir, now) = (Reservoir::default(), Instant::now());
        reservoir.watch("one", now).unwrap();
        offer(&reservoir, "GET /a", "/a");
        assert_eq!(reservoir.expire(now), Some(now + LEASE));
        assert_eq!(reservoir.expire(now + LEASE), None);
        assert!(!reservoir.is_watching() && reservoir.take("one", now).is_none());
        reservoir.watch("one", now).unwrap();
        assert_eq!(reservoir.watch("two", now + LEASE), Ok((0, 0)));
    }

    #[test]
    fn a_few_of_each_route_and_not_too_many_in_all() {
        let (reservoir, now) = (Reservoir::default(), Instant::now());
        reservoir.watch("one", now).unwrap();
        for number in 0..1000 {
            offer(&reservoir, "GET /a/*", &format!("/a/{number}"));
        }
        for route in 0..400 {
            offer(&reservoir, &format!("GET /{route}"), "/");
        }
        reservoir.count_other(RequestTimes { queue: 1, app: 5, gc: 1 });
        let observed = reservoir.take("one", now).unwrap();
        assert_eq!((observed.routes.len(), observed.of_other_routes, observed.other_methods), (300, 101, 1));
        assert_eq!((observed.app, observed.waits.len()), (14_005, 1401));
        let first = &observed.routes[0];
        assert_eq!((first.requests, first.times), (1000, RequestTimes { queue: 1000, app: 10_000, gc: 2000 }));
        assert!(observed.routes.iter().all(|route| !route.kept.is_empty()));
        let kept: usize = observed.routes.iter().map(|route| route.kept.len()).sum();
        assert_eq!(kept, MAX_SAMPLES);
    }

    #[test]
    fn each_request_of_a_route_has_the_same_chance() {
        let (reservoir, now) = (Reservoir::default(), Instant::now());
        let mut late = 0;
        for round in 0..50 {
            reservoir.watch("one", now).unwrap();
            for number in 0..300 {
                offer(&reservoir, "GET /a/*", &format!("/{}", if number < 150 { "early" } else { "late" }));
            }
            let observed = reservoir.take("one", now).unwrap();
            let kept = &observed.routes[0].kept;
            assert_eq!(kept.len(), MAX_OF_ROUTE, "round {round}");
            late += kept.iter().filter(|sample| sample.path == "/late").count();
        }
        // 1,500 in all, and a standard deviation of 18.
        assert!((600..900).contains(&late), "{late} of 1,500");
    }

    #[test]
    fn a_large_request_is_counted_only() {
        let (reservoir, now) = (Reservoir::default(), Instant::now());
        reservoir.watch("one", now).unwrap();
        offer(&reservoir, "GET /*", &format!("/{}", "x".repeat(MAX_SAMPLE)));
        reservoir.offer("GET /*", RequestTimes::default(), || None);
        let observed = reservoir.take("one", now).unwrap();
        assert_eq!((observed.routes[0].requests, observed.routes[0].kept.len()), (2, 0));
    }

    #[test]
    fn a_sample_keeps_its_secrets() {
        assert!(!format!("{:?}", sample("/a")).contains("secret"));
    }
}
