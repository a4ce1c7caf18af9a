//! The requests of an access log, at the moments at which they were made. Never sends anything.

use std::{
    collections::HashMap,
    io::{self, BufRead},
    time::Duration,
};

use crate::{access_log::Entry, run::Job};

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
    /// Why there is nothing, or no GET, to send.
    pub fn nothing(&self) -> String {
        match (self.other_methods + self.jobs.len(), self.unreadable) {
            (0, 0) => "the log is empty".to_owned(),
            (0, lines) => format!(
                "this kind of log is not known: none of its {lines} lines has a request. Known are lines with \"GET /path HTTP/1.1\" \
                 (nginx, Apache, Puma, load balancers), JSON lines with method and path, `method=GET path=/path`, and Rails' own log"
            ),
            (others, _) => format!("none of its {others} requests is a GET"),
        }
    }

    /// `speed`: so many times as fast as in the log.
    pub fn read(mut log: impl BufRead, speed: f64) -> io::Result<Replay> {
        let mut replay = Replay::default();
        let mut known = HashMap::new();
        let mut entries = Vec::new();
        let mut bytes = Vec::new();
        while log.read_until(b'\n', &mut bytes)? > 0 {
            // What a client sends may be of any bytes, and some servers write it as it came.
            let line = String::from_utf8_lossy(&bytes).into_owned();
            bytes.clear();
            let Some(entry) = Entry::parse(line.trim_end()) else {
                replay.unreadable += usize::from(!line.trim().is_empty());
                continue;
            };
            if entry.path.contains(char::REPLACEMENT_CHARACTER) {
                replay.unreadable += 1;
                continue;
            }
            let is_head = match &entry.method[..] {
                "GET" => false,
                "HEAD" => true,
                _ => {
                    replay.other_methods += 1;
                    continue;
                }
            };
            let key = (entry.path.into_owned(), is_head);
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
    fn broken_lines_are_passed_over() {
        let line = |path: &[u8]| {
            let (before, after) =
                ("1.1.1.1 - - [10/Oct/2023:13:55:36 +0200] \"GET ", " HTTP/1.1\" 200 5 \"-\" \"-\"\r\n");
            [before.as_bytes(), path, after.as_bytes()].concat()
        };
        let lines = [
            line(b"/a%C3%A9?b=%20"),
            line(b"/\xff"),
            b"\xfe\xfd\n".to_vec(),
            line("/\u{e9}".as_bytes()),
            b"\n".to_vec(),
        ];
        let log = lines.concat();
        let replay = Replay::read(&log[..], 1.0).unwrap();
        assert_eq!(replay.paths, [("/a%C3%A9?b=%20".into(), false), ("/\u{e9}".into(), false)]);
        assert_eq!(replay.unreadable, 2);
    }

    #[test]
    fn the_log_of_rails() {
        let log = "\
            I, [2026-11-24T02:00:01.123456 #7]  INFO -- : [1c2f] Started GET \"/b?x=1\" for 127.0.0.1 at 2026-11-24 02:00:01 +0100\n\
            I, [2026-11-24T02:00:01.125456 #7]  INFO -- : [1c2f] Processing by PagesController#b as HTML\n\
            Started POST \"/orders\" for ::1 at 2026-11-24 02:00:02 +0100\n\
            Started GET \"/a\" for ::1 at 2026-11-24 02:00:03 +0100\n";
        let replay = Replay::read(log.as_bytes(), 1.0).unwrap();
        let due: Vec<_> = replay.jobs.iter().map(|job| (job.due.as_millis(), job.request)).collect();
        assert_eq!(due, [(0, 0), (2000, 1)]);
        assert_eq!(replay.paths, [("/b?x=1".into(), false), ("/a".into(), false)]);
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

    #[test]
    fn why_there_is_nothing_to_send() {
        let nothing = |log: &str| Replay::read(log.as_bytes(), 1.0).unwrap().nothing();
        assert_eq!(nothing(""), "the log is empty");
        assert!(nothing("one\ntwo\n").starts_with("this kind of log is not known: none of its 2 lines"));
        assert_eq!(nothing("method=PUT path=/a\nmethod=DELETE path=/b\n"), "none of its 2 requests is a GET");
    }
}
