//! Requests that were in hand when workers died. One may be asked again once; what two workers have died with is
//! refused for a while, and a site's requests are not all given a second time when its workers die one after another.
//! It never knows why a worker died. Pure: time is an argument.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use http::{header, request::Parts};
use parking_lot::{Mutex, MutexGuard};

use crate::support::clock::Micros;

/// So many workers die with the very same request before it is refused ...
const DEATHS: u32 = 2;
/// ... and so many with requests for the same page that differ in their fields, as those of different visitors do.
const PAGE_DEATHS: u32 = 4;
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

struct Inner {
    entries: HashMap<u64, Entry>,
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
}

impl Suspects {
    /// For a site with so many worker threads.
    pub fn new(threads: usize) -> Suspects {
        let at_once = threads.saturating_mul(2).max(FEWEST_AT_ONCE) as f64;
        let inner = Inner { entries: HashMap::new(), left: at_once, counted: 0 };
        Suspects { inner: Mutex::new(inner), any: AtomicBool::new(false), hasher: RandomState::new(), at_once }
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
        Fingerprint { request: hasher.finish(), page }
    }

    /// For how long the request is refused, if it is.
    pub fn refuses(&self, request: Fingerprint, now: Micros) -> Option<Duration> {
        let inner = self.lock();
        let until = [request.request, request.page]
            .iter()
            .filter_map(|key| inner.entries.get(key)?.refused_until())
            .max()
            .filter(|until| *until > now)?;
        Some(Duration::from_micros(until - now))
    }

    /// A worker has died with the request in hand, which it was given at `given`. Workers that die together are one
    /// death.
    pub fn died(&self, request: Fingerprint, given: Micros, now: Micros) {
        let mut inner = self.lock();
        inner.entries.retain(|_, entry| now.saturating_sub(entry.refused_until().unwrap_or(entry.last)) < FORGOTTEN);
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

    /// The request, which was given to a worker at `given`, was answered: it kills nobody.
    pub fn answered(&self, request: Fingerprint, given: Micros) {
        let mut inner = self.lock();
        for key in [request.request, request.page] {
            if inner.entries.get(&key).is_some_and(|entry| given > entry.last) {
                inner.entries.remove(&key);
            }
        }
        self.any.store(!inner.entries.is_empty(), Relaxed);
    }

    /// Whether one more request may be asked again; if so, it counts.
    pub fn may_ask_again(&self, now: Micros) -> bool {
        let mut inner = self.lock();
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

    fn seconds(refused: Option<Duration>) -> u64 {
        refused.map_or(0, |time| time.as_secs())
    }

    #[test]
    fn what_two_workers_died_with_is_refused_for_ever_longer() {
        let suspects = Suspects::new(1);
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
        let suspects = Suspects::new(1);
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
        let suspects = Suspects::new(1);
        let page = request(&suspects, "/", "");
        for given in 1..9 {
            suspects.died(page, given, 20 + given);
        }
        assert_eq!(suspects.refuses(page, 30), None);
    }

    #[test]
    fn one_visitors_request_does_not_take_a_page_from_others_before_theirs_have_killed_as_well() {
        let suspects = Suspects::new(1);
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
        let suspects = Suspects::new(1);
        for given in 1..3_000 {
            suspects.died(request(&suspects, &format!("/{given}"), ""), given, given + 1);
        }
        assert_eq!(suspects.lock().entries.len(), MAX);
        suspects.died(request(&suspects, "/", ""), FORGOTTEN, 2 * FORGOTTEN);
        assert_eq!(suspects.lock().entries.len(), 2);
    }

    #[test]
    fn so_many_may_be_asked_again_at_once_and_then_ten_a_second() {
        let suspects = Suspects::new(60);
        let granted = |now| (0..1_000).filter(|_| suspects.may_ask_again(now)).count();
        assert_eq!([granted(SECOND), granted(SECOND), granted(2 * SECOND), granted(60 * SECOND)], [120, 0, 10, 120]);
    }
}
