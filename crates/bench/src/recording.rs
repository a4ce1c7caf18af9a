//! What a run has measured: latencies, the parts they are made of, and what was wrong. Never sends anything.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;

use crate::parts::{Inside, Part, Parts, PARTS};

/// The longest time that is told apart, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;
/// So many decimal digits of a latency count.
const DIGITS: u8 = 3;
/// A slice of the run in the time line, in microseconds.
pub const SLICE: u64 = 200_000;

/// An empty histogram of microseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).unwrap_or_else(|_| Histogram::<u64>::new(DIGITS).expect("3 digits"))
}

/// One request that is over.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// When it was due, in microseconds since the run began.
    pub due: u64,
    /// `Wait` undivided.
    pub parts: Parts,
    pub inside: Option<Inside>,
    pub status: u16,
    /// Of the body.
    pub length: u64,
    /// With the head.
    pub received: u64,
}

/// A fifth of a second.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// Answers that came in it.
    pub answers: u32,
    /// Their latencies, in microseconds.
    pub latencies: Vec<u32>,
}

/// All requests of one run at one target.
pub struct Recording {
    /// From the moment at which a request was due, microseconds.
    pub latencies: Histogram<u64>,
    /// Latencies without connecting, which is what ab calls processing.
    pub outside: [Histogram<u64>; 3],
    buckets: HashMap<u64, Bucket>,
    pub statuses: BTreeMap<u16, u64>,
    /// What went wrong, and how often.
    pub failures: BTreeMap<String, u64>,
    /// Of the first response.
    pub length: Option<u64>,
    /// Responses of another length.
    pub other_lengths: u64,
    /// Bytes of bodies, and of all.
    pub body_bytes: u64,
    pub received: u64,
    pub sent: u64,
    /// Requests that the server told its own times of.
    pub told: u64,
    pub slices: Vec<Slice>,
    /// From the first request to the last answer, or as long as the run was to take: microseconds.
    pub elapsed: u64,
    /// When the run was to end, if it had a time. Answers after that count for the latencies, not for the rate.
    pub limit: Option<u64>,
    /// Answers within the limit.
    pub timely: u64,
    /// The field `Server` of the first response.
    pub server: Option<String>,
    /// Every request, if somebody wants them: ab's -g.
    pub requests: Option<Vec<Times>>,
}

/// Of one request, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub due: u64,
    pub connect: u64,
    pub total: u64,
    pub wait: u64,
}

#[derive(Default)]
struct Bucket {
    count: u64,
    sums: [u64; PARTS.len()],
}

/// Which of ab's times a histogram has.
#[derive(Debug, Clone, Copy)]
pub enum Outside {
    /// Connecting, with TLS.
    Connect,
    /// Until the last byte, without connecting.
    Processing,
    /// From the request's last byte to the response's first one.
    Waiting,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            latencies: histogram(),
            outside: [histogram(), histogram(), histogram()],
            buckets: HashMap::new(),
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            length: None,
            other_lengths: 0,
            body_bytes: 0,
            received: 0,
            sent: 0,
            told: 0,
            slices: Vec::new(),
            elapsed: 0,
            limit: None,
            timely: 0,
            server: None,
            requests: None,
        }
    }
}

impl Recording {
    /// A request that was answered.
    pub fn record(&mut self, sample: &Sample) {
        let mut parts = sample.parts;
        let waiting = u64::from(parts.get(Part::Wait));
        if let Some(inside) = &sample.inside {
            parts.divide(inside);
            self.told += 1;
        }
        let total = parts.total().clamp(1, LONGEST);
        let connect = u64::from(parts.get(Part::Connect)) + u64::from(parts.get(Part::Tls));
        let late = u64::from(parts.get(Part::Late));
        self.latencies.saturating_record(total);
        for (which, value) in [
            (Outside::Connect, connect),
            (Outside::Processing, total.saturating_sub(connect + late)),
            (Outside::Waiting, waiting),
        ] {
            self.outside[which as usize].saturating_record(value);
        }
        if let Some(requests) = &mut self.requests {
            requests.push(Times { due: sample.due, connect, total, wait: waiting });
        }
        let bucket = self.buckets.entry(self.latencies.lowest_equivalent(total)).or_default();
        bucket.count += 1;
        for (sum, micros) in bucket.sums.iter_mut().zip(parts.0) {
            *sum += u64::from(micros);
        }
        *self.statuses.entry(sample.status).or_default() += 1;
        self.other_lengths += u64::from(*self.length.get_or_insert(sample.length) != sample.length);
        self.body_bytes += sample.length;
        self.received += sample.received;
        let end = sample.due + total;
        match self.limit {
            Some(limit) if end > limit => return,
            Some(_) => {}
            None => self.elapsed = self.elapsed.max(end),
        }
        self.timely += 1;
        let slice = self.slice(end);
        slice.answers += 1;
        slice.latencies.push(u32::try_from(total).unwrap_or(u32::MAX));
    }

    /// A request that was not answered.
    pub fn fail(&mut self, at: u64, why: String) {
        *self.failures.entry(why).or_default() += 1;
        if self.limit.is_none() {
            self.elapsed = self.elapsed.max(at);
        }
    }

    /// Adds what a later run at the same target has measured, as if it had begun where this one ended.
    pub fn append(&mut self, later: &Recording) {
        // Histograms of the same bounds always add up.
        let _ = self.latencies.add(&later.latencies);
        for (own, other) in self.outside.iter_mut().zip(&later.outside) {
            let _ = own.add(other);
        }
        for (latency, bucket) in &later.buckets {
            let own = self.buckets.entry(*latency).or_default();
            own.count += bucket.count;
            for (sum, more) in own.sums.iter_mut().zip(bucket.sums) {
                *sum += more;
            }
        }
        for (status, count) in &later.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (why, count) in &later.failures {
            *self.failures.entry(why.clone()).or_default() += count;
        }
        match (self.length, later.length) {
            (Some(own), Some(other)) if own != other => self.other_lengths += later.answered() - later.other_lengths,
            _ => self.other_lengths += later.other_lengths,
        }
        self.length = self.length.or(later.length);
        self.body_bytes += later.body_bytes;
        self.received += later.received;
        self.sent += later.sent;
        self.told += later.told;
        self.timely += later.timely;
        let from = (self.elapsed / SLICE) as usize;
        self.slices.resize_with(from, Slice::default);
        self.slices.extend(later.slices.iter().cloned());
        self.elapsed += later.elapsed;
        if self.server.is_none() {
            self.server.clone_from(&later.server);
        }
        if let (Some(own), Some(more)) = (&mut self.requests, &later.requests) {
            own.extend(more);
        }
    }

    fn slice(&mut self, at: u64) -> &mut Slice {
        let index = (at / SLICE) as usize;
        if self.slices.len() <= index {
            self.slices.resize_with(index + 1, Slice::default);
        }
        &mut self.slices[index]
    }

    /// The run ends at `at` at the latest.
    pub fn end_at(&mut self, at: u64) {
        self.limit = Some(at);
        self.elapsed = at;
    }

    /// The run was ended at `at`, before its time.
    pub fn cut(&mut self, at: u64) {
        self.limit = self.limit.map(|limit| limit.min(at));
        self.elapsed = self.elapsed.min(at);
    }

    pub fn answered(&self) -> u64 {
        self.latencies.len()
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Answers whose status is not 2xx.
    pub fn not_2xx(&self) -> u64 {
        self.statuses.iter().filter(|(status, _)| !(200..300).contains(*status)).map(|(_, count)| count).sum()
    }

    pub fn seconds(&self) -> f64 {
        self.elapsed as f64 / 1e6
    }

    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.timely as f64 / self.seconds().max(1e-6)
    }

    /// The latency at a percentile (0 to 100), microseconds.
    pub fn percentile(&self, percentile: f64) -> u64 {
        self.latencies.value_at_quantile(percentile / 100.0)
    }

    /// What the latency at a percentile is made of: the mean of the requests around it, 1 % of all and ten at least,
    /// in proportion to that latency. Microseconds.
    pub fn parts_at(&self, percentile: f64) -> [f64; PARTS.len()] {
        let all = self.answered();
        let mut shares = [0.0; PARTS.len()];
        if all == 0 {
            return shares;
        }
        let mut buckets: Vec<_> = self.buckets.iter().collect();
        buckets.sort_unstable_by_key(|(latency, _)| **latency);
        let half = ((all as f64 * 0.005) as u64).max(5);
        let middle = (all as f64 * percentile / 100.0) as u64;
        let from = middle.saturating_sub(half).min(all.saturating_sub(1));
        let to = (middle + half).min(all).max(from + 1);
        let (mut rank, mut count, mut sums) = (0, 0, [0u64; PARTS.len()]);
        for (_, bucket) in buckets {
            if rank < to && rank + bucket.count > from {
                count += bucket.count;
                for (sum, more) in sums.iter_mut().zip(bucket.sums) {
                    *sum += more;
                }
            }
            rank += bucket.count;
        }
        let whole: u64 = sums.iter().sum();
        let scale = self.percentile(percentile) as f64 / (whole.max(1)) as f64;
        for (share, sum) in shares.iter_mut().zip(sums) {
            *share = sum as f64 * scale;
        }
        debug_assert!(count > 0);
        shares
    }

    /// The latencies as clients would have seen them that do not wait for each other: where a response took long, those
    /// requests are added that its client would have sent meanwhile (coordinated omission). With their number.
    pub fn corrected(&self) -> (Histogram<u64>, u64) {
        let usual = self.percentile(50.0).max(1);
        let corrected = self.latencies.clone_correct(usual);
        let added = corrected.len() - self.latencies.len();
        (corrected, added)
    }

    /// The parts that some request had.
    pub fn known_parts(&self) -> Vec<Part> {
        let has = |part: &Part| self.buckets.values().any(|bucket| bucket.sums[*part as usize] > 0);
        PARTS.into_iter().filter(has).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(due: u64, connect: u32, wait: u32, inside: Option<Inside>) -> Sample {
        let mut parts = Parts::default();
        parts.set(Part::Connect, connect);
        parts.set(Part::Wait, wait);
        Sample { due, parts, inside, status: 200, length: 27, received: 200 }
    }

    #[test]
    fn percentiles_are_within_a_thousandth_and_their_parts_add_up() {
        let mut recording = Recording::default();
        for number in 1..=1000u32 {
            let inside = Inside { queue: number * 5, app: number * 4, ..Inside::default() };
            recording.record(&sample(0, 100, number * 10, Some(inside)));
        }
        for (percentile, expected) in [(50.0, 5100.0), (99.0, 10_000.0)] {
            let found = recording.percentile(percentile) as f64;
            assert!((found / expected - 1.0).abs() < 0.002, "{percentile}: {found}");
            let parts = recording.parts_at(percentile);
            assert!((parts.iter().sum::<f64>() - found).abs() < 1.0);
            assert!((parts[Part::Queue as usize] / (found - 100.0) - 0.5).abs() < 0.02, "{parts:?}");
        }
        assert_eq!(recording.known_parts(), [Part::Connect, Part::Front, Part::Queue, Part::App]);
    }

    #[test]
    fn a_freeze_is_counted_as_those_would_have_seen_it_that_do_not_wait() {
        let mut recording = Recording::default();
        for number in 0..1000 {
            recording.record(&sample(number * 1000, 0, 1000, None));
        }
        recording.record(&sample(1_000_000, 0, 2_000_000, None));
        let (corrected, added) = recording.corrected();
        assert!(recording.percentile(99.0) < 1100);
        assert!((1990..=2000).contains(&added), "{added}");
        assert!(corrected.value_at_quantile(0.99) > 1_900_000);
    }

    #[test]
    fn other_lengths_and_statuses_are_counted() {
        let mut recording = Recording::default();
        recording.record(&sample(0, 0, 10, None));
        recording.record(&Sample { length: 5, status: 500, ..sample(300_000, 0, 10, None) });
        assert_eq!((recording.other_lengths, recording.not_2xx(), recording.slices.len()), (1, 1, 2));
    }
}
