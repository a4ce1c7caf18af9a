//! Restarts and rollbacks, as they are asked for from outside, and what came of them.
//! It never waits for a boot.

use std::{sync::Arc, time::Duration};

use doctor::live::{self, ExpectedGain};
use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{json, Map, Value};
use tokio::sync::oneshot;

use super::answer::{ControlRequest, JsonResult, Refusal};
use crate::{
    apps::{
        app::App,
        attempts::{Cause, Outcome},
        canary::{Expectation, Plan},
        orders::{Order, Wish},
    },
    config::with_settings,
    request::{front::Front, route::Site},
};
use startup_report::text;

/// Letters of a route's or a file's name, and files of an expectation.
const MAX_NAME: usize = 200;
const MAX_FILES: usize = 20;
/// Bytes of settings.
const MAX_SETTINGS: usize = 2_000;

/// POST /restart: `{"site": NAME}`, or `{}` for all; with `"canary"` (percent), `"for"` (seconds) and `"requests"` as a
/// canary, which `"expect"` says what to gain. `"settings"`: lines of paceline.toml that the canary of the named site
/// is started with. Answers with the number of each site's attempt.
pub async fn restart(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let mut sites = Map::new();
    let said = said(&asked.body)?;
    let (plan, lines) = (plan(&said)?, settings(&said)?);
    for (name, app) in applications(&said, &front)? {
        let mut canary = plan.clone();
        if let (Some(canary), Some(lines)) = (&mut canary, lines) {
            let changed = with_settings(lines, &front.config.inherited, &app.settings());
            canary.settings = Some(Arc::new(changed.map_err(|why| Refusal::bad(why.to_string()))?));
        }
        let (begun, number) = oneshot::channel();
        app.order(Order::Restart(Wish { begun: Some(begun), canary, ..Wish::by(Cause::Told("paceline restart")) }));
        let number = number.await.map_err(|_| stopping(&name))?;
        sites.insert(name, json!({ "attempt": number }));
    }
    Ok(json!({ "sites": sites }))
}

/// POST /rollback: `{"site": NAME}`, or `{}` where there is one application.
pub async fn roll_back(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let applications = applications(&said(&asked.body)?, &front)?;
    let [(name, app)] = &*applications else {
        let names: Vec<_> = applications.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Refusal::bad(format!("several sites: name one with --site: {}", names.join(", "))));
    };
    let (answer, answered) = oneshot::channel();
    app.order(Order::Rollback(answer));
    let begun = answered.await.map_err(|_| stopping(name))?;
    let number = begun.map_err(|why| Refusal { status: StatusCode::CONFLICT, why: why.to_string() })?;
    Ok(json!({ "sites": { name: { "attempt": number } } }))
}

/// GET /restarts/NUMBER-SITE: what came of the attempt.
pub async fn outcome(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let step = asked.head.uri.path().rsplit('/').next().unwrap_or_default();
    let mut parts = step.splitn(2, '-');
    let unknown = || Refusal { status: StatusCode::NOT_FOUND, why: "unknown restart: it may be too long ago".into() };
    let number = parts.next().and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
    let site = percent_decode_str(parts.next().unwrap_or_default()).decode_utf8_lossy().into_owned();
    let (_, app) = applications(&json!({ "site": site }), &front)?.into_iter().next().ok_or_else(unknown)?;
    let (answer, answered) = oneshot::channel();
    app.order(Order::Outcome(number, answer));
    let outcome = answered.await.map_err(|_| stopping(&site))?.ok_or_else(unknown)?;
    if let (Some(cluster), Some(_)) = (&front.cluster, &outcome) {
        front.samples.look_at_apps(&front).await;
        cluster.tell().await;
    }
    Ok(shown(outcome.as_ref()))
}

/// `outcome` is null as long as it is under way.
fn shown(outcome: Option<&Outcome>) -> Value {
    let told = match outcome {
        None => Value::Null,
        Some(Outcome::Serves { text, .. }) => text.as_str().into(),
        Some(Outcome::Failed(report)) => text::render(report, false).into(),
        Some(Outcome::RolledBack(why) | Outcome::Refused(why)) => why.as_str().into(),
    };
    json!({ "outcome": outcome.map(Outcome::as_str), "text": told })
}

fn stopping(name: &str) -> Refusal {
    Refusal { status: StatusCode::CONFLICT, why: format!("{name} is stopping") }
}

fn said(body: &[u8]) -> Result<Value, Refusal> {
    let said: Value = match body {
        b"" => json!({}),
        body => serde_json::from_slice(body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?,
    };
    let known = |key: &String| ["site", "canary", "for", "requests", "expect", "settings"].contains(&key.as_str());
    match &said {
        Value::Object(object) => match object.keys().find(|key| !known(key)) {
            None => Ok(said),
            Some(key) => Err(Refusal::bad(format!("unknown key \"{key}\""))),
        },
        _ => Err(Refusal::bad("the body must be an object")),
    }
}

/// How a canary is tried. None: the restart is none.
fn plan(said: &Value) -> Result<Option<Plan>, Refusal> {
    let number = |key: &str, preset: f64, range: std::ops::RangeInclusive<f64>| match &said[key] {
        Value::Null => Ok(preset),
        given => given.as_f64().filter(|number| range.contains(number)).ok_or_else(|| {
            Refusal::bad(format!("\"{key}\" must be a number from {} to {}, not {given}", range.start(), range.end()))
        }),
    };
    if said["canary"].is_null() {
        let alone = ["for", "requests", "expect", "settings"].into_iter().find(|key| !said[*key].is_null());
        return alone.map_or(Ok(None), |key| Err(Refusal::bad(format!("\"{key}\" needs \"canary\""))));
    }
    Ok(Some(Plan {
        part: (number("canary", 0.0, 0.1..=90.0)? * 100.0).round() as u32,
        time: Duration::from_secs_f64(number("for", 60.0, 0.1..=86_400.0)?),
        requests: number("requests", 20.0, 0.0..=1e9)? as u64,
        expectation: expectation(&said["expect"])?.map(Arc::new),
        settings: None,
    }))
}

/// Lines of paceline.toml. None: the canary has those of the site.
fn settings(said: &Value) -> Result<Option<&str>, Refusal> {
    match &said["settings"] {
        Value::Null => Ok(None),
        Value::String(lines) if lines.len() <= MAX_SETTINGS && !said["site"].is_null() => Ok(Some(lines.as_str())),
        _ => Err(Refusal::bad(format!(
            "\"settings\" must be lines of paceline.toml for one \"site\", of at most {MAX_SETTINGS} bytes"
        ))),
    }
}

/// `{"gains": [{"route": "GET /beers/*", "gain_us": 4000, "low_us": 3800, "high_us": 4200, "of_us": 9000}], "files": []}`
fn expectation(said: &Value) -> Result<Option<Expectation>, Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Expected {
        gains: Vec<ExpectedGain>,
        #[serde(default)]
        files: Vec<String>,
    }
    if said.is_null() {
        return Ok(None);
    }
    let Expected { gains, files } =
        Expected::deserialize(said).map_err(|why| Refusal::bad(format!("\"expect\" is wrong: {why}")))?;
    // They come to stand in the log.
    let is_plain = |text: &String| text.len() <= MAX_NAME && !text.chars().any(char::is_control);
    let is_gain = |one: &ExpectedGain| {
        let figures = [one.gain_us, one.low_us, one.high_us, one.of_us];
        is_plain(&one.route)
            && one.route.contains(' ')
            && figures.iter().all(|us| (0.0..1e12).contains(us))
            && one.low_us <= one.gain_us
            && one.gain_us <= one.high_us
    };
    let wrong = match () {
        () if gains.is_empty() || gains.len() > live::MAX_ROUTES => format!("needs 1 to {} gains", live::MAX_ROUTES),
        () if !gains.iter().all(is_gain) => {
            "needs for each gain a \"route\" like \"GET /beers/*\", and microseconds with low_us <= gain_us <= high_us"
                .into()
        }
        () if files.len() > MAX_FILES || !files.iter().all(is_plain) => {
            format!("takes up to {MAX_FILES} names of files")
        }
        () => return Ok(Some(Expectation { gains, files })),
    };
    Err(Refusal::bad(format!("\"expect\" {wrong}")))
}

/// The applications that are meant, with their sites' names.
fn applications(said: &Value, front: &Front) -> Result<Vec<(String, Arc<App>)>, Refusal> {
    let routes = front.routes();
    let all = routes.all().iter().filter_map(|site: &Arc<Site>| Some((site.config.name.clone(), site.app.clone()?)));
    let found: Vec<_> = match &said["site"] {
        Value::Null => all.collect(),
        Value::String(wanted) => all.filter(|(name, _)| name == wanted).collect(),
        other => return Err(Refusal::bad(format!("\"site\" must be a name, not {other}"))),
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let why = match said["site"].as_str() {
        Some(wanted) => format!("no application has the site name {wanted:?}"),
        None => "no application is served here".into(),
    };
    Err(Refusal { status: StatusCode::NOT_FOUND, why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use startup_report::{Failure, StartupReport};

    #[test]
    fn what_came_of_it() {
        assert_eq!(shown(None), json!({ "outcome": null, "text": null }));
        let serves = Outcome::Serves { generation: 2, text: "shop is ready".into() };
        assert_eq!(shown(Some(&serves)), json!({ "outcome": "serves", "text": "shop is ready" }));
        let mut report = StartupReport::new("shop", "/srv/shop", "production");
        report.fail(Failure::Unready { path: "/up".into(), told: "was answered 500 Internal Server Error".into() });
        let failed = shown(Some(&Outcome::Failed(report.into())));
        assert_eq!(failed["outcome"], "failed");
        let text = failed["text"].as_str().unwrap();
        assert!(text.starts_with("shop did not start\n"), "{text}");
        assert!(text.contains("GET /up was answered 500 Internal Server Error\n"), "{text}");
    }

    #[test]
    fn a_canary_s_share_and_time() {
        let plan = |said| plan(&said).map_err(|refusal| refusal.why);
        assert_eq!(plan(json!({})), Ok(None));
        let time = Duration::from_secs(60);
        let five = Plan { part: 500, time, requests: 20, expectation: None, settings: None };
        assert_eq!(plan(json!({ "canary": 5 })), Ok(Some(five.clone())));
        let other = Plan { part: 1250, time: Duration::from_secs(5), requests: 0, ..five };
        assert_eq!(plan(json!({ "canary": 12.5, "for": 5, "requests": 0 })), Ok(Some(other)));
        for said in [json!({ "canary": 0 }), json!({ "canary": "5%" }), json!({ "for": 5 })] {
            assert!(plan(said.clone()).is_err(), "{said}");
        }
    }

    #[test]
    fn what_a_canary_is_to_gain() {
        let with = |expect: Value| plan(&json!({ "canary": 5, "expect": expect })).map_err(|refusal| refusal.why);
        let gain =
            |low: f64, route: &str| json!({ "route": route, "gain_us": 40, "low_us": low, "high_us": 42, "of_us": 90 });
        let found = with(json!({ "gains": [gain(38.0, "GET /a")], "files": ["config/a.rb"] })).unwrap().unwrap();
        let expectation = found.expectation.unwrap();
        assert_eq!((expectation.gains[0].low_us, &expectation.files[..]), (38.0, &["config/a.rb".to_owned()][..]));
        for wrong in [
            json!([]),
            json!({ "gains": [] }),
            json!({ "gains": [gain(41.0, "GET /a")] }),
            json!({ "gains": [gain(-1.0, "GET /a")] }),
            json!({ "gains": [gain(38.0, "/a")] }),
            json!({ "gains": [gain(38.0, "GET /\n")] }),
            json!({ "gains": vec![gain(38.0, "GET /a"); 9] }),
            json!({ "gains": [gain(38.0, "GET /a")], "files": ["x".repeat(201)] }),
            json!({ "gains": [gain(38.0, "GET /a")], "more": 1 }),
        ] {
            assert!(with(wrong.clone()).is_err_and(|why| why.starts_with("\"expect\" ")), "{wrong}");
        }
        assert!(plan(&json!({ "expect": { "gains": [gain(38.0, "GET /a")] } })).is_err(), "it needs a canary");
    }

    #[test]
    fn settings_of_a_canary() {
        assert_eq!(settings(&json!({ "site": "a" })), Ok(None));
        assert_eq!(settings(&json!({ "site": "a", "settings": "threads = 5" })), Ok(Some("threads = 5")));
        for said in [
            json!({ "settings": "threads = 5" }),
            json!({ "site": "a", "settings": { "threads": 5 } }),
            json!({ "site": "a", "settings": "#".repeat(MAX_SETTINGS + 1) }),
        ] {
            assert_eq!(settings(&said).map_err(|refusal| refusal.status), Err(StatusCode::BAD_REQUEST), "{said}");
        }
        assert!(plan(&json!({ "site": "a", "settings": "threads = 5" })).is_err(), "they need a canary");
    }

    #[test]
    fn what_is_asked_is_an_object_with_known_keys() {
        assert_eq!(said(b"").unwrap(), json!({}));
        assert!(said(b"{\"site\":\"a\"}").is_ok());
        for body in ["[]", "{", "{\"sites\":\"a\"}"] {
            assert_eq!(said(body.as_bytes()).unwrap_err().status, StatusCode::BAD_REQUEST, "{body}");
        }
    }
}
