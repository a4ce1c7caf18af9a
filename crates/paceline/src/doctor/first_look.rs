//! Where the time of the slowest pages passes, said within seconds: before the copies have settled, and beside a running server while
//! its requests are still watched. So there is a line to look at while the run goes on.
//! It judges nothing, and what it reads is no part of the report, which has figures of settled copies.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use doctor::{
    observation::{ObservedRequest, RouteObservation},
    profile::Profile,
    protocol::Request,
    report::{Sample, Spent, MAX_SPENT},
};
use serde_json::Value;

use super::{
    controls::{Controls, RecordedRoute},
    driver::{Driver, RunError},
    profiling::is_enough_soon,
    replaying::{MEASURED, PROFILED},
    samples::{RouteSamples, Samples},
};
use crate::origins::shadow::{Shadow, ShadowError};

/// For the replays of one request: code is compiled and caches are filled before its stack is read, if there is time for that.
const WARMING: Duration = Duration::from_millis(300);
const READING: Duration = Duration::from_millis(500);
/// Until there is something to say at all.
const LONGEST_READING: Duration = Duration::from_secs(3);
/// What is shorter has no line that is worth a look. Microseconds.
const NOTABLE_US: f64 = 1_000.0;
/// Routes of visitors that are looked at: those that take most of the server's time.
const ROUTES: usize = 5;

/// Of requests that were recorded, those that take most. Err: the shadow has ended, or the machine is never quiet.
pub fn of_recorded(driver: &mut Driver, shadow: &mut Shadow, recorded: &[RecordedRoute]) -> Result<(), RunError> {
    let mut slowest: Vec<&RecordedRoute> = recorded.iter().collect();
    slowest.sort_by(|one, other| other.cost().total_cmp(&one.cost()));
    let mut seen = Vec::new();
    for RecordedRoute { route, requests } in slowest.into_iter().take(MAX_SPENT) {
        let longest = requests.iter().max_by(|one, other| one.wall_us.total_cmp(&other.wall_us));
        let Some(longest) = longest.filter(|one| one.wall_us >= NOTABLE_US) else { continue };
        driver.wait()?;
        match looked_at(driver, shadow, longest.request.clone(), longest.wall_us) {
            Err(error) if error.is_over() => return Err(error.into()),
            // The run itself will say why.
            Err(_) => continue,
            Ok(request) => {
                seen.push(RouteObservation { route: route.route.clone(), share: route.share, requests: vec![request] })
            }
        }
        driver.say_spent(&Spent::of(&seen));
    }
    Ok(())
}

/// Of visitors, while more of their requests are watched. `answered`: as `/doctor/samples` answers; `except`: paths that are left out. What goes wrong the run
/// itself will say.
pub fn of_visitors(driver: &mut Driver, answered: &Value, except: &[String]) {
    let samples = slowest(Samples::of_server(answered).without(except), answered);
    if samples.requests() > 0 {
        let _ = look(driver, &samples);
    }
}

fn look(driver: &mut Driver, samples: &Samples) -> Result<(), RunError> {
    let mut controls = Controls::start(driver)?;
    let recorded = controls.record(driver, samples, &mut Sample::default())?;
    controls.one.load(&controls.recordings)?;
    of_recorded(driver, &mut controls.one, &recorded)
}

/// One request of each of the routes that take most of the server's time.
fn slowest(mut samples: Samples, answered: &Value) -> Samples {
    let times: Vec<(&str, u64)> = answered["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (one["route"].as_str().unwrap_or_default(), one["app_us"].as_u64().unwrap_or_default()))
        .collect();
    let time = |route: &RouteSamples| times.iter().find(|(name, _)| *name == route.route).map_or(0, |(_, us)| *us);
    samples.routes.sort_by_key(|route| Reverse(time(route)));
    samples.routes.truncate(ROUTES);
    samples.routes.iter_mut().for_each(|route| route.requests.truncate(1));
    samples
}

fn looked_at(
    driver: &mut Driver,
    shadow: &mut Shadow,
    request: Request,
    recorded_us: f64,
) -> Result<ObservedRequest, ShadowError> {
    let mut wall_us = recorded_us;
    let began = Instant::now();
    while began.elapsed().as_secs_f64() * 1e6 + wall_us < WARMING.as_micros() as f64 {
        wall_us = driver.replaying.replay(shadow, &request, MEASURED)?.wall_us;
    }
    let mut profile = Profile::default();
    let began = Instant::now();
    loop {
        let read = driver.replaying.replay(shadow, &request, PROFILED)?;
        // The recording was its first answer, with everything that is done only once.
        wall_us = wall_us.min(read.wall_us);
        profile.add(read.profile.unwrap_or_default());
        if is_enough_soon(profile.readings, began.elapsed(), READING, LONGEST_READING) {
            break;
        }
    }
    Ok(ObservedRequest { request, wall_us, profile, ..ObservedRequest::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_takes_most_of_the_servers_time_is_looked_at_first() {
        let sample = |path: &str| json!({ "scheme": "http", "host": "a", "path": path, "query": "", "headers": [] });
        let route = |name: &str, app_us: u64| {
            let path = format!("/{name}");
            let route = format!("GET {path}");
            json!({ "route": route, "requests": 10, "app_us": app_us, "samples": [sample(&path), sample(&format!("{path}/2"))] })
        };
        let routes: Vec<Value> = (1..9).map(|number| route(&number.to_string(), number * 1_000)).collect();
        let answered = json!({ "routes": routes });
        let chosen = slowest(Samples::of_server(&answered), &answered);
        let names: Vec<&str> = chosen.routes.iter().map(|route| route.route.as_str()).collect();
        assert_eq!(names, ["GET /8", "GET /7", "GET /6", "GET /5", "GET /4"]);
        assert_eq!(chosen.requests(), ROUTES);
    }
}
