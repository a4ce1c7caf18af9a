//! Durations counted in buckets of fixed bounds: from a microsecond to 100 seconds, ten to a decade, so that a quantile
//! is known to within an eighth. It never forgets: what a time span held is the difference of two looks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::support::clock::Micros;

const BOUNDS: usize = 78;

/// The upper bounds of the buckets in microseconds, each included; the last bucket has none.
const UPPER: [Micros; BOUNDS] = {
    const BELOW_TEN: [Micros; 7] = [1, 2, 3, 4, 5, 6, 8];
    // Tenths, as in the Renard series.
    const DECADE: [Micros; 10] = [100, 125, 160, 200, 250, 320, 400, 500, 630, 800];
    let mut bounds = [0; BOUNDS];
    let mut at = 0;
    while at < BELOW_TEN.len() {
        bounds[at] = BELOW_TEN[at];
        at += 1;
    }
    let mut scale = 1;
    while at + 1 < BOUNDS {
        bounds[at] = DECADE[(at - BELOW_TEN.len()) % 10] * scale / 10;
        at += 1;
        if (at - BELOW_TEN.len()) % 10 == 0 {
            scale *= 10;
        }
    }
    bounds[at] = 100_000_000;
    bounds
};

/// A histogram that is being written.
pub(super) struct AtomicHistogram {
    buckets: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

impl Default for AtomicHistogram {
    fn default() -> AtomicHistogram {
        AtomicHistogram { buckets: [const { AtomicU64::new(0) }; BOUNDS + 1], sum: AtomicU64::new(0) }
    }
}

impl AtomicHistogram {
    pub fn add(&self, duration: Micros) {
        self.buckets[UPPER.partition_point(|bound| *bound < duration)].fetch_add(1, Relaxed);
        self.sum.fetch_add(duration, Relaxed);
    }

    pub fn add_to(&self, histogram: &mut Histogram) {
        for (sum, bucket) in histogram.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Relaxed);
        }
        histogram.sum += self.sum.load(Relaxed);
    }
}

/// What a histogram held at one moment, or between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BOUNDS + 1],
    sum: Micros,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [0; BOUNDS + 1], sum: 0 }
    }
}

impl Histogram {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Microseconds in all.
    pub fn sum(&self) -> Micros {
        self.sum
    }

    /// How many took no longer than `bound`, which is taken as the next lower one of the buckets'.
    pub fn within(&self, bound: Micros) -> u64 {
        self.buckets[..UPPER.partition_point(|upper| *upper <= bound)].iter().sum()
    }

    /// Microseconds that the given share (0 to 1) did not exceed, between the bounds of a bucket as if it were filled
    /// evenly. None: there is nothing in it.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = (share.clamp(0.0, 1.0) * count as f64).max(f64::MIN_POSITIVE);
        let mut below = 0;
        for (nth, &held) in self.buckets.iter().enumerate() {
            if held > 0 && (below + held) as f64 >= wanted {
                let lower = nth.checked_sub(1).map_or(0, |before| UPPER[before]) as f64;
                // Of what took longer than the last bound nothing more is known.
                let upper = UPPER.get(nth).map_or(lower, |upper| *upper as f64);
                return Some(lower + (upper - lower) * (wanted - below as f64) / held as f64);
            }
            below += held;
        }
        None
    }

    /// What was added since an earlier look.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut since = self.clone();
        since.buckets.iter_mut().zip(earlier.buckets).for_each(|(now, then)| *now = now.saturating_sub(then));
        since.sum = self.sum.saturating_sub(earlier.sum);
        since
    }

    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: impl IntoIterator<Item = Micros>) -> Histogram {
        let counted = AtomicHistogram::default();
        durations.into_iter().for_each(|duration| counted.add(duration));
        let mut histogram = Histogram::default();
        counted.add_to(&mut histogram);
        histogram
    }

    #[test]
    fn bounds_rise_and_hold_the_usual_ones() {
        assert!(UPPER.windows(2).all(|pair| pair[0] < pair[1]), "{UPPER:?}");
        for usual in
            [10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 25_000, 1_000_000, 2_500_000, 10_000_000, 100_000_000]
        {
            assert!(UPPER.contains(&usual), "{usual}");
        }
    }

    #[test]
    fn quantiles_are_true_to_an_eighth() {
        let histogram = of(1..=100_000);
        for (share, truth) in [(0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = histogram.quantile(share).unwrap();
            assert!((found / truth - 1.0).abs() < 0.125, "{share}: {found}");
        }
        assert_eq!((histogram.count(), histogram.sum()), (100_000, 5_000_050_000));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn bounds_are_included_and_nothing_is_too_long() {
        let histogram = of([0, 1000, 1001, 100_000_000, 100_000_001, Micros::MAX / 2]);
        assert_eq!((histogram.within(999), histogram.within(1000), histogram.within(1250)), (1, 2, 3));
        assert_eq!((histogram.within(100_000_000), histogram.count()), (4, 6));
        assert_eq!(histogram.quantile(1.0), Some(100_000_000.0));
    }

    #[test]
    fn a_time_span_is_the_difference_of_two_looks() {
        let (early, mut late) = (of([10, 20]), of([10, 20, 5000]));
        assert_eq!(late.since(&early), of([5000]));
        late.merge(&early);
        assert_eq!(late, of([10, 20, 5000, 10, 20]));
    }
}
