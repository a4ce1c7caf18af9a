//! Hosts with a bounded number of threads, and clients that arrive at random: whole minutes in an instant, the same ones for
//! the same seed. The balancer is compared with a choice at random, and held to what docs/balancing.md promises.

use std::{cmp::Reverse, collections::BinaryHeap};

use balance::{Balancer, HostId, Micros, Request, Rules};
use fastrand::Rng;

const SECOND: Micros = 1_000_000;

/// An exponentially distributed time.
fn time(random: &mut Rng, mean: Micros) -> Micros {
    (-(1.0 - random.f64()).ln() * mean as f64) as Micros
}

/// A host with threads: a request waits for the first that is free.
struct Host {
    id: HostId,
    service: Micros,
    free_at: Vec<Micros>,
    /// From when to when nobody answers there.
    dead: (Micros, Micros),
    served: usize,
}

impl Host {
    fn is_dead(&self, now: Micros) -> bool {
        (self.dead.0..self.dead.1).contains(&now)
    }

    /// When a request that comes now is answered.
    fn serve(&mut self, now: Micros, random: &mut Rng) -> Micros {
        let thread = self.free_at.iter_mut().min().expect("a thread");
        *thread = (*thread).max(now) + time(random, self.service);
        self.served += 1;
        *thread
    }
}

/// What came of a run.
struct Outcome {
    times: Vec<Micros>,
    served: Vec<usize>,
    failed_over: usize,
    lost: usize,
}

impl Outcome {
    fn quantile(&self, share: f64) -> Micros {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }
}

/// Requests arrive every `gap` on average for `length`. `services`: each host's, and when it is dead.
fn run(seed: u64, services: &[(Micros, (Micros, Micros))], gap: Micros, length: Micros, is_balanced: bool) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let mut balancer = Balancer::new(Rules::default(), seed);
    let mut hosts: Vec<Host> = services
        .iter()
        .map(|&(service, dead)| Host { id: balancer.add(None), service, free_at: vec![0; 5], dead, served: 0 })
        .collect();
    // Answers to come: when, of which host, begun when.
    let mut answers = BinaryHeap::new();
    let mut outcome = Outcome { times: Vec::new(), served: Vec::new(), failed_over: 0, lost: 0 };
    let mut now = 0;
    while now < length {
        now += time(&mut random, gap);
        while let Some(&Reverse((at, index, began))) = answers.peek() {
            if at > now {
                break;
            }
            answers.pop();
            let host: &Host = &hosts[index];
            if host.is_dead(at) {
                balancer.failed(host.id, began, at);
            } else {
                balancer.answered(host.id, began, at, true);
            }
            balancer.end(host.id, false);
        }
        let mut tried = Vec::new();
        loop {
            let request = Request { tried: &tried, ..Request::default() };
            let chosen =
                if is_balanced { balancer.choose(now, request) } else { Some(hosts[random.usize(..hosts.len())].id) };
            let Some(chosen) = chosen else {
                outcome.lost += 1;
                break;
            };
            let index = hosts.iter().position(|host| host.id == chosen).expect("a host");
            balancer.begin(chosen);
            if hosts[index].is_dead(now) {
                balancer.failed(chosen, now, now);
                balancer.end(chosen, false);
                outcome.failed_over += 1;
                tried.push(chosen);
                continue;
            }
            let at = hosts[index].serve(now, &mut random);
            answers.push(Reverse((at, index, now)));
            outcome.times.push(at - now);
            break;
        }
    }
    outcome.served = hosts.iter().map(|host| host.served).collect();
    outcome
}

const NEVER: (Micros, Micros) = (0, 0);

#[test]
fn the_same_seed_makes_the_same_minute() {
    let run = || run(7, &[(10_000, NEVER), (12_000, NEVER)], 2_000, 60 * SECOND, true);
    assert_eq!((run().times, run().served), (run().times, run().served));
}

#[test]
fn a_slow_host_hardly_shows_in_the_slowest_hundredth() {
    for seed in 1..=4 {
        let hosts = [(10_000, NEVER), (10_000, NEVER), (10_000, NEVER), (300_000, NEVER)];
        let balanced = run(seed, &hosts, 2_000, 120 * SECOND, true);
        let all: usize = balanced.served.iter().sum();
        assert!(balanced.served[3] * 100 < all, "seed {seed}: {:?}", balanced.served);
        let without = run(seed, &hosts[..3], 2_000, 120 * SECOND, true);
        let (p99, best) = (balanced.quantile(0.99), without.quantile(0.99));
        assert!(p99 < best * 5 / 4, "seed {seed}: p99 {p99} us, without the slow host {best} us");
        assert!(balanced.served[3] > 0, "seed {seed}: it is never tried");
    }
}

#[test]
fn near_capacity_requests_wait_less_than_by_chance() {
    for seed in 1..=4 {
        let hosts = [(10_000, NEVER); 4];
        // 85 % of what twenty threads can do.
        let (balanced, by_chance) =
            (run(seed, &hosts, 588, 60 * SECOND, true), run(seed, &hosts, 588, 60 * SECOND, false));
        let (ours, chance) = (balanced.quantile(0.99), by_chance.quantile(0.99));
        assert!(ours * 10 < chance * 9, "seed {seed}: {ours} us, at random {chance} us");
        let (least, most) = (balanced.served.iter().min().unwrap(), balanced.served.iter().max().unwrap());
        assert!(most * 10 < least * 13, "seed {seed}: {:?}", balanced.served);
    }
}

#[test]
fn a_host_that_dies_is_asked_a_few_times_and_comes_back_gently() {
    for seed in 1..=4 {
        let dead = (20 * SECOND, 35 * SECOND);
        let hosts = [(10_000, NEVER), (10_000, NEVER), (10_000, dead)];
        let outcome = run(seed, &hosts, 2_000, 120 * SECOND, true);
        assert_eq!(outcome.lost, 0, "seed {seed}");
        // Three failures put it out, of requests that it had among them, and one more when it is tried after ten seconds.
        assert!((1..=6).contains(&outcome.failed_over), "seed {seed}: {}", outcome.failed_over);
        assert!(outcome.served[2] * 5 > outcome.served[0], "seed {seed}: {:?}", outcome.served);
    }
}

#[test]
fn hosts_that_all_die_are_all_asked() {
    let dead = (20 * SECOND, 30 * SECOND);
    let outcome = run(3, &[(10_000, dead), (10_000, dead)], 2_000, 60 * SECOND, true);
    assert!(outcome.lost > 0);
    let after = run(3, &[(10_000, (20 * SECOND, 21 * SECOND)); 2], 2_000, 60 * SECOND, true);
    // They are in again as soon as they answer, not when their time is over: 500 requests a second are lost for one second.
    assert!((400..600).contains(&after.lost), "{}", after.lost);
}
