//! GET /advice: the last result of `paceline doctor` for each application, as a page. Files are read on the blocking
//! pool, with the rights of the application's account.
//! It never runs the doctor, and applies nothing.

use std::{sync::Arc, time::Duration};

use http::Response;
use jiff::tz::TimeZone;

use super::answer::{aside, wanted, whole, Body, ControlRequest, Refusal, HTML};
use crate::{
    apps::{app::App, startable_app::StartableApp},
    config::SiteConfig,
    observe::{
        dashboard::{self, AdviceView, SiteAdvice},
        doctor_result::{DoctorResult, LoadError},
    },
    request::front::Front,
    support::clock,
};

/// Applications that are looked at for a result whenever the dashboard is opened.
const MAX_LOOKED_AT: usize = 20;
/// The dashboard waits no longer for a slow disk.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// GET /advice, or with `?site=NAME` for one site.
pub async fn page(asked: ControlRequest, server: Arc<Front>) -> Result<Response<Body>, Refusal> {
    let applications = applications(&server);
    let names: Vec<String> = applications.iter().map(|site| site.name.clone()).collect();
    let wanted = wanted(&asked.head).0.filter(|site| names.contains(site));
    let html = aside(move || {
        let view = AdviceView {
            now: clock::unix_seconds(),
            zone: &TimeZone::system(),
            sites: &names,
            site: wanted.as_deref(),
        };
        let shown = applications.iter().filter(|site| wanted.as_ref().is_none_or(|wanted| *wanted == site.name));
        dashboard::advice(&view, shown.map(load))
    });
    Ok(whole(HTML, html.await?))
}

/// Whether there is a result for one of the sites. `site`: only for this one.
pub async fn is_there(server: &Front, site: Option<&str>) -> bool {
    let mut applications = applications(server);
    applications.retain(|one| site.is_none_or(|site| site == one.name));
    let look = aside(move || {
        let results = applications.iter().take(MAX_LOOKED_AT).map(|site| load(site).result);
        results.into_iter().any(|result| !matches!(result, Err(LoadError::Missing | LoadError::NoApplication(_))))
    });
    matches!(tokio::time::timeout(MAX_WAIT, look).await, Ok(Ok(true)))
}

/// The settings of all applications.
fn applications(server: &Front) -> Vec<SiteConfig> {
    let all = server.routes();
    let of = |app: &Arc<App>| app.site.clone();
    all.all().iter().filter_map(|site| site.app.as_ref().map(of)).collect()
}

fn load(site: &SiteConfig) -> SiteAdvice {
    let found = StartableApp::at(site).and_then(|app| {
        let run_as = app.run_as(site)?;
        Ok((app.root, run_as))
    });
    let (root, result) = match found {
        Ok((root, run_as)) => {
            let result = DoctorResult::load(&root, &run_as);
            (root, result)
        }
        Err(why) => (site.root.clone(), Err(LoadError::NoApplication(why.to_string()))),
    };
    SiteAdvice { site: site.name.clone(), root, result }
}
