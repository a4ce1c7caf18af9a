//! Requests that were in hand when workers died. One may be asked again once; what two workers have died with is
//! refused for a while, and a site's requests are not all given a second time when its workers die one after another.
//! It never knows why a worker died. Pure: time is an argument.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use doctor::route::label;
use http::{header, request::Parts};
use parking_lot::{Mutex, MutexGuard};

use crate::support::clock::Micros;

/// So many workers die with the very same request before it is refused ...
const DEATHS: u32 = 2;
/// ... and so many with requests for the same page that differ in their fields, as those of different visitors do.
const PAGE_DEATHS: u32 = 4;
/// So many with requests of a route, without an answer of it in between, before it is not asked a second time while workers die.
const TAINTED: u32 = 3;
/// Within this time, microseconds, ...
const LATELY: Micros = 10_000_000;
/// ... so many workers of each that the site has die before nothing is asked a second time.
const DEATHS_OF_EACH: usize = 2;
/// For how long it is refused at first, in microseconds. Each death after that doubles the time.
const REFUSED: Micros = 10_000_000;
/// How often it is doubled: 320 seconds are the longest.
const DOUBLED: u32 = 5;
/// A death counts no more when so much time has passed, microseconds, in which the request neither was answered nor
/// killed a worker.
const FORGOTTEN: Micros = 600_000_000;
/// Most that is remembered.
const MAX: usize = 1024;
/// Requests that may be asked again within a second, when those that may be at once are used up.
const AGAIN: f64 = 10.0;
/// Fewest that may be asked again at once.
const FEWEST_AT_ONCE: usize = 100;

/// What a request is known by: itself, with all that its client chose, and its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    request: u64,
    page: u64,
    /// The page without its query, and without the numbers in its path.
    route: u64,
}

struct Entry {
    deaths: u32,
    /// Of those, how many are too many.
    limit: u32,
    last: Micros,
}

impl Entry {
    /// None: not refused. Else until when.
    fn refused_until(&self) -> Option<Micros> {
        let beyond = self.deaths.checked_sub(self.limit)?;
        Some(self.last + (REFUSED << beyond.min(DOUBLED)))
    }
}

/// Of a route. An answer removes it: what dies beside another request, or is killed from outside, is answered in between.
struct RouteDeaths {
    unanswered: u32,
    last: Micros,
}

struct Inner {
    entries: HashMap<u64, Entry>,
    routes: HashMap<u64, RouteDeaths>,
    /// When workers died, the last ones.
    deaths: VecDeque<Micros>,
    /// Requests that may still be asked again.
    left: f64,
    counted: Micros,
}

/// Those of one site.
pub struct Suspects {
    inner: Mutex<Inner>,
    /// There are any: what every request looks at.
    any: AtomicBool,
    /// Its keys are nobody's to choose.
    hasher: RandomState,
    at_once: f64,
    /// Deaths within a while after which nothing is asked a second time.
    most_deaths: usize,
}

impl Suspects {
    /// For a site with so many workers, and worker threads in all of them.
    pub fn new(workers: usize, threads: usize) -> Suspects {
        let at_once = threads.saturating_mul(2).max(FEWEST_AT_ONCE) as f64;
        let inner = Inner {
            entries: HashMap::new(),
            routes: HashMap::new(),
            deaths: VecDeque::new(),
            left: at_once,
            counted: 0,
        };
        Suspects {
            inner: Mutex::new(inner),
            any: AtomicBool::new(false),
            hasher: RandomState::new(),
            at_once,
            most_deaths: workers.max(1).saturating_mul(DEATHS_OF_EACH),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether there is anything to compare a request with: mostly not.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// What the request is known by. `body`: what is in memory of it.
    pub fn fingerprint(&self, head: &Parts, body: &[u8]) -> Fingerprint {
        let mut hasher = self.hasher.build_hasher();
        let mut put = |bytes: &[u8]| {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        };
        put(head.method.as_str().as_bytes());
        let host = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        put(host.or_else(|| head.headers.get(header::HOST).map(|host| host.as_bytes())).unwrap_or_default());
        let mut of_route = hasher.clone();
        of_route.write(label(head.method.as_str(), head.uri.path()).as_bytes());
        let mut put = |bytes: &[u8]| {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        };
        put(head.uri.path_and_query().map_or("", |target| target.as_str()).as_bytes());
        let page = hasher.finish();
        let mut put = |bytes: &[u8]| {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        };
        for (name, value) in &head.headers {
            put(name.as_str().as_bytes());
            put(value.as_bytes());
        }
        put(body);
        Fingerprint { request: hasher.finish(), page, route: of_route.finish() }
    }

    /// For how long the request is refused, if it is.
    pub fn refuses(&self, request: Fingerprint, now: Micros) -> Option<Duration> {
        let inner = self.lock();
        let entries =
            [request.request, request.page].into_iter().filter_map(|key| inner.entries.get(&key)?.refused_until());
        let until = entries.max().filter(|until| *until > now)?;
        Some(Duration::from_micros(until - now))
    }

    /// A worker has died with the request in hand, which it was given at `given`. Workers that die together are one
    /// death.
    pub fn died(&self, request: Fingerprint, given: Micros, now: Micros) {
        let mut inner = self.lock();
        inner.entries.retain(|_, entry| now.saturating_sub(entry.refused_until().unwrap_or(entry.last)) < FORGOTTEN);
        if inner.deaths.back().is_none_or(|last| given > *last) {
            inner.deaths.push_back(now);
            if inner.deaths.len() > self.most_deaths + 1 {
                inner.deaths.pop_front();
            }
        }
        inner.routes.retain(|_, route| now.saturating_sub(route.last) < FORGOTTEN);
        let key = request.route;
        if !inner.routes.contains_key(&key) && inner.routes.len() >= MAX {
            let oldest = inner.routes.iter().min_by_key(|(_, route)| route.last).map(|(key, _)| *key);
            oldest.and_then(|oldest| inner.routes.remove(&oldest));
        }
        let route = inner.routes.entry(key).or_insert(RouteDeaths { unanswered: 0, last: 0 });
        if route.unanswered == 0 || given > route.last {
            *route = RouteDeaths { unanswered: route.unanswered + 1, last: now };
        }
        for (key, limit) in [(request.request, DEATHS), (request.page, PAGE_DEATHS)] {
            if !inner.entries.contains_key(&key) && inner.entries.len() >= MAX {
                let oldest = inner.entries.iter().min_by_key(|(_, entry)| entry.last).map(|(key, _)| *key);
                oldest.and_then(|oldest| inner.entries.remove(&oldest));
            }
            let entry = inner.entries.entry(key).or_insert(Entry { deaths: 0, limit, last: 0 });
            if entry.deaths == 0 || given > entry.last {
                entry.deaths += 1;
                entry.last = now;
            }
        }
        self.any.store(true, Relaxed);
    }

    /// The request, which was given to a worker at `given`, was answered: it kills nobody. That says little of others for its route.
    pub fn answered(&self, request: Fingerprint, given: Micros) {
        let mut inner = self.lock();
        inner.routes.remove(&request.route);
        for key in [request.request, request.page] {
            if inner.entries.get(&key).is_some_and(|entry| given > entry.last) {
                inner.entries.remove(&key);
            }
        }
        self.any.store(!inner.entries.is_empty() || !inner.routes.is_empty(), Relaxed);
    }

    /// Whether the request may be asked again; if so, it counts. While workers die one after another, and others of its route were in
    /// hand, a second try would only take another worker from those that are left.
    pub fn may_ask_again(&self, request: Fingerprint, now: Micros) -> bool {
        let mut inner = self.lock();
        let lately = inner.deaths.iter().filter(|at| now.saturating_sub(**at) < LATELY).count();
        let is_tainted = inner.routes.get(&request.route).is_some_and(|route| route.unanswered >= TAINTED);
        if lately > self.most_deaths && is_tainted {
            return false;
        }
        let passed = now.saturating_sub(inner.counted) as f64 / 1e6;
        inner.counted = now;
        inner.left = (inner.left + passed * AGAIN).min(self.at_once);
        if inner.left < 1.0 {
            return false;
        }
        inner.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn request(suspects: &Suspects, target: &str, cookie: &str) -> Fingerprint {
        let request = http::Request::get(target).header("host", "a.test").header("cookie", cookie).body(()).unwrap();
        suspects.fingerprint(&request.into_parts().0, b"")
    }

    fn to(suspects: &Suspects, target: &str) -> Fingerprint {
        let request = http::Request::get(target).header("host", "a.test").body(()).unwrap();
        suspects.fingerprint(&request.into_parts().0, b"")
    }

    fn seconds(refused: Option<Duration>) -> u64 {
        refused.map_or(0, |time| time.as_secs())
    }

    #[test]
    fn what_two_workers_died_with_is_refused_for_ever_longer() {
        let suspects = Suspects::new(1, 1);
        let crash = request(&suspects, "/crash", "");
        assert!(!suspects.any());
        let mut now = SECOND;
        let mut refused = Vec::new();
        for _ in 0..9 {
            suspects.died(crash, now, now + 1);
            let time = suspects.refuses(crash, now + 1);
            refused.push(seconds(time));
            now += 2 + time.map_or(0, |time| time.as_micros() as Micros);
            assert_eq!(suspects.refuses(crash, now), None);
        }
        assert_eq!(refused, [0, 10, 20, 40, 80, 160, 320, 320, 320]);
        assert_eq!(suspects.refuses(request(&suspects, "/other", ""), now), None);
    }

    #[test]
    fn an_answer_clears_a_request_and_one_from_before_the_death_does_not() {
        let suspects = Suspects::new(1, 1);
        let page = request(&suspects, "/", "");
        suspects.died(page, 10, 20);
        suspects.answered(page, 15);
        suspects.died(page, 30, 40);
        assert!(suspects.refuses(page, 50).is_some());
        suspects.answered(page, 60);
        assert_eq!((suspects.refuses(page, 70), suspects.any()), (None, false));
    }

    #[test]
    fn workers_that_die_together_are_one_death() {
        let suspects = Suspects::new(1, 1);
        let page = request(&suspects, "/", "");
        for given in 1..9 {
            suspects.died(page, given, 20 + given);
        }
        assert_eq!(suspects.refuses(page, 30), None);
    }

    #[test]
    fn one_visitors_request_does_not_take_a_page_from_others_before_theirs_have_killed_as_well() {
        let suspects = Suspects::new(1, 1);
        let [one, two, three] = ["a=1", "a=2", "a=3"].map(|cookie| request(&suspects, "/report", cookie));
        for given in [10, 20] {
            suspects.died(one, given, given + 1);
        }
        assert_eq!([one, two].map(|one| suspects.refuses(one, 25).is_some()), [true, false]);
        for given in [30, 40] {
            suspects.died(two, given, given + 1);
        }
        assert!(suspects.refuses(three, 45).is_some());
        let other_host = http::Request::get("/report").header("host", "b.test").body(()).unwrap();
        assert_eq!(suspects.refuses(suspects.fingerprint(&other_host.into_parts().0, b""), 45), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let suspects = Suspects::new(1, 1);
        for given in 1..3_000 {
            suspects.died(request(&suspects, &format!("/{given}"), ""), given, given + 1);
        }
        assert_eq!(suspects.lock().entries.len(), MAX);
        suspects.died(request(&suspects, "/", ""), 2 * FORGOTTEN, 3 * FORGOTTEN);
        let inner = suspects.lock();
        assert_eq!((inner.entries.len(), inner.routes.len()), (2, 1));
    }

    #[test]
    fn nothing_is_asked_again_while_workers_die_one_after_another() {
        let suspects = Suspects::new(2, 10);
        let (crash, fine) = (to(&suspects, "/crash?q"), to(&suspects, "/fine"));
        for nth in 1..=5 {
            assert!(suspects.may_ask_again(crash, nth * SECOND), "{nth}");
            suspects.died(to(&suspects, &format!("/crash?{nth}")), nth * SECOND, nth * SECOND + 1);
        }
        assert!(!suspects.may_ask_again(crash, 6 * SECOND) && suspects.may_ask_again(fine, 6 * SECOND));
        assert!(suspects.may_ask_again(crash, 5 * SECOND + LATELY), "the first of them is forgotten");
    }

    #[test]
    fn what_dies_beside_a_crash_is_asked_again_each_time() {
        let suspects = Suspects::new(2, 10);
        let well = to(&suspects, "/well");
        for nth in 1..100 {
            let now = nth * SECOND / 10;
            suspects.died(to(&suspects, &format!("/crash?{nth}")), now, now + 1);
            suspects.died(well, now, now + 1);
            assert!(suspects.may_ask_again(well, now + 2), "{nth}");
            suspects.answered(well, now + 3);
        }
    }

    #[test]
    fn what_is_killed_from_outside_is_asked_again() {
        let suspects = Suspects::new(2, 10);
        for nth in 1..100 {
            let page = to(&suspects, &format!("/?{nth}"));
            suspects.died(page, nth * SECOND, nth * SECOND + 1);
            assert!(suspects.may_ask_again(page, nth * SECOND + 2), "{nth}");
            assert_eq!(suspects.refuses(page, nth * SECOND + 2), None, "{nth}");
            suspects.answered(page, nth * SECOND + 3);
        }
    }

    #[test]
    fn so_many_may_be_asked_again_at_once_and_then_ten_a_second() {
        let suspects = Suspects::new(12, 60);
        let page = request(&suspects, "/", "");
        let granted = |now| (0..1_000).filter(|_| suspects.may_ask_again(page, now)).count();
        assert_eq!([granted(SECOND), granted(SECOND), granted(2 * SECOND), granted(60 * SECOND)], [120, 0, 10, 120]);
    }
}
