//! Whether a canary does as well as the generation before: arithmetic over what both answered. It never acts on it.

use std::{sync::Arc, time::Duration};

use doctor::live::{ExpectedGain, LiveVerdict};
use units::{bytes, millis};

use crate::{config::SiteConfig, origins::workers::dispatch::comparison::Side, support::clock::Micros};

/// What a canary is given.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Of 10,000 requests.
    pub part: u32,
    /// For so long, and until it has answered so many requests; but no longer than ten times as long.
    pub time: Duration,
    pub requests: u64,
    /// What the change is to bring. None: it is enough that it does no worse.
    pub expectation: Option<Arc<Expectation>>,
    /// What it is started with in place of the site's settings. None: these.
    pub settings: Option<Arc<SiteConfig>>,
}

/// What a trial of the change has shown (`paceline doctor`), and where the change is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectation {
    pub gains: Vec<ExpectedGain>,
    /// Files that hold the change, below the application's folder. Empty: it is in none.
    pub files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is too early to say.
    Wait,
    /// It takes over; the figures in a line.
    Promote(String),
    /// The old one goes on alone; why, with figures.
    RollBack(String),
}

/// Errors that are no accident, of the canary's requests.
const ERRORS: u64 = 3;
/// By so much the share of errors may be larger.
const MORE_ERRORS: f64 = 0.01;
/// Answers of a route on each side that make its times comparable.
const COMPARABLE: usize = 10;
/// So many times as long the median of a route may be, and its 95th percentile; below the second figure (microseconds)
/// a difference is none.
const SLOWER: Bound = Bound { times: 1.5, more: 5_000.0 };
const SLOWER_AT_WORST: Bound = Bound { times: 2.0, more: 20_000.0 };
/// So many times as much private memory a worker may have, and so many bytes more.
const LARGER: Bound = Bound { times: 1.5, more: 32e6 };

/// What is looked at only when the time is over, since it takes a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastLook {
    /// Bytes of private memory of a worker, of the old one and the canary's.
    pub memory: Option<[u64; 2]>,
    /// The live gain beside the plan's expectation.
    pub gain: Option<LiveVerdict>,
}

pub fn judge(plan: &Plan, elapsed: Duration, [old, new]: &[Side; 2], look: &LastLook) -> Verdict {
    let (old_rate, new_rate) = (rate(old), rate(new));
    if new.errors >= ERRORS && new_rate > old_rate + MORE_ERRORS {
        return Verdict::RollBack(format!(
            "{} of {} requests failed ({:.1} %), of the old generation's {} of {} ({:.1} %)",
            new.errors,
            new.requests,
            new_rate * 100.0,
            old.errors,
            old.requests,
            old_rate * 100.0
        ));
    }
    let is_known = match (&plan.expectation, &look.gain) {
        (None, _) => true,
        (Some(_), gain) => matches!(gain, Some(LiveVerdict::Held(_) | LiveVerdict::Short(_))),
    };
    if elapsed < plan.time || (new.requests < plan.requests || !is_known) && elapsed < plan.time * 10 {
        return Verdict::Wait;
    }
    if let Some(LiveVerdict::Short(why) | LiveVerdict::Worse(why)) = &look.gain {
        return Verdict::RollBack(why.clone());
    }
    let times = times(old, new);
    if let Some(times) = &times {
        if SLOWER.is_exceeded(times.median) || SLOWER_AT_WORST.is_exceeded(times.worst) {
            return Verdict::RollBack(times.summary());
        }
    }
    if let Some([old, new]) = look.memory.map(|both| both.map(|size| size as f64)) {
        if LARGER.is_exceeded([old, new]) {
            let [old, new] = [old, new].map(|size| bytes(size as u64));
            return Verdict::RollBack(format!("a worker has {new} of its own, an old one {old}"));
        }
    }
    let mut text = format!(
        "{} of {} requests failed, of the old generation's {} of {}",
        new.errors, new.requests, old.errors, old.requests
    );
    text.extend(times.map(|times| format!("; {}", times.summary())));
    text.extend(look.memory.map(|[old, new]| format!("; {} a worker, before {}", bytes(new), bytes(old))));
    if let Some(LiveVerdict::Held(gain) | LiveVerdict::TooFew(gain)) = &look.gain {
        text.push_str(&format!("; {gain}"));
    }
    Verdict::Promote(text)
}

/// How much more something may be than it was before.
struct Bound {
    /// So many times as much ...
    times: f64,
    /// ... or so much above it.
    more: f64,
}

impl Bound {
    fn is_exceeded(&self, [before, now]: [f64; 2]) -> bool {
        now > before * self.times && now > before + self.more
    }
}

fn rate(side: &Side) -> f64 {
    if side.requests == 0 {
        0.0
    } else {
        side.errors as f64 / side.requests as f64
    }
}

/// Of the routes that both have answered often enough: medians and 95th percentiles, each route with the weight of its
/// requests.
struct Times {
    median: [f64; 2],
    worst: [f64; 2],
}

impl Times {
    fn summary(&self) -> String {
        let [[old, new], [old_worst, new_worst]] =
            [self.median, self.worst].map(|both| both.map(|micros| millis(micros / 1000.0)));
        format!("median {new}, p95 {new_worst} on the same routes, before {old} and {old_worst}")
    }
}

fn times(old: &Side, new: &Side) -> Option<Times> {
    let (mut all, mut median, mut worst) = (0.0, [0.0; 2], [0.0; 2]);
    for (route, new) in new.times.iter() {
        let Some(old) = old.times.get(route).filter(|old| old.len() >= COMPARABLE && new.len() >= COMPARABLE) else {
            continue;
        };
        let weight = new.len() as f64;
        all += weight;
        for (side, times) in [old, new].into_iter().enumerate() {
            median[side] += weight * percentile(times, 0.5);
            worst[side] += weight * percentile(times, 0.95);
        }
    }
    (all > 0.0).then(|| Times { median: median.map(|sum| sum / all), worst: worst.map(|sum| sum / all) })
}

/// By the nearest rank: of twenty the 95th percentile is the second longest, and one that was slow by chance decides
/// nothing.
fn percentile(times: &[Micros], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = ((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { part: 500, time: Duration::from_secs(60), requests: 20, expectation: None, settings: None };
    const MINUTE: Duration = Duration::from_secs(60);

    fn side(requests: u64, errors: u64, took: Micros) -> Side {
        Side { requests, errors, times: [(1, vec![took; requests as usize])].into() }
    }

    #[test]
    fn it_waits_for_time_and_requests_but_not_for_ever() {
        let (old, new) = (side(100, 0, 1000), side(19, 0, 1000));
        let few = [old.clone(), new];
        let enough = [old, side(20, 0, 1000)];
        assert_eq!(judge(&PLAN, MINUTE / 2, &enough, &LastLook::default()), Verdict::Wait);
        assert_eq!(judge(&PLAN, MINUTE, &few, &LastLook::default()), Verdict::Wait);
        assert!(matches!(judge(&PLAN, MINUTE, &enough, &LastLook::default()), Verdict::Promote(_)));
        assert!(matches!(judge(&PLAN, MINUTE * 10, &few, &LastLook::default()), Verdict::Promote(_)));
    }

    #[test]
    fn errors_end_it_at_once() {
        let both = [side(1000, 2, 1000), side(40, 3, 1000)];
        let told = "3 of 40 requests failed (7.5 %), of the old generation's 2 of 1000 (0.2 %)";
        assert_eq!(judge(&PLAN, MINUTE / 60, &both, &LastLook::default()), Verdict::RollBack(told.into()));
        // Two may be an accident; and what the old one does as well is no fault of the new code.
        for both in [[side(1000, 0, 1000), side(20, 2, 1000)], [side(100, 50, 1000), side(20, 10, 1000)]] {
            assert!(matches!(judge(&PLAN, MINUTE, &both, &LastLook::default()), Verdict::Promote(_)));
        }
    }

    #[test]
    fn slowness_on_the_same_routes() {
        let verdict = |old, new| judge(&PLAN, MINUTE, &[side(100, 0, old), side(20, 0, new)], &LastLook::default());
        assert_eq!(
            verdict(20_000, 40_000),
            Verdict::RollBack("median 40.0 ms, p95 40.0 ms on the same routes, before 20.0 ms and 20.0 ms".into())
        );
        assert!(matches!(verdict(1_000, 4_000), Verdict::Promote(_)), "a few milliseconds are noise");
        let elsewhere = Side { requests: 20, errors: 0, times: [(2, vec![900_000; 20])].into() };
        let both = [side(100, 0, 1000), elsewhere];
        assert!(
            matches!(judge(&PLAN, MINUTE, &both, &LastLook::default()), Verdict::Promote(_)),
            "another route is no comparison"
        );
    }

    #[test]
    fn one_that_was_slow_by_chance_decides_nothing() {
        let with = |slow: usize| {
            let mut new = side(20, 0, 20_000);
            new.times.values_mut().for_each(|times| times[..slow].fill(400_000));
            judge(&PLAN, MINUTE, &[side(100, 0, 20_000), new], &LastLook::default())
        };
        assert!(matches!(with(1), Verdict::Promote(_)));
        assert!(matches!(with(2), Verdict::RollBack(_)));
    }

    #[test]
    fn memory_of_a_worker() {
        let verdict = |memory| {
            let look = LastLook { memory: Some(memory), ..LastLook::default() };
            judge(&PLAN, MINUTE, &[side(100, 0, 9), side(20, 0, 9)], &look)
        };
        assert_eq!(
            verdict([50 << 20, 120 << 20]),
            Verdict::RollBack("a worker has 120 MB of its own, an old one 50.0 MB".into())
        );
        assert!(
            matches!(verdict([50 << 20, 80 << 20]), Verdict::Promote(text) if text.ends_with("80.0 MB a worker, before 50.0 MB"))
        );
    }
    #[test]
    fn what_a_trial_has_shown_is_to_be_seen_live() {
        let plan = Plan { expectation: Some(Arc::default()), ..PLAN };
        let at = |elapsed, gain: Option<LiveVerdict>| {
            let both = [side(100, 0, 9), side(20, 0, 9)];
            judge(&plan, elapsed, &both, &LastLook { gain, ..LastLook::default() })
        };
        let (held, short) = (LiveVerdict::Held("it saves 4".into()), LiveVerdict::Short("it saves 1".into()));
        let (few, worse) = (LiveVerdict::TooFew("too few".into()), LiveVerdict::Worse("longer".into()));
        assert!(matches!(at(MINUTE, Some(held)), Verdict::Promote(text) if text.ends_with("; it saves 4")));
        assert_eq!(at(MINUTE, Some(short)), Verdict::RollBack("it saves 1".into()));
        assert_eq!(at(MINUTE * 9, Some(few.clone())), Verdict::Wait);
        assert!(matches!(at(MINUTE * 10, Some(few)), Verdict::Promote(text) if text.ends_with("; too few")));
        assert_eq!(at(MINUTE * 9, Some(worse.clone())), Verdict::Wait);
        assert_eq!(at(MINUTE * 10, Some(worse)), Verdict::RollBack("longer".into()));
        assert_eq!(at(MINUTE * 9, None), Verdict::Wait);
    }
}
