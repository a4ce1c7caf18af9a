//! What the automatic page cache has watched, as JSON, and which of its routes are turned off. It decides nothing.

use std::{
    cmp::Reverse,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use auto_cache::watch::{self, Mode, Reading, Stage, VISITORS};
use http::{StatusCode, Uri};
use serde_json::{json, Map, Value};

use super::{
    answer::{ControlRequest, JsonResult, Refusal},
    json_of, ControlPart, Route, NOTHING,
};
use crate::{caching::auto::AutoCache, request::front::Front};

pub const PART: ControlPart = ControlPart { routes: ROUTES, ..NOTHING };

const ROUTES: &[Route] = &[
    Route { method: "GET", path: "/cache/advise", answer: |_, server| json_of(advise(server)) },
    Route { method: "POST", path: "/cache/route", answer: |asked, server| json_of(turn(asked, server)) },
    Route { method: "POST", path: "/cache/why", answer: |asked, server| json_of(why(asked, server)) },
];

/// GET /cache/advise.
async fn advise(front: Arc<Front>) -> JsonResult {
    let routes = front.routes();
    let watched = routes.all().iter().filter_map(|site| Some((site.config.name.clone(), site.auto_cache.as_ref()?)));
    let sites: Map<String, Value> = watched.map(|(name, auto)| (name, of_site(auto))).collect();
    Ok(json!({ "sites": sites }))
}

fn of_site(auto: &AutoCache) -> Value {
    let (mut routes, (pages, bytes), writes, mode, blockers) = auto.with(|watch| {
        let mode = watch.policy().mode;
        let routes: Vec<_> = watch
            .routes()
            .map(|(label, route)| (route.requests + route.served.load(Relaxed), of_route(label, route, mode)))
            .collect();
        (routes, watch.size(), watch.writes(), mode, watch.blockers().best_first())
    });
    routes.sort_by_key(|(requests, _)| Reverse(*requests));
    let obstacle = auto.obstacle().filter(|_| mode == Mode::Serve);
    let routes: Vec<Value> = routes.into_iter().map(|(_, route)| route).collect();
    let blockers = blockers
        .into_iter()
        .map(|one| json!({ "line": one.line, "refused": one.refused, "freed": one.freed }))
        .collect::<Vec<_>>();
    json!({
        "blockers": blockers, "mode": mode.as_str(), "obstacle": obstacle, "processes": auto.processes(), "writes": writes, "passed_over": auto.passed_over(), "pages": pages, "bytes": bytes, "routes": routes,
    })
}

fn of_route(label: &str, route: &watch::Route, mode: Mode) -> Value {
    let stage = route.life.stage(mode);
    let (equal, why) = match stage {
        Stage::Verifying(equal) => (Some(equal), None),
        Stage::Off(why) => (None, Some(why)),
        _ => (None, None),
    };
    let refusals = route
        .refusals()
        .into_iter()
        .map(|(refusal, requests)| json!({ "why": refusal.why, "at": refusal.at, "requests": requests }));
    let varies = route.varies().into_iter().map(|varies| json!({ "name": varies.name, "values": varies.values }));
    json!({
        "route": label,
        "requests": route.requests,
        "served": route.served.load(Relaxed),
        "stage": stage.as_str(),
        "off_because": why,
        "equal": equal,
        "equal_needed": route.life.needed(),
        "visitors": route.life.visitors(),
        "visitors_needed": VISITORS,
        "hits": route.hits,
        "differed": route.differed,
        "refused": route.refused,
        "refusals": refusals.collect::<Vec<_>>(),
        "reads": readings(&route.readings),
        "varies": varies.collect::<Vec<_>>(),
        "tokens": route.tokens,
        "nonces": route.nonces,
        "texts": route.texts,
        "difference": route.difference.as_ref().map(|difference| json!({
            "url": difference.url, "at": difference.at, "kept": difference.kept, "application": difference.application,
        })),
    })
}

fn readings(all: &[Reading]) -> Vec<Value> {
    all.iter().map(|reading| json!({ "what": reading.what, "at": reading.at })).collect()
}

/// POST /cache/why `{"url": "https://shop.test/beers/1"}`.
async fn why(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said: Value =
        serde_json::from_slice(&asked.body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    let url: Option<Uri> = said["url"].as_str().and_then(|url| url.parse().ok());
    let parts = url.as_ref().and_then(|url| Some((url.scheme_str()?, url.authority()?)));
    let (Some(url), Some((scheme, authority))) = (&url, parts) else {
        return Err(Refusal::bad("\"url\" must be a URL like https://shop.test/beers/1"));
    };
    let refused = |why: String| Refusal { status: StatusCode::NOT_FOUND, why };
    let routes = front.routes();
    let site = routes.find(authority.host()).ok_or_else(|| refused(format!("no site answers the host {authority}")))?;
    let auto = site.auto_cache.as_ref().ok_or_else(|| {
        let name = &site.config.name;
        refused(format!("{name} is not watched: add `[auto_cache]` with `mode = \"watch\"` to paceline.toml"))
    })?;
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let url = format!("{scheme}://{authority}{target}");
    Ok(auto.with(|watch| {
        let (pages, written) = watch.seen(&url);
        let label = path_patterns::route::label("GET", target.split('?').next().unwrap_or(target));
        let route = watch.routes().find(|(own, _)| *own == label);
        let pages = pages
            .into_iter()
            .map(|page| json!({ "at": page.at, "good_until": page.good_until, "reads": readings(&page.readings), "varies": page.varies }));
        json!({
            "url": url,
            "pages": pages.collect::<Vec<_>>(),
            "written": written.map(|written| json!({ "by": written.by, "at": written.at })),
            "route": route.map(|(label, route)| of_route(label, route, watch.policy().mode)),
        })
    }))
}

/// POST /cache/route `{"route": "/beers/*", "serve": false}`: turns a route off, or lets it begin once more.
async fn turn(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said: Value =
        serde_json::from_slice(&asked.body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    let (Some(route), Some(serve)) = (said["route"].as_str(), said["serve"].as_bool()) else {
        return Err(Refusal::bad("the body must be like {\"route\": \"/beers/*\", \"serve\": false}"));
    };
    let path = route.strip_prefix("GET ").unwrap_or(route);
    if !path.starts_with('/') || path.len() > MAX_PATH || path.contains(char::is_control) {
        return Err(Refusal::bad(format!(
            "a route is a path like /beers/*, as `paceline cache advise` prints it, not {route:?}"
        )));
    }
    let label = format!("GET {path}");
    let routes = front.routes();
    let sites = routes.all().iter().filter_map(|site| site.auto_cache.as_ref().map(|auto| (site, auto)));
    let mut turned = Vec::new();
    for (site, auto) in sites.filter(|(_, auto)| auto.with(|watch| watch.policy().mode != Mode::Watch)) {
        auto.turn(&label, (!serve).then_some("stopped by `paceline cache stop`"));
        turned.push(site.config.name.clone());
    }
    if turned.is_empty() {
        let why = "no site has `[auto_cache]` with `mode = \"verify\"` or `mode = \"serve\"`".to_owned();
        Err(Refusal { status: StatusCode::NOT_FOUND, why })
    } else {
        Ok(json!({ "route": label, "serve": serve, "sites": turned }))
    }
}

/// Bytes of a route's path.
const MAX_PATH: usize = 1000;
