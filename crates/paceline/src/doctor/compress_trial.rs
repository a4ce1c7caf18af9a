//! The trial of compression: the pages of some routes, compressed. It never decides whether that is worth it.

use doctor::verdict::{CompressedRoute, Outcome};

use super::{
    baseline::{touched, Baseline, Route},
    compressing::{compressed, mean, CompressedPage},
    driver::{Driver, RunError},
    replaying::{line, MEASURED},
    stop::Stop,
};
use crate::origins::shadow::Shadow;

/// Pages of a route that are compressed.
const MAX_OF_ROUTE: usize = 8;

/// Compresses the pages of these routes. Err: the run can't go on.
pub fn try_it(driver: &mut Driver, baseline: &Baseline, routes: &[String]) -> Result<Outcome, RunError> {
    match measure(driver, baseline, routes) {
        Ok(compression) => Ok(Outcome { compression, ..Outcome::default() }),
        Err(Stop::Trial(why)) => Ok(Outcome { failure: Some(line(&why).into_owned()), ..Outcome::default() }),
        Err(Stop::Run(error)) => Err(error),
    }
}

fn measure(driver: &mut Driver, baseline: &Baseline, routes: &[String]) -> Result<Vec<CompressedRoute>, Stop> {
    let mut shadow = driver.shadow()?;
    shadow.load(&baseline.recordings)?;
    let mut all = Vec::new();
    for route in touched(&baseline.routes, routes) {
        let pages = pages(driver, &mut shadow, route)?;
        all.extend(mean(&route.route, route.share, &pages));
    }
    Ok(all)
}

fn pages(driver: &mut Driver, shadow: &mut Shadow, route: &Route) -> Result<Vec<CompressedPage>, Stop> {
    let mut pages = Vec::new();
    for known in route.requests.iter().take(MAX_OF_ROUTE) {
        driver.wait()?;
        let answer = driver.replaying.replay(shadow, &known.request, MEASURED)?;
        pages.extend(compressed(&known.request, &answer));
    }
    Ok(pages)
}
