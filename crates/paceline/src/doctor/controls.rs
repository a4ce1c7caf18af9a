//! The control shadows of a run: two copies of the application that replay each request of the sample. They record,
//! time and observe; one that breaks is replaced. They judge nothing.

use std::time::{Duration, Instant};

use doctor::{
    observation::{header, ObservedRequest, Repeat},
    profile::Profile,
    protocol::{ReplayResult, Request},
    report::{Dropped, Sample, Why},
    statistics::median,
};
use serde_json::Value;

use super::{
    compressing::compressible,
    driver::{Driver, RunError},
    left_out::{failed, named, refused, without_page},
    profiling::ProfilingTime,
    replaying::{line, DecodedAnswer, MEASURED, OBSERVED, OTHERWISE, PROFILED, RECORDED, STRANGERS},
    samples::{RouteSamples, Samples},
    visitors::{of_another_visitor, of_stranger},
};
use crate::origins::shadow::{Shadow, ShadowError};

/// Measured replays of a request, beside that which is compared.
const MEASURED_TIMES: usize = 2;
/// Before it is measured, a copy answers so many requests, as long as there is this much time: its heap takes on the size,
/// and with it the collections, that a worker has after a while (collections may come ten times as often then).
const SETTLING_REQUESTS: usize = 300;
const SETTLING: Duration = Duration::from_secs(5);
/// A request that takes this long has its stack read. Microseconds.
const PROFILED_US: f64 = 1_000.0;
/// Requests that break their shadow, after which the run is given up.
const MAX_BROKEN: usize = 5;

/// A request that was recorded.
pub struct RecordedRequest {
    pub request: Request,
    /// Microseconds.
    pub wall_us: f64,
}

/// The requests of a route that were recorded.
pub struct RecordedRoute {
    pub route: RouteSamples,
    pub requests: Vec<RecordedRequest>,
}

impl RecordedRoute {
    /// What the requests take together. Microseconds.
    pub fn total_us(&self) -> f64 {
        self.requests.iter().map(|one| one.wall_us).sum()
    }

    /// What the requests take, by how often they come.
    pub fn cost(&self) -> f64 {
        self.route.share * self.total_us() / self.requests.len().max(1) as f64
    }
}

/// The control shadows. One that breaks is replaced.
pub struct Controls {
    pub one: Shadow,
    pub other: Option<Shadow>,
    /// Of outbound calls.
    pub recordings: Vec<Value>,
    broken: usize,
    profiling: ProfilingTime,
}

/// Why a request is not gone on with.
pub enum Stop {
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

/// What was observed, and the answers of the two controls.
pub type ObservedPair = (ObservedRequest, (DecodedAnswer, DecodedAnswer));

impl Controls {
    /// With one shadow.
    pub fn start(driver: &mut Driver) -> Result<Controls, RunError> {
        Ok(Controls {
            one: driver.shadow()?,
            other: None,
            recordings: Vec::new(),
            broken: 0,
            profiling: ProfilingTime::default(),
        })
    }

    /// Whether the first request is sent to https: an application that wants TLS says nothing else by http.
    pub fn redirect_to_https(&mut self, driver: &mut Driver, samples: &Samples) -> bool {
        let Some(request) = samples.routes.first().and_then(|route| route.requests.first()) else { return false };
        let answered = driver.replaying.replay(&mut self.one, request, RECORDED);
        let location = |result: &ReplayResult| header(&result.headers, "location").map(str::to_owned);
        let is_redirect = |result: &ReplayResult| (300..400).contains(&result.status);
        let moved = answered.ok().filter(is_redirect).as_ref().and_then(location);
        moved.is_some_and(|to| to.starts_with(&format!("https://{}{}", request.host, request.path)))
    }

    /// Replays each request once, with its outbound calls really made.
    pub fn record(
        &mut self,
        driver: &mut Driver,
        samples: &Samples,
        sample: &mut Sample,
    ) -> Result<Vec<RecordedRoute>, RunError> {
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
                let is_live = driver.is_live();
                let answered = checked(answered, is_live).and_then(|result| {
                    without_page(&result, is_live).map_or(Ok(result), |why| Err(Stop::LeftOut(why)))
                });
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
                let route = RouteSamples { requests: Vec::new(), ..route.clone() };
                recorded.push(RecordedRoute { route, requests: of_route });
            }
        }
        Ok(recorded)
    }

    /// Replays the requests in turn until the copy is as one that has served for a while. One that breaks it will do so
    /// again, where that is told.
    pub fn settle(&mut self, driver: &mut Driver, recorded: &[RecordedRoute]) -> Result<(), RunError> {
        let began = Instant::now();
        let all = recorded.iter().flat_map(|one| &one.requests).cycle().take(SETTLING_REQUESTS);
        for one in all {
            if began.elapsed() > SETTLING {
                break;
            }
            driver.wait()?;
            let answered = driver.replaying.replay(&mut self.one, &one.request, MEASURED);
            if answered.is_err_and(|error| error.is_over()) {
                self.replace_one(driver)?;
                break;
            }
        }
        Ok(())
    }

    /// A fresh copy in place of one that has ended.
    pub fn replace_one(&mut self, driver: &mut Driver) -> Result<(), RunError> {
        self.one = driver.shadow()?;
        Ok(self.one.load(&self.recordings)?)
    }

    /// What was found, or why the request is left out. Err: why the run ends.
    pub fn usable<T>(&mut self, driver: &mut Driver, found: Result<T, Stop>) -> Result<Result<T, Why>, RunError> {
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

    /// Times a request, compares it with the other control, and has it observed. The pair is for the mask. `readings`: of the stacks of others of its route.
    pub fn observe(
        &mut self,
        driver: &mut Driver,
        request: &Request,
        cookies: &[String],
        readings: u64,
    ) -> Result<ObservedPair, Stop> {
        let Controls { one, other: Some(other), profiling, .. } = self else {
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
            let began = Instant::now();
            let replay = || Ok::<_, Stop>(checked(replay(one, request, PROFILED), is_live)?.profile);
            profiling.profile(readings, || began.elapsed(), replay)?
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

fn times(result: &ReplayResult) -> [f64; 3] {
    [result.wall_us, result.cpu_us, result.gc_us]
}

fn checked(answered: Result<ReplayResult, ShadowError>, is_live: bool) -> Result<ReplayResult, Stop> {
    let result = answered?;
    refused(&result, is_live).map_or(Ok(result), |why| Err(Stop::LeftOut(why)))
}
