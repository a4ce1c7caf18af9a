//! Outbound calls: processes of the machine ask the front over a private socket (docs/egress-protocol.md), and the
//! front has the connections, which are warm when a worker is born and stay when it goes. It never decides what is
//! asked, and never follows a redirect.
//!
//! Reading order: `serve` (the socket), `caller` (a process that asks, and what it may hold), `wanted` (what a call asks for), `call`, `sending` (the request's body),
//! `receiving` (the response), `keeping` (those that are kept), `refusing` (why there is no
//! response). The connections are those of `crates/client-pool`.

mod call;
mod caller;
mod keeping;
mod receiving;
mod refusing;
mod sending;
mod serve;
mod wanted;

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

pub use client_pool::{CallFigures, WithRights};
use client_pool::{Connect, Failure, HttpSettings, Limits, Places, Resolver, Trusts, Way};
use http::{request::Parts, uri::Scheme};
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

pub use self::serve::serve;
use self::{keeping::CallCache, sending::CallRequestBody, wanted::CallOptions};

/// Connections to one upstream, as calls that want the same see it.
type Origin = client_pool::Origin<CallRequestBody>;
/// A connection that one call has.
type Lease = client_pool::Lease<CallRequestBody>;

/// How often connections that nobody uses are looked for.
const SWEEP: Duration = Duration::from_secs(5);
/// How long a connection of HTTP/1.1 is kept without a call, and one of HTTP/2.
const KEEP: Duration = Duration::from_secs(60);
const KEEP_HTTP2: Duration = Duration::from_secs(300);
/// As Net::HTTP speaks it.
const HTTP: HttpSettings = HttpSettings {
    buffer: 256 << 10,
    max_fields: Some(1024),
    preserves_case: true,
    ends_cut_heads: true,
    reads_early_answers: false,
};
/// Upstreams in memory, as calls that want different things see them.
const MAX_ORIGINS: usize = 4096;
/// Bytes of what these want, certificates among them.
const MAX_WANTED: usize = 8 << 20;
/// Bytes of a host's name; DNS has none that is longer.
const MAX_HOST: usize = 255;

/// What calls need to know of the server that they are made in.
#[derive(Clone, Copy)]
pub struct Surroundings {
    pub clock: Clock,
    /// Resolves when the client of the exchange with this id has left, and never if it is not known.
    pub left: fn(String) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The clocks of responses that are kept.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Milliseconds for ages, of a clock that nobody sets.
    pub age: fn() -> u64,
    /// Milliseconds since the Unix epoch by the time of day.
    pub date: fn() -> u64,
}

/// What the calls of an account may take of the server, of all its sites together.
#[derive(Clone)]
pub struct Share {
    /// Connections of its processes.
    pub callers: Arc<Semaphore>,
    /// Connections to others.
    pub upstreams: Arc<Semaphore>,
    /// Bytes of heads that are larger than usual.
    pub heads: Arc<Semaphore>,
}

#[cfg(test)]
impl Share {
    fn for_tests(heads: usize) -> Share {
        let of = |places| Arc::new(Semaphore::new(places));
        Share { callers: of(9), upstreams: of(9), heads: of(heads) }
    }
}

/// What a site's owner allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Connections to each upstream at a time.
    pub connections: usize,
    /// Failures to connect in a row after which an upstream is left alone for a while; 0: never.
    pub breaker: u32,
    /// Public addresses only, for all calls.
    pub guard: bool,
    /// Addresses that the guard lets pass.
    pub guard_allow: Vec<IpNet>,
    /// Hosts that may be asked, `*.example.com` among them; empty: all.
    pub allow: Vec<String>,
    /// Hosts that may not.
    pub deny: Vec<String>,
    /// Calls that only read end when the client has left who they are made for.
    pub cancel: bool,
    /// Bytes of responses that are kept; 0: none are.
    pub cache: u64,
}

/// A site's outbound calls.
pub struct Egress {
    policy: RwLock<Arc<Policy>>,
    origins: Mutex<Origins>,
    resolver: Arc<Resolver>,
    trusts: Arc<Trusts>,
    /// Of its connections to others.
    places: Arc<Places>,
    share: Share,
    keeping: RwLock<Option<Arc<CallCache>>>,
    surroundings: Surroundings,
}

/// Upstreams, as calls see them that want the same.
#[derive(Default)]
struct Origins {
    known: HashMap<(Destination, Way, bool), Arc<Origin>>,
    /// What their keys take in memory.
    bytes: usize,
}

impl Origins {
    /// Whether one more that takes so many bytes may be known. Those that no call uses make room.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = |all: &Origins| all.known.len() < MAX_ORIGINS && all.bytes + bytes <= MAX_WANTED;
        if !fits(self) {
            self.known.retain(|_, origin| origin.close_unused());
            self.bytes = self.known.keys().map(|(_, way, _)| way.bytes()).sum();
        }
        fits(self)
    }
}

/// The outbound calls of all sites, for whoever tells of them.
#[derive(Default)]
pub struct Sites(Mutex<BTreeMap<String, Arc<Egress>>>);

impl Sites {
    pub fn put(&self, site: &str, egress: Arc<Egress>) {
        self.0.lock().insert(site.to_owned(), egress);
    }

    pub fn remove(&self, site: &str) {
        self.0.lock().remove(site);
    }

    /// By site, and by `host:port`.
    pub fn told(&self) -> Vec<(String, BTreeMap<String, CallFigures>)> {
        let sites = self.0.lock();
        sites.iter().map(|(site, egress)| (site.clone(), egress.told())).collect()
    }
}

/// Whom a call is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    https: bool,
    host: String,
    port: u16,
}

impl Destination {
    /// Of a target in absolute-form.
    fn of(head: &Parts) -> Result<Destination, Failure> {
        let nonsense = |why: &str| Err(Failure::Request(why.into()));
        let https = match head.uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) => return nonsense("the target is neither http nor https"),
            None => return nonsense("the target is not in absolute-form"),
        };
        let Some(authority) = head.uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return nonsense("the target has no host");
        };
        if authority.host().len() > MAX_HOST {
            return Err(Failure::Resolve("the name is too long".into()));
        }
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
        Ok(Destination { https, host, port })
    }
}

impl Egress {
    /// `rights`: those with which files are read that calls name. None: those of this process.
    pub fn new(policy: Policy, surroundings: Surroundings, share: Share, rights: Option<WithRights>) -> Arc<Egress> {
        Arc::new_cyclic(|egress: &Weak<Egress>| Egress {
            keeping: RwLock::new(keeping(&policy, surroundings.clock)),
            policy: RwLock::new(Arc::new(policy)),
            origins: Mutex::default(),
            resolver: Arc::default(),
            trusts: Arc::new(rights.map_or_else(Trusts::default, Trusts::with_rights)),
            places: Arc::new(Places::new(share.upstreams.clone(), {
                let egress = egress.clone();
                Box::new(move || egress.upgrade().iter().for_each(|egress| egress.close_unused()))
            })),
            share,
            surroundings,
        })
    }

    /// What the owner allows from now on.
    pub fn change(&self, policy: Policy) {
        if policy.cache != self.policy().cache {
            *self.keeping.write() = keeping(&policy, self.surroundings.clock);
        }
        *self.policy.write() = Arc::new(policy);
        *self.origins.lock() = Origins::default();
    }

    fn keeping(&self) -> Option<Arc<CallCache>> {
        self.keeping.read().clone()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.read().clone()
    }

    fn cancels(&self) -> bool {
        self.policy().cancel
    }

    /// Whether the owner allows calls to this host.
    fn may_ask(&self, host: &str) -> Result<(), Failure> {
        let policy = self.policy();
        let named = |list: &[String]| list.iter().any(|pattern| matches(pattern, host));
        let forbidden = named(&policy.deny) || !(policy.allow.is_empty() || named(&policy.allow));
        if forbidden {
            Err(Failure::Denied { address: None, message: format!("calls to {host} are not allowed here") })
        } else {
            Ok(())
        }
    }

    fn origin(&self, destination: Destination, wanted: &CallOptions) -> Result<Arc<Origin>, Failure> {
        let policy = self.policy();
        let guarded = wanted.guard || policy.guard;
        let mut origins = self.origins.lock();
        let key = (destination, wanted.way.clone(), guarded);
        if let Some(origin) = origins.known.get(&key) {
            return Ok(origin.clone());
        }
        let bytes = key.1.bytes();
        if !origins.has_room(bytes) {
            return Err(Failure::Full("calls for too many upstreams are under way".into()));
        }
        origins.bytes += bytes;
        let opening = Connect {
            https: key.0.https,
            host: key.0.host.clone(),
            port: key.0.port,
            socket: None,
            way: wanted.way.clone(),
            guard: guarded.then(|| policy.guard_allow.clone()),
            resolver: self.resolver.clone(),
            trusts: self.trusts.clone(),
            http: HTTP,
            places: Some(self.places.clone()),
        };
        let limits = Limits {
            connections: policy.connections.max(1),
            breaker: policy.breaker,
            idle: usize::MAX,
            keep: KEEP,
            keep_http2: KEEP_HTTP2,
            sweeps: false,
        };
        Ok(origins.known.entry(key).or_insert(Origin::new(opening, limits)).clone())
    }

    /// What is counted of each upstream, by `host:port`.
    pub fn told(&self) -> BTreeMap<String, CallFigures> {
        let origins = self.origins.lock();
        let mut all = BTreeMap::new();
        for ((to, ..), origin) in &origins.known {
            let told: &mut CallFigures = all.entry(format!("{}:{}", to.host, to.port)).or_default();
            told.add(&origin.figures.told());
        }
        all
    }

    /// Closes what nobody has used for long.
    fn sweep(&self) {
        self.origins.lock().known.values().for_each(|origin| {
            origin.sweep();
        });
    }

    /// Closes what nobody uses now.
    fn close_unused(&self) {
        self.origins.lock().known.values().for_each(|origin| {
            origin.close_unused();
        });
    }
}

fn keeping(policy: &Policy, clock: Clock) -> Option<Arc<CallCache>> {
    (policy.cache > 0).then(|| CallCache::new(policy.cache, clock))
}

/// Whether a host is meant by a name of a list: the same name, or by `*.` one below it.
fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => {
            let (parent, host) = (parent.as_bytes(), host.as_bytes());
            let Some(at) = host.len().checked_sub(parent.len()) else { return false };
            host[at..].eq_ignore_ascii_case(parent) && at > 1 && host[at - 1] == b'.'
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_in_lists() {
        assert!(matches("api.example", "API.example") && !matches("api.example", "x.api.example"));
        assert!(matches("*.example", "a.b.example") && matches("*.example", "a.EXAMPLE"));
        assert!(
            !matches("*.example", "example") && !matches("*.example", ".example") && !matches("*.example", "aexample")
        );
    }

    #[test]
    fn who_may_be_asked() {
        let egress = |allow: &[&str], deny: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            let left = |_| Box::pin(std::future::pending()) as Pin<Box<dyn Future<Output = ()> + Send>>;
            let surroundings = Surroundings { clock: Clock { age: || 0, date: || 0 }, left };
            let policy = Policy { allow: list(allow), deny: list(deny), ..Policy::default() };
            Egress::new(policy, surroundings, Share::for_tests(9), None)
        };
        assert!(egress(&[], &[]).may_ask("x").is_ok());
        assert!(egress(&["x"], &[]).may_ask("x").is_ok() && egress(&["x"], &[]).may_ask("y").is_err());
        assert!(
            egress(&["*.x"], &["b.x"]).may_ask("a.x").is_ok() && egress(&["*.x"], &["b.x"]).may_ask("b.x").is_err()
        );
    }

    #[test]
    fn what_calls_want_has_a_bound() {
        let left = |_| Box::pin(std::future::pending()) as Pin<Box<dyn Future<Output = ()> + Send>>;
        let surroundings = Surroundings { clock: Clock { age: || 0, date: || 0 }, left };
        let egress = Egress::new(Policy::default(), surroundings, Share::for_tests(9), None);
        let to = |host: String| Destination { https: true, host, port: 443 };
        let wanting = |nth: usize| {
            let mut wanted = CallOptions::default();
            wanted.way.trust.ca = [&nth.to_be_bytes()[..], &[0; 150 << 10]].concat();
            wanted
        };
        for nth in 0..200 {
            assert!(egress.origin(to("one".into()), &wanting(nth)).is_ok());
            assert!(egress.origins.lock().bytes <= MAX_WANTED);
        }
        let held = egress.origins.lock().known.keys().map(|(_, way, _)| way.bytes()).sum::<usize>();
        assert_eq!(held, egress.origins.lock().bytes);
        for nth in 0..MAX_ORIGINS + 9 {
            assert!(egress.origin(to(nth.to_string()), &CallOptions::default()).is_ok());
        }
        assert!(egress.origins.lock().known.len() <= MAX_ORIGINS);
        egress.change(Policy::default());
        assert_eq!(egress.origins.lock().bytes, 0);
    }

    #[test]
    fn a_target_says_whom() {
        let of = |target: &str| {
            let head = http::Request::builder().uri(target).body(()).unwrap().into_parts().0;
            Destination::of(&head)
        };
        let to = of("https://API.example/x").unwrap();
        assert_eq!((to.https, to.host.as_str(), to.port), (true, "api.example", 443));
        assert_eq!(of("http://[::1]:81").unwrap().port, 81);
        assert!(matches!(of("/x"), Err(Failure::Request(_))));
        assert!(matches!(of("ftp://x/"), Err(Failure::Request(_))));
        assert!(matches!(of("x:1"), Err(Failure::Request(_))));
        assert!(matches!(of(&format!("http://{}/", "x".repeat(MAX_HOST + 1))), Err(Failure::Resolve(_))));
    }
}
