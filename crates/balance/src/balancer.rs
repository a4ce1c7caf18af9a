//! The hosts of an upstream, and the choice between them. It never sees a request's content.

use fastrand::Rng;

use crate::{
    host::{Host, Standing},
    Micros,
};

/// Scores that differ by less count as equal: times that were learned are never quite the same.
const EQUAL: f64 = 1.25;

/// Names a host for as long as the balancer lives; no other host gets the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(u64);

/// How hosts are put out and warmed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How long the share of a host grows that came (back).
    pub slow_start: Micros,
    /// Failures in a row that put a host out; not 0.
    pub failures: u32,
    /// For how long it is out, the first time. Each further time is twice as long.
    pub out_for: Micros,
    pub out_for_max: Micros,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { slow_start: 10_000_000, failures: 3, out_for: 10_000_000, out_for_max: 160_000_000 }
    }
}

/// A request, as far as the choice of a host needs to know it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Hosts that are not to get it: they have failed it.
    pub tried: &'a [HostId],
    /// The host that its visitor was with.
    pub prefers: Option<HostId>,
    /// It may become a WebSocket.
    pub is_tunnel: bool,
}

/// How a host stands.
#[derive(Debug, Clone, PartialEq)]
pub struct HostReport {
    pub id: HostId,
    pub standing: Standing,
    /// WebSockets among them.
    pub pending: u32,
    pub requests: u64,
    pub failures: u64,
    /// Its usual time to the first byte, microseconds. None: it has answered nothing.
    pub first_byte: Option<f64>,
}

/// The hosts of an upstream.
#[derive(Debug)]
pub struct Balancer {
    hosts: Vec<Host>,
    next: u64,
    random: Rng,
    rules: Rules,
}

impl Balancer {
    pub fn new(rules: Rules, seed: u64) -> Balancer {
        Balancer { hosts: Vec::new(), next: 0, random: Rng::with_seed(seed), rules }
    }

    /// A host more. `came`: the time, if it came while others served, so that it gets a small share at first.
    pub fn add(&mut self, came: Option<Micros>) -> HostId {
        let id = HostId(self.next);
        self.next += 1;
        self.hosts.push(Host::new(id, came));
        id
    }

    /// A host gets no request any more. It is forgotten when it has ended its last one.
    pub fn remove(&mut self, id: HostId) {
        self.host(id).into_iter().for_each(|host| host.is_leaving = true);
        self.forget();
    }

    /// The host for a request: one that is in, or else any that was not tried. None: all were tried.
    pub fn choose(&mut self, now: Micros, request: Request<'_>) -> Option<HostId> {
        let (hosts, random, rules) = (&self.hosts, &mut self.random, &self.rules);
        let is_untried = |host: &&Host| !host.is_leaving && !request.tried.contains(&host.id);
        let is_available = |host: &&Host| is_untried(host) && host.standing(now, rules).is_available();
        let all_are_in = !hosts.iter().any(|host| is_available(&host));
        let is_candidate = |host: &&Host| if all_are_in { is_untried(host) } else { is_available(host) };
        if let Some(preferred) = hosts.iter().filter(is_candidate).find(|host| Some(host.id) == request.prefers) {
            return Some(preferred.id);
        }
        let (one, other) = match draw(hosts, is_candidate, random)? {
            (one, None) => return Some(one.id),
            (one, Some(other)) => (one, other),
        };
        let mut is_ready = |host: &Host| all_are_in || random.f64() < host.warmth(now, rules);
        let (one_is_ready, other_is_ready) = (is_ready(one), is_ready(other));
        if one_is_ready != other_is_ready {
            return Some(if one_is_ready { one.id } else { other.id });
        }
        let best = hosts.iter().filter(|host| !host.is_leaving).filter_map(Host::learned);
        let best = best.fold(f64::INFINITY, f64::min);
        let best = if best.is_finite() { best } else { 0.0 };
        let score = |host: &Host| host.score(now, best, request.is_tunnel);
        // They were drawn at random, so either is as good where they are equal.
        Some(if score(other) * EQUAL < score(one) { other.id } else { one.id })
    }

    /// A request goes to the host. Each is ended by `end`.
    pub fn begin(&mut self, id: HostId) {
        if let Some(host) = self.host(id) {
            host.pending += 1;
            host.requests += 1;
        }
    }

    /// A request that has begun goes on as a tunnel.
    pub fn tunnel(&mut self, id: HostId) {
        if let Some(host) = self.host(id) {
            host.pending = host.pending.saturating_sub(1);
            host.tunnels += 1;
        }
    }

    /// The host is done with a request.
    pub fn end(&mut self, id: HostId, is_tunnel: bool) {
        if let Some(host) = self.host(id) {
            let count = if is_tunnel { &mut host.tunnels } else { &mut host.pending };
            *count = count.saturating_sub(1);
            if host.is_leaving {
                self.forget();
            }
        }
    }

    /// The host has begun to answer a request that it got at `began`. Whether it is its first answer since it was put out.
    /// `is_typical`: the time that it took says something about the host.
    pub fn answered(&mut self, id: HostId, began: Micros, now: Micros, is_typical: bool) -> bool {
        let all_were_out = self.standing(id, now) == Some(Standing::Out) && self.is_everything_out(now);
        let rules = self.rules;
        let Some(host) = self.host(id) else { return false };
        if is_typical && !host.was_put_out_after(began) {
            host.learn(now, now.saturating_sub(began));
        }
        let is_back = host.answered(began, now);
        if is_back && all_were_out {
            // The others got requests until now. If only this one got them, it would have to carry them all.
            let others = self.hosts.iter_mut().filter(|host| host.id != id);
            others.filter(|host| host.standing(now, &rules) == Standing::Out).for_each(|host| host.admit(now, &rules));
        }
        is_back
    }

    /// The host has failed a request that it got at `began`. Whether it is put out by that.
    pub fn failed(&mut self, id: HostId, began: Micros, now: Micros) -> bool {
        let may_be_out = self.hosts.iter().filter(|host| !host.is_leaving).count() > 1;
        let rules = self.rules;
        self.host(id).is_some_and(|host| host.failed(began, now, &rules, may_be_out))
    }

    /// Takes the result of a health check. What it changes: Some(true): the host is in again.
    pub fn checked(&mut self, id: HostId, now: Micros, passed: bool) -> Option<bool> {
        self.host(id)?.checked(now, passed)
    }

    pub fn standing(&self, id: HostId, now: Micros) -> Option<Standing> {
        self.hosts.iter().find(|host| host.id == id).map(|host| host.standing(now, &self.rules))
    }

    /// Whether no host is in, so that all are.
    pub fn is_everything_out(&self, now: Micros) -> bool {
        !self.hosts.iter().any(|host| host.standing(now, &self.rules).is_available())
    }

    /// How the hosts stand, in the order in which they came.
    pub fn report(&self, now: Micros) -> Vec<HostReport> {
        let of = |host: &Host| HostReport {
            id: host.id,
            standing: host.standing(now, &self.rules),
            pending: host.pending + host.tunnels,
            requests: host.requests,
            failures: host.failures,
            first_byte: host.learned().map(f64::exp),
        };
        self.hosts.iter().map(of).collect()
    }

    fn host(&mut self, id: HostId) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.id == id)
    }

    fn forget(&mut self) {
        self.hosts.retain(|host| !host.is_leaving || host.pending + host.tunnels > 0);
    }
}

/// Two of those hosts, or the only one. None: there is none.
fn draw<'a>(
    hosts: &'a [Host],
    is_candidate: impl Fn(&&Host) -> bool,
    random: &mut Rng,
) -> Option<(&'a Host, Option<&'a Host>)> {
    let count = hosts.iter().filter(&is_candidate).count();
    let nth = |index: usize| hosts.iter().filter(&is_candidate).nth(index);
    match count {
        0 => None,
        1 => Some((nth(0)?, None)),
        _ => {
            let one = random.usize(..count);
            let other = (one + 1 + random.usize(..count - 1)) % count;
            Some((nth(one)?, nth(other)))
        }
    }
}

#[cfg(test)]
mod tests;
