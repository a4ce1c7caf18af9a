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
mod tests;
