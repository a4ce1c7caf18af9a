//! Another allocator is tried: a worker of the application as it is started, and one of the application started with other
//! variables, get the same requests on all of their threads in turn (A B B A), and their private memory is compared. It is
//! done with fresh copies several times, since a heap is never twice of the same size. It never compares pages.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use doctor::{
    candidate::Load,
    protocol::Request,
    statistics::{median, Pair},
    verdict::{Bytes, LoadFigures, MemoryPair, Outcome, RouteOutcome, UnderLoad},
};

use super::{
    baseline::{Baseline, Route},
    driver::{Driver, RunError},
    left_out::named,
    load_copy::LoadCopy,
    load_slice::{serve, Length, Mix, Slice},
    load_trial::{figures, weighed},
    machine::allocator,
    replaying::line,
    source::Source,
    stop::Stop,
};
use crate::{apps::environment::Environment, origins::shadow::ShadowError};

/// Pairs of copies.
const PAIRS: usize = 3;
/// Rounds of each pair: memory is looked at after each slice.
const ROUNDS: usize = 2;
/// What a slice takes, about, if the requests come one after the other.
const SLICE: Duration = Duration::from_millis(1500);
const MIN_OF_SLICE: usize = 20;
const MAX_OF_SLICE: usize = 2000;
/// A trial that would take longer is not begun; one that does ends.
const LONGEST: Duration = Duration::from_secs(300);
const PRELOAD: &str = "LD_PRELOAD";

/// What is tried.
pub struct MemoryChange<'a> {
    pub env: &'a BTreeMap<String, String>,
    pub load: Load,
}

/// What the pairs of copies have given. Of two: control, trial.
#[derive(Default)]
struct MemoryTrial {
    memories: Vec<MemoryPair>,
    cpu: Vec<Pair>,
    wall: Vec<Pair>,
    times: [Vec<f64>; 2],
    /// Requests that failed, with why.
    failed: [BTreeMap<usize, String>; 2],
}

/// Tries it. `rounds`: of each pair of copies. Err: the run can't go on.
pub fn try_it(
    driver: &mut Driver,
    baseline: &Baseline,
    change: &MemoryChange,
    rounds: Option<usize>,
) -> Result<Outcome, RunError> {
    match measure(driver, baseline, change, rounds.unwrap_or(ROUNDS).clamp(1, ROUNDS)) {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Trial(why)) => Ok(Outcome { failure: Some(line(&why).into_owned()), ..Outcome::default() }),
        Err(Stop::Run(error)) => Err(error),
    }
}

/// What `try_it` takes, about, beside starting the application.
pub fn usual_time(rounds: Option<usize>) -> Duration {
    let of_pair = 2 + 4 * rounds.unwrap_or(ROUNDS).clamp(1, ROUNDS);
    SLICE * (PAIRS * of_pair) as u32
}

fn measure(driver: &mut Driver, baseline: &Baseline, change: &MemoryChange, rounds: usize) -> Result<Outcome, Stop> {
    let began = Instant::now();
    let (requests, shares) = weighed(baseline);
    let visitors = change.load.threads.max(1) as usize;
    let length = Length::Requests(of_slice(mean_us(baseline), visitors, rounds)?);
    let (mix, deliver) = (Mix::new(&shares), driver.replaying.deliver);
    let all: Vec<Request> = requests.iter().map(|request| (*request).clone()).collect();
    let copy = |source: &mut Source| LoadCopy::of_source(source, change.load, &all, &baseline.recordings, deliver);
    driver.wait()?;
    driver.plain()?;
    let mut started = driver.started(&Environment { set: change.env.clone(), ..Environment::default() })?;
    let mut trial = MemoryTrial::default();
    for pair in 0..PAIRS {
        driver.wait_at_rest()?;
        let mut copies = [copy(driver.plain()?)?, copy(&mut started)?];
        has_loaded(&copies[1], change.env)?;
        // Before the first slice that counts, a copy's heap takes on its size.
        for copy in &mut copies {
            serve(copy, &mix, visitors, length, pair as u64)?;
        }
        let mut memories = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            driver.wait_at_rest()?;
            let seed = PAIRS + 2 * (pair * rounds + round);
            for turn in 0..2 {
                let order = if (turn + round) % 2 == 0 { [0, 1] } else { [1, 0] };
                let mut slices = [Measured::default(), Measured::default()];
                for which in order {
                    slices[which] = Measured::of(&mut copies[which], |copy| {
                        serve(copy, &mix, visitors, length, (seed + turn) as u64)
                    })?;
                    memories[which].extend(copies[which].memory());
                }
                trial.add(slices);
            }
            trial.check(&requests)?;
        }
        let [Some(control), Some(of_trial)] = memories.map(|all| mean(&all)) else {
            return Err(Stop::Trial("the kernel does not say how much memory a copy has".into()));
        };
        trial.memories.push(MemoryPair { control, trial: of_trial });
        if began.elapsed() > LONGEST {
            break;
        }
    }
    Ok(trial.outcome(visitors, rounds))
}

/// A slice, and what its requests took of the processor.
#[derive(Default)]
struct Measured {
    slice: Slice,
    /// Of a request. None: the kernel does not say.
    cpu_us: Option<f64>,
}

impl Measured {
    fn of(
        copy: &mut LoadCopy,
        serve: impl FnOnce(&mut LoadCopy) -> Result<Slice, ShadowError>,
    ) -> Result<Measured, ShadowError> {
        let before = copy.running();
        let slice = serve(copy)?;
        let spent = before.zip(copy.running()).map(|(before, after)| after.saturating_sub(before));
        let cpu_us = spent.map(|spent| spent.as_micros() as f64 / slice.answered.max(1) as f64);
        Ok(Measured { slice, cpu_us })
    }
}

impl MemoryTrial {
    /// Slices with the same requests.
    fn add(&mut self, slices: [Measured; 2]) {
        let pair = |[control_us, trial_us]: [f64; 2]| Pair { request: 0, control_us, trial_us };
        if let [Some(control_us), Some(trial_us)] = [slices[0].cpu_us, slices[1].cpu_us] {
            self.cpu.push(pair([control_us, trial_us]));
        }
        self.wall.push(pair([0, 1].map(|which: usize| slices[which].slice.mean_us(&BTreeMap::new()))));
        for (which, measured) in slices.into_iter().enumerate() {
            self.times[which].extend(measured.slice.times.iter().map(|(_, us)| us));
            self.failed[which].extend(measured.slice.failed);
        }
    }

    /// What fails with the change alone ends it.
    fn check(&self, requests: &[&Request]) -> Result<(), Stop> {
        let [control, trial] = &self.failed;
        match trial.iter().find(|(request, _)| !control.contains_key(request)) {
            Some((request, why)) => Err(Stop::Trial(format!("with it {} {why}", named(requests[*request])))),
            None => Ok(()),
        }
    }

    fn outcome(self, visitors: usize, rounds: usize) -> Outcome {
        let middle = MemoryPair::median(&self.memories).unwrap_or_default();
        let spent = |of: fn(&Pair) -> f64| {
            let all: Vec<f64> = self.cpu.iter().map(of).collect();
            (!all.is_empty()).then(|| median(&all))
        };
        let cpu_us = [spent(|pair| pair.control_us), spent(|pair| pair.trial_us)];
        let [control, trial] = self.times;
        let of = |times, memory, cpu_us| LoadFigures { cpu_us, ..figures(times, visitors, Some(memory)) };
        let load =
            UnderLoad { control: of(control, middle.control, cpu_us[0]), trial: of(trial, middle.trial, cpu_us[1]) };
        let routes = vec![RouteOutcome {
            share: 1.0,
            wall: self.wall,
            cpu: self.cpu,
            bytes: Bytes::NotCompared,
            ..RouteOutcome::default()
        }];
        let memory = Some(middle.trial as i64 - middle.control as i64);
        Outcome { rounds, routes, memory, load: Some(load), memories: self.memories, ..Outcome::default() }
    }
}

/// A library that can't be loaded is left out with a warning.
fn has_loaded(copy: &LoadCopy, env: &BTreeMap<String, String>) -> Result<(), Stop> {
    let wanted = env.get(PRELOAD).filter(|files| files.contains("jemalloc"));
    let loaded = copy.pids().next().and_then(allocator);
    match wanted {
        Some(files) if loaded != Some("jemalloc") => Err(Stop::Trial(format!("{files} was not loaded"))),
        _ => Ok(()),
    }
}

/// What the mean request of the sample takes.
fn mean_us(baseline: &Baseline) -> f64 {
    let mean = |route: &Route| {
        route.requests.iter().map(|known| known.wall_us).sum::<f64>() / route.requests.len().max(1) as f64
    };
    let all: f64 = baseline.routes.iter().map(|route| route.share).sum();
    let sum: f64 = baseline.routes.iter().map(|route| mean(route) * route.share).sum();
    (sum / all.max(1e-9)).max(1.0)
}

/// Requests of a slice. Err: it would take too long.
fn of_slice(mean_us: f64, visitors: usize, rounds: usize) -> Result<usize, Stop> {
    let count = ((SLICE.as_micros() as f64 / mean_us) as usize).clamp(MIN_OF_SLICE, MAX_OF_SLICE);
    // As many as wait at its beginning and at its end come to what is measured; the first slice of each copy counts not.
    let slices = PAIRS * 2 * (1 + 2 * rounds);
    let seconds = (count + 2 * visitors) as f64 * mean_us / 1e6 * slices as f64;
    if seconds > LONGEST.as_secs_f64() {
        Err(Stop::Trial(format!("its requests are too slow: it would take {} minutes", (seconds / 60.0).ceil())))
    } else {
        Ok(count)
    }
}

fn mean(all: &[u64]) -> Option<u64> {
    (!all.is_empty()).then(|| all.iter().sum::<u64>() / all.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(us: f64, cpu_us: f64, failed: &[usize]) -> Measured {
        let failed = failed.iter().map(|request| (*request, "is answered 500".to_owned())).collect();
        Measured { slice: Slice { times: vec![(0, us); 4], failed, answered: 4 }, cpu_us: Some(cpu_us) }
    }

    #[test]
    fn what_the_pairs_say() {
        let mut trial = MemoryTrial::default();
        (0..6).for_each(|_| trial.add([measured(20_000.0, 9_000.0, &[]), measured(10_000.0, 8_000.0, &[])]));
        let pair = |control, trial| MemoryPair { control, trial };
        trial.memories = vec![pair(100, 70), pair(120, 60), pair(90, 80)];
        let outcome = trial.outcome(2, 1);
        let load = outcome.load.unwrap();
        assert_eq!((outcome.memory, outcome.rounds, outcome.routes[0].cpu.len()), (Some(-30), 1, 6));
        assert_eq!(
            (load.control.memory, load.control.cpu_us, load.control.per_second),
            (Some(100), Some(9_000.0), 100.0)
        );
        assert_eq!((load.trial.memory, load.trial.cpu_us, load.trial.per_second), (Some(70), Some(8_000.0), 200.0));
    }

    #[test]
    fn what_fails_with_it_alone_ends_it() {
        let request = Request { path: "/a".into(), ..Request::default() };
        let (mut fails, mut fails_anyway) = (MemoryTrial::default(), MemoryTrial::default());
        fails.add([measured(1.0, 1.0, &[]), measured(1.0, 1.0, &[0])]);
        fails_anyway.add([measured(1.0, 1.0, &[0]), measured(1.0, 1.0, &[0])]);
        assert!(matches!(fails.check(&[&request]), Err(Stop::Trial(why)) if why == "with it GET /a is answered 500"));
        assert!(fails_anyway.check(&[&request]).is_ok());
    }

    #[test]
    fn a_slice_takes_about_as_long_whatever_a_request_takes() {
        let count = |mean_us| of_slice(mean_us, 5, 2).ok();
        assert_eq!((count(10_000.0), count(100.0), count(200_000.0)), (Some(150), Some(2000), Some(20)));
        assert!(matches!(of_slice(2e6, 5, 2), Err(Stop::Trial(why)) if why.contains("too slow")));
    }
}
