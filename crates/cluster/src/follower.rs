//! A front that reads the journal: which orders it applies, when it has to drop everything, and until when it may show
//! pages by itself. It never applies anything: the caller does so, and says so by `applied`, before it asks or hears where
//! the journal ends.

use std::{collections::VecDeque, fmt, sync::Arc};

use crate::{history::History, Entry, Millis, Order, Position, Verdict};

/// Ends of the journal that are remembered until they are reached; more only delay the lease.
const MAX_ENDS: usize = 32;
/// Own entries that are remembered until they are read back. With more it takes longer to notice that the first were lost.
const MAX_OWN: usize = 1024;

/// Why nothing is known of the purges meanwhile, so that everything has to be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// This front has just come, and does not know up to where its pages are purged.
    Joined,
    /// The journal does not have the entries after this number any more.
    Gap(u64),
    /// The journal is not the one that was read before: it came back empty, or older, or another server has it.
    Replaced,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Joined => f.write_str("it is not known which purges were missed"),
            Doubt::Gap(number) => write!(f, "the entries after {number} are no longer in the journal"),
            Doubt::Replaced => f.write_str("the journal was emptied, or is an older one"),
        }
    }
}

/// A question for the journal's end, when it is sent.
#[derive(Debug, Clone)]
pub struct Question {
    asked: Millis,
    at: Option<Position>,
    /// The last own entry that the journal had then.
    own: Option<Position>,
}

/// An end of the journal that is not reached yet.
#[derive(Debug)]
struct End {
    asked: Millis,
    /// When it was known here.
    known: Millis,
    at: Position,
}

/// A front that reads the journal.
#[derive(Debug)]
pub struct Follower {
    me: String,
    ttl: Millis,
    at: Option<Position>,
    applied_at: Option<Position>,
    history: History,
    ends: VecDeque<End>,
    /// Own entries that the journal has taken and that were not read back yet.
    own: VecDeque<Position>,
    lease: Millis,
}

impl Follower {
    /// `me`: what its own entries are from. `at`: up to where what it keeps is purged, if that is known.
    pub fn new(me: impl Into<String>, ttl: Millis, at: Option<Position>) -> Follower {
        let (history, applied_at) = (History::from(at.clone()), at.clone());
        Follower { me: me.into(), ttl, at, applied_at, history, ends: VecDeque::new(), own: VecDeque::new(), lease: 0 }
    }

    /// Up to where the journal was read. None: not known yet.
    pub fn at(&self) -> Option<&Position> {
        self.at.as_ref()
    }

    /// Up to where all is applied: what was read last may not be yet.
    pub fn applied_at(&self) -> Option<&Position> {
        self.applied_at.as_ref()
    }

    /// Up to where all is applied, as an answer to a question of the time `since` or later has shown. 0: that is not known. What
    /// was read before may be another journal's.
    pub fn applied_since(&self, since: Millis) -> u64 {
        if self.lease >= since.saturating_add(self.ttl) {
            self.at.as_ref().map_or(0, |at| at.number)
        } else {
            0
        }
    }

    /// Until when pages may be shown without asking the application.
    pub fn lease(&self) -> Millis {
        self.lease
    }

    /// Whether a page that another front has shared may be shown, as far as the journal is read here. `since`: up to
    /// where that front had applied it when it asked for the page.
    pub fn judge(&self, since: &Position, url: &str, tags: &[Arc<str>]) -> Verdict {
        self.history.judge(since, url, tags)
    }

    /// How many entries are known to be there and not applied.
    pub fn behind(&self) -> u64 {
        let end = self.ends.iter().map(|end| end.at.number).max().unwrap_or(0);
        end.saturating_sub(self.at.as_ref().map_or(0, |at| at.number))
    }

    /// Before the journal's end is asked for.
    pub fn ask(&self, now: Millis) -> Question {
        Question { asked: now, at: self.at.clone(), own: self.own.back().cloned() }
    }

    /// The journal has taken an own entry; of several that were written together this is the last. A journal that does not
    /// have it later has lost it, though it was never read here.
    pub fn wrote(&mut self, entry: Position) -> Option<Doubt> {
        if self.at.as_ref().is_none_or(|at| entry.number > at.number) {
            if self.own.len() == MAX_OWN {
                self.own.pop_front();
            }
            self.own.push_back(entry);
            return None;
        }
        // What was read under its number?
        let is_lost = self.history.mark(entry.number).is_some_and(|mark| mark != entry.mark);
        if !is_lost {
            return None;
        }
        self.own.clear();
        self.history = History::from(self.at.clone());
        Some(Doubt::Replaced)
    }

    /// The answer: where the journal ends. Entries may have been read since the question was sent.
    pub fn end_is(&mut self, question: Question, end: Position, now: Millis) -> Option<Doubt> {
        let Question { asked, at: at_question, own } = question;
        let Some(at) = self.at.clone() else {
            return Some(self.restart(end, asked, Doubt::Joined));
        };
        let before = [at_question, own].into_iter().flatten().max_by_key(|known| known.number).unwrap_or_default();
        let is_older = end.number < before.number || end.number == before.number && end.mark != before.mark;
        // What was read since may be the journal of another server.
        let is_other = self.history.mark(end.number).is_some_and(|mark| mark != end.mark);
        if is_older || is_other {
            return Some(self.restart(end, asked, Doubt::Replaced));
        }
        if end.number <= at.number {
            self.extend(asked);
        } else {
            if self.ends.len() == MAX_ENDS {
                self.ends.pop_front();
            }
            self.ends.push_back(End { asked, known: now, at: end });
        }
        None
    }

    /// An entry, in the journal's order. Err: everything has to be dropped, which includes what the entry says.
    pub fn read(&mut self, entry: Entry) -> Result<Option<Order>, Doubt> {
        let at = self.at.clone().unwrap_or_default();
        if entry.at.number <= at.number {
            return Ok(None);
        }
        let is_next = entry.at.number == at.number + 1;
        let fits = |known: &Position| known.number != entry.at.number || known.mark == entry.at.mark;
        let is_known = self.own.iter().chain(self.ends.iter().map(|end| &end.at)).all(fits);
        let follows = is_next && entry.previous == at.mark && is_known;
        self.at = Some(entry.at.clone());
        // In another journal own entries have other numbers.
        self.own.retain(|own| (follows || !is_next) && own.number > entry.at.number);
        if !follows {
            // Nor do later ends say where this one ends.
            self.ends.retain(|end| !is_next || end.at.number <= entry.at.number);
            self.history = History::from(Some(entry.at));
            return Err(if is_next { Doubt::Replaced } else { Doubt::Gap(at.number) });
        }
        self.history.push(entry.at, entry.order.clone());
        Ok((entry.from != self.me).then_some(entry.order))
    }

    /// All that was read is applied, and dropped what had to be.
    pub fn applied(&mut self) {
        self.applied_at.clone_from(&self.at);
        let number = self.at.as_ref().map_or(0, |at| at.number);
        let reached = self.ends.iter().filter(|end| end.at.number <= number).map(|end| end.asked).max();
        self.ends.retain(|end| end.at.number > number);
        reached.into_iter().for_each(|asked| self.extend(asked));
    }

    /// A look at the journal that began at `began` has found nothing after our position. Entries that were known to be
    /// there before are gone.
    pub fn found_nothing(&mut self, began: Millis) -> Option<Doubt> {
        let missed = self.ends.iter().rev().find(|end| end.known < began)?;
        let (end, asked) = (missed.at.clone(), missed.asked);
        let number = self.at.as_ref().map_or(0, |at| at.number);
        Some(self.restart(end, asked, Doubt::Gap(number)))
    }

    fn restart(&mut self, at: Position, asked: Millis, doubt: Doubt) -> Doubt {
        self.history = History::from(Some(at.clone()));
        self.at = Some(at);
        self.ends.clear();
        self.own.clear();
        self.extend(asked);
        doubt
    }

    fn extend(&mut self, asked: Millis) {
        self.lease = self.lease.max(asked + self.ttl);
    }
}

#[cfg(test)]
mod tests;
