//! Pages and answers that are slow to write or to read: XML, partials in loops, JSON of whole records.

use super::{environment_line, of, patch, queries::RUBY_OF_QUERY, shown, startup_lines, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Measure, Trial},
    observation::{Observations, ObservedRequest},
    protocol::{Cache, Evidence, Patch, Sql, View},
    units,
};

/// A template that is rendered fewer times in a request is no loop.
const LOOP: u64 = 10;
/// Its renderings take so long together, and this part of the request: what a list costs at least is no fault.
pub(super) const PARTIAL_US: f64 = 2_000.0;
pub(super) const PARTIAL_PART: f64 = 0.3;
/// One rendering takes so long: with less, it is what any partial costs, or one that is kept. Microseconds.
const EACH_US: f64 = 80.0;
/// JSON takes so long, and this part of the request.
const JSON_US: f64 = 2_000.0;
const JSON_PART: f64 = 0.2;
/// Bytes of JSON for each record: with less, there is little to leave out.
const RECORD_BYTES: u64 = 300;
/// Records.
const RECORDS: u64 = 20;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        if observations.facts.builder.as_deref() == Some("builder") {
            found.extend(builder(observations, &look));
        }
        found.extend(xml_mini(observations, &look));
        found.extend(partials(&look));
        found.extend(whole_records(&look));
    }
}

fn xml_us(request: &ObservedRequest) -> f64 {
    request.evidence.xml.as_ref().map_or(0.0, |xml| xml.us)
}

fn builder(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let ceiling_us = look.mean(xml_us);
    if !look.is_notable(ceiling_us) {
        return None;
    }
    let xml = look.most(xml_us).evidence.xml.as_ref()?;
    let fix = if observations.rails.is_empty() {
        startup_lines(observations, &["require \"paceline/xml\"", "Paceline::XML.replace_builder!"])
    } else {
        let line = "config.paceline.xml = true";
        let edit = Edit::Configure { setting: "config.paceline.xml".into(), line: line.into(), gem: true };
        Fix { file: "config/application.rb".into(), line: line.into(), edit }
    };
    let sentence = format!("Builder writes {} in Ruby", units::figures(xml.tags, "tag", "tags"));
    let candidate = of(look.route, Kind::BuilderXml, sentence, fix, patch(Patch::named("xml")));
    Some(look.found(Candidate { at: xml.at.clone(), measure: Measure::Cpu, ceiling_us, ..candidate }))
}

fn xml_mini(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let us = |request: &ObservedRequest| {
        let read = request.evidence.xml_mini.as_ref().filter(|read| read.backend.contains("REXML"));
        read.map_or(0.0, |read| read.us)
    };
    let ceiling_us = look.mean(us);
    if !look.is_notable(ceiling_us) {
        return None;
    }
    let read = look.most(us).evidence.xml_mini.as_ref()?;
    let fix = startup_lines(observations, &["ActiveSupport::XmlMini.backend = \"Paceline\""]);
    let sentence = format!("REXML reads XML in Ruby, {}", units::figures(read.calls, "time", "times"));
    let candidate = of(look.route, Kind::XmlMini, sentence, fix, patch(Patch::named("xml_mini")));
    Some(look.found(Candidate { at: read.at.clone(), measure: Measure::Cpu, ceiling_us, ..candidate }))
}

fn is_within(view: &View, at: &str, count: u64) -> bool {
    at.split(':').next() == Some(view.name.as_str()) || count * 2 >= view.count
}

fn queries_within<'a>(view: &'a View, evidence: &'a Evidence) -> impl Iterator<Item = &'a Sql> {
    evidence.sql.iter().filter(|sql| is_within(view, &sql.at, sql.count))
}

/// Slow by itself: what its queries, calls and XML take has a finding of its own. What happens about as often as the
/// partial is rendered happens in it, whatever helper or model it is in.
fn loop_us(view: &View, evidence: &Evidence) -> f64 {
    let queries: f64 = queries_within(view, evidence).map(|sql| sql.us * RUBY_OF_QUERY).sum();
    let is_within = |at: &str, count: u64| is_within(view, at, count);
    let calls = evidence.outbound.iter().filter(|calls| is_within(&calls.at, calls.calls));
    let calls: f64 = calls.map(|calls| calls.connect_us + calls.tls_us + calls.wait_us).sum();
    let xml = evidence.xml.as_ref().filter(|xml| is_within(&xml.at, 0)).map_or(0.0, |xml| xml.us);
    let own_us = view.own_us - queries - calls - xml;
    // Most of its renderings were in the cache: looking there is what remains.
    let is_kept = |cache: &Cache| is_within(&cache.at, 0) && cache.hits * 2 >= view.count;
    if view.count >= LOOP && !evidence.cache.as_ref().is_some_and(is_kept) && own_us >= view.count as f64 * EACH_US {
        own_us
    } else {
        0.0
    }
}

fn partials(look: &Look) -> Vec<WeighedCandidate> {
    let mut names: Vec<&str> = Vec::new();
    for view in look.route.requests.iter().flat_map(|request| &request.evidence.views) {
        if view.count >= LOOP && !names.contains(&view.name.as_str()) {
            names.push(&view.name);
        }
    }
    names.into_iter().filter_map(|name| partial(look, name)).collect()
}

fn partial(look: &Look, name: &str) -> Option<WeighedCandidate> {
    let us = |request: &ObservedRequest| {
        let same = request.evidence.views.iter().filter(|view| view.name == name);
        same.map(|view| loop_us(view, &request.evidence)).sum::<f64>()
    };
    let ceiling_us = look.mean(us);
    if ceiling_us < PARTIAL_US || ceiling_us < look.wall_us * PARTIAL_PART {
        return None;
    }
    let evidence = &look.most(us).evidence;
    let view = evidence.views.iter().find(|view| view.name == name)?;
    let holds = queries_within(view, evidence).map(|sql| sql.shape.clone()).collect();
    let sentence = format!(
        "{name} is rendered {} times, {} each",
        units::grouped(view.count),
        units::millis(view.own_us / view.count as f64)
    );
    // Its record has the name that `as:` gives it.
    let line = "cache(its record) { ... } within it, or render partial: ..., collection: ..., cached: true";
    let fix = shown("", line, "only its author knows what the partial may remember");
    let trial = Trial::WhatIf { trial: vec![Patch::named("free_view").with("view", name)] };
    let candidate = of(look.route, Kind::SlowPartial, sentence, fix, trial);
    let short = format!("{} renderings of {name}", units::grouped(view.count));
    Some(look.found(Candidate { at: format!("{name}:1"), subject: name.into(), holds, short, ceiling_us, ..candidate }))
}

fn json_us(request: &ObservedRequest) -> f64 {
    request.evidence.json.as_ref().map_or(0.0, |json| json.us)
}

/// Rows that were read with all of their columns.
fn whole_rows(evidence: &Evidence) -> u64 {
    let is_whole = |shape: &str| {
        let start = shape.trim_start().get(..60.min(shape.len())).unwrap_or_default().to_ascii_uppercase();
        start.starts_with("SELECT *") || start.split(" FROM ").next().is_some_and(|columns| columns.ends_with(".*"))
    };
    evidence.sql.iter().filter(|sql| is_whole(&sql.shape)).map(|sql| sql.rows).sum()
}

fn whole_records(look: &Look) -> Option<WeighedCandidate> {
    let mean_us = look.mean(json_us);
    if mean_us < JSON_US || mean_us < look.wall_us * JSON_PART {
        return None;
    }
    let evidence = &look.most(json_us).evidence;
    let json = evidence.json.as_ref()?;
    let rows = whole_rows(evidence);
    if rows < RECORDS || json.bytes / rows < RECORD_BYTES {
        return None;
    }
    let sentence = format!(
        "{} of JSON from {}, with all of their columns",
        units::bytes(json.bytes),
        units::figures(rows, "record", "records")
    );
    let fix = shown("", "records.select(...).as_json(only: [...])", "only its author knows which columns are needed");
    let gain_us = mean_us;
    let trial = Trial::Computed { gain_us, why: "the time of all JSON".into() };
    let candidate = of(look.route, Kind::WholeRecords, sentence, fix, trial);
    Some(look.found(Candidate {
        at: json.at.clone(),
        short: "JSON of whole records".into(),
        ceiling_us: gain_us,
        ..candidate
    }))
}

/// Debug messages in production.
pub(super) fn debug_log(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    if observations.facts.log_level.as_deref() != Some("debug") || !super::is_production(observations) {
        return;
    }
    for look in Look::all(observations) {
        let us = |request: &ObservedRequest| {
            let log = request.evidence.log.as_ref();
            log.map_or(0.0, |log| log.us * log.debug_lines as f64 / log.lines.max(1) as f64)
        };
        let lines = |request: &ObservedRequest| request.evidence.log.as_ref().map_or(0.0, |log| log.debug_lines as f64);
        let most = look.most(lines);
        let Some(log) = most.evidence.log.as_ref().filter(|log| log.debug_lines > 0) else { continue };
        let sentence = format!(
            "production logs at level debug: {} and {} in one request",
            units::figures(log.lines, "line", "lines"),
            units::bytes(log.bytes)
        );
        let fix = environment_line(observations, "config.log_level", "config.log_level = :info");
        let trial = patch(Patch::named("log_level").with("level", "info"));
        let candidate = of(look.route, Kind::DebugLog, sentence, fix, trial);
        // A line costs more than writing it: its text is made, and values are inspected.
        let ceiling_us = look.mean(us).max(NO_FIGURE_US);
        found.push(look.found(Candidate { measure: Measure::Cpu, ceiling_us, ..candidate }));
    }
}

/// Where nothing says what something may save: as little as is worth a trial. Microseconds.
const NO_FIGURE_US: f64 = 500.0;
