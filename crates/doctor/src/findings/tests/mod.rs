//! One fault in a clean application, and what is found first; and what must not be found.

mod code;
mod server;

use super::{
    find, in_order_of_trial, patch,
    samples::{asset, clean, each, fields, sql},
};
use crate::{
    candidate::{Candidate, Edit, Kind, Load, Trial},
    observation::{Compressible, Observations, ObservedRequest, Queue, Repeat, Server},
    profile::{Profile, ProfiledLine},
    protocol::*,
};

fn kinds(observations: &Observations) -> Vec<Kind> {
    find(observations).iter().map(|candidate| candidate.kind).collect()
}

/// What is found first in a clean application with this fault.
fn first(fault: impl Fn(&mut Observations)) -> Candidate {
    let mut observations = clean();
    fault(&mut observations);
    let found = find(&observations);
    assert!(!found.is_empty(), "nothing found");
    found[0].clone()
}

fn first_in_requests(fault: impl Fn(&mut ObservedRequest)) -> Candidate {
    first(|observations| each(observations, &fault))
}

fn other_server(observations: &mut Observations) {
    observations.server = Server::Other("Puma".into());
}

fn at(text: &str) -> String {
    text.into()
}

fn calls(origin: &str, count: u64, connect: f64, wait: f64) -> OutboundCalls {
    OutboundCalls {
        origin: origin.into(),
        calls: count,
        gets: count,
        connections: count,
        connect_us: connect,
        wait_us: wait,
        longest_us: wait / count.max(1) as f64,
        client: at("net_http"),
        at: at("app/controllers/x.rb:12"),
        ..OutboundCalls::default()
    }
}

#[test]
fn a_clean_application_has_no_candidates() {
    assert_eq!(kinds(&clean()), []);
    let mut under_puma = clean();
    other_server(&mut under_puma);
    under_puma.settings.compress = None;
    assert_eq!(kinds(&under_puma), []);
    let mut rack = clean();
    rack.rails.clear();
    rack.facts = Facts { environment: at("production"), yjit: at("missing"), ..Facts::default() };
    assert_eq!(kinds(&rack), []);
    assert_eq!(kinds(&Observations::default()), []);
}

/// What a developer's machine has does not matter there.
#[test]
fn a_development_is_left_alone() {
    let mut observations = clean();
    observations.facts.environment = at("development");
    observations.facts.log_level = Some(at("debug"));
    (observations.facts.eager_load, observations.facts.cache_classes) = (Some(false), Some(false));
    each(&mut observations, |request| {
        request.evidence.log = Some(Log { lines: 200, debug_lines: 190, us: 9_000.0, ..Log::default() });
    });
    assert_eq!(kinds(&observations), []);
}

/// One change for two routes is one candidate, and what saves most comes first.
#[test]
fn candidates_are_merged_and_ordered() {
    let mut observations = clean();
    let cold = |us: f64| vec![calls("http://x", 5, us, 0.0)];
    observations.routes[0].requests.iter_mut().for_each(|request| request.evidence.outbound = cold(2_000.0));
    observations.routes[1].requests.iter_mut().for_each(|request| {
        request.evidence.outbound = cold(9_000.0);
        request.evidence.xml = Some(Xml { tags: 500, us: 15_000.0, at: at("") });
    });
    let found = find(&observations);
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::BuilderXml, Kind::ColdConnections]);
    assert_eq!(found[1].routes, ["GET /beers/*", "GET /beers"], "the route with most to gain first");
}

/// However much a slow one promises.
#[test]
fn slow_trials_come_last() {
    let mut observations = clean();
    observations.facts.yjit = "off".into();
    observations.settings.jemalloc = Some("/usr/lib/libjemalloc.so.2".into());
    observations.routes[0].requests.iter_mut().for_each(|request| {
        request.cpu_us = 20_000.0;
        request.evidence.outbound = vec![calls("http://x", 5, 2_000.0, 0.0)];
    });
    let kinds = |found: &[Candidate]| found.iter().map(|one| one.kind).collect::<Vec<_>>();
    let found = find(&observations);
    assert_eq!(kinds(&found), [Kind::Yjit, Kind::ColdConnections, Kind::Allocator]);
    let ordered = in_order_of_trial(found.clone(), 3);
    assert_eq!(kinds(&ordered), [Kind::ColdConnections, Kind::Yjit, Kind::Allocator]);
    assert_eq!(kinds(&in_order_of_trial(found, 1)), [Kind::Yjit], "what promises most is not left out for it");
}
