//! A report for programs. Times are in microseconds, shares and parts from 0 to 1.
//!
//! ```json
//! {"version": 1, "app": "shop", "worth_more_than_5_percent": true,
//!  "sample": {"requests": 214, "live": true, "noisy": ["GET /random"],
//!             "programs": {"convert": "app/models/image.rb:7"}, "unconfined": [],
//!             "spent": [{"route": "GET /beers", "at": "app/models/beer.rb:4", "call": "load_file (psych)", "us": 38000.0, "of_us": 41000.0}],
//!             "statuses": {"302": 9},
//!             "left_out": [{"request": "GET /x", "why": "writes", "what": "INSERT INTO visits", "at": "app/x.rb:4"}]},
//!  "advice": [{"number": 1, "kind": "cold_connections", "routes": ["GET /provision"], "sentence": "...", "at": "...",
//!              "fix": {"file": "config/initializers/paceline.rb", "line": "...", "can_apply": true, "why_not": null,
//!                      "setting": null},
//!              "trial": "patch", "environment": null, "rounds": 9, "bytes": "same", "difference": null, "memory": null,
//!              "load": null, "compression": null, "saved_us": 112000.0,
//!              "gains": [{"route": "GET /provision", "share": 0.1, "gain_us": 1120000.0, "of_us": 1836000.0,
//!                         "low_us": 1060000.0, "high_us": 1180000.0, "bound": "measured"}]}],
//!  "others": [{"standing": "not_worth", "why": "+0.4 %, noise", "number": null}]}
//! ```
//!
//! `programs` are those that requests have started, with the line that did. `unconfined` is what the kernel does not keep
//! shadows from: `files`, `connections`, `signals`, `calls`; it is empty where the kernel knows how to keep them from all.
//! `statuses` are those of replayed requests that got no page, with their number.
//! `spent` is the line of the application in which a route spends most, with what it calls. `setting` is the line of
//! paceline.toml, if the fix is a setting that processes are started with, wherever it is written.
//! `others` have the members of `advice`, too, and `standing`: `not_worth`, `changes` (bytes differ) or `failed`. `trial` is
//! `patch`, `environment` (with what the application was started with: `{"set": {}, "unset": [], "ruby_options":
//! ["--yjit"]}`), `memory` (likewise), `load`, `compression`, `what_if`, `computed` or `untried`; `bytes` is `same`, `differ`
//! or `not_compared`. Of `compression` it has `[{"route": "GET /beers", "coding": "gzip", "before": 31000, "after": 3100,
//! "cpu_us": 310.0}]`: bytes of a response and what compressing it takes. Of trials under load and of `memory` `load` is `{"visitors": 8, "control": {"per_second": 25.0, "p99_us": 90000.0, "memory": 47185920}, "trial":
//! {...}}`, with the private memory of all processes in bytes, and `memory` is how much more the trial had. `saved_us` is null where nothing was tried.

use serde_json::{json, Value};

use super::{Dropped, Report, Why};
use crate::{
    apply::process_setting,
    candidate::{Edit, Trial},
    verdict::{Bytes, Gain, Standing, UnderLoad, Verdict},
};

pub(super) fn render(report: &Report) -> Value {
    let advice = report.advice.iter().map(|one| verdict(&one.verdict, Some(one.number)));
    let others = report.others.iter().map(|one| verdict(one, None));
    json!({
        "version": 1,
        "app": report.app,
        "worth_more_than_5_percent": report.exit_code() == 1,
        "sample": {
            "requests": report.sample.requests,
            "live": report.sample.live,
            "noisy": report.sample.noisy,
            "programs": report.sample.programs,
            "unconfined": report.sample.unconfined,
            "spent": report.sample.spent,
            "statuses": report.sample.statuses,
            "left_out": report.sample.dropped.iter().map(dropped).collect::<Vec<_>>(),
        },
        "advice": advice.collect::<Vec<_>>(),
        "others": others.collect::<Vec<_>>(),
    })
}

fn verdict(verdict: &Verdict, number: Option<usize>) -> Value {
    let candidate = &verdict.candidate;
    let (standing, why) = match &verdict.standing {
        Standing::Worth => ("worth", None),
        Standing::NotWorth { why } => ("not_worth", Some(why)),
        Standing::Changes => ("changes", None),
        Standing::Failed { why } => ("failed", Some(why)),
    };
    let (trial, computed) = match &candidate.trial {
        Trial::Patch { .. } => ("patch", None),
        Trial::Environment { .. } => ("environment", None),
        Trial::Memory { .. } => ("memory", None),
        Trial::Load { .. } => ("load", None),
        Trial::Compression => ("compression", None),
        Trial::WhatIf { .. } => ("what_if", None),
        Trial::Computed { why, .. } => ("computed", Some(why)),
        Trial::Untried { why } => ("untried", Some(why)),
    };
    let (bytes, difference) = match &verdict.bytes {
        Bytes::Same => ("same", Value::Null),
        Bytes::Differ { request, difference } => {
            ("differ", json!({"request": request, "text": difference.to_string(), "places": difference}))
        }
        Bytes::NotCompared => ("not_compared", Value::Null),
    };
    let environment = match &candidate.trial {
        Trial::Environment { env, unset, ruby_options } => {
            json!({"set": env, "unset": unset, "ruby_options": ruby_options})
        }
        Trial::Memory { env, .. } => json!({"set": env, "unset": [], "ruby_options": []}),
        _ => Value::Null,
    };
    let why_not = match &candidate.fix.edit {
        Edit::Shown { why } => Some(why),
        _ => None,
    };
    json!({
        "number": number,
        "kind": candidate.kind,
        "routes": candidate.routes,
        "sentence": candidate.sentence,
        "short": candidate.short,
        "at": candidate.at,
        "fix": {
            "file": candidate.fix.file,
            "line": candidate.fix.line,
            "can_apply": why_not.is_none(),
            "why_not": why_not,
            "setting": process_setting(&candidate.fix),
        },
        "trial": trial,
        "environment": environment,
        "trial_note": computed,
        "rounds": verdict.rounds,
        "standing": standing,
        "why": why,
        "bytes": bytes,
        "difference": difference,
        "memory": verdict.memory,
        "load": verdict.load.map(|under| load(verdict, &under)),
        "compression": (!verdict.compression.is_empty()).then_some(&verdict.compression),
        // Of what was not tried it is a guess, for the order alone.
        "saved_us": (!matches!(candidate.trial, Trial::Untried { .. })).then_some(verdict.saved_us),
        "gains": verdict.gains.iter().map(gain).collect::<Vec<_>>(),
    })
}

fn load(verdict: &Verdict, under: &UnderLoad) -> Value {
    let visitors = match verdict.candidate.trial {
        Trial::Load { visitors, .. } => Some(visitors),
        Trial::Memory { load, .. } => Some(load.threads),
        _ => None,
    };
    json!({"visitors": visitors, "control": under.control, "trial": under.trial})
}

fn gain(gain: &Gain) -> Value {
    json!({
        "route": gain.route,
        "share": gain.share,
        "gain_us": gain.gain_us,
        "of_us": gain.of_us,
        "low_us": gain.interval_us.map(|(low, _)| low),
        "high_us": gain.interval_us.map(|(_, high)| high),
        "bound": gain.bound,
    })
}

fn dropped(dropped: &Dropped) -> Value {
    let (why, what, at) = match &dropped.why {
        Why::Writes(note) => ("writes", note.what.clone(), note.at.clone()),
        Why::Failed { error } => ("fails", error.clone(), String::new()),
        Why::Status { status, .. } => ("status", status.to_string(), String::new()),
    };
    json!({"request": dropped.request, "why": why, "what": what, "at": at})
}
