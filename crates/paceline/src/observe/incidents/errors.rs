//! Requests that failed in the application: exceptions that reached the server, and answers of 5xx that the application
//! made itself. The same one is counted, not kept again. It never asks the clock: every time is handed in.

use std::collections::VecDeque;

use serde_json::{json, Value};

use super::incident::{cut, cut_to};

/// Failures that are held.
const MAX: usize = 30;
/// Lines of a backtrace, and bytes of one.
const LINES: usize = 100;
const LONGEST: usize = 1000;

/// A failure, as it was the last time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Failed {
    /// 8 hex digits.
    pub id: String,
    /// Unix seconds of the first and the last time.
    pub at: f64,
    pub last: f64,
    pub times: u64,
    pub site: String,
    pub method: String,
    /// Without the query.
    pub path: String,
    /// X-Request-Id.
    pub request: String,
    pub status: u16,
    /// Empty: the application answered by itself, and only its own log has the exception.
    pub class: String,
    pub message: String,
    /// Where it was raised.
    pub file: String,
    pub line: String,
    pub backtrace: Vec<String>,
}

impl Failed {
    /// In a sentence.
    pub fn what(&self) -> String {
        if self.class.is_empty() {
            format!("{} {}: answered {} by the application", self.method, self.path, self.status)
        } else {
            format!(
                "{}: {} ({} {})",
                self.class,
                self.message.lines().next().unwrap_or_default(),
                self.method,
                self.path
            )
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "at": self.at,
            "last": self.last,
            "times": self.times,
            "site": self.site,
            "method": self.method,
            "path": self.path,
            "request": self.request,
            "status": self.status,
            "what": self.what(),
            "class": self.class,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "backtrace": self.backtrace,
        })
    }

    /// Whether it is the same failure: raised at the same place, or answered at the same address.
    fn is(&self, other: &Failed) -> bool {
        let place = |failed: &Failed| {
            if failed.class.is_empty() {
                (failed.method.clone(), failed.path.clone())
            } else {
                (failed.file.clone(), failed.line.clone())
            }
        };
        (&self.site, &self.class, self.status, place(self)) == (&other.site, &other.class, other.status, place(other))
    }
}

#[derive(Default)]
pub struct Errors {
    /// The one that happened last is the last.
    held: VecDeque<Failed>,
}

impl Errors {
    pub fn add(&mut self, mut failed: Failed, now: f64) {
        let known = self.held.iter().position(|known| known.is(&failed)).and_then(|nth| self.held.remove(nth));
        let (id, at, times) = match known {
            Some(known) => (known.id, known.at, known.times + 1),
            None => (uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect(), now, 1),
        };
        (failed.message, failed.path) = (cut(failed.message), cut_to(failed.path, LONGEST));
        failed.backtrace.truncate(LINES);
        failed.backtrace = failed.backtrace.into_iter().map(|line| cut_to(line, LONGEST)).collect();
        self.held.push_back(Failed { id, at, last: now, times, ..failed });
        if self.held.len() > MAX {
            self.held.pop_front();
        }
    }

    /// The newest first.
    pub fn all(&self) -> Vec<Failed> {
        self.held.iter().rev().cloned().collect()
    }

    pub fn get(&self, id: &str) -> Option<Failed> {
        self.held.iter().find(|known| known.id == id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: &str, line: u32, path: &str) -> Failed {
        Failed {
            site: "shop".into(),
            class: class.into(),
            line: line.to_string(),
            path: path.into(),
            status: 500,
            ..Failed::default()
        }
    }

    #[test]
    fn the_same_failure_is_counted_and_the_newest_comes_first() {
        let mut errors = Errors::default();
        errors.add(failed("NoMethodError", 3, "/a"), 1.0);
        errors.add(failed("NoMethodError", 4, "/a"), 2.0);
        errors.add(failed("NoMethodError", 3, "/b"), 3.0);
        errors.add(failed("", 0, "/a"), 4.0);
        errors.add(failed("", 0, "/a"), 5.0);
        let all = errors.all();
        let seen: Vec<_> = all.iter().map(|one| (&*one.path, &*one.line, one.times, one.at, one.last)).collect();
        assert_eq!(seen, [("/a", "0", 2, 4.0, 5.0), ("/b", "3", 2, 1.0, 3.0), ("/a", "4", 1, 2.0, 2.0)]);
        assert_eq!(errors.get(&all[1].id).as_ref(), Some(&all[1]));
        assert_eq!(errors.get("00000000"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut errors = Errors::default();
        for n in 0..1000 {
            let backtrace = vec!["x".repeat(1 << 16); 300];
            errors.add(Failed { backtrace, ..failed("E", n, &"p".repeat(1 << 20)) }, f64::from(n));
        }
        let all = errors.all();
        assert_eq!((all.len(), all[0].backtrace.len()), (MAX, LINES));
        assert!(all.iter().all(|one| one.path.len() < 1010 && one.backtrace[0].len() < 1010));
    }
}
