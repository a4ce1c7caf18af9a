//! Processes, threads and memory: what only shows while many requests come at once.

use super::{general, server_setting, settings::computing_part, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Kind, Load, Trial},
    observation::{Observations, Server},
    units,
};

/// Requests that must have been watched before their waiting says something.
const WATCHED: u64 = 50;
/// Nineteen of twenty requests wait less, or there are too few threads. Microseconds.
const WAIT_US: f64 = 20_000.0;
/// And this part of what the mean request takes.
const WAIT_PART: f64 = 0.2;
/// This part of a request computes: more threads then only take turns.
const COMPUTING: f64 = 0.7;
/// Less than this part of a request computes where requests mostly wait: threads are cheap.
const WAITING: f64 = 0.3;
/// More threads of a worker than this take turns if they compute; Rails' default since 7.2.
const USUAL_THREADS: u32 = 3;
const MAX_THREADS: u32 = 16;
/// So many threads are too many for requests that compute, whatever a trial would say: each has a stack, a connection
/// to the database and a part of the allocator.
pub(crate) const MANY_THREADS: u32 = 16;
/// Visitors of a trial, at most: more only wait longer.
const MAX_VISITORS: u32 = 64;
/// Threads for the visitors that were watched, and for a few more.
const SPARE: f64 = 1.25;
/// Bytes of the application's processes that are swapped out.
const SWAPPED: u64 = 20 << 20;
/// Pages a second that come back from there; `some avg60` of memory pressure, percent.
const FAULTS: f64 = 5.0;
const PRESSURE: f64 = 5.0;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    found.extend(memory(observations));
    found.extend(queue(observations));
    found.extend(too_many_threads(observations));
    found.extend(preload(observations));
}

fn memory(observations: &Observations) -> Option<WeighedCandidate> {
    let machine = &observations.machine;
    let swapped = machine.swapped.unwrap_or(0);
    let is_suffering =
        machine.major_faults.unwrap_or(0.0) >= FAULTS || machine.memory_pressure.unwrap_or(0.0) >= PRESSURE;
    if swapped < SWAPPED || !is_suffering {
        return None;
    }
    let workers = observations.settings.workers.unwrap_or(1);
    let sentence =
        format!("{} of the application's memory are swapped out, and come back page by page", units::bytes(swapped));
    let fix = match workers {
        0 | 1 => shown("", "more memory, or fewer programs beside it", "there is one worker"),
        several => {
            let fewer = fitting(observations, several, swapped);
            server_setting(observations, "workers", &fewer.to_string(), &format!("workers {fewer}"))
        }
    };
    let trial = Trial::Untried { why: "a machine without memory is not given more work".into() };
    let candidate = general(Kind::MemoryPressure, sentence, fix, trial);
    // It slows everything: before all that can be computed.
    let weight = Look::all(observations).iter().map(|look| look.wall_us).fold(0.0, f64::max) * 10.0;
    Some(weighed(candidate, "memory", weight, weight))
}

/// As many workers fewer as make room for what is swapped out.
fn fitting(observations: &Observations, workers: u32, swapped: u64) -> u32 {
    let each = observations.settings.worker_memory.filter(|bytes| *bytes > 0).unwrap_or(swapped);
    let fewer = u32::try_from(swapped.div_ceil(each)).unwrap_or(1).max(1);
    workers.saturating_sub(fewer).max(1)
}

fn queue(observations: &Observations) -> Option<WeighedCandidate> {
    let queue = observations.queue.as_ref().filter(|queue| queue.requests >= WATCHED)?;
    let wall_us = super::settings::mean_of(observations, |look| look.wall_us);
    if queue.p95_us < WAIT_US || queue.p95_us < wall_us * WAIT_PART {
        return None;
    }
    let waits = format!("one of twenty requests waits {} or longer for a thread", units::millis(queue.p95_us));
    let part = computing_part(observations);
    let (Some(workers), Some(threads)) = (observations.settings.workers, observations.settings.threads) else {
        let fix = shown("", "more workers or threads", "their number is unknown");
        let trial = Trial::Untried { why: "the number of workers and threads is unknown".into() };
        return Some(weighed(general(Kind::QueueWaits, waits, fix, trial), "queue", queue.p95_us, queue.median_us));
    };
    let from = of_now(observations, workers, threads);
    let cores = observations.machine.cores.unwrap_or(workers);
    let visitors = visitors(observations, from, cores);
    let (kind, to) = match () {
        () if part <= WAITING && threads < MAX_THREADS => {
            let wanted = wanted_threads(part, from, visitors);
            (Kind::TooFewThreads, with_threads(observations, from, wanted))
        }
        () if workers < cores && has_room(observations, cores - workers) => {
            (Kind::QueueWaits, Load { workers: cores, ..from })
        }
        // All processors are in use: only less work for each request helps.
        () => return None,
    };
    let sentence = match kind {
        Kind::TooFewThreads => {
            format!("{waits}, while requests compute {} of their time only", units::percent(part))
        }
        _ => format!("{waits}, and there are more processors than workers"),
    };
    let (fix, short) = load_fix(observations, from, to);
    let candidate = general(kind, sentence, fix, Trial::Load { from, to, visitors });
    Some(weighed(candidate, &short, queue.p95_us, queue.median_us))
}

/// For so many workers more, as far as it is known.
fn has_room(observations: &Observations, workers: u32) -> bool {
    match (observations.machine.memory_available, observations.settings.worker_memory) {
        (Some(available), Some(each)) => each * u64::from(workers) < available,
        _ => true,
    }
}

fn weighed(candidate: Candidate, short: &str, ceiling_us: f64, weight: f64) -> WeighedCandidate {
    WeighedCandidate { candidate: Candidate { short: short.into(), ceiling_us, ..candidate }, weight }
}

fn of_now(observations: &Observations, workers: u32, threads: u32) -> Load {
    let threads = threads.max(1);
    let min = observations.settings.threads_min.unwrap_or(threads);
    Load { workers: workers.max(1), threads, threads_min: min.clamp(1, threads) }
}

/// `threads = N` of paceline.toml leaves the front the choice, `threads N, N` of Puma does not.
fn with_threads(observations: &Observations, from: Load, threads: u32) -> Load {
    let is_chosen = observations.server == Server::Paceline && observations.settings.puma_config.is_none();
    Load { threads, threads_min: if is_chosen { 1 } else { threads }, ..from }
}

/// As many as keep a processor busy, and no more than visitors need.
fn wanted_threads(part: f64, from: Load, visitors: u32) -> u32 {
    let busy = (1.0 / part.max(0.05)).ceil();
    let needed = (f64::from(visitors) / f64::from(from.workers) * SPARE).ceil();
    (busy.min(needed) as u32).clamp(from.threads + 1, MAX_THREADS.max(from.threads + 1))
}

/// How many visitors were there at once when one of twenty had to wait longest. By Little's law: so many requests a
/// second as all threads can answer, and each is there while it waits and while it is answered.
fn visitors(observations: &Observations, from: Load, cores: u32) -> u32 {
    let Some(queue) = &observations.queue else { return from.channels().clamp(2, MAX_VISITORS) };
    let wall_us = super::settings::mean_of(observations, |look| look.wall_us).max(1.0);
    let cpu_us = super::settings::mean_of(observations, |look| look.cpu_us).max(1.0);
    let by_threads = f64::from(from.channels()) / wall_us;
    let by_processors = f64::from(from.workers.min(cores.max(1))) / cpu_us;
    let app_us = if queue.app_us > 0.0 { queue.app_us } else { wall_us };
    let at_once = by_threads.min(by_processors) * (queue.p95_us + app_us);
    (at_once.round() as u32).clamp(2, MAX_VISITORS)
}

/// Paceline lets fewer threads run by itself where they compute; what is left is their memory.
fn too_many_threads(observations: &Observations) -> Option<WeighedCandidate> {
    let threads = observations.settings.threads?;
    let part = computing_part(observations);
    let usual = if observations.server == Server::Paceline { MANY_THREADS - 1 } else { USUAL_THREADS };
    if threads <= usual || part < COMPUTING {
        return None;
    }
    let from = of_now(observations, observations.settings.workers.unwrap_or(1), threads);
    let to = with_threads(observations, from, USUAL_THREADS);
    let (fix, short) = load_fix(observations, from, to);
    let sentence = format!(
        "requests compute {} of their time, and {threads} threads of a worker take turns at it",
        units::percent(part)
    );
    // Enough to keep all of them busy.
    let visitors = from.channels().clamp(2, MAX_VISITORS);
    let candidate = general(Kind::TooManyThreads, sentence, fix, Trial::Load { from, to, visitors });
    Some(weighed(candidate, &short, 0.0, 0.0))
}

fn load_fix(observations: &Observations, from: Load, to: Load) -> (crate::candidate::Fix, String) {
    let (key, before, after) = if from.threads == to.threads {
        ("workers", from.workers, to.workers)
    } else {
        ("threads", from.threads, to.threads)
    };
    let elsewhere = match key {
        "threads" => format!("threads {after}, {after}"),
        _ => format!("workers {after}"),
    };
    (server_setting(observations, key, &after.to_string(), &elsewhere), format!("{key} {before} -> {after}"))
}

fn preload(observations: &Observations) -> Option<WeighedCandidate> {
    let workers = observations.settings.workers.unwrap_or(1);
    if observations.settings.preload != Some(false) || workers < 2 {
        return None;
    }
    let fix = server_setting(observations, "preload", "true", "preload_app!");
    let sentence = format!("each of {workers} workers loads the application for itself, and they share no memory");
    let trial = Trial::Untried { why: "it saves memory and the time of starts, not the time of requests".into() };
    let candidate = general(Kind::Preload, sentence, fix, trial);
    Some(WeighedCandidate { candidate: Candidate { short: "preload".into(), ..candidate }, weight: 0.0 })
}
