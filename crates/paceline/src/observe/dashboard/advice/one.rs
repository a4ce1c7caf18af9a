//! One change: what is slow, what the change brings, the line to write.

use doctor::{
    candidate::{Edit, Fix, Load, Trial},
    report::Advice,
    units,
    verdict::{Bytes, Gain, Verdict},
};
use maud::{html, Markup};

use super::{
    bars, clipped, difference,
    gain::{amount, sure},
};
use crate::observe::dashboard::html::visible;

/// Routes whose compressed pages are told.
const MAX_COMPRESSED: usize = 4;

/// `command` writes it, unless only its author can.
pub fn card(number: Option<usize>, verdict: &Verdict, command: &Markup) -> Markup {
    let candidate = &verdict.candidate;
    html! {
        section.one {
            div.top {
                @if let Some(number) = number { b.number { (number) } }
                div.what {
                    h3 { (visible(&begun(&clipped(&candidate.sentence)))) }
                    p.where {
                        code { (visible(&clipped(&routes(verdict)))) }
                        @if !candidate.at.is_empty() { " " code.at { (visible(&clipped(&candidate.at))) } }
                    }
                }
                @if let Some(gain) = verdict.gains.first() { (headline(gain)) }
            }
            (bars::chart(verdict))
            p.how {
                (bytes(&verdict.bytes)) (visible(&clipped(&how(verdict))))
            }
            (difference::of(&verdict.bytes))
            (fix(&candidate.fix, number.map(|_| command)))
        }
    }
}

/// For the overview.
pub fn in_one_line(advice: &Advice) -> Markup {
    let verdict = &advice.verdict;
    html! {
        b { (advice.number) } " " (visible(&begun(&clipped(&verdict.candidate.sentence)))) " "
        code { (visible(&clipped(&routes(verdict)))) }
        @if let Some(gain) = verdict.gains.first() { " " b { (amount(gain)) } }
    }
}

fn headline(gain: &Gain) -> Markup {
    html! {
        p.gain {
            strong { (amount(gain)) }
            @if gain.of_us > 0.0 {
                " of " (units::millis(gain.of_us))
                span.sure { (sure(gain)) }
            }
        }
    }
}

fn routes(verdict: &Verdict) -> String {
    let measured: Vec<&str> =
        verdict.gains.iter().filter(|gain| gain.gain_us > 0.0).map(|gain| gain.route.as_str()).collect();
    let all: Vec<&str> = verdict.candidate.routes.iter().map(String::as_str).collect();
    let names = if measured.is_empty() { &all } else { &measured };
    match names.as_slice() {
        _ if all.is_empty() => "all pages".into(),
        [] => "all pages".into(),
        [one] => (*one).into(),
        [one, other] => format!("{one}, {other}"),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

/// How the gain is known.
fn how(verdict: &Verdict) -> String {
    let candidate = &verdict.candidate;
    let rounds = units::figures(verdict.rounds as u64, "round", "rounds");
    let load = |load: &Load| {
        let workers = units::figures(load.workers.into(), "worker", "workers");
        format!("{workers} of {}", units::figures(load.threads.into(), "thread", "threads"))
    };
    match &candidate.trial {
        Trial::Patch { .. } => format!("Measured in {rounds}, with the change and without."),
        Trial::Environment { .. } => {
            let memory = verdict.memory.filter(|bytes| *bytes > 1 << 20);
            let memory = memory.map(|bytes| format!(" A worker takes {} more.", units::bytes(bytes.unsigned_abs())));
            format!("Measured in {rounds}, in the application started with it.{}", memory.unwrap_or_default())
        }
        Trial::Load { from, to, visitors } => {
            let visitors = units::figures((*visitors).into(), "visitor", "visitors");
            let figures = verdict.under_load().map(|figures| format!(" {figures}."));
            format!(
                "Measured in {rounds} with {visitors} at once: {}, instead of {}.{}",
                load(to),
                load(from),
                figures.unwrap_or_default()
            )
        }
        Trial::Memory { load, .. } => {
            let threads = units::figures(load.threads.into(), "thread", "threads");
            let [saved, figures] = [verdict.saved_memory(), verdict.under_load()].map(Option::unwrap_or_default);
            format!("Measured in a worker of {threads} of the application started with it: {saved}; {figures}.")
        }
        Trial::Compression => {
            let routes = verdict.compression.iter().take(MAX_COMPRESSED);
            let routes: Vec<String> =
                routes.map(|one| format!("{} {} {}", one.route, one.saved(), one.cost())).collect();
            format!("The pages were compressed: {}. The time is that over a line of 8 Mbit/s.", routes.join("; "))
        }
        Trial::WhatIf { .. } => {
            let short = candidate.short.strip_prefix("the ").unwrap_or(&candidate.short);
            let change = match candidate.fix.edit {
                Edit::Migration { .. } => "The index",
                _ => "A change of the code",
            };
            format!("What if: in the trial the {short} cost nothing. {change} brings at most this.")
        }
        Trial::Computed { why, .. } => format!("Computed, not tried: {why}."),
        Trial::Untried { why } => format!("Not tried: {why}."),
    }
}

fn bytes(bytes: &Bytes) -> Markup {
    html! {
        @match bytes {
            Bytes::Same => { b.badge.ready { "same bytes" } " " }
            Bytes::Differ { .. } => { b.badge.failed { "bytes differ" } " " }
            Bytes::NotCompared => {}
        }
    }
}

fn fix(fix: &Fix, command: Option<&Markup>) -> Markup {
    let file = clipped(&fix.file);
    let place = match &fix.edit {
        Edit::Migration { .. } => "A migration".to_owned(),
        _ if file.is_empty() => "Your change".to_owned(),
        Edit::Insert { .. } => format!("Add to {file}"),
        Edit::Configure { .. } | Edit::Setting { .. } | Edit::Puma { .. } => format!("Set in {file}"),
        Edit::Shown { .. } => format!("In {file}"),
    };
    let lines = clipped(&fix.line);
    html! {
        div.fix {
            p.file { (visible(&place)) }
            pre tabindex="0" {
                @for (nth, line) in lines.lines().enumerate() {
                    @if nth > 0 { "\n" }
                    span.plus { "+ " } (visible(line))
                }
            }
            @match (&fix.edit, command) {
                (Edit::Shown { why }, Some(_)) => { p.hint { "It is yours to write: " (visible(&clipped(why))) "." } }
                (_, Some(command)) => { (command) }
                (_, None) => {}
            }
        }
    }
}

/// With a capital.
fn begun(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
