//! Whether a change is worth it, by what its trial gave. It never tries anything.

mod compression;
mod load;
mod memory;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    candidate::{Candidate, Kind, Measure, Trial},
    findings::{least, version, MANY_THREADS},
    mask::Difference,
    observation::{Observations, RouteObservation},
    statistics::{self, needed_us, Estimate, Pair, MIN_ROUNDS},
    units,
};

pub use compression::CompressedRoute;
use load::{saved_waiting, saves_memory};
pub use load::{LoadFigures, UnderLoad, LOAD_PART};
pub use memory::MemoryPair;

/// Changes of the environment touch every request, and cost what no replay shows (memory, warming up): a smaller part is
/// not worth it.
const ENVIRONMENT_PART: f64 = 0.1;
/// And nobody would see less than this, unless it is so large a part that the processors have less to do. Microseconds.
const ENVIRONMENT_US: f64 = 1_000.0;
const LARGE_PART: f64 = 0.25;
/// What takes more memory must bring more.
const MEMORY_PART: f64 = 0.15;
/// Bytes of a process: less is no cost.
const MEMORY: i64 = 8 << 20;
/// The part of all JSON that leaving out columns saves, about: what is advised first must not be a bound that nobody reaches.
const WHOLE_RECORDS_PART: f64 = 0.5;
/// Before Ruby 3.3, YJIT was young: it must bring so much more.
const YOUNG_YJIT_PART: f64 = 0.25;

/// What the driver's trial gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Of A B B A.
    pub rounds: usize,
    pub routes: Vec<RouteOutcome>,
    /// Bytes of private memory that a process of the trial takes beyond control's; of `Trial::Load`: all of its processes.
    pub memory: Option<i64>,
    /// Of `Trial::Load` and `Trial::Memory`.
    pub load: Option<UnderLoad>,
    /// Of `Trial::Memory`.
    pub memories: Vec<MemoryPair>,
    /// Of `Trial::Compression`.
    pub compression: Vec<CompressedRoute>,
    /// There was no trial, or it broke: why. Computed and untried candidates have an outcome of `Outcome::default()`.
    pub failure: Option<String>,
}

/// The trial of one route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteOutcome {
    pub route: String,
    /// 0 to 1: of all GET requests.
    pub share: f64,
    /// Under load (`Trial::Load`, `Trial::Memory`): the mean time of the requests of a slice, with their waiting.
    pub wall: Vec<Pair>,
    pub cpu: Vec<Pair>,
    pub bytes: Bytes,
    /// Of `Trial::Environment`: how many of the pairs were measured on each start of the application.
    pub starts: Vec<usize>,
    /// Those that a middleware sets beside what takes its time, in lower case.
    pub headers: Vec<String>,
}

/// Whether control and trial answered the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Bytes {
    Same,
    /// `request`: as `GET /beers/3?page=2`, the first that differed.
    Differ {
        request: String,
        difference: Difference,
    },
    /// As for load, or computed gains.
    #[default]
    NotCompared,
}

/// A candidate, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub candidate: Candidate,
    pub standing: Standing,
    /// By route, the one with most to gain first. Empty: nothing was measured or computed.
    pub gains: Vec<Gain>,
    pub bytes: Bytes,
    /// Microseconds that it saves of the mean GET request: gain by share, over all routes.
    pub saved_us: f64,
    /// Private memory that a process takes more, bytes; of `Trial::Load`: all processes.
    pub memory: Option<i64>,
    /// Of `Trial::Load` and `Trial::Memory`.
    #[serde(default)]
    pub load: Option<UnderLoad>,
    /// Of `Trial::Compression`: as the gains.
    #[serde(default)]
    pub compression: Vec<CompressedRoute>,
    pub rounds: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Standing {
    /// It is advice: proved, computed or, where nothing can prove it, plainly wrong as it is.
    Worth,
    /// Looked at: a few words why not, as `+0.4 %, noise`.
    NotWorth { why: String },
    /// Faster or not, it changes what visitors get.
    Changes,
    /// It could not be tried: why.
    Failed { why: String },
}

/// What a change saves of a route. Microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    pub route: String,
    /// 0 to 1.
    pub share: f64,
    pub gain_us: f64,
    /// Of this time. 0: unknown.
    pub of_us: f64,
    /// 95 %. None: not measured.
    pub interval_us: Option<(f64, f64)>,
    pub bound: Bound,
}

/// What a gain's figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// As the change itself brings it.
    Measured,
    /// What if what is slow were free: a change brings less.
    AtMost,
    /// There is more that could not be measured.
    AtLeast,
    /// By what was observed.
    Computed,
}

/// What a candidate is, after its trial. `observations`: those that it was found in.
pub fn judge(mut candidate: Candidate, outcome: &Outcome, observations: &Observations) -> Verdict {
    let mut outcome = outcome.clone();
    if is_plain(&candidate) {
        if let Some(why) = outcome.failure.take() {
            candidate.trial = Trial::Untried { why };
        }
    }
    if is_line_unproved(&candidate, &outcome) {
        let why = "the readings of the stack".into();
        candidate.trial = Trial::Computed { gain_us: candidate.ceiling_us, why };
        outcome = Outcome::default();
    }
    let outcome = &outcome;
    let headers: BTreeSet<&str> = outcome.routes.iter().flat_map(|route| &route.headers).map(String::as_str).collect();
    if !headers.is_empty() {
        let names = headers.into_iter().collect::<Vec<_>>().join(" and ");
        candidate.sentence.push_str(&format!("; it also sets {names}"));
    }
    let measured = measured(&candidate, outcome);
    let bytes = all_bytes(outcome);
    let compression = compression::ordered(outcome);
    let is_for_memory = saves_memory(&candidate, outcome, &measured)
        && !measured.iter().any(|one| is_worth(&candidate, outcome, observations, &one.estimate));
    let gains = match &candidate.trial {
        _ if is_for_memory => Vec::new(),
        Trial::Computed { gain_us, .. } => computed_gains(&candidate, *gain_us, observations),
        Trial::Compression => compression::gains(&compression),
        Trial::Untried { .. } | Trial::Memory { .. } => Vec::new(),
        _ => shown_gains(&candidate, &measured),
    };
    let saved_us = match &candidate.trial {
        _ if is_for_memory => 0.0,
        Trial::Load { .. } => measured.iter().map(|all| saved_waiting(&candidate, all, observations)).sum(),
        Trial::Untried { .. } => candidate.ceiling_us,
        Trial::Memory { .. } => 0.0,
        Trial::Computed { gain_us, .. } if candidate.routes.is_empty() => *gain_us,
        // Nobody has tried it, and some of the columns are needed.
        Trial::Computed { .. } if candidate.kind == Kind::WholeRecords => {
            gains.iter().map(|gain| gain.gain_us * gain.share).sum::<f64>() * WHOLE_RECORDS_PART
        }
        Trial::Computed { .. } | Trial::Compression => gains.iter().map(|gain| gain.gain_us * gain.share).sum(),
        _ => measured.iter().map(|route| route.estimate.gain_us * route.share).sum(),
    };
    let standing = match &candidate.trial {
        _ if is_for_memory => Standing::Worth,
        Trial::Memory { .. } if outcome.failure.is_none() => memory::standing(outcome),
        Trial::Compression if outcome.failure.is_none() => compression::standing(&compression),
        _ => standing(&candidate, outcome, observations, &measured, &bytes, saved_us),
    };
    let Outcome { memory, load, rounds, .. } = *outcome;
    Verdict { candidate, standing, gains, bytes, saved_us, memory, load, compression, rounds }
}

/// Visitors have waited, or there are far too many threads: that is so without a trial, too.
fn is_plain(candidate: &Candidate) -> bool {
    match (&candidate.trial, candidate.kind) {
        (Trial::Load { .. }, Kind::TooFewThreads | Kind::QueueWaits) => true,
        (Trial::Load { from, .. }, Kind::TooManyThreads) => from.threads >= MANY_THREADS,
        _ => false,
    }
}

/// The page needs more of a slow line's method than its result, or the method is called where the trial does not see it, or
/// does more than the line: then only the line's time is known.
fn is_line_unproved(candidate: &Candidate, outcome: &Outcome) -> bool {
    const FOUND_AGAIN: f64 = 0.5;
    const OF_MORE: f64 = 1.5;
    let gain = |route: &RouteOutcome| statistics::estimate(&route.wall).map_or(0.0, |estimate| estimate.gain_us);
    let most = outcome.routes.iter().map(gain).fold(0.0, f64::max);
    let Trial::WhatIf { trial } = &candidate.trial else { return false };
    let is_around = trial.iter().any(|patch| patch.name == "free_method");
    let is_line = most >= candidate.ceiling_us * FOUND_AGAIN && !(is_around && most > candidate.ceiling_us * OF_MORE);
    let differs = matches!(all_bytes(outcome), Bytes::Differ { .. });
    candidate.kind == Kind::SlowLine && (differs || !is_line)
}

/// The trial of a route, as far as it can be judged.
struct Measured<'a> {
    route: &'a str,
    share: f64,
    /// Its base is the whole time of the request, also where the gain is the processor's.
    estimate: Estimate,
}

fn measured<'a>(candidate: &Candidate, outcome: &'a Outcome) -> Vec<Measured<'a>> {
    let mut all: Vec<Measured> = outcome
        .routes
        .iter()
        .filter_map(|route| {
            let estimate = |pairs: &[Pair]| statistics::estimate_of_starts(pairs, &route.starts);
            let wall = estimate(&route.wall);
            let estimate = match candidate.measure {
                Measure::Wall => wall?,
                Measure::Cpu => {
                    let cpu = estimate(&route.cpu).or(wall)?;
                    Estimate { base_us: wall.map_or(cpu.base_us, |wall| wall.base_us.max(cpu.base_us)), ..cpu }
                }
            };
            Some(Measured { route: &route.route, share: route.share, estimate })
        })
        .collect();
    let saved = |one: &Measured| one.estimate.gain_us * one.share;
    all.sort_by(|one, other| saved(other).total_cmp(&saved(one)));
    all
}

fn all_bytes(outcome: &Outcome) -> Bytes {
    let states = || outcome.routes.iter().map(|route| &route.bytes);
    let differing = states().find(|bytes| matches!(bytes, Bytes::Differ { .. }));
    match differing {
        Some(bytes) => bytes.clone(),
        None if states().next().is_some() && states().all(|bytes| *bytes == Bytes::Same) => Bytes::Same,
        None => Bytes::NotCompared,
    }
}

fn shown_gains(candidate: &Candidate, measured: &[Measured]) -> Vec<Gain> {
    let bound = match (&candidate.trial, candidate.kind) {
        (Trial::WhatIf { .. }, _) => Bound::AtMost,
        (_, Kind::SyncMail) => Bound::AtLeast,
        _ => Bound::Measured,
    };
    let gain = |one: &Measured| Gain {
        route: one.route.into(),
        share: one.share,
        gain_us: one.estimate.gain_us,
        of_us: one.estimate.base_us,
        interval_us: Some((one.estimate.low_us, one.estimate.high_us)),
        bound,
    };
    measured.iter().map(gain).collect()
}

fn computed_gains(candidate: &Candidate, gain_us: f64, observations: &Observations) -> Vec<Gain> {
    let find = |name: &String| observations.routes.iter().find(|route| route.route == *name);
    let wall = |route: &RouteObservation| {
        statistics::median(&route.requests.iter().map(|request| request.wall_us).collect::<Vec<_>>())
    };
    let bound = match candidate.kind {
        Kind::WholeRecords | Kind::SlowLine => Bound::AtMost,
        _ => Bound::Computed,
    };
    let gain =
        |(route, share, of_us): (String, f64, f64)| Gain { route, share, gain_us, of_us, interval_us: None, bound };
    if candidate.routes.is_empty() {
        return vec![gain((String::new(), 1.0, 0.0))];
    }
    let known = candidate.routes.iter().filter_map(find);
    known.map(|route| gain((route.route.clone(), route.share, wall(route)))).collect()
}

fn standing(
    candidate: &Candidate,
    outcome: &Outcome,
    observations: &Observations,
    measured: &[Measured],
    bytes: &Bytes,
    saved_us: f64,
) -> Standing {
    if let Some(why) = &outcome.failure {
        return Standing::Failed { why: why.clone() };
    }
    match &candidate.trial {
        // Their findings have thresholds of their own.
        Trial::Computed { .. } | Trial::Untried { .. } => return Standing::Worth,
        _ if measured.is_empty() => return Standing::Failed { why: unmeasured(outcome, bytes) },
        _ => {}
    }
    // What mail takes beyond the request is not measured: the page waits for another program in any case.
    let is_worth = candidate.kind == Kind::SyncMail
        || saved_us > 0.0 && measured.iter().any(|one| is_worth(candidate, outcome, observations, &one.estimate));
    match (is_worth, bytes) {
        (true, Bytes::Differ { .. }) => Standing::Changes,
        (true, _) => Standing::Worth,
        (false, _) => Standing::NotWorth { why: why_not(candidate, outcome, measured) },
    }
}

/// Why nothing can be said of its gain.
fn unmeasured(outcome: &Outcome, bytes: &Bytes) -> String {
    match bytes {
        Bytes::Differ { request, difference } => format!("it changes {request}: {difference}"),
        _ => format!("{} rounds were made, and {MIN_ROUNDS} are needed: its requests are too slow", outcome.rounds),
    }
}

fn is_worth(candidate: &Candidate, outcome: &Outcome, observations: &Observations, estimate: &Estimate) -> bool {
    let [gain, ..] = estimate.parts();
    let memory = outcome.memory.unwrap_or(0);
    let needed_part = match &candidate.trial {
        Trial::Environment { .. } => {
            let is_young = candidate.kind == Kind::Yjit && version(&observations.ruby) < (3, 3);
            let is_large = memory > MEMORY;
            [(is_young, YOUNG_YJIT_PART), (is_large, MEMORY_PART)]
                .into_iter()
                .filter_map(|(applies, part)| applies.then_some(part))
                .fold(ENVIRONMENT_PART, f64::max)
        }
        Trial::Load { .. } => LOAD_PART,
        _ => 0.0,
    };
    let needed_us = match &candidate.trial {
        Trial::Environment { .. } if gain < LARGE_PART => needed_us(estimate.base_us).max(ENVIRONMENT_US),
        _ => needed_us(estimate.base_us),
    };
    estimate.low_us > 0.0
        && estimate.gain_us > needed_us
        && gain > needed_part
        && !is_vague(candidate, estimate)
        && is_found_again(candidate, estimate)
}

/// What was found in a single observed replay, which may have been slow by chance, takes as much in the trial, too, about.
fn is_found_again(candidate: &Candidate, estimate: &Estimate) -> bool {
    const NEARLY: f64 = 0.75;
    let (us, part) = least(candidate.kind);
    let [gain, ..] = estimate.parts();
    !matches!(candidate.trial, Trial::WhatIf { .. }) || estimate.gain_us >= us * NEARLY && gain >= part * NEARLY
}

/// The range is wider than what is gained. Processes that were started with settings differ by more than the settings: of
/// such a gain nothing is known.
fn is_vague(candidate: &Candidate, estimate: &Estimate) -> bool {
    let is_started = matches!(candidate.trial, Trial::Environment { .. });
    is_started && estimate.is_sure() && estimate.high_us - estimate.low_us > estimate.gain_us
}

/// As `+0.4 %, noise`: how much longer requests take with the change, and what else it costs.
fn why_not(candidate: &Candidate, outcome: &Outcome, measured: &[Measured]) -> String {
    let weight = |one: &Measured| if one.share > 0.0 { one.share } else { 1e-6 };
    let gain: f64 = measured.iter().map(|one| one.estimate.gain_us * weight(one)).sum();
    let base: f64 = measured.iter().map(|one| one.estimate.base_us * weight(one)).sum();
    // Without a sign where it rounds to nothing.
    let part = Some(-gain / base.max(1e-9)).filter(|part| part.abs() >= 0.0005).unwrap_or(0.0);
    let mut why = format!("{}{} %", if part > 0.0 { "+" } else { "" }, units::bare_percent(part));
    if let Some(vague) = measured.iter().find(|one| is_vague(candidate, &one.estimate)) {
        let [_, low, high] = vague.estimate.parts();
        return format!("{why}, but anything from {} to {} %", units::bare_percent(low), units::bare_percent(high));
    }
    let is_sure = measured.iter().any(|one| one.estimate.is_sure());
    let memory = outcome.memory.filter(|bytes| *bytes > MEMORY && outcome.load.is_none());
    match (is_sure, memory) {
        (false, None) => why.push_str(", noise"),
        (_, Some(bytes)) => why.push_str(&format!(", +{} a worker", units::bytes(bytes.unsigned_abs()))),
        (true, None) if gain > 0.0 => why.push_str(", too little"),
        (true, None) => {}
    }
    why
}

#[cfg(test)]
mod tests;
