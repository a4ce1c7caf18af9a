//! Records that are loaded for more than is read of them: only to be counted, to be chosen from in Ruby, or with long
//! texts that the page does not show.

use super::{of, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Kind, Trial},
    observation::{Observations, ObservedRequest},
    protocol::{LoadedRecords, Patch},
    units,
};

/// Loading them takes so long, and this part of the request. Microseconds.
pub(super) const LOADING_US: f64 = 1_500.0;
pub(super) const LOADING_PART: f64 = 0.15;
/// So many of which nothing or one column is read are counted or chosen from.
const MANY: u64 = 200;
/// Bytes of text that nobody reads.
const UNREAD_BYTES: u64 = 256 << 10;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        let mut known: Vec<(&str, &str)> = Vec::new();
        for records in look.route.requests.iter().flat_map(|request| &request.evidence.records) {
            let place = (records.model.as_str(), records.at.as_str());
            if !known.contains(&place) && advice(records).is_some() {
                known.push(place);
            }
        }
        found.extend(known.into_iter().filter_map(|(model, at)| loaded(&look, model, at)));
    }
}

fn loaded(look: &Look, model: &str, at: &str) -> Option<WeighedCandidate> {
    let is_this = |records: &&LoadedRecords| records.model == model && records.at == at;
    let us = |request: &ObservedRequest| {
        request.evidence.records.iter().filter(is_this).map(|records| records.us).sum::<f64>()
    };
    let ceiling_us = look.mean(us);
    if ceiling_us < LOADING_US || ceiling_us < look.wall_us * LOADING_PART {
        return None;
    }
    let records = look.most(us).evidence.records.iter().find(is_this)?;
    let (sentence, line) = advice(records)?;
    let fix = shown("", line, "only its author knows what the records are for");
    let trial = Trial::WhatIf { trial: vec![Patch::named("free_records").with("model", model).with("at", at)] };
    let candidate = of(look.route, Kind::LoadedRecords, sentence, fix, trial);
    let short = format!("{} records of {model}", units::grouped(records.count));
    Some(look.found(Candidate { at: at.into(), short, ceiling_us, ..candidate }))
}

/// What is said of them, and the line; None: they are read.
fn advice(records: &LoadedRecords) -> Option<(String, String)> {
    let LoadedRecords { model, count, columns, read, unread_bytes, .. } = records;
    let all = format!("{} records of {model} are loaded", units::grouped(*count));
    match read.as_slice() {
        [] if *count >= MANY => {
            Some((format!("{all}, and nothing of them is read"), format!("{model}.where(...).count, or .exists?")))
        }
        [one] if *count >= MANY && columns.len() > 1 => Some((
            format!("{all}, and only {one} is read"),
            format!("{model}.where({one}: ...) if Ruby chooses from them, or .pluck(:{one})"),
        )),
        _ if *unread_bytes >= UNREAD_BYTES => {
            let names = read.iter().map(|name| format!(":{name}")).collect::<Vec<_>>().join(", ");
            let names =
                if read.iter().any(|name| name == "id") || read.is_empty() { names } else { format!(":id, {names}") };
            let bytes = units::bytes(*unread_bytes);
            let unread: Vec<&str> = columns.iter().filter(|name| !read.contains(name)).map(String::as_str).collect();
            Some((
                format!("{all} with {bytes} in {} that nobody reads", unread.join(", ")),
                format!("{model}.select({names})"),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{
        find,
        samples::{clean, each},
    };

    fn records(count: u64, read: &[&str], unread_bytes: u64) -> LoadedRecords {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        LoadedRecords {
            model: "Beer".into(),
            at: "app/models/shelf.rb:7".into(),
            count,
            us: 9_000.0,
            columns: names(&["id", "name", "image"]),
            read: names(read),
            unread_bytes,
        }
    }

    #[test]
    fn what_is_loaded_and_not_read_is_said() {
        for (records, expected) in [
            (records(900, &[], 0), Some("Beer.where(...).count, or .exists?")),
            (records(900, &["name"], 0), Some("Beer.where(name: ...) if Ruby chooses from them, or .pluck(:name)")),
            (records(50, &["name"], 4 << 20), Some("Beer.select(:id, :name)")),
            (records(50, &["id", "name"], 4 << 20), Some("Beer.select(:id, :name)")),
            (records(50, &["name"], 4 << 10), None),
            (records(900, &["id", "name", "image"], 0), None),
        ] {
            let mut observations = clean();
            each(&mut observations, |request| request.evidence.records.push(records.clone()));
            let found = find(&observations);
            assert_eq!(found.first().map(|one| one.fix.line.as_str()), expected, "{records:?}");
            assert!(found.iter().all(|one| one.kind == Kind::LoadedRecords && one.at == "app/models/shelf.rb:7"));
        }
    }

    #[test]
    fn few_milliseconds_are_no_finding() {
        let mut observations = clean();
        let quick = LoadedRecords { us: 900.0, ..records(900, &[], 0) };
        each(&mut observations, |request| request.evidence.records.push(quick.clone()));
        assert_eq!(find(&observations), []);
    }
}
