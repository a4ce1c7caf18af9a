//! The hosts of an upstream: each with its connections, and the balancer that chooses between them. Which host is the best
//! is `crates/balance`'s to decide. It never sends a request.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc, OnceLock,
    },
    time::Duration,
};

use balance::{Balancer, HostId, HostReport, Request, Rules};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    address::Address,
    failure::Failure,
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
        let state = State { balancer, hosts: Vec::new(), leaving: Vec::new() };
        let (state, found, log) = (Mutex::new(state), Notify::new(), OnceLock::new());
        let all_out = AtomicBool::new(false);
        let hosts = Hosts { targets, tls, connect_timeout, tokens, state, found, log, all_out };
        for (index, target) in hosts.targets.all().iter().enumerate() {
            if let Target::Host(address) = target {
                hosts.add(index, address.clone(), hosts.tls.clone(), None);
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

    fn add(&self, target: usize, address: Address, tls: UpstreamTls, came: Option<Micros>) {
        let name: Arc<str> = address.to_string().into();
        let token = self.tokens.as_ref().map(|tokens| tokens.of(&name));
        let pool = Pool::new(address.clone(), tls, self.connect_timeout);
        let mut state = self.state.lock();
        let id = state.balancer.add(came);
        state.hosts.push(Arc::new(Host { id, address, name, pool, token, target }));
    }

    /// Those that may get requests.
    pub fn all(&self) -> Vec<Arc<Host>> {
        self.state.lock().hosts.clone()
    }

    /// How they stand, those among them that finish their last requests.
    pub fn report(&self) -> Vec<(Arc<str>, HostReport)> {
        let mut state = self.state.lock();
        let reports = state.balancer.report(clock::now());
        state.leaving.retain(|host| reports.iter().any(|report| report.id == host.id));
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
        if let Some(pending) = self.choose_now(tried, token, is_tunnel) {
            return Some(pending);
        }
        if !tried.is_empty() || !self.all().is_empty() {
            return None;
        }
        // A name that has not been resolved yet.
        let until = tokio::time::Instant::now() + self.connect_timeout;
        loop {
            let found = self.found.notified();
            tokio::pin!(found);
            found.as_mut().enable();
            if let Some(pending) = self.choose_now(tried, token, is_tunnel) {
                return Some(pending);
            }
            tokio::time::timeout_at(until, found).await.ok()?;
        }
    }

    fn choose_now(self: &Arc<Self>, tried: &[HostId], token: Option<&str>, is_tunnel: bool) -> Option<PendingRequest> {
        let began = clock::now();
        let mut state = self.state.lock();
        let of_visitor = |token: &str| state.hosts.iter().find(|host| host.token.as_deref() == Some(token));
        let prefers = token.and_then(of_visitor).map(|host| host.id);
        let id = state.balancer.choose(began, Request { tried, prefers, is_tunnel })?;
        let host = state.hosts.iter().find(|host| host.id == id)?.clone();
        state.balancer.begin(id);
        drop(state);
        Some(PendingRequest { hosts: self.clone(), host, began, is_tunnel: false })
    }

    /// Why there is no host at all.
    pub fn none(&self) -> Failure {
        Failure::Unreachable { upstream: self.targets.to_string(), why: "the name has no address".into() }
    }

    /// A host has failed a request.
    pub fn failed(&self, host: &Host, why: &str) {
        let mut state = self.state.lock();
        let is_out = state.balancer.failed(host.id, clock::now());
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
        let is_back = self.state.lock().balancer.answered(host.id, began, clock::now(), is_typical);
        if is_back {
            self.say(format!("upstream {} answers, and gets requests again", host.name));
            self.look();
        }
    }

    /// Takes the result of a health check; Err: what was wrong.
    pub fn checked(&self, host: &Host, result: &Result<(), String>) {
        let changed = self.state.lock().balancer.checked(host.id, clock::now(), result.is_ok());
        match (changed, result) {
            (Some(false), Err(why)) => {
                self.say(format!("upstream {} gets no requests: its health check failed: {why}", host.name));
            }
            (Some(_), _) => {
                self.say(format!("upstream {} passes its health check, and gets requests again", host.name))
            }
            (None, _) => return,
        }
        self.look();
    }

    /// Says when no host is in any more, which means that all are.
    fn look(&self) {
        let all_out = self.state.lock().balancer.is_everything_out(clock::now());
        if all_out && !self.all_out.swap(true, Relaxed) {
            self.say(format!("all hosts of upstream {} are out, so all get requests", self.targets));
        } else if !all_out {
            self.all_out.store(false, Relaxed);
        }
    }

    /// Makes the hosts of a name those that were found now.
    pub fn settle(&self, target: usize, service: &Service, found: &[Address]) {
        let mut state = self.state.lock();
        let known: Vec<_> = state.hosts.iter().filter(|host| host.target == target).cloned().collect();
        let (came, gone) = changes(&known, found);
        for host in &gone {
            state.balancer.remove(host.id);
            state.hosts.retain(|one| one.id != host.id);
            state.leaving.push(host.clone());
        }
        drop(state);
        let tls = UpstreamTls {
            name: self.tls.name.clone().or_else(|| Some(service.name.clone())),
            ca_file: self.tls.ca_file.clone(),
        };
        // The first ones have nobody to learn from, and nobody who carries their share meanwhile.
        let since = (!known.is_empty()).then(clock::now);
        for address in &came {
            self.add(target, address.clone(), tls.clone(), since);
        }
        self.found.notify_waiters();
        if since.is_some() {
            gone.iter().for_each(|host| self.say(format!("upstream {}: {} has gone", service.name, host.name)));
            came.iter().for_each(|address| self.say(format!("upstream {}: {address} has come", service.name)));
        }
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
    began: Micros,
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
        self.hosts.failed(&self.host, why);
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
}

impl HostLease {
    /// The response is complete. `keep`: for how long the host says that it keeps the connection.
    pub fn give_back(self, keep: Option<Duration>) {
        self.lease.give_back(keep);
    }

    /// The response broke off.
    pub fn failed(self, why: &str) {
        self.pending.failed(why);
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
        // The same address twice is one host; who has gone finishes its request; who came starts with a small share.
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
        (0..3).for_each(|_| hosts.failed(&second, "down"));
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
}
