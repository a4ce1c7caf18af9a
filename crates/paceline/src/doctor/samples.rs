//! The requests that are replayed: of visitors, as the running server has sampled them, of an access log, or named on the
//! command line. Only GETs, and not too many of any route.
//! It never writes a request anywhere; a visitor's cookies stay in this process and its shadows.

use std::{collections::HashMap, io};

use bench::Replay;
use doctor::protocol::Request;
use fastrand::Rng;
use path_patterns::route::label;
use serde_json::Value;

/// Requests of one route, and of all routes.
pub const MAX_OF_ROUTE: usize = 30;
pub const MAX_SAMPLES: usize = 300;
/// The browser of the requests that a log or the command line names.
const OWN_AGENT: &str = "Mozilla/5.0 (paceline doctor)";
/// Bytes of a target that is taken from a log.
const LONGEST_TARGET: usize = 8 << 10;

/// What is replayed of one route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteSamples {
    /// As `GET /beers/*`.
    pub route: String,
    /// 0 to 1: of all GET requests.
    pub share: f64,
    /// Each once, the most different first.
    pub requests: Vec<Request>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// The most frequent first.
    pub routes: Vec<RouteSamples>,
    /// GETs of which these are a sample.
    pub seen: u64,
    /// For the person at the terminal.
    pub remarks: Vec<String>,
}

impl Samples {
    pub fn requests(&self) -> usize {
        self.routes.iter().map(|route| route.requests.len()).sum()
    }

    /// Of the paths named on the command line: each is as frequent as it is named.
    pub fn of_paths(paths: &[String], host: &str) -> Samples {
        collect(paths.iter().map(|path| (path.as_str(), 1)), host)
    }

    /// Of an access log.
    pub fn of_log(log: impl io::BufRead, host: &str) -> io::Result<Samples> {
        let replay = Replay::read(log, 1.0)?;
        let mut counts: HashMap<usize, u64> = HashMap::new();
        for job in &replay.jobs {
            *counts.entry(job.request).or_default() += 1;
        }
        let paths = replay.paths.iter().enumerate();
        let gets = paths.filter(|(_, (path, is_head))| !is_head && path.len() <= LONGEST_TARGET);
        let gets = gets.map(|(index, (path, _))| (path.as_str(), counts.get(&index).copied().unwrap_or(0)));
        let mut samples = collect(gets, host);
        if samples.seen == 0 {
            return Err(io::Error::other(replay.nothing()));
        }
        if replay.unreadable > 0 {
            samples
                .remarks
                .push(format!("{} lines of the log are no requests and were passed over", replay.unreadable));
        }
        samples.remarks.push("a log has no cookies: the requests are those of visitors who are not signed in".into());
        Ok(samples)
    }

    /// As the running server has answered to `/doctor/samples`.
    pub fn of_server(answered: &Value) -> Samples {
        let mut routes: Vec<(String, u64, Vec<Request>)> = Vec::new();
        for one in answered["routes"].as_array().into_iter().flatten() {
            let requests: Vec<Request> = one["samples"].as_array().into_iter().flatten().filter_map(request).collect();
            routes.push((one["route"].as_str().unwrap_or_default().to_owned(), count(&one["requests"]), requests));
        }
        Samples::new(routes, count(&answered["of_other_routes"]))
    }

    /// `others`: GETs that belong to none of these routes.
    fn new(routes: Vec<(String, u64, Vec<Request>)>, others: u64) -> Samples {
        let seen = routes.iter().map(|(_, count, _)| count).sum::<u64>() + others;
        let mut all: Vec<RouteSamples> = routes
            .into_iter()
            .map(|(route, count, requests)| RouteSamples {
                route,
                share: count as f64 / seen.max(1) as f64,
                requests: varied(requests),
            })
            .filter(|route| !route.requests.is_empty())
            .collect();
        all.sort_by(|one, other| other.share.total_cmp(&one.share));
        let mut samples = Samples { routes: all, seen, remarks: Vec::new() };
        samples.shrink(MAX_SAMPLES);
        samples
    }

    /// Drops requests until there are so many, of the routes with most first; each route keeps one if it can.
    pub fn shrink(&mut self, max: usize) {
        while self.requests() > max {
            let largest = self.routes.iter_mut().max_by_key(|route| route.requests.len());
            match largest {
                Some(route) if route.requests.len() > 1 => drop(route.requests.pop()),
                _ => break,
            }
        }
        while self.requests() > max {
            self.routes.pop();
        }
    }

    /// Those that are of none of these paths; one that ends in `*` is a beginning.
    pub fn without(mut self, paths: &[String]) -> Samples {
        let is_one = |request: &Request| {
            paths.iter().any(|path| match path.strip_suffix('*') {
                Some(start) => request.path.starts_with(start),
                None => request.path == *path,
            })
        };
        self.routes.iter_mut().for_each(|route| route.requests.retain(|request| !is_one(request)));
        self.routes.retain(|route| !route.requests.is_empty());
        self
    }

    /// All as https: an application that wants TLS answers everything else with a redirect.
    pub fn turn_to_https(&mut self) {
        self.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|one| one.scheme = "https".into());
    }
}

/// A route of a log.
#[derive(Default)]
struct LogRoute<'a> {
    route: String,
    requests: u64,
    /// How often each was asked for.
    targets: Vec<(&'a str, u64)>,
}

fn collect<'a>(targets: impl Iterator<Item = (&'a str, u64)>, host: &str) -> Samples {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut routes: Vec<LogRoute> = Vec::new();
    for (target, count) in targets {
        let route = label("GET", target.split(['?', '#']).next().unwrap_or_default());
        let place = *places.entry(route.clone()).or_insert_with(|| {
            routes.push(LogRoute { route, ..LogRoute::default() });
            routes.len() - 1
        });
        routes[place].requests += count;
        routes[place].targets.push((target, count));
    }
    let mut random = Rng::with_seed(routes.len() as u64);
    let chosen = routes.into_iter().map(|LogRoute { route, requests, targets }| {
        let targets = choose(targets, &mut random);
        (route, requests, targets.into_iter().map(|target| anonymous(target, host)).collect())
    });
    Samples::new(chosen.collect(), 0)
}

/// Some of the targets, the frequent ones with a better chance (A-ES: Efraimidis, Spirakis 2006).
fn choose<'a>(targets: Vec<(&'a str, u64)>, random: &mut Rng) -> Vec<&'a str> {
    let mut keyed: Vec<(f64, &str)> = targets
        .into_iter()
        .map(|(target, count)| (random.f64().max(f64::MIN_POSITIVE).powf(1.0 / count.max(1) as f64), target))
        .collect();
    keyed.sort_by(|one, other| other.0.total_cmp(&one.0));
    keyed.into_iter().take(MAX_OF_ROUTE).map(|(_, target)| target).collect()
}

/// A browser's request without cookies.
fn anonymous(target: &str, host: &str) -> Request {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = [
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("accept-encoding", "gzip"),
        ("user-agent", OWN_AGENT),
    ];
    Request {
        method: "GET".into(),
        path: path.into(),
        query: query.into(),
        scheme: "http".into(),
        host: host.into(),
        headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
        user: None,
    }
}

/// Whether it was not named by the person at the terminal.
pub fn is_visitors(request: &Request) -> bool {
    !request.headers.iter().any(|(name, value)| name == "user-agent" && value == OWN_AGENT)
}

fn request(sample: &Value) -> Option<Request> {
    let text = |name: &str| sample[name].as_str().map(str::to_owned);
    let headers = sample["headers"].as_array()?.iter().map(|pair| {
        let [name, value] = pair.as_array()?.as_slice() else { return None };
        Some((name.as_str()?.to_owned(), value.as_str()?.to_owned()))
    });
    Some(Request {
        method: "GET".into(),
        path: text("path")?,
        query: text("query")?,
        scheme: text("scheme")?,
        host: text("host")?,
        headers: headers.collect::<Option<_>>()?,
        user: text("user"),
    })
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Each request once; those whose targets have not been seen go first.
fn varied(requests: Vec<Request>) -> Vec<Request> {
    let mut targets: HashMap<String, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Request)> = Vec::new();
    for one in requests {
        if ranked.iter().any(|(_, other)| *other == one) {
            continue;
        }
        let rank = targets.entry(one.target()).or_insert(0);
        ranked.push((*rank, one));
        *rank += 1;
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(MAX_OF_ROUTE).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn targets(route: &RouteSamples) -> Vec<String> {
        route.requests.iter().map(Request::target).collect()
    }

    #[test]
    fn paths_are_routes_with_shares() {
        let paths = ["/beers/1?page=2", "/beers/2#top", "/"].map(str::to_owned);
        let samples = Samples::of_paths(&paths, "shop.test");
        assert_eq!((samples.seen, samples.requests()), (3, 3));
        let (beers, home) = (&samples.routes[0], &samples.routes[1]);
        assert_eq!((&*beers.route, (beers.share * 100.0) as u32, &*home.route), ("GET /beers/*", 66, "GET /"));
        let mut found = targets(beers);
        found.sort();
        assert_eq!(found, ["/beers/1?page=2", "/beers/2"]);
        assert!(home.requests[0].headers.iter().all(|(name, _)| name != "cookie"));
        assert!(!is_visitors(&home.requests[0]) && is_visitors(&Request::default()));
    }

    #[test]
    fn some_paths_are_left_out() {
        let paths = ["/beers/1?page=2", "/beers/2", "/admin/users", "/admin", "/"].map(str::to_owned);
        let left = |except: &[&str]| {
            let except: Vec<String> = except.iter().map(|path| (*path).to_owned()).collect();
            let samples = Samples::of_paths(&paths, "a").without(&except);
            let mut found: Vec<String> = samples.routes.iter().flat_map(targets).collect();
            found.sort();
            found
        };
        assert_eq!(left(&["/beers/1", "/admin/*"]), ["/", "/admin", "/beers/2"]);
        assert_eq!(left(&["/*"]), [""; 0]);
        assert_eq!(left(&[]).len(), 5);
    }

    #[test]
    fn a_log_is_counted_by_route() {
        let line = |method: &str, path: &str| {
            format!("1.1.1.1 - - [10/Oct/2023:13:55:36 +0200] \"{method} {path} HTTP/1.1\" 200 5 \"-\" \"-\"\n")
        };
        let mut log = line("POST", "/orders") + &line("HEAD", "/") + "nonsense\n";
        (0..100).for_each(|number| log.push_str(&line("GET", &format!("/beers/{number}"))));
        (0..300).for_each(|_| log.push_str(&line("GET", "/")));
        let samples = Samples::of_log(log.as_bytes(), "localhost").unwrap();
        let shown: Vec<_> = samples.routes.iter().map(|one| (&*one.route, one.share, one.requests.len())).collect();
        assert_eq!(shown, [("GET /", 0.75, 1), ("GET /beers/*", 0.25, MAX_OF_ROUTE)]);
        assert_eq!((samples.seen, samples.remarks.len()), (400, 2), "{:?}", samples.remarks);
    }

    #[test]
    fn what_the_server_has_sampled() {
        let sample = |path: &str, cookie: &str| json!({ "scheme": "https", "host": "a", "path": path, "query": "", "headers": [["cookie", cookie]] });
        let answered = json!({
            "of_other_routes": 10,
            "routes": [
                { "route": "GET /rare", "requests": 1, "samples": [sample("/rare", "a=1")] },
                { "route": "GET /*", "requests": 9, "samples": [sample("/1", "a=1"), sample("/1", "a=2"), sample("/2", "a=1"), sample("/1", "a=1"), { "path": 7 }] },
                { "route": "GET /none", "requests": 0, "samples": [] },
            ],
        });
        let samples = Samples::of_server(&answered);
        assert_eq!((samples.seen, samples.routes.len()), (20, 2));
        assert_eq!(targets(&samples.routes[0]), ["/1", "/2", "/1"], "different pages first, each request once");
        assert_eq!((samples.routes[0].share, samples.routes[1].share), (0.45, 0.05));
        assert_eq!(Samples::of_server(&json!({ "routes": [{ "route": 7 }] })).requests(), 0);
    }

    #[test]
    fn there_are_not_too_many() {
        let paths: Vec<String> = (0..40).flat_map(|of| (0..20).map(move |n| format!("/r{of}x/{n}"))).collect();
        let mut samples = Samples::of_paths(&paths, "a");
        assert_eq!((samples.routes.len(), samples.requests()), (40, MAX_SAMPLES));
        samples.shrink(40);
        assert!(samples.routes.iter().all(|route| route.requests.len() == 1));
        samples.shrink(3);
        assert_eq!((samples.routes.len(), samples.requests()), (3, 3));
        samples.turn_to_https();
        assert!(samples.routes.iter().flat_map(|route| &route.requests).all(|one| one.scheme == "https"));
    }
}
