//! From what was observed to what may be worth changing: each rule looks for one kind of cause. The thresholds are set
//! so that an application without these causes has no candidates, apart from those that only a trial can rule out. It
//! never says that something is worth it: the trials do.

mod allocator;
mod delivery;
mod lines;
mod load;
mod markup;
mod outbound;
mod queries;
mod records;
mod settings;
mod stores;
mod work;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use delivery::CACHEABLE_US;
pub(crate) use load::MANY_THREADS;
pub(crate) use settings::version;
pub(crate) use stores::LINE_BYTES;

use std::collections::HashMap;

use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Measure, Place, Trial},
    observation::{Observations, ObservedRequest, RouteObservation, Server},
    protocol::{Deliver, Patch},
};

/// Microseconds: what takes less can't bring a gain that is worth it.
const NOTABLE_US: f64 = 300.0;
/// What takes a smaller part of the request can't bring a gain that is worth it.
const NOTABLE_PART: f64 = 0.03;

/// Settings that config/puma.rb can have.
const PUMA_SETTINGS: [&str; 3] = ["threads", "workers", "preload"];

type Rule = fn(&Observations, &mut Vec<WeighedCandidate>);

const RULES: [Rule; 11] = [
    outbound::rule,
    queries::rule,
    records::rule,
    markup::rule,
    stores::rule,
    delivery::rule,
    work::rule,
    settings::rule,
    load::rule,
    allocator::rule,
    // It leaves out what the others have found.
    lines::rule,
];

/// Microseconds and the part of the request that something of this kind takes, or it is no fault: what any list, any middleware costs.
pub(crate) fn least(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::SlowMiddleware => (work::MIDDLEWARE_US, work::MIDDLEWARE_PART),
        Kind::SlowPartial => (markup::PARTIAL_US, markup::PARTIAL_PART),
        Kind::LoadedRecords => (records::LOADING_US, records::LOADING_PART),
        _ => (0.0, 0.0),
    }
}

/// A candidate with what it can save of the mean request, at most.
struct WeighedCandidate {
    candidate: Candidate,
    weight: f64,
}

/// Candidates in the order in which they are tried: slow trials come last, so that there is a result early. Of `find`'s, no
/// more than `most`.
pub fn in_order_of_trial(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.truncate(most);
    candidates.sort_by_key(|one| one.trial.is_slow());
    candidates
}

/// What is worth trying or saying, the most promising first. One change that helps several routes is one candidate.
pub fn find(observations: &Observations) -> Vec<Candidate> {
    let mut found = Vec::new();
    for rule in RULES {
        rule(observations, &mut found);
    }
    let mut all = merged(found);
    all.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    all.into_iter().map(|found| found.candidate).collect()
}

/// Those with the same change and the same trial become one; the sentence is that of the route with most to gain.
fn merged(found: Vec<WeighedCandidate>) -> Vec<WeighedCandidate> {
    let mut all: Vec<WeighedCandidate> = Vec::new();
    let mut places: HashMap<(Kind, String, String), usize> = HashMap::new();
    let mut ordered = found;
    ordered.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    for found in ordered {
        let is_everywhere = matches!(found.candidate.kind, Kind::FileSessions | Kind::LargeSession);
        let trial = if is_everywhere {
            String::new()
        } else {
            serde_json::to_string(&found.candidate.trial).unwrap_or_default()
        };
        let key = (found.candidate.kind, found.candidate.fix.line.clone(), trial);
        match places.get(&key).and_then(|place| all.get_mut(*place)) {
            Some(first) => {
                first.weight += found.weight;
                for route in found.candidate.routes {
                    if !first.candidate.routes.contains(&route) {
                        first.candidate.routes.push(route);
                    }
                }
            }
            None => {
                places.insert(key, all.len());
                all.push(found);
            }
        }
    }
    all
}

/// A route with what its requests take on average. Microseconds.
struct Look<'a> {
    route: &'a RouteObservation,
    wall_us: f64,
    cpu_us: f64,
}

impl<'a> Look<'a> {
    /// Routes with requests that were answered well.
    fn all(observations: &'a Observations) -> Vec<Look<'a>> {
        let routes = observations.routes.iter().filter(|route| !route.requests.is_empty());
        routes
            .map(|route| Look {
                route,
                wall_us: mean(route, |request| request.wall_us),
                cpu_us: mean(route, |request| request.cpu_us),
            })
            .collect()
    }

    /// The mean over the requests of what `us` finds in one. Evidence is of a single replay, and may be of a slow one: it
    /// counts for no more than the whole request.
    fn mean(&self, us: impl Fn(&ObservedRequest) -> f64) -> f64 {
        mean(self.route, |request| us(request).min(request.wall_us))
    }

    /// The request in which `amount` is largest.
    fn most(&self, amount: impl Fn(&ObservedRequest) -> f64) -> &'a ObservedRequest {
        let requests = &self.route.requests;
        requests.iter().max_by(|one, other| amount(one).total_cmp(&amount(other))).unwrap_or(&requests[0])
    }

    /// Whether this much of the requests may be worth a change.
    fn is_notable(&self, us: f64) -> bool {
        us >= NOTABLE_US && us >= self.wall_us * NOTABLE_PART
    }

    fn found(&self, candidate: Candidate) -> WeighedCandidate {
        let weight = candidate.ceiling_us * self.route.share;
        WeighedCandidate { candidate, weight }
    }
}

fn mean(route: &RouteObservation, of: impl Fn(&ObservedRequest) -> f64) -> f64 {
    route.requests.iter().map(of).sum::<f64>() / route.requests.len().max(1) as f64
}

/// A candidate of one route.
fn of(route: &RouteObservation, kind: Kind, sentence: String, fix: Fix, trial: Trial) -> Candidate {
    Candidate {
        kind,
        routes: vec![route.route.clone()],
        sentence,
        short: fix.line.clone(),
        at: String::new(),
        fix,
        trial,
        measure: Measure::Wall,
        ceiling_us: 0.0,
        subject: String::new(),
        holds: Vec::new(),
    }
}

/// One of the whole application.
fn general(kind: Kind, sentence: String, fix: Fix, trial: Trial) -> Candidate {
    let route = RouteObservation::default();
    Candidate { routes: Vec::new(), ..of(&route, kind, sentence, fix, trial) }
}

fn patch(trial: Patch) -> Trial {
    Trial::Patch { trial: vec![trial], control: Vec::new(), deliver: Deliver::Gathered }
}

/// A line that only the application's author can write.
fn shown(file: &str, line: impl Into<String>, why: &str) -> Fix {
    Fix { file: file.into(), line: line.into(), edit: Edit::Shown { why: why.into() } }
}

/// Lines that run when the application starts: an initializer of Rails, or the top of config.ru. The last one is the
/// one that is shown.
fn startup_lines(observations: &Observations, lines: &[&str]) -> Fix {
    let (file, place) = if is_rails(observations) {
        ("config/initializers/paceline.rb", Place::End)
    } else {
        ("config.ru", Place::Top)
    };
    Fix {
        file: file.into(),
        line: lines.last().copied().unwrap_or_default().into(),
        edit: Edit::Insert { lines: lines.iter().map(|line| (*line).into()).collect(), place, gem: true },
    }
}

/// A line of Rails' configuration for this environment.
fn environment_line(observations: &Observations, setting: &str, line: &str) -> Fix {
    Fix {
        file: format!("config/environments/{}.rb", observations.facts.environment),
        line: line.into(),
        edit: Edit::Configure { setting: setting.into(), line: line.into(), gem: false },
    }
}

/// A key of paceline.toml, or a statement of config/puma.rb where that is what the settings are read from; for another
/// server, whose settings stand elsewhere, what to do there. `elsewhere` is in Puma's words where Puma has such a setting.
fn server_setting(observations: &Observations, key: &str, value: &str, elsewhere: &str) -> Fix {
    let puma = observations.settings.puma_config.as_ref().filter(|_| PUMA_SETTINGS.contains(&key));
    match observations.server {
        _ if puma.is_some() => {
            let name = elsewhere.split(' ').next().unwrap_or_default().into();
            let edit = Edit::Puma { name, line: elsewhere.into() };
            Fix { file: puma.cloned().unwrap_or_default(), line: elsewhere.into(), edit }
        }
        Server::Paceline => Fix {
            file: "paceline.toml".into(),
            line: format!("{key} = {value}"),
            edit: Edit::Setting { key: key.into(), value: value.into() },
        },
        Server::Other(_) => shown("", elsewhere, "it is a setting of the server that runs the application"),
    }
}

fn is_rails(observations: &Observations) -> bool {
    !observations.rails.is_empty()
}

/// Only there a development's settings are a mistake.
fn is_production(observations: &Observations) -> bool {
    observations.facts.environment == "production"
}

fn server_name(observations: &Observations) -> &str {
    match &observations.server {
        Server::Paceline => "Paceline",
        Server::Other(name) => name,
    }
}
