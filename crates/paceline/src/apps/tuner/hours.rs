//! What requests took, in 24 parts of the time that a change is watched: with the default each is an hour. It keeps
//! figures of routes, never a request.

use std::collections::BTreeMap;

use doctor::units;
use serde::{Deserialize, Serialize};

use crate::{apps::canary::exceeds, support::clock::Micros};

/// Parts of the time that a change is watched.
pub const HOURS: u32 = 24;
/// Routes of an hour: those with most answers.
const MAX_ROUTES: usize = 20;
/// Answers of a route in an hour, so that it counts.
const MIN_ANSWERS: usize = 20;
/// So many times as long the median of the same routes may be, and so many microseconds longer; the 95th percentile.
const SLOWER: (f64, f64) = (1.1, 1_000.0);
const SLOWER_AT_WORST: (f64, f64) = (1.5, 20_000.0);

/// A route in one hour. Microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteFigures {
    pub route: String,
    pub answers: usize,
    pub median_us: f64,
    pub p95_us: f64,
}

/// What each route took in an hour, from the latest times of each.
pub fn figures(mut times: Vec<(String, Vec<Micros>)>) -> Vec<RouteFigures> {
    times.retain(|(_, times)| times.len() >= MIN_ANSWERS);
    times.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    let of = |(route, mut times): (String, Vec<Micros>)| {
        times.sort_unstable();
        let at = |part: f64| times[(part * (times.len() - 1) as f64).round() as usize] as f64;
        RouteFigures { route, answers: times.len(), median_us: at(0.5), p95_us: at(0.95) }
    };
    times.into_iter().take(MAX_ROUTES).map(of).collect()
}

/// A day, hour by hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hours(BTreeMap<u32, Vec<RouteFigures>>);

/// An hour beside those before, on the same routes, each with the weight of its answers. Microseconds: before, now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HourComparison {
    pub median_us: [f64; 2],
    pub p95_us: [f64; 2],
}

impl Hours {
    pub fn keep(&mut self, hour: u32, figures: Vec<RouteFigures>) {
        if !figures.is_empty() {
            self.0.insert(hour % HOURS, figures);
        }
    }

    /// With the same hour of the day, or where that is not known of a route, with all hours. None: no route is known.
    pub fn compare(&self, hour: u32, now: &[RouteFigures]) -> Option<HourComparison> {
        let (mut all, mut median_us, mut p95_us) = (0.0, [0.0; 2], [0.0; 2]);
        for now in now {
            let Some([median, p95]) = self.before(hour % HOURS, &now.route) else { continue };
            let weight = now.answers as f64;
            all += weight;
            for (sum, us) in median_us.iter_mut().zip([median, now.median_us]) {
                *sum += us * weight;
            }
            for (sum, us) in p95_us.iter_mut().zip([p95, now.p95_us]) {
                *sum += us * weight;
            }
        }
        (all > 0.0)
            .then(|| HourComparison { median_us: median_us.map(|us| us / all), p95_us: p95_us.map(|us| us / all) })
    }

    fn before(&self, hour: u32, route: &str) -> Option<[f64; 2]> {
        let find = |figures: &Vec<RouteFigures>| figures.iter().find(|one| one.route == route).cloned();
        if let Some(same) = self.0.get(&hour).and_then(find) {
            return Some([same.median_us, same.p95_us]);
        }
        let others: Vec<RouteFigures> = self.0.values().filter_map(find).collect();
        let all: f64 = others.iter().map(|one| one.answers as f64).sum();
        let mean =
            |of: fn(&RouteFigures) -> f64| others.iter().map(|one| of(one) * one.answers as f64).sum::<f64>() / all;
        (all > 0.0).then(|| [mean(|one| one.median_us), mean(|one| one.p95_us)])
    }
}

impl HourComparison {
    pub fn is_slower(&self) -> bool {
        exceeds(self.median_us, SLOWER) || exceeds(self.p95_us, SLOWER_AT_WORST)
    }
}

impl std::fmt::Display for HourComparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([before, now], [before_p95, now_p95]) =
            (self.median_us.map(units::millis), self.p95_us.map(units::millis));
        write!(f, "median {now}, p95 {now_p95} on the same routes, before {before} and {before_p95}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(route: &str, us: Micros) -> Vec<RouteFigures> {
        figures(vec![(route.into(), vec![us; 30])])
    }

    #[test]
    fn figures_of_routes_that_are_asked_for() {
        let times = vec![("GET /few".into(), vec![1; 19]), ("GET /a".into(), (1..=100).collect())];
        let [a] = &figures(times)[..] else { panic!() };
        assert_eq!((a.answers, a.median_us, a.p95_us), (100, 51.0, 95.0));
        let many = (0..30).map(|number| (format!("GET /{number}"), vec![1; 20 + number])).collect();
        assert_eq!((figures(many).len(), MAX_ROUTES), (20, 20));
    }

    #[test]
    fn the_same_hour_counts_if_it_is_known() {
        let mut before = Hours::default();
        before.keep(9, hour("GET /a", 50_000));
        before.keep(27, hour("GET /a", 10_000));
        let slower = |hour_of_day, us| before.compare(hour_of_day, &hour("GET /a", us)).unwrap().is_slower();
        assert!(!slower(9, 50_000) && slower(3, 50_000), "nine is a busy hour");
        assert!(slower(9, 56_000) && !slower(9, 54_000));
        // Not known: the mean of all, 30 ms.
        assert!(!slower(15, 32_000) && slower(15, 34_000));
        assert_eq!(before.compare(9, &hour("GET /b", 1)), None);
        let text = before.compare(9, &hour("GET /a", 56_000)).unwrap().to_string();
        assert_eq!(text, "median 56 ms, p95 56 ms on the same routes, before 50 ms and 50 ms");
    }

    #[test]
    fn little_is_noise() {
        let mut before = Hours::default();
        before.keep(1, hour("GET /a", 1_000));
        assert!(!before.compare(1, &hour("GET /a", 1_900)).unwrap().is_slower(), "less than a millisecond");
    }
}
