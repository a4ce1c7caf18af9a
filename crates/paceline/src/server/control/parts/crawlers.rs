//! Requests of crawlers, for Prometheus and for each site's status. It never recognizes one.

use serde_json::{json, Map, Value};

use super::{answer::quantiles, ControlPart, Exposition, SiteObservation, StatusField, Type, NOTHING};
use crate::{
    observe::metrics::{CrawlerOutcome, Snapshot},
    request::front::Front,
};

pub const PART: ControlPart =
    ControlPart { metrics, status: Some(StatusField { key: "crawlers", value: status }), ..NOTHING };

fn metrics(text: &mut Exposition, _: &Front, sites: &[SiteObservation]) {
    let each = || sites.iter().filter(|one| one.site.crawlers.is_some()).map(|one| (&*one.site.config.name, one));
    let help = "Requests of crawlers, by what they got.";
    let mut family = text.family("paceline_crawler_requests_total", Type::Counter, help);
    for (site, one) in each() {
        for outcome in CrawlerOutcome::ALL {
            let count = one.counts.of_crawlers(outcome);
            family.sample(&[("site", site), ("result", outcome.as_str())], count);
        }
    }
    let help = "Requests of crawlers that wait for a worker thread.";
    let mut family = text.family("paceline_crawler_queue_depth", Type::Gauge, help);
    for (site, threads) in each().filter_map(|(site, one)| Some((site, one.threads?))) {
        family.sample(&[("site", site)], threads.crawlers.0);
    }
    let help = "How long requests of crawlers waited for a worker thread.";
    let mut family = text.family("paceline_crawler_queue_duration_seconds", Type::Histogram, help);
    for (site, one) in each().filter(|(_, one)| one.threads.is_some()) {
        family.histogram(&[("site", site)], &one.counts.crawlers_queue);
    }
}

/// Where crawlers come last. Durations in milliseconds.
fn status(observed: &SiteObservation) -> Value {
    if observed.site.crawlers.is_none() {
        return Value::Null;
    }
    let counts = |counts: &Snapshot| {
        let outcomes = CrawlerOutcome::ALL.iter().map(|one| (one.as_str().into(), counts.of_crawlers(*one).into()));
        let mut told: Map<String, Value> = outcomes.collect();
        told.insert("requests".into(), counts.crawlers().into());
        told.insert("queue_ms".into(), quantiles(&counts.crawlers_queue));
        told
    };
    let (waiting, busy) = observed.threads.map_or((0, 0), |threads| threads.crawlers);
    json!({
        "waiting": waiting,
        "busy": busy,
        "counts": counts(&observed.counts),
        "lately": counts(&observed.lately.counts),
    })
}
