//! One host as the balancer sees it: what it has in hand, what was learned about it, and whether it may get requests.
//! It never compares itself with others.

use crate::{balancer::Rules, HostId, Micros};

/// How fast what was learned fades while nothing new comes.
const FADE: f64 = 10e6;
/// A request counts for more, the longer nothing was learned before it.
const RENEWAL: f64 = 60e6;
/// Answers that the mean is made of, where they come fast.
const WINDOW: u32 = 64;
/// The share of requests with which a host begins that came (back).
const FIRST_SHARE: f64 = 0.05;
/// An idle WebSocket is little work for its host.
const TUNNEL_WEIGHT: f64 = 1.0 / 16.0;
/// After so long without being put out, a host's earlier times out are forgotten.
const FORGIVEN: Micros = 60_000_000;
/// Health checks in a row that change what is thought of a host.
const CHECKS: u32 = 2;

/// Whether a host gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Up,
    /// It came (back) a moment ago, and gets a growing share.
    Starting,
    /// It failed too often in a row.
    Out,
    /// Its health check fails.
    Failing,
    /// It is no host of the upstream any more, and finishes its last requests.
    Leaving,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Up => "up",
            Standing::Starting => "starting",
            Standing::Out => "out",
            Standing::Failing => "failing",
            Standing::Leaving => "leaving",
        }
    }

    pub fn is_available(self) -> bool {
        matches!(self, Standing::Up | Standing::Starting)
    }
}

/// The mean of the logarithms of service times.
#[derive(Debug, Clone, Copy)]
struct Learned {
    mean: f64,
    samples: u32,
    at: Micros,
}

/// What the health checks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Unchecked,
    /// `failed`: how many checks in a row have failed since.
    Passing {
        failed: u32,
    },
    /// `passed`: how many checks in a row have passed since.
    Failing {
        passed: u32,
    },
}

/// A host.
#[derive(Debug)]
pub struct Host {
    pub id: HostId,
    pub pending: u32,
    /// WebSockets and the like.
    pub tunnels: u32,
    pub requests: u64,
    pub failures: u64,
    /// It is to get no request any more.
    pub is_leaving: bool,
    learned: Option<Learned>,
    failed_in_a_row: u32,
    /// When it was put out, and until when.
    out: Option<(Micros, Micros)>,
    times_out: u32,
    /// Since it was put out; true if it never was.
    has_answered: bool,
    health: Health,
    /// When it came (back); None: it is warm.
    came: Option<Micros>,
}

impl Host {
    pub fn new(id: HostId, came: Option<Micros>) -> Host {
        Host {
            id,
            pending: 0,
            tunnels: 0,
            requests: 0,
            failures: 0,
            is_leaving: false,
            learned: None,
            failed_in_a_row: 0,
            out: None,
            times_out: 0,
            has_answered: true,
            health: Health::Unchecked,
            came,
        }
    }

    pub fn standing(&self, now: Micros, rules: &Rules) -> Standing {
        if self.is_leaving {
            Standing::Leaving
        } else if matches!(self.health, Health::Failing { .. }) {
            Standing::Failing
        } else if self.out.is_some_and(|(_, until)| now < until) {
            Standing::Out
        } else if self.warmth(now, rules) < 1.0 {
            Standing::Starting
        } else {
            Standing::Up
        }
    }

    /// The share of its requests that it gets: 1 when it is warm.
    pub fn warmth(&self, now: Micros, rules: &Rules) -> f64 {
        match self.came {
            Some(came) if rules.slow_start > 0 => {
                (now.saturating_sub(came) as f64 / rules.slow_start as f64).clamp(FIRST_SHARE, 1.0)
            }
            _ => 1.0,
        }
    }

    /// The logarithm of its usual time to the first byte, as it was learned.
    pub fn learned(&self) -> Option<f64> {
        self.learned.map(|learned| learned.mean)
    }

    /// What one more request would wait for. `best`: the logarithm of the best host's time.
    pub fn score(&self, now: Micros, best: f64, is_tunnel: bool) -> f64 {
        let tunnels = f64::from(self.tunnels) * if is_tunnel { 1.0 } else { TUNNEL_WEIGHT };
        let expected = self.learned.map_or(best, |learned| {
            best + (learned.mean - best) * (-(now.saturating_sub(learned.at) as f64) / FADE).exp()
        });
        (f64::from(self.pending) + tunnels + 1.0) * expected.exp()
    }

    pub fn learn(&mut self, now: Micros, time: Micros) {
        let sample = (time.max(1) as f64).ln();
        self.learned = Some(match self.learned {
            None => Learned { mean: sample, samples: 1, at: now },
            Some(Learned { mean, samples, at }) => {
                let by_age = 1.0 - (-(now.saturating_sub(at) as f64) / RENEWAL).exp();
                let weight = by_age.max(1.0 / f64::from(samples.min(WINDOW - 1) + 1));
                Learned { mean: mean + (sample - mean) * weight, samples: samples.saturating_add(1), at: now }
            }
        });
    }

    /// Whether it was put out since then: how a request ended that is older says nothing about the host as it is now.
    pub fn was_put_out_after(&self, began: Micros) -> bool {
        self.out.is_some_and(|(since, _)| began < since)
    }

    /// It has answered a request that began at `began`. Whether that is the first answer since it was put out.
    pub fn answered(&mut self, began: Micros, now: Micros) -> bool {
        if self.was_put_out_after(began) {
            return false;
        }
        self.failed_in_a_row = 0;
        if let Some((since, until)) = self.out {
            if now < until {
                self.out = Some((since, now));
                self.came = None;
            } else if now - until > FORGIVEN {
                self.times_out = 0;
            }
        }
        !std::mem::replace(&mut self.has_answered, true)
    }

    /// It gets requests again before its time, and one more failure puts it out.
    pub fn admit(&mut self, now: Micros, rules: &Rules) {
        self.out = self.out.map(|(since, until)| (since, until.min(now)));
        self.came = None;
        self.failed_in_a_row = rules.failures - 1;
    }

    /// It has failed a request that began at `began`. Whether it is put out by that. `may_be_out`: it is not the only one.
    pub fn failed(&mut self, began: Micros, now: Micros, rules: &Rules, may_be_out: bool) -> bool {
        self.failures += 1;
        if self.was_put_out_after(began) {
            return false;
        }
        self.failed_in_a_row += 1;
        let is_out = self.out.is_some_and(|(_, until)| now < until);
        if self.failed_in_a_row < rules.failures || is_out || !may_be_out {
            return false;
        }
        let time = rules.out_for.saturating_mul(1 << self.times_out.min(16)).min(rules.out_for_max);
        self.times_out += 1;
        self.out = Some((now, now + time));
        self.has_answered = false;
        self.came = Some(now + time);
        // When it is in again, one more failure is enough.
        self.failed_in_a_row = rules.failures - 1;
        // It may be another server then.
        self.learned = None;
        true
    }

    /// Takes the result of a health check. What it changes: Some(true): the host is in again.
    pub fn checked(&mut self, now: Micros, passed: bool) -> Option<bool> {
        let before = self.health;
        self.health = match (before, passed) {
            (Health::Unchecked | Health::Passing { .. }, true) => Health::Passing { failed: 0 },
            (Health::Unchecked | Health::Failing { .. }, false) => Health::Failing { passed: 0 },
            (Health::Passing { failed }, false) if failed + 1 >= CHECKS => Health::Failing { passed: 0 },
            (Health::Passing { failed }, false) => Health::Passing { failed: failed + 1 },
            (Health::Failing { passed }, true) if passed + 1 >= CHECKS => Health::Passing { failed: 0 },
            (Health::Failing { passed }, true) => Health::Failing { passed: passed + 1 },
        };
        let was_failing = matches!(before, Health::Failing { .. });
        let is_failing = matches!(self.health, Health::Failing { .. });
        if was_failing && !is_failing {
            self.came = Some(self.came.map_or(now, |came| came.max(now)));
            self.learned = None;
        }
        (was_failing != is_failing).then_some(!is_failing)
    }
}
