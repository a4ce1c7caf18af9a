//! The hosts of an upstream: each with its connections, and the balancer that chooses between them. Which host is the best
//! is `crates/balance`'s to decide. It never sends a request.

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc, OnceLock,
    },
    time::Duration,
};

use balance::{Balancer, HostId, HostReport, Request, Rules, Standing};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::AbortHandle};

use super::{
    address::Address,
    failure::Failure,
    outgoing::Progress,
    pool::{Lease, Pool, UpstreamTls},
    sticky::Tokens,
    targets::{Service, Target, Targets},
};
use crate::{
    observe::log::{Log, Name},
    support::clock::{self, Micros},
};

/// A server that gets requests.
pub struct Host {
    pub id: HostId,
    pub address: Address,
    /// As it stands in the log.
    pub name: Arc<str>,
    pub pool: Pool,
    /// What stands for it in a visitor's cookie. None: visitors don't stay with their host.
    pub token: Option<String>,
    /// The entry of `upstream` that it comes from.
    target: usize,
}

struct State {
    balancer: Balancer,
    hosts: Vec<Arc<Host>>,
    /// Those that are none any more, while they finish their last requests.
    leaving: Vec<Arc<Host>>,
    /// Begins to check a host. None: they are not checked.
    check: Option<BeginCheck>,
    checks: HashMap<HostId, Task>,
    /// Resolve the names.
    look_ups: Vec<Task>,
}

/// Starts the task that checks a host.
type BeginCheck = Box<dyn Fn(&Arc<Host>) -> AbortHandle + Send>;

/// A task that ends with this.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl State {
    fn add(&mut self, host: NewHost, came: Option<Micros>) {
        let NewHost { target, address, name, pool, token } = host;
        let id = self.balancer.add(came);
        let host = Arc::new(Host { id, address, name, pool, token, target });
        if let Some(check) = &self.check {
            self.checks.insert(id, Task(check(&host)));
        }
        self.hosts.push(host);
    }

    fn remove(&mut self, host: &Arc<Host>) {
        self.balancer.remove(host.id);
        self.checks.remove(&host.id);
        self.hosts.retain(|one| one.id != host.id);
        self.leaving.push(host.clone());
    }

    /// Forgets those that have ended their last request.
    fn prune(&mut self) {
        let (balancer, now) = (&self.balancer, clock::now());
        self.leaving.retain(|host| balancer.standing(host.id, now).is_some());
    }
}

/// A host that has no number yet.
struct NewHost {
    target: usize,
    address: Address,
    name: Arc<str>,
    pool: Pool,
    token: Option<String>,
}

/// Why no host was chosen.
enum Unchosen {
    /// All were tried.
    Tried,
    /// There is none: no name has been resolved yet.
    NoHost,
}

/// The hosts of an upstream.
pub struct Hosts {
    pub targets: Targets,
    tls: UpstreamTls,
    connect_timeout: Duration,
    /// None: visitors don't stay with their host.
    tokens: Option<Tokens>,
    state: Mutex<State>,
    /// A name has been resolved.
    found: Notify,
    /// Where it is said that a host is out, or back.
    log: OnceLock<Log>,
    all_out: AtomicBool,
}

impl Hosts {
    pub fn new(targets: Targets, tls: UpstreamTls, connect_timeout: Duration, tokens: Option<Tokens>) -> Hosts {
        // Fronts that start together are not to choose alike.
        let seed = clock::now() ^ (u64::from(std::process::id()) << 32);
        let balancer = Balancer::new(Rules::default(), seed);
        let (check, checks, look_ups) = (None, HashMap::new(), Vec::new());
        let state = State { balancer, hosts: Vec::new(), leaving: Vec::new(), check, checks, look_ups };
        let (state, found, log) = (Mutex::new(state), Notify::new(), OnceLock::new());
        let all_out = AtomicBool::new(false);
        let hosts = Hosts { targets, tls, connect_timeout, tokens, state, found, log, all_out };
        for (index, target) in hosts.targets.all().iter().enumerate() {
            if let Target::Host(address) = target {
                let host = hosts.new_host(index, address.clone(), hosts.tls.clone());
                hosts.state.lock().add(host, None);
            }
        }
        hosts
    }

    /// Whether visitors stay with their host.
    pub fn is_sticky(&self) -> bool {
        self.tokens.is_some()
    }

    /// Says from now on what becomes of the hosts.
    pub fn say_in(&self, log: Log) {
        let _ = self.log.set(log);
    }

    pub fn say(&self, text: String) {
        self.log.get().into_iter().for_each(|log| log.event(Name::Upstream, text.clone()));
    }

    fn new_host(&self, target: usize, address: Address, tls: UpstreamTls) -> NewHost {
        let name: Arc<str> = address.to_string().into();
        let token = self.tokens.as_ref().map(|tokens| tokens.of(&name));
        let pool = Pool::new(address.clone(), tls, self.connect_timeout);
        NewHost { target, address, name, pool, token }
    }

    /// Has each host checked from now on for as long as it is one, by the task that this starts.
    pub fn check_each(&self, begin: impl Fn(&Arc<Host>) -> AbortHandle + Send + 'static) {
        let mut state = self.state.lock();
        state.checks = state.hosts.iter().map(|host| (host.id, Task(begin(host)))).collect();
        state.check = Some(Box::new(begin));
    }

    /// Takes a task that resolves a name.
    pub fn resolve_by(&self, task: AbortHandle) {
        self.state.lock().look_ups.push(Task(task));
    }

    /// Ends the tasks that check hosts and resolve names. Requests that hosts have go on.
    pub fn unwatch(&self) {
        let mut state = self.state.lock();
        state.check = None;
        state.checks.clear();
        state.look_ups.clear();
    }

    /// Those that may get requests.
    #[cfg(test)]
    pub fn all(&self) -> Vec<Arc<Host>> {
        self.state.lock().hosts.clone()
    }

    /// How they stand, those among them that finish their last requests.
    pub fn report(&self) -> Vec<(Arc<str>, HostReport)> {
        let mut state = self.state.lock();
        let reports = state.balancer.report(clock::now());
        state.prune();
        let named = |report: HostReport| {
            let host = state.hosts.iter().chain(&state.leaving).find(|host| host.id == report.id)?;
            Some((host.name.clone(), report))
        };
        reports.into_iter().filter_map(named).collect()
    }

    /// A host for a request, counted as pending there. `token`: the host that its visitor was with. None: there is none that
    /// was not tried.
    pub async fn choose(
        self: &Arc<Self>,
        tried: &[HostId],
        token: Option<&str>,
        is_tunnel: bool,
    ) -> Option<PendingRequest> {
        match self.choose_now(tried, token, is_tunnel) {
            Ok(pending) => return Some(pending),
            Err(Unchosen::Tried) => return None,
            Err(Unchosen::NoHost) => {}
        }
        let until = tokio::time::Instant::now() + self.connect_timeout;
        loop {
            let found = self.found.notified();
            tokio::pin!(found);
            found.as_mut().enable();
            match self.choose_now(tried, token, is_tunnel) {
                Ok(pending) => return Some(pending),
                Err(Unchosen::Tried) => return None,
                Err(Unchosen::NoHost) => {}
            }
            tokio::time::timeout_at(until, found).await.ok()?;
        }
    }

    fn choose_now(
        self: &Arc<Self>,
        tried: &[HostId],
        token: Option<&str>,
        is_tunnel: bool,
    ) -> Result<PendingRequest, Unchosen> {
        let began = clock::now();
        let mut state = self.state.lock();
        let of_visitor = |token: &str| state.hosts.iter().find(|host| host.token.as_deref() == Some(token));
        let prefers = token.and_then(of_visitor).map(|host| host.id);
        let id = state.balancer.choose(began, Request { tried, prefers, is_tunnel });
        let Some(host) = state.hosts.iter().find(|host| Some(host.id) == id).cloned() else {
            let is_there_none = tried.is_empty() && state.hosts.is_empty();
            return Err(if is_there_none { Unchosen::NoHost } else { Unchosen::Tried });
        };
        state.balancer.begin(host.id);
        drop(state);
        Ok(PendingRequest { hosts: self.clone(), host, began, is_tunnel: false })
    }

    /// Why there is no host at all.
    pub fn none(&self) -> Failure {
        Failure::Unreachable {
            upstream: self.targets.to_string(),
            why: "the name has no address".into(),
            is_local: false,
        }
    }

    /// A host has failed a request that it got at `began`.
    pub fn failed(&self, host: &Host, began: Micros, why: &str) {
        let mut state = self.state.lock();
        let is_out = state.balancer.failed(host.id, began, clock::now());
        drop(state);
        if is_out {
            self.say(format!(
                "upstream {} gets no requests for a while: it failed several in a row, the last one: {why}",
                host.name
            ));
            self.look();
        }
    }

    fn answered(&self, host: &Host, began: Micros, is_typical: bool) {
        let mut state = self.state.lock();
        let now = clock::now();
        let is_back = state.balancer.answered(host.id, began, now, is_typical);
        let standing = state.balancer.standing(host.id, now);
        drop(state);
        if is_back {
            self.say(format!("upstream {} answers, {}", host.name, and_so(standing)));
            self.look();
        }
    }

    /// Takes the result of a health check. `failure`: what was wrong, if it has not passed.
    pub fn checked(&self, host: &Host, failure: Option<&str>) {
        let mut state = self.state.lock();
        let now = clock::now();
        let changed = state.balancer.checked(host.id, now, failure.is_none());
        let standing = state.balancer.standing(host.id, now);
        drop(state);
        match (changed, failure) {
            (Some(false), Some(why)) => {
                self.say(format!("upstream {} gets no requests: its health check failed: {why}", host.name));
            }
            (Some(_), _) => self.say(format!("upstream {} passes its health check, {}", host.name, and_so(standing))),
            (None, _) => return,
        }
        self.look();
    }

    /// Says when no host is in any more, which means that all are.
    fn look(&self) {
        let state = self.state.lock();
        let all_out = state.balancer.is_everything_out(clock::now());
        let were_all_out = self.all_out.swap(all_out, Relaxed);
        drop(state);
        if all_out && !were_all_out {
            self.say(format!("all hosts of upstream {} are out, so all get requests", self.targets));
        }
    }

    /// Makes the hosts of a name those that were found now.
    pub fn settle(&self, target: usize, service: &Service, found: &[Address]) {
        let tls = UpstreamTls {
            name: self.tls.name.clone().or_else(|| Some(service.name.clone())),
            ca_file: self.tls.ca_file.clone(),
        };
        // Under one lock: a request must not see the name without addresses.
        let mut state = self.state.lock();
        let known: Vec<_> = state.hosts.iter().filter(|host| host.target == target).cloned().collect();
        let (came, gone) = changes(&known, found);
        gone.iter().for_each(|host| state.remove(host));
        state.prune();
        // The first ones have nobody to learn from, and nobody who carries their share meanwhile.
        let since = (!known.is_empty()).then(clock::now);
        for address in &came {
            state.add(self.new_host(target, address.clone(), tls.clone()), since);
        }
        drop(state);
        self.found.notify_waiters();
        if since.is_some() {
            gone.iter().for_each(|host| self.say(format!("upstream {}: {} has gone", service.name, host.name)));
            came.iter().for_each(|address| self.say(format!("upstream {}: {address} has come", service.name)));
            self.look();
        }
    }
}

/// What a sign of life leads to.
fn and_so(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Failing) => "but gets no requests: its health check fails",
        Some(Standing::Out) => "but gets no requests yet: it failed several in a row",
        _ => "and gets requests again",
    }
}

/// The addresses that are new, and the hosts that are none any more.
fn changes(known: &[Arc<Host>], found: &[Address]) -> (Vec<Address>, Vec<Arc<Host>>) {
    let mut came: Vec<Address> = Vec::new();
    for address in found {
        if !came.contains(address) && !known.iter().any(|host| host.address == *address) {
            came.push(address.clone());
        }
    }
    let gone = known.iter().filter(|host| !found.contains(&host.address)).cloned().collect();
    (came, gone)
}

/// A request that a host has, for as long as this lives.
pub struct PendingRequest {
    hosts: Arc<Hosts>,
    pub host: Arc<Host>,
    /// When the host got it, or else when the host was chosen.
    pub began: Micros,
    is_tunnel: bool,
}

impl PendingRequest {
    /// The connection is there: from now on the host is waited for.
    pub fn sent(&mut self) {
        self.began = clock::now();
    }

    /// The head of the answer has come. `is_whole`: the host had the whole request at once.
    pub fn answered(&self, status: StatusCode, is_whole: bool) {
        match status {
            // Said by a gateway of what is behind it, or by a server that can't.
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                self.failed(&format!("status {}", status.as_u16()));
            }
            // An error is often made fast, which must not draw more requests.
            _ => self.hosts.answered(&self.host, self.began, is_whole && !status.is_server_error()),
        }
    }

    pub fn failed(&self, why: &str) {
        self.hosts.failed(&self.host, self.began, why);
    }

    /// There was no connection. That the server has no descriptor or port left says nothing about the host.
    pub fn unreachable(&self, failure: &Failure) {
        if !failure.is_local() {
            self.failed(&failure.words());
        }
    }

    /// It goes on as a WebSocket or another protocol.
    pub fn becomes_tunnel(&mut self) {
        self.is_tunnel = true;
        self.hosts.state.lock().balancer.tunnel(self.host.id);
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.hosts.state.lock().balancer.end(self.host.id, self.is_tunnel);
    }
}

/// A connection, and the request on it.
pub struct HostLease {
    pub lease: Lease,
    pub pending: PendingRequest,
    pub progress: Progress,
}

impl HostLease {
    /// The response is complete. `keep`: for how long the host says that it keeps the connection.
    pub fn give_back(self, keep: Option<Duration>) {
        self.lease.give_back(keep);
    }

    /// The response broke off. That is no fault of the host's while the client has not sent all of its request.
    pub fn failed(self, why: &str) {
        if !self.progress.is_up_to_client() {
            self.pending.failed(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(texts: &[&str]) -> Arc<Hosts> {
        let targets = Targets::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap();
        Arc::new(Hosts::new(targets, UpstreamTls::default(), Duration::from_millis(10), Some(Tokens::with(b"key"))))
    }

    fn service() -> Service {
        Service { https: false, name: "app.internal".into(), port: 3000 }
    }

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn names(hosts: &Hosts) -> Vec<String> {
        hosts.report().iter().map(|(name, report)| format!("{name} {}", report.standing.as_str())).collect()
    }

    #[tokio::test]
    async fn hosts_of_a_name_come_and_go() {
        let hosts = hosts(&["http://10.0.0.9:1", "dns:app.internal:3000"]);
        hosts.settle(1, &service(), &[address("http://10.0.0.1:3000"), address("http://[fd00::1]:3000")]);
        assert_eq!(names(&hosts), ["http://10.0.0.9:1 up", "http://10.0.0.1:3000 up", "http://[fd00::1]:3000 up"]);
        let tried: Vec<_> = hosts.all().iter().map(|host| host.id).filter(|id| *id != hosts.all()[1].id).collect();
        let pending = hosts.choose(&tried, None, false).await.expect("10.0.0.1 is left");
        assert_eq!(&*pending.host.name, "http://10.0.0.1:3000");
        // An address that is found twice is one host. A host that has gone finishes its request; a new one starts with a small share.
        let found = ["http://10.0.0.2:3000", "http://[fd00::1]:3000", "http://10.0.0.2:3000"].map(address);
        hosts.settle(1, &service(), &found);
        let now = names(&hosts);
        assert_eq!(
            now,
            [
                "http://10.0.0.9:1 up",
                "http://10.0.0.1:3000 leaving",
                "http://[fd00::1]:3000 up",
                "http://10.0.0.2:3000 starting"
            ]
        );
        drop(pending);
        // It is forgotten also if nobody looks.
        hosts.settle(1, &service(), &found);
        assert_eq!(hosts.state.lock().leaving.len(), 0);
        assert_eq!(names(&hosts).len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_addresses_is_waited_for() {
        let hosts = hosts(&["dns:app.internal:3000"]);
        assert!(hosts.choose(&[], None, false).await.is_none(), "nobody resolves it");
        let waiting = tokio::spawn({
            let hosts = hosts.clone();
            async move { hosts.choose(&[], None, false).await.map(|pending| pending.host.name.clone()) }
        });
        tokio::task::yield_now().await;
        hosts.settle(0, &service(), &[address("http://10.0.0.1:3000")]);
        assert_eq!(waiting.await.unwrap().as_deref(), Some("http://10.0.0.1:3000"));
    }

    #[tokio::test]
    async fn answers_of_a_gateway_without_a_server_are_failures() {
        let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
        let first = hosts.all()[0].id;
        let other = hosts.all()[1].id;
        for status in [500, 502, 503, 404, 503, 503, 504] {
            let pending = hosts.choose(&[other], None, false).await.unwrap();
            assert_eq!(pending.host.id, first);
            pending.answered(StatusCode::from_u16(status).unwrap(), true);
        }
        assert_eq!(names(&hosts), ["http://10.0.0.1:1 out", "http://10.0.0.2:1 up"]);
        assert_eq!(hosts.report()[0].1.failures, 5);
    }

    #[tokio::test]
    async fn a_visitor_is_known_by_a_token() {
        let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
        let second = hosts.all()[1].clone();
        for _ in 0..20 {
            let pending = hosts.choose(&[], second.token.as_deref(), false).await.unwrap();
            assert_eq!(pending.host.id, second.id);
        }
        assert!(hosts.choose(&[], Some("made-up"), false).await.is_some());
        (0..3).for_each(|_| hosts.failed(&second, clock::now(), "down"));
        let pending = hosts.choose(&[], second.token.as_deref(), false).await.unwrap();
        assert_ne!(pending.host.id, second.id);
    }

    #[tokio::test]
    async fn a_websocket_counts_until_it_ends() {
        let hosts = hosts(&["http://10.0.0.1:1"]);
        let mut pending = hosts.choose(&[], None, true).await.unwrap();
        pending.becomes_tunnel();
        assert_eq!(hosts.report()[0].1.pending, 1);
        drop(pending);
        assert_eq!(hosts.report()[0].1.pending, 0);
    }

    #[tokio::test]
    async fn each_host_is_checked_while_it_is_one() {
        let hosts = hosts(&["http://10.0.0.9:1", "dns:app.internal:3000"]);
        let begun = Arc::new(Mutex::new(Vec::new()));
        let noted = begun.clone();
        hosts.check_each(move |host| {
            let task = tokio::spawn(std::future::pending::<()>());
            noted.lock().push((host.name.to_string(), task.abort_handle()));
            task.abort_handle()
        });
        let running = || async {
            // Aborted tasks end when the event loop gets to them.
            tokio::task::yield_now().await;
            let all = begun.lock();
            all.iter().filter(|(_, task)| !task.is_finished()).map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(running().await, ["http://10.0.0.9:1"]);
        hosts.settle(1, &service(), &["http://10.0.0.1:3000", "http://10.0.0.2:3000"].map(address));
        assert_eq!(running().await.len(), 3);
        let kept: Vec<_> = hosts.all().iter().map(|host| host.id).filter(|id| *id != hosts.all()[1].id).collect();
        let pending = hosts.choose(&kept, None, false).await.expect("10.0.0.1 is left");
        hosts.settle(1, &service(), &["http://10.0.0.2:3000", "http://10.0.0.3:3000"].map(address));
        assert_eq!(running().await, ["http://10.0.0.9:1", "http://10.0.0.2:3000", "http://10.0.0.3:3000"]);
        // A request, such as an open WebSocket, does not keep them.
        let looks_up = tokio::spawn(std::future::pending::<()>()).abort_handle();
        hosts.resolve_by(looks_up.clone());
        hosts.unwatch();
        assert_eq!(running().await.len(), 0);
        assert!(looks_up.is_finished());
        hosts.settle(1, &service(), &["http://10.0.0.4:3000"].map(address));
        assert_eq!(running().await.len(), 0);
        drop(pending);
    }

    #[tokio::test]
    async fn what_this_machine_lacks_is_no_failure_of_a_host() {
        let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
        let pending = hosts.choose(&[hosts.all()[1].id], None, false).await.unwrap();
        let failure = |errno| {
            let failure = client_pool::Failure::Connect { address: None, errno, message: "why".into() };
            Failure::of_opening(&failure, &pending.host.address, Duration::ZERO)
        };
        for errno in [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL] {
            (0..3).for_each(|_| pending.unreachable(&failure(errno)));
            assert_eq!(
                (names(&hosts)[0].as_str(), hosts.report()[0].1.failures),
                ("http://10.0.0.1:1 up", 0),
                "{errno}"
            );
        }
        (0..3).for_each(|_| pending.unreachable(&failure(libc::ECONNREFUSED)));
        assert_eq!(names(&hosts)[0], "http://10.0.0.1:1 out");
    }

    #[tokio::test]
    async fn a_request_never_sees_a_name_between_its_addresses() {
        let hosts = hosts(&["dns:app.internal:3000"]);
        let ends = Arc::new(AtomicBool::new(false));
        let turning = std::thread::spawn({
            let (hosts, ends) = (hosts.clone(), ends.clone());
            move || {
                for number in 0..2000 {
                    hosts.settle(0, &service(), &[address(&format!("http://10.0.0.{}:3000", number % 2 + 1))]);
                }
                ends.store(true, Relaxed);
            }
        });
        hosts.settle(0, &service(), &[address("http://10.0.0.1:3000")]);
        while !ends.load(Relaxed) {
            assert!(hosts.choose_now(&[], None, false).is_ok());
        }
        turning.join().unwrap();
    }

    #[test]
    fn events_are_worded_by_how_the_host_stands_then() {
        assert_eq!(and_so(Some(Standing::Starting)), "and gets requests again");
        assert!(and_so(Some(Standing::Failing)).starts_with("but gets no requests"));
        assert!(and_so(Some(Standing::Out)).starts_with("but gets no requests"));
    }
}
