//! What `paceline doctor` asks of the running server: to watch an application's requests, to hand over the sample, and
//! to have a shadow forked. On the control socket alone: a sample has visitors' cookies in it.
//! It never writes a sample anywhere.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use http::StatusCode;
use serde_json::{json, Value};

use super::{
    answer::{aside, ControlRequest, JsonResult, Refusal},
    json_of, ControlPart, Route, NOTHING,
};
use crate::{
    apps::{app::App, startable_app::StartableApp},
    config::{Bind, Listening, ProxyProtocol, SiteConfig},
    observe::reservoir::{AlreadyWatched, Observation, Reservoir, RouteSamples, Sample},
    request::front::Front,
};
use unix_user::RunAs;

pub const PART: ControlPart = ControlPart { routes: ROUTES, ..NOTHING };

const ROUTES: &[Route] = &[
    Route { method: "POST", path: "/doctor/find", answer: |asked, server| json_of(find(asked, server)) },
    Route { method: "POST", path: "/doctor/watch", answer: |asked, server| json_of(watch(asked, server)) },
    Route { method: "POST", path: "/doctor/samples", answer: |asked, server| json_of(samples(asked, server)) },
    Route { method: "POST", path: "/doctor/shadow", answer: |asked, server| json_of(shadow(asked, server)) },
];

/// The first step of the paths of these routes.
const FIRST_STEP: &str = "/doctor/";
/// Bytes of the name that a doctor has given itself, at most.
const LONGEST_ID: usize = 64;
/// Bytes of a socket's path, as the kernel takes them.
const LONGEST_PATH: usize = 107;

/// Whether a path leads here: a request over TCP is refused, with a token too.
pub fn is_for_the_socket_alone(path: &str) -> bool {
    path.starts_with(FIRST_STEP)
}

/// POST /doctor/find `{"site": NAME}`, or `{}` where there is one application: its name, its folder, and the account that
/// it runs as.
async fn find(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let (name, app) = application(&said(&asked.body)?, &front)?;
    let account = account(app.site.clone()).await?;
    Ok(json!({ "site": name, "root": app.site.root, "account": account }))
}

/// POST /doctor/watch `{"site": NAME, "id": ID}`: for the next 15 seconds requests are watched for the doctor of this id.
/// Answers with how many GETs of how many routes were seen so far. 409: another doctor watches.
async fn watch(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked.body)?;
    let (name, app) = application(&said, &front)?;
    let id = id(&said)?;
    let had = app.reservoir.is_watching();
    let (requests, routes) = app.reservoir.watch(id, Instant::now()).map_err(|AlreadyWatched| Refusal {
        status: StatusCode::CONFLICT,
        why: format!("another paceline doctor watches {name}"),
    })?;
    if !had {
        tokio::spawn(expire(app.reservoir.clone()));
    }
    Ok(json!({ "requests": requests, "routes": routes }))
}

/// POST /doctor/samples `{"site": NAME, "id": ID}`: what was seen since the doctor of this id began to watch, which ends
/// with it. With `"so_far": true` the watch goes on.
async fn samples(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked.body)?;
    let (name, app) = application(&said, &front)?;
    let gone = || Refusal { status: StatusCode::NOT_FOUND, why: format!("nobody of this id watches {name} any more") };
    let (id, now) = (id(&said)?, Instant::now());
    let goes_on = said["so_far"].as_bool() == Some(true);
    let observed = if goes_on { app.reservoir.so_far(id, now) } else { app.reservoir.take(id, now) };
    let observed = observed.ok_or_else(gone)?;
    let overview = app.overview().await;
    let mut answer = shown(&observed);
    answer["settings"] = settings(&app.settings(), overview.workers_wanted);
    answer["listeners"] = front.config.binds.iter().filter_map(listener).collect();
    Ok(answer)
}

/// POST /doctor/shadow `{"site": NAME, "socket": PATH}`: a copy of the loaded application is forked, which connects to
/// this Unix socket.
async fn shadow(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked.body)?;
    let (_, app) = application(&said, &front)?;
    let socket = said["socket"].as_str().map(PathBuf::from);
    let socket = socket.filter(|path| path.is_absolute() && path.as_os_str().len() <= LONGEST_PATH);
    let wrong = || Refusal::bad(format!("\"socket\" must be an absolute path of at most {LONGEST_PATH} bytes"));
    let socket = socket.filter(|path| !path.as_os_str().as_encoded_bytes().contains(&0)).ok_or_else(wrong)?;
    app.shadow(socket).await.map_err(|why| Refusal { status: StatusCode::CONFLICT, why: why.to_string() })?;
    Ok(json!({}))
}

/// The account that its processes run as, for a doctor that is root. None: the server's own.
async fn account(site: SiteConfig) -> Result<Option<Value>, Refusal> {
    let run_as = aside(move || StartableApp::at(&site).ok()?.run_as(&site).ok()).await?;
    let account = run_as.as_ref().and_then(RunAs::account);
    Ok(account.map(|account| json!({ "uid": account.uid, "gid": account.gid, "groups": account.groups })))
}

/// Drops what a doctor that went away has left.
async fn expire(reservoir: Arc<Reservoir>) {
    while let Some(until) = reservoir.expire(Instant::now()) {
        tokio::time::sleep_until(until.into()).await;
    }
}

/// Where this machine's programs can ask without TLS.
fn listener(listening: &Listening) -> Option<Value> {
    let is_plain = listening.tls.is_none() && listening.proxy_protocol != ProxyProtocol::Required && !listening.h2c;
    match &listening.bind {
        Bind::Tcp(address) if is_plain && address.port() != 0 => {
            let here: IpAddr = if address.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
            let ip = if address.ip().is_unspecified() { here } else { address.ip() };
            Some(format!("tcp://{}", SocketAddr::new(ip, address.port())).into())
        }
        Bind::Unix { path, .. } if is_plain => Some(format!("unix://{}", path.display()).into()),
        _ => None,
    }
}

/// How the application is run.
fn settings(site: &SiteConfig, workers: usize) -> Value {
    json!({
        "workers": workers,
        "threads": site.threads,
        "preload": site.preload,
        "compress": site.compress.is_some(),
        "page_cache": site.parts.cache.is_some(),
        "threads_min": site.threads_min,
    })
}

fn shown(observed: &Observation) -> Value {
    json!({
        "seconds": observed.elapsed.as_secs_f64(),
        "app_us": observed.app,
        "gc_us": observed.gc,
        "waits_us": observed.waits,
        "routes": observed.routes.iter().map(route).collect::<Vec<_>>(),
        "of_other_routes": observed.of_other_routes,
        "other_methods": observed.other_methods,
    })
}

fn route(seen: &RouteSamples) -> Value {
    json!({
        "route": seen.route,
        "requests": seen.requests,
        "queue_us": seen.times.queue,
        "app_us": seen.times.app,
        "samples": seen.kept.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn sample(sample: &Sample) -> Value {
    json!({
        "scheme": sample.scheme,
        "host": sample.host,
        "path": sample.path,
        "query": sample.query,
        "headers": sample.headers,
        "user": sample.user,
    })
}

fn said(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))
}

fn id(said: &Value) -> Result<&str, Refusal> {
    let id = said["id"].as_str().filter(|id| (1..=LONGEST_ID).contains(&id.len()));
    id.ok_or_else(|| Refusal::bad(format!("\"id\" must be a string of at most {LONGEST_ID} bytes")))
}

/// The application that is meant; without a name the only one.
fn application(said: &Value, front: &Front) -> Result<(String, Arc<App>), Refusal> {
    let routes = front.routes();
    let mut all = routes.all().iter().filter_map(|site| Some((site.config.name.clone(), site.app.clone()?)));
    let unknown = |why: String| Refusal { status: StatusCode::NOT_FOUND, why };
    if let Some(wanted) = said["site"].as_str() {
        return all
            .find(|(name, _)| name == wanted)
            .ok_or_else(|| unknown(format!("no application has the site name {wanted:?}")));
    }
    match <[_; 1]>::try_from(all.collect::<Vec<_>>()) {
        Ok([only]) => Ok(only),
        Err(none) if none.is_empty() => Err(unknown("no application is served here".into())),
        Err(several) => {
            let names: Vec<_> = several.iter().map(|(name, _)| name.as_str()).collect();
            Err(Refusal::bad(format!("several sites: name one with --site: {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_a_name() {
        assert_eq!(id(&json!({ "id": "a" })), Ok("a"));
        for said in [json!({}), json!({ "id": "" }), json!({ "id": "x".repeat(65) }), json!({ "id": 1 })] {
            assert_eq!(id(&said).map_err(|refusal| refusal.status), Err(StatusCode::BAD_REQUEST), "{said}");
        }
        assert!(is_for_the_socket_alone("/doctor/samples") && !is_for_the_socket_alone("/doctors"));
    }

    #[test]
    fn a_sample_is_shown_whole_for_the_replay() {
        let headers = vec![("cookie".to_owned(), "a=b".to_owned())];
        let (scheme, host, path) = ("http".into(), "a".into(), "/b".into());
        let mut seen = RouteSamples::default();
        (seen.route, seen.requests) = ("GET /b".into(), 2);
        seen.kept.push(Sample { scheme, host, path, query: String::new(), headers, user: None });
        let observed = Observation { routes: vec![seen], ..Observation::default() };
        let shown = shown(&observed);
        assert_eq!(shown["routes"][0]["samples"][0]["headers"], json!([["cookie", "a=b"]]));
        assert_eq!(shown["routes"][0]["requests"], 2);
    }
}
