//! What compression is worth: the bytes that it spares a page, by the time that they take over a line, against the
//! processor's time. It never compresses.

use serde::{Deserialize, Serialize};

use super::{Bound, Gain, Outcome, Standing};
use crate::{findings::LINE_BYTES, units};

/// Bytes that are left, at most, as a part: less is not worth the work.
const LEFT_PART: f64 = 0.8;
/// Microseconds of a page over a line.
const NOTABLE_US: f64 = 300.0;

/// A route's pages, compressed as the front does it: the mean of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompressedRoute {
    pub route: String,
    /// 0 to 1: of all GET requests.
    pub share: f64,
    /// As `gzip`: what its visitors accept, in the front's order.
    pub coding: String,
    /// Bytes of a body, as it is and compressed.
    pub before: u64,
    pub after: u64,
    /// Of compressing it: the processor's time. Microseconds.
    pub cpu_us: f64,
}

impl CompressedRoute {
    /// Microseconds of a page over a line of 8 Mbit/s, without those of compressing it.
    fn gain_us(&self) -> f64 {
        (self.before as f64 - self.after as f64) / LINE_BYTES * 1e6 - self.cpu_us
    }

    fn is_worth(&self) -> bool {
        self.gain_us() >= NOTABLE_US && self.after as f64 <= self.before as f64 * LEFT_PART
    }

    /// As `-28 KB of 31 KB (90 %)`.
    pub fn saved(&self) -> String {
        let saved = self.before.saturating_sub(self.after);
        let part = units::percent(saved as f64 / self.before.max(1) as f64);
        format!("-{} of {} ({part})", units::bytes(saved), units::bytes(self.before))
    }

    /// As `by gzip, for 0.31 ms of the processor`.
    pub fn cost(&self) -> String {
        format!("by {}, for {} of the processor", self.coding, units::millis(self.cpu_us))
    }
}

/// Those with most to gain first.
pub(super) fn ordered(outcome: &Outcome) -> Vec<CompressedRoute> {
    let mut all = outcome.compression.clone();
    all.sort_by(|one, other| (other.gain_us() * other.share).total_cmp(&(one.gain_us() * one.share)));
    all
}

pub(super) fn gains(ordered: &[CompressedRoute]) -> Vec<Gain> {
    let gain = |one: &CompressedRoute| Gain {
        route: one.route.clone(),
        share: one.share,
        gain_us: one.gain_us(),
        // Sending is no part of the request's time here.
        of_us: 0.0,
        interval_us: None,
        bound: Bound::Computed,
    };
    ordered.iter().map(gain).collect()
}

pub(super) fn standing(ordered: &[CompressedRoute]) -> Standing {
    match ordered.first() {
        None => Standing::Failed { why: "its pages could not be compressed".into() },
        Some(_) if ordered.iter().any(CompressedRoute::is_worth) => Standing::Worth,
        Some(first) => Standing::NotWorth { why: format!("{} {}", first.saved(), first.cost()) },
    }
}
