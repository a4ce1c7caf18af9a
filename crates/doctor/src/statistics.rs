//! How much a trial saves, from pairs of measurements that were taken next to each other (A B B A), and when that is
//! known well enough. Never measures; the same pairs always give the same figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use fastrand::Rng;

/// Less than this part of a request is not worth a change: nobody would see it, and other changes of a day are larger.
pub const MIN_PART: f64 = 0.02;
/// Microseconds: less than this is not worth a change, however short the request is.
pub const MIN_GAIN_US: f64 = 200.0;
/// Rounds before anything is decided: fewer pairs have no spread to judge by.
pub const MIN_ROUNDS: usize = 3;
/// Draws of the bootstrap.
const DRAWS: usize = 1000;
/// Draws where it is only asked whether to go on.
const DRAWS_TO_DECIDE: usize = 300;
/// A gain is known well enough when half of its interval is no more than this part of it.
const EXACT: f64 = 0.05;
/// This part of the measurements of a request is left out at each end: a pause of the machine is no property of the
/// request. More would hide garbage collections, which come once in several requests and belong to the cost.
const TRIMMED: f64 = 0.1;
const SEED: u64 = 0x5eed;

/// Control and trial of one request, measured one after the other. A round (A B B A) gives two pairs of each request.
/// Microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Which request of the sample.
    pub request: usize,
    pub control_us: f64,
    pub trial_us: f64,
}

/// What a trial saves of a request: the mean over the requests. Microseconds; below zero it is slower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub gain_us: f64,
    /// The interval that contains the true gain.
    pub low_us: f64,
    pub high_us: f64,
    /// Control's time.
    pub base_us: f64,
}

impl Estimate {
    /// Parts of the base, 0 to 1: gain, low, high.
    pub fn parts(&self) -> [f64; 3] {
        [self.gain_us, self.low_us, self.high_us].map(|us| us / self.base_us.max(1e-9))
    }

    /// The gain is none by chance, and large enough.
    pub fn is_worth(&self) -> bool {
        self.low_us > 0.0 && self.gain_us > needed_us(self.base_us)
    }

    /// The interval excludes zero.
    pub fn is_sure(&self) -> bool {
        self.low_us > 0.0 || self.high_us < 0.0
    }
}

/// The smallest gain that is worth a change of a request that takes `base_us`.
pub fn needed_us(base_us: f64) -> f64 {
    (base_us * MIN_PART).max(MIN_GAIN_US)
}

/// Whether to measure another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    More,
    /// It is worth it, and the gain is known well.
    Worth,
    /// Whatever more rounds say, it will hardly be worth it.
    NotWorth,
    /// It is as well known as it will be.
    Enough,
}

/// Rounds of a sample of so many requests: few requests are measured more often.
pub fn max_rounds(requests: usize) -> usize {
    (120 / requests.max(1)).clamp(9, 30)
}

/// After `rounds`. Judges by an interval of 99 %: it is asked after each round, and each has its chance to err.
pub fn decide(pairs: &[Pair], rounds: usize) -> Decision {
    decide_beyond(pairs, rounds, MIN_PART)
}

/// Decides as `decide`, where less than `part` of a request is not worth it.
pub fn decide_beyond(pairs: &[Pair], rounds: usize, part: f64) -> Decision {
    if rounds < MIN_ROUNDS {
        return Decision::More;
    }
    let requests = grouped(pairs).len();
    if let Some(estimate) = bootstrap(pairs, 0.99, DRAWS_TO_DECIDE) {
        let needed = needed_us(estimate.base_us).max(estimate.base_us * part);
        if estimate.high_us < needed {
            return Decision::NotWorth;
        }
        if estimate.low_us > needed && estimate.high_us - estimate.low_us <= 2.0 * EXACT * estimate.gain_us {
            return Decision::Worth;
        }
    }
    if rounds >= max_rounds(requests) {
        return Decision::Enough;
    }
    Decision::More
}

/// With an interval of 95 %. None: fewer than six pairs.
pub fn estimate(pairs: &[Pair]) -> Option<Estimate> {
    bootstrap(pairs, 0.95, DRAWS)
}

/// Of pairs that were measured on several starts of the application, so many on each. Each start has a heap of its own, so
/// that the interval holds those of all of them.
pub fn estimate_of_starts(pairs: &[Pair], starts: &[usize]) -> Option<Estimate> {
    if starts.len() < 2 {
        return estimate(pairs);
    }
    let mut rest = pairs;
    let of_start = |count: &usize| {
        let (own, others) = rest.split_at((*count).min(rest.len()));
        rest = others;
        estimate(own)
    };
    let all: Vec<Estimate> = starts.iter().filter_map(of_start).collect();
    let mean = |of: fn(&Estimate) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| Estimate {
        gain_us: mean(|one| one.gain_us),
        low_us: all.iter().map(|one| one.low_us).fold(f64::INFINITY, f64::min),
        high_us: all.iter().map(|one| one.high_us).fold(f64::NEG_INFINITY, f64::max),
        base_us: mean(|one| one.base_us),
    })
}

/// The requests are those that were asked for; only their measurements are drawn again and again, so that the interval
/// is about the noise of measuring.
fn bootstrap(pairs: &[Pair], confidence: f64, draws: usize) -> Option<Estimate> {
    let usable: Vec<Pair> =
        pairs.iter().copied().filter(|pair| pair.control_us.is_finite() && pair.trial_us.is_finite()).collect();
    if usable.len() < 2 * MIN_ROUNDS {
        return None;
    }
    let requests = grouped(&usable);
    let count = requests.len() as f64;
    let mean_of = |of: &dyn Fn(&Pair) -> f64| {
        let means = requests.values().map(|pairs| trimmed_mean(&mut pairs.iter().map(of).collect::<Vec<_>>()));
        means.sum::<f64>() / count
    };
    let gain_us = mean_of(&|pair| pair.control_us - pair.trial_us);
    let base_us = mean_of(&|pair| pair.control_us);
    // The differences of each request, with their mean.
    let differences: Vec<(Vec<f64>, f64)> = requests
        .values()
        .map(|pairs| {
            let mut all: Vec<f64> = pairs.iter().map(|pair| pair.control_us - pair.trial_us).collect();
            let mean = trimmed_mean(&mut all);
            (all, mean)
        })
        .collect();
    let mut random = Rng::with_seed(SEED);
    let mut drawn: Vec<f64> = Vec::new();
    let mut means: Vec<f64> = (0..draws)
        .map(|_| {
            let one = |(all, mean): &(Vec<f64>, f64)| {
                drawn.clear();
                drawn.extend((0..all.len()).map(|_| all[random.usize(..all.len())]));
                // Drawing from few varies less than they do themselves.
                mean + (trimmed_mean(&mut drawn) - mean) * widening(all.len())
            };
            differences.iter().map(one).sum::<f64>() / count
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let (low_us, high_us) = (quantile(&means, tail), quantile(&means, 1.0 - tail));
    Some(Estimate { gain_us, low_us: low_us.min(gain_us), high_us: high_us.max(gain_us), base_us })
}

/// Estimates from measurements that are no pairs: of each route those without the change and those with it. Each route
/// weighs as much as it has measurements; those without any do not count.
pub fn estimate_apart(routes: &[(&[f64], &[f64])]) -> Estimate {
    let usable = routes.iter().filter(|(control, trial)| !control.is_empty() && !trial.is_empty());
    let usable: Vec<(&[f64], &[f64])> = usable.copied().collect();
    let weight = |control: &[f64], trial: &[f64]| (control.len() + trial.len()) as f64;
    let all: f64 = usable.iter().map(|(control, trial)| weight(control, trial)).sum();
    let means: Vec<[f64; 2]> =
        usable.iter().map(|(control, trial)| [control, trial].map(|times| trimmed_mean(&mut times.to_vec()))).collect();
    let weighted = |of: &mut dyn FnMut(usize) -> f64| {
        let parts = usable.iter().enumerate().map(|(at, (control, trial))| of(at) * weight(control, trial));
        parts.sum::<f64>() / all.max(1.0)
    };
    let gain_us = weighted(&mut |at| means[at][0] - means[at][1]);
    let base_us = weighted(&mut |at| means[at][0]);
    let mut random = Rng::with_seed(SEED);
    let mut buffer: Vec<f64> = Vec::new();
    let mut drawn_mean = |times: &[f64], mean: f64| {
        buffer.clear();
        buffer.extend((0..times.len()).map(|_| times[random.usize(..times.len())]));
        mean + (trimmed_mean(&mut buffer) - mean) * widening(times.len())
    };
    let mut drawn: Vec<f64> = (0..DRAWS)
        .map(|_| {
            weighted(&mut |at| {
                let (control, trial) = usable[at];
                drawn_mean(control, means[at][0]) - drawn_mean(trial, means[at][1])
            })
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let (low_us, high_us) = (quantile(&drawn, 0.025), quantile(&drawn, 0.975));
    Estimate { gain_us, low_us: low_us.min(gain_us), high_us: high_us.max(gain_us), base_us }
}

fn widening(count: usize) -> f64 {
    (count as f64 / (count as f64 - 1.0).max(0.5)).sqrt()
}

fn grouped(pairs: &[Pair]) -> BTreeMap<usize, Vec<Pair>> {
    let mut requests: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        requests.entry(pair.request).or_default().push(*pair);
    }
    requests
}

/// Sorts `values`.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = match values.len() {
        0..=4 => 0,
        count => ((count as f64 * TRIMMED) as usize).max(1),
    };
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// Of sorted values; 0 to 1.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ if sorted.is_empty() => f64::NAN,
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `requests` that take 10 ms and 1 ms more each, on a machine whose speed wanders; the trial saves `gain` of each.
    fn pairs(random: &mut Rng, requests: usize, rounds: usize, gain_us: f64) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let speed = 1.0 + 0.3 * ((round as f64).sin() + 1.0);
            for request in 0..requests {
                for _ in 0..2 {
                    let base = (10_000.0 + 1_000.0 * request as f64) * speed;
                    let mut noisy = |us: f64| {
                        let pause = if random.usize(..50) == 0 { 20_000.0 } else { 0.0 };
                        us * (1.0 + 0.06 * (random.f64() - 0.5)) + pause
                    };
                    let (control_us, trial_us) = (noisy(base), noisy(base - gain_us * speed));
                    pairs.push(Pair { request, control_us, trial_us });
                }
            }
        }
        pairs
    }

    #[test]
    fn chance_is_rarely_taken_for_a_gain() {
        let mut random = Rng::with_seed(1);
        let worth = (0..100).filter(|_| estimate(&pairs(&mut random, 4, 9, 0.0)).unwrap().is_worth()).count();
        assert!(worth <= 3, "{worth} of 100");
    }

    #[test]
    fn a_gain_is_found_within_its_interval() {
        let mut random = Rng::with_seed(2);
        let mut contained = 0;
        for _ in 0..100 {
            let found = estimate(&pairs(&mut random, 4, 9, 2_000.0)).unwrap();
            assert!(found.is_worth(), "{found:?}");
            // The speed of the rounds is part of the truth here.
            let truth = 2_000.0 * (0..9).map(|round| 1.0 + 0.3 * (f64::from(round).sin() + 1.0)).sum::<f64>() / 9.0;
            contained += usize::from((found.low_us..=found.high_us).contains(&truth));
        }
        assert!(contained >= 85, "{contained} of 100");
    }

    #[test]
    fn it_stops_as_soon_as_it_is_decided() {
        let mut random = Rng::with_seed(3);
        for (requests, gain, decision) in
            [(4, 6_000.0, Decision::Worth), (4, -3_000.0, Decision::NotWorth), (4, 0.0, Decision::NotWorth)]
        {
            let all = pairs(&mut random, requests, 30, gain);
            let rounds = (1..=30).find(|rounds| decide(&all[..rounds * requests * 2], *rounds) != Decision::More);
            let rounds = rounds.unwrap();
            assert!((MIN_ROUNDS..=max_rounds(requests)).contains(&rounds), "{gain}: {rounds}");
            assert_eq!(decide(&all[..rounds * requests * 2], rounds), decision, "{gain} after {rounds}");
        }
    }

    #[test]
    fn it_ends_where_noise_never_does() {
        let wild: Vec<Pair> = (0..60)
            .map(|at| Pair { request: 0, control_us: 10_000.0, trial_us: if at % 2 == 0 { 1_000.0 } else { 18_000.0 } })
            .collect();
        assert_eq!(decide(&wild[..10], 5), Decision::More);
        assert_eq!(decide(&wild, max_rounds(1)), Decision::Enough);
        assert!(!estimate(&wild).unwrap().is_worth());
    }

    #[test]
    fn little_is_not_worth_it_however_sure() {
        let exact = |control_us: f64, trial_us: f64| {
            let all: Vec<Pair> = (0..12).map(|_| Pair { request: 0, control_us, trial_us }).collect();
            estimate(&all).unwrap()
        };
        assert!(exact(10_000.0, 9_000.0).is_worth());
        assert!(!exact(100_000.0, 98_500.0).is_worth(), "1.5 % of it");
        assert!(!exact(500.0, 350.0).is_worth(), "0.15 ms");
        assert!(exact(100_000.0, 98_500.0).is_sure() && !exact(1.0, 1.0).is_sure());
        assert_eq!(exact(10_000.0, 9_000.0).parts(), [0.1, 0.1, 0.1]);
    }

    #[test]
    fn too_little_says_nothing() {
        let pair = Pair { request: 0, control_us: 1.0, trial_us: 1.0 };
        assert!(estimate(&[pair; 5]).is_none() && estimate(&[]).is_none());
        assert!(estimate(&[Pair { trial_us: f64::NAN, ..pair }; 9]).is_none());
        assert_eq!(decide(&[], 100), Decision::Enough);
        assert!(estimate(&[pair; 6]).is_some());
    }

    #[test]
    fn measurements_that_are_no_pairs() {
        let mut random = Rng::with_seed(4);
        let mut noisy = |us: f64, count: usize| -> Vec<f64> {
            (0..count).map(|_| us * (1.0 + 0.4 * (random.f64() - 0.5))).collect()
        };
        let (mut contained, mut wrong) = (0, 0);
        for _ in 0..100 {
            let (control, trial, same) = (noisy(10_000.0, 60), noisy(8_000.0, 20), noisy(10_000.0, 20));
            let found = estimate_apart(&[(&control, &trial)]);
            contained += usize::from((found.low_us..=found.high_us).contains(&2_000.0));
            wrong += usize::from(estimate_apart(&[(&control, &same)]).is_sure());
        }
        assert!(contained >= 85 && wrong <= 15, "{contained}, {wrong} of 100");
        assert_eq!(estimate_apart(&[(&[], &[])]), Estimate::default());
        assert_eq!(estimate_apart(&[(&[3.0; 9], &[1.0; 9]), (&[], &[1.0])]).parts(), [2.0 / 3.0; 3]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
