//! The application as it is: two control shadows replay the sample. What differs between them is noise, which a mask for
//! each route learns; each request is timed, and observed once. A request that tries to write, or fails, is left out.
//! It never tries a change.

use std::time::{Duration, Instant};

use doctor::{
    mask::Mask,
    observation::{header, ObservedRequest, Repeat, RouteObservation},
    profile::Profile,
    protocol::{Hello, ReplayResult, Request},
    report::{Dropped, Sample, Spent, Why},
    route::is_id,
    statistics::median,
};
use serde_json::Value;

use super::{
    compressing::compressible,
    driver::{Driver, RunError},
    fetching::Links,
    machine::Process,
    progress::left,
    replaying::{line, DecodedAnswer, MEASURED, OBSERVED, OTHERWISE, PROFILED, RECORDED, STRANGERS},
    samples::{is_visitors, RouteSamples, Samples},
    visitors::{cookies, of_another_visitor, of_stranger},
};
use crate::origins::shadow::{Shadow, ShadowError};

const MAX_ROUTES: usize = 8;
/// How often a request is replayed here after the recording.
const PASSES: f64 = 8.0;
/// The sample is made smaller until all this takes no longer.
const BUDGET: Duration = Duration::from_secs(90);
/// Measured replays of a request, beside that which is compared.
const MEASURED_TIMES: usize = 2;
/// Before it is measured, a copy answers so many requests, as long as there is this much time: its heap takes on the size,
/// and with it the collections, that a worker has after a while (collections may come ten times as often then).
const SETTLING_REQUESTS: usize = 300;
const SETTLING: Duration = Duration::from_secs(5);
/// A request that takes this long has its stack read, so many times if there is time for it, beside all others.
/// Microseconds.
const PROFILED_US: f64 = 2_000.0;
const READINGS: u64 = 60;
const PROFILING_ONE: Duration = Duration::from_millis(800);
const PROFILING: Duration = Duration::from_secs(8);
/// Requests that break their shadow, after which the run is given up.
const MAX_BROKEN: usize = 5;

/// A route as trials need it.
pub struct Route {
    pub route: String,
    /// 0 to 1: of all GET requests.
    pub share: f64,
    pub mask: Mask,
    pub requests: Vec<KnownRequest>,
}

/// A request that can be replayed.
pub struct KnownRequest {
    pub request: Request,
    /// Number within the run.
    pub number: usize,
    /// Microseconds.
    pub wall_us: f64,
}

pub struct Baseline {
    pub hello: Hello,
    pub routes: Vec<Route>,
    /// Of outbound calls.
    pub recordings: Vec<Value>,
    pub observed: Vec<RouteObservation>,
    pub sample: Sample,
    /// A process with the application's environment, which has ended by now: what was read of it.
    pub process: Process,
    /// What its pages link to.
    pub links: Links,
}

/// A request that was recorded.
struct RecordedRequest {
    request: Request,
    wall_us: f64,
}

/// The control shadows. One that breaks is replaced.
struct Controls {
    one: Shadow,
    other: Option<Shadow>,
    recordings: Vec<Value>,
    broken: usize,
    /// For profiles.
    left: Duration,
}

/// Why a request is not gone on with.
enum Stop {
    LeftOut(Why),
    Broken(ShadowError),
    Run(RunError),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Stop {
        Stop::Run(error)
    }
}

impl From<ShadowError> for Stop {
    fn from(error: ShadowError) -> Stop {
        if error.is_over() {
            Stop::Broken(error)
        } else {
            Stop::LeftOut(failed(&error))
        }
    }
}

type ObservedPair = (ObservedRequest, (DecodedAnswer, DecodedAnswer));

impl Baseline {
    /// `is_live`: the samples are of visitors.
    pub fn measure(driver: &mut Driver, mut samples: Samples, is_live: bool) -> Result<Baseline, RunError> {
        let mut controls =
            Controls { one: driver.shadow()?, other: None, recordings: Vec::new(), broken: 0, left: PROFILING };
        let mut sample = Sample { live: is_live, ..Sample::default() };
        if !is_live && controls.redirect_to_https(driver, &samples) {
            samples.turn_to_https();
        }
        driver.say(&format!("replaying {} requests of {} routes", samples.requests(), samples.routes.len()));
        let mut recorded = controls.record(driver, &samples, &mut sample)?;
        fit(&mut recorded);
        let mut other = driver.shadow()?;
        other.load(&controls.recordings)?;
        controls.one.load(&controls.recordings)?;
        controls.settle(driver, &recorded)?;
        sample.unconfined.clone_from(&controls.one.hello.unconfined);
        controls.other = Some(other);
        let mut baseline = Baseline {
            hello: controls.one.hello.clone(),
            routes: Vec::new(),
            recordings: Vec::new(),
            observed: Vec::new(),
            sample,
            process: Process::default(),
            links: Links::default(),
        };
        let cookies = cookies(recorded.iter().flat_map(|(_, requests)| requests).map(|one| &one.request));
        let mut to_come = total_us(&recorded) * PASSES;
        for (route, requests) in recorded {
            let mut of_route = Vec::new();
            for RecordedRequest { request, wall_us } in requests {
                driver.tell(|| format!("measuring {}{}", route.route, left(Duration::from_secs_f64(to_come / 1e6))));
                to_come = (to_come - wall_us * PASSES).max(0.0);
                let observed = controls.observe(driver, &request, &cookies);
                match controls.usable(driver, observed)? {
                    Ok(observed) => of_route.push(observed),
                    Err(why) => baseline.sample.dropped.push(Dropped { request: named(&request), why }),
                }
            }
            baseline.add(route, of_route);
        }
        baseline.sample.spent = Spent::of(&baseline.observed);
        // Trials take their time; this is known now.
        baseline.sample.spent.iter().for_each(|one| driver.say(&one.to_string()));
        baseline.process = controls.one.pid().map(Process::of).unwrap_or_default();
        baseline.recordings = controls.recordings;
        Ok(baseline)
    }

    fn add(&mut self, route: RouteSamples, of_route: Vec<ObservedPair>) {
        let RouteSamples { route, share, .. } = route;
        let (observed, pairs): (Vec<_>, Vec<_>) = of_route.into_iter().unzip();
        let answers: Vec<_> = pairs.iter().map(|(one, other)| (one.answer(), other.answer())).collect();
        observed
            .iter()
            .zip(&answers)
            .for_each(|(one, (answer, _)): (&ObservedRequest, _)| self.links.add(&one.request, answer));
        let mask = Mask::learn(&answers);
        if observed.is_empty() {
            return;
        }
        if mask.is_too_noisy() {
            self.sample.noisy.push(route.clone());
        }
        let first = self.sample.requests;
        let known = observed.iter().enumerate().map(|(nth, one): (usize, &ObservedRequest)| KnownRequest {
            request: one.request.clone(),
            number: first + nth,
            wall_us: one.wall_us,
        });
        self.routes.push(Route { route: route.clone(), share, mask, requests: known.collect() });
        self.sample.requests += observed.len();
        self.observed.push(RouteObservation { route, share, requests: observed });
    }
}

impl Controls {
    /// Whether the first request is sent to https: an application that wants TLS says nothing else by http.
    fn redirect_to_https(&mut self, driver: &mut Driver, samples: &Samples) -> bool {
        let Some(request) = samples.routes.first().and_then(|route| route.requests.first()) else { return false };
        let answered = driver.replaying.replay(&mut self.one, request, RECORDED);
        let location = |result: &ReplayResult| header(&result.headers, "location").map(str::to_owned);
        let is_redirect = |result: &ReplayResult| (300..400).contains(&result.status);
        let moved = answered.ok().filter(is_redirect).as_ref().and_then(location);
        moved.is_some_and(|to| to.starts_with(&format!("https://{}{}", request.host, request.path)))
    }

    /// Replays each request once, with its outbound calls really made.
    fn record(
        &mut self,
        driver: &mut Driver,
        samples: &Samples,
        sample: &mut Sample,
    ) -> Result<Vec<(RouteSamples, Vec<RecordedRequest>)>, RunError> {
        let mut recorded = Vec::new();
        let all = samples.requests();
        let mut done = 0;
        for route in &samples.routes {
            let mut of_route = Vec::new();
            for request in &route.requests {
                driver.tell(|| format!("replayed {done} of {all} requests for the first time"));
                driver.wait()?;
                done += 1;
                let answered = driver.replaying.replay(&mut self.one, request, RECORDED);
                let answered = checked(answered, driver.is_live());
                match self.usable(driver, answered)? {
                    Ok(mut result) => {
                        for (name, at) in std::mem::take(&mut result.programs) {
                            sample.programs.entry(line(&name).into_owned()).or_insert_with(|| line(&at).into_owned());
                        }
                        self.recordings.extend(result.recording.take());
                        of_route.push(RecordedRequest { request: request.clone(), wall_us: result.wall_us });
                    }
                    Err(why) => sample.dropped.push(Dropped { request: named(request), why }),
                }
            }
            if !of_route.is_empty() {
                recorded.push((RouteSamples { requests: Vec::new(), ..route.clone() }, of_route));
            }
        }
        Ok(recorded)
    }

    /// Replays the requests in turn until the copy is as one that has served for a while. One that breaks it will do so
    /// again, where that is told.
    fn settle(
        &mut self,
        driver: &mut Driver,
        recorded: &[(RouteSamples, Vec<RecordedRequest>)],
    ) -> Result<(), RunError> {
        let began = Instant::now();
        let all = recorded.iter().flat_map(|(_, requests)| requests).cycle().take(SETTLING_REQUESTS);
        for one in all {
            if began.elapsed() > SETTLING {
                break;
            }
            driver.wait()?;
            let answered = driver.replaying.replay(&mut self.one, &one.request, MEASURED);
            if answered.is_err_and(|error| error.is_over()) {
                self.one = driver.shadow()?;
                self.one.load(&self.recordings)?;
                break;
            }
        }
        Ok(())
    }

    /// What was found, or why the request is left out. Err: why the run ends.
    fn usable<T>(&mut self, driver: &mut Driver, found: Result<T, Stop>) -> Result<Result<T, Why>, RunError> {
        match found {
            Ok(found) => Ok(Ok(found)),
            Err(Stop::LeftOut(why)) => Ok(Err(why)),
            Err(Stop::Run(error)) => Err(error),
            Err(Stop::Broken(error)) => {
                self.broken += 1;
                if self.broken == MAX_BROKEN {
                    return Err(error.into());
                }
                let has_other = self.other.take().is_some();
                self.one = driver.shadow()?;
                if has_other {
                    let mut other = driver.shadow()?;
                    self.one.load(&self.recordings)?;
                    other.load(&self.recordings)?;
                    self.other = Some(other);
                }
                Ok(Err(failed(&error)))
            }
        }
    }

    /// Times a request, compares it with the other control, and has it observed. The pair is for the mask.
    fn observe(&mut self, driver: &mut Driver, request: &Request, cookies: &[String]) -> Result<ObservedPair, Stop> {
        let Controls { one, other: Some(other), left, .. } = self else {
            return Err(Stop::LeftOut(Why::Failed { error: "there is no second control".into() }));
        };
        driver.wait()?;
        let is_live = driver.is_live();
        let mut replay =
            |shadow: &mut Shadow, request: &Request, manner| driver.replaying.replay(shadow, request, manner);
        checked(replay(one, request, MEASURED), is_live)?;
        checked(replay(other, request, MEASURED), is_live)?;
        let first = checked(replay(one, request, MEASURED), is_live)?;
        let second = checked(replay(other, request, OTHERWISE), is_live)?;
        let mut all = vec![times(&first)];
        for _ in 0..MEASURED_TIMES {
            all.push(times(&checked(replay(one, request, MEASURED), is_live)?));
        }
        let mut is_same = |another: &Request, manner| {
            let result = replay(one, another, manner)?;
            let is_page = refused(&result, is_live).is_none();
            Ok::<_, Stop>((is_page && result.body == first.body && result.status == first.status, result.asked))
        };
        let is_same_for_another = match of_another_visitor(request, cookies) {
            Some(another) => is_same(&another, MEASURED)?.0,
            None => true,
        };
        let mut repeat =
            Repeat { is_same_twice: first.body == second.body && first.status == second.status, ..Repeat::default() };
        if is_same_for_another && repeat.is_same_twice {
            let (is_same, asked) = is_same(&of_stranger(request, cookies), STRANGERS)?;
            repeat.is_same_for_visitors = Some(is_same);
            repeat.asks_for_nobody = asked.is_some_and(|asked| asked.is_empty());
        } else {
            repeat.is_same_for_visitors = Some(false);
        }
        let watched = checked(replay(one, request, OBSERVED), is_live)?;
        let profile = if first.wall_us >= PROFILED_US {
            profiled(left, || Ok(checked(replay(one, request, PROFILED), is_live)?.profile))?
        } else {
            Profile::default()
        };
        let of = |which: usize| median(&all.iter().map(|times| times[which]).collect::<Vec<_>>());
        let found = ObservedRequest {
            request: request.clone(),
            status: first.status,
            headers: first.headers.clone(),
            body_bytes: first.body_bytes,
            compressible: compressible(request, &first),
            pieces: first.pieces,
            wall_us: of(0),
            cpu_us: of(1),
            gc_us: of(2),
            observed_wall_us: watched.wall_us,
            allocated: first.allocated,
            evidence: watched.evidence.unwrap_or_default(),
            profile,
            repeat,
        };
        Ok((found, (DecodedAnswer::new(first), DecodedAnswer::new(second))))
    }
}

/// Replays until the stack was read often enough, or the time for it is over.
fn profiled(left: &mut Duration, mut replay: impl FnMut() -> Result<Option<Profile>, Stop>) -> Result<Profile, Stop> {
    let mut profile = Profile::default();
    let began = Instant::now();
    while profile.readings < READINGS && began.elapsed() < PROFILING_ONE.min(*left) {
        profile.add(replay()?.unwrap_or_default());
    }
    *left = left.saturating_sub(began.elapsed());
    Ok(profile)
}

fn times(result: &ReplayResult) -> [f64; 3] {
    [result.wall_us, result.cpu_us, result.gc_us]
}

fn checked(answered: Result<ReplayResult, ShadowError>, is_live: bool) -> Result<ReplayResult, Stop> {
    let result = answered?;
    refused(&result, is_live).map_or(Ok(result), |why| Err(Stop::LeftOut(why)))
}

fn failed(error: &ShadowError) -> Why {
    Why::Failed { error: line(&error.to_string()).into_owned() }
}

/// Why a request is not for the sample. What an application says of an error may name what a visitor sent: of live
/// requests only the kind of the error is told.
fn refused(result: &ReplayResult, is_live: bool) -> Option<Why> {
    if let Some(write) = &result.write {
        return Some(Why::Writes(write.clone()));
    }
    if let Some(error) = &result.error {
        let at = if error.at.is_empty() { String::new() } else { format!(" ({})", error.at) };
        let message = if is_live || error.message.is_empty() { String::new() } else { format!(": {}", error.message) };
        return Some(Why::Failed { error: line(&format!("{}{message}{at}", error.class)).into_owned() });
    }
    (result.status >= 500).then_some(Why::Status { status: result.status })
}

/// Why a request is not for the sample, in words.
pub fn left_out(result: &ReplayResult, is_live: bool) -> Option<String> {
    refused(result, is_live).as_ref().map(why)
}

/// As behind `GET /beers`.
pub fn why(why: &Why) -> String {
    match why {
        Why::Writes(write) => line(&format!("tries to write ({}: {})", write.kind, write.what)).into_owned(),
        Why::Failed { error } => format!("fails: {error}"),
        Why::Status { status } => format!("is answered {status}"),
    }
}

/// As `GET /beers?page=2`; of a visitor's request without what may be a secret (a token of a link to set a password):
/// `GET /beers/7?page=…`, `GET /invitations/*`.
pub fn named(request: &Request) -> String {
    let target = if is_visitors(request) { without_values(request) } else { request.target() };
    line(&format!("GET {target}")).into_owned()
}

fn without_values(request: &Request) -> String {
    let is_number = |step: &str| step.bytes().all(|byte| byte.is_ascii_digit());
    let steps = request.path.split('/').map(|step| if is_id(step) && !is_number(step) { "*" } else { step });
    let path = steps.collect::<Vec<_>>().join("/");
    let fields = request.query.split('&').map(|field| match field.split_once('=') {
        Some((name, value)) if !value.is_empty() && !is_id(name) => format!("{name}=…"),
        Some((name, "")) if !is_id(name) => format!("{name}="),
        _ => "…".into(),
    });
    if request.query.is_empty() {
        path
    } else {
        format!("{path}?{}", fields.collect::<Vec<_>>().join("&"))
    }
}

fn total_us(recorded: &[(RouteSamples, Vec<RecordedRequest>)]) -> f64 {
    recorded.iter().flat_map(|(_, requests)| requests).map(|one| one.wall_us).sum()
}

/// Drops requests of the routes that take longest, until the rest takes no more than the budget. Each route keeps one.
fn fit(recorded: &mut [(RouteSamples, Vec<RecordedRequest>)]) {
    while total_us(recorded) * PASSES > BUDGET.as_micros() as f64 {
        let time = |requests: &[RecordedRequest]| requests.iter().map(|one| one.wall_us).sum::<f64>();
        let several = recorded.iter_mut().filter(|(_, requests)| requests.len() > 1);
        match several.max_by(|(_, one), (_, other)| time(one).total_cmp(&time(other))) {
            Some((_, requests)) => drop(requests.pop()),
            None => return,
        }
    }
}

/// In the order of the candidate; all if it names none.
pub fn touched<'a>(routes: &'a [Route], named: &[String]) -> Vec<&'a Route> {
    let found: Vec<&Route> = if named.is_empty() {
        routes.iter().collect()
    } else {
        named.iter().filter_map(|name| routes.iter().find(|route| route.route == *name)).collect()
    };
    found.into_iter().take(MAX_ROUTES).collect()
}

#[cfg(test)]
mod tests {
    use doctor::protocol::{ErrorNote, WriteNote};

    use super::*;

    fn recorded(times: &[f64]) -> (RouteSamples, Vec<RecordedRequest>) {
        let requests = times.iter().map(|wall_us| RecordedRequest { request: Request::default(), wall_us: *wall_us });
        (RouteSamples::default(), requests.collect())
    }

    #[test]
    fn a_slow_sample_is_made_smaller() {
        let mut all = vec![recorded(&[10e6, 10e6, 10e6]), recorded(&[1e3; 30]), recorded(&[60e6])];
        fit(&mut all);
        let left: Vec<usize> = all.iter().map(|(_, requests)| requests.len()).collect();
        assert_eq!(left, [1, 1, 1], "the slowest alone takes too long, and each route keeps one");
        let mut all = vec![recorded(&[5e6, 5e6, 5e6]), recorded(&[1e3; 30])];
        fit(&mut all);
        assert_eq!((all[0].1.len(), all[1].1.len()), (2, 30));
    }

    #[test]
    fn of_a_visitors_request_no_secret_is_told() {
        let own = |target: &str| {
            let samples = Samples::of_paths(&[target.to_owned()], "shop.test");
            samples.routes[0].requests[0].clone()
        };
        for (target, told) in [
            ("/beers/7?page=2", "GET /beers/7?page=…"),
            ("/password/edit?reset_password_token=s3cret&locale=", "GET /password/edit?reset_password_token=…&locale="),
            ("/invitations/7f9c2ba4e88f4d3f", "GET /invitations/*"),
            ("/unsubscribe?7f9c2ba4e88f4d3f", "GET /unsubscribe?…"),
            ("/", "GET /"),
        ] {
            let asked = own(target);
            assert_eq!(named(&asked), format!("GET {target}"), "who has named it may see it");
            assert_eq!(named(&Request { headers: Vec::new(), ..asked }), told);
        }
    }

    /// Or a page for one of them would be taken for a page for all.
    #[test]
    fn another_visitor_is_nobody_that_the_request_names() {
        let of = |headers: &[(&str, &str)], user: Option<&str>| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Request { headers, user: user.map(Into::into), ..Request::default() }
        };
        let (accept, cookie) = (("accept", "*/*"), ("cookie", "s=other"));
        let plain = of(&[accept], None);
        for own in [
            of(&[accept, ("Cookie", "s=own")], None),
            of(&[("Authorization", "Bearer own"), accept], None),
            of(&[accept], Some("ann")),
        ] {
            assert_eq!(of_another_visitor(&own, &["s=other".into()]).as_ref(), Some(&plain));
            assert_eq!(of_another_visitor(&own, &[]).as_ref(), Some(&plain));
        }
        assert_eq!(of_another_visitor(&plain, &["s=other".into()]), Some(of(&[accept, cookie], None)));
        assert_eq!(of_another_visitor(&plain, &[]), None);
    }

    #[test]
    fn what_is_left_out() {
        let fine = ReplayResult { status: 404, ..ReplayResult::default() };
        assert_eq!(refused(&fine, true), None);
        let failed = ReplayResult { status: 503, ..fine.clone() };
        assert_eq!(refused(&failed, true), Some(Why::Status { status: 503 }));
        let write = WriteNote { what: "INSERT".into(), kind: "sql".into(), ..WriteNote::default() };
        let writes = ReplayResult { write: Some(write.clone()), ..failed };
        assert_eq!(refused(&writes, true), Some(Why::Writes(write)));
        let error = ErrorNote { class: "KeyError".into(), message: "no \"ann@shop.test\"".into(), at: "a.rb:3".into() };
        let raised = ReplayResult { error: Some(error), ..fine };
        let told = |live| match refused(&raised, live) {
            Some(Why::Failed { error }) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!((&*told(true), &*told(false)), ("KeyError (a.rb:3)", "KeyError: no \"ann@shop.test\" (a.rb:3)"));
    }
}
