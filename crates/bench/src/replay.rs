//! The requests of an access log, at the moments at which they were made. Reads Common and Combined Log Format, as nginx,
//! Apache and Paceline write them, and Paceline's JSON lines. Never sends anything.

use std::{
    collections::HashMap,
    io::{self, BufRead},
    time::Duration,
};

use crate::run::Job;

/// What is sent, and what was left out.
#[derive(Debug, Default)]
pub struct Replay {
    pub jobs: Vec<Job>,
    /// Path and query of the requests that the jobs name, and whether they are HEAD.
    pub paths: Vec<(String, bool)>,
    /// Requests of other methods: to repeat them could change data.
    pub other_methods: usize,
    /// Lines that are no requests.
    pub unreadable: usize,
}

impl Replay {
    /// `speed`: so many times as fast as in the log.
    pub fn read(log: impl BufRead, speed: f64) -> io::Result<Replay> {
        let mut replay = Replay::default();
        let mut known = HashMap::new();
        let mut entries = Vec::new();
        for line in log.lines() {
            let line = line?;
            let Some(entry) = Entry::parse(&line) else {
                replay.unreadable += usize::from(!line.trim().is_empty());
                continue;
            };
            let is_head = match entry.method {
                "GET" => false,
                "HEAD" => true,
                _ => {
                    replay.other_methods += 1;
                    continue;
                }
            };
            let key = (entry.path.to_owned(), is_head);
            let index = *known.entry(key.clone()).or_insert_with(|| {
                replay.paths.push(key);
                replay.paths.len() - 1
            });
            entries.push((entry.second, index));
        }
        // Lines are written when a request ends. Those of one second have no order that counts.
        entries.sort_by(|one, other| one.0.total_cmp(&other.0));
        let first = entries.first().map_or(0.0, |entry| entry.0);
        let mut rest = &entries[..];
        while let Some((second, _)) = rest.first() {
            let same = rest.iter().take_while(|entry| entry.0 == *second).count();
            let whole = second.fract() == 0.0;
            for (number, (_, request)) in rest[..same].iter().enumerate() {
                // A log that knows whole seconds only: its requests are spread over the second.
                let within = if whole { number as f64 / same as f64 } else { 0.0 };
                let due = Duration::from_secs_f64((second - first + within) / speed);
                replay.jobs.push(Job { due, request: *request });
            }
            rest = &rest[same..];
        }
        Ok(replay)
    }
}

struct Entry<'a> {
    /// Unix time.
    second: f64,
    method: &'a str,
    path: &'a str,
}

impl Entry<'_> {
    fn parse(line: &str) -> Option<Entry<'_>> {
        if line.starts_with('{') {
            return Entry::of_json(line);
        }
        let (_, rest) = line.split_once('[')?;
        let (time, rest) = rest.split_once(']')?;
        let (_, rest) = rest.split_once('"')?;
        let (request, _) = rest.split_once('"')?;
        let mut words = request.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        path.starts_with('/').then_some(Entry { second: clf_time(time)?, method, path })
    }

    /// The members that stand in every line of Paceline's, without a parser: a log may have millions of lines.
    fn of_json(line: &str) -> Option<Entry<'_>> {
        let text = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
            rest.split_once('"').map(|(text, _)| text)
        };
        let time: jiff::Timestamp = text("time")?.parse().ok()?;
        let path = text("uri")?;
        let second = time.as_microsecond() as f64 / 1e6;
        path.starts_with('/').then_some(Entry { second, method: text("method")?, path })
    }
}

/// Like `10/Oct/2000:13:55:36 -0700`.
fn clf_time(text: &str) -> Option<f64> {
    let time = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?.to_timestamp().ok()?;
    Some(time.as_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_replayed_in_its_rhythm() {
        let log = "\
            127.0.0.1 - - [10/Oct/2023:13:55:36 +0200] \"GET /a HTTP/1.1\" 200 5 \"-\" \"curl\"\n\
            127.0.0.1 - - [10/Oct/2023:13:55:36 +0200] \"GET /b?x=1 HTTP/1.1\" 200 5 \"-\" \"curl\"\n\
            127.0.0.1 - - [10/Oct/2023:13:55:36 +0200] \"POST /a HTTP/1.1\" 200 5 \"-\" \"curl\"\n\
            garbage\n\
            127.0.0.1 - - [10/Oct/2023:13:55:38 +0200] \"HEAD /a HTTP/1.1\" 200 5 \"-\" \"curl\"\n";
        let replay = Replay::read(log.as_bytes(), 2.0).unwrap();
        let due: Vec<_> = replay.jobs.iter().map(|job| (job.due.as_millis(), job.request)).collect();
        assert_eq!(due, [(0, 0), (250, 1), (1000, 2)]);
        assert_eq!(replay.paths, [("/a".into(), false), ("/b?x=1".into(), false), ("/a".into(), true)]);
        assert_eq!((replay.other_methods, replay.unreadable), (1, 1));
    }

    #[test]
    fn json_lines_have_parts_of_a_second() {
        let line = |second, path| {
            format!("{{\"event\":\"request\",\"method\":\"GET\",\"time\":\"2026-11-24T02:00:{second}+01:00\",\"uri\":\"{path}\"}}\n")
        };
        let log = line("01.500", "/b") + &line("01.250", "/a");
        let replay = Replay::read(log.as_bytes(), 1.0).unwrap();
        let due: Vec<_> =
            replay.jobs.iter().map(|job| (job.due.as_millis(), replay.paths[job.request].0.as_str())).collect();
        assert_eq!(due, [(0, "/a"), (250, "/b")]);
    }
}
