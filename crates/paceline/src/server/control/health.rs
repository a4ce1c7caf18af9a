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
    Ok(told(verdict(server.readiness(), &sites)))
}

/// GET /livez: the main thread answers, which is all there is to it.
pub async fn alive() -> Result<Response<Body>, Refusal> {
    Ok(told(Ok(())))
}

fn told(verdict: Result<(), String>) -> Response<Body> {
    let (status, text) = match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    };
    let mut response = whole("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// As long as one of several sites can answer the server is worth asking. Err: why it is not.
fn verdict(readiness: Readiness, sites: &[(&str, Option<&'static str>)]) -> Result<(), String> {
    if readiness == Readiness::Draining {
        return Err(status::readiness(readiness).into());
    }
    let troubles: Vec<_> =
        sites.iter().filter_map(|(name, trouble)| Some(format!("{name}: {}", trouble.as_ref()?))).collect();
    match (troubles.len() == sites.len() && !sites.is_empty(), readiness) {
        (true, _) => Err(troubles.join("\n")),
        (false, Readiness::Ready) => Ok(()),
        (false, _) => Err(status::readiness(readiness).into()),
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
        let verdict = |readiness, sites: &[(&str, Option<&'static str>)]| verdict(readiness, sites);
        let (good, bad) = (("shop", None), ("docs", Some("no worker")));
        assert_eq!(verdict(Readiness::Ready, &[good, bad]), Ok(()));
        assert_eq!(verdict(Readiness::Ready, &[]), Ok(()));
        assert_eq!(verdict(Readiness::Ready, &[bad]), Err("docs: no worker".into()));
        assert_eq!(verdict(Readiness::Starting, &[good]), Err("starting".into()));
        assert_eq!(verdict(Readiness::Draining, &[good]), Err("draining".into()));
    }
}
