//! When one page changes, as its renderings say it: the one that a visitor gets, with the clock as it is, and those that
//! are prepared, each with the clock at its own time. It never reads a clock.
//!
//! A rendering says what comes after its own time. What the page of noon says of midnight counts as long as noon does,
//! and from noon on it is the page that is shown: what was said before it counts no more.

use std::collections::{BTreeMap, BTreeSet};

use crate::Millis;

/// Times of a page that are known, at most: the nearest. The others are heard of when these have come.
pub const MAX_TIMES: usize = 16;
/// How often times to come may be taken back before one of them has come. A page beyond that says other ones with each
/// request: each would be a copy of the application.
pub const MAX_MOVES: u32 = 8;

/// A page as it was rendered, by what it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rendering {
    /// The clock with which it was rendered.
    clock: Millis,
    /// Later ones have more.
    number: u64,
    times: BTreeSet<Millis>,
}

/// The times of a page.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// The last one that was rendered with the clock as it was.
    shown: Rendering,
    /// Those that are prepared, by their clocks.
    prepared: BTreeMap<Millis, Rendering>,
    /// Changes that had come when the page was rendered last, the latest: the clock may be set back between two of them.
    come: BTreeSet<Millis>,
    moves: u32,
    count: u64,
}

/// Whether the page changes at a time by something else than its own word.
pub type ByRules<'a> = &'a dyn Fn(Millis) -> bool;

impl Times {
    /// The page as it was asked for at `clock` says that it changes then. Returns whether other times are known now.
    pub fn say(&mut self, clock: Millis, times: &[Millis], wall: Millis, by_rules: ByRules) -> bool {
        // A slow answer from before another one: that one knows more.
        if (clock + 1..=wall).contains(&self.shown.clock) {
            return false;
        }
        let mut come = self.come.clone();
        come.extend(self.counted(clock, by_rules));
        come.retain(|at| *at <= clock);
        if self.shown.times.first().is_some_and(|first| *first <= clock) {
            self.moves = 0;
        }
        self.tell(wall, by_rules, |own, number| {
            own.come = latest(come);
            own.shown = Rendering { clock, number, times: nearest(times, clock) };
        })
    }

    /// Something that was kept since before the server began says that the page changes then.
    pub fn restore(&mut self, at: Millis) {
        self.shown.times.insert(at);
    }

    /// What is prepared for a time says that the page changes then. Returns whether other times are known now.
    pub fn prepare(&mut self, clock: Millis, times: &[Millis], wall: Millis, by_rules: ByRules) -> bool {
        self.tell(wall, by_rules, |own, number| {
            own.prepared.insert(clock, Rendering { clock, number, times: nearest(times, clock) });
        })
    }

    /// Nothing is prepared for a time any more. `was_shown`: that has come, and the page was what visitors got.
    pub fn forget(&mut self, clock: Millis, was_shown: bool) {
        let told = self.prepared.remove(&clock).filter(|told| was_shown && told.clock > self.shown.clock);
        if let Some(told) = told {
            self.come.extend(self.shown.times.range(..=clock));
            self.come.insert(clock);
            self.come = latest(std::mem::take(&mut self.come));
            self.shown = told;
        }
    }

    fn tell(&mut self, wall: Millis, by_rules: ByRules, change: impl FnOnce(&mut Times, u64)) -> bool {
        let before = self.known(wall, by_rules);
        self.count += 1;
        let count = self.count;
        change(self, count);
        let after = self.known(wall, by_rules);
        if before.iter().any(|at| !after.contains(at)) {
            self.moves = self.moves.saturating_add(1);
        }
        before != after
    }

    /// Whether the page says other times again and again. Then it is not prepared.
    pub fn is_fickle(&self) -> bool {
        self.moves > MAX_MOVES
    }

    /// The times after `wall` at which the page changes, the nearest.
    pub fn known(&self, wall: Millis, by_rules: ByRules) -> BTreeSet<Millis> {
        self.counted(wall, by_rules).range(wall.saturating_add(1)..).take(MAX_TIMES).copied().collect()
    }

    /// The first of them.
    pub fn next(&self, wall: Millis, by_rules: ByRules) -> Option<Millis> {
        let first = |times: &BTreeSet<Millis>| times.range(wall.saturating_add(1)..).next().copied();
        // Each hit asks.
        if self.prepared.is_empty() {
            first(&self.shown.times)
        } else {
            first(&self.counted(wall, by_rules))
        }
    }

    /// Whether the page changes at this time, as it was known just before.
    pub fn has(&self, at: Millis, by_rules: ByRules) -> bool {
        let is_said = self.shown.times.contains(&at)
            || self.prepared.contains_key(&at)
            || self.prepared.values().any(|told| told.times.contains(&at));
        is_said && self.known(at.saturating_sub(1), by_rules).contains(&at)
    }

    /// Whether the page that is shown at `wall` says so itself, and not only one that is prepared for a time to come.
    pub fn is_said_by_shown(&self, at: Millis, wall: Millis) -> bool {
        self.on_show(wall).contains(&at)
    }

    /// The last change at or before `wall`; 0: none is known. What was asked for before it is from before it.
    pub fn last_change(&self, wall: Millis, by_rules: ByRules) -> Millis {
        let last = |times: &BTreeSet<Millis>| times.range(..=wall).next_back().copied();
        let is_to_come = self.prepared.first_key_value().is_none_or(|(clock, _)| *clock > wall);
        // Each hit asks. What is prepared says nothing of before its own time.
        let come = if is_to_come { last(&self.shown.times) } else { last(&self.counted(wall, by_rules)) };
        come.max(last(&self.come)).unwrap_or(0)
    }

    /// What the page says that is shown at `wall`, and when that was prepared for.
    fn on_show(&self, wall: Millis) -> BTreeSet<Millis> {
        let has_come = self.prepared.range(..=wall).next_back().map(|(_, told)| told);
        let on_show = has_come.filter(|told| told.clock > self.shown.clock);
        let mut times = match on_show {
            Some(told) if told.number > self.shown.number => BTreeSet::from([told.clock]),
            _ => self.shown.times.clone(),
        };
        times.extend(on_show.iter().flat_map(|told| &told.times));
        times
    }

    /// All that is said, and that counts at `wall`, what has come by then, too.
    fn counted(&self, wall: Millis, by_rules: ByRules) -> BTreeSet<Millis> {
        let mut times = self.on_show(wall);
        for (clock, told) in self.prepared.range(wall.saturating_add(1)..) {
            // The clock was set back: it has come before, and comes again.
            if *clock <= self.shown.clock {
                times.insert(*clock);
            }
            if times.contains(clock) || by_rules(*clock) {
                times.extend(&told.times);
            }
        }
        times
    }
}

/// What a page says of the past is no news.
fn nearest(times: &[Millis], clock: Millis) -> BTreeSet<Millis> {
    let to_come: BTreeSet<Millis> = times.iter().copied().filter(|at| *at > clock).collect();
    to_come.into_iter().take(MAX_TIMES).collect()
}

fn latest(mut times: BTreeSet<Millis>) -> BTreeSet<Millis> {
    while times.len() > MAX_TIMES {
        times.pop_first();
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Millis = 1_000;
    const EVENING: Millis = 2_000;
    const MIDNIGHT: Millis = 3_000;

    fn nothing(_: Millis) -> bool {
        false
    }

    fn known(times: &Times, wall: Millis) -> Vec<Millis> {
        times.known(wall, &nothing).into_iter().collect()
    }

    #[test]
    fn the_page_of_noon_says_midnight() {
        let mut times = Times::default();
        assert!(times.say(1, &[NOON], 1, &nothing));
        assert!(times.prepare(NOON, &[MIDNIGHT], 2, &nothing));
        assert!(!times.prepare(NOON, &[MIDNIGHT], 3, &nothing), "it says so again");
        assert_eq!(known(&times, 3), [NOON, MIDNIGHT]);
        assert_eq!([3, NOON].map(|wall| times.next(wall, &nothing)), [Some(NOON), Some(MIDNIGHT)]);
        assert_eq!((known(&times, NOON), times.last_change(NOON, &nothing)), (vec![MIDNIGHT], NOON));
        assert!(times.prepare(MIDNIGHT, &[MIDNIGHT + 1], NOON, &nothing), "and so on");
        assert_eq!(known(&times, NOON), [MIDNIGHT, MIDNIGHT + 1]);
        times.forget(NOON, true);
        assert_eq!(known(&times, NOON), [MIDNIGHT, MIDNIGHT + 1], "the page of noon is the one that is shown");
    }

    #[test]
    fn what_nobody_says_any_more_is_forgotten() {
        let mut times = Times::default();
        times.say(1, &[NOON, MIDNIGHT], 1, &nothing);
        times.prepare(NOON, &[EVENING], 2, &nothing);
        assert_eq!(known(&times, 3), [NOON, EVENING, MIDNIGHT]);
        assert_eq!(known(&times, NOON), [EVENING], "the page of noon knows better");
        times.say(4, &[MIDNIGHT], 4, &nothing);
        assert_eq!(known(&times, 4), [MIDNIGHT], "without noon there is no evening");
        times.say(5, &[], 5, &nothing);
        assert!(known(&times, 5).is_empty());
    }

    #[test]
    fn what_a_prepared_page_says_is_forgotten_with_it() {
        let mut times = Times::default();
        times.say(1, &[NOON], 1, &nothing);
        times.prepare(NOON, &[MIDNIGHT], 2, &nothing);
        times.forget(NOON, false);
        assert_eq!(known(&times, 3), [NOON]);
    }

    #[test]
    fn the_page_of_a_rule_s_time_says_more() {
        let mut times = Times::default();
        times.prepare(NOON, &[MIDNIGHT], 2, &|at| at == NOON);
        assert_eq!(times.known(2, &|at| at == NOON), BTreeSet::from([MIDNIGHT]));
        assert!(known(&times, 2).is_empty(), "the rule is gone");
    }

    #[test]
    fn the_clock_is_set_back_over_a_change() {
        let mut times = Times::default();
        times.say(1, &[NOON], 1, &nothing);
        times.prepare(NOON, &[MIDNIGHT], 2, &nothing);
        times.say(NOON + 5, &[MIDNIGHT], NOON + 5, &nothing);
        assert_eq!(times.last_change(NOON + 5, &nothing), NOON);
        assert_eq!((known(&times, 7), times.last_change(7, &nothing)), (vec![NOON, MIDNIGHT], 0));
        times.say(7, &[NOON], 7, &nothing);
        assert_eq!(known(&times, 7), [NOON, MIDNIGHT]);
    }

    /// Between two changes that have come: the earlier one is the last.
    #[test]
    fn the_clock_is_set_back_to_between_two_changes() {
        let mut times = Times::default();
        times.say(1, &[NOON, EVENING], 1, &nothing);
        times.say(NOON, &[EVENING], NOON, &nothing);
        times.say(EVENING, &[MIDNIGHT], EVENING, &nothing);
        assert_eq!([EVENING - 1, EVENING, 5].map(|wall| times.last_change(wall, &nothing)), [NOON, EVENING, 0]);
    }

    #[test]
    fn a_slow_answer_from_before_a_change_takes_nothing_back() {
        let mut times = Times::default();
        times.say(1, &[NOON], 1, &nothing);
        times.say(NOON + 5, &[MIDNIGHT], NOON + 5, &nothing);
        assert!(!times.say(2, &[NOON], NOON + 6, &nothing));
        assert_eq!((known(&times, NOON + 6), times.last_change(NOON + 6, &nothing)), (vec![MIDNIGHT], NOON));
    }

    #[test]
    fn two_times_in_one_second_and_times_of_the_past() {
        let mut times = Times::default();
        times.say(500, &[NOON + 1, 500, NOON, 3], 500, &nothing);
        assert_eq!(known(&times, 500), [NOON, NOON + 1]);
        assert!(times.has(NOON, &nothing) && times.has(NOON + 1, &nothing) && !times.has(500, &nothing));
    }

    #[test]
    fn only_the_nearest_of_hundreds_are_known() {
        let mut times = Times::default();
        let all: Vec<Millis> = (1..=500).rev().collect();
        times.say(0, &all, 0, &nothing);
        assert_eq!(known(&times, 0), (1..=16).collect::<Vec<_>>());
        times.prepare(1, &all, 0, &nothing);
        assert_eq!(known(&times, 0), (1..=16).collect::<Vec<_>>());
        assert_eq!(known(&times, 1), (2..=17).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_that_always_says_other_times_is_fickle_until_one_has_come() {
        let mut times = Times::default();
        let steady = (1..100).take_while(|number| {
            times.say(*number, &[NOON + number], *number, &nothing);
            !times.is_fickle()
        });
        assert_eq!(steady.count(), 9);
        times.say(EVENING, &[MIDNIGHT], EVENING, &nothing);
        assert!(!times.is_fickle());
    }
}
