//! What is scheduled, and pages as they will be.
//! It never changes what is scheduled.

use std::sync::Arc;

use base64::{prelude::BASE64_STANDARD, Engine};
use http::StatusCode;
use jiff::tz::TimeZone;
use scheduled::{moment, Millis};
use serde_json::{json, Value};

use super::{
    answer::{ControlRequest, JsonResult, Refusal},
    json_of, ControlPart, Route, NOTHING,
};
use crate::{
    request::{front::Front, preview, route::Site},
    server::scheduling,
    support::clock,
};

pub const PART: ControlPart = ControlPart { routes: ROUTES, ..NOTHING };

const ROUTES: &[Route] = &[
    Route { method: "GET", path: "/schedule", answer: |_, server| json_of(all(server)) },
    Route { method: "POST", path: "/preview", answer: |asked, server| json_of(preview(asked, server)) },
];

/// How long a link is good for.
const LINK: Millis = 86_400_000;
const MAX_LINK: Millis = 30 * 86_400_000;

/// GET /schedule.
async fn all(front: Arc<Front>) -> JsonResult {
    // If the clock was set, what is shown next time has followed it.
    front.cache.changes().wake();
    Ok(scheduling::overview(&front, clock::unix_millis()))
}

/// POST /preview `{"path": "/sales", "at": "tomorrow 12:00", "site": NAME, "host": "shop.test", "https": true}`: the page
/// as it will be, its body in Base64. With `"link": true` (and `"for"`, milliseconds): only a signed link to it.
async fn preview(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said: Value =
        serde_json::from_slice(&asked.body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    let target = said["path"].as_str().filter(|path| path.starts_with('/') && path.parse::<http::Uri>().is_ok());
    let target = target.ok_or_else(|| Refusal::bad("\"path\" must be a path like /sales"))?.to_owned();
    let now = clock::unix_millis();
    let at = said["at"].as_str().ok_or_else(|| Refusal::bad("\"at\" must be a time like \"tomorrow 12:00\""))?;
    let at = moment::parse(at, now, &TimeZone::system()).map_err(|why| Refusal::bad(why.to_string()))?;
    let host = said["host"].as_str().map(str::to_owned);
    let site = site(&said, host.as_deref(), &front)?;
    if said["link"].as_bool() == Some(true) {
        let time = said["for"].as_u64().unwrap_or(LINK).min(MAX_LINK);
        let failed =
            |error: std::io::Error| Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, why: error.to_string() };
        let link = preview::signed(&site, &target, at, now + time).map_err(failed)?;
        return Ok(json!({ "at": at, "link": link, "expires": now + time, "hosts": site.config.hosts }));
    }
    let host = host.or_else(|| site.config.hosts.iter().find(|host| !host.contains('*')).cloned());
    let host = host.unwrap_or_else(|| "localhost".into());
    let scheme = if said["https"].as_bool() == Some(true) { "https" } else { "http" };
    let wish = preview::Wish { scheme: scheme.into(), host, target, at };
    let page = preview::render(&site, wish)
        .await
        .map_err(|why| Refusal { status: StatusCode::CONFLICT, why: why.to_string() })?;
    let headers: Vec<(String, String)> = page
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    Ok(
        json!({ "at": at, "status": page.status.as_u16(), "headers": headers, "body": BASE64_STANDARD.encode(&page.body) }),
    )
}

/// The site that is meant: by its name, by a host, or the only one.
fn site(said: &Value, host: Option<&str>, front: &Front) -> Result<Arc<Site>, Refusal> {
    let routes = front.routes();
    let unknown = |why: String| Refusal { status: StatusCode::NOT_FOUND, why };
    if let Some(name) = said["site"].as_str() {
        let found = routes.all().iter().find(|site| site.config.name == name);
        return found.cloned().ok_or_else(|| unknown(format!("no site has the name {name:?}")));
    }
    match (routes.all(), host) {
        ([only], _) => Ok(only.clone()),
        (_, Some(host)) => {
            let found = routes.find(http_guard::host::split_host(host).0);
            found.cloned().ok_or_else(|| unknown(format!("no site answers the host {host}")))
        }
        (several, None) => {
            let names: Vec<_> = several.iter().map(|site| site.config.name.as_str()).collect();
            Err(Refusal::bad(format!("several sites: name one with --site: {}", names.join(", "))))
        }
    }
}
