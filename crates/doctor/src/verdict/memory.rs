//! What another allocator is worth: it must save memory for sure, and no time may be lost by it. It never compares pages:
//! an allocator can't change them.

use serde::{Deserialize, Serialize};

use super::{Outcome, Standing};
use crate::{
    statistics::{estimate, MIN_PART, MIN_ROUNDS},
    units,
};

/// Part of a worker's private memory: less is not worth a setting.
const SAVED_PART: f64 = 0.1;
/// Bytes of it: another allocator is one more thing to know of, and nearly every application could save a little by one.
const SAVED: u64 = 12 << 20;
/// Each pair of copies must save this part: a heap is never twice of the same size.
const SURE_PART: f64 = 0.05;
/// Part of a request's processor time that it may seem to take more, as long as that is not sure.
const SLOWER_PART: f64 = 0.05;

/// Private memory of two copies that have answered the same requests, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPair {
    pub control: u64,
    pub trial: u64,
}

impl MemoryPair {
    /// Below zero: the trial has more.
    fn saved_part(&self) -> f64 {
        (self.control as f64 - self.trial as f64) / self.control.max(1) as f64
    }

    /// The middle ones of several pairs. None: there are none.
    pub fn median(pairs: &[MemoryPair]) -> Option<MemoryPair> {
        let middle = |of: fn(&MemoryPair) -> u64| {
            let mut all: Vec<u64> = pairs.iter().map(of).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied()
        };
        Some(MemoryPair { control: middle(|pair| pair.control)?, trial: middle(|pair| pair.trial)? })
    }
}

pub(super) fn standing(outcome: &Outcome) -> Standing {
    let time = outcome.routes.first().and_then(|all| estimate(&all.cpu));
    let (Some(pair), Some(time)) = (MemoryPair::median(&outcome.memories), time) else {
        return Standing::Failed { why: "too few measurements".into() };
    };
    let part = pair.saved_part();
    let [gain, _, high] = time.parts();
    let is_slower = gain < -SLOWER_PART || high < 0.0 && gain < -MIN_PART;
    let is_enough = part >= SAVED_PART && pair.control.saturating_sub(pair.trial) >= SAVED;
    let is_sure =
        outcome.memories.len() >= MIN_ROUNDS && outcome.memories.iter().all(|one| one.saved_part() >= SURE_PART);
    if is_enough && is_sure && !is_slower {
        return Standing::Worth;
    }
    let note = match () {
        () if is_slower => format!(", +{} of the processor", units::percent(-gain)),
        () if is_enough => ", noise".into(),
        () if part > 0.0 => ", too little".into(),
        () => String::new(),
    };
    let sign = if part < 0.0 { "+" } else { "-" };
    Standing::NotWorth { why: format!("{sign}{} of a worker's memory{note}", units::percent(part.abs())) }
}
