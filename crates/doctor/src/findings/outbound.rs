//! Calls to other servers: connections that are opened for each request, and calls that wait for each other.

use super::{of, patch, shown, startup_lines, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Kind, Trial},
    observation::Observations,
    protocol::{Evidence, OutboundCalls, Patch},
    units,
};

/// Serial calls must wait so long for each other: less is not worth rewriting code.
const SERIAL_US: f64 = 3_000.0;
/// And so much of the request.
const SERIAL_PART: f64 = 0.1;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        if observations.facts.http != "paceline" {
            found.extend(cold_connections(observations, &look));
        }
        found.extend(serial_calls(observations, &look));
    }
}

/// What opening connections takes, of calls that don't keep them.
fn opening_us(evidence: &Evidence) -> f64 {
    let own = evidence.outbound.iter().filter(|calls| calls.client != "paceline" && calls.connections > 0);
    own.map(|calls| calls.connect_us + calls.tls_us).sum()
}

fn cold_connections(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let ceiling_us = look.mean(|request| opening_us(&request.evidence));
    if !look.is_notable(ceiling_us) {
        return None;
    }
    let request = look.most(|request| opening_us(&request.evidence));
    let calls = request.evidence.outbound.iter().max_by_key(|calls| calls.connections)?;
    let fix = startup_lines(observations, &["require \"paceline/http\"", "Paceline::HTTP.install!"]);
    let candidate = of(
        look.route,
        Kind::ColdConnections,
        connections_sentence(&request.evidence, calls),
        fix,
        patch(Patch::named("http_install")),
    );
    Some(look.found(Candidate { at: calls.at.clone(), subject: calls.origin.clone(), ceiling_us, ..candidate }))
}

fn connections_sentence(evidence: &Evidence, calls: &OutboundCalls) -> String {
    let kind = if calls.origin.starts_with("https:") { "TLS " } else { "" };
    let hosts = evidence.outbound.iter().filter(|calls| calls.connections > 0).count();
    let all: u64 = evidence.outbound.iter().map(|calls| calls.connections).sum();
    let host = host(&calls.origin);
    match (hosts, all) {
        (_, 1) => format!("a new {kind}connection to {host} in each request"),
        (1, _) => format!("{} {kind}connections to {host} in each request", units::grouped(all)),
        _ => format!(
            "{} connections in each request, {} of them to {host}",
            units::grouped(all),
            units::grouped(calls.connections)
        ),
    }
}

/// `https://suppliers.example:443` is suppliers.example.
fn host(origin: &str) -> &str {
    let rest = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or(rest);
    rest.strip_suffix(":443").or_else(|| rest.strip_suffix(":80")).unwrap_or(rest)
}

/// What calls that could run at once spend behind each other: all waiting but the longest. 0: there are none, or they
/// do run at once.
fn serial_us(evidence: &Evidence, observed_us: f64) -> f64 {
    let gets: u64 = evidence.outbound.iter().map(|calls| calls.gets).sum();
    let waiting: f64 = evidence.outbound.iter().map(|calls| calls.wait_us).sum();
    let longest = evidence.outbound.iter().map(|calls| calls.longest_us).fold(0.0, f64::max);
    if gets < 2 || waiting > observed_us * 1.05 {
        return 0.0;
    }
    (waiting - longest).max(0.0)
}

fn serial_calls(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let serial = |request: &crate::observation::ObservedRequest| {
        serial_us(&request.evidence, request.observed_wall_us.max(request.wall_us))
    };
    let ceiling_us = look.mean(serial);
    if ceiling_us < SERIAL_US || ceiling_us < look.wall_us * SERIAL_PART {
        return None;
    }
    let evidence = &look.most(serial).evidence;
    let calls: u64 = evidence.outbound.iter().map(|calls| calls.gets).sum();
    let identical: u64 = evidence.outbound.iter().map(|calls| calls.identical).sum();
    let first = evidence.outbound.iter().max_by(|one, other| one.wait_us.total_cmp(&other.wait_us))?;
    // Where the application does not use it yet, the line works as it stands.
    let require = if observations.facts.http == "paceline" { "" } else { "require \"paceline/http\"; " };
    let at_once = format!("{require}Paceline::HTTP.all {{ |calls| urls.each {{ |url| calls.get(url) }} }}");
    let (sentence, line, short) = if identical * 2 >= calls {
        (
            format!(
                "{} of {} calls ask {} for what an earlier one has already brought",
                identical,
                units::grouped(calls),
                host(&first.origin)
            ),
            "@answers ||= {}; @answers[url] ||= get(url)".to_owned(),
            format!("{identical} repeated calls"),
        )
    } else {
        (
            format!("{} calls wait for each other, and none may need another's answer", units::grouped(calls)),
            at_once,
            format!("{} of {calls} calls", calls - 1),
        )
    };
    let fix = shown("", line, "only its author knows whether a call needs another's answer");
    let trial = Trial::WhatIf { trial: vec![Patch::named("parallel_outbound")] };
    let candidate = of(look.route, Kind::SerialCalls, sentence, fix, trial);
    let subject = format!("waiting for {}", first.origin);
    Some(look.found(Candidate { at: first.at.clone(), subject, short, ceiling_us, ..candidate }))
}
