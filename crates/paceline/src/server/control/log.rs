//! The last lines of the log, as JSON: events and what applications printed.
//! It never shows lines of the access log.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde_json::{json, Value};

use super::answer::{ControlRequest, JsonResult, Refusal};
use crate::{
    observe::{
        local_time::{local_time, RFC_3339},
        log::{Line, Name},
    },
    request::front::Front,
};

/// What is wanted of them.
#[derive(Debug, Default, PartialEq)]
struct LogFilter {
    /// Lines with a higher number.
    after: u64,
    /// So many of them, the last.
    most: usize,
    /// None given: any.
    events: Vec<Name>,
    site: Option<String>,
}

/// GET /log?after=NUMBER&most=NUMBER&event=NAME&site=NAME, each of which may be left out and `event` repeated.
pub async fn recent(asked: ControlRequest, server: Arc<Front>) -> JsonResult {
    let wanted = LogFilter::of(asked.head.uri.query().unwrap_or_default())?;
    let lines = server.log.recent(wanted.after, usize::MAX);
    let last = lines.last().cloned().or_else(|| server.log.recent(0, 1).pop());
    let wanted: Vec<_> = wanted.of_lines(&lines).map(of_line).collect();
    Ok(json!({ "last": last.map_or(0, |line| line.number), "lines": wanted }))
}

impl LogFilter {
    fn of(query: &str) -> Result<LogFilter, Refusal> {
        let mut wanted = LogFilter { most: usize::MAX, ..LogFilter::default() };
        for (key, value) in
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        {
            let value = percent_decode_str(value).decode_utf8_lossy();
            let number =
                || value.parse::<u64>().map_err(|_| Refusal::bad(format!("{key} must be a number, not {value:?}")));
            match key {
                "after" => wanted.after = number()?,
                "most" => wanted.most = usize::try_from(number()?).unwrap_or(usize::MAX),
                "event" => wanted.events.push(named(&value)?),
                "site" => wanted.site = Some(value.into_owned()),
                _ => return Err(Refusal::bad(format!("unknown parameter {key:?}: use after, most, event and site"))),
            }
        }
        Ok(wanted)
    }

    fn of_lines<'a>(&self, lines: &'a [Arc<Line>]) -> impl Iterator<Item = &'a Line> {
        let matches = |line: &&Line| {
            (self.events.is_empty() || self.events.contains(&line.name))
                && self.site.as_ref().is_none_or(|site| line.site.as_deref() == Some(site))
        };
        let found: Vec<&Line> = lines.iter().map(|line| &**line).filter(matches).collect();
        let surplus = found.len().saturating_sub(self.most);
        found.into_iter().skip(surplus)
    }
}

fn named(name: &str) -> Result<Name, Refusal> {
    Name::ALL.iter().find(|event| event.name() == name).copied().ok_or_else(|| {
        let all: Vec<_> = Name::ALL.iter().map(|event| event.name()).collect();
        Refusal::bad(format!("unknown event {name:?}; the events are {}", all.join(", ")))
    })
}

fn of_line(line: &Line) -> Value {
    json!({
        "number": line.number,
        "time": local_time(line.time, RFC_3339),
        "event": line.name.name(),
        "site": line.site.as_deref(),
        "from": line.from,
        "text": line.text.trim_end_matches('\n'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, name: Name, site: Option<&str>) -> Arc<Line> {
        let site = site.map(Arc::from);
        Arc::new(Line { number, time: 0.0, name, site, from: None, text: "text\n".into(), plain: false })
    }

    #[test]
    fn lines_are_chosen_by_event_and_site() {
        let lines = [
            line(1, Name::Ready, Some("shop")),
            line(2, Name::Output, Some("shop")),
            line(3, Name::Stopping, None),
            line(4, Name::Output, Some("a b")),
            line(5, Name::Output, Some("shop")),
        ];
        for (query, numbers) in [
            ("", &[1, 2, 3, 4, 5][..]),
            ("most=2", &[4, 5]),
            ("event=output", &[2, 4, 5]),
            ("event=output&event=stopping&site=shop", &[2, 5]),
            ("site=a%20b&most=9", &[4]),
            ("site=shop&most=1", &[5]),
        ] {
            let found: Vec<_> = LogFilter::of(query).unwrap().of_lines(&lines).map(|line| line.number).collect();
            assert_eq!(found, numbers, "{query}");
        }
        assert_eq!(of_line(&lines[0])["text"], "text");
        for (query, told) in [
            ("after=x", "after must be a number"),
            ("event=x", "unknown event \"x\"; the events are listening"),
            ("x=1", "unknown parameter \"x\""),
        ] {
            assert!(LogFilter::of(query).unwrap_err().why.contains(told), "{query}");
        }
    }
}
