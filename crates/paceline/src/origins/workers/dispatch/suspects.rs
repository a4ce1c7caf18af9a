//! Requests that were in hand when workers died. One may be asked again once; what two workers have died with is
//! refused for a while, and a site's requests are not all given a second time when its workers die one after another.
//! It never knows why a worker died. Pure: time is an argument.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hash, Hasher, RandomState},
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use http::{header, request::Parts};
use parking_lot::{Mutex, MutexGuard};
use path_patterns::route::label;

use crate::support::{admission, clock::Micros};

/// So many workers die with the very same request before it is refused ...
const DEATHS: u32 = 2;
/// ... and so many with requests for the same page that differ in their fields, as those of different visitors do.
const PAGE_DEATHS: u32 = 4;
/// So many with requests of a route, without an answer of it in between, before it is not asked a second time while workers die.
const TAINTED: u32 = 3;
/// So many requests of an address kill each the worker that they have been given a second time, with nothing else in its hands, before
/// nothing of that address is asked a second time while workers die, but for routes that are answered and that none has killed by
/// itself on: who shares the address, and dies beside such a request, has no part in it.
const PROVEN: u32 = 3;
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
    /// Its client.
    address: Option<IpAddr>,
}

/// What a worker's death says of a request that it had in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It was the first worker that died with it, with whatever else.
    First,
    /// Another had died with it before, and this one had others in hand, too: nothing that the first did not say.
    Beside,
    /// Another had died with it before, and this one had nothing else in hand.
    Alone,
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

/// Of a route. An answer removes it, or the deaths: what dies beside another request, or is killed from outside, is answered in between.
struct RouteDeaths {
    unanswered: u32,
    last: Micros,
    /// A request for it was answered while addresses were known.
    is_answered: bool,
    /// One has killed by itself.
    is_proven: bool,
}

/// Of an address. No answer removes it: who kills by some requests may ask others that are answered.
struct AddressDeaths {
    proven: u32,
    last: Micros,
}

struct Inner {
    entries: HashMap<u64, Entry>,
    routes: HashMap<u64, RouteDeaths>,
    addresses: HashMap<IpAddr, AddressDeaths>,
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
            addresses: HashMap::new(),
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

    /// What the request is known by. `body`: what is in memory of it; `client`: its address, where there is one.
    pub fn fingerprint(&self, head: &Parts, body: &[u8], client: Option<IpAddr>) -> Fingerprint {
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
        let address = client.map(admission::client);
        Fingerprint { request: hasher.finish(), page, route: of_route.finish(), address }
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
    pub fn died(&self, request: Fingerprint, evidence: Evidence, given: Micros, now: Micros) {
        let alone = evidence == Evidence::Alone;
        let mut inner = self.lock();
        inner.addresses.retain(|_, address| now.saturating_sub(address.last) < FORGOTTEN);
        if let Some(address) = request.address.filter(|_| alone) {
            make_room(&mut inner.addresses, &address, |address| address.last);
            let deaths = inner.addresses.entry(address).or_insert(AddressDeaths { proven: 0, last: 0 });
            *deaths = AddressDeaths { proven: deaths.proven + 1, last: now };
        }
        inner.entries.retain(|_, entry| now.saturating_sub(entry.refused_until().unwrap_or(entry.last)) < FORGOTTEN);
        if inner.deaths.back().is_none_or(|last| given > *last) {
            inner.deaths.push_back(now);
            if inner.deaths.len() > self.most_deaths + 1 {
                inner.deaths.pop_front();
            }
        }
        inner.routes.retain(|_, route| now.saturating_sub(route.last) < FORGOTTEN);
        make_room(&mut inner.routes, &request.route, |route| route.last);
        let new = RouteDeaths { unanswered: 0, last: 0, is_answered: false, is_proven: false };
        let route = inner.routes.entry(request.route).or_insert(new);
        route.is_proven |= alone;
        if route.unanswered == 0 || given > route.last {
            (route.unanswered, route.last) = (route.unanswered + 1, now);
        }
        let known = [(request.request, DEATHS), (request.page, PAGE_DEATHS)];
        for (key, limit) in known.into_iter().filter(|_| evidence != Evidence::Beside) {
            make_room(&mut inner.entries, &key, |entry| entry.last);
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
        let inner = &mut *inner;
        // Its time stands for now: it is looked at for minutes.
        inner.addresses.retain(|_, address| given.saturating_sub(address.last) < FORGOTTEN);
        if inner.addresses.is_empty() {
            inner.routes.retain(|_, route| !route.is_answered);
            inner.routes.remove(&request.route);
        } else {
            make_room(&mut inner.routes, &request.route, |route| route.last);
            let new = RouteDeaths { unanswered: 0, last: given, is_answered: true, is_proven: false };
            let route = inner.routes.entry(request.route).or_insert(new);
            (route.unanswered, route.is_answered) = (0, true);
        }
        for key in [request.request, request.page] {
            if inner.entries.get(&key).is_some_and(|entry| given > entry.last) {
                inner.entries.remove(&key);
            }
        }
        let any = !inner.entries.is_empty() || !inner.routes.is_empty() || !inner.addresses.is_empty();
        self.any.store(any, Relaxed);
    }

    /// Whether the request may be asked again; if so, it counts. While workers die one after another, and others of its route were in
    /// hand, or others of its address have killed by themselves, a second try would only take another worker from those that are left.
    pub fn may_ask_again(&self, request: Fingerprint, now: Micros) -> bool {
        let mut inner = self.lock();
        let lately = inner.deaths.iter().filter(|at| now.saturating_sub(**at) < LATELY).count();
        let route = inner.routes.get(&request.route);
        let is_of_route = route.is_some_and(|route| route.unanswered >= TAINTED);
        let is_well = route.is_some_and(|route| route.is_answered && !route.is_proven);
        let address = request.address.and_then(|address| inner.addresses.get(&address));
        let is_of_address = !is_well && address.is_some_and(|address| address.proven >= PROVEN);
        if lately > self.most_deaths && (is_of_route || is_of_address) {
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

/// Forgets the oldest, if the key is new and there are too many.
fn make_room<K: Copy + Eq + Hash, V>(all: &mut HashMap<K, V>, key: &K, last: impl Fn(&V) -> Micros) {
    if !all.contains_key(key) && all.len() >= MAX {
        let oldest = all.iter().min_by_key(|(_, one)| last(one)).map(|(key, _)| *key);
        oldest.and_then(|oldest| all.remove(&oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::{Evidence::*, *};

    const SECOND: Micros = 1_000_000;

    fn request(suspects: &Suspects, target: &str, cookie: &str) -> Fingerprint {
        let request = http::Request::get(target).header("host", "a.test").header("cookie", cookie).body(()).unwrap();
        suspects.fingerprint(&request.into_parts().0, b"", None)
    }

    fn to(suspects: &Suspects, target: &str) -> Fingerprint {
        let request = http::Request::get(target).header("host", "a.test").body(()).unwrap();
        suspects.fingerprint(&request.into_parts().0, b"", None)
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
            suspects.died(crash, First, now, now + 1);
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
        suspects.died(page, First, 10, 20);
        suspects.answered(page, 15);
        suspects.died(page, First, 30, 40);
        assert!(suspects.refuses(page, 50).is_some());
        suspects.answered(page, 60);
        assert_eq!((suspects.refuses(page, 70), suspects.any()), (None, false));
    }

    #[test]
    fn a_second_try_that_did_not_stay_alone_says_nothing_of_the_request_or_its_address() {
        let suspects = Suspects::new(2, 10);
        for nth in 1..20 {
            let now = nth * SECOND;
            suspects.died(to(&suspects, &format!("/crash?{nth}")), First, now, now + 1);
            let slow = from(&suspects, "192.0.2.1", "/slow-x");
            suspects.died(slow, First, now, now + 1);
            suspects.died(slow, Beside, now + 2, now + 3);
            assert_eq!((suspects.refuses(slow, now + 4), suspects.may_ask_again(slow, now + 4)), (None, true), "{nth}");
            suspects.answered(slow, now + 5);
        }
    }

    #[test]
    fn workers_that_die_together_are_one_death() {
        let suspects = Suspects::new(1, 1);
        let page = request(&suspects, "/", "");
        for given in 1..9 {
            suspects.died(page, First, given, 20 + given);
        }
        assert_eq!(suspects.refuses(page, 30), None);
    }

    #[test]
    fn one_visitors_request_does_not_take_a_page_from_others_before_theirs_have_killed_as_well() {
        let suspects = Suspects::new(1, 1);
        let [one, two, three] = ["a=1", "a=2", "a=3"].map(|cookie| request(&suspects, "/report", cookie));
        for given in [10, 20] {
            suspects.died(one, First, given, given + 1);
        }
        assert_eq!([one, two].map(|one| suspects.refuses(one, 25).is_some()), [true, false]);
        for given in [30, 40] {
            suspects.died(two, First, given, given + 1);
        }
        assert!(suspects.refuses(three, 45).is_some());
        let other_host = http::Request::get("/report").header("host", "b.test").body(()).unwrap();
        assert_eq!(suspects.refuses(suspects.fingerprint(&other_host.into_parts().0, b"", None), 45), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let suspects = Suspects::new(1, 1);
        for given in 1..3_000 {
            suspects.died(request(&suspects, &format!("/{given}"), ""), First, given, given + 1);
        }
        assert_eq!(suspects.lock().entries.len(), MAX);
        suspects.died(request(&suspects, "/", ""), First, 2 * FORGOTTEN, 3 * FORGOTTEN);
        let inner = suspects.lock();
        assert_eq!((inner.entries.len(), inner.routes.len()), (2, 1));
    }

    #[test]
    fn nothing_is_asked_again_while_workers_die_one_after_another() {
        let suspects = Suspects::new(2, 10);
        let (crash, fine) = (to(&suspects, "/crash?q"), to(&suspects, "/fine"));
        for nth in 1..=5 {
            assert!(suspects.may_ask_again(crash, nth * SECOND), "{nth}");
            suspects.died(to(&suspects, &format!("/crash?{nth}")), First, nth * SECOND, nth * SECOND + 1);
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
            suspects.died(to(&suspects, &format!("/crash?{nth}")), First, now, now + 1);
            suspects.died(well, First, now, now + 1);
            assert!(suspects.may_ask_again(well, now + 2), "{nth}");
            suspects.answered(well, now + 3);
        }
    }

    #[test]
    fn what_is_killed_from_outside_is_asked_again() {
        let suspects = Suspects::new(2, 10);
        for nth in 1..100 {
            let page = to(&suspects, &format!("/?{nth}"));
            suspects.died(page, First, nth * SECOND, nth * SECOND + 1);
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

    fn from(suspects: &Suspects, address: &str, target: &str) -> Fingerprint {
        Fingerprint { address: Some(admission::client(address.parse().unwrap())), ..to(suspects, target) }
    }

    /// A request that kills each worker that gets it; whether it has killed two.
    fn kills(suspects: &Suspects, request: Fingerprint, now: Micros) -> bool {
        suspects.died(request, First, now, now + 1);
        let again = suspects.may_ask_again(request, now + 2);
        if again {
            suspects.died(request, Alone, now + 3, now + 4);
        }
        again
    }

    #[test]
    fn an_address_whose_requests_kill_by_themselves_gets_no_second_try_on_any_route() {
        let suspects = Suspects::new(2, 10);
        let tried: Vec<bool> = (1..=8)
            .map(|nth| {
                let crash = from(&suspects, "2001:db8::7", &format!("/page-{nth}x"));
                let twice = kills(&suspects, crash, nth * SECOND);
                // Others of its route are answered, and its own.
                suspects.answered(crash, nth * SECOND + 9);
                twice
            })
            .collect();
        assert_eq!(tried, [true, true, true, false, false, false, false, false]);
        let now = 8 * SECOND + 100;
        let neighbour = from(&suspects, "2001:db8:0:1::7", "/page-9x");
        assert!(!suspects.may_ask_again(from(&suspects, "2001:db8::8", "/page-9x"), now), "it has the whole /64");
        assert!(suspects.may_ask_again(neighbour, now) && suspects.may_ask_again(to(&suspects, "/page-9x"), now));
        assert!(suspects.may_ask_again(from(&suspects, "2001:db8::7", "/"), now + LATELY), "workers die no more");
        let well = from(&suspects, "2001:db8::7", "/well");
        suspects.answered(well, now);
        suspects.died(well, First, now + 1, now + 2);
        assert!(suspects.may_ask_again(well, now + 3), "who shares the address and dies beside another");
    }

    #[test]
    fn who_only_dies_beside_others_keeps_the_second_try_at_any_address() {
        let suspects = Suspects::new(2, 10);
        for nth in 1..100 {
            let now = nth * SECOND / 10;
            suspects.died(to(&suspects, &format!("/crash?{nth}")), First, now, now + 1);
            let beside = from(&suspects, "192.0.2.1", &format!("/page-{nth}x"));
            suspects.died(beside, First, now, now + 1);
            assert!(suspects.may_ask_again(beside, now + 2), "{nth}");
        }
    }

    #[test]
    fn addresses_that_are_remembered_are_bounded_and_forgotten() {
        let suspects = Suspects::new(2, 10);
        for nth in 1..3_000_u64 {
            let address = format!("10.0.{}.{}", nth / 250, nth % 250);
            suspects.died(from(&suspects, &address, "/"), Alone, nth, nth + 1);
        }
        assert_eq!(suspects.lock().addresses.len(), MAX);
        let page = to(&suspects, "/");
        suspects.answered(page, 3_000);
        suspects.answered(page, 2 * FORGOTTEN);
        let inner = suspects.lock();
        assert_eq!((inner.addresses.len(), inner.routes.len()), (0, 0));
    }
}
