//! The application as it is: two control shadows replay the sample. What differs between them is noise, which a mask for
//! each route learns; each request is timed, and observed once. A request that tries to write, or fails, is left out.
//! It never tries a change.

use std::time::Duration;

use doctor::{
    mask::Mask,
    observation::{ObservedRequest, RouteObservation},
    protocol::{Hello, Request},
    report::{Dropped, Sample, Spent, MAX_SPENT},
};
use serde_json::Value;

use super::{
    controls::{Controls, ObservedPair, RecordedRequest, RecordedRoute},
    driver::{Driver, RunError},
    fetching::Links,
    first_look,
    left_out::named,
    machine::Process,
    progress::left,
    samples::{RouteSamples, Samples},
    visitors::cookies,
};

const MAX_ROUTES: usize = 8;
/// How often a request is replayed here after the recording.
const PASSES: f64 = 8.0;
/// The sample is made smaller until all this takes no longer.
const BUDGET: Duration = Duration::from_secs(90);

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

impl Baseline {
    /// `is_live`: the samples are of visitors.
    pub fn measure(driver: &mut Driver, mut samples: Samples, is_live: bool) -> Result<Baseline, RunError> {
        let mut controls = Controls::start(driver)?;
        let mut sample = Sample { live: is_live, ..Sample::default() };
        if !is_live && controls.redirect_to_https(driver, &samples) {
            samples.turn_to_https();
        }
        driver.say(&format!("replaying {} requests of {} routes", samples.requests(), samples.routes.len()));
        let mut recorded = controls.record(driver, &samples, &mut sample)?;
        fit(&mut recorded);
        controls.one.load(&controls.recordings)?;
        match first_look::of_recorded(driver, &mut controls.one, &recorded) {
            Err(RunError::Shadow(_)) => controls.replace_one(driver)?,
            looked => looked?,
        }
        let mut other = driver.shadow()?;
        other.load(&controls.recordings)?;
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
        let cookies = cookies(recorded.iter().flat_map(|one| &one.requests).map(|one| &one.request));
        // What takes most comes first, so that it is told soon.
        recorded.sort_by(|one, other| other.cost().total_cmp(&one.cost()));
        let mut to_come = total_us(&recorded) * PASSES;
        for RecordedRoute { route, requests } in recorded {
            let mut of_route: Vec<ObservedPair> = Vec::new();
            for RecordedRequest { request, wall_us } in requests {
                driver.tell(|| format!("measuring {}{}", route.route, left(Duration::from_secs_f64(to_come / 1e6))));
                to_come = (to_come - wall_us * PASSES).max(0.0);
                let readings = of_route.iter().map(|(one, _)| one.profile.readings).sum();
                let observed = controls.observe(driver, &request, &cookies, readings);
                match controls.usable(driver, observed)? {
                    Ok(observed) => of_route.push(observed),
                    Err(why) => baseline.sample.dropped.push(Dropped { request: named(&request), why }),
                }
            }
            baseline.add(route, of_route);
            if baseline.observed.len() <= MAX_SPENT {
                baseline.say_spent(driver);
            }
        }
        // Trials take their time; this is known now.
        baseline.say_spent(driver);
        baseline.process = controls.one.pid().map(Process::of).unwrap_or_default();
        baseline.recordings = controls.recordings;
        Ok(baseline)
    }

    fn say_spent(&mut self, driver: &mut Driver) {
        self.sample.spent = Spent::of(&self.observed);
        driver.say_spent(&self.sample.spent);
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
        for one in observed.iter().filter(|one| one.status >= 300) {
            *self.sample.statuses.entry(one.status).or_default() += 1;
        }
        self.observed.push(RouteObservation { route, share, requests: observed });
    }
}

/// Drops requests of the routes that take longest, until the rest takes no more than the budget. Each route keeps one.
fn fit(recorded: &mut [RecordedRoute]) {
    while total_us(recorded) * PASSES > BUDGET.as_micros() as f64 {
        let several = recorded.iter_mut().filter(|route| route.requests.len() > 1);
        match several.max_by(|one, other| one.total_us().total_cmp(&other.total_us())) {
            Some(longest) => drop(longest.requests.pop()),
            None => return,
        }
    }
}

fn total_us(recorded: &[RecordedRoute]) -> f64 {
    recorded.iter().map(RecordedRoute::total_us).sum()
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
    use super::*;

    fn recorded(times: &[f64]) -> RecordedRoute {
        let one = |wall_us: &f64| RecordedRequest { request: Request::default(), wall_us: *wall_us };
        RecordedRoute { route: RouteSamples::default(), requests: times.iter().map(one).collect() }
    }

    #[test]
    fn a_slow_sample_is_made_smaller() {
        let mut all = vec![recorded(&[10e6, 10e6, 10e6]), recorded(&[1e3; 30]), recorded(&[60e6])];
        fit(&mut all);
        let left: Vec<usize> = all.iter().map(|one| one.requests.len()).collect();
        assert_eq!(left, [1, 1, 1], "the slowest alone takes too long, and each route keeps one");
        let mut all = vec![recorded(&[5e6, 5e6, 5e6]), recorded(&[1e3; 30])];
        fit(&mut all);
        assert_eq!((all[0].requests.len(), all[1].requests.len()), (2, 30));
    }
}
