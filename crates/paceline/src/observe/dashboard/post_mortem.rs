//! The page of one incident, and that of an exception.
//! It never lets what an app or a client chose through unescaped.

use std::fmt::Write;

use jiff::tz::TimeZone;

use super::{
    chart::{Chart, Fold, Line},
    history::{Mark, MarkKind, Span},
    html::{escape, page, size},
};
use crate::apps::incidents::{text, Failed, Incident};

const HEADER: &str =
    "<header><h1><a href=\"/\">Paceline</a></h1><nav aria-label=Pages><a href=\"/\">Dashboard</a></nav></header>";

/// A post-mortem.
pub fn incident(incident: &Incident, zone: &TimeZone) -> String {
    let mut facts = vec![("when", text::when(incident.at, zone)), ("site", incident.site.clone())];
    facts.extend(incident.process.as_ref().map(|process| ("process", text::whose(process))));
    if incident.times > 1 {
        facts.push(("times", format!("{}, the last at {}", incident.times, text::when(incident.last, zone))));
    }
    facts.push(("id", incident.id.clone()));
    let facts: String =
        facts.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escape(value))).collect();
    let mut body = format!(
        "{HEADER}\n<main class=narrow>\n<p class=kicker><b class=\"badge kind\">{}</b></p><h2 class=headline>{}</h2><p>{}.</p><dl class=facts>{facts}</dl>",
        incident.kind.as_str(),
        escape(&incident.what),
        code(incident.kind.meaning()),
    );
    let mut section = |title: &str, html: String| {
        if !html.is_empty() {
            let _ = write!(body, "<section><h2>{title}</h2>{html}</section>");
        }
    };
    section("Outcome", list(incident.after.iter().map(String::as_str)));
    let requests = incident.requests.iter().map(|request| {
        format!(
            "<tr><td class=path>{} {}</td><td class=n>{}</td><td>{}</td><td>{}</td><td class=id>{}</td></tr>",
            escape(&request.method),
            escape(&request.path),
            text::age(request.age_ms),
            if request.thread == 0 { String::new() } else { format!("thread {}", request.thread) },
            escape(&request.outcome),
            escape(&request.id)
        )
    });
    let requests: String = requests.collect();
    if !requests.is_empty() {
        let heads = "<tr><th scope=col>request</th><th scope=col>age</th><th scope=col>where</th><th scope=col>outcome</th><th scope=col>id</th></tr>";
        section("Requests in progress", format!("<table><thead>{heads}</thead><tbody>{requests}</tbody></table>"));
    }
    let backtraces = incident.backtraces.iter().map(|one| {
        format!("<h3>thread {}</h3><pre tabindex=0>{}</pre>", escape(&one.thread), escape(&one.lines.join("\n")))
    });
    section("Backtraces of its threads", backtraces.collect());
    if incident.memory.len() > 1 {
        section("Its memory", format!("<figure>{}</figure>", curve(incident)));
    }
    section("Why it did not start", incident.report.as_ref().map_or(String::new(), |report| pre(report)));
    section(
        "Last lines of the log",
        if incident.log.is_empty() { String::new() } else { pre(&incident.log.join("\n")) },
    );
    body.push_str("</main>");
    page(&format!("{}: {}", incident.site, incident.kind.as_str()), "post-mortem", "", &body)
}

/// The page of a request that failed in the application.
pub fn failed(failed: &Failed, zone: &TimeZone) -> String {
    let mut facts = vec![
        ("when", text::when(failed.last, zone)),
        ("site", failed.site.clone()),
        ("request", format!("{} {}", failed.method, failed.path)),
        ("its id", failed.request.clone()),
    ];
    if !failed.file.is_empty() {
        facts.push(("raised in", format!("{}:{}", failed.file, failed.line)));
    }
    if failed.times > 1 {
        facts.push(("times", format!("{}, the first at {}", failed.times, text::when(failed.at, zone))));
    }
    let facts: String =
        facts.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escape(value))).collect();
    let (head, told) = match failed.class.is_empty() {
        true => (
            format!("{} {}", failed.method, failed.path),
            "<p>The application sent this answer itself: its own log has the exception, under the id of the request.</p>"
                .into(),
        ),
        false => (failed.class.clone(), if failed.message.is_empty() { String::new() } else { pre(&failed.message) }),
    };
    let backtrace = match failed.backtrace.is_empty() {
        true => String::new(),
        false => format!("<section><h2>Where it was raised</h2>{}</section>", pre(&failed.backtrace.join("\n"))),
    };
    let body = format!(
        "{HEADER}\n<main class=narrow>\n<p class=kicker><b class=\"badge kind\">{}</b></p><h2 class=headline>{}</h2>{told}<dl class=facts>{facts}</dl>{backtrace}</main>",
        failed.status,
        escape(&head)
    );
    page(&format!("{}: {head}", failed.site), "post-mortem", "", &body)
}

fn curve(incident: &Incident) -> String {
    let end = incident.memory.last().map_or(incident.at, |sample| sample.at.max(incident.at));
    let first = incident.memory.first().map_or(0, |sample| sample.bytes);
    let last = incident.memory.last().map_or(0, |sample| sample.bytes);
    let span = match incident.memory.first().is_some_and(|sample| end - sample.at > Span::TenMinutes.seconds()) {
        true => Span::TwoHours,
        false => Span::TenMinutes,
    };
    let mark = Mark { at: incident.at, kind: MarkKind::Incident, label: String::new(), what: incident.what.clone() };
    let points = incident.memory.iter().map(|sample| (sample.at, sample.bytes as f64));
    Chart {
        id: "memory",
        title: "Private memory",
        said: format!("from {} to {}", size(first), size(last)),
        span,
        now: end + 1.0,
        lines: vec![Line {
            name: "memory".into(),
            class: "a",
            fold: Fold::Mean,
            filled: true,
            points: Box::new(points),
        }],
        marks: vec![&mark],
        unit: |value| size(value as u64),
        least: (16 << 20) as f64,
        most: None,
        grain: (1 << 20) as f64,
    }
    .render()
}

/// What stands between backticks is code.
fn code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(
            |(nth, piece)| {
                if nth % 2 == 0 {
                    escape(piece).into_owned()
                } else {
                    format!("<code>{}</code>", escape(piece))
                }
            },
        )
        .collect()
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>", escape(item))).collect();
    if items.is_empty() {
        items
    } else {
        format!("<ul>{items}</ul>")
    }
}

fn pre(text: &str) -> String {
    format!("<pre tabindex=0>{}</pre>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::incidents::{Backtrace, InHand, Kind, Sample};

    #[test]
    fn an_exception_is_escaped_too() {
        let evil = || "<script>".to_string();
        let one = Failed {
            site: evil(),
            method: evil(),
            path: evil(),
            request: evil(),
            status: 500,
            class: evil(),
            message: evil(),
            file: evil(),
            line: evil(),
            backtrace: vec![evil()],
            ..Failed::default()
        };
        let raised = failed(&one, &TimeZone::UTC);
        assert!(raised.matches("<script").count() == 1 && raised.contains("Where it was raised"), "{raised}");
        let answered = failed(&Failed { class: String::new(), ..one }, &TimeZone::UTC);
        assert!(
            answered.contains("its own log has the exception") && answered.matches("<script").count() == 1,
            "{answered}"
        );
    }

    #[test]
    fn what_others_chose_is_escaped() {
        let evil = "<script>alert(1)</script>";
        let mut one = Incident::new(Kind::TimedOut, evil, evil, 1.0).with_report("1a2b3c4d", evil.into());
        one.request(InHand {
            id: evil.into(),
            method: evil.into(),
            path: evil.into(),
            thread: 1,
            age_ms: 1,
            outcome: evil.into(),
        });
        one.backtrace(Backtrace { thread: evil.into(), lines: vec![evil.into()] });
        one.log = vec![evil.into()];
        one.after = vec![evil.into()];
        one = one.with_memory([Sample { at: 0.0, bytes: 1 << 20 }, Sample { at: 1.0, bytes: 2 << 20 }]);
        let page = incident(&one, &TimeZone::UTC);
        assert!(!page.contains("<script>"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 12, "{page}");
        for part in [
            "Requests in progress",
            "Backtraces of its threads",
            "Its memory",
            "Why it did not start",
            "1970-01-01 00:00:01",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
