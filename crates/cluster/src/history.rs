//! The last orders of the journal: whether a page that another front has stored was purged since. It drops nothing.

use std::{collections::VecDeque, sync::Arc};

use crate::{Order, Position};

/// Orders that are remembered; of a page that is older than all of them nothing is known.
const REMEMBERED: usize = 1024;

/// What is known of a page by the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No order has purged it.
    Current,
    /// It was purged since, or that is not known.
    Purged,
    /// It was asked for after orders that this front has not applied yet.
    Ahead,
}

/// The orders up to where the journal is applied.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The place before the first of them. None: nothing is known yet.
    base: Option<Position>,
    /// Their numbers are consecutive.
    orders: VecDeque<(Position, Order)>,
}

impl History {
    /// Begins after this place; nothing is known of what was before.
    pub fn from(base: Option<Position>) -> History {
        History { base, orders: VecDeque::new() }
    }

    /// The order after the last.
    pub fn push(&mut self, at: Position, order: Order) {
        self.orders.push_back((at, order));
        if self.orders.len() > REMEMBERED {
            self.base = self.orders.pop_front().map(|(at, _)| at);
        }
    }

    /// The mark of an order that is remembered, or of the place before the first.
    pub fn mark(&self, number: u64) -> Option<&str> {
        let base = self.base.as_ref()?;
        match number.checked_sub(base.number)? {
            0 => Some(base.mark.as_str()),
            after => self.orders.get(usize::try_from(after).ok()? - 1).map(|(at, _)| at.mark.as_str()),
        }
    }

    /// Of a page that was asked for when all up to `since` was applied.
    pub fn judge(&self, since: &Position, url: &str, tags: &[Arc<str>]) -> Verdict {
        let Some(base) = &self.base else { return Verdict::Ahead };
        let Some(after) = since.number.checked_sub(base.number) else { return Verdict::Purged };
        if after > self.orders.len() as u64 {
            return Verdict::Ahead;
        }
        let after = after as usize;
        let mark = if after == 0 { &base.mark } else { &self.orders[after - 1].0.mark };
        let is_purged = *mark != since.mark || self.orders.range(after..).any(|(_, order)| order.covers(url, tags));
        if is_purged {
            Verdict::Purged
        } else {
            Verdict::Current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;

    fn at(number: u64) -> Position {
        Position::new(number, format!("m{number}"))
    }

    fn tag(number: u64) -> Order {
        Order { what: What::Tag(number.to_string()), soft: number % 2 == 0 }
    }

    fn tags(numbers: &[u64]) -> Vec<Arc<str>> {
        numbers.iter().map(|number| number.to_string().into()).collect()
    }

    fn history(base: u64, end: u64) -> History {
        let mut history = History::from(Some(at(base)));
        (base + 1..=end).for_each(|number| history.push(at(number), tag(number)));
        history
    }

    #[test]
    fn a_page_is_current_unless_an_order_since_has_purged_it() {
        let history = history(3, 6);
        let judge = |since, tagged: &[u64]| history.judge(&at(since), "http://h/a", &tags(tagged));
        for (since, tagged, verdict) in [
            (6, &[4, 5, 6][..], Verdict::Current),
            (5, &[4, 5], Verdict::Current),
            (5, &[6], Verdict::Purged),
            (3, &[3], Verdict::Current),
            (3, &[4], Verdict::Purged),
            (2, &[], Verdict::Purged),
            (7, &[], Verdict::Ahead),
        ] {
            assert_eq!(judge(since, tagged), verdict, "since {since}, tags {tagged:?}");
        }
    }

    #[test]
    fn marks_are_known_of_what_is_remembered() {
        let marks = |history: &History| [2, 3, 4, 6, 7].map(|number| history.mark(number).map(str::to_owned));
        let known = |number: u64| Some(format!("m{number}"));
        assert_eq!(marks(&history(3, 6)), [None, known(3), known(4), known(6), None]);
        assert_eq!(marks(&History::from(None)), [const { None }; 5]);
    }

    #[test]
    fn a_page_of_another_journal_is_not_shown() {
        let history = history(3, 5);
        for number in 3..=5 {
            assert_eq!(history.judge(&Position::new(number, "other"), "http://h/a", &[]), Verdict::Purged, "{number}");
        }
        assert_eq!(History::from(None).judge(&at(0), "http://h/a", &[]), Verdict::Ahead);
    }

    #[test]
    fn what_is_forgotten_counts_as_purged() {
        let end = REMEMBERED as u64;
        assert_eq!(history(0, end).judge(&at(0), "http://h/a", &[]), Verdict::Current);
        let history = history(0, end + 1);
        assert_eq!(history.judge(&at(0), "http://h/a", &[]), Verdict::Purged);
        assert_eq!(history.judge(&at(1), "http://h/a", &[]), Verdict::Current);
    }
}
