//! A run's figures, as they are printed, saved and read again. Never measures, and never compares.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    parts::Part,
    recording::{Recording, SLICE},
    session::{Measured, Pace},
    wire::Version,
};

/// The percentiles of tables and bars.
pub const SHOWN: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];
/// A generator that uses more of its core than this may be what limits the rate.
const GENERATOR_BUSY: f64 = 0.9;
/// More than this part of the machine's time taken by others is mentioned.
const STEAL: f64 = 0.02;
/// A closed loop's p99 is doubted if a steady arrival would have seen so many times as much.
const HIDDEN: f64 = 1.3;
/// Milliseconds; a closed loop that had no longer response hides nothing.
const PAUSE: f64 = 10.0;
/// Of the rate that was asked for, less than this is mentioned.
const REACHED: f64 = 0.98;

/// One run. Times in milliseconds, sizes in bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    pub url: String,
    /// RFC 3339.
    pub at: String,
    pub clients: usize,
    pub keep_alive: bool,
    pub http2: bool,
    /// Requests a second that were asked for; none in a closed loop.
    pub rate_wanted: Option<f64>,
    pub replayed: bool,
    pub seconds: f64,
    pub answers: u64,
    pub requests_per_second: f64,
    pub statuses: BTreeMap<u16, u64>,
    pub failures: BTreeMap<String, u64>,
    /// Of the first response's body.
    pub length: Option<u64>,
    pub other_lengths: u64,
    pub body_bytes: u64,
    pub received: u64,
    pub sent: u64,
    pub server: Option<String>,
    pub mean: f64,
    /// From fast to slow; fine enough for a curve.
    pub percentiles: Vec<Percentile>,
    /// What the percentiles of tables are made of.
    pub parts: Vec<Shares>,
    /// Connect, processing, waiting and total: ab's table.
    pub table: [Row; 4],
    /// Every 200 ms.
    pub slices: Vec<SliceSummary>,
    pub generator: f64,
    pub generator_seconds: f64,
    pub steal: f64,
    pub load_before: f64,
    /// A closed loop's p99, had its clients not waited for slow responses, and how many requests that adds.
    pub corrected_p99: Option<(f64, u64)>,
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Percentile {
    pub percent: f64,
    pub ms: f64,
}

/// The parts of the latency at one percentile, milliseconds by name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shares {
    pub percent: f64,
    pub ms: f64,
    pub parts: BTreeMap<String, f64>,
}

/// As in ab's table of connection times, milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Row {
    pub min: f64,
    pub mean: f64,
    pub deviation: f64,
    pub median: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SliceSummary {
    pub answers: u32,
    pub p50: f64,
    pub p99: f64,
}

/// A file that is no saved result.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error("{file}: {error}")]
    Read { file: String, error: io::Error },
    #[error("{file}: not a result of paceline bench --save: {error}")]
    Form { file: String, error: serde_json::Error },
}

impl Summary {
    pub fn of(measured: &Measured, any_length: bool) -> Summary {
        let recording = &measured.recording;
        let ms = |micros: u64| micros as f64 / 1000.0;
        let corrected_p99 = (measured.pace == Pace::Closed).then(|| corrected(recording)).flatten();
        let mut summary = Summary {
            url: measured.target.to_string(),
            at: jiff::Timestamp::now().to_string(),
            clients: measured.clients,
            keep_alive: measured.keep_alive,
            http2: measured.version == Version::Http2,
            rate_wanted: match measured.pace {
                Pace::Rate(rate) => Some(rate),
                Pace::Closed | Pace::Replay => None,
            },
            replayed: measured.pace == Pace::Replay,
            seconds: recording.seconds(),
            answers: recording.answered(),
            requests_per_second: recording.rate(),
            statuses: recording.statuses.clone(),
            failures: recording.failures.clone(),
            length: recording.length,
            other_lengths: recording.other_lengths,
            body_bytes: recording.body_bytes,
            received: recording.received,
            sent: recording.sent,
            server: recording.server.clone(),
            mean: recording.latencies.mean() / 1000.0,
            percentiles: curve(recording),
            parts: SHOWN.map(|percent| shares(recording, percent)).into(),
            table: table(recording),
            slices: recording.slices.iter().map(|slice| slice_summary(&slice.latencies)).collect(),
            generator: measured.machine.generator,
            generator_seconds: measured.machine.generator_seconds,
            steal: measured.machine.steal,
            load_before: measured.machine.load_before,
            corrected_p99: corrected_p99.map(|(p99, added)| (ms(p99), added)),
            remarks: measured.remarks.clone(),
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let remarks = summary.doubts(any_length, cores);
        summary.remarks.splice(0..0, remarks);
        summary
    }

    /// Of a file that `--save` wrote.
    pub fn read(path: &Path) -> Result<Summary, SavedError> {
        let file = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| SavedError::Read { file: file.clone(), error })?;
        serde_json::from_slice(&bytes).map_err(|error| SavedError::Form { file, error })
    }

    /// The latency at a percentile (0 to 100), milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        let found = self.percentiles.iter().find(|point| point.percent >= percent - 1e-9);
        found.or(self.percentiles.last()).map_or(0.0, |point| point.ms)
    }

    /// Answers a second in each slice that is whole.
    pub fn rates(&self) -> Vec<f64> {
        let whole = (self.seconds * 1e6 / SLICE as f64) as usize;
        self.slices.iter().take(whole).map(|slice| f64::from(slice.answers) * 1e6 / SLICE as f64).collect()
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Answers whose status is not 2xx.
    pub fn not_2xx(&self) -> u64 {
        self.statuses.iter().filter(|(status, _)| !(200..300).contains(*status)).map(|(_, count)| count).sum()
    }

    /// How the requests were sent, in a few words.
    pub fn load(&self) -> String {
        let connections = if self.http2 {
            "HTTP/2"
        } else if self.keep_alive {
            "kept connections"
        } else {
            "a new connection for each request"
        };
        match (self.replayed, self.rate_wanted) {
            (true, _) => format!("replayed from a log, {connections}"),
            (_, Some(rate)) => format!("{} requests/s, {connections}", units::number(rate)),
            _ => format!("{} client{}, {connections}", self.clients, if self.clients == 1 { "" } else { "s" }),
        }
    }

    /// What makes a figure doubtful, worst first.
    fn doubts(&self, any_length: bool, cores: usize) -> Vec<String> {
        let mut doubts = Vec::new();
        for (why, count) in &self.failures {
            doubts.push(format!("{count} request{} failed: {why}.", if *count == 1 { "" } else { "s" }));
        }
        let other: Vec<_> = self.statuses.iter().filter(|(status, _)| !(200..300).contains(*status)).collect();
        if !other.is_empty() {
            let list: Vec<_> = other.iter().map(|(status, count)| format!("{status} ({count})")).collect();
            doubts.push(format!("Not every answer has a 2xx status: {}.", list.join(", ")));
        }
        if self.other_lengths > 0 && !any_length && !self.replayed {
            let length = self.length.unwrap_or_default();
            doubts.push(format!(
                "{} answers have another length than the first one ({length} bytes).",
                self.other_lengths
            ));
        }
        if self.generator > GENERATOR_BUSY {
            let percent = (self.generator * 100.0).min(100.0);
            doubts.push(format!("The generator used {percent:.0} % of its core: no server can show more here."));
        }
        if self.steal > STEAL {
            doubts.push(format!("Other virtual machines took {:.0} % of this machine's time.", self.steal * 100.0));
        }
        if self.load_before > cores as f64 * 0.75 {
            doubts.push(format!("The machine was busy before the run: its load average was {:.1}.", self.load_before));
        }
        if let Some((p99, added)) = self.corrected_p99.filter(|_| self.percentile(100.0) >= PAUSE) {
            let longest = units::millis(self.percentile(100.0));
            doubts.push(format!(
                "While responses took up to {longest}, {added} requests that should have been sent were not, because clients \
                 waited; counted in, p99 is {}. Measure with --rate to see it.",
                units::millis(p99)
            ));
        }
        if let Some(wanted) = self.rate_wanted.filter(|wanted| self.requests_per_second < wanted * REACHED) {
            doubts.push(format!(
                "The server answered {} of {} requests a second.",
                units::number(self.requests_per_second),
                units::number(wanted)
            ));
        }
        doubts
    }
}

/// The p99 of a steady arrival, if that is much more than what the closed loop shows.
fn corrected(recording: &Recording) -> Option<(u64, u64)> {
    let (histogram, added) = recording.corrected();
    let p99 = histogram.value_at_quantile(0.99);
    (added > 0 && p99 as f64 > recording.percentile(99.0) as f64 * HIDDEN).then_some((p99, added))
}

fn curve(recording: &Recording) -> Vec<Percentile> {
    if recording.answered() == 0 {
        return Vec::new();
    }
    // Each next one halves what is left above it, in ten steps; and those that tables show.
    let mut percents = vec![0.0];
    let mut left = 100.0;
    while left > 0.001 && recording.answered() as f64 * left / 100.0 >= 1.0 {
        percents.extend((0..10).map(|step| 100.0 - left + left / 2.0 * f64::from(step) / 10.0));
        left /= 2.0;
    }
    percents.extend(SHOWN);
    percents.extend([66.0, 80.0, 98.0]);
    percents.extend((1..100).map(f64::from));
    percents.sort_by(f64::total_cmp);
    percents.dedup_by(|one, other| (*one - *other).abs() < 1e-9);
    percents
        .into_iter()
        .map(|percent| Percentile { percent, ms: recording.percentile(percent) as f64 / 1000.0 })
        .collect()
}

fn shares(recording: &Recording, percent: f64) -> Shares {
    let micros = recording.parts_at(percent);
    let known = recording.known_parts();
    let of = |part: &Part| (part.name().to_owned(), micros[*part as usize] / 1000.0);
    Shares { percent, ms: recording.percentile(percent) as f64 / 1000.0, parts: known.iter().map(of).collect() }
}

fn table(recording: &Recording) -> [Row; 4] {
    let [connect, processing, waiting] = &recording.outside;
    [connect, processing, waiting, &recording.latencies].map(|histogram| Row {
        min: histogram.min() as f64 / 1000.0,
        mean: histogram.mean() / 1000.0,
        deviation: histogram.stdev() / 1000.0,
        median: histogram.value_at_quantile(0.5) as f64 / 1000.0,
        max: histogram.max() as f64 / 1000.0,
    })
}

fn slice_summary(latencies: &[u32]) -> SliceSummary {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    };
    SliceSummary { answers: u32::try_from(sorted.len()).unwrap_or(u32::MAX), p50: at(50), p99: at(99) }
}
