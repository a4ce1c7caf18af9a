//! What `--find` found, on a terminal.

use std::{fmt::Write as _, time::Duration};

use units::{millis, number};

use crate::search::Step;

/// The rate, and the steps that led to it.
pub fn text(url: &str, limit: Duration, steps: &[Step]) -> String {
    let limit = millis(limit.as_secs_f64() * 1000.0);
    let best = steps.iter().filter(|step| step.is_within).map(|step| step.rate).fold(0.0, f64::max);
    let mut text = if best > 0.0 {
        format!("{url}: {} requests/s are the most with p99 <= {limit}\n\n", number(best.floor()))
    } else {
        format!("{url}: p99 is above {limit}, or requests fail, at each rate that was tried\n\n")
    };
    let _ = writeln!(text, "  {:>12}{:>12}{:>12}{:>10}", "requests/s", "answered", "p99", "failed");
    let mut sorted = steps.to_vec();
    sorted.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    for step in sorted {
        let mark = if step.is_within { "" } else { "  too much" };
        let (rate, reached, p99) =
            (number(step.rate.round()), number(step.reached.round()), millis(step.p99 as f64 / 1000.0));
        let _ = writeln!(text, "  {rate:>12}{reached:>12}{p99:>12}{:>10}{mark}", step.failed);
    }
    text
}
