//! What a run of the doctor says: its advice in order, what was looked at, what was left out. Rendered as text
//! (`text.rs`) and as JSON (`json.rs`). It never judges: that is done in `verdict`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod json;
mod text;

#[cfg(test)]
mod tests;

use crate::{
    candidate::{Candidate, Kind, Trial},
    findings::CACHEABLE_US,
    observation::RouteObservation,
    profile::Profile,
    protocol::WriteNote,
    statistics::median,
    units,
    verdict::{Gain, Standing, Verdict},
};

/// Of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Requests that were replayed.
    pub requests: usize,
    /// Whether live requests were answered meanwhile.
    pub live: bool,
    pub dropped: Vec<Dropped>,
    /// Of those that were replayed: how many were answered so, where that is no page (302, 404).
    pub statuses: BTreeMap<u16, usize>,
    /// Routes whose pages differ too much from one replay to the next to be compared.
    pub noisy: Vec<String>,
    /// Programs that requests have started, and where the first of them did (`path:line`, or empty).
    pub programs: BTreeMap<String, String>,
    /// What the kernel does not hold shadows to (`protocol::Hello`).
    pub unconfined: Vec<String>,
    /// Where the routes that take most time spend it.
    pub spent: Vec<Spent>,
}

/// The line of the application in which a route spends most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    pub route: String,
    /// As `app/models/beer.rb:4`.
    pub at: String,
    /// What the line calls for most of it, as `load_file (psych)`; empty: it computes by itself.
    pub call: String,
    /// Microseconds in this line, and of the whole request.
    pub us: f64,
    pub of_us: f64,
}

/// Routes of which the line is told, and the part of the time that a line has at least.
pub const MAX_SPENT: usize = 3;
const SPENT_PART: f64 = 0.25;

impl std::fmt::Display for Spent {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Spent { route, at, call, us, of_us } = self;
        write!(to, "{route} spends {} of {} in {at}", units::bare_millis(*us), units::millis(*of_us))?;
        if call.is_empty() {
            return Ok(());
        }
        write!(to, ", in {call}")
    }
}

impl Spent {
    /// Of the routes on which visitors wait longest altogether.
    pub fn of(routes: &[RouteObservation]) -> Vec<Spent> {
        let wall = |route: &RouteObservation| {
            median(&route.requests.iter().map(|request| request.wall_us).collect::<Vec<_>>())
        };
        let mut routes: Vec<_> = routes.iter().map(|route| (wall(route), route)).collect();
        routes.sort_by(|(one, first), (other, second)| (other * second.share).total_cmp(&(one * first.share)));
        let spent = routes.into_iter().filter_map(|(of_us, route)| {
            let profile = Profile::of(route);
            let (at, call, part) = profile.most().filter(|(_, _, part)| *part >= SPENT_PART)?;
            Some(Spent { route: route.route.clone(), at: at.into(), call: call.into(), us: part * of_us, of_us })
        });
        spent.take(MAX_SPENT).collect()
    }
}

/// A request that was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// As `GET /x`.
    pub request: String,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Why {
    Writes(WriteNote),
    /// As `NoMethodError: undefined method ... (app/x.rb:3)`.
    Failed {
        error: String,
    },
    Status {
        status: u16,
        /// Where to, of a redirect: a path, without what a query may hold. Empty: nowhere.
        #[serde(default)]
        to: String,
    },
}

/// One change that is worth it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// From 1, as for `paceline doctor apply`.
    pub number: usize,
    pub verdict: Verdict,
}

/// What a run found. It can be kept as JSON for `apply`; programs read `json()`, whose shape is documented there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The application's name.
    pub app: String,
    pub sample: Sample,
    /// What saves most first: gain by share of the requests.
    pub advice: Vec<Advice>,
    /// What was looked at in vain, what changes answers, what could not be tried.
    pub others: Vec<Verdict>,
}

/// A gain beyond this part of a request ends the run with status 1.
const MUCH: f64 = 0.05;

impl Report {
    pub fn new(app: &str, sample: Sample, verdicts: Vec<Verdict>) -> Report {
        let (worth, mut others): (Vec<Verdict>, Vec<Verdict>) =
            verdicts.into_iter().partition(|one| one.standing == Standing::Worth);
        let worth = with_one_allocator(worth, &mut others);
        let (advice, cached): (Vec<Verdict>, Vec<Verdict>) =
            worth.into_iter().partition(|one| one.candidate.kind != Kind::CacheHeaders);
        let mut advice = ordered(advice);
        let (worth, quick): (Vec<Verdict>, Vec<Verdict>) =
            ordered(cached).into_iter().partition(|one| is_slow_without(one, &advice));
        let why = "quick enough without what slows it".to_string();
        let standing = Standing::NotWorth { why };
        others.extend(quick.into_iter().map(|one| Verdict { standing: standing.clone(), ..one }));
        advice.extend(worth);
        let advice = advice.into_iter().enumerate();
        Report {
            app: app.into(),
            sample,
            advice: advice.map(|(index, verdict)| Advice { number: index + 1, verdict }).collect(),
            others,
        }
    }

    /// By its number.
    pub fn advice(&self, number: usize) -> Option<&Advice> {
        self.advice.iter().find(|one| one.number == number)
    }

    /// 1: something would save more than 5 % of a request; otherwise 0.
    pub fn exit_code(&self) -> u8 {
        let is_much = |gain: &Gain| gain.of_us > 0.0 && gain.gain_us / gain.of_us > MUCH;
        u8::from(self.advice.iter().flat_map(|one| &one.verdict.gains).any(is_much))
    }

    pub fn text(&self) -> String {
        text::render(self)
    }

    pub fn json(&self) -> serde_json::Value {
        json::render(self)
    }
}

impl Verdict {
    /// Advice in a line, when its trial is over. None: it is none, or a cache's, which stands behind all causes of slowness.
    pub fn at_once(&self) -> Option<String> {
        let is_cache = matches!(self.candidate.kind, Kind::CacheHeaders | Kind::CacheVary | Kind::CacheCookie);
        (self.standing == Standing::Worth && !is_cache).then(|| text::at_once(self))
    }
}

/// Memory is given out by one allocator: of several that are worth it, the others go to `others`.
fn with_one_allocator(worth: Vec<Verdict>, others: &mut Vec<Verdict>) -> Vec<Verdict> {
    let (allocators, mut worth): (Vec<Verdict>, Vec<Verdict>) =
        worth.into_iter().partition(|one| one.candidate.kind == Kind::Allocator);
    let mut allocators = allocators.into_iter();
    let Some(mut best) = allocators.next() else { return worth };
    for other in allocators {
        let (more, mut less) = if other.memory < best.memory { (other, best) } else { (best, other) };
        less.standing = Standing::NotWorth { why: format!("{} saves more memory", more.candidate.short) };
        others.push(less);
        best = more;
    }
    worth.push(best);
    worth
}

/// A cache hides whatever makes a page slow: it goes behind all causes, and is no advice where the page is quick enough
/// without them.
fn is_slow_without(cached: &Verdict, advice: &[Verdict]) -> bool {
    let Some(gain) = cached.gains.first() else { return true };
    let others = advice.iter().flat_map(|one| &one.gains).filter(|other| other.route == gain.route);
    let saved = others.map(|other| other.gain_us).fold(0.0, f64::max);
    gain.of_us - saved >= CACHEABLE_US
}

fn share_a_route(one: &Candidate, other: &Candidate) -> bool {
    one.routes.iter().any(|route| other.routes.contains(route))
}

/// What only sends fewer bytes goes behind what explains this part of the time of a page that is asked for so often: that
/// was measured, and how long bytes take is each visitor's line.
const EXPLAINED: f64 = 0.2;
const OFTEN: f64 = 0.02;

fn explains_much(verdict: &Verdict) -> bool {
    let is_much = |gain: &Gain| gain.of_us > 0.0 && gain.gain_us >= gain.of_us * EXPLAINED && gain.share >= OFTEN;
    verdict.gains.iter().any(is_much)
}

fn is_of_bytes(verdict: &Verdict) -> bool {
    let kinds = [Kind::UncompressedPages, Kind::UncompressedAssets, Kind::UnfingerprintedAssets, Kind::LargeSession];
    kinds.contains(&verdict.candidate.kind)
}

/// What saves most first. What is only the most that could be saved goes behind what was tried of the same cause, and
/// behind its parts: a partial behind the queries that are made in it.
fn ordered(mut verdicts: Vec<Verdict>) -> Vec<Verdict> {
    verdicts.sort_by(|one, other| other.saved_us.total_cmp(&one.saved_us));
    let causes = verdicts.iter().rposition(explains_much).map_or(0, |last| last + 1);
    verdicts[..causes].sort_by_key(is_of_bytes);
    let is_bound = |verdict: &Verdict| matches!(verdict.candidate.trial, Trial::WhatIf { .. });
    let goes_behind = |one: &Verdict, other: &Verdict| {
        let (one, subject) = (&one.candidate, &other.candidate.subject);
        let is_tried_cause = one.subject == *subject && !is_bound(other);
        !subject.is_empty() && (is_tried_cause || one.holds.contains(subject) && share_a_route(one, &other.candidate))
    };
    let mut all: Vec<Verdict> = Vec::new();
    let mut behind: Vec<Verdict> = Vec::new();
    for index in 0..verdicts.len() {
        let (one, later) = (&verdicts[index], &verdicts[index + 1..]);
        if is_bound(one) && later.iter().any(|later| goes_behind(one, later)) {
            behind.push(one.clone());
            continue;
        }
        all.push(one.clone());
        let (stay, follow) = behind.into_iter().partition(|first| later.iter().any(|later| goes_behind(first, later)));
        all.extend::<Vec<Verdict>>(follow);
        behind = stay;
    }
    all.extend(behind);
    all
}
