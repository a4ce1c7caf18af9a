//! The record in a browser: the terminal's facts as one self-contained page, and the parts other error pages share.
//! It never writes text of the app's unescaped, and its pages load nothing.

use super::{
    backtrace::{self, Frame, Origin},
    phrases::{beyond, cause_beyond, duration, plain, plain_lines},
    place::{place, Place, Root},
    record::Mark,
    suggestion::{self, Suggestion, Surroundings},
    Failure, StartupReport,
};
use std::{borrow::Cow, fmt::Write, path::Path};

const STYLE: &str = include_str!("page.css");

/// The development page, looking at this machine.
pub fn development_html(report: &StartupReport) -> String {
    development_html_with(report, &suggestion::Here::of(report))
}

pub fn development_html_with(report: &StartupReport, seen: &dyn Surroundings) -> String {
    let mut main = String::new();
    let class = match &report.failure {
        Some(Failure::Exception { class, .. }) => class.as_str(),
        _ => "",
    };
    let step = report.failed_step().map_or("start", |step| step.name());
    let headline = format!("{} did not start", report.site);
    let _ = write!(
        main,
        "<header><p class=kicker>{} <span>{}</span></p><h1>{}</h1></header>",
        badge(step),
        escape(&report.environment),
        escape(&headline)
    );
    main.push_str(&steps(report));
    if let Some(failure) = &report.failure {
        main.push_str(&what_failed(report, failure));
    }
    if let Some(found) = suggestion::suggest_with(report, seen) {
        main.push_str(&what_to_do(&found, &report.root));
    }
    main.push_str(&output(&report.output));
    if let Some(Failure::Exception { backtrace, .. }) = &report.failure {
        main.push_str(&backtrace_section(&backtrace::frames(backtrace, &Root::of(&report.root))));
    }
    main.push_str("<p class=again>Fix the problem, then <strong>reload this page</strong>: the app starts again.</p>");
    let facts = [report.root.display().to_string(), report.versions.clone(), format!("id {}", report.id)];
    main.push_str(&footer(&facts));
    let title = if class.is_empty() { headline } else { format!("{class} · {headline}") };
    document(&title, "wide", &main)
}

/// The production page: nothing of the app, only the id under which the log has the details.
pub fn production_html(id: &str) -> String {
    let main = format!(
        "<header><h1>This application could not start</h1></header>\
         <p class=said>Its operators find the reason in the log under this number:</p><p class=number>{}</p>\
         <p class=again>Please try again in a few minutes.</p>",
        escape(id)
    );
    document("This application could not start", "narrow", &main)
}

/// A whole page. `title` is text, `main` is HTML.
pub fn document(title: &str, class: &str, main: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<title>{}</title>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<style>{STYLE}</style>\n</head>\n<body class={class}>\n<main>{main}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Safe in text and in quoted attributes; control characters become visible boxes.
pub fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || (c.is_control() && c != '\n' && c != '\t');
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if special(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

pub fn badge(text: &str) -> String {
    format!("<b class=badge>{}</b>", escape(text))
}

pub fn footer(facts: &[String]) -> String {
    let facts: Vec<String> =
        facts.iter().filter(|fact| !fact.is_empty()).map(|fact| format!("<span>{}</span>", escape(fact))).collect();
    format!("<footer>{}<span class=us>Paceline</span></footer>", facts.join(""))
}

fn steps(report: &StartupReport) -> String {
    let mut out = String::from("<ol class=steps>");
    for (step, mark) in report.marks() {
        let (class, note) = match mark {
            Mark::Done(took) => ("done", duration(took)),
            Mark::Running => ("running", "under way".into()),
            Mark::Failed => ("failed", "failed here".into()),
            Mark::Skipped => ("skipped", "not needed".into()),
            Mark::NotReached => ("later", "not reached".into()),
        };
        let _ = write!(
            out,
            "<li class={class} title=\"{}\"><b>{}</b><span>{note}</span></li>",
            step.meaning(),
            step.name()
        );
    }
    out + "</ol>"
}

fn what_failed(report: &StartupReport, failure: &Failure) -> String {
    let root = report.place();
    let Failure::Exception { class, .. } = failure else {
        let headline = failure.headline(&root);
        let mut letters = headline.chars();
        let headline: String = letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect();
        return format!("<section class=failure><h2 class=sentence>{}</h2></section>", escape(&headline));
    };
    exception(class, failure, &root)
}

/// Class (none: the page names it elsewhere), message, place and source of an exception.
pub fn exception(class: &str, failure: &Failure, root: &Root) -> String {
    let Failure::Exception { message, cause, detail, .. } = failure else { return String::new() };
    let mut out = String::from("<section class=failure>");
    if !class.is_empty() {
        let _ = write!(out, "<h2>{}</h2>", escape(class));
    }
    let said = if message == class { Vec::new() } else { plain_lines(message) };
    if let Some(first) = said.first() {
        let _ = write!(out, "<p class=message>{}</p>", escape(first));
    }
    // Further lines are often drawn with spaces: a piece of source, a caret below it.
    let further: Vec<String> = said.into_iter().skip(1).chain(beyond(message, detail.as_deref())).collect();
    let further = further.join("\n");
    if !further.trim().is_empty() {
        let _ = write!(out, "<pre class=further tabindex=0>{}</pre>", escape(further.trim_start_matches('\n')));
    }
    if let Some(cause) = cause_beyond(message, cause.as_deref()) {
        let _ = write!(out, "<p class=cause>caused by {}</p>", escape(&cause));
    }
    if let Some(place) = place(failure, root) {
        out.push_str(&source(&place, root));
    }
    out + "</section>"
}

fn source(place: &Place, root: &Root) -> String {
    let name = place.shown(root);
    let number = place.line.map(|line| format!(":{line}")).unwrap_or_default();
    let mut out = format!("<figure><figcaption>{}<b>{number}</b></figcaption>", escape(&name));
    let lines = root.excerpt(place);
    if place.of_app && !lines.is_empty() {
        out.push_str("<pre class=source tabindex=0><div>");
        for line in &lines {
            let tag = if line.marked { "mark" } else { "span" };
            let _ = write!(out, "<{tag} class=line><i>{}</i>{}\n</{tag}>", line.number, escape(&line.text));
        }
        out.push_str("</div></pre>");
    }
    out + "</figure>"
}

fn what_to_do(found: &Suggestion, root: &Path) -> String {
    let mut out = format!("<section class=advice><h2>What to do</h2><p>{}</p>", with_code(&found.text));
    if let Some(command) = &found.command {
        let _ = write!(
            out,
            "<p class=where>Run in {}</p><pre class=command tabindex=0><code>{}</code></pre>",
            escape(&root.display().to_string()),
            escape(command)
        );
    }
    out + "</section>"
}

/// Escapes, and shows what is between backquotes as code.
pub fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len() % 2 == 0 {
        return escape(text).into_owned();
    }
    let shown = |(n, part): (usize, &&str)| {
        if n % 2 == 1 {
            format!("<code>{}</code>", escape(part))
        } else {
            escape(part).into_owned()
        }
    };
    parts.iter().enumerate().map(shown).collect()
}

fn output(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    format!(
        "<section><h2>What the app printed</h2><pre class=output tabindex=0>{}</pre></section>",
        escape(&lines.join("\n"))
    )
}

/// The app's own frames open, all others folded.
pub fn backtrace_section(frames: &[Frame]) -> String {
    if frames.is_empty() {
        return String::new();
    }
    let (app, other) = backtrace::app_first(frames.to_vec());
    let mut out = String::from("<section><h2>Backtrace</h2>");
    if !app.is_empty() {
        let _ = write!(out, "<ol class=frames>{}</ol>", app.iter().map(frame).collect::<String>());
    }
    if !other.is_empty() {
        let count = match other.len() {
            1 => "1 frame".to_string(),
            count => format!("{count} frames"),
        };
        let open = if app.is_empty() { " open" } else { "" };
        let _ = write!(
            out,
            "<details{open}><summary>{count} in gems and Ruby</summary><ol class=frames>{}</ol></details>",
            other.iter().map(frame).collect::<String>()
        );
    }
    out + "</section>"
}

fn frame(frame: &Frame) -> String {
    let class = if frame.origin == Origin::App { "app" } else { "gem" };
    let gem = frame.gem.as_deref().map(|gem| format!("<em>{}</em> ", escape(gem))).unwrap_or_default();
    let line = frame.line.map(|line| format!("<b>:{line}</b>")).unwrap_or_default();
    let label = if frame.label.is_empty() { String::new() } else { format!(" <span>{}</span>", escape(&frame.label)) };
    format!("<li class={class}>{gem}{}{line}{label}</li>", escape(&frame.path))
}
