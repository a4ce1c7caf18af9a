//! `--find`: the largest rate at which the p99 stays within a limit, by open loops that narrow it down. Never says why a
//! server is no faster.

use std::{rc::Rc, time::Duration};

use crate::{
    run::End,
    session::{Findings, Measured, Session, SessionError},
};

/// Each step takes this long, unless -t says otherwise.
const STEP: Duration = Duration::from_secs(3);
/// The rate is narrowed down to this part of it.
const EXACT: f64 = 0.03;
/// Requests a second of the first step.
const FIRST: f64 = 50.0;
/// No more steps than these.
const MOST: usize = 24;
/// A rate that is not reached to this part is too much.
const REACHED: f64 = 0.98;

/// One rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Requests a second.
    pub rate: f64,
    pub reached: f64,
    /// Microseconds.
    pub p99: u64,
    pub failed: u64,
    pub is_within: bool,
}

/// Doubles the rate until the limit is exceeded, then halves the interval between the best and the worst.
pub async fn run(session: &Rc<Session>, limit: Duration) -> Result<Findings, SessionError> {
    let time = session.options.end.time.filter(|_| session.options.end.requests.is_none()).unwrap_or(STEP);
    // The default time is for one run, this for each step.
    let time = if time == Duration::from_secs(10) { STEP } else { time };
    let end = End { requests: None, time: Some(time) };
    let (mut steps, mut best): (Vec<Step>, Option<Measured>) = (Vec::new(), None);
    let (mut good, mut bad) = (0.0, f64::INFINITY);
    let mut rate = FIRST;
    while steps.len() < MOST && !session.is_interrupted() {
        let label = format!("{rate:.0}/s");
        let measured = session.open(rate, end, &label).await?;
        if session.is_interrupted() {
            break;
        }
        let step = step_of(&measured, rate, limit);
        steps.push(step);
        if step.is_within {
            good = rate;
            best = Some(measured);
        } else {
            bad = rate
        }
        let Some(next) = next_rate(good, bad) else { break };
        rate = next;
    }
    Ok(Findings::Search { limit, steps, best: best.map(Box::new) })
}

fn step_of(measured: &Measured, rate: f64, limit: Duration) -> Step {
    let recording = &measured.recording;
    let (p99, failed) = (recording.percentile(99.0), recording.failed() + recording.not_2xx());
    let reached = recording.rate();
    let is_within = u128::from(p99) <= limit.as_micros() && reached >= rate * REACHED && failed == 0;
    Step { rate, reached, p99, failed, is_within }
}

/// None: it is exact enough, or nothing is slow enough.
fn next_rate(good: f64, bad: f64) -> Option<f64> {
    if bad.is_infinite() {
        return Some(good * 2.0);
    }
    if good == 0.0 {
        return (bad > 1.0).then_some(bad / 4.0);
    }
    (bad / good > 1.0 + EXACT).then_some((good * bad).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(capacity: f64) -> (usize, f64) {
        let (mut good, mut bad, mut rate) = (0.0, f64::INFINITY, FIRST);
        for steps in 1..=MOST {
            if rate <= capacity {
                good = rate
            } else {
                bad = rate
            }
            let Some(next) = next_rate(good, bad) else { return (steps, good) };
            rate = next;
        }
        (MOST, good)
    }

    #[test]
    fn the_rate_is_found_within_a_few_percent() {
        for capacity in [3.0, 49.0, 50.0, 777.0, 20_000.0] {
            let (steps, found) = search(capacity);
            assert!(found <= capacity && found > capacity * 0.96, "{capacity}: {found}");
            assert!(steps < MOST, "{capacity}: {steps} steps");
        }
    }
}
