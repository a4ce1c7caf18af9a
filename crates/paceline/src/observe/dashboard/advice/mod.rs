//! The page "Advice": the last result of `paceline doctor` for each application, as it was kept. Only one application's
//! is shown whole; of several there is an overview.
//! It never applies anything: what does is shown as a command.

mod bars;
mod difference;
mod gain;
mod one;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ::units::{age, grouped};
use doctor::{
    report::{Dropped, Report, Why},
    units,
    verdict::{Standing, Verdict},
};
use jiff::tz::TimeZone;
use maud::{html, Markup};

use super::html::{facts, page, percent, table, visible};
use crate::observe::{
    doctor_result::{DoctorResult, LoadError},
    incidents::text::when,
};

/// Of a result, at most: it comes from a file of the application's.
const MAX_ADVICE: usize = 40;
const MAX_OTHERS: usize = 60;
const MAX_LEFT_OUT: usize = 40;
/// Letters of a text.
const MAX_LETTERS: usize = 500;
/// Pieces of advice of each application in the overview.
const MAX_BRIEF: usize = 5;

/// An application, and what `paceline doctor` found last.
pub struct SiteAdvice {
    pub site: String,
    /// The application's folder now.
    pub root: PathBuf,
    pub result: Result<DoctorResult, LoadError>,
}

/// What the page is about.
pub struct AdviceView<'a> {
    /// Unix seconds.
    pub now: f64,
    pub zone: &'a TimeZone,
    /// The names of all applications.
    pub sites: &'a [String],
    /// The one that is looked at. None: all of them.
    pub site: Option<&'a str>,
}

/// The page. Results are taken one after the other, and need not be in memory together.
pub fn advice(view: &AdviceView, results: impl Iterator<Item = SiteAdvice>) -> String {
    let is_overview = view.site.is_none() && view.sites.len() > 1;
    let shown = |one: SiteAdvice| if is_overview { view.brief(&one) } else { view.whole(&one) };
    let results: Vec<Markup> = results.map(shown).collect();
    let body = html! {
        header {
            h1 { a href="/" { "Paceline" } }
            @if view.sites.len() > 1 {
                nav aria-label="Sites" {
                    a href="/advice" aria-current=[view.site.is_none().then_some("page")] { "all sites" }
                    @for site in view.sites {
                        a href=(address(site)) aria-current=[(view.site == Some(&**site)).then_some("page")] {
                            (visible(site))
                        }
                    }
                }
            }
            nav aria-label="Pages" {
                a href="/" { "Dashboard" }
                a href="/advice" aria-current="page" { "Advice" }
            }
        }
        main.narrow {
            @for result in &results { (result) }
            @if results.is_empty() { p.kicker { "No application is served here." } }
        }
    };
    let name = view.site.or_else(|| view.sites.first().filter(|_| view.sites.len() == 1).map(|site| &**site));
    page(&name.map_or_else(|| "Advice".into(), |name| format!("{name}: advice")), "advice", None, &body)
}

/// Where the advice for a site is.
pub fn address(site: &str) -> String {
    format!("/advice?site={}", percent(site))
}

impl AdviceView<'_> {
    /// One application among several.
    fn brief(&self, one: &SiteAdvice) -> Markup {
        let inside = match &one.result {
            Err(LoadError::Missing) => html! { p.empty { "No result yet." } },
            Err(error) => html! { p.alarm { (visible(&clipped(&error.to_string()))) } },
            Ok(result) => html! {
                p.hint { (headline(&result.report)) ", " (age((self.now - result.at) as u64)) " ago" }
                ul {
                    @for advice in result.report.advice.iter().take(MAX_BRIEF) {
                        li { (one::in_one_line(advice)) }
                    }
                }
                (more(result.report.advice.len(), MAX_BRIEF))
            },
        };
        html! {
            section.brief { h2 { a href=(address(&one.site)) { (visible(&one.site)) } } (inside) }
        }
    }

    fn whole(&self, one: &SiteAdvice) -> Markup {
        match &one.result {
            Ok(result) => self.result(one, result),
            Err(LoadError::Missing) => html! {
                h2.headline { (visible(&one.site)) ": no advice yet" }
                p { "There is no result of " code { "paceline doctor" } " for this application. To get one:" }
                (self.command("paceline doctor", &one.site))
                p.hint {
                    "Run it in the folder that is served. It watches the requests of one minute, answers them again in "
                    "copies of the application, with a change and without, and says what each change brings. The copies "
                    "write nothing."
                }
            },
            Err(error) => html! {
                h2.headline { (visible(&one.site)) ": no advice" }
                p.alarm { "The last result can't be read: " (visible(&clipped(&error.to_string()))) "." }
                p { "This makes a new one:" }
                (self.command("paceline doctor", &one.site))
            },
        }
    }

    fn result(&self, one: &SiteAdvice, result: &DoctorResult) -> Markup {
        let report = &result.report;
        let ago = age((self.now - result.at) as u64);
        let mut known =
            vec![("when", format!("{} ({ago} ago)", when(result.at, self.zone))), ("sample", sample(report))];
        if result.root != one.root {
            known.push(("made in", result.root.display().to_string()));
        }
        let advice = report.advice.iter().take(MAX_ADVICE);
        let changes = others(report, |standing| matches!(standing, Standing::Changes).then_some(""));
        let not_worth = others(report, |standing| match standing {
            Standing::NotWorth { why } => Some(why),
            _ => None,
        });
        let failed = others(report, |standing| match standing {
            Standing::Failed { why } => Some(why),
            _ => None,
        });
        html! {
            h2.headline { (visible(&one.site)) ": " (headline(report)) }
            (facts(&known))
            @if !report.advice.is_empty() {
                p.hint {
                    "The bars show the mean time of a request; the thin line is where it is, 95 % sure. This page "
                    "changes nothing: run a command in the application's folder. It writes into a clean git tree, or "
                    "prints the patch."
                }
            }
            @for advice in advice {
                @let command = format!("paceline doctor apply {}", advice.number);
                (one::card(Some(advice.number), &advice.verdict, &self.command(&command, &one.site)))
            }
            (more(report.advice.len(), MAX_ADVICE))
            @if !changes.is_empty() {
                h2.part { "Faster, but pages change" }
                @for (verdict, _) in changes.iter().take(MAX_ADVICE) { (one::card(None, verdict, &html! {})) }
                (more(changes.len(), MAX_ADVICE))
            }
            (list("Looked at, not worth it", &not_worth))
            (list("Could not be tried", &failed))
            (left_out(&report.sample.dropped))
            (noisy(&report.sample.noisy))
        }
    }

    /// A command to copy, with the site's name where it needs one.
    fn command(&self, command: &str, site: &str) -> Markup {
        let site = if self.sites.len() > 1 { format!(" --site {}", quoted(site)) } else { String::new() };
        html! { pre.command tabindex="0" { (command) (visible(&site)) } }
    }
}

/// `three changes are worth it`.
fn headline(report: &Report) -> String {
    match report.advice.len() {
        0 => "nothing to change".into(),
        count => units::count(count, "change is worth it", "changes are worth it"),
    }
}

/// `214 replayed GETs, 3 to 9 rounds each, beside live traffic`.
fn sample(report: &Report) -> String {
    let all = report.advice.iter().map(|one| &one.verdict).chain(&report.others);
    let rounds: Vec<usize> = all.map(|verdict| verdict.rounds).filter(|rounds| *rounds > 0).collect();
    let mut parts = vec![units::figures(report.sample.requests as u64, "replayed GET", "replayed GETs")];
    match (rounds.iter().min(), rounds.iter().max()) {
        (Some(min), Some(max)) if min == max => parts.push(units::figures(*max as u64, "round", "rounds")),
        (Some(min), Some(max)) => parts.push(format!("{min} to {max} rounds")),
        _ => {}
    }
    parts.extend(report.sample.live.then(|| "beside live traffic".to_owned()));
    parts.join(", ")
}

/// What stands as `why` says, and why.
fn others(report: &Report, why: fn(&Standing) -> Option<&str>) -> Vec<(&Verdict, &str)> {
    report.others.iter().filter_map(|verdict| Some((verdict, why(&verdict.standing)?))).collect()
}

fn list(title: &str, all: &[(&Verdict, &str)]) -> Markup {
    let rows = html! {
        @for (verdict, why) in all.iter().take(MAX_OTHERS) {
            tr {
                td.long {
                    (visible(&clipped(&verdict.candidate.short)))
                    p.ago { (visible(&clipped(&verdict.candidate.sentence))) }
                }
                td.long { (visible(&clipped(why))) }
            }
        }
    };
    html! {
        @if !all.is_empty() {
            section { h2 { (title) } (table(&["what", "why"], &rows)) (more(all.len(), MAX_OTHERS)) }
        }
    }
}

fn left_out(dropped: &[Dropped]) -> Markup {
    let row = |one: &Dropped| {
        let (why, what, at) = match &one.why {
            Why::Writes(note) => ("it writes", note.what.clone(), note.at.as_str()),
            Why::Failed { error } => ("it fails", error.clone(), ""),
            Why::Status { status, .. } => ("it is answered", status.to_string(), ""),
        };
        html! {
            tr {
                td.path { (visible(&clipped(&one.request))) }
                td.long {
                    (why) ": " span.code { (visible(&clipped(&what))) }
                    @if !at.is_empty() { " " span.ago { (visible(&clipped(at))) } }
                }
            }
        }
    };
    html! {
        @if !dropped.is_empty() {
            section {
                h2 { "Requests left out" }
                (table(&["request", "why"], &html! { @for one in dropped.iter().take(MAX_LEFT_OUT) { (row(one)) } }))
                (more(dropped.len(), MAX_LEFT_OUT))
            }
        }
    }
}

fn noisy(routes: &[String]) -> Markup {
    html! {
        @if !routes.is_empty() {
            section {
                h2 { "Not compared" }
                p.hint { "Pages of these routes differ from one request to the next." }
                ul { @for route in routes.iter().take(MAX_LEFT_OUT) { li { code { (visible(&clipped(route))) } } } }
                (more(routes.len(), MAX_LEFT_OUT))
            }
        }
    }
}

fn more(count: usize, shown: usize) -> Markup {
    html! { @if count > shown { p.empty { "and " (grouped((count - shown) as u64)) " more" } } }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// For a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
