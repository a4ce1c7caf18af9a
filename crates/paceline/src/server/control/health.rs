//! Whether requests should be sent here, in the words of load balancers: 200, or 503 and why not.
//! It never starts an application, and asks none.

use std::sync::Arc;

use http::{Response, StatusCode};

use super::{
    answer::{whole, Body, ControlRequest, Refusal},
    status,
};
use crate::{
    apps::orders::State,
    request::{
        front::{drain::Readiness, Front},
        route::Site,
    },
};

/// GET /healthz, of the server or, with `?site=NAME`, of one site.
pub async fn ready(asked: ControlRequest, server: Arc<Front>) -> Result<Response<Body>, Refusal> {
    let name = asked.head.uri.query().and_then(|query| query.strip_prefix("site="));
    let routes = server.routes();
    let of_site = |site: &&Arc<Site>| name.is_none_or(|name| site.config.name == name);
    let sites: Vec<_> = routes.all().iter().filter(of_site).map(|site| (&*site.config.name, trouble(site))).collect();
    if let (Some(name), true) = (name, sites.is_empty()) {
        return Err(Refusal { status: StatusCode::NOT_FOUND, why: format!("no site {name}") });
    }
    Ok(verdict(refusal(server.readiness(), &sites)))
}

/// GET /livez: the main thread answers, which is all there is to it.
pub async fn alive() -> Result<Response<Body>, Refusal> {
    Ok(verdict(None))
}

/// `why`: why no requests should come.
fn verdict(why: Option<String>) -> Response<Body> {
    let (status, text) = match why {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    };
    let mut response = whole("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// Why no requests should come. None: one of the sites can answer, which is enough.
fn refusal(readiness: Readiness, sites: &[(&str, Option<&'static str>)]) -> Option<String> {
    let by_readiness = || Some(status::readiness(readiness).into());
    if readiness == Readiness::Draining {
        return by_readiness();
    }
    let troubles: Vec<_> =
        sites.iter().filter_map(|(name, trouble)| Some(format!("{name}: {}", trouble.as_ref()?))).collect();
    if troubles.len() == sites.len() && !sites.is_empty() {
        Some(troubles.join("\n"))
    } else if readiness == Readiness::Ready {
        None
    } else {
        by_readiness()
    }
}

/// What keeps a site from answering.
fn trouble(site: &Site) -> Option<&'static str> {
    let app = site.app.as_ref()?;
    match app.state() {
        State::Failed { .. } => Some("did not start"),
        State::Starting => Some("starting"),
        // It starts with its first request.
        State::Stopped if app.site.on_demand => None,
        State::Stopped => Some("stopped"),
        State::Ready => {
            let depth = app.queue.depth();
            (depth.idle + depth.busy + depth.streams == 0).then_some("no worker")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_site_that_answers_is_enough() {
        let (good, bad) = (("shop", None), ("docs", Some("no worker")));
        assert_eq!(refusal(Readiness::Ready, &[good, bad]), None);
        assert_eq!(refusal(Readiness::Ready, &[]), None);
        assert_eq!(refusal(Readiness::Ready, &[bad]), Some("docs: no worker".into()));
        assert_eq!(refusal(Readiness::Starting, &[good]), Some("starting".into()));
        assert_eq!(refusal(Readiness::Draining, &[good]), Some("draining".into()));
    }
}
