//! Random histories of a page: visited, prepared, its changes moved and called off, the application away, the clock set.
//! Whatever happens, no page of before a change is shown after it, nor the other way round; and what is prepared while the
//! application answers is there at its time.

use std::collections::{BTreeMap, BTreeSet};

use scheduled::{times::Times, Millis};

/// So long before its time a page is prepared.
const PREPARE: Millis = 100;
/// A history's changes lie in so long a time.
const SPAN: Millis = 2_000;

/// Numbers that look random, the same ones in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// The page as it was rendered: the last change before it, and what it says of those after it.
#[derive(Debug, Clone)]
struct Rendering {
    shows: Millis,
    says: Vec<Millis>,
}

#[derive(Debug, Clone)]
struct Stored {
    shows: Millis,
    from: Millis,
    until: Millis,
}

struct History {
    dice: Dice,
    /// When the page changes, as it is.
    changes: BTreeSet<Millis>,
    /// How many of them the application says at once.
    says: usize,
    is_up: bool,
    wall: Millis,
    times: Times,
    stored: Option<Stored>,
    prepared: BTreeMap<Millis, (Rendering, bool)>,
    /// How often the clock was set back over a change that nobody had said.
    unheard: usize,
    /// Requests that the application has not answered yet, and when they were asked.
    slow: Vec<(Millis, Rendering)>,
    /// What is known and near is prepared.
    is_ready: bool,
}

fn nothing(_: Millis) -> bool {
    false
}

impl History {
    fn begin(seed: u64) -> History {
        let mut dice = Dice(seed);
        let changes = (0..3 + dice.below(4)).map(|_| 10 + dice.below(SPAN)).collect();
        let says = [1, 1, 2, 16][dice.below(4) as usize];
        History {
            dice,
            changes,
            says,
            is_up: true,
            wall: 1,
            times: Times::default(),
            stored: None,
            prepared: BTreeMap::new(),
            unheard: 0,
            slow: Vec::new(),
            is_ready: false,
        }
    }

    fn truth(&self, clock: Millis) -> Millis {
        self.changes.range(..=clock).next_back().copied().unwrap_or(0)
    }

    fn render(&self, clock: Millis) -> Rendering {
        let says = self.changes.range(clock + 1..).take(self.says).copied().collect();
        Rendering { shows: self.truth(clock), says }
    }

    /// An answer of the application has come to what was asked at `clock`.
    fn hear(&mut self, clock: Millis, page: &Rendering) {
        self.times.say(clock, &page.says, self.wall, &nothing);
        self.drop_unknown();
        let until = page.says.iter().copied().filter(|at| *at > clock).min().unwrap_or(Millis::MAX);
        let from = self.times.last_change(clock, &nothing);
        if until > self.wall && from >= self.times.last_change(self.wall, &nothing) {
            self.stored = Some(Stored { shows: page.shows, from, until });
        }
    }

    fn drop_unknown(&mut self) {
        let known = self.times.known(self.wall, &nothing);
        let gone: Vec<Millis> =
            self.prepared.keys().copied().filter(|at| *at > self.wall && !known.contains(at)).collect();
        for at in gone {
            self.prepared.remove(&at);
            self.times.forget(at, false);
        }
    }

    /// Prepares what is near, until nothing more is said. `again`: also what is prepared.
    fn prepare(&mut self, again: bool) {
        if !self.is_up {
            return;
        }
        let mut done = BTreeSet::new();
        loop {
            let (known, wall) = (self.times.known(self.wall, &nothing), self.wall);
            let is_wanted = |at: &Millis| {
                let is_prepared = self.prepared.contains_key(at);
                !done.contains(at) && (is_prepared && again || !is_prepared && *at <= wall + PREPARE)
            };
            let near = known.into_iter().find(is_wanted);
            let Some(at) = near else { break };
            let page = self.render(at);
            self.times.prepare(at, &page.says, self.wall, &nothing);
            self.prepared.insert(at, (page, false));
            self.drop_unknown();
            done.insert(at);
        }
        self.is_ready = !self.times.is_fickle();
    }

    /// Puts in its place what is due.
    fn place(&mut self) {
        let wall = self.wall;
        let mut is_undone = false;
        for (_, is_placed) in self.prepared.range_mut(wall + 1..).map(|(_, page)| page) {
            is_undone |= std::mem::take(is_placed);
        }
        let last = self.times.last_change(wall, &nothing);
        for (at, (page, is_placed)) in self.prepared.range_mut(..=wall) {
            *is_placed &= !is_undone;
            let said = page.says.iter().copied().filter(|next| next > at).min();
            let next = self.times.known(*at, &nothing).first().copied();
            let until = said.into_iter().chain(next).min().unwrap_or(Millis::MAX);
            if !std::mem::replace(is_placed, true) && until > wall && *at >= last {
                self.stored = Some(Stored { shows: page.shows, from: *at, until });
            }
        }
    }

    /// Somebody asks for the page. Returns whether it was there.
    fn visit(&mut self) -> bool {
        self.place();
        let last = self.times.last_change(self.wall, &nothing);
        let holds = |one: &&Stored| one.from <= self.wall && self.wall < one.until && one.from >= last;
        if let Some(stored) = self.stored.as_ref().filter(holds) {
            let (shows, truth) = (stored.shows, self.truth(self.wall));
            // Of a change that nobody had said nobody knows that the clock was set back over it.
            let is_unheard = shows > truth && stored.from < shows;
            self.unheard += usize::from(is_unheard);
            assert!(shows == truth || is_unheard, "at {}: {stored:?}, not {truth}\n{:?}", self.wall, self.times);
            return true;
        }
        if self.is_up {
            let page = self.render(self.wall);
            self.hear(self.wall, &page);
        }
        false
    }

    /// An editor changes something; the page is purged, or asked for past the cache and looked at again.
    fn edit(&mut self, is_purged: bool) {
        let at = self.wall + 1 + self.dice.below(PREPARE * 2);
        let later: Vec<Millis> = self.changes.range(self.wall + 1..).copied().collect();
        match self.dice.below(3) {
            // Another change.
            0 => drop(self.changes.insert(at)),
            // One is called off, or moved.
            what if !later.is_empty() => {
                self.changes.remove(&later[self.dice.below(later.len() as u64) as usize]);
                if what == 1 {
                    self.changes.insert(at);
                }
            }
            _ => {}
        }
        // What was asked for before that does not arrive any more.
        self.slow.clear();
        if is_purged {
            self.stored = None;
            for (at, (_, is_placed)) in std::mem::take(&mut self.prepared) {
                self.times.forget(at, is_placed);
            }
        }
        let page = self.render(self.wall);
        self.hear(self.wall, &page);
        self.prepare(true);
    }

    fn step(&mut self) {
        match self.dice.below(12) {
            0 => self.is_up = !self.is_up,
            1 if self.is_up => {
                let is_purged = self.dice.below(2) == 0;
                self.edit(is_purged);
            }
            2 if self.is_up => self.slow.push((self.wall, self.render(self.wall))),
            3 => {
                if let Some((clock, page)) = self.slow.pop() {
                    self.hear(clock, &page);
                }
            }
            // The clock is set back: what was in its place is rendered again for when it comes again.
            4 if self.is_up && self.dice.below(3) == 0 => {
                self.wall -= self.dice.below(self.wall.min(PREPARE));
                self.prepare(true);
                self.visit();
            }
            // It is set forwards, over what is near or far.
            5 => {
                let far = self.dice.below(4) == 0;
                self.wall += self.dice.below(if far { PREPARE * 5 } else { PREPARE });
                self.visit();
            }
            6 => {
                // Long after it has come what was prepared is forgotten.
                let past: Vec<Millis> =
                    self.prepared.range(..self.wall.saturating_sub(PREPARE)).map(|(at, _)| *at).collect();
                for at in past {
                    let was_shown = self.prepared.remove(&at).is_some_and(|(_, is_placed)| is_placed);
                    self.times.forget(at, was_shown);
                }
            }
            7 => self.prepare(true),
            _ => {
                self.prepare(false);
                let known = self.times.known(self.wall, &nothing);
                // To the very time of a change, or to somewhere.
                let next = known.first().copied().filter(|at| at - self.wall <= PREPARE);
                let (from, ready) = (self.wall, self.is_ready && self.is_up);
                self.wall = next.filter(|_| self.dice.below(2) == 0).unwrap_or(self.wall + self.dice.below(PREPARE));
                let crossed = known.iter().any(|at| (from + 1..=self.wall).contains(at));
                let was_there = self.visit();
                assert!(was_there || !crossed || !ready, "a miss at {}: {:?}", self.wall, self.times);
            }
        }
    }
}

#[test]
fn no_page_of_another_time_is_shown_and_what_is_known_is_prepared() {
    let (mut hits, mut unheard) = (0, 0);
    for seed in 0..3_000 {
        let mut history = History::begin(seed);
        history.visit();
        for _ in 0..60 {
            history.step();
        }
        hits += usize::from(history.visit());
        unheard += history.unheard;
    }
    assert!(unheard < 50, "{unheard} of 180,000 steps");
    assert!(hits > 1_000, "{hits} pages of 3000 were there at the end");
}
