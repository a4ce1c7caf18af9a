//! How workers' own memory has grown since they were forked, and which routes it grew with. A reading tells only how
//! much a process has; whose requests made the difference, those that still run among them, is estimated over the last
//! readings: a route that is there when memory grows, and not when it does not, is blamed. Readings are arguments.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    observe::incidents::Sample,
    origins::workers::dispatch::queue::{RouteWork, WorkerId},
    support::clock,
};

/// Routes that are kept of a worker; those it grew with least make room.
const MAX_ROUTES: usize = 48;
/// Readings that are looked at together.
const MAX_READINGS: usize = 60;
/// Points of a worker's curve.
const MAX_SAMPLES: usize = 240;
/// How often the estimate is refined; it comes closer each time.
const ROUNDS: usize = 40;
/// What a request is taken to leave at first: so many bytes, and so many for each object that it allocated.
const FIRST_GUESS: (f64, f64) = (1000.0, 40.0);
/// What one that still runs is taken to leave, if none of its route has ended: what it allocated is not known yet, and may
/// be much.
const GUESS_OF_RUNNING: f64 = 1e6;

/// A route's name, `GET /orders/*`; None: of all those that had no place of their own.
type Label = Option<Arc<str>>;
/// In words.
const OTHERS: &str = "others";

/// What is known of all workers.
#[derive(Default)]
pub struct Growth {
    workers: HashMap<WorkerId, WorkerGrowth>,
}

/// What is known of one. In bytes of its own memory (`accounting::Memory::own`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerGrowth {
    /// At the first reading, when it had answered little or nothing.
    pub born: u64,
    pub now: u64,
    /// As far as it has been put to what was done.
    settled: u64,
    /// Unix seconds and bytes, over its whole life, ever more sparsely.
    curve: Vec<(f64, u64)>,
    /// One reading in so many is kept in it.
    every: usize,
    readings: usize,
    last: VecDeque<Interval>,
    /// Requests that ran at the last reading.
    running: HashMap<Label, u64>,
    /// What came of readings that are no longer looked at.
    before: HashMap<Label, Share>,
}

/// What came between two readings.
#[derive(Debug, Clone, PartialEq)]
struct Interval {
    bytes: f64,
    done: Vec<(Label, RouteWork)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    bytes: f64,
    requests: u64,
}

/// How a worker grew with a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteGrowth {
    pub label: Arc<str>,
    pub bytes: u64,
    /// Requests of the route since it was first looked at, answered or not.
    pub requests: u64,
}

impl Growth {
    /// A worker has `own` bytes, and has done this since the reading before.
    pub fn read(&mut self, worker: WorkerId, own: u64, done: impl IntoIterator<Item = (Label, RouteWork)>) {
        let first = || WorkerGrowth { born: own, now: own, settled: own, ..WorkerGrowth::default() };
        let grown = self.workers.entry(worker).or_insert_with(first);
        grown.now = own;
        grown.note(clock::unix_seconds());
        grown.settle(done.into_iter().collect());
    }

    pub fn of(&self, worker: WorkerId) -> Option<&WorkerGrowth> {
        self.workers.get(&worker)
    }

    /// Forgets all but these.
    pub fn keep(&mut self, known: impl Fn(WorkerId) -> bool) {
        self.workers.retain(|id, _| known(*id));
    }
}

impl WorkerGrowth {
    pub fn bytes(&self) -> u64 {
        self.now.saturating_sub(self.born)
    }

    /// The last reading is always in it.
    pub fn curve(&self) -> Vec<Sample> {
        self.curve.iter().map(|(at, bytes)| Sample { at: *at, bytes: *bytes }).collect()
    }

    fn note(&mut self, at: f64) {
        let every = self.every.max(1);
        // Between two that are kept, the newest stands.
        if self.readings % every != 0 && self.curve.len() > 1 {
            self.curve.pop();
        }
        self.curve.push((at, self.now));
        self.readings += 1;
        if self.curve.len() > MAX_SAMPLES {
            let mut nth = 0;
            self.curve.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.every = every * 2;
        }
    }

    /// What it grew with, the most first.
    pub fn routes(&self) -> Vec<RouteGrowth> {
        let shares = self.shares();
        let all: f64 = shares.values().map(|share| share.bytes).sum();
        // What the collector gave back was nobody's in particular.
        let left = (self.bytes() as f64 / all.max(1.0)).min(1.0);
        let named = shares.into_iter().map(|(label, share)| RouteGrowth {
            label: label.unwrap_or_else(|| OTHERS.into()),
            bytes: (share.bytes * left) as u64,
            requests: share.requests,
        });
        let mut routes: Vec<_> = named.collect();
        routes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.label.cmp(&b.label)));
        routes
    }

    /// The route it grew with most, if it grew with one to speak of.
    pub fn most(&self) -> Option<RouteGrowth> {
        self.routes().into_iter().find(|route| route.bytes > 0 && *route.label != *OTHERS)
    }

    /// Where nothing has run there is nobody to put growth to: it waits for the next reading.
    fn settle(&mut self, done: Vec<(Label, RouteWork)>) {
        self.running = HashMap::new();
        for (label, work) in done.iter().filter(|(_, work)| work.running > 0) {
            *self.running.entry(label.clone()).or_default() += work.running;
        }
        if done.is_empty() {
            return;
        }
        let bytes = self.now as f64 - self.settled as f64;
        self.settled = self.now;
        self.last.push_back(Interval { bytes: bytes.max(0.0), done });
        if self.last.len() > MAX_READINGS {
            let rates = self.rates();
            if let Some(oldest) = self.last.pop_front() {
                oldest.share_out(&rates, &mut self.before);
            }
            bound(&mut self.before);
        }
    }

    fn shares(&self) -> HashMap<Label, Share> {
        let (rates, mut shares) = (self.rates(), self.before.clone());
        self.last.iter().for_each(|interval| interval.share_out(&rates, &mut shares));
        for (label, running) in &self.running {
            shares.entry(label.clone()).or_default().requests += running;
        }
        bound(&mut shares);
        shares
    }

    /// Bytes that a request of each route leaves, by which the readings are explained best: each round, what a route is
    /// taken to leave changes as the growth of the intervals it was in differs from what was to be expected of them
    /// (Richardson-Lucy).
    fn rates(&self) -> HashMap<Label, f64> {
        let mut places: HashMap<&Label, usize> = HashMap::new();
        // Of each route the requests that ran, those that have ended, and the objects of these.
        let mut seen: Vec<(f64, f64, f64)> = Vec::new();
        // By interval: its growth, and the place and number of requests of each of its routes.
        let mut intervals: Vec<(f64, Vec<(usize, f64)>)> = Vec::new();
        for interval in &self.last {
            let done = interval.done.iter().map(|(label, done)| {
                let place = *places.entry(label).or_insert_with(|| {
                    seen.push((0.0, 0.0, 0.0));
                    seen.len() - 1
                });
                seen[place].0 += ran(done);
                seen[place].1 += done.requests as f64;
                seen[place].2 += done.allocated as f64;
                (place, ran(done))
            });
            intervals.push((interval.bytes, done.collect()));
        }
        let (bytes, by_object) = FIRST_GUESS;
        let guess = |(_, ended, objects): &(f64, f64, f64)| {
            if *ended > 0.0 {
                bytes + by_object * objects / ended
            } else {
                GUESS_OF_RUNNING
            }
        };
        let mut rates: Vec<f64> = seen.iter().map(guess).collect();
        for _ in 0..ROUNDS {
            let mut found = vec![0.0; seen.len()];
            for (bytes, done) in &intervals {
                let expected: f64 = done.iter().map(|(place, requests)| requests * rates[*place]).sum();
                done.iter().for_each(|(place, requests)| found[*place] += requests * bytes / expected.max(1e-9));
            }
            for (place, rate) in rates.iter_mut().enumerate() {
                *rate *= found[place] / seen[place].0.max(1.0);
            }
        }
        places.into_iter().map(|(label, place)| (label.clone(), rates[place])).collect()
    }
}

impl Interval {
    fn expected(&self, rates: &HashMap<Label, f64>) -> f64 {
        self.done.iter().map(|(label, done)| ran(done) * rates.get(label).unwrap_or(&0.0)).sum()
    }

    fn share_out(&self, rates: &HashMap<Label, f64>, shares: &mut HashMap<Label, Share>) {
        let expected = self.expected(rates);
        for (label, done) in &self.done {
            let part = ran(done) * rates.get(label).unwrap_or(&0.0) / expected.max(1e-9);
            let share = shares.entry(label.clone()).or_default();
            share.requests += done.requests;
            share.bytes += self.bytes * part.min(1.0);
        }
    }
}

/// Requests that ran between two readings. What a stream leaves, it leaves in each such time.
fn ran(work: &RouteWork) -> f64 {
    (work.requests + work.running) as f64
}

/// The routes of least growth become one.
fn bound(shares: &mut HashMap<Label, Share>) {
    while shares.len() > MAX_ROUTES {
        let named = shares.iter().filter(|(label, _)| label.is_some());
        let least = named.min_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes)).map(|(label, _)| label.clone());
        let Some(gone) = least.and_then(|label| shares.remove(&label)) else { return };
        let rest = shares.entry(None).or_default();
        rest.bytes += gone.bytes;
        rest.requests += gone.requests;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn done(label: &str, requests: u64, allocated: u64) -> (Label, RouteWork) {
        (Some(label.into()), RouteWork { route: None, requests, running: 0, allocated })
    }

    /// Route, requests and objects.
    type Worked<'a> = &'a [(&'a str, u64, u64)];

    fn after(readings: &[(u64, Worked)]) -> WorkerGrowth {
        let mut growth = Growth::default();
        for (own, work) in readings {
            growth.read(
                1,
                *own * MB,
                work.iter().map(|(label, requests, allocated)| done(label, *requests, *allocated)),
            );
        }
        growth.of(1).unwrap().clone()
    }

    #[test]
    fn at_first_growth_is_put_to_what_allocated() {
        let grown = after(&[(10, &[("GET /", 3, 300)]), (40, &[("GET /", 10, 1000), ("GET /report", 1, 90_000)])]);
        assert_eq!((grown.born, grown.bytes()), (10 * MB, 30 * MB));
        let most = grown.most().unwrap();
        assert_eq!((&*most.label, most.requests), ("GET /report", 1));
        assert!(most.bytes > 29 * MB, "{most:?}");
        assert!(grown.routes().iter().map(|route| route.bytes).sum::<u64>().abs_diff(30 * MB) < 10);
    }

    #[test]
    fn a_route_without_which_nothing_grows_is_blamed_however_few_objects_it_allocates() {
        let quiet: Worked = &[("GET /", 500, 90_000), ("GET /ping", 50, 100)];
        let leak: Worked = &[("GET /", 500, 90_000), ("GET /pdf", 2, 40)];
        let readings: Vec<_> = (0..10).map(|n| (10 + n / 3 * 12, if n % 3 == 0 { leak } else { quiet })).collect();
        let grown = after(&readings);
        let routes = grown.routes();
        assert_eq!(&*routes[0].label, "GET /pdf");
        assert!(routes[0].bytes > grown.bytes() * 9 / 10, "{routes:?}");
    }

    #[test]
    fn a_request_that_runs_is_blamed_when_it_has_ended() {
        let grown = after(&[(10, &[]), (90, &[]), (95, &[("GET /report", 1, 5)])]);
        assert_eq!(grown.most().unwrap().bytes, 85 * MB);
    }

    /// As with 273 event streams that opened while a health check asked.
    #[test]
    fn what_streams_hold_is_not_put_to_a_quick_request_beside_them() {
        let streams = |running| {
            let work = RouteWork { route: None, requests: 0, running, allocated: 0 };
            (Some("GET /events".into()), work)
        };
        let mut growth = Growth::default();
        growth.read(1, 10 * MB, [done("GET /up", 1, 300)]);
        growth.read(1, 110 * MB, [streams(273), done("GET /up", 1, 300)]);
        let most = growth.of(1).unwrap().most().unwrap();
        assert_eq!((&*most.label, most.requests), ("GET /events", 273));
        assert!(most.bytes > 90 * MB, "{most:?}");
        // They stay open, and nothing grows: they are the same ones.
        growth.read(1, 110 * MB, [streams(273), done("GET /up", 1, 300)]);
        let routes = growth.of(1).unwrap().routes();
        assert_eq!(routes.iter().map(|route| route.requests).collect::<Vec<_>>(), [273, 3]);
        assert!(routes[0].bytes > 90 * MB, "{routes:?}");
        growth.read(1, 110 * MB, [done("GET /events", 273, 3_000_000)]);
        assert_eq!(growth.of(1).unwrap().routes()[0].requests, 273, "they have ended");
        // A few beside many quick ones, always both.
        growth.read(2, 10 * MB, []);
        for _ in 0..5 {
            growth.read(2, 60 * MB, [streams(12), done("GET /up", 100, 20_000)]);
        }
        let most = growth.of(2).unwrap().most().unwrap();
        assert_eq!((&*most.label, most.requests), ("GET /events", 12));
        assert!(most.bytes > 40 * MB, "{most:?}");
    }

    #[test]
    fn what_was_given_back_is_taken_off_all() {
        let grown = after(&[(10, &[]), (30, &[("a", 1, 75), ("b", 1, 275)]), (20, &[("c", 1, 100)])]);
        let routes: Vec<_> = grown.routes().iter().map(|route| (route.label.to_string(), route.bytes / 1024)).collect();
        assert_eq!(routes, [("b".into(), 7680), ("a".into(), 2560), ("c".into(), 0)]);
        let grown = after(&[(30, &[]), (10, &[("a", 1, 1)])]);
        assert_eq!((grown.bytes(), grown.most()), (0, None));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut growth = Growth::default();
        for n in 0..1000_u64 {
            growth.read(1, n * MB, [done(&format!("GET /{n}"), 1, 1)]);
            growth.read(2, n, []);
        }
        let grown = growth.of(1).unwrap();
        assert!(grown.routes().len() <= MAX_ROUTES + 1);
        assert_eq!(grown.routes().iter().map(|route| route.requests).sum::<u64>(), 1000);
        growth.keep(|id| id == 2);
        assert!(growth.of(1).is_none() && growth.of(2).is_some());
    }
}
