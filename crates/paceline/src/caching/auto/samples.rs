//! Which requests are looked at in mode watch: the first ones, and then those of half a second in twenty, so that watching costs
//! a fortieth of looking at all of them. The application decides the same by the same clock (auto_cache/samples.rb).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::support::clock::Micros;

/// So many are looked at in any case: of each process there, of all of them here.
const FIRST: u64 = 300;
/// In microseconds: how often, and for how long.
const EVERY: Micros = 20_000_000;
const LONG: Micros = 500_000;

#[derive(Debug, Default)]
pub struct Samples {
    asked: AtomicU64,
}

impl Samples {
    /// Whether a request is looked at that comes now.
    pub fn take(&self, now: Micros) -> bool {
        self.asked.fetch_add(1, Relaxed) < FIRST || now % EVERY < LONG
    }

    /// Whether not all requests are looked at any more.
    pub fn are_few(&self) -> bool {
        self.asked.load(Relaxed) > FIRST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_taken_and_then_a_fortieth_of_the_time() {
        let samples = Samples::default();
        assert!((0..FIRST).all(|number| samples.take(5_000_000 + number)) && !samples.are_few());
        let taken = (0..200).filter(|tenth| samples.take(40_000_000 + tenth * 100_000)).count();
        assert_eq!((taken, samples.are_few()), (5, true));
    }
}
