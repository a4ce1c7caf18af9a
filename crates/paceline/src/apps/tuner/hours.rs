//! What requests took, in 24 parts of the time that a change is watched: with the default each is an hour. It keeps
//! figures of routes, never a request.

use std::collections::BTreeMap;

use doctor::units;
use serde::{Deserialize, Serialize};

use crate::{apps::canary::exceeds, support::clock::Micros, workers::dispatch::queue::RouteVisits};

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
    /// Both, with what the requests had waited for a thread. A file of an older server has none.
    #[serde(default)]
    pub whole_us: Option<[f64; 2]>,
}

/// What of a request is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// What it takes of a thread.
    App,
    /// The same, with its waiting for one before.
    Whole,
}

impl RouteFigures {
    /// Median and 95th percentile.
    fn of(&self, span: Span) -> Option<[f64; 2]> {
        match span {
            Span::App => Some([self.median_us, self.p95_us]),
            Span::Whole => self.whole_us,
        }
    }
}

/// What each route took in an hour, from the latest times of each.
pub fn figures(mut visits: Vec<RouteVisits>) -> Vec<RouteFigures> {
    visits.retain(|visits| visits.app.len() >= MIN_ANSWERS);
    visits.sort_by_key(|visits| std::cmp::Reverse(visits.app.len()));
    let of = |RouteVisits { route, app, whole }| {
        let answers = app.len();
        let [median_us, p95_us] = middle(app).unwrap_or_default();
        RouteFigures { route, answers, median_us, p95_us, whole_us: middle(whole) }
    };
    visits.into_iter().take(MAX_ROUTES).map(of).collect()
}

/// Median and 95th percentile. None: there are no times.
fn middle(mut times: Vec<Micros>) -> Option<[f64; 2]> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    Some([0.5, 0.95].map(|part| times[(part * last as f64).round() as usize] as f64))
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
    pub fn compare(&self, hour: u32, now: &[RouteFigures], span: Span) -> Option<HourComparison> {
        let (mut all, mut median_us, mut p95_us) = (0.0, [0.0; 2], [0.0; 2]);
        for now in now {
            let (Some(before), Some(took)) = (self.before(hour % HOURS, &now.route, span), now.of(span)) else {
                continue;
            };
            let weight = now.answers as f64;
            all += weight;
            for (sum, us) in median_us.iter_mut().zip([before[0], took[0]]) {
                *sum += us * weight;
            }
            for (sum, us) in p95_us.iter_mut().zip([before[1], took[1]]) {
                *sum += us * weight;
            }
        }
        (all > 0.0)
            .then(|| HourComparison { median_us: median_us.map(|us| us / all), p95_us: p95_us.map(|us| us / all) })
    }

    fn before(&self, hour: u32, route: &str, span: Span) -> Option<[f64; 2]> {
        let find = |figures: &Vec<RouteFigures>| {
            let one = figures.iter().find(|one| one.route == route)?;
            Some((one.of(span)?, one.answers as f64))
        };
        if let Some((same, _)) = self.0.get(&hour).and_then(find) {
            return Some(same);
        }
        let others: Vec<([f64; 2], f64)> = self.0.values().filter_map(find).collect();
        let all: f64 = others.iter().map(|(_, answers)| answers).sum();
        let mean = |which: usize| others.iter().map(|(us, answers)| us[which] * answers).sum::<f64>() / all;
        (all > 0.0).then(|| [mean(0), mean(1)])
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

    fn visits(route: &str, app: Vec<Micros>, waited: Micros) -> RouteVisits {
        let whole = app.iter().map(|us| us + waited).collect();
        RouteVisits { route: route.into(), app, whole }
    }

    fn hour(route: &str, us: Micros) -> Vec<RouteFigures> {
        figures(vec![visits(route, vec![us; 30], 0)])
    }

    #[test]
    fn figures_of_routes_that_are_asked_for() {
        let times = vec![visits("GET /few", vec![1; 19], 0), visits("GET /a", (1..=100).collect(), 9)];
        let [a] = &figures(times)[..] else { panic!() };
        assert_eq!((a.answers, a.median_us, a.p95_us, a.whole_us), (100, 51.0, 95.0, Some([60.0, 104.0])));
        let many = (0..30).map(|number| visits(&format!("GET /{number}"), vec![1; 20 + number], 0)).collect();
        assert_eq!((figures(many).len(), MAX_ROUTES), (20, 20));
    }

    #[test]
    fn the_same_hour_counts_if_it_is_known() {
        let mut before = Hours::default();
        before.keep(9, hour("GET /a", 50_000));
        before.keep(27, hour("GET /a", 10_000));
        let compare = |hour_of_day, now: &[RouteFigures]| before.compare(hour_of_day, now, Span::App);
        let slower = |hour_of_day, us| compare(hour_of_day, &hour("GET /a", us)).unwrap().is_slower();
        assert!(!slower(9, 50_000) && slower(3, 50_000), "nine is a busy hour");
        assert!(slower(9, 56_000) && !slower(9, 54_000));
        // Not known: the mean of all, 30 ms.
        assert!(!slower(15, 32_000) && slower(15, 34_000));
        assert_eq!(compare(9, &hour("GET /b", 1)), None);
        let text = compare(9, &hour("GET /a", 56_000)).unwrap().to_string();
        assert_eq!(text, "median 56 ms, p95 56 ms on the same routes, before 50 ms and 50 ms");
    }

    #[test]
    fn little_is_noise() {
        let mut before = Hours::default();
        before.keep(1, hour("GET /a", 1_000));
        let compared = before.compare(1, &hour("GET /a", 1_900), Span::App).unwrap();
        assert!(!compared.is_slower(), "less than a millisecond");
    }

    #[test]
    fn what_visitors_wait_may_count() {
        let mut before = Hours::default();
        before.keep(1, figures(vec![visits("GET /a", vec![20_000; 30], 60_000)]));
        let now = figures(vec![visits("GET /a", vec![25_000; 30], 0)]);
        let is_slower = |span| before.compare(1, &now, span).map(|compared| compared.is_slower());
        assert_eq!((is_slower(Span::App), is_slower(Span::Whole)), (Some(true), Some(false)));
        let older: Vec<RouteFigures> = now.iter().map(|one| RouteFigures { whole_us: None, ..one.clone() }).collect();
        assert_eq!(before.compare(1, &older, Span::Whole), None);
    }
}
