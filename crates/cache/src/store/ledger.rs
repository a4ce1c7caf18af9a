//! All that has to agree when an object comes or goes: its queue, its names, the sums, the purges under way. One lock
//! holds it; a hit never touches it. What leaves is handed out, to be dropped when the lock is gone.

use std::sync::Arc;

use hashbrown::HashTable;

use super::{
    ghosts::Ghosts,
    lookup::{Growth, Lookup, TableEntry},
    names::{Match, Names, NAME},
    purges::{Moment, Purges, What},
    queues::{Place, Queue, Queues},
    How, Insertion, Key, Object, Usage,
};

/// Bytes of an empty store.
const FIXED: u64 = (Lookup::<()>::FIXED + Ghosts::FIXED) as u64;
/// What tables, queues and the memory of purges may take around a single object.
const MIN: u64 = 256 * 1024;

/// Weights are kept in units of this many bytes, rounded up: the allocator's own.
pub(super) const UNIT: u64 = 16;
/// The small queue's share of the objects' bytes is one of this many (the S3-FIFO paper's 10 %).
const SMALL_SHARE: u64 = 10;
/// An object may take one of this many of the budget.
const LARGEST_SHARE: u64 = 8;
/// So many used objects are moved on in search of one to evict; then one goes that may have been used. Else one
/// insertion into a cache where everything is in use would walk over all of it.
const MOVES: usize = 128;

pub(super) struct Ledger {
    pub budget: u64,
    /// Bytes of the lookup's tables.
    tables: u64,
    queues: Queues,
    ghosts: Ghosts,
    urls: Names,
    tags: Names,
    pub purges: Purges,
    evicted: u64,
    refused: u64,
    late: u64,
    inserted: u64,
    purged: u64,
}

impl Ledger {
    pub fn new(budget: u64) -> Self {
        Ledger {
            budget,
            tables: 0,
            queues: Queues::new(),
            ghosts: Ghosts::new(),
            urls: Names::default(),
            tags: Names::default(),
            purges: Purges::default(),
            evicted: 0,
            refused: 0,
            late: 0,
            inserted: 0,
            purged: 0,
        }
    }

    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes(),
            object_bytes: self.units() * UNIT,
            objects: self.queues.len() as u64,
            budget: self.budget,
            inserted: self.inserted,
            evicted: self.evicted,
            purged: self.purged,
            refused: self.refused,
            late: self.late,
        }
    }

    fn units(&self) -> u64 {
        self.queues.units(Queue::Small) + self.queues.units(Queue::Main)
    }

    fn bytes(&self) -> u64 {
        FIXED
            + self.units() * UNIT
            + self.tables
            + self.queues.bytes()
            + self.ghosts.bytes()
            + self.urls.bytes()
            + self.tags.bytes()
            + self.purges.bytes()
    }

    /// Stores an object that was asked for at `moment`. What it displaces comes into `gone`.
    pub fn insert<T: Object>(
        &mut self,
        lookup: &Lookup<T>,
        key: Key,
        object: Arc<T>,
        weight: u64,
        moment: Moment,
        gone: &mut Vec<Arc<T>>,
    ) -> Insertion {
        if self.purges.purged_since(moment, object.url(), object.tags()) {
            self.late += 1;
            gone.push(object);
            return Insertion::Purged;
        }
        let units = u32::try_from(weight.max(1).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let coming = u64::from(units) * UNIT + NAME * (1 + object.tags().len() as u64);
        if weight > self.budget / LARGEST_SHARE || coming + MIN > self.budget || units == u32::MAX {
            self.refused += 1;
            gone.push(object);
            gone.extend(self.remove(lookup, key, |_| true));
            return Insertion::TooLarge;
        }
        self.inserted += 1;
        if let Some((before, units_before, place)) = lookup.replace(key, &object, units) {
            self.queues.change_units(place.queue, units_before, units);
            self.rename(key, &*before, &*object);
            gone.push(before);
            self.fit(lookup, Some(key.hash()), gone);
            return Insertion::Stored;
        }
        let queue = if self.ghosts.take(key.hash()) { Queue::Main } else { Queue::Small };
        let coming_small = if queue == Queue::Small { u64::from(units) } else { 0 };
        while (self.bytes() + coming > self.budget || self.queues.is_full())
            && self.evict(lookup, coming_small, None, gone)
        {}
        let slot = self.queues.push(queue, key.hash(), units);
        self.urls.add(object.url(), key);
        object.tags().iter().for_each(|tag| self.tags.add(tag, key));
        let growth = lookup.add(key, object, units, Place { slot, queue });
        self.grown(growth);
        // The index may have grown more than that one place.
        self.fit(lookup, Some(key.hash()), gone);
        Insertion::Stored
    }

    fn rename(&mut self, key: Key, before: &impl Object, after: &impl Object) {
        if before.url() != after.url() {
            self.urls.remove(before.url(), key);
            self.urls.add(after.url(), key);
        }
        if before.tags() != after.tags() {
            before.tags().iter().for_each(|tag| self.tags.remove(tag, key));
            after.tags().iter().for_each(|tag| self.tags.add(tag, key));
        }
    }

    fn grown(&mut self, growth: Growth) {
        self.tables = self.tables.saturating_add_signed(growth);
    }

    fn fit<T: Object>(&mut self, lookup: &Lookup<T>, spare: Option<u64>, gone: &mut Vec<Arc<T>>) {
        while self.bytes() > self.budget && self.evict(lookup, 0, spare, gone) {}
    }

    /// Evicts at most `most` objects. Whether there is more to evict.
    pub fn fit_slice<T: Object>(&mut self, lookup: &Lookup<T>, most: usize, gone: &mut Vec<Arc<T>>) -> bool {
        while self.bytes() > self.budget && gone.len() < most {
            if !self.evict(lookup, 0, None, gone) {
                return false;
            }
        }
        self.bytes() > self.budget
    }

    /// Evicts one object, never the one with hash `spare`; `coming` units are about to join the small queue.
    fn evict<T: Object>(
        &mut self,
        lookup: &Lookup<T>,
        coming: u64,
        spare: Option<u64>,
        gone: &mut Vec<Arc<T>>,
    ) -> bool {
        for moves in 0.. {
            let tired = moves >= MOVES;
            let Some((queue, slot, hash)) = self.candidate(coming, spare, tired) else { return false };
            let used = match queue {
                _ if tired => None,
                Queue::Small => lookup.promote_used(hash, slot),
                Queue::Main => lookup.spend_use(hash, slot),
            };
            if let Some(units) = used {
                self.queues.move_to(queue, Queue::Main, slot, units);
                continue;
            }
            let Some((held, growth)) = lookup.take_slot(hash, slot) else { return false };
            if queue == Queue::Small {
                self.ghosts.add(hash, self.queues.len());
            }
            self.evicted += 1;
            gone.push(self.forget(lookup, held, growth));
            return true;
        }
        false
    }

    /// The oldest of the small queue while that is above its share (so that newcomers make room for newcomers), else of
    /// the main queue.
    fn candidate(&mut self, coming: u64, spare: Option<u64>, tired: bool) -> Option<(Queue, u32, u64)> {
        let share = (self.units() + coming) / SMALL_SHARE;
        let small_is_full = self.queues.units(Queue::Small) + coming > share;
        let mut oldest = |queue| {
            let (slot, hash) = self.queues.oldest(queue)?;
            if Some(hash) != spare {
                return Some((queue, slot, hash));
            }
            self.queues.move_to(queue, queue, slot, 0);
            self.queues.oldest(queue).filter(|(_, hash)| Some(*hash) != spare).map(|(slot, hash)| (queue, slot, hash))
        };
        match (oldest(Queue::Small), oldest(Queue::Main)) {
            (Some(small), _) if small_is_full && !tired => Some(small),
            (small, main) => main.or(small),
        }
    }

    pub fn remove<T: Object>(
        &mut self,
        lookup: &Lookup<T>,
        key: Key,
        wanted: impl Fn(&Arc<T>) -> bool,
    ) -> Option<Arc<T>> {
        let (held, growth) = lookup.take(key, wanted)?;
        Some(self.forget(lookup, held, growth))
    }

    /// Takes what has left the lookup out of all else.
    fn forget<T: Object>(&mut self, lookup: &Lookup<T>, held: TableEntry<T>, growth: Growth) -> Arc<T> {
        self.grown(growth);
        if let Some(moved) = self.queues.remove(held.place(), held.units) {
            lookup.renumber(moved);
        }
        self.urls.remove(held.object.url(), held.key);
        held.object.tags().iter().for_each(|tag| self.tags.remove(tag, held.key));
        held.object
    }

    /// One slice of a purge by name, from after `last` on: what matches comes into `found`. Whether there may be more.
    pub fn purge_slice<T: Object>(
        &mut self,
        lookup: &Lookup<T>,
        what: &What,
        how: How,
        last: &mut Option<(Arc<str>, Key)>,
        most: usize,
        found: &mut Vec<Arc<T>>,
    ) -> bool {
        let matching = match what {
            What::Url(name) => self.urls.slice(name, Match::Exact, last.as_ref(), most),
            What::Prefix(name) => self.urls.slice(name, Match::Prefix, last.as_ref(), most),
            What::Tag(name) => self.tags.slice(name, Match::Exact, last.as_ref(), most),
            What::All => Vec::new(),
        };
        for (_, key) in &matching {
            found.extend(match how {
                How::Drop => self.remove(lookup, *key, |_| true),
                How::Expire => lookup.peek(*key),
            });
        }
        let more = matching.len() == most;
        self.purged += matching.len() as u64;
        *last = matching.into_iter().last();
        more
    }

    /// Forgets everything at once: the tables, and what else is for the caller to drop.
    pub fn take_all<T>(&mut self, lookup: &Lookup<T>) -> (Vec<HashTable<TableEntry<T>>>, impl Sized) {
        self.purged += self.queues.len() as u64;
        self.tables = 0;
        let queues = std::mem::replace(&mut self.queues, Queues::new());
        let names = (std::mem::take(&mut self.urls), std::mem::take(&mut self.tags));
        (lookup.take_all(), (queues, names))
    }

    pub fn count_purged(&mut self, objects: usize) {
        self.purged += objects as u64;
    }

    /// Panics where the parts do not agree.
    #[cfg(test)]
    pub fn check<T: Object>(&self, lookup: &Lookup<T>) {
        let held: Vec<_> = lookup.slices().flatten().collect();
        assert_eq!(held.len(), self.queues.len(), "queued and held");
        assert_eq!(lookup.table_bytes() as u64, self.tables, "table bytes");
        let (mut tags, mut units) = (0, 0);
        for (key, object) in &held {
            assert!(self.urls.has(object.url(), *key), "{} is not in the index", object.url());
            let mut names = object.tags().to_vec();
            names.sort();
            names.dedup();
            tags += names.len();
            assert!(names.iter().all(|tag| self.tags.has(tag, *key)), "a tag is not in the index");
            units += (object.weight() as u64).max(1).div_ceil(UNIT);
        }
        assert_eq!(self.urls.len(), held.len(), "URLs without object");
        assert_eq!(self.tags.len(), tags, "tags without object");
        assert_eq!(self.units(), units, "weights");
        assert!(self.bytes() <= self.budget.max(FIXED), "{} of {}", self.bytes(), self.budget);
    }
}
