//! The order in which requests wait: the shortest expected first, but nobody is overtaken for longer than a bound. It
//! never knows what waits. Pure: time is an argument.

use std::collections::{BTreeMap, VecDeque};

use super::super::expectations::ExpectedTime;
use crate::support::clock::Micros;

/// A request gives way to those that come within so many times its expected duration after it ...
const PATIENCE: Micros = 3;
/// ... and never to those that come later than this after it. So no request is overtaken by more than what arrives in
/// this time.
pub const LONGEST_PATIENCE: Micros = 1_000_000;
/// Differences below this are noise, and first come is first served.
const GRAIN: Micros = 2_000;

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    due: Micros,
    ticket: u64,
    long: bool,
    /// It is a crawler's.
    last: bool,
}

impl Place {
    /// Whether it is a crawler's.
    pub fn is_last(self) -> bool {
        self.last
    }
}

/// Those who wait.
pub struct Line<T> {
    /// Requests whose worker died go before all others.
    again: VecDeque<(Place, T)>,
    short: BTreeMap<Place, T>,
    long: BTreeMap<Place, T>,
    /// Requests of crawlers come after all others, in the order in which they came.
    last: BTreeMap<Place, T>,
    next_ticket: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        let [short, long, last] = std::array::from_fn(|_| BTreeMap::new());
        Line { again: VecDeque::new(), short, long, last, next_ticket: 0 }
    }
}

impl<T> Line<T> {
    fn place(&mut self, due: Micros, long: bool) -> Place {
        self.next_ticket += 1;
        Place { due, ticket: self.next_ticket, long, last: false }
    }

    pub fn join(&mut self, expected: ExpectedTime, now: Micros, waiter: T) -> Place {
        let place = self.reserve(expected, now);
        self.put_back(place, waiter);
        place
    }

    /// A place for one that comes now, or later by `put_back`.
    pub fn reserve(&mut self, expected: ExpectedTime, now: Micros) -> Place {
        let patience = (PATIENCE * (expected.time / GRAIN * GRAIN)).min(LONGEST_PATIENCE);
        self.place((now + patience).max(1), expected.long)
    }

    /// Before all others, but behind those that were here before it.
    pub fn rejoin(&mut self, waiter: T) -> Place {
        let place = self.place(0, false);
        self.again.push_back((place, waiter));
        place
    }

    /// After all others.
    pub fn join_last(&mut self, now: Micros, waiter: T) -> Place {
        let place = Place { last: true, ..self.place(now.max(1), false) };
        self.last.insert(place, waiter);
        place
    }

    /// Takes the crawler's request that is the next one, but only while nobody else waits.
    pub fn next_last(&mut self) -> Option<(Place, T)> {
        if self.len() > 0 {
            return None;
        }
        self.last.pop_first()
    }

    /// How many crawlers' requests wait.
    pub fn last_len(&self) -> usize {
        self.last.len()
    }

    /// Takes the next one of those kinds that may go.
    pub fn next(&mut self, short: bool, long: bool) -> Option<(Place, T)> {
        if !short && !long {
            return None;
        }
        if let Some(first) = self.again.pop_front() {
            return Some(first);
        }
        let short = self.short.first_key_value().map(|(place, _)| *place).filter(|_| short);
        let longest = self.long.first_key_value().map(|(place, _)| *place).filter(|_| long);
        match (short, longest) {
            (Some(short), Some(long)) if long < short => self.long.pop_first(),
            (None, Some(_)) => self.long.pop_first(),
            (None, None) => None,
            _ => self.short.pop_first(),
        }
    }

    /// Puts one back that `next` has taken.
    pub fn put_back(&mut self, place: Place, waiter: T) {
        match place {
            Place { last: true, .. } => drop(self.last.insert(place, waiter)),
            Place { due: 0, .. } => self.again.push_front((place, waiter)),
            Place { long: true, .. } => drop(self.long.insert(place, waiter)),
            _ => drop(self.short.insert(place, waiter)),
        }
    }

    pub fn leave(&mut self, place: Place) {
        match place {
            Place { last: true, .. } => drop(self.last.remove(&place)),
            Place { due: 0, .. } => self.again.retain(|(other, _)| *other != place),
            Place { long: true, .. } => drop(self.long.remove(&place)),
            _ => drop(self.short.remove(&place)),
        }
    }

    /// How many wait, without crawlers.
    pub fn len(&self) -> usize {
        self.again.len() + self.short.len() + self.long.len()
    }

    /// Nobody who might go before a new one of this kind waits.
    pub fn is_free(&self, long: bool) -> bool {
        self.again.is_empty() && self.short.is_empty() && (!long || self.long.is_empty())
    }

    /// Whether requests wait whose worker has died.
    pub fn has_retried(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether one with this place would be the next.
    pub fn is_first(&self, place: Place) -> bool {
        let heads = [self.short.first_key_value(), self.long.first_key_value()];
        self.again.is_empty() && heads.into_iter().flatten().all(|(head, _)| place < *head)
    }

    /// Takes the next one, if it is of the short ones.
    pub fn next_short(&mut self) -> Option<(Place, T)> {
        let (place, _) = self.short.first_key_value()?;
        let long = self.long.first_key_value();
        if !self.again.is_empty() || long.is_some_and(|(long, _)| long < place) {
            return None;
        }
        self.short.pop_first()
    }

    /// Those who wait, without crawlers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.again.iter().map(|(_, waiter)| waiter).chain(self.short.values()).chain(self.long.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: ExpectedTime = ExpectedTime { time: 5_000, mean: 5_000, long: false };
    const LONG: ExpectedTime = ExpectedTime { time: 200_000, mean: 200_000, long: true };

    fn order(line: &mut Line<&'static str>, long: bool) -> Vec<&'static str> {
        std::iter::from_fn(|| line.next(true, long).map(|(_, name)| name)).collect()
    }

    #[test]
    fn equals_go_first_come_first_served() {
        let mut line = Line::default();
        for (now, time, name) in [(0, 900, "a"), (10, 100, "b"), (20, 1_900, "c")] {
            line.join(ExpectedTime { time, mean: time, long: false }, now, name);
        }
        assert_eq!(order(&mut line, true), ["a", "b", "c"]);
    }

    #[test]
    fn shorter_ones_overtake_within_the_patience_of_the_longer_and_not_beyond() {
        let mut line = Line::default();
        line.join(LONG, 0, "long");
        line.join(SHORT, 100_000, "soon");
        line.join(SHORT, 580_000, "just in time");
        line.join(SHORT, 600_000, "too late");
        assert_eq!(order(&mut line, true), ["soon", "just in time", "long", "too late"]);
    }

    #[test]
    fn nobody_is_overtaken_by_what_comes_later_than_the_longest_patience() {
        let mut line = Line::default();
        line.join(ExpectedTime { time: 3_600_000_000, mean: 3_600_000_000, long: true }, 0, "an hour");
        line.join(SHORT, LONGEST_PATIENCE, "later");
        assert_eq!(order(&mut line, true), ["an hour", "later"]);
    }

    #[test]
    fn long_ones_wait_when_they_may_not_go_and_keep_their_place() {
        let mut line = Line::default();
        line.join(LONG, 0, "long");
        let left = line.join(SHORT, 5_000_000, "left");
        line.join(SHORT, 5_000_000, "short");
        line.leave(left);
        assert!(!line.is_free(true) && !line.is_free(false) && line.len() == 2);
        let (place, name) = line.next(true, true).unwrap();
        line.put_back(place, name);
        assert_eq!(line.next(false, true).map(|(place, name)| line.put_back(place, name)), Some(()));
        assert!(line.next(false, false).is_none());
        assert_eq!(order(&mut line, false), ["short"]);
        assert!(line.is_free(false) && !line.is_free(true));
        assert_eq!(order(&mut line, true), ["long"]);
    }

    #[test]
    fn a_crawler_goes_when_nobody_else_waits_and_keeps_its_place() {
        let mut line = Line::default();
        line.join_last(0, "crawler");
        let left = line.join_last(1, "gone");
        line.join_last(2, "another crawler");
        let long = line.join(LONG, 9_000_000, "late");
        line.leave(left);
        assert_eq!((line.len(), line.last_len(), line.is_free(true)), (1, 2, false));
        assert!(line.next_last().is_none(), "not even where the other may not go");
        line.leave(long);
        assert!(line.is_free(true) && line.next(true, true).is_none());
        let (place, first) = line.next_last().unwrap();
        line.put_back(place, first);
        assert_eq!([line.next_last(), line.next_last()].map(|one| one.unwrap().1), ["crawler", "another crawler"]);
    }

    #[test]
    fn those_whose_worker_died_go_before_all() {
        let mut line = Line::default();
        line.join(SHORT, 0, "waiting");
        let place = line.rejoin("gone");
        line.rejoin("again");
        line.leave(place);
        line.rejoin("again too");
        assert_eq!(order(&mut line, false), ["again", "again too", "waiting"]);
        assert_eq!(line.len(), 0);
    }
}
