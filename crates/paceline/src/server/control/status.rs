//! How the server stands: Puma's statistics, and beside them each site with its generations, its queue and what it
//! answered. It never changes anything.

use std::sync::Arc;

use serde_json::{json, Map, Value};

use super::{
    answer::{quantiles, rounded, JsonResult},
    generations, maintenance,
    observed::{self, SiteObservation},
    parts::PARTS,
    puma_stats,
};
use crate::{
    observe::{
        in_flight::EXCHANGES,
        metrics::{Kind, LastMinute, Restart, Snapshot},
    },
    request::front::{drain::Readiness, Front},
    support::clock::Micros,
};

/// Routes that are told of each site.
const SLOWEST: usize = 10;

/// GET /status.
pub async fn of_server(server: Arc<Front>) -> JsonResult {
    let sites = observed::sites(&server).await;
    let (accepted, refused) = server.connections.counted();
    let mut status = puma_stats::cluster(server.began, &sites);
    let ours = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime": server.up_since.elapsed().as_secs(),
        "readiness": readiness(server.readiness()),
        "connections": { "open": server.connections.open(), "accepted": accepted, "turned_away": refused },
        "in_hand": EXCHANGES.all().len(),
        "sites": sites.iter().map(|site| (site.site.config.name.clone(), of_site(site))).collect::<Map<_, _>>(),
    });
    if let Value::Object(ours) = ours {
        status.extend(ours);
    }
    Ok(status.into())
}

pub fn readiness(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Starting => "starting",
        Readiness::Ready => "ready",
        Readiness::Draining => "draining",
    }
}

fn of_site(observed: &SiteObservation) -> Value {
    let SiteObservation { site, overview, threads, counts, lately, in_hand } = observed;
    let kind = match (&site.app, &site.upstream) {
        (Some(_), _) => "app",
        (None, Some(_)) => "upstream",
        (None, None) => "files",
    };
    let processes = &site.metrics.processes;
    let restarts: Map<_, _> =
        Restart::ALL.iter().map(|why| (why.as_str().into(), processes.restarts(*why).into())).collect();
    let mut told = json!({
        "kind": kind,
        "serves": site.config.serves(),
        "hosts": site.config.hosts,
        "environment": site.config.environment,
        "app": overview.as_ref().map(generations::of_app),
        "threads": site.app.as_ref().map(|app| app.settings().threads),
        "stream_threads": site.app.as_ref().map(|app| app.settings().stream_threads),
        "queue": threads.map(|threads| json!({
            "waiting": threads.waiting, "idle": threads.idle, "busy": threads.busy, "streams": threads.streams,
        })),
        "in_hand": in_hand,
        "maintenance": site.maintenance.closed().map(|closed| maintenance::of_closed(&closed)),
        "routes": site.app.as_ref().map(|app| of_routes(&app.queue.slowest(SLOWEST))),
        "counts": of_counts(counts),
        "lately": of_lately(lately),
        "restarts": restarts,
    });
    for field in PARTS.iter().filter_map(|part| part.status) {
        told[field.key] = (field.value)(observed);
    }
    told
}

fn of_routes(slowest: &[(Arc<str>, Micros)]) -> Vec<Value> {
    slowest.iter().map(|(route, mean)| json!({ "route": &**route, "ms": rounded(*mean as f64 / 1000.0) })).collect()
}

fn of_counts(counts: &Snapshot) -> Value {
    let classes: Map<_, _> =
        (1..).zip(counts.classes()).map(|(class, count)| (format!("{class}xx"), count.into())).collect();
    let kinds: Map<_, _> =
        Kind::ALL.iter().map(|kind| (kind.as_str().into(), counts.of(*kind).requests().into())).collect();
    json!({
        "requests": counts.requests(),
        "status": classes,
        "kind": kinds,
        "bytes": counts.bytes(),
        "aborted": counts.aborted,
    })
}

/// Durations in milliseconds.
fn of_lately(lately: &LastMinute) -> Value {
    let mut told = of_counts(&lately.counts);
    let times = json!({
        "seconds": lately.span.as_secs(),
        "per_second": rounded(lately.per_second()),
        "total_ms": quantiles(&lately.counts.total()),
        "app_ms": quantiles(&lately.counts.app),
        "queue_ms": quantiles(&lately.counts.queue),
    });
    if let (Value::Object(told), Value::Object(times)) = (&mut told, times) {
        told.extend(times);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::{RequestOutcome, Site};
    use std::time::Duration;

    #[test]
    fn counts_and_times_of_the_last_minute() {
        let site = Site::new("shop");
        let cached = RequestOutcome {
            kind: Kind::Cache,
            status: 200,
            bytes: 10,
            total: 100,
            queue: None,
            app: None,
            aborted: false,
            crawler: None,
        };
        site.count(&cached);
        site.count(&RequestOutcome { kind: Kind::App, status: 500, queue: Some(200), app: Some(40_000), ..cached });
        let lately = LastMinute { span: Duration::from_secs(4), counts: site.snapshot() };
        let told = of_lately(&lately);
        assert_eq!((&told["requests"], &told["per_second"], &told["bytes"]), (&json!(2), &json!(0.5), &json!(20)));
        assert_eq!((&told["status"]["5xx"], &told["kind"]["cache"]), (&json!(1), &json!(1)));
        assert_eq!(told["app_ms"]["mean"], json!(40.0));
        assert!(of_lately(&LastMinute::default())["app_ms"].is_null());
    }
}
