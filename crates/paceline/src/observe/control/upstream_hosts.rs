//! The hosts of sites with an upstream: how each stands, for `paceline status` and for Prometheus. It never asks a host.

use std::sync::Arc;

use balance::HostReport;
use serde_json::{json, Value};

use super::{
    exposition::{Exposition, Type},
    observed::SiteObservation,
};
use crate::upstream::Upstream;

/// The hosts as `paceline status --json` has them.
pub fn listed(upstream: &Upstream) -> Value {
    let host = |(name, report): (Arc<str>, HostReport)| {
        json!({
            "host": &*name,
            "state": report.standing.as_str(),
            "pending": report.pending,
            "requests": report.requests,
            "failures": report.failures,
            "first_byte_ms": report.first_byte.map(|micros| micros.round() / 1000.0),
        })
    };
    upstream.report().into_iter().map(host).collect()
}

/// Counts them. A host that leaves is counted until its last request has ended.
pub fn count(text: &mut Exposition, sites: &[SiteObservation]) {
    let reports: Vec<_> = sites
        .iter()
        .filter_map(|one| Some((one.site.config.name.clone(), one.site.upstream.as_ref()?.report())))
        .flat_map(|(site, hosts)| hosts.into_iter().map(move |(host, report)| (site.clone(), host, report)))
        .collect();
    let mut family = text.family("paceline_upstream_up", Type::Gauge, "1 when a host of an upstream gets requests.");
    for (site, host, report) in &reports {
        family.sample(&[("site", site), ("host", host)], u8::from(report.standing.is_available()));
    }
    let help = "Requests and WebSockets that a host of an upstream has.";
    let mut family = text.family("paceline_upstream_pending", Type::Gauge, help);
    reports.iter().for_each(|(site, host, report)| family.sample(&[("site", site), ("host", host)], report.pending));
    let help = "Requests that a host of an upstream got.";
    let mut family = text.family("paceline_upstream_requests_total", Type::Counter, help);
    reports.iter().for_each(|(site, host, report)| family.sample(&[("site", site), ("host", host)], report.requests));
    let help = "Requests that a host of an upstream failed.";
    let mut family = text.family("paceline_upstream_failures_total", Type::Counter, help);
    reports.iter().for_each(|(site, host, report)| family.sample(&[("site", site), ("host", host)], report.failures));
    let help = "A host's usual time until an answer begins.";
    let mut family = text.family("paceline_upstream_first_byte_seconds", Type::Gauge, help);
    for (site, host, report) in &reports {
        let learned = report.first_byte.iter();
        learned.for_each(|micros| family.sample(&[("site", site), ("host", host)], micros / 1e6));
    }
}
