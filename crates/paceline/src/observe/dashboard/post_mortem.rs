//! The page of one incident, and that of an exception.

use jiff::tz::TimeZone;
use maud::{html, Markup};

use super::{
    chart::{Chart, Fold, Line},
    history::{Mark, MarkKind, Span},
    html::{facts, page, table, visible, with_code},
};
use crate::observe::incidents::{text, Failed, InHand, Incident};

/// A post-mortem.
pub fn incident(incident: &Incident, zone: &TimeZone) -> String {
    let mut known = vec![("when", text::when(incident.at, zone)), ("site", incident.site.clone())];
    known.extend(incident.process.as_ref().map(|process| ("process", text::whose(process))));
    if incident.times > 1 {
        known.push(("times", format!("{}, the last at {}", incident.times, text::when(incident.last, zone))));
    }
    known.push(("id", incident.id.clone()));
    let request = |request: &InHand| {
        html! {
            tr {
                td.path { (visible(&request.method)) " " (visible(&request.path)) }
                td.n { (units::millis(request.age_ms as f64)) }
                td { @if request.thread > 0 { "thread " (request.thread) } }
                td { (visible(&request.outcome)) }
                td.id { (visible(&request.id)) }
            }
        }
    };
    let main = html! {
        p.kicker { b.badge.kind { (incident.kind.as_str()) } }
        h2.headline { (visible(&incident.what)) }
        p { (with_code(incident.kind.meaning())) "." }
        (facts(&known))
        @if !incident.after.is_empty() {
            (section("Outcome", &html! { ul { @for line in &incident.after { li { (visible(line)) } } } }))
        }
        @if !incident.requests.is_empty() {
            @let rows = html! { @for one in &incident.requests { (request(one)) } };
            (section("Requests in progress", &table(&["request", "age", "where", "outcome", "id"], &rows)))
        }
        @if !incident.backtraces.is_empty() {
            (section("Backtraces of its threads", &html! {
                @for one in &incident.backtraces { h3 { "thread " (visible(&one.thread)) } (pre(&one.lines.join("\n"))) }
            }))
        }
        @if incident.memory.len() > 1 {
            (section("Its memory", &html! { figure { (curve(incident)) } }))
        }
        @if let Some(report) = &incident.report { (section("Why it did not start", &pre(report))) }
        @if !incident.log.is_empty() { (section("Last lines of the log", &pre(&incident.log.join("\n")))) }
    };
    post_mortem(&format!("{}: {}", incident.site, incident.kind.as_str()), &main)
}

/// The page of a request that failed in the application.
pub fn failed(failed: &Failed, zone: &TimeZone) -> String {
    let request = format!("{} {}", failed.method, failed.path);
    let mut known = vec![
        ("when", text::when(failed.last, zone)),
        ("site", failed.site.clone()),
        ("request", request.clone()),
        ("its id", failed.request.clone()),
    ];
    if !failed.file.is_empty() {
        known.push(("raised in", format!("{}:{}", failed.file, failed.line)));
    }
    if failed.times > 1 {
        known.push(("times", format!("{}, the first at {}", failed.times, text::when(failed.at, zone))));
    }
    // Without a class the application answered by itself.
    let head = if failed.class.is_empty() { &request } else { &failed.class };
    let main = html! {
        p.kicker { b.badge.kind { (failed.status) } }
        h2.headline { (visible(head)) }
        @if failed.class.is_empty() {
            p {
                "The application sent this answer itself: its own log has the exception, under the id of the request."
            }
        } @else if !failed.message.is_empty() {
            (pre(&failed.message))
        }
        (facts(&known))
        @if !failed.backtrace.is_empty() { (section("Where it was raised", &pre(&failed.backtrace.join("\n")))) }
    };
    post_mortem(&format!("{}: {head}", failed.site), &main)
}

fn post_mortem(title: &str, main: &Markup) -> String {
    let body = html! {
        header {
            h1 { a href="/" { "Paceline" } }
            nav aria-label="Pages" { a href="/" { "Dashboard" } }
        }
        main.narrow { (main) }
    };
    page(title, "post-mortem", None, &body)
}

fn section(title: &str, inside: &Markup) -> Markup {
    html! { section { h2 { (title) } (inside) } }
}

fn curve(incident: &Incident) -> Markup {
    let end = incident.memory.last().map_or(incident.at, |sample| sample.at.max(incident.at));
    let first = incident.memory.first().map_or(0, |sample| sample.bytes);
    let last = incident.memory.last().map_or(0, |sample| sample.bytes);
    let span = if incident.memory.first().is_some_and(|sample| end - sample.at > Span::TenMinutes.seconds()) {
        Span::TwoHours
    } else {
        Span::TenMinutes
    };
    let mark = Mark { at: incident.at, kind: MarkKind::Incident, label: String::new(), what: incident.what.clone() };
    let points = incident.memory.iter().map(|sample| (sample.at, sample.bytes as f64));
    Chart {
        id: "memory",
        title: "Private memory",
        said: format!("from {} to {}", units::bytes(first), units::bytes(last)),
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
        unit: |value| units::bytes(value as u64),
        least: (16 << 20) as f64,
        most: None,
        grain: (1 << 20) as f64,
    }
    .render()
}

fn pre(text: &str) -> Markup {
    html! { pre tabindex="0" { (visible(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::incidents::{Backtrace, InHand, Kind, Sample};

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
