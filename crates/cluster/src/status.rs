//! What a front says of itself with each sign of life, for `paceline cluster` and the dashboard of the others: a small
//! record, whatever the front serves. It never names a path, a visitor or an address.

use serde_json::{json, Value};

/// Letters of a text, at most.
const MAX_TEXT: usize = 64;

/// How a front is doing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// Seconds since it began.
    pub uptime: u64,
    pub sites: u64,
    /// Sites that are closed for maintenance, and those of them that this front alone has closed.
    pub closed: u64,
    pub closed_here: u64,
    /// Applications, those that restart, and those whose last start failed.
    pub apps: u64,
    pub restarting: u64,
    pub failing: u64,
    /// Of the only application, if there is one; 0: none serves.
    pub generation: u64,
    /// The name of the folder that it was loaded from.
    pub release: String,
    pub workers: u64,
    pub workers_wanted: u64,
    /// Of the last minute.
    pub per_second: f64,
    pub p99_ms: Option<f64>,
    /// Requests that wait for a worker thread, and those that have one.
    pub waiting: u64,
    pub busy: u64,
    /// Requests that the page cache answered, of those that asked it, since the front began.
    pub hits: u64,
    pub asked: u64,
}

impl Status {
    pub fn to_json(&self) -> Value {
        json!({
            "uptime": self.uptime,
            "sites": self.sites,
            "closed": self.closed,
            "closed_here": self.closed_here,
            "apps": self.apps,
            "restarting": self.restarting,
            "failing": self.failing,
            "generation": self.generation,
            "release": cut(&self.release, MAX_TEXT),
            "workers": self.workers,
            "workers_wanted": self.workers_wanted,
            "per_second": rounded(self.per_second),
            "p99_ms": self.p99_ms.map(rounded),
            "waiting": self.waiting,
            "busy": self.busy,
            "hits": self.hits,
            "asked": self.asked,
        })
    }

    /// One of any version; what it does not say is empty. None: it says nothing.
    pub fn from_json(said: &Value) -> Option<Status> {
        said.as_object()?;
        let number = |key: &str| said[key].as_u64().unwrap_or(0);
        Some(Status {
            uptime: number("uptime"),
            sites: number("sites"),
            closed: number("closed"),
            closed_here: number("closed_here"),
            apps: number("apps"),
            restarting: number("restarting"),
            failing: number("failing"),
            generation: number("generation"),
            release: cut(said["release"].as_str().unwrap_or(""), MAX_TEXT),
            workers: number("workers"),
            workers_wanted: number("workers_wanted"),
            per_second: said["per_second"].as_f64().unwrap_or(0.0),
            p99_ms: said["p99_ms"].as_f64(),
            waiting: number("waiting"),
            busy: number("busy"),
            hits: number("hits"),
            asked: number("asked"),
        })
    }

    /// Share of the requests that the page cache answered. None: nobody has asked it.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.hits as f64 / self.asked as f64)
    }
}

/// The beginning of a text.
pub fn cut(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let status = Status {
            uptime: 7,
            sites: 2,
            closed: 1,
            apps: 1,
            generation: 4,
            release: "20261126".into(),
            workers: 3,
            per_second: 12.3,
            p99_ms: Some(48.1),
            hits: 3,
            asked: 4,
            ..Status::default()
        };
        assert_eq!(Status::from_json(&status.to_json()), Some(status.clone()));
        assert_eq!((status.hit_ratio(), Status::default().hit_ratio()), (Some(0.75), None));
        assert_eq!(Status::from_json(&json!({ "new": 1 })), Some(Status::default()));
        assert_eq!(Status::from_json(&Value::Null), None);
    }

    #[test]
    fn it_has_a_bound() {
        let status = Status { release: "ä".repeat(100_000), ..Status::default() };
        assert!(status.to_json().to_string().len() < 1000);
        assert_eq!(Status::from_json(&json!({ "release": "x".repeat(1000) })).unwrap().release.len(), MAX_TEXT);
    }
}
