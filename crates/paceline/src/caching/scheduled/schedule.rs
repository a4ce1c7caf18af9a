//! A site's pages that change, as they were asked for, and when they change: by rules, and as the application says.
//! It never reads a clock.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
};

use cache::{groups, store::Key, Millis};
use http::HeaderMap;
use parking_lot::{Mutex, RwLock};
use path_patterns::PatternSet;
use scheduled::{
    plan::Plan,
    rule::{self, Rule},
    times::{ByRules, Times},
};

/// Pages of a site that are known, at most; of those that are asked for least, half are forgotten then.
pub(super) const MAX_PAGES: usize = 4096;
/// Requests for which a page is prepared, since it may vary by their fields, and how many are known to choose them from.
const MAX_SAMPLES: usize = 4;
const MAX_KNOWN_SAMPLES: usize = 16;
/// Networks that have asked for a page, or for one of its samples, that are told apart.
const MAX_ASKERS: usize = 16;
/// Times that applications have said, the nearest of a site, for which pages are prepared.
pub const MAX_TIMES: usize = 64;

/// A page that changes, as it was asked for.
#[derive(Debug)]
pub struct ScheduledPage {
    pub url: Arc<str>,
    pub(super) primary: Key,
    /// What proxies said of the requests for it, which parts its key from others.
    pub by_proxies: Vec<u8>,
    /// Requests for it since it is known.
    pub requests: AtomicU64,
    /// What its renderings say of when it changes.
    times: Mutex<Times>,
    samples: Mutex<Vec<Sample>>,
    askers: Mutex<Vec<u64>>,
}

/// A request for a page, and the networks that have asked so.
#[derive(Debug)]
struct Sample {
    headers: HeaderMap,
    askers: Vec<u64>,
}

fn note(askers: &mut Vec<u64>, asker: u64) {
    if askers.len() < MAX_ASKERS && !askers.contains(&asker) {
        askers.push(asker);
    }
}

impl ScheduledPage {
    /// Path and query.
    pub fn target(&self) -> &str {
        &self.url[groups::origin(&self.url).len()..]
    }

    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or("/")
    }

    /// Scheme and authority.
    pub fn origin(&self) -> (&str, &str) {
        groups::origin(&self.url).split_once("://").unwrap_or(("http", ""))
    }

    /// How many ask for it: networks, since one visitor can ask as often as he likes; and requests.
    pub fn rank(&self) -> (usize, u64) {
        (self.askers.lock().len(), self.requests.load(Relaxed))
    }

    /// Somebody of this network has asked for it.
    pub(super) fn was_asked_by(&self, asker: u64) {
        note(&mut self.askers.lock(), asker);
    }

    #[cfg(test)]
    pub fn samples(&self) -> Vec<HeaderMap> {
        (0..).map_while(|number| self.sample(number)).collect()
    }

    /// The sample with this number, from 0: those that most ask for come first.
    pub fn sample(&self, number: usize) -> Option<HeaderMap> {
        let samples = self.samples.lock();
        samples.get(number).filter(|_| number < MAX_SAMPLES).map(|sample| sample.headers.clone())
    }

    /// Something that was kept since before the server began says that it changes then.
    pub(super) fn restore_time(&self, at: Millis) {
        self.times.lock().restore(at);
    }

    /// Nothing is prepared for a time any more. `was_shown`: it was what visitors got.
    pub(super) fn forget_prepared(&self, at: Millis, was_shown: bool) {
        self.times.lock().forget(at, was_shown);
    }

    /// Whether the page that visitors get at `wall` says that it changes then.
    pub(super) fn says_itself(&self, at: Millis, wall: Millis) -> bool {
        self.times.lock().is_said_by_shown(at, wall)
    }

    pub(super) fn remember(&self, headers: HeaderMap, asker: u64) {
        let mut samples = self.samples.lock();
        match samples.iter_mut().find(|known| known.headers == headers) {
            Some(known) if known.askers.contains(&asker) => return,
            Some(known) => note(&mut known.askers, asker),
            None => {
                // The last of them is one that fewest ask for. What one network alone asks for takes no other's place.
                if samples.len() >= MAX_KNOWN_SAMPLES && samples.last().is_some_and(|last| last.askers.len() > 1) {
                    return;
                }
                samples.truncate(MAX_KNOWN_SAMPLES - 1);
                samples.push(Sample { headers, askers: vec![asker] });
            }
        }
        samples.sort_by_key(|sample| Reverse(sample.askers.len()));
    }
}

/// The times of a rule around a moment: none lies between them.
#[derive(Clone, Copy, Default)]
pub(super) struct Around {
    since: Millis,
    next: Option<Millis>,
}

/// A rule, and when pages change by it.
pub(super) struct RuleTimes {
    pub rule: Rule,
    around: RwLock<Option<Around>>,
}

impl RuleTimes {
    fn next_after(&self, wall: Millis) -> Option<Millis> {
        let known = *self.around.read();
        let fits = |known: &Around| known.since <= wall && known.next.is_none_or(|next| wall < next);
        if let Some(known) = known.filter(fits) {
            return known.next;
        }
        let next = self.rule.when.next_after(wall);
        *self.around.write() = Some(Around { since: wall, next });
        next
    }
}

/// A site's pages that change, and when.
pub struct Schedule {
    pub(super) rules: Vec<RuleTimes>,
    /// Their paths, and of each the rule that it is of.
    paths: (PatternSet, Vec<usize>),
    pub(super) pages: RwLock<HashMap<Key, Arc<ScheduledPage>>>,
    /// What is to be done for each time, and how far it is.
    pub plans: Mutex<BTreeMap<Millis, Plan>>,
    /// The last time at which pages have changed; 0: none. Plans are forgotten, and clocks are set back by hours, too.
    changed: AtomicU64,
}

impl Schedule {
    pub fn new(rules: &[Rule]) -> Schedule {
        let paths = rules.iter().enumerate().flat_map(|(at, rule)| rule.paths.iter().map(move |path| (at, path)));
        let (owners, paths): (Vec<_>, Vec<_>) = paths.unzip();
        let rules = rules.iter().map(|rule| RuleTimes { rule: rule.clone(), around: RwLock::default() }).collect();
        let paths = (PatternSet::new(paths), owners);
        Schedule { rules, paths, pages: RwLock::default(), plans: Mutex::default(), changed: AtomicU64::new(0) }
    }

    /// When a page of this path changes next by the rules.
    pub(super) fn next_by_rules(&self, path: &str, wall: Millis) -> Option<Millis> {
        let mut covering: Vec<_> =
            self.paths.0.matching(path.as_bytes()).into_iter().map(|at| self.paths.1[at]).collect();
        covering.dedup();
        covering.into_iter().map(|at| &self.rules[at]).filter_map(|rule| rule.next_after(wall)).min()
    }

    pub(super) fn note_change(&self, at: Millis) {
        self.changed.store(at, Relaxed);
    }

    /// The last change at or before `wall`; 0: none is known. A page that was asked for after it does not hold before it,
    /// which matters when the clock is set back.
    pub(super) fn last_change(&self, wall: Millis) -> Millis {
        // The first request after a change may be faster than the timer.
        let planned = self.plans.lock().range(..=wall).next_back().map(|(at, _)| *at);
        let noted = Some(self.changed.load(Relaxed)).filter(|at| *at <= wall);
        planned.max(noted).unwrap_or(0)
    }

    /// Asks for, or changes, what a page has said. Nothing else may be locked within it.
    pub(super) fn of<T>(&self, page: &ScheduledPage, ask: impl FnOnce(&mut Times, ByRules) -> T) -> T {
        ask(&mut page.times.lock(), &|at| self.changes_by_rule(page.path(), at))
    }

    /// Whether a page changes at this time, by a rule or as it says.
    pub fn changes_at(&self, page: &ScheduledPage, at: Millis) -> bool {
        self.of(page, |times, by_rules| times.has(at, by_rules)) || self.changes_by_rule(page.path(), at)
    }

    /// Whether a rule says that pages of this path change then.
    pub fn changes_by_rule(&self, path: &str, at: Millis) -> bool {
        self.next_by_rules(path, at.saturating_sub(1)) == Some(at)
    }

    pub(super) fn covers(&self, path: &str) -> bool {
        self.paths.0.is_match(path.as_bytes())
    }

    /// The times to come, each with how long before it pages are prepared.
    pub fn times(&self, wall: Millis) -> BTreeMap<Millis, Millis> {
        let mut times = BTreeMap::new();
        let mut add = |at: Millis, prepare: Millis| {
            let longest = times.entry(at).or_insert(0);
            *longest = prepare.max(*longest);
        };
        for one in &self.rules {
            if let Some(at) = one.next_after(wall) {
                add(at, one.rule.prepare);
            }
        }
        let mut announced = BTreeSet::new();
        for page in self.pages.read().values() {
            self.of(page, |said, by_rules| {
                if !said.is_fickle() {
                    announced.extend(said.known(wall, by_rules));
                }
            });
        }
        announced.into_iter().take(MAX_TIMES).for_each(|at| add(at, rule::PREPARE));
        times
    }

    /// The pages that change at this time, those that are asked for most first.
    pub fn pages_at(&self, at: Millis) -> Vec<Arc<ScheduledPage>> {
        let says = |times: &mut Times, by_rules: ByRules| !times.is_fickle() && times.has(at, by_rules);
        let changes = |page: &&Arc<ScheduledPage>| self.of(page, says) || self.changes_by_rule(page.path(), at);
        let mut pages: Vec<_> = self.pages.read().values().filter(changes).cloned().collect();
        pages.sort_by(|one, other| other.rank().cmp(&one.rank()).then_with(|| one.url.cmp(&other.url)));
        pages
    }

    /// The page of this key, which is known from now on. `before`: it was forgotten, but is prepared.
    pub(super) fn meet(
        &self,
        url: &Arc<str>,
        primary: Key,
        by_proxies: &[u8],
        before: Option<Arc<ScheduledPage>>,
    ) -> Arc<ScheduledPage> {
        let mut pages = self.pages.write();
        if pages.len() >= MAX_PAGES {
            let mut ranks: Vec<_> = pages.values().map(|page| page.rank()).collect();
            let middle = ranks.len() / 2;
            let (_, median, _) = ranks.select_nth_unstable(middle);
            let median = *median;
            let above = ranks.iter().filter(|rank| **rank > median).count();
            let mut room = (MAX_PAGES / 2).saturating_sub(above);
            pages.retain(|_, page| match page.rank() {
                rank if rank == median && room > 0 => {
                    room -= 1;
                    true
                }
                rank => rank > median,
            });
        }
        let new = || {
            Arc::new(ScheduledPage {
                url: url.clone(),
                primary,
                by_proxies: by_proxies.to_vec(),
                requests: AtomicU64::new(0),
                times: Mutex::default(),
                samples: Mutex::default(),
                askers: Mutex::default(),
            })
        };
        pages.entry(primary).or_insert_with(|| before.unwrap_or_else(new)).clone()
    }
}
