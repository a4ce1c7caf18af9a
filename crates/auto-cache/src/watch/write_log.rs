//! The writes that were told: those under way, and the last ones that are done. It says whether a page, which was asked for at
//! some moment, may be from before one of them. Moments are numbers of a sequence; it reads no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::effects::{Read, Write};

/// Writes that are remembered when they are done. A request that began before all of these counts as one that they touch.
const MAX_DONE: usize = 2048;
/// Writes under way: each thread of an application has one at most.
const MAX_OPEN: usize = 4096;

/// What was changed.
#[derive(Debug, Default)]
pub struct Changes {
    pub write: Write,
    /// Of Rails.cache. None: any.
    pub keys: Option<BTreeSet<String>>,
}

impl Changes {
    pub fn of_rows(write: Write) -> Changes {
        Changes { write, keys: Some(BTreeSet::new()) }
    }

    #[cfg(test)]
    fn of_keys(keys: Option<BTreeSet<String>>) -> Changes {
        Changes { write: Write::default(), keys }
    }

    pub fn touch(&self, read: &Read, keys: &BTreeSet<String>) -> bool {
        let key = match &self.keys {
            None => !keys.is_empty(),
            Some(own) => !own.is_disjoint(keys),
        };
        key || self.write.touches(read)
    }
}

/// Which process told it, and its own number for it.
pub type Id = (u64, String);

#[derive(Debug, Default)]
pub struct WriteLog {
    open: BTreeMap<Id, Changes>,
    /// In the order in which they were done.
    done: VecDeque<(u64, Changes)>,
    /// When the last one was done that is not remembered.
    forgotten: u64,
}

impl WriteLog {
    /// Err: more are under way than an application can have.
    pub fn begin(&mut self, id: Id, changes: Changes) -> Result<(), ()> {
        if self.open.len() >= MAX_OPEN {
            return Err(());
        }
        self.open.insert(id, changes);
        Ok(())
    }

    /// It was done at `moment`. False: it was not under way.
    pub fn end(&mut self, id: &Id, moment: u64) -> bool {
        let Some(changes) = self.open.remove(id) else { return false };
        self.add(moment, changes);
        true
    }

    /// The schema is about to be another one: what is under way may change more than it said.
    pub fn widen(&mut self) {
        let rows = self.open.values_mut().filter(|changes| !changes.write.is_empty());
        rows.for_each(|changes| changes.write.everything = true);
    }

    /// The process is gone: what it had begun may have happened. False: it had begun nothing.
    pub fn lost(&mut self, process: u64, moment: u64) -> bool {
        let ids: Vec<Id> = self.open.keys().filter(|(own, _)| *own == process).cloned().collect();
        ids.iter().filter(|id| self.end(id, moment)).count() > 0
    }

    /// One that is done when it is told.
    pub fn add(&mut self, moment: u64, changes: Changes) {
        self.done.push_back((moment, changes));
        if self.done.len() > MAX_DONE {
            self.forgotten = self.done.pop_front().map_or(self.forgotten, |(moment, _)| moment);
        }
    }

    /// Nobody knows what was written before `moment`.
    pub fn forget(&mut self, moment: u64) {
        self.done.clear();
        self.forgotten = moment;
    }

    pub fn has_begun(&self, process: u64) -> bool {
        self.open.keys().any(|(own, _)| *own == process)
    }

    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// What was read from `began` on may be from before a write.
    pub fn unsettles(&self, began: u64, read: &Read, keys: &BTreeSet<String>) -> bool {
        let since = self.done.iter().rev().take_while(|(moment, _)| *moment > began).map(|(_, changes)| changes);
        began < self.forgotten || self.open.values().chain(since).any(|changes| changes.touch(read, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Changes {
        Changes::of_rows(Write { everything: true, changes: Vec::new() })
    }

    fn read() -> Read {
        Read { everything: true, ..Read::default() }
    }

    #[test]
    fn a_write_counts_from_its_beginning_until_requests_began_after_it() {
        let (mut told, keys) = (WriteLog::default(), BTreeSet::new());
        assert!(!told.unsettles(5, &read(), &keys));
        told.begin((1, "a".into()), everything()).unwrap();
        assert!(told.unsettles(5, &read(), &keys), "under way");
        assert!(told.end(&(1, "a".into()), 6) && !told.end(&(1, "a".into()), 7));
        assert!(told.unsettles(5, &read(), &keys), "it began before the write was done");
        assert!(!told.unsettles(6, &read(), &keys));
        told.begin((1, "b".into()), everything()).unwrap();
        assert!(!told.lost(2, 7) && told.lost(1, 8) && !told.lost(1, 9));
        assert!(told.unsettles(7, &read(), &keys) && !told.unsettles(8, &read(), &keys));
    }

    #[test]
    fn keys_of_a_cache() {
        let keys = BTreeSet::from([String::from("posts")]);
        let touches = |changes: Changes| changes.touch(&Read::default(), &keys);
        assert!(touches(Changes::of_keys(None)) && touches(Changes::of_keys(Some(keys.clone()))));
        assert!(!touches(Changes::of_keys(Some(BTreeSet::from([String::from("tags")])))));
        assert!(!Changes::of_keys(None).touch(&read(), &BTreeSet::new()));
    }

    #[test]
    fn what_is_not_remembered_counts_as_touched() {
        let mut told = WriteLog::default();
        (0..=MAX_DONE as u64).for_each(|nth| told.add(nth + 1, Changes::default()));
        assert!(told.unsettles(0, &Read::default(), &BTreeSet::new()));
        assert!(!told.unsettles(2, &Read::default(), &BTreeSet::new()));
        for nth in 0..MAX_OPEN {
            told.begin((1, nth.to_string()), Changes::default()).unwrap();
        }
        assert!(told.begin((1, "more".into()), Changes::default()).is_err());
    }
}
