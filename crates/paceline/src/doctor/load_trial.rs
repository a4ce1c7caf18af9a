//! Other numbers of threads or workers are tried: a copy of the application as the server runs it, and one as it would,
//! get the same visitors in turn (A B B A), and the times that these wait are compared. It never compares pages: they
//! are those that the sample was taken from.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use doctor::{
    candidate::Load,
    protocol::Request,
    statistics::{self, decide_beyond, Decision, Pair},
    verdict::{Bytes, LoadFigures, Outcome, RouteOutcome, UnderLoad, LOAD_PART},
};

use super::{
    baseline::Baseline,
    driver::{Driver, RunError},
    left_out::named,
    load_copy::LoadCopy,
    load_slice::{serve, Length, Mix, Slice},
    replaying::line,
    stop::Stop,
};

/// Requests of a trial, at most.
const MAX_REQUESTS: usize = 64;
/// What a slice takes, about.
const SLICE: Duration = Duration::from_millis(1200);
/// Before the first one that is measured: the copy compiles and fills its caches, and is seen to answer how fast.
const WARM_UP: Duration = Duration::from_millis(2500);
/// Requests of a slice, beside the first of each visitor.
const MIN_OF_SLICE: usize = 8;
const MAX_OF_SLICE: usize = 4000;
/// Rounds before it is decided, and at most.
const MIN_ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 15;
/// A trial ends after this time, decided or not.
const LONGEST: Duration = Duration::from_secs(300);
/// Slices of a round.
const SLICES: usize = 4;

/// What is tried.
pub struct LoadChange {
    pub from: Load,
    pub to: Load,
    pub visitors: u32,
}

/// Both copies, and what they have given.
struct LoadTrial<'a> {
    requests: Vec<&'a Request>,
    mix: Mix,
    visitors: usize,
    control: LoadCopy,
    trial: LoadCopy,
    /// Slices of control and trial that were served one after the other.
    pairs: Vec<[Slice; 2]>,
    /// Requests that failed, with why.
    failed: [BTreeMap<usize, String>; 2],
}

/// Tries it. `rounds`: None: until it is decided. Err: the run can't go on.
pub fn try_it(
    driver: &mut Driver,
    baseline: &Baseline,
    change: &LoadChange,
    rounds: Option<usize>,
) -> Result<Outcome, RunError> {
    match measure(driver, baseline, change, rounds) {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Trial(why)) => Ok(Outcome { failure: Some(line(&why).into_owned()), ..Outcome::default() }),
        Err(Stop::Run(error)) => Err(error),
    }
}

/// What `try_it` takes, about, where requests are answered as fast as slices want it.
pub fn usual_time(rounds: Option<usize>) -> Duration {
    let rounds = rounds.unwrap_or((MIN_ROUNDS + MAX_ROUNDS) / 2);
    WARM_UP * 2 + SLICE * (SLICES * rounds) as u32
}

fn measure(
    driver: &mut Driver,
    baseline: &Baseline,
    change: &LoadChange,
    most: Option<usize>,
) -> Result<Outcome, Stop> {
    let began = Instant::now();
    let mut trial = LoadTrial::make(driver, baseline, change)?;
    let mut length = trial.warm_up(driver, most.unwrap_or(MIN_ROUNDS))?;
    let most = most.unwrap_or(MAX_ROUNDS);
    let mut rounds = 0;
    while rounds < most && began.elapsed() < LONGEST {
        driver.wait_at_rest()?;
        length = trial.round(length, rounds)?;
        rounds += 1;
        trial.check()?;
        let is_decided = || decide_beyond(&trial.times(), rounds, LOAD_PART) != Decision::More;
        if rounds >= MIN_ROUNDS && is_decided() {
            break;
        }
    }
    if rounds < most.min(statistics::MIN_ROUNDS) {
        let why = format!("{rounds} rounds took {} minutes: the machine was busy", LONGEST.as_secs() / 60);
        return Err(Stop::Trial(why));
    }
    let [control, of_trial] = trial.figures();
    let memory = control.memory.zip(of_trial.memory).map(|(control, trial)| trial as i64 - control as i64);
    let wall = trial.times();
    let all = RouteOutcome { share: 1.0, wall, bytes: Bytes::NotCompared, ..RouteOutcome::default() };
    let load = Some(UnderLoad { control, trial: of_trial });
    Ok(Outcome { rounds, routes: vec![all], memory, load, ..Outcome::default() })
}

impl<'a> LoadTrial<'a> {
    fn make(driver: &mut Driver, baseline: &'a Baseline, change: &LoadChange) -> Result<LoadTrial<'a>, Stop> {
        let (requests, shares) = weighed(baseline);
        if requests.is_empty() {
            return Err(Stop::Trial("there is no request to repeat".into()));
        }
        let asked: Vec<Request> = requests.iter().map(|request| (*request).clone()).collect();
        let mut copy = |load| LoadCopy::make(driver, load, &asked, &baseline.recordings);
        let (control, trial) = (copy(change.from)?, copy(change.to)?);
        let (mix, visitors) = (Mix::new(&shares), change.visitors.max(1) as usize);
        let failed = Default::default();
        Ok(LoadTrial { requests, mix, visitors, control, trial, pairs: Vec::new(), failed })
    }

    /// Returns how long slices are to be.
    fn warm_up(&mut self, driver: &mut Driver, rounds: usize) -> Result<Length, Stop> {
        let mut rates = Vec::new();
        for which in 0..2 {
            driver.wait_at_rest()?;
            let began = Instant::now();
            let slice = self.serve(which, Length::Time(WARM_UP), which as u64)?;
            // The first half is slower than what comes.
            let later = &slice.times[slice.times.len() / 2..];
            let mean_us = later.iter().map(|(_, us)| us).sum::<f64>() / later.len().max(1) as f64;
            let by_all = slice.times.len() as f64 / began.elapsed().as_secs_f64();
            rates.push(by_all.max(self.visitors as f64 / mean_us.max(1.0) * 1e6));
        }
        self.check()?;
        let slowest = rates.into_iter().fold(f64::INFINITY, f64::min).max(1e-3);
        let count = self.requests_of_slice(slowest);
        // As many as wait at its beginning and at its end come to what is measured.
        let seconds = (count + 2 * self.visitors) as f64 / slowest * (SLICES * rounds) as f64;
        if seconds > LONGEST.as_secs_f64() {
            Err(Stop::Trial(format!("its requests are too slow: it would take {} minutes", (seconds / 60.0).ceil())))
        } else {
            Ok(Length::Requests(count))
        }
    }

    /// `rate`: what the slower one answers in a second.
    fn requests_of_slice(&self, rate: f64) -> usize {
        ((SLICE.as_secs_f64() * rate) as usize).clamp(MIN_OF_SLICE.max(self.visitors), MAX_OF_SLICE)
    }

    /// A B B A, in the next round B A A B. Returns how long slices are to be from now on: the machine may have become
    /// slower.
    fn round(&mut self, length: Length, round: usize) -> Result<Length, Stop> {
        let mut slowest_us: f64 = 1.0;
        for turn in 0..2 {
            let seed = (2 * round + turn + 2) as u64;
            let order = if (turn + round) % 2 == 0 { [0, 1] } else { [1, 0] };
            let mut pair = [Slice::default(), Slice::default()];
            for which in order {
                pair[which] = self.serve(which, length, seed)?;
                slowest_us = slowest_us.max(pair[which].mean_us(&BTreeMap::new()));
            }
            self.pairs.push(pair);
        }
        Ok(Length::Requests(self.requests_of_slice(self.visitors as f64 / slowest_us * 1e6)))
    }

    fn serve(&mut self, which: usize, length: Length, seed: u64) -> Result<Slice, Stop> {
        let copy = if which == 0 { &mut self.control } else { &mut self.trial };
        let slice = serve(copy, &self.mix, self.visitors, length, seed)?;
        self.failed[which].extend(slice.failed.iter().map(|(request, why)| (*request, why.clone())));
        Ok(slice)
    }

    /// What fails with the change alone ends it; what fails in any case is left out.
    fn check(&self) -> Result<(), Stop> {
        let [control, trial] = &self.failed;
        if let Some((request, why)) = trial.iter().find(|(request, _)| !control.contains_key(request)) {
            return Err(Stop::Trial(format!("with it {} {why}", named(self.requests[*request]))));
        }
        match control.first_key_value() {
            Some((request, why)) if control.len() == self.requests.len() => {
                Err(Stop::Trial(format!("under load {} {why}", named(self.requests[*request]))))
            }
            _ => Ok(()),
        }
    }

    /// The mean times of the slices, without requests that have failed.
    fn times(&self) -> Vec<Pair> {
        let [without, _] = &self.failed;
        let pair = |[control, trial]: &[Slice; 2]| Pair {
            request: 0,
            control_us: control.mean_us(without),
            trial_us: trial.mean_us(without),
        };
        self.pairs.iter().map(pair).collect()
    }

    fn figures(&self) -> [LoadFigures; 2] {
        let [without, _] = &self.failed;
        [(0, &self.control), (1, &self.trial)].map(|(which, copy)| {
            let slices = self.pairs.iter().flat_map(|pair| &pair[which].times);
            let times: Vec<f64> =
                slices.filter(|(request, _)| !without.contains_key(request)).map(|(_, us)| *us).collect();
            figures(times, self.visitors, copy.memory())
        })
    }
}

pub fn figures(mut times: Vec<f64>, visitors: usize, memory: Option<u64>) -> LoadFigures {
    times.sort_by(f64::total_cmp);
    let mean_us = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let at = (0.99 * times.len().saturating_sub(1) as f64).round() as usize;
    let p99_us = times.get(at).copied().unwrap_or(0.0);
    // All visitors are always there (Little's law).
    let per_second = if mean_us > 0.0 { visitors as f64 / mean_us * 1e6 } else { 0.0 };
    LoadFigures { per_second, p99_us, memory, cpu_us: None }
}

/// Requests of all routes, of each the same number as far as there is room, with their shares.
pub fn weighed(baseline: &Baseline) -> (Vec<&Request>, Vec<f64>) {
    let of_route = (MAX_REQUESTS / baseline.routes.len().max(1)).max(1);
    let mut all = Vec::new();
    for route in baseline.routes.iter().take(MAX_REQUESTS) {
        let known = &route.requests[..route.requests.len().min(of_route)];
        let share = route.share / known.len().max(1) as f64;
        all.extend(known.iter().map(|known| (&known.request, share)));
    }
    all.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_littles_law() {
        let found = figures((1..=200).map(|ms| f64::from(ms) * 1000.0).collect(), 8, Some(7));
        assert_eq!((found.p99_us, found.memory), (198_000.0, Some(7)));
        assert!((found.per_second - 8.0 / 0.1005).abs() < 0.1, "{found:?}");
        assert_eq!(figures(Vec::new(), 8, None), LoadFigures::default());
    }
}
