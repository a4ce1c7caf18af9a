//! The record in a browser: the terminal's facts as one self-contained page, and the parts other error pages share.
//! It never writes text of the app's unescaped (`maud` escapes what is spliced in), and its pages load nothing.

use super::{
    backtrace::{self, Frame, Origin},
    phrases::{beyond, cause_beyond, duration, plain, plain_lines},
    place::{place, Place, Root},
    record::Mark,
    suggestion::{self, Suggestion, Surroundings},
    Failure, StartupReport,
};
use maud::{html, Markup, PreEscaped, DOCTYPE};
use std::{borrow::Cow, path::Path};

const STYLE: &str = include_str!("page.css");

/// The development page, looking at this machine.
pub fn development_html(report: &StartupReport) -> String {
    development_html_with(report, &suggestion::Here::of(report))
}

pub fn development_html_with(report: &StartupReport, seen: &dyn Surroundings) -> String {
    let class = match &report.failure {
        Some(Failure::Exception { class, .. }) => class.as_str(),
        _ => "",
    };
    let step = report.failed_step().map_or("start", |step| step.name());
    let headline = format!("{} did not start", report.site);
    let facts = [report.root.display().to_string(), report.versions.clone(), format!("id {}", report.id)];
    let main = html! {
        header {
            p.kicker { (badge(step)) " " span { (visible(&report.environment)) } }
            h1 { (visible(&headline)) }
        }
        (steps(report))
        @if let Some(failure) = &report.failure { (what_failed(report, failure)) }
        @if let Some(found) = suggestion::suggest_with(report, seen) { (what_to_do(&found, &report.root)) }
        (output(&report.output))
        @if let Some(Failure::Exception { backtrace, .. }) = &report.failure {
            (backtrace_section(&backtrace::frames(backtrace, &Root::of(&report.root))))
        }
        p.again { "Fix the problem, then " strong { "reload this page" } ": the app starts again." }
        (footer(&facts))
    };
    let title = if class.is_empty() { headline } else { format!("{class} · {headline}") };
    document(&title, "wide", &main).into_string()
}

/// The production page: nothing of the app, only the id under which the log has the details.
pub fn production_html(id: &str) -> String {
    let main = html! {
        header { h1 { "This application could not start" } }
        p.said { "Its operators find the reason in the log under this number:" }
        p.number { (visible(id)) }
        p.again { "Please try again in a few minutes." }
    };
    document("This application could not start", "narrow", &main).into_string()
}

/// A whole page.
pub fn document(title: &str, class: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (visible(title)) }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                meta name="color-scheme" content="light dark";
                style { (PreEscaped(STYLE)) }
            }
            body class=(class) { main { (main) } }
        }
    }
}

/// Text of the app's with its control characters as visible boxes. It escapes nothing: `maud` does.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(hidden) {
        text.replace(hidden, "\u{fffd}").into()
    } else {
        text.into()
    }
}

pub fn badge(text: &str) -> Markup {
    html! { b.badge { (visible(text)) } }
}

pub fn footer(facts: &[String]) -> Markup {
    html! {
        footer {
            @for fact in facts.iter().filter(|fact| !fact.is_empty()) { span { (visible(fact)) } }
            span.us { "Paceline" }
        }
    }
}

fn steps(report: &StartupReport) -> Markup {
    let note = |mark| match mark {
        Mark::Done(took) => ("done", duration(took)),
        Mark::Running => ("running", "under way".into()),
        Mark::Failed => ("failed", "failed here".into()),
        Mark::Skipped => ("skipped", "not needed".into()),
        Mark::NotReached => ("later", "not reached".into()),
    };
    html! {
        ol.steps {
            @for (step, (class, note)) in report.marks().into_iter().map(|(step, mark)| (step, note(mark))) {
                li class=(class) title=(step.meaning()) { b { (step.name()) } span { (note) } }
            }
        }
    }
}

fn what_failed(report: &StartupReport, failure: &Failure) -> Markup {
    let root = report.place();
    if let Failure::Exception { class, .. } = failure {
        return exception(class, failure, &root);
    }
    let headline = failure.headline(&root);
    let mut letters = headline.chars();
    let headline: String = letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect();
    html! { section.failure { h2.sentence { (visible(&headline)) } } }
}

/// Class (none: the page names it elsewhere), message, place and source of an exception.
pub fn exception(class: &str, failure: &Failure, root: &Root) -> Markup {
    let Failure::Exception { message, cause, detail, .. } = failure else { return Markup::default() };
    let said = if message == class { Vec::new() } else { plain_lines(message) };
    let first = said.first().cloned();
    // Further lines are often drawn with spaces: a piece of source, a caret below it.
    let further: Vec<String> = said.into_iter().skip(1).chain(beyond(message, detail.as_deref())).collect();
    let further = further.join("\n");
    html! {
        section.failure {
            @if !class.is_empty() { h2 { (visible(class)) } }
            @if let Some(first) = first { p.message { (visible(&first)) } }
            @if !further.trim().is_empty() {
                pre.further tabindex="0" { (visible(further.trim_start_matches('\n'))) }
            }
            @if let Some(cause) = cause_beyond(message, cause.as_deref()) {
                p.cause { "caused by " (visible(&cause)) }
            }
            @if let Some(place) = place(failure, root) { (source(&place, root)) }
        }
    }
}

fn source(place: &Place, root: &Root) -> Markup {
    let number = place.line.map(|line| format!(":{line}")).unwrap_or_default();
    let lines = root.excerpt(place);
    html! {
        figure {
            figcaption { (visible(&place.shown(root))) b { (number) } }
            @if place.of_app && !lines.is_empty() {
                pre.source tabindex="0" {
                    div {
                        @for line in &lines {
                            @let text = html! { i { (line.number) } (visible(&line.text)) "\n" };
                            @if line.marked { mark.line { (text) } } @else { span.line { (text) } }
                        }
                    }
                }
            }
        }
    }
}

/// The suggestion, and where its command is to be run.
pub fn what_to_do(found: &Suggestion, root: &Path) -> Markup {
    html! {
        section.advice {
            h2 { "What to do" }
            p { (with_code(&found.text)) }
            @if let Some(command) = &found.command {
                p.where { "Run in " (visible(&root.display().to_string())) }
                pre.command tabindex="0" { code { (visible(command)) } }
            }
        }
    }
}

/// Text that shows what is between backquotes as code.
pub fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len() % 2 == 0 {
        return html! { (visible(text)) };
    }
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if n % 2 == 1 { code { (visible(part)) } } @else { (visible(part)) }
        }
    }
}

fn output(lines: &[String]) -> Markup {
    let lines: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    html! {
        @if !lines.is_empty() {
            section { h2 { "What the app printed" } pre.output tabindex="0" { (visible(&lines.join("\n"))) } }
        }
    }
}

/// The app's own frames open, all others folded.
pub fn backtrace_section(frames: &[Frame]) -> Markup {
    let (app, other) = backtrace::app_first(frames.to_vec());
    html! {
        @if !frames.is_empty() {
            section {
                h2 { "Backtrace" }
                @if !app.is_empty() { ol.frames { @for one in &app { (frame(one)) } } }
                @if !other.is_empty() {
                    details open[app.is_empty()] {
                        summary { (other.len()) (if other.len() == 1 { " frame" } else { " frames" }) " in gems and Ruby" }
                        ol.frames { @for one in &other { (frame(one)) } }
                    }
                }
            }
        }
    }
}

fn frame(frame: &Frame) -> Markup {
    html! {
        li class=(if frame.origin == Origin::App { "app" } else { "gem" }) {
            @if let Some(gem) = &frame.gem { em { (visible(gem)) } " " }
            (visible(&frame.path))
            @if let Some(line) = frame.line { b { ":" (line) } }
            @if !frame.label.is_empty() { " " span { (visible(&frame.label)) } }
        }
    }
}
