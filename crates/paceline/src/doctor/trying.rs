//! One candidate is tried: a control and a trial shadow answer the same requests in turn (A B B A), and their times and
//! bytes are compared. It never decides what a result means: `doctor::verdict` does.

use std::time::{Duration, Instant};

use doctor::{
    candidate::{Candidate, Measure, Trial},
    collections::{CollectionRate, ReplayCost, ReplayPair},
    mask::{Difference, Mask},
    protocol::{Deliver, Patch, ReplayResult, Request},
    statistics::{decide, max_rounds, Decision, Pair},
    verdict::{Bytes, Outcome, RouteOutcome},
};
use serde_json::Value;

use super::{
    baseline::{left_out, named, touched, Baseline},
    compress_trial,
    driver::{Driver, RunError},
    load_trial::{self, LoadChange},
    memory_trial::{self, MemoryChange},
    replaying::{line, DecodedAnswer, MEASURED, TIMED},
    source::Source,
    stop::Stop,
};
use crate::{apps::environment::Environment, observe::memory_usage::Memory, origins::shadow::Shadow};

/// Requests and routes of a trial, at most.
const MAX_REQUESTS: usize = 16;
/// The requests are chosen so that so many rounds take no longer than this.
const BUDGET: Duration = Duration::from_secs(40);
const BUDGET_ROUNDS: f64 = 9.0;
/// A trial ends after this time, decided or not.
const LONGEST: Duration = Duration::from_secs(300);
/// Replays before the first measured one, at least: a what-if keeps results during the first.
const WARM_UPS: usize = 2;
/// And wanted: YJIT compiles what was called 30 times, and the heap takes on its size, and with it how often garbage is
/// collected, in some hundred requests.
const WANTED_WARM_UPS: usize = 40;
const WARM_REQUESTS: usize = 400;
/// No more are begun after this time; of an environment, which changes just that, after the longer one.
const LONGEST_WARM_UP: Duration = Duration::from_secs(5);
const LONGEST_OF_ENVIRONMENT: Duration = Duration::from_secs(20);

/// A shadow as it is, and one with the change.
struct Pairing {
    control: Shadow,
    trial: Shadow,
    deliver: Deliver,
    /// The process that the trial's was forked from, if it was started for it: the shadow ends with it.
    started: Option<Source>,
}

/// A route while it is measured.
struct RouteTrial<'a> {
    route: &'a str,
    share: f64,
    /// None: its pages can't be compared.
    mask: Option<&'a Mask>,
    /// With their numbers.
    requests: Vec<(usize, &'a Request)>,
    replays: Vec<ReplayPair>,
    difference: Option<(String, Difference)>,
    is_decided: bool,
}

/// Tries it. `max_rounds`: None: until it is decided. Err: the run can't go on.
pub fn try_it(
    driver: &mut Driver,
    baseline: &Baseline,
    candidate: &Candidate,
    rounds: Option<usize>,
) -> Result<Outcome, RunError> {
    match candidate.trial {
        Trial::Computed { .. } | Trial::Untried { .. } => return Ok(Outcome::default()),
        Trial::Load { from, to, visitors } => {
            return load_trial::try_it(driver, baseline, &LoadChange { from, to, visitors }, rounds);
        }
        Trial::Memory { ref env, load } => {
            return memory_trial::try_it(driver, baseline, &MemoryChange { env, load }, rounds);
        }
        Trial::Compression => return compress_trial::try_it(driver, baseline, &candidate.routes),
        _ => {}
    }
    let mut routes = choose(baseline, candidate);
    match measure(driver, &baseline.recordings, candidate, &mut routes, rounds) {
        Ok((rounds, rate, memory)) => {
            let is_live = driver.is_live();
            let routes = routes.into_iter().map(|route| route.outcome(rate, is_live)).collect();
            Ok(Outcome { rounds, routes, memory, ..Outcome::default() })
        }
        Err(Stop::Trial(why)) => Ok(Outcome { failure: Some(line(&why).into_owned()), ..Outcome::default() }),
        Err(Stop::Run(error)) => Err(error),
    }
}

fn measure(
    driver: &mut Driver,
    recordings: &[Value],
    candidate: &Candidate,
    routes: &mut [RouteTrial],
    most: Option<usize>,
) -> Result<(usize, Option<CollectionRate>, Option<i64>), Stop> {
    let began = Instant::now();
    let mut pairing = Pairing::make(driver, candidate, recordings)?;
    pairing.warm_up(driver, routes)?;
    let most = most.unwrap_or_else(|| max_rounds(1));
    let (mut rounds, mut rate) = (0, None);
    while rounds < most && began.elapsed() < LONGEST && routes.iter().any(|route| !route.is_decided) {
        driver.wait()?;
        for route in routes.iter_mut().filter(|route| !route.is_decided) {
            for nth in 0..route.requests.len() {
                pairing.round(driver, route, nth, rounds)?;
            }
        }
        rate = collection_rate(candidate, routes);
        for route in routes.iter_mut().filter(|route| !route.is_decided) {
            let pairs = route.pairs(rate, candidate.measure);
            route.is_decided = route.difference.is_some() || decide(&pairs, rounds + 1) != Decision::More;
        }
        rounds += 1;
    }
    Ok((rounds, rate, if is_environment(candidate) { pairing.memory() } else { None }))
}

/// Another environment may collect in another way, or seldomer: None.
fn collection_rate(candidate: &Candidate, routes: &[RouteTrial]) -> Option<CollectionRate> {
    (!is_environment(candidate)).then(|| CollectionRate::of(routes.iter().flat_map(|route| &route.replays)))
}

fn is_environment(candidate: &Candidate) -> bool {
    matches!(candidate.trial, Trial::Environment { .. })
}

impl Pairing {
    fn make(driver: &mut Driver, candidate: &Candidate, recordings: &[Value]) -> Result<Pairing, Stop> {
        let deliver = driver.replaying.deliver;
        let mut pairing = match &candidate.trial {
            Trial::Patch { trial, control, deliver } => {
                let (control, trial) = (patched(driver, control)?, patched(driver, trial)?);
                Pairing { control, trial, deliver: *deliver, started: None }
            }
            Trial::WhatIf { trial } => {
                let (control, trial) = (patched(driver, &[])?, patched(driver, trial)?);
                Pairing { control, trial, deliver, started: None }
            }
            Trial::Environment { env, unset, ruby_options } => {
                let (set, unset, ruby_options) = (env.clone(), unset.clone(), ruby_options.clone());
                let change = Environment { set, unset, ruby_options };
                let (control, trial, started) = driver.in_environment(&change)?;
                Pairing { control, trial, deliver, started: Some(started) }
            }
            Trial::Load { .. }
            | Trial::Memory { .. }
            | Trial::Compression
            | Trial::Computed { .. }
            | Trial::Untried { .. } => return Err(Stop::Trial("there is nothing to try".into())),
        };
        pairing.control.load(recordings)?;
        pairing.trial.load(recordings)?;
        Ok(pairing)
    }

    fn warm_up(&mut self, driver: &mut Driver, routes: &[RouteTrial]) -> Result<(), Stop> {
        let began = Instant::now();
        let requests: usize = routes.iter().map(|route| route.requests.len()).sum();
        let longest = if self.started.is_some() { LONGEST_OF_ENVIRONMENT } else { LONGEST_WARM_UP };
        for done in 0..WANTED_WARM_UPS.max(WARM_REQUESTS / requests.max(1)) {
            if done >= WARM_UPS && began.elapsed() > longest {
                break;
            }
            driver.wait()?;
            for (_, request) in routes.iter().flat_map(|route| &route.requests) {
                driver.replaying.replay_delivered(&mut self.control, request, MEASURED, self.deliver)?;
                driver.replaying.replay_delivered(&mut self.trial, request, MEASURED, self.deliver)?;
            }
        }
        Ok(())
    }

    /// One request in A B B A, in the next round in B A A B.
    fn round(&mut self, driver: &mut Driver, route: &mut RouteTrial, nth: usize, round: usize) -> Result<(), Stop> {
        let (number, request) = route.requests[nth];
        let (deliver, is_live) = (self.deliver, driver.is_live());
        // What changes all requests must be worth it also for those that come now and then, and find other caches.
        let manner = if self.started.is_some() { MEASURED } else { TIMED };
        let mut replay = |shadow: &mut Shadow| driver.replaying.replay_delivered(shadow, request, manner, deliver);
        for turn in 0..2 {
            let (control, trial) = if (turn + round) % 2 == 0 {
                let control = replay(&mut self.control)?;
                (control, replay(&mut self.trial)?)
            } else {
                let trial = replay(&mut self.trial)?;
                (replay(&mut self.control)?, trial)
            };
            let (first, second) = (ReplayCost::of(&control), ReplayCost::of(&trial));
            route.replays.push(ReplayPair { request: number, control: first, trial: second });
            if let Some(why) = left_out(&trial, is_live).filter(|_| left_out(&control, is_live).is_none()) {
                return Err(Stop::Trial(format!("with it {} {why}", named(request))));
            }
            route.compare(request, control, trial);
        }
        Ok(())
    }

    /// Private bytes that the trial has more.
    fn memory(&self) -> Option<i64> {
        let own = |shadow: &Shadow| Some(Memory::of(shadow.pid()?)?.own() as i64);
        Some(own(&self.trial)? - own(&self.control)?)
    }
}

fn patched(driver: &mut Driver, patches: &[Patch]) -> Result<Shadow, Stop> {
    let mut shadow = driver.shadow()?;
    patches.iter().try_for_each(|patch| shadow.patch(patch))?;
    Ok(shadow)
}

impl RouteTrial<'_> {
    /// `rate`: None: with the collections as they came.
    fn pairs(&self, rate: Option<CollectionRate>, measure: Measure) -> Vec<Pair> {
        self.replays.iter().map(|pair| pair.pair(measure, rate)).collect()
    }

    fn compare(&mut self, request: &Request, control: ReplayResult, trial: ReplayResult) {
        let Some(mask) = self.mask.filter(|_| self.difference.is_none()) else { return };
        let (control, trial) = (DecodedAnswer::new(control), DecodedAnswer::new(trial));
        if let Err(difference) = mask.equal(control.answer(), trial.answer()) {
            self.difference = Some((named(request), difference));
        }
    }

    /// `is_live`: of a visitor's page only is told where it differs.
    fn outcome(mut self, rate: Option<CollectionRate>, is_live: bool) -> RouteOutcome {
        let bytes = match self.difference.take() {
            Some((request, difference)) => {
                let difference = if is_live { without_content(difference) } else { difference };
                Bytes::Differ { request, difference }
            }
            None if self.mask.is_some() => Bytes::Same,
            None => Bytes::NotCompared,
        };
        let [wall, cpu] = [Measure::Wall, Measure::Cpu].map(|measure| self.pairs(rate, measure));
        RouteOutcome { route: self.route.to_owned(), share: self.share, wall, cpu, bytes }
    }
}

/// Leaves no byte of a page or a header's value.
fn without_content(mut difference: Difference) -> Difference {
    let length = |text: &str| if text.is_empty() { String::new() } else { format!("({} bytes)", text.len()) };
    for change in &mut difference.body {
        change.control = length(&change.control);
        change.trial = length(&change.trial);
        change.before.clear();
        change.after.clear();
    }
    for change in &mut difference.headers {
        change.control = change.control.as_deref().map(length);
        change.trial = change.trial.as_deref().map(length);
    }
    difference
}

/// The requests that a candidate touches: of each route the same number, as many as there is time for.
fn choose<'a>(baseline: &'a Baseline, candidate: &Candidate) -> Vec<RouteTrial<'a>> {
    let routes = touched(&baseline.routes, &candidate.routes);
    let mut chosen: Vec<RouteTrial> = routes
        .into_iter()
        .map(|route| RouteTrial {
            route: &route.route,
            share: route.share,
            mask: Some(&route.mask).filter(|mask| !mask.is_too_noisy()),
            requests: Vec::new(),
            replays: Vec::new(),
            difference: None,
            is_decided: false,
        })
        .collect();
    let routes = touched(&baseline.routes, &candidate.routes);
    let (mut count, mut time) = (0, 0.0);
    let deepest = routes.iter().map(|route| route.requests.len()).max().unwrap_or(0);
    for nth in 0..deepest {
        for (route, measuring) in routes.iter().zip(&mut chosen) {
            let Some(known) = route.requests.get(nth) else { continue };
            let cost = known.wall_us * 4.0 * BUDGET_ROUNDS;
            let fits = count < MAX_REQUESTS && time + cost <= BUDGET.as_micros() as f64;
            if count == 0 || fits {
                measuring.requests.push((known.number, &known.request));
                count += 1;
                time += cost;
            }
        }
    }
    chosen.retain(|route| !route.requests.is_empty());
    chosen
}

#[cfg(test)]
mod tests {
    use doctor::{
        candidate::{Edit, Fix, Kind},
        mask::{Change, HeaderChange},
        protocol::Hello,
        report::Sample,
    };

    use super::{
        super::{
            baseline::{KnownRequest, Route},
            fetching::Links,
            machine::Process,
        },
        *,
    };

    fn baseline(routes: &[(&str, &[f64])]) -> Baseline {
        let mut number = 0;
        let mut known = |wall_us: &f64| {
            number += 1;
            KnownRequest {
                request: Request { path: format!("/{number}"), ..Request::default() },
                number,
                wall_us: *wall_us,
            }
        };
        let routes = routes.iter().map(|(route, times)| Route {
            route: (*route).into(),
            share: 0.5,
            mask: Mask::default(),
            requests: times.iter().map(&mut known).collect(),
        });
        Baseline {
            hello: Hello::default(),
            routes: routes.collect(),
            recordings: Vec::new(),
            observed: Vec::new(),
            sample: Sample::default(),
            process: Process::default(),
            links: Links::default(),
        }
    }

    fn candidate(routes: &[&str]) -> Candidate {
        Candidate {
            kind: Kind::BuilderXml,
            routes: routes.iter().map(|route| (*route).to_owned()).collect(),
            sentence: String::new(),
            short: String::new(),
            at: String::new(),
            fix: Fix { file: String::new(), line: String::new(), edit: Edit::Shown { why: String::new() } },
            trial: Trial::WhatIf { trial: Vec::new() },
            measure: Measure::Wall,
            ceiling_us: 0.0,
            subject: String::new(),
        }
    }

    fn chosen(baseline: &Baseline, routes: &[&str]) -> Vec<(String, Vec<usize>)> {
        let numbers = |requests: &[(usize, &Request)]| requests.iter().map(|(number, _)| *number).collect();
        let chosen = choose(baseline, &candidate(routes));
        chosen.iter().map(|one| (one.route.to_owned(), numbers(&one.requests))).collect()
    }

    #[test]
    fn each_route_gets_its_turn() {
        let all = baseline(&[("GET /a", &[1e3; 20]), ("GET /b", &[1e3; 2]), ("GET /c", &[1e3; 20])]);
        let found = chosen(&all, &["GET /b", "GET /a", "GET /gone"]);
        assert_eq!(found[0], ("GET /b".into(), vec![21, 22]));
        assert_eq!((found.len(), &*found[1].0, found[1].1.len()), (2, "GET /a", MAX_REQUESTS - 2));
        assert_eq!(chosen(&all, &[]).len(), 3);
    }

    #[test]
    fn slow_requests_are_measured_one_by_one() {
        let all = baseline(&[("GET /slow", &[3e6, 3e6]), ("GET /fast", &[1e3, 1e3])]);
        assert_eq!(chosen(&all, &[]), [("GET /slow".into(), vec![1])]);
        let all = baseline(&[("GET /fast", &[1e3, 1e3]), ("GET /slow", &[3e6, 3e6])]);
        assert_eq!(chosen(&all, &[]), [("GET /fast".into(), vec![1, 2])]);
    }

    #[test]
    fn of_a_visitors_page_nothing_is_told() {
        let secret = || String::from("ann@shop.test");
        let change = Change { offset: 7, before: secret(), control: secret(), trial: String::new(), after: secret() };
        let header = HeaderChange { name: "x-user".into(), control: Some(secret()), trial: None };
        let difference = Difference { status: None, headers: vec![header], body: vec![change] };
        let told = format!("{:?}", without_content(difference));
        assert!(!told.contains("ann") && told.contains("(13 bytes)") && told.contains("offset: 7"), "{told}");
    }
}
