//! Whether a change brings live what its trial has shown: what two generations of an application took for visitors'
//! requests on the same routes, beside the interval of the trial. Never measures, and never acts on it.

use serde::{Deserialize, Serialize};

use crate::{
    candidate::Trial,
    statistics::{self, Estimate},
    units,
    verdict::{Bound, Verdict},
};

/// Routes of an expectation that are compared: those with most to gain.
pub const MAX_ROUTES: usize = 8;
/// Answers of a route on each side, so that it counts.
pub const MIN_ANSWERS: usize = 20;
/// Part of the trial's gain that may be missing live: an interval may be much narrower than one machine is like itself an
/// hour later. A prediction counts as right within 15 %.
const TOLERANCE: f64 = 0.15;

/// What a trial has shown of one route. Microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedGain {
    /// As `GET /beers/*`.
    pub route: String,
    pub gain_us: f64,
    /// The interval that contains the gain (95 %).
    pub low_us: f64,
    pub high_us: f64,
    /// The request without the change.
    pub of_us: f64,
}

/// What visitors' requests of one route took, microseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveTimes {
    /// As in the expectation.
    pub route: String,
    pub old_us: Vec<f64>,
    pub new_us: Vec<f64>,
}

/// What came of the comparison; the figures in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveVerdict {
    /// As much as the trial has shown, or more.
    Held(String),
    /// Less.
    Short(String),
    /// There are too few answers to say it.
    TooFew(String),
    /// There are too few answers, but those say that requests take longer with the change.
    Worse(String),
}

/// What a verdict lets one expect of visitors' requests. Empty: its gain is none of the time of requests on routes.
pub fn expected(verdict: &Verdict) -> Vec<ExpectedGain> {
    let is_time = matches!(verdict.candidate.trial, Trial::Patch { .. } | Trial::Environment { .. });
    let gains = verdict.gains.iter().filter(|gain| is_time && matches!(gain.bound, Bound::Measured | Bound::AtLeast));
    let expected = gains.filter_map(|gain| {
        let (low_us, high_us) = gain.interval_us.filter(|(low, _)| *low > 0.0)?;
        let (route, gain_us, of_us) = (gain.route.clone(), gain.gain_us, gain.of_us);
        Some(ExpectedGain { route, gain_us, low_us, high_us, of_us })
    });
    expected.take(MAX_ROUTES).collect()
}

/// Each route weighs as much as it has answers, in the live figures and in the expected ones.
///
/// Live gain and expected gain are compared as times and as parts of the request: a busy machine takes longer for
/// everything, and its visitors ask for other pages of the route than the trial did. What lies below the trial's interval
/// as a time is less, unless it is a gain for sure and within [`TOLERANCE`] of the trial's, or as large a part of the
/// request.
pub fn compare(expected: &[ExpectedGain], live: &[LiveTimes]) -> LiveVerdict {
    let known: Vec<(&ExpectedGain, &LiveTimes)> =
        expected.iter().filter_map(|one| Some((one, live.iter().find(|times| times.route == one.route)?))).collect();
    let answers = |times: &LiveTimes| times.old_us.len().min(times.new_us.len());
    let enough: Vec<_> = known.iter().filter(|(_, times)| answers(times) >= MIN_ANSWERS).copied().collect();
    if enough.is_empty() {
        return too_few(&known);
    }
    let estimate = estimate(&enough);
    let trial = combined(&enough);
    let text = format!(
        "{}, in the trial {} ({})",
        saved(&enough, &estimate),
        units::bare_millis(trial.gain_us),
        interval(&trial)
    );
    let [_, _, live_part] = estimate.parts();
    let [_, trial_part, _] = trial.parts();
    let is_near = estimate.high_us >= trial.gain_us * (1.0 - TOLERANCE) || live_part >= trial_part;
    if estimate.high_us < trial.low_us && !(estimate.low_us > 0.0 && is_near) {
        LiveVerdict::Short(text)
    } else {
        LiveVerdict::Held(text)
    }
}

fn too_few(known: &[(&ExpectedGain, &LiveTimes)]) -> LiveVerdict {
    let count = |side: fn(&LiveTimes) -> usize| known.iter().map(|(_, times)| side(times)).sum::<usize>();
    let (old, new) = (count(|times| times.old_us.len()), count(|times| times.new_us.len()));
    let few = format!("too few requests to compare its gain with the trial's ({new} with it, {old} without)");
    let some: Vec<_> = known
        .iter()
        .filter(|(_, times)| times.old_us.len().min(times.new_us.len()) >= MIN_ANSWERS / 4)
        .copied()
        .collect();
    let estimate = estimate(&some);
    if !some.is_empty() && estimate.high_us < 0.0 {
        LiveVerdict::Worse(format!("{few}, and those take {} longer", units::millis(estimate.gain_us)))
    } else {
        LiveVerdict::TooFew(few)
    }
}

fn estimate(routes: &[(&ExpectedGain, &LiveTimes)]) -> Estimate {
    let samples: Vec<(&[f64], &[f64])> =
        routes.iter().map(|(_, times)| (times.old_us.as_slice(), times.new_us.as_slice())).collect();
    statistics::estimate_apart(&samples)
}

/// The trial's figures of the routes that are compared, with the weights of the live ones.
fn combined(routes: &[(&ExpectedGain, &LiveTimes)]) -> Estimate {
    let weight = |times: &LiveTimes| (times.old_us.len() + times.new_us.len()) as f64;
    let all: f64 = routes.iter().map(|(_, times)| weight(times)).sum();
    let mean = |of: fn(&ExpectedGain) -> f64| {
        routes.iter().map(|(one, times)| of(one) * weight(times)).sum::<f64>() / all.max(1.0)
    };
    Estimate {
        gain_us: mean(|one| one.gain_us),
        low_us: mean(|one| one.low_us),
        high_us: mean(|one| one.high_us),
        base_us: mean(|one| one.of_us),
    }
}

/// As `it saves 41 ms (38 to 44) of 120 ms of GET /a`.
fn saved(routes: &[(&ExpectedGain, &LiveTimes)], estimate: &Estimate) -> String {
    let route = &routes[0].0.route;
    let others = match routes.len() - 1 {
        0 => String::new(),
        more => format!(" and {}", units::count(more, "more route", "more routes")),
    };
    let verb = if estimate.gain_us < 0.0 { "costs" } else { "saves" };
    format!(
        "it {verb} {} ({}) of {} of {route}{others}",
        units::millis(estimate.gain_us),
        interval(estimate),
        units::millis(estimate.base_us)
    )
}

/// As `38 to 44`: savings if the gain is one, else what it costs.
fn interval(estimate: &Estimate) -> String {
    let shown = |us: f64| format!("{}{}", if us < 0.0 { "-" } else { "" }, units::bare_millis(us));
    if estimate.gain_us < 0.0 {
        format!("{} to {}", shown(-estimate.high_us), shown(-estimate.low_us))
    } else {
        format!("{} to {}", shown(estimate.low_us), shown(estimate.high_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn expectation(route: &str, gain_us: f64, of_us: f64) -> ExpectedGain {
        let (low_us, high_us) = (gain_us * 0.95, gain_us * 1.05);
        ExpectedGain { route: route.into(), gain_us, low_us, high_us, of_us }
    }

    fn times(route: &str, count: usize, old_us: f64, new_us: f64) -> LiveTimes {
        let mut random = Rng::with_seed(7);
        let mut noisy = |us: f64| (0..count).map(|_| us * (1.0 + 0.1 * (random.f64() - 0.5))).collect::<Vec<f64>>();
        LiveTimes { route: route.into(), old_us: noisy(old_us), new_us: noisy(new_us) }
    }

    fn verdict(old_us: f64, new_us: f64) -> LiveVerdict {
        compare(&[expectation("GET /a", 40_000.0, 100_000.0)], &[times("GET /a", 60, old_us, new_us)])
    }

    #[test]
    fn it_holds_where_the_intervals_overlap_or_it_is_more() {
        for new_us in [60_000.0, 62_000.0, 20_000.0] {
            assert!(
                matches!(verdict(100_000.0, new_us), LiveVerdict::Held(_)),
                "{new_us}: {:?}",
                verdict(100_000.0, new_us)
            );
        }
        let LiveVerdict::Held(text) = verdict(100_000.0, 60_000.0) else { panic!() };
        assert!(text.starts_with("it saves ") && text.ends_with(" of GET /a, in the trial 40 (38 to 42)"), "{text}");
    }

    #[test]
    fn less_than_the_trial_is_short() {
        for new_us in [75_000.0, 100_000.0, 120_000.0] {
            assert!(
                matches!(verdict(100_000.0, new_us), LiveVerdict::Short(_)),
                "{new_us}: {:?}",
                verdict(100_000.0, new_us)
            );
        }
        let LiveVerdict::Short(text) = verdict(100_000.0, 120_000.0) else { panic!() };
        assert!(text.starts_with("it costs 2"), "{text}");
    }

    #[test]
    fn a_narrow_interval_is_no_more_than_the_machine_is_like_itself() {
        let expected =
            |low_us: f64| ExpectedGain { low_us, high_us: 11_100.0, ..expectation("GET /a", 11_000.0, 12_000.0) };
        let live = |new_us| [times("GET /a", 60, 12_000.0, new_us)];
        assert!(matches!(compare(&[expected(10_900.0)], &live(1_800.0)), LiveVerdict::Held(_)));
        assert!(matches!(compare(&[expected(10_900.0)], &live(3_800.0)), LiveVerdict::Short(_)));
    }

    #[test]
    fn a_slow_or_a_fast_machine_changes_no_verdict() {
        // Longer requests that gain an equal part or an equal time, and shorter ones that gain an equal part.
        for (old_us, new_us) in [(200_000.0, 120_000.0), (200_000.0, 160_000.0), (50_000.0, 30_000.0)] {
            assert!(matches!(verdict(old_us, new_us), LiveVerdict::Held(_)), "{old_us}: {:?}", verdict(old_us, new_us));
        }
    }

    #[test]
    fn noise_of_short_requests_is_no_part_of_them() {
        let expected = [expectation("GET /a", 19_000.0, 270_000.0)];
        let wild = |us: f64| (0..60).map(|at| us * if at % 2 == 0 { 0.2 } else { 1.8 }).collect::<Vec<f64>>();
        let live = LiveTimes { route: "GET /a".into(), old_us: wild(1_700.0), new_us: wild(1_650.0) };
        assert!(matches!(compare(&expected, &[live]), LiveVerdict::Short(_)));
    }

    #[test]
    fn routes_weigh_as_much_as_they_are_asked_for() {
        let expected = [expectation("GET /a", 40_000.0, 100_000.0), expectation("GET /b", 10_000.0, 20_000.0)];
        let often = times("GET /b", 200, 20_000.0, 10_000.0);
        let live = [times("GET /a", 20, 100_000.0, 60_000.0), often.clone()];
        let LiveVerdict::Held(text) = compare(&expected, &live) else { panic!() };
        assert!(text.contains("GET /a and one more route") && text.contains("in the trial 13 ("), "{text}");
        // What nobody asks for decides nothing.
        let LiveVerdict::Held(text) = compare(&expected, &[often]) else { panic!() };
        assert!(text.contains(" of GET /b, in the trial 10 ("), "{text}");
    }

    #[test]
    fn few_answers_say_nothing_but_that_it_is_worse() {
        let expected = [expectation("GET /a", 40_000.0, 100_000.0)];
        let of = |count, new_us| compare(&expected, &[times("GET /a", count, 100_000.0, new_us)]);
        let few = "too few requests to compare its gain with the trial's (19 with it, 19 without)";
        assert_eq!(of(19, 100_000.0 * 0.9), LiveVerdict::TooFew(few.into()));
        assert!(matches!(of(19, 150_000.0), LiveVerdict::Worse(text) if text.starts_with(few)));
        assert!(matches!(of(3, 150_000.0), LiveVerdict::TooFew(_)), "three are an accident");
        assert!(matches!(compare(&expected, &[]), LiveVerdict::TooFew(_)));
    }
}
