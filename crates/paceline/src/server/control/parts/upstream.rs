//! The hosts of sites with an upstream: how each stands, for `paceline status` and for Prometheus. It never asks a host.

use std::sync::Arc;

use balance::HostReport;
use serde_json::{json, Value};

use super::{ControlPart, Exposition, SiteObservation, StatusField, Type, NOTHING};
use crate::request::front::Front;

pub const PART: ControlPart =
    ControlPart { metrics, status: Some(StatusField { key: "upstream", value: status }), ..NOTHING };

/// The hosts as `paceline status --json` has them.
fn status(observed: &SiteObservation) -> Value {
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
    let hosts = observed.site.upstream.as_ref().map(|upstream| upstream.report().into_iter().map(host).collect());
    hosts.unwrap_or_default()
}

/// One report for each name: an address that came back while it left is two hosts, and a time series must not be there twice.
fn merged(reports: Vec<(Arc<str>, HostReport)>) -> Vec<(Arc<str>, HostReport)> {
    let mut merged: Vec<(Arc<str>, HostReport)> = Vec::new();
    for (name, report) in reports {
        let Some((_, same)) = merged.iter_mut().find(|(known, _)| *known == name) else {
            merged.push((name, report));
            continue;
        };
        let (pending, requests) = (same.pending + report.pending, same.requests + report.requests);
        let failures = same.failures + report.failures;
        // The later one, unless it gets nothing.
        if report.standing.is_available() || !same.standing.is_available() {
            *same = HostReport { first_byte: report.first_byte.or(same.first_byte), ..report };
        }
        (same.pending, same.requests, same.failures) = (pending, requests, failures);
    }
    merged
}

/// Counts them. A host that leaves is counted until its last request has ended.
fn metrics(text: &mut Exposition, _: &Front, sites: &[SiteObservation]) {
    let reports: Vec<_> = sites
        .iter()
        .filter_map(|one| Some((one.site.config.name.clone(), merged(one.site.upstream.as_ref()?.report()))))
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

#[cfg(test)]
mod tests {
    use balance::{Balancer, Rules, Standing};

    use super::*;

    #[test]
    fn an_address_that_came_back_while_it_left_is_counted_once() {
        let mut balancer = Balancer::new(Rules::default(), 1);
        let ids = [None, None, Some(0)].map(|came| balancer.add(came));
        ids.iter().for_each(|id| balancer.begin(*id));
        balancer.answered(ids[0], 0, 5, true);
        balancer.failed(ids[0], 6, 7);
        balancer.remove(ids[0]);
        let names: [Arc<str>; 3] = ["http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.1"].map(Into::into);
        let report = || names.iter().cloned().zip(balancer.report(1)).collect::<Vec<_>>();
        for reports in [report(), report().into_iter().rev().collect()] {
            let merged = merged(reports);
            assert_eq!(merged.len(), 2);
            let (_, both) = merged.iter().find(|(name, _)| *name == names[0]).expect("the address");
            assert_eq!((both.pending, both.requests, both.failures, both.standing), (2, 2, 1, Standing::Starting));
        }
    }
}
