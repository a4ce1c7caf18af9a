//! One candidate is tried: a control and a trial shadow answer the same requests in turn (A B B A), and their times and
//! bytes are compared. It never decides what a result means: `doctor::verdict` does.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use doctor::{
    candidate::{Candidate, Kind, Measure, Trial},
    collections::{CollectionRate, ReplayCost, ReplayPair},
    mask::{Difference, Mask},
    protocol::{Deliver, Patch, ReplayResult, Request},
    statistics::{decide, estimate_of_starts, max_rounds, Decision, Pair, MIN_ROUNDS},
    verdict::{Bytes, Outcome, RouteOutcome},
};
use serde_json::Value;

use super::{
    baseline::{touched, Baseline},
    compress_trial,
    driver::{Driver, RunError},
    left_out::{left_out, named},
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
/// An environment that seems to be worth it is tried on so many starts of the application: no two have the same heap.
const STARTS: usize = 3;
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
    /// The processes that they were forked from, if these were started for it: a shadow ends with its own. Empty: none was.
    started: Vec<Source>,
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
    /// Of these, how many were made on each start of the application that is over.
    starts: Vec<usize>,
    difference: Option<(String, Difference)>,
    /// A middleware is passed over: the headers that it may set are no difference.
    is_without_middleware: bool,
    /// Those that differ all the same.
    headers: BTreeSet<String>,
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

/// What `try_it` takes with so many rounds, about, beside starting the application.
pub fn usual_time(baseline: &Baseline, candidate: &Candidate, rounds: usize) -> Duration {
    let routes = choose(baseline, candidate);
    let chosen: Vec<usize> = routes.iter().flat_map(|route| &route.requests).map(|(number, _)| *number).collect();
    let known = baseline.routes.iter().flat_map(|route| &route.requests);
    let of_all = known.filter(|one| chosen.contains(&one.number)).map(|one| one.wall_us).sum::<f64>();
    let replays = |times: usize| Duration::from_secs_f64(of_all * times as f64 / 1e6);
    let longest = longest_warm_up(is_environment(candidate));
    let warm_up = replays(2 * wanted_warm_ups(chosen.len())).min(longest).max(replays(2 * WARM_UPS));
    (warm_up + replays(4 * rounds)).min(LONGEST)
}

fn wanted_warm_ups(requests: usize) -> usize {
    WANTED_WARM_UPS.max(WARM_REQUESTS / requests.max(1))
}

fn longest_warm_up(is_environment: bool) -> Duration {
    if is_environment {
        LONGEST_OF_ENVIRONMENT
    } else {
        LONGEST_WARM_UP
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
    let starts = if is_environment(candidate) { STARTS } else { 1 };
    let (mut rounds, mut rate, mut memories) = (0, None, Vec::new());
    for start in 0..starts {
        let mut pairing = Pairing::make(driver, candidate, recordings, start > 0)?;
        pairing.warm_up(driver, routes)?;
        routes.iter_mut().for_each(RouteTrial::begin_start);
        let most = most.unwrap_or_else(|| max_rounds(1));
        let mut of_start = 0;
        while of_start < most && began.elapsed() < LONGEST && routes.iter().any(|route| !route.is_decided) {
            driver.wait()?;
            for route in routes.iter_mut().filter(|route| !route.is_decided) {
                for nth in 0..route.requests.len() {
                    pairing.round(driver, route, nth, of_start)?;
                }
            }
            rate = collection_rate(candidate, routes);
            of_start += 1;
            routes.iter_mut().for_each(|route| route.decide(rate, candidate.measure, of_start));
        }
        rounds += of_start;
        memories.extend(pairing.memory().filter(|_| is_environment(candidate)));
        routes.iter_mut().for_each(RouteTrial::end_start);
        // One start that shows no gain is enough.
        if began.elapsed() > LONGEST || !routes.iter().any(|route| route.saves(candidate.measure)) {
            break;
        }
    }
    let memory = memories.iter().sum::<i64>().checked_div(memories.len() as i64);
    Ok((rounds, rate, memory))
}

/// Another environment may collect in another way, or seldomer: None.
fn collection_rate(candidate: &Candidate, routes: &[RouteTrial]) -> Option<CollectionRate> {
    (!is_environment(candidate)).then(|| CollectionRate::of(routes.iter().flat_map(|route| &route.replays)))
}

fn is_environment(candidate: &Candidate) -> bool {
    matches!(candidate.trial, Trial::Environment { .. })
}

impl Pairing {
    /// `is_fresh`: control is started for this, too.
    fn make(driver: &mut Driver, candidate: &Candidate, recordings: &[Value], is_fresh: bool) -> Result<Pairing, Stop> {
        let deliver = driver.replaying.deliver;
        let mut pairing = match &candidate.trial {
            Trial::Patch { trial, control, deliver } => {
                let (control, trial) = (patched(driver, control)?, patched(driver, trial)?);
                Pairing { control, trial, deliver: *deliver, started: Vec::new() }
            }
            Trial::WhatIf { trial } => {
                let (control, trial) = (patched(driver, &[])?, patched(driver, trial)?);
                Pairing { control, trial, deliver, started: Vec::new() }
            }
            Trial::Environment { env, unset, ruby_options } => {
                let (set, unset, ruby_options) = (env.clone(), unset.clone(), ruby_options.clone());
                let change = Environment { set, unset, ruby_options };
                let (control, trial, started) = driver.in_environment(&change, is_fresh)?;
                Pairing { control, trial, deliver, started }
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
        let longest = longest_warm_up(!self.started.is_empty());
        for done in 0..wanted_warm_ups(requests) {
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
        let manner = if self.started.is_empty() { TIMED } else { MEASURED };
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

    fn begin_start(&mut self) {
        self.is_decided = false;
    }

    fn end_start(&mut self) {
        let before: usize = self.starts.iter().sum();
        self.starts.push(self.replays.len() - before);
    }

    /// After `rounds` of this start. What changes a page is measured until its gain can be told.
    fn decide(&mut self, rate: Option<CollectionRate>, measure: Measure, rounds: usize) {
        let before: usize = self.starts.iter().sum();
        let pairs = self.pairs(rate, measure);
        let is_known = self.difference.is_some() && rounds >= MIN_ROUNDS;
        self.is_decided |= is_known || decide(&pairs[before..], rounds) != Decision::More;
    }

    /// Whether all starts have shown that it saves something. Of an environment, whose collections count as they came.
    fn saves(&self, measure: Measure) -> bool {
        let estimate = estimate_of_starts(&self.pairs(None, measure), &self.starts);
        self.difference.is_none() && estimate.is_some_and(|estimate| estimate.is_worth())
    }

    fn compare(&mut self, request: &Request, control: ReplayResult, trial: ReplayResult) {
        let Some(mask) = self.mask.filter(|_| self.difference.is_none()) else { return };
        let (control, trial) = (DecodedAnswer::new(control), DecodedAnswer::new(trial));
        match mask.equal(control.answer(), trial.answer()) {
            Err(difference) if self.is_without_middleware && difference.is_of_headers() => {
                self.headers.extend(difference.headers.into_iter().map(|change| change.name));
            }
            Err(difference) => self.difference = Some((named(request), difference)),
            Ok(()) => {}
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
        let headers = self.headers.into_iter().collect();
        RouteOutcome { route: self.route.to_owned(), share: self.share, wall, cpu, bytes, starts: self.starts, headers }
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
            starts: Vec::new(),
            difference: None,
            is_without_middleware: candidate.kind == Kind::SlowMiddleware,
            headers: BTreeSet::new(),
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
pub(super) mod tests {
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

    pub fn baseline(routes: &[(&str, &[f64])]) -> Baseline {
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

    pub fn candidate(routes: &[&str]) -> Candidate {
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
            holds: Vec::new(),
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
