//! A report for the terminal: one block for each advice, then what was looked at and what was left out. It uses no
//! colours and no cursor.

use super::{Advice, Dropped, Report, Sample, Why};
use crate::{
    candidate::{Edit, Kind, Trial},
    units,
    verdict::{Bound, Bytes, Gain, Standing, Verdict},
};

/// Letters of a line, about.
const WIDTH: usize = 100;
const INDENT: &str = "    ";
/// Lines about requests that were left out.
const MAX_DROPPED: usize = 10;

pub(super) fn render(report: &Report) -> String {
    let mut lines = vec![headline(report)];
    // Routes stand in one column, as far as they are short.
    let names = report.advice.iter().map(|one| routes(&one.verdict)).chain(changing(report).map(routes));
    let width = names.map(|name| name.chars().count()).filter(|width| *width <= 40).max().unwrap_or(0);
    for advice in &report.advice {
        lines.extend(block(advice, width));
    }
    for verdict in changing(report) {
        lines.push(format!(" -  {}", first_line(verdict, width)));
        lines.push(format!("{INDENT}+ {}", fix_of(verdict)));
    }
    lines.extend(spent(report));
    lines.extend(rejected(report));
    lines.extend(failed(report));
    lines.extend(left_out(&report.sample.dropped));
    lines.extend(without_page(&report.sample));
    for route in &report.sample.noisy {
        lines.push(format!("{route} was not compared: its pages differ from one request to the next"));
    }
    lines.extend(held(&report.sample));
    lines.join("\n") + "\n"
}

/// Lines in which requests spend much, unless an advice names them.
fn spent(report: &Report) -> Vec<String> {
    let is_named = |at: &str| report.advice.iter().any(|one| one.verdict.candidate.at == at);
    let told = report.sample.spent.iter().filter(|one| !is_named(&one.at));
    told.flat_map(|one| hanging(&one.to_string())).collect()
}

/// What the requests have started, and what nothing but the lists of libraries kept from harm.
fn held(sample: &Sample) -> Vec<String> {
    let mut lines = Vec::new();
    if !sample.programs.is_empty() {
        let named = sample
            .programs
            .iter()
            .map(|(name, at)| if at.is_empty() { name.clone() } else { format!("{name} ({at})") });
        lines.push(format!("programs that requests have started: {}", named.collect::<Vec<_>>().join(", ")));
    }
    let words = |what: &String| match what.as_str() {
        "files" => "files",
        "connections" => "TCP connections",
        "signals" => "signals",
        _ => "modes and owners",
    };
    if !sample.unconfined.is_empty() {
        let what = sample.unconfined.iter().map(words).collect::<Vec<_>>().join(", ");
        lines.push(format!("not held by this kernel, only by guards: {what}"));
    }
    lines
}

fn changing(report: &Report) -> impl Iterator<Item = &Verdict> {
    report.others.iter().filter(|verdict| verdict.standing == Standing::Changes)
}

fn headline(report: &Report) -> String {
    let found = match report.advice.len() {
        0 => "nothing to change".to_string(),
        count => units::count(count, "change is worth it", "changes are worth it"),
    };
    let requests = units::figures(report.sample.requests as u64, "replayed GET", "replayed GETs");
    let all = report.advice.iter().map(|one| &one.verdict).chain(&report.others);
    let rounds: Vec<usize> = all.map(|verdict| verdict.rounds).filter(|rounds| *rounds > 0).collect();
    let rounds = match (rounds.iter().min(), rounds.iter().max()) {
        (Some(1), Some(1)) => ", one round each".to_string(),
        (Some(min), Some(max)) if min == max => format!(", {max} rounds each"),
        (Some(min), Some(max)) => format!(", {min} to {max} rounds each"),
        _ => String::new(),
    };
    let live = if report.sample.live { ", beside live traffic" } else { "" };
    format!("{}: {found} ({requests}{rounds}{live})", report.app)
}

fn block(advice: &Advice, width: usize) -> Vec<String> {
    let verdict = &advice.verdict;
    let mut lines = vec![format!("{:>2}  {}", advice.number, first_line(verdict, width))];
    let mut sentence = verdict.candidate.sentence.clone();
    if !verdict.candidate.at.is_empty() {
        sentence = format!("{sentence}   {}", verdict.candidate.at);
    }
    lines.extend(wrapped(&sentence));
    lines.extend(verdict.under_load().iter().flat_map(|text| wrapped(text)));
    let more = verdict.gains.iter().enumerate().skip(1).filter(|(_, gain)| gain.gain_us > 0.0);
    let more: Vec<String> = more.map(|(nth, gain)| brief(verdict, nth, gain)).collect();
    if !more.is_empty() {
        lines.extend(wrapped(&format!("also {}", more.join(", "))));
    }
    let fix = format!("{INDENT}+ {}", fix_of(verdict));
    let command = match verdict.candidate.fix.edit {
        Edit::Shown { .. } => String::new(),
        _ => format!("paceline doctor apply {}", advice.number),
    };
    if command.is_empty() || fix.chars().count() + command.len() + 3 > WIDTH {
        lines.push(fix);
        if !command.is_empty() {
            lines.push(format!("{command:>WIDTH$}"));
        }
    } else {
        lines.push(format!("{fix}{command:>space$}", space = WIDTH - fix.chars().count()))
    }
    lines
}

pub(super) fn at_once(verdict: &Verdict) -> String {
    format!("worth it: {}   + {}", first_line(verdict, 0), fix_of(verdict))
}

/// Route, gain and bytes.
fn first_line(verdict: &Verdict, width: usize) -> String {
    let mut parts = vec![format!("{:<width$}", routes(verdict))];
    parts.extend(gain_of(verdict));
    match &verdict.bytes {
        Bytes::Same => parts.push("same bytes".into()),
        Bytes::Differ { request, difference } => parts.push(format!("bytes differ: {request}: {difference}")),
        Bytes::NotCompared => {}
    }
    parts.join("   ").trim_end().to_string()
}

fn routes(verdict: &Verdict) -> String {
    let measured: Vec<&str> =
        verdict.gains.iter().filter(|gain| gain.gain_us > 0.0).map(|gain| gain.route.as_str()).collect();
    let names = if measured.is_empty() || measured == [""] {
        verdict.candidate.routes.iter().map(String::as_str).collect()
    } else {
        measured
    };
    match names.as_slice() {
        _ if verdict.candidate.routes.is_empty() => "all pages".into(),
        [] => "all pages".into(),
        [one] => (*one).into(),
        [one, other] => format!("{one}, {other}"),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

fn gain_of(verdict: &Verdict) -> Option<String> {
    let Some(gain) = verdict.gains.first() else {
        return match &verdict.candidate.trial {
            Trial::Untried { why } => Some(format!("(not tried: {why})")),
            Trial::Load { .. } | Trial::Memory { .. } => verdict.saved_memory(),
            _ => None,
        };
    };
    if let Some(route) = verdict.compression.first() {
        return Some(format!("{} {}", route.saved(), route.cost()));
    }
    // By a trial of all pages: the mean of them would hide what one of them gains.
    let visitors = match verdict.candidate.trial {
        Trial::Load { visitors, .. } => {
            format!(" at {}", units::figures(u64::from(visitors), "visitor", "visitors at once"))
        }
        _ => String::new(),
    };
    let of = if gain.of_us > 0.0 { format!(" of {}{visitors}", units::bare_millis(gain.of_us)) } else { visitors };
    let sign = if gain.gain_us < 0.0 { "+" } else { "-" };
    let mut text = match gain.bound {
        Bound::AtMost => format!("up to {sign}{}{of}", units::millis(gain.gain_us)),
        Bound::AtLeast => format!("at least {sign}{}{of}", units::millis(gain.gain_us)),
        Bound::Measured | Bound::Computed => format!("{sign}{}{of}", units::millis(gain.gain_us)),
    };
    let notes: Vec<String> = [interval(gain), note(verdict)].into_iter().flatten().collect();
    if !notes.is_empty() {
        text = format!("{text} ({})", notes.join("; "));
    }
    Some(text)
}

/// `61 %; 95 % sure: 58 to 64`.
fn interval(gain: &Gain) -> Option<String> {
    let (low, high) = gain.interval_us.filter(|_| gain.of_us > 0.0)?;
    let [part, low, high] = [gain.gain_us, low, high].map(|us| us / gain.of_us);
    match gain.bound {
        Bound::AtMost => None,
        _ if part.abs() < 0.0995 => Some(format!(
            "{}; 95 % sure: {} to {}",
            units::percent(part),
            units::bare_percent(low),
            units::bare_percent(high)
        )),
        _ => Some(format!("{}; 95 % sure: {:.0} to {:.0}", units::percent(part), low * 100.0, high * 100.0)),
    }
}

fn note(verdict: &Verdict) -> Option<String> {
    let short = &verdict.candidate.short;
    let memory = verdict
        .memory
        .filter(|bytes| *bytes > 1 << 20)
        .map(|bytes| format!("+{} a worker", units::bytes(bytes.unsigned_abs())));
    match &verdict.candidate.trial {
        Trial::Computed { why, .. } => Some(format!("computed: {why}")),
        Trial::WhatIf { .. } => {
            let verb = match verdict.candidate.kind {
                Kind::SlowMiddleware | Kind::SlowLine => "was",
                _ => "were",
            };
            let short = short.strip_prefix("the ").unwrap_or(short);
            Some(format!("what if the {short} {verb} free"))
        }
        Trial::Environment { .. } => memory,
        _ => None,
    }
}

fn brief(verdict: &Verdict, nth: usize, gain: &Gain) -> String {
    if let Some(route) = verdict.compression.get(nth) {
        return format!("{} {}", route.route, route.saved());
    }
    format!("{} -{} of {}", gain.route, units::millis(gain.gain_us), units::bare_millis(gain.of_us))
}

fn fix_of(verdict: &Verdict) -> String {
    let fix = &verdict.candidate.fix;
    if fix.file.is_empty() || matches!(fix.edit, Edit::Migration { .. }) {
        fix.line.clone()
    } else {
        format!("{}:  {}", fix.file, fix.line)
    }
}

fn rejected(report: &Report) -> Vec<String> {
    let of = |verdict: &Verdict| match &verdict.standing {
        Standing::NotWorth { why } => Some(format!("{} ({why})", verdict.candidate.short)),
        _ => None,
    };
    let all: Vec<String> = report.others.iter().filter_map(of).collect();
    if all.is_empty() {
        Vec::new()
    } else {
        hanging(&format!("looked at, not worth it: {}", all.join("; ")))
    }
}

fn failed(report: &Report) -> Vec<String> {
    let of = |verdict: &Verdict| match &verdict.standing {
        Standing::Failed { why } => Some(format!("{} ({why})", verdict.candidate.short)),
        _ => None,
    };
    let all: Vec<String> = report.others.iter().filter_map(of).collect();
    if all.is_empty() {
        Vec::new()
    } else {
        hanging(&format!("could not be tried: {}", all.join("; ")))
    }
}

fn left_out(dropped: &[Dropped]) -> Vec<String> {
    let mut lines: Vec<String> = dropped.iter().take(MAX_DROPPED).map(dropped_line).collect();
    if dropped.len() > MAX_DROPPED {
        lines.push(format!("and {} more", units::figures((dropped.len() - MAX_DROPPED) as u64, "request", "requests")));
    }
    lines
}

/// A redirect is quick, and says nothing of the page behind it.
fn without_page(sample: &Sample) -> Option<String> {
    let count = |count: usize| units::grouped(count as u64);
    let each = sample.statuses.iter().map(|(status, times)| format!("{status} ({})", count(*times)));
    let each = each.collect::<Vec<_>>().join(", ");
    let all = count(sample.statuses.values().sum());
    (!each.is_empty()).then(|| format!("of the replayed GETs {all} got no page: {each}"))
}

/// `GET /x was left out: it writes (INSERT INTO visits, app/models/visit.rb:4)`.
fn dropped_line(dropped: &Dropped) -> String {
    let why = match &dropped.why {
        Why::Writes(note) => {
            let places = [brief_write(&note.what), note.at.clone()];
            let places: Vec<String> = places.into_iter().filter(|part| !part.is_empty()).collect();
            format!("it writes ({})", places.join(", "))
        }
        Why::Failed { error } => format!("it fails ({error})"),
        Why::Status { status, to } if to.is_empty() => format!("it is answered {status}"),
        Why::Status { status, to } => format!("it is answered {status} (to {to})"),
    };
    format!("{} was left out: {why}", dropped.request)
}

/// Without columns and values, and without quotes.
fn brief_write(what: &str) -> String {
    const LETTERS: usize = 60;
    let plain: String = what.chars().filter(|letter| !matches!(letter, '"' | '`') && !letter.is_control()).collect();
    let start = plain.split(" (").next().unwrap_or(&plain);
    let start = start.split(" SET ").next().unwrap_or(start);
    if start.chars().count() > LETTERS {
        start.chars().take(LETTERS).chain(['…']).collect()
    } else {
        start.to_string()
    }
}

fn wrapped(text: &str) -> Vec<String> {
    folded(text, INDENT, INDENT)
}

fn hanging(text: &str) -> Vec<String> {
    folded(text, "", INDENT)
}

fn folded(text: &str, first: &str, rest: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let mut is_empty = true;
    // Several spaces part a sentence from its place: they stay.
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + word.chars().count() + 1 > WIDTH && !word.is_empty() {
            lines.push(line.trim_end().to_string());
            line = rest.to_string();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line.trim_end().to_string());
    lines
}
