//! Whether one server is faster than another, from slices of time in which they were measured in turn. Says a difference
//! only where 99 of 100 such intervals contain the true ratio, so that chance alone is rarely taken for one. Never measures.

use fastrand::Rng;

/// What one side did in one slice.
#[derive(Debug, Clone, Default)]
pub struct SliceFigures {
    /// Answers a second.
    pub rate: f64,
    /// Microseconds, in any order.
    pub latencies: Vec<u32>,
}

/// One side's figure divided by the other's, with the interval that contains the true one (99 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

/// The normal distribution's 99.5th percentile: both tails together are 1 %.
const Z: f64 = 2.5758;
/// Draws of the bootstrap.
const DRAWS: usize = 400;

impl Ratio {
    /// The interval does not contain 1.
    pub fn is_different(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// `more`, `less`: words for above and below 1. Like "31 % faster (29 to 33)".
    pub fn words(&self, more: &str, less: &str) -> String {
        if !self.is_different() {
            return format!("no difference ({:+.1} to {:+.1} %)", percent(self.low), percent(self.high));
        }
        let (word, figures) = if self.middle > 1.0 {
            (more, [self.middle, self.low, self.high].map(percent))
        } else {
            (less, [self.middle, self.high, self.low].map(|ratio| -percent(ratio)))
        };
        let [middle, low, high] = figures;
        if middle < 10.0 {
            format!("{middle:.1} % {word} ({low:.1} to {high:.1})")
        } else {
            format!("{middle:.0} % {word} ({low:.0} to {high:.0})")
        }
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// B's rate by A's, of slices that were measured one after the other: the paired t interval of the logarithms. None:
/// fewer than five pairs, or nothing was answered in some slice.
pub fn rates(a: &[SliceFigures], b: &[SliceFigures]) -> Option<Ratio> {
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b.rate / a.rate).ln()).collect();
    interval(&logs).map(|(middle, half)| of_logs(middle, half))
}

/// The ratio of the rates of two runs that were not measured together (Welch's t interval).
pub fn rates_apart(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let logs = |rates: &[f64]| rates.iter().map(|rate| rate.ln()).collect::<Vec<_>>();
    let (a, b) = (logs(a), logs(b));
    let ((mean_a, half_a), (mean_b, half_b)) = (interval(&a)?, interval(&b)?);
    Some(of_logs(mean_b - mean_a, half_a.hypot(half_b)))
}

/// The mean, and half of its interval.
fn interval(logs: &[f64]) -> Option<(f64, f64)> {
    if logs.len() < 5 || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, t_quantile(count - 1.0) * (variance / count).sqrt()))
}

/// Student's t at 99.5 %, by Fisher's expansion (Abramowitz and Stegun 26.7.5).
fn t_quantile(freedom: f64) -> f64 {
    let z = Z;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * freedom.powi(3))
}

fn of_logs(middle: f64, half: f64) -> Ratio {
    Ratio { middle: middle.exp(), low: (middle - half).exp(), high: (middle + half).exp() }
}

/// B's latency at a percentile (0 to 100) by A's. None: fewer than five pairs, or too few answers for this percentile.
///
/// Where each slice has answers enough for a percentile of its own, it is the paired t interval of their ratios, as with
/// rates. Otherwise pairs of slices are drawn again and again (bootstrap), so that what came together in time stays
/// together; of a few pairs that is a less sure estimate.
pub fn percentiles(a: &[SliceFigures], b: &[SliceFigures], percentile: f64) -> Option<Ratio> {
    let pairs = a.len().min(b.len());
    let (a, b) = (&a[..pairs], &b[..pairs]);
    let least = 10.0 / (1.0 - percentile / 100.0).max(1e-6);
    let answers = |side: &[SliceFigures]| side.iter().map(|slice| slice.latencies.len()).sum::<usize>() as f64;
    if pairs < 5 || answers(a) < least || answers(b) < least {
        return None;
    }
    if a.iter().chain(b).all(|slice| slice.latencies.len() as f64 >= least) {
        let at = |slice: &SliceFigures| Sorted::new(std::slice::from_ref(slice)).at(&[1], percentile);
        let logs: Option<Vec<f64>> = a.iter().zip(b).map(|(a, b)| Some((at(b)? / at(a)?).ln())).collect();
        return interval(&logs?).map(|(middle, half)| of_logs(middle, half));
    }
    resampled(a, b, percentile)
}

/// By the bootstrap.
fn resampled(a: &[SliceFigures], b: &[SliceFigures], percentile: f64) -> Option<Ratio> {
    let pairs = a.len();
    let (a, b) = (Sorted::new(a), Sorted::new(b));
    let ratio = |weights: &[u32]| Some(b.at(weights, percentile)? / a.at(weights, percentile)?);
    let middle = ratio(&vec![1; pairs])?;
    let mut random = Rng::with_seed(0x5eed);
    let mut draws: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let mut weights = vec![0; pairs];
            for _ in 0..pairs {
                weights[random.usize(..pairs)] += 1;
            }
            Some(ratio(&weights)?.ln())
        })
        .collect();
    draws.sort_by(f64::total_cmp);
    // By the draws' own spread rather than by their outermost values, which a few slices give no good estimate of.
    let mean = draws.iter().sum::<f64>() / draws.len().max(1) as f64;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len().max(2) as f64;
    let correction = (pairs as f64 / (pairs as f64 - 1.0)).sqrt();
    Some(of_logs(middle.ln(), t_quantile(pairs as f64 - 1.0) * variance.sqrt() * correction))
}

/// All latencies of one side in order, each with its slice.
struct Sorted(Vec<(u32, u32)>);

impl Sorted {
    fn new(slices: &[SliceFigures]) -> Sorted {
        let of = |(index, slice): (usize, &SliceFigures)| {
            slice.latencies.iter().map(|latency| (*latency, index as u32)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = slices.iter().enumerate().flat_map(of).collect();
        all.sort_unstable();
        Sorted(all)
    }

    /// Where each slice counts as often as its weight says.
    fn at(&self, weights: &[u32], percentile: f64) -> Option<f64> {
        let sum: u64 = self.0.iter().map(|(_, slice)| u64::from(weights[*slice as usize])).sum();
        let rank = (sum as f64 * percentile / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.0.iter().find_map(|(latency, slice)| {
            seen += u64::from(weights[*slice as usize]);
            (seen >= rank).then_some(f64::from((*latency).max(1)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of a server whose speed wanders, as on a machine that others use too: both sides have that in common.
    fn slices(random: &mut Rng, faster: f64) -> (Vec<SliceFigures>, Vec<SliceFigures>) {
        let side = |random: &mut Rng, speed: f64| {
            let rate = speed * (1.0 + 0.06 * (random.f64() - 0.5));
            side(random, rate, 200)
        };
        (0..25)
            .map(|_| {
                let speed = 1000.0 * (1.0 + 0.3 * random.f64());
                (side(random, speed), side(random, speed * faster))
            })
            .unzip()
    }

    fn side(random: &mut Rng, rate: f64, answers: usize) -> SliceFigures {
        let latencies = (0..answers).map(|_| (1e6 / rate * (0.5 - (1.0 - random.f64()).ln())) as u32);
        SliceFigures { latencies: latencies.collect(), rate }
    }

    /// A short run beside compilers: in about half of the slices something takes half of the machine.
    fn disturbed(random: &mut Rng) -> (Vec<SliceFigures>, Vec<SliceFigures>) {
        let mut slice = || {
            let speed = if random.usize(..2) == 0 { 0.5 } else { 1.0 };
            let rate = 5000.0 * speed * (1.0 + 0.4 * (random.f64() - 0.5));
            side(random, rate, 1000)
        };
        (0..7).map(|_| (slice(), slice())).unzip()
    }

    /// Of a hundred comparisons of a server with itself, those that say "no difference" of rate, median and p99.
    fn same(mut pairs: impl FnMut() -> (Vec<SliceFigures>, Vec<SliceFigures>)) -> usize {
        let is_same = |(a, b): (Vec<SliceFigures>, Vec<SliceFigures>)| {
            let found = [rates(&a, &b), percentiles(&a, &b, 50.0), percentiles(&a, &b, 99.0)];
            found.iter().all(|ratio| !ratio.unwrap().is_different())
        };
        (0..100).filter(|_| is_same(pairs())).count()
    }

    #[test]
    fn chance_is_rarely_taken_for_a_difference() {
        let mut random = Rng::with_seed(1);
        let quiet = same(|| slices(&mut random, 1.0));
        assert!(quiet >= 95, "{quiet} of 100");
        let busy = same(|| disturbed(&mut random));
        assert!(busy >= 95, "{busy} of 100 on a busy machine");
    }

    #[test]
    fn a_difference_of_a_tenth_is_found() {
        let mut random = Rng::with_seed(2);
        for _ in 0..20 {
            let (a, b) = slices(&mut random, 1.1);
            let rate = rates(&a, &b).unwrap();
            assert!(rate.is_different() && (rate.middle - 1.1).abs() < 0.02, "{rate:?}");
            assert!(percentiles(&a, &b, 50.0).unwrap().middle < 1.0);
        }
    }

    #[test]
    fn words_say_how_much_and_how_sure() {
        let ratio = |middle, low, high| Ratio { middle, low, high };
        assert_eq!(ratio(1.31, 1.29, 1.33).words("faster", "slower"), "31 % faster (29 to 33)");
        assert_eq!(ratio(0.96, 0.94, 0.98).words("faster", "slower"), "4.0 % slower (2.0 to 6.0)");
        assert_eq!(ratio(1.0, 0.99, 1.02).words("faster", "slower"), "no difference (-1.0 to +2.0 %)");
    }

    #[test]
    fn too_little_says_nothing() {
        let few = vec![SliceFigures { rate: 1.0, latencies: vec![1; 10] }; 4];
        assert!(rates(&few, &few).is_none() && percentiles(&few, &few, 50.0).is_none());
        let some = vec![SliceFigures { rate: 1.0, latencies: vec![1; 10] }; 6];
        assert!(percentiles(&some, &some, 99.9).is_none());
    }

    #[test]
    fn student_has_the_tables_values() {
        for (freedom, t) in [(5.0, 4.032), (10.0, 3.169), (30.0, 2.750)] {
            assert!((t_quantile(freedom) - t).abs() < 0.05, "{freedom}: {}", t_quantile(freedom));
        }
    }
}
