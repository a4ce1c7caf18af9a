//! What a trial under load says of threads, workers and their memory: when other numbers are worth it, and the figures in
//! words. It never compares pages.

use serde::{Deserialize, Serialize};

use super::{Measured, Outcome, Verdict, MEMORY};
use crate::{
    candidate::{Candidate, Kind, Trial},
    observation::Observations,
    units,
};

/// Other numbers of threads and workers cost what no trial shows (connections to the database, memory at other times):
/// a smaller part of the time is not worth it.
pub const LOAD_PART: f64 = 0.1;
/// Fewer threads save memory: a smaller part of the workers' is not worth it.
const SAVED_MEMORY_PART: f64 = 0.15;

/// How control and trial served the same visitors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnderLoad {
    pub control: LoadFigures,
    pub trial: LoadFigures,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadFigures {
    /// Requests that were answered.
    pub per_second: f64,
    /// Microseconds: 99 of 100 requests had their answer by then.
    pub p99_us: f64,
    /// Private memory of all its processes, bytes. None: not known.
    pub memory: Option<u64>,
    /// Of `Trial::Memory`: what a request takes of the processor. Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
}

/// Under the load of busy moments a visitor gains more than at others: on average no more than visitors have waited.
pub(super) fn saved_waiting(candidate: &Candidate, all: &Measured, observations: &Observations) -> f64 {
    let gain_us = all.estimate.gain_us;
    match (&observations.queue, candidate.kind) {
        (Some(queue), Kind::TooFewThreads | Kind::QueueWaits) => gain_us.min(queue.mean_us),
        _ => gain_us,
    }
}

/// Fewer threads are worth it by their memory alone, if requests do not take longer.
pub(super) fn saves_memory(candidate: &Candidate, outcome: &Outcome, measured: &[Measured]) -> bool {
    let (Some(load), Some(memory), Kind::TooManyThreads) = (&outcome.load, outcome.memory, candidate.kind) else {
        return false;
    };
    let all = load.control.memory.unwrap_or(0) as f64;
    let is_slower = |one: &Measured| one.estimate.parts()[2] < -LOAD_PART;
    outcome.failure.is_none()
        && memory <= -MEMORY
        && -memory as f64 >= all * SAVED_MEMORY_PART
        && !measured.is_empty()
        && !measured.iter().any(is_slower)
}

impl Verdict {
    /// As `-21 MB of 60 MB (35 % of the workers' memory)`: what fewer threads or another allocator bring where pages are no
    /// quicker.
    pub fn saved_memory(&self) -> Option<String> {
        let (saved, all) = (self.memory?.unsigned_abs(), self.load?.control.memory?);
        let part = units::percent(saved as f64 / all.max(1) as f64);
        let whose = match self.candidate.trial {
            Trial::Memory { .. } => "a worker's",
            _ => "the workers'",
        };
        Some(format!("-{} of {} ({part} of {whose} memory)", units::bytes(saved), units::bytes(all)))
    }

    /// As `25 -> 41 requests/s; 99 of 100 answered within 90 -> 50 ms; 45 MB more memory`; of an allocator
    /// `with 5 threads a request takes 12 ms of the processor, with it 1.7 % less`.
    pub fn under_load(&self) -> Option<String> {
        let UnderLoad { control, trial } = self.load?;
        if let Trial::Memory { load, .. } = &self.candidate.trial {
            let (before, after) = (control.cpu_us?, trial.cpu_us?);
            let part = after / before.max(1e-9) - 1.0;
            let word = if part > 0.0 { "more" } else { "less" };
            return Some(format!(
                "with {} a request takes {} of the processor, with it {} {word}",
                units::figures(load.threads.into(), "thread", "threads"),
                units::millis(before),
                units::percent(part.abs())
            ));
        }
        let rate = |figures: LoadFigures| match figures.per_second {
            few if few < 10.0 => format!("{few:.1}"),
            many => units::grouped(many.round() as u64),
        };
        let late = [control, trial].map(|figures| units::bare_millis(figures.p99_us));
        let [before, after] = [control, trial].map(rate);
        let memory = match self.memory {
            Some(bytes) if bytes >= 1 << 20 => format!("; {} more memory", units::bytes(bytes.unsigned_abs())),
            Some(bytes) if bytes <= -(1 << 20) => format!("; {} less memory", units::bytes(bytes.unsigned_abs())),
            _ => String::new(),
        };
        Some(format!("{before} -> {after} requests/s; 99 of 100 answered within {} -> {} ms{memory}", late[0], late[1]))
    }
}
