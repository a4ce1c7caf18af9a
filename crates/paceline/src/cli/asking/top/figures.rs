//! What `paceline top` shows, from what the server answers (GET /status and GET /memory). Pure; it never asks.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use super::super::text::{number, printable, text};

/// The server at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub version: String,
    pub pid: u64,
    /// Seconds.
    pub up: u64,
    pub readiness: String,
    pub connections: u64,
    pub in_hand: u64,
    pub sites: Vec<SiteFigures>,
}

/// A site at one moment; times in milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteFigures {
    pub name: String,
    /// `ready`, `starting`, `failed`, `files`, `upstream`, `closed`.
    pub state: String,
    /// Since it began.
    pub requests: u64,
    pub per_second: f64,
    /// Median, 95 % and 99 % of the last minute. None: there were no requests.
    pub times: Option<[f64; 3]>,
    /// Requests of the last minute; of these from the page cache, and with a 5xx.
    pub lately: [u64; 3],
    pub waiting: u64,
    pub busy: u64,
    /// Worker threads.
    pub threads: u64,
    pub workers: Vec<WorkerFigures>,
    /// The slowest first.
    pub routes: Vec<(String, f64)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerFigures {
    pub index: u64,
    pub pid: u64,
    pub generation: u64,
    pub busy: u64,
    pub answered: u64,
    /// Private bytes. None: not known yet.
    pub memory: Option<u64>,
}

impl Figures {
    /// `before`: how long ago the counts were looked at last, and what they were.
    pub fn of(status: &Value, memory: &Value, before: Option<(Duration, &[(String, u64)])>) -> Figures {
        let memory = memory_by_pid(memory);
        let sites = status["sites"].as_object().into_iter().flatten();
        Figures {
            version: text(&status["version"]),
            pid: number(&status["pid"]),
            up: number(&status["uptime"]),
            readiness: text(&status["readiness"]),
            connections: number(&status["connections"]["open"]),
            in_hand: number(&status["in_hand"]),
            sites: sites.map(|(name, site)| SiteFigures::of(name, site, &memory, before)).collect(),
        }
    }

    /// What the rates of the next look are counted from.
    pub fn counts(&self) -> Vec<(String, u64)> {
        self.sites.iter().map(|site| (site.name.clone(), site.requests)).collect()
    }

    /// Requests per second of all sites.
    pub fn per_second(&self) -> f64 {
        self.sites.iter().map(|site| site.per_second).sum()
    }
}

impl SiteFigures {
    fn of(
        name: &str,
        site: &Value,
        memory: &HashMap<u64, u64>,
        before: Option<(Duration, &[(String, u64)])>,
    ) -> SiteFigures {
        let lately = &site["lately"];
        let name = printable(name);
        let requests = number(&site["counts"]["requests"]);
        let known = before.and_then(|(since, counts)| {
            let (_, then) = counts.iter().find(|(known, _)| *known == name)?;
            // A server that was started again has counted less.
            Some(requests.checked_sub(*then)? as f64 / since.as_secs_f64().max(0.001))
        });
        let quantile = |name: &str| lately["total_ms"][name].as_f64();
        let times = quantile("p50").zip(quantile("p95")).zip(quantile("p99"));
        let workers: Vec<WorkerFigures> = workers(&site["app"], memory);
        let per_worker = number(&site["threads"]);
        SiteFigures {
            state: match (&site["maintenance"], site["kind"].as_str()) {
                (Value::Object(_), _) => "closed".into(),
                (_, Some("app")) => text(&site["app"]["state"]),
                (_, kind) => kind.unwrap_or_default().into(),
            },
            requests,
            per_second: known.unwrap_or_else(|| lately["per_second"].as_f64().unwrap_or(0.0)),
            times: times.map(|((median, p95), p99)| [median, p95, p99]),
            lately: [&lately["requests"], &lately["kind"]["cache"], &lately["status"]["5xx"]].map(number),
            waiting: number(&site["queue"]["waiting"]),
            busy: number(&site["queue"]["busy"]),
            threads: per_worker * workers.len() as u64,
            workers,
            routes: routes(&site["routes"]),
            name,
        }
    }

    /// Private bytes of all workers. None: not known yet.
    pub fn memory(&self) -> Option<u64> {
        let known: Vec<u64> = self.workers.iter().filter_map(|worker| worker.memory).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }

    /// Percent of the last minute's requests. None: there were none.
    pub fn share(&self, of: u64) -> Option<f64> {
        (self.lately[0] > 0).then(|| of as f64 * 100.0 / self.lately[0] as f64)
    }

    pub fn hits(&self) -> Option<f64> {
        self.share(self.lately[1])
    }

    pub fn failed(&self) -> Option<f64> {
        self.share(self.lately[2])
    }
}

fn workers(app: &Value, memory: &HashMap<u64, u64>) -> Vec<WorkerFigures> {
    let mut workers = Vec::new();
    for generation in app["generations"].as_array().into_iter().flatten() {
        for worker in generation["workers"].as_array().into_iter().flatten() {
            let pid = number(&worker["pid"]);
            workers.push(WorkerFigures {
                index: number(&worker["index"]),
                pid,
                generation: number(&generation["number"]),
                busy: number(&worker["busy"]),
                answered: number(&worker["answered"]),
                memory: memory.get(&pid).copied(),
            });
        }
    }
    workers
}

fn routes(routes: &Value) -> Vec<(String, f64)> {
    let routes = routes.as_array().into_iter().flatten();
    routes.filter_map(|route| Some((text(&route["route"]), route["ms"].as_f64()?))).collect()
}

fn memory_by_pid(memory: &Value) -> HashMap<u64, u64> {
    let sites = memory["sites"].as_object().into_iter().flatten();
    let generations = sites.flat_map(|(_, site)| site["generations"].as_array().into_iter().flatten());
    let workers = generations.flat_map(|generation| generation["workers"].as_array().into_iter().flatten());
    workers.map(|worker| (number(&worker["pid"]), number(&worker["private_dirty"]))).collect()
}

/// Figures that tests of the views show.
#[cfg(test)]
pub fn sample() -> Figures {
    Figures::of(&tests::status(300), &tests::memory(), Some((Duration::from_secs(2), &[("shop".into(), 100)])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub fn status(requests: u64) -> Value {
        json!({
            "version": "0.1.0", "pid": 4711, "uptime": 93_784, "readiness": "ready", "connections": { "open": 12 }, "in_hand": 3,
            "sites": {
                "shop": {
                    "kind": "app", "threads": 5, "maintenance": null,
                    "app": { "state": "ready", "generations": [
                        { "number": 7, "workers": [{ "index": 1, "pid": 101, "busy": 2, "answered": 1234 }, { "index": 2, "pid": 102, "busy": 0, "answered": 5 }] },
                    ] },
                    "queue": { "waiting": 4, "idle": 8, "busy": 2 },
                    "counts": { "requests": requests },
                    "lately": {
                        "requests": 200, "per_second": 3.5, "kind": { "cache": 150 }, "status": { "5xx": 2 },
                        "total_ms": { "p50": 1.5, "p95": 20.25, "p99": 1234.0 },
                    },
                    "routes": [{ "route": "GET /reports/*\u{1b}", "ms": 812.5 }, { "route": "GET /", "ms": 3.0 }],
                },
                "docs": { "kind": "files", "counts": { "requests": 1 }, "lately": { "requests": 0, "per_second": 0.0 } },
            },
        })
    }

    pub fn memory() -> Value {
        let worker = |pid: u64, bytes: u64| json!({ "pid": pid, "private_dirty": bytes });
        json!({ "sites": { "shop": { "generations": [{ "workers": [worker(101, 64 << 20), worker(102, 32 << 20)] }] } } })
    }

    #[test]
    fn rates_are_counted_from_one_look_to_the_next() {
        let shop = |before| {
            Figures::of(&status(300), &Value::Null, before).sites.into_iter().find(|site| site.name == "shop").unwrap()
        };
        assert_eq!(shop(None).per_second, 3.5, "at first those of the last minute");
        let known = [("shop".to_owned(), 100)];
        assert_eq!(shop(Some((Duration::from_secs(2), &known))).per_second, 100.0);
        let restarted = [("shop".to_owned(), 900)];
        assert_eq!(shop(Some((Duration::from_secs(2), &restarted))).per_second, 3.5);
    }

    #[test]
    fn figures_of_a_site() {
        let figures = sample();
        let shop = figures.sites.iter().find(|site| site.name == "shop").unwrap();
        assert_eq!((shop.waiting, shop.busy, shop.threads, shop.workers.len()), (4, 2, 10, 2));
        assert_eq!((shop.times, shop.hits(), shop.failed()), (Some([1.5, 20.25, 1234.0]), Some(75.0), Some(1.0)));
        assert_eq!((shop.workers[0].memory, shop.memory()), (Some(64 << 20), Some(96 << 20)));
        assert_eq!(
            shop.routes[0],
            ("GET /reports/*\u{fffd}".to_owned(), 812.5),
            "nothing of a path reaches the terminal as a command"
        );
        let docs = figures.sites.iter().find(|site| site.name == "docs").unwrap();
        assert_eq!((docs.state.as_str(), docs.times, docs.hits(), docs.memory()), ("files", None, None, None));
        assert_eq!(figures.counts().len(), 2);
    }

    #[test]
    fn a_site_that_is_closed_says_so() {
        let mut status = status(1);
        status["sites"]["shop"]["maintenance"] = json!({ "since": 1 });
        assert!(Figures::of(&status, &Value::Null, None).sites.iter().any(|site| site.state == "closed"));
    }

    #[test]
    fn an_answer_without_anything_is_no_failure() {
        assert_eq!(Figures::of(&json!({}), &Value::Null, None), Figures::default());
    }
}
