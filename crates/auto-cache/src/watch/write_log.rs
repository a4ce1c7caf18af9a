//! The writes that were told: those under way, and the last ones that are done. It says whether a page, which was asked for at
//! some moment, may be from before one of them. Moments are numbers of a sequence; it reads no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::effects::{Read, Write};

/// Writes that are remembered when they are done. A request that began before all of these counts as one that they touch.
const MAX_DONE: usize = 2048;
/// Writes under way: each thread of an application has one at most.
const MAX_OPEN: usize = 4096;
/// Bytes of what is remembered of all of them. One beyond counts as a change of everything.
const MAX_BYTES: usize = 8 << 20;

/// What was changed.
#[derive(Debug, Default)]
pub struct Changes {
    pub write: Write,
    /// Of Rails.cache. None: any.
    pub keys: Option<BTreeSet<String>>,
    /// Bytes in which it was told.
    pub bytes: usize,
}

impl Changes {
    pub fn of_rows(write: Write) -> Changes {
        Changes { write, keys: Some(BTreeSet::new()), bytes: 0 }
    }

    /// Of everything: it takes no room.
    fn of_all() -> Changes {
        Changes { write: Write { everything: true, changes: Vec::new() }, keys: None, bytes: 0 }
    }

    #[cfg(test)]
    fn of_keys(keys: Option<BTreeSet<String>>) -> Changes {
        Changes { write: Write::default(), keys, bytes: 0 }
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
    /// Of all.
    bytes: usize,
}

impl WriteLog {
    /// Err: more are under way than an application can have.
    pub fn begin(&mut self, id: Id, changes: Changes) -> Result<(), ()> {
        if self.open.len() >= MAX_OPEN {
            return Err(());
        }
        let changes = if self.bytes + changes.bytes > MAX_BYTES { Changes::of_all() } else { changes };
        self.bytes += changes.bytes;
        let before = self.open.insert(id, changes);
        self.bytes -= before.map_or(0, |before| before.bytes);
        Ok(())
    }

    /// It was done at `moment`. False: it was not under way.
    pub fn end(&mut self, id: &Id, moment: u64) -> bool {
        let Some(changes) = self.open.remove(id) else { return false };
        self.bytes -= changes.bytes;
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
        self.bytes += changes.bytes;
        self.done.push_back((moment, changes));
        if self.done.len() > MAX_DONE {
            if let Some((moment, changes)) = self.done.pop_front() {
                self.forgotten = moment;
                self.bytes -= changes.bytes;
            }
        }
    }

    /// Nobody knows what was written before `moment`.
    pub fn forget(&mut self, moment: u64) {
        self.bytes -= self.done.drain(..).map(|(_, changes)| changes.bytes).sum::<usize>();
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
    fn what_is_remembered_has_a_bound_and_beyond_it_everything_counts() {
        let mut told = WriteLog::default();
        let small = |nth: usize| {
            let keys = Some(BTreeSet::from([nth.to_string()]));
            Changes { keys, bytes: 1 << 20, ..Changes::default() }
        };
        let others = BTreeSet::from([String::from("other")]);
        for nth in 0..8 {
            told.begin((1, nth.to_string()), small(nth)).unwrap();
        }
        assert!(!told.unsettles(5, &Read::default(), &others));
        told.begin((1, "8".into()), small(8)).unwrap();
        assert!(told.unsettles(5, &Read::default(), &others) && told.bytes == MAX_BYTES);
        for nth in 0..9 {
            assert!(told.end(&(1, nth.to_string()), 6));
        }
        assert_eq!(told.bytes, MAX_BYTES, "they are remembered");
        told.forget(7);
        assert_eq!(told.bytes, 0);
        told.begin((1, "9".into()), small(9)).unwrap();
        told.begin((1, "9".into()), small(9)).unwrap();
        assert!(told.bytes == 1 << 20 && told.lost(1, 8));
        (0..=MAX_DONE as u64).for_each(|nth| told.add(nth + 9, Changes::default()));
        assert_eq!(told.bytes, 0);
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
