//! What garbage collections cost a request. One comes once in several requests: of two copies that were asked a few dozen
//! times, it is chance which one had more of them, and what leaves outliers out leaves them out, too. A request pays for
//! them as much as it allocates.

use crate::{candidate::Measure, protocol::ReplayResult, statistics::Pair};

/// What one replay took: microseconds, and objects.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReplayCost {
    pub wall_us: f64,
    pub cpu_us: f64,
    /// Of both.
    pub gc_us: f64,
    pub allocated: f64,
}

impl ReplayCost {
    pub fn of(result: &ReplayResult) -> ReplayCost {
        let ReplayResult { wall_us, cpu_us, gc_us, allocated, .. } = *result;
        ReplayCost { wall_us, cpu_us, gc_us, allocated: allocated as f64 }
    }

    fn us(&self, measure: Measure, rate: Option<CollectionRate>) -> f64 {
        let us = match measure {
            Measure::Wall => self.wall_us,
            Measure::Cpu => self.cpu_us,
        };
        rate.map_or(us, |rate| us - self.gc_us + rate.0 * self.allocated)
    }
}

/// Control and trial of one request, measured one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayPair {
    /// Which request of the sample.
    pub request: usize,
    pub control: ReplayCost,
    pub trial: ReplayCost,
}

impl ReplayPair {
    /// With the collections that each replay's objects will cost, in place of those that came during it. `rate`: None:
    /// as they were measured.
    pub fn pair(&self, measure: Measure, rate: Option<CollectionRate>) -> Pair {
        let us = |cost: &ReplayCost| cost.us(measure, rate);
        Pair { request: self.request, control_us: us(&self.control), trial_us: us(&self.trial) }
    }
}

/// How long the collector works for one object. Microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollectionRate(f64);

impl CollectionRate {
    /// Of replays on both sides: the change must not be one of how garbage is collected.
    pub fn of<'a>(pairs: impl Iterator<Item = &'a ReplayPair>) -> CollectionRate {
        let (mut gc_us, mut allocated) = (0.0, 0.0);
        for replay in pairs.flat_map(|pair| [pair.control, pair.trial]) {
            gc_us += replay.gc_us;
            allocated += replay.allocated;
        }
        CollectionRate(if allocated > 0.0 { gc_us / allocated } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::estimate;

    fn cost(work_us: f64, gc_us: f64, allocated: f64) -> ReplayCost {
        ReplayCost { wall_us: work_us + gc_us + 50.0, cpu_us: work_us + gc_us, gc_us, allocated }
    }

    /// The control allocates twice as much. A collection comes with each 16,000 objects and takes 8 ms.
    fn pairs() -> Vec<ReplayPair> {
        let every = |number: usize, n: usize| if number % n == n - 1 { 8_000.0 } else { 0.0 };
        let pair = |number| ReplayPair {
            request: 0,
            control: cost(10_000.0, every(number, 8), 2_000.0),
            trial: cost(9_000.0, every(number, 16), 1_000.0),
        };
        (0..32).map(pair).collect()
    }

    #[test]
    fn what_a_request_pays_for_its_objects_is_part_of_a_gain() {
        let pairs = pairs();
        let rate = CollectionRate::of(pairs.iter());
        assert_eq!(rate, CollectionRate(0.5));
        for (measure, base_us) in [(Measure::Cpu, 11_000.0), (Measure::Wall, 11_050.0)] {
            let shared: Vec<Pair> = pairs.iter().map(|pair| pair.pair(measure, Some(rate))).collect();
            let found = estimate(&shared).unwrap();
            assert_eq!((found.gain_us, found.base_us), (1_500.0, base_us));
            // As measured, outliers are left out.
            let measured: Vec<Pair> = pairs.iter().map(|pair| pair.pair(measure, None)).collect();
            assert!(estimate(&measured).unwrap().gain_us < 1_300.0);
        }
    }

    #[test]
    fn without_objects_there_is_no_rate() {
        let pair = ReplayPair { request: 3, control: cost(10.0, 0.0, 0.0), trial: cost(9.0, 0.0, 0.0) };
        let rate = CollectionRate::of([pair].iter());
        assert_eq!(pair.pair(Measure::Cpu, Some(rate)), Pair { request: 3, control_us: 10.0, trial_us: 9.0 });
    }
}
