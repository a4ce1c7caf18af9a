//! A post-mortem as text, for a terminal, and the table of all. What a client or an app chose reaches it without
//! control characters. It never prints.

use std::fmt::Write;

use jiff::{tz::TimeZone, Timestamp};
use units::{bytes, millis};

use super::{Incident, Process, Sample};

/// The incident with all that is known of it.
pub fn post_mortem(incident: &Incident, zone: &TimeZone) -> String {
    let mut text = format!("{}: {}\n", printable(&incident.site), printable(&incident.what));
    let mut facts = vec![when(incident.at, zone), incident.kind.as_str().to_owned()];
    facts.extend(incident.process.as_ref().map(whose));
    facts.push(format!("id {}", printable(&incident.id)));
    let _ = writeln!(text, "  {}", facts.join(" · "));
    if incident.times > 1 {
        let _ = writeln!(text, "  {} times, the last at {}", incident.times, when(incident.last, zone));
    }
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{title}");
            for line in lines {
                let _ = writeln!(text, "  {}", printable(&line));
            }
        }
    };
    part("Outcome", incident.after.clone());
    let requests = incident.requests.iter().map(|request| {
        let thread = if request.thread == 0 { String::new() } else { format!("thread {}  ", request.thread) };
        let outcome = if request.outcome.is_empty() { String::new() } else { format!("  {}", request.outcome) };
        format!(
            "{thread}{} {}  after {}{outcome}  (id {})",
            request.method,
            request.path,
            millis(request.age_ms as f64),
            request.id
        )
    });
    part("Requests in progress", requests.collect());
    let backtraces = incident.backtraces.iter().flat_map(|backtrace| {
        let lines = backtrace.lines.iter().map(|line| format!("  {line}"));
        std::iter::once(format!("thread {}", backtrace.thread)).chain(lines)
    });
    part("Backtraces of its threads", backtraces.collect());
    part("Its memory", curve(&incident.memory).into_iter().collect());
    part("Why it did not start", incident.report.iter().flat_map(|report| report.lines().map(str::to_owned)).collect());
    part("Last lines of the log", incident.log.clone());
    text
}

/// All of them, the newest first.
pub fn table(incidents: &[Incident], zone: &TimeZone) -> String {
    if incidents.is_empty() {
        return "No incidents.\n".into();
    }
    let row = |one: &Incident| {
        let what = often(&one.what, one.times);
        [one.id.clone(), when(one.last, zone), one.kind.as_str().into(), one.site.clone(), what]
    };
    columns(["id", "when", "kind", "site", "what"], incidents.iter().map(row).collect())
}

/// What happened, in one line, and how often.
pub fn often(what: &str, times: u64) -> String {
    let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
    format!("{}{times}", what.lines().next().unwrap_or_default())
}

/// Rows below their headings.
pub fn columns(heads: [&str; 5], rows: Vec<[String; 5]>) -> String {
    let wide: Vec<usize> = (0..4)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(heads[column].len()))
        .collect();
    let mut text = String::new();
    for row in std::iter::once(heads.map(str::to_owned)).chain(rows) {
        for (column, cell) in row.iter().enumerate() {
            let cell = printable(cell);
            let _ = match wide.get(column) {
                Some(wide) => write!(text, "{cell:wide$}  "),
                None => writeln!(text, "{cell}"),
            };
        }
    }
    text
}

/// A moment as the clock on the wall has it.
pub fn when(at: f64, zone: &TimeZone) -> String {
    let moment = Timestamp::from_millisecond((at * 1000.0) as i64).unwrap_or_default();
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Which process it was.
pub fn whose(process: &Process) -> String {
    let who = match process.index {
        0 => format!("preloader of generation {}", process.generation),
        index => format!("worker {index} of generation {}", process.generation),
    };
    format!("{who}, pid {}, lived {}", process.pid, millis((process.lived * 1000.0).max(0.0)))
}

/// The memory's curve in one line.
fn curve(samples: &[Sample]) -> Option<String> {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (first, last) = (samples.first()?, samples.last()?);
    let most = samples.iter().map(|sample| sample.bytes).max().unwrap_or(0).max(1);
    let step = samples.len().div_ceil(48);
    let levels = samples.chunks(step).map(|chunk| {
        let bytes = chunk.iter().map(|sample| sample.bytes).max().unwrap_or(0);
        LEVELS[usize::try_from(bytes.saturating_mul(7) / most).unwrap_or(7).min(7)]
    });
    let took = millis(((last.at - first.at) * 1000.0).max(0.0));
    Some(format!("{}  {} to {} within {took}", levels.collect::<String>(), bytes(first.bytes), bytes(last.bytes)))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::incidents::{Backtrace, InHand, Kind};

    fn sample() -> Incident {
        let mut incident = Incident::new(Kind::TimedOut, "shop", "GET /slow ran for 60 s", 1_700_000_000.0)
            .of(Process { workers: vec![7], index: 2, pid: 4711, generation: 3, lived: 75.0 })
            .with_memory((0..4).map(|n| Sample { at: f64::from(n) * 60.0, bytes: (n as u64 + 1) << 20 }));
        incident.id = "1a2b3c4d".into();
        incident.request(InHand {
            id: "r1".into(),
            method: "GET".into(),
            path: "/slow\x1b[2J".into(),
            thread: 1,
            age_ms: 60_012,
            outcome: "answered 504".into(),
        });
        incident.backtrace(Backtrace { thread: "1".into(), lines: vec!["app.rb:3:in `sleep'".into()] });
        incident.log = vec!["[shop.2] hello".into()];
        incident.after = vec!["the worker was replaced".into()];
        incident
    }

    #[test]
    fn a_post_mortem_reads_well() {
        let wanted = "\
shop: GET /slow ran for 60 s
  2023-11-14 22:13:20 · timed-out · worker 2 of generation 3, pid 4711, lived 1 min 15 s · id 1a2b3c4d

Outcome
  the worker was replaced

Requests in progress
  thread 1  GET /slow\u{fffd}[2J  after 1 min  answered 504  (id r1)

Backtraces of its threads
  thread 1
    app.rb:3:in `sleep'

Its memory
  ▂▄▆█  1.0 MB to 4.0 MB within 3 min

Last lines of the log
  [shop.2] hello
";
        assert_eq!(post_mortem(&sample(), &TimeZone::UTC), wanted);
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        let mut again = Incident::new(Kind::StartFailed, "blog", "blog did not start\nat all", 1_700_000_100.0);
        again = again.with_report("ffffffff", "why".into());
        again.times = 3;
        let wanted = "\
id        when                 kind          site  what
ffffffff  2023-11-14 22:15:00  start-failed  blog  blog did not start (3 times)
1a2b3c4d  2023-11-14 22:13:20  timed-out     shop  GET /slow ran for 60 s
";
        assert_eq!(table(&[again, sample()], &TimeZone::UTC), wanted);
        assert_eq!(table(&[], &TimeZone::UTC), "No incidents.\n");
    }
}
