//! A site's pages that change, as they were asked for, and when they change: by rules, and as the application says.
//! It never reads a clock.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
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
/// How often a page may be said to change at another time before the one that was said before came. A page beyond that says
/// another one with each request: each would be a copy of the application.
pub(super) const MAX_MOVES: u32 = 8;

/// A page that changes, as it was asked for.
#[derive(Debug)]
pub struct ScheduledPage {
    pub url: Arc<str>,
    pub(super) primary: Key,
    /// What proxies said of the requests for it, which parts its key from others.
    pub by_proxies: Vec<u8>,
    /// Requests for it since it is known.
    pub requests: AtomicU64,
    /// What the application said last of when it changes; 0: nothing.
    pub(super) announced: AtomicU64,
    /// How often the application has said another time before the one that it had said came.
    pub(super) moves: AtomicU32,
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

    /// When it changes as the application has said, if it may be prepared for that. 0: it says nothing.
    fn planned(&self) -> Millis {
        if self.moves() > MAX_MOVES {
            0
        } else {
            self.announced.load(Relaxed)
        }
    }

    /// Whether the application has said that it changes then.
    pub fn is_announced(&self, at: Millis) -> bool {
        self.planned() == at
    }

    /// Take it before the page is rendered: if it is another one afterwards, the page changes at another time now.
    pub fn moves(&self) -> u32 {
        self.moves.load(Relaxed)
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

/// A site's pages that change, and when.
pub struct Schedule {
    pub(super) rules: Vec<(Rule, RwLock<Option<Around>>)>,
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
        let rules = rules.iter().map(|rule| (rule.clone(), RwLock::default())).collect();
        let paths = (PatternSet::new(paths), owners);
        Schedule { rules, paths, pages: RwLock::default(), plans: Mutex::default(), changed: AtomicU64::new(0) }
    }

    fn next_of((rule, around): &(Rule, RwLock<Option<Around>>), wall: Millis) -> Option<Millis> {
        let known = *around.read();
        let fits = |known: &Around| known.since <= wall && known.next.is_none_or(|next| wall < next);
        if let Some(known) = known.filter(fits) {
            return known.next;
        }
        let next = rule.when.next_after(wall);
        *around.write() = Some(Around { since: wall, next });
        next
    }

    /// When a page of this path changes next by the rules.
    pub(super) fn next_by_rules(&self, path: &str, wall: Millis) -> Option<Millis> {
        let mut covering: Vec<_> =
            self.paths.0.matching(path.as_bytes()).into_iter().map(|at| self.paths.1[at]).collect();
        covering.dedup();
        covering.into_iter().map(|at| &self.rules[at]).filter_map(|rule| Schedule::next_of(rule, wall)).min()
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
        for rule in &self.rules {
            if let Some(at) = Schedule::next_of(rule, wall) {
                add(at, rule.0.prepare);
            }
        }
        let announced: BTreeSet<Millis> = self.pages.read().values().map(|page| page.planned()).collect();
        announced.range(wall + 1..).take(MAX_TIMES).for_each(|at| add(*at, rule::PREPARE));
        times
    }

    /// The pages that change at this time, those that are asked for most first.
    pub fn pages_at(&self, at: Millis) -> Vec<Arc<ScheduledPage>> {
        let changes = |page: &&Arc<ScheduledPage>| page.is_announced(at) || self.changes_by_rule(page.path(), at);
        let mut pages: Vec<_> = self.pages.read().values().filter(changes).cloned().collect();
        pages.sort_by(|one, other| other.rank().cmp(&one.rank()).then_with(|| one.url.cmp(&other.url)));
        pages
    }

    /// The page of this key, which is known from now on.
    pub(super) fn meet(&self, url: &Arc<str>, primary: Key, by_proxies: &[u8]) -> Arc<ScheduledPage> {
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
                announced: AtomicU64::new(0),
                moves: AtomicU32::new(0),
                samples: Mutex::default(),
                askers: Mutex::default(),
            })
        };
        pages.entry(primary).or_insert_with(new).clone()
    }
}
