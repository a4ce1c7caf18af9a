//! The page cache's storage in memory: keeps objects within a budget of bytes, finds them by key, drops them by URL,
//! prefix or tag. Pure: it reads no clock and does no IO, and it knows nothing of HTTP.
//!
//! # Eviction
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), over one budget for all:
//! newcomers pass through a small queue of a tenth of all and enter the main queue only if they were used meanwhile, or
//! come back soon after they left. So a crawler, which asks for each page once, evicts other newcomers and little else;
//! and a hit writes at most two bits, with no list to reorder.
//!
//! It is written out here instead of taken from a crate. `quick_cache` 0.7 is the closest; on the trace in the tests it
//! hits as often (0.57, 0.39 and 0.20 of the requests at 0, 30 and 60 % crawled; here 0.56, 0.39 and 0.22; LRU 0.47,
//! 0.29 and 0.14), but
//! - its own tables are outside its budget and never get smaller: 66 MB beside a budget of 256 MB that 1.3 million
//!   objects of 200 bytes had filled;
//! - what comes while there is room counts as used: these 1.3 million stayed, never asked for, while 100,000 others
//!   passed;
//! - the budget is divided among its shards, and the index by URL and tag has to change in one step with what is
//!   stored, so that all writers need one lock around it anyway.
//!
//! `moka` evicts from a log of writes, some time after them, so that a budget in bytes holds only on average.
//!
//! # Locks
//!
//! A hit takes the read lock of one of 256 parts of the table, for one look. Whatever changes the contents holds the
//! one lock of the ledger, and within it the write lock of one part at a time. Purges and a smaller budget do so in
//! slices, and objects are dropped when no lock is held. Nothing but these methods runs under a lock: of the object's,
//! only `url` and `tags`.

mod allocated;
mod ghosts;
mod ledger;
mod lookup;
mod names;
mod purges;
mod queues;
#[cfg(test)]
mod tests;

use std::sync::{
    atomic::{AtomicU64, Ordering},
    Arc,
};

use parking_lot::{Mutex, MutexGuard};

pub use self::{allocated::allocated, purges::Moment};
use self::{ledger::Ledger, lookup::Lookup, purges::What};

/// Objects that are purged or evicted under one hold of the ledger's lock.
const SLICE: usize = 128;

/// What is kept. URL, tags and weight never change while it is stored: what changes is inserted anew.
pub trait Object: Send + Sync + 'static {
    /// Bytes that the allocator gave for it ([`allocated`]): body, header fields, names, its own struct within its
    /// `Arc`; not the index.
    fn weight(&self) -> usize;

    /// The URL it answers, after the site's name; all variants of a URL share it.
    fn url(&self) -> &Arc<str>;

    /// Its tags (Surrogate-Key, Cache-Tag, Cache-Groups), made unique for each site by whoever makes it.
    fn tags(&self) -> &[Arc<str>];

    /// Called when it is purged softly: it has to be validated before it is used again. Called without a lock, perhaps
    /// more than once, perhaps when it has just been replaced.
    fn expire(&self);

    /// Whether purges count it; what leads to others, or was made from them, goes with them uncounted.
    fn counts(&self) -> bool {
        true
    }
}

/// 128 bits of a keyed hash, all of them random: nobody outside can make two that are the same.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Key(pub u128);

impl Key {
    fn hash(self) -> u64 {
        self.0 as u64
    }
}

/// What a purge does with what it finds.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum How {
    /// Drops it.
    Drop,
    /// Marks it stale ([`Object::expire`]) and leaves it in its place.
    Expire,
}

/// What became of an object that was handed in.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Insertion {
    /// It is stored, in the place of what had its key.
    Stored,
    /// It would take more than an eighth of the budget. What had its key is dropped, since this one has superseded it.
    TooLarge,
    /// Something like it was purged after its moment, or may have been: not stored. What has its key stays.
    Purged,
}

/// Figures of one moment.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Usage {
    /// Bytes of objects and index together, as the allocator sees them. Never more than `budget`; an empty store has
    /// 33 KB, and below 256 KB nothing is stored.
    pub bytes: u64,
    /// Of these, bytes of objects.
    pub object_bytes: u64,
    /// Objects stored.
    pub objects: u64,
    /// Bytes allowed.
    pub budget: u64,
    /// Objects stored so far, replacements included.
    pub inserted: u64,
    /// Objects that made room for others so far.
    pub evicted: u64,
    /// Objects that purges dropped or marked stale so far.
    pub purged: u64,
    /// Objects that were too large so far.
    pub refused: u64,
    /// Objects that came after their purge so far ([`Insertion::Purged`]).
    pub late: u64,
}

/// The storage. See the [module](self).
pub struct Store<T> {
    lookup: Lookup<T>,
    ledger: Mutex<Ledger>,
    moment: AtomicU64,
}

impl<T: Object> Store<T> {
    /// An empty store for at most `budget` bytes, everything counted: objects, keys, names, queues and hash tables.
    pub fn new(budget: u64) -> Self {
        Store { lookup: Lookup::new(), ledger: Mutex::new(Ledger::new(budget)), moment: AtomicU64::new(0) }
    }

    /// The object of this key, which counts as used.
    pub fn get(&self, key: Key) -> Option<Arc<T>> {
        self.lookup.get(key)
    }

    /// The object of this key, for who only wants to look.
    pub fn peek(&self, key: Key) -> Option<Arc<T>> {
        self.lookup.peek(key)
    }

    /// The moment now. Take it before a response is asked for, and hand it to [`Self::insert_since`] with the response.
    pub fn moment(&self) -> Moment {
        Moment(self.moment.load(Ordering::SeqCst))
    }

    /// Whether something of this URL was purged after the moment, or may have been: of what is not there yet nobody
    /// knows the tags. `own`: its one tag among those of single visitors, whose names begin with a control
    /// character.
    pub fn may_be_purged_since(&self, moment: Moment, url: &str, own: Option<&str>) -> bool {
        moment != self.moment() && self.ledger().purges.may_be_purged_since(moment, url, own)
    }

    /// Stores an object that is true at the time of the call: a purge that begins later drops it.
    pub fn insert(&self, key: Key, object: Arc<T>) -> Insertion {
        self.insert_since(key, object, self.moment())
    }

    /// Stores an object that was asked for at `moment`, unless something like it was purged since. The last 512 purges
    /// are remembered; an object that was under way for longer is not stored.
    pub fn insert_since(&self, key: Key, object: Arc<T>, moment: Moment) -> Insertion {
        let weight = object.weight() as u64;
        let mut gone = Vec::new();
        let inserted = self.ledger().insert(&self.lookup, key, object, weight, moment, &mut gone);
        // The guard is gone with its statement; what it displaced goes here.
        drop(gone);
        inserted
    }

    /// Whether something of this URL with these tags was purged after the moment, or may have been.
    pub fn purged_since(&self, moment: Moment, url: &str, tags: &[Arc<str>]) -> bool {
        self.ledger().purges.purged_since(moment, url, tags)
    }

    /// Takes the object of this key out.
    pub fn remove(&self, key: Key) -> Option<Arc<T>> {
        self.ledger().remove(&self.lookup, key, |_| true)
    }

    /// Takes the object of this key out if it is this very one. Whether it was.
    pub fn remove_if_same(&self, key: Key, object: &Arc<T>) -> bool {
        let removed = self.ledger().remove(&self.lookup, key, |found| Arc::ptr_eq(found, object));
        removed.is_some()
    }

    /// Purges exactly this URL in all its variants. How many there were.
    ///
    /// As with all purges: what was stored before the call is purged when it returns; the time it takes is in
    /// proportion to what it finds, so call it where that may be long.
    pub fn purge_url(&self, url: &str, how: How) -> usize {
        self.purge(&What::Url(url.into()), how)
    }

    /// Purges all with this tag. How many there were.
    pub fn purge_tag(&self, tag: &str, how: How) -> usize {
        self.purge(&What::Tag(tag.into()), how)
    }

    /// Purges all whose URL begins so. How many there were.
    pub fn purge_prefix(&self, prefix: &str, how: How) -> usize {
        self.purge(&What::Prefix(prefix.into()), how)
    }

    /// Purges everything. How many there were.
    pub fn purge_all(&self, how: How) -> usize {
        match how {
            How::Drop => {
                let mut ledger = self.ledger();
                self.note(&mut ledger, &What::All);
                let (tables, gone) = ledger.take_all(&self.lookup);
                drop(ledger);
                drop(gone);
                tables.iter().flatten().filter(|held| held.object.counts()).count()
            }
            How::Expire => {
                let mut ledger = self.ledger();
                self.note(&mut ledger, &What::All);
                drop(ledger);
                let (mut seen, mut count) = (0, 0);
                for slice in self.lookup.slices() {
                    slice.iter().for_each(|(_, object)| object.expire());
                    seen += slice.len();
                    count += slice.iter().filter(|(_, object)| object.counts()).count();
                }
                self.ledger().count_purged(seen);
                count
            }
        }
    }

    /// Stores nothing any more that was asked for earlier, and leaves what is stored.
    pub fn refuse_earlier(&self) {
        self.note(&mut self.ledger(), &What::All);
    }

    /// Likewise of what has a URL that begins so.
    pub fn refuse_earlier_of(&self, prefix: &str) {
        self.note(&mut self.ledger(), &What::Prefix(prefix.into()));
    }

    fn purge(&self, what: &What, how: How) -> usize {
        let (mut count, mut last, mut first) = (0, None, true);
        loop {
            let mut found = Vec::with_capacity(SLICE);
            let mut ledger = self.ledger();
            if std::mem::take(&mut first) {
                self.note(&mut ledger, what);
            }
            let more = ledger.purge_slice(&self.lookup, what, how, &mut last, SLICE, &mut found);
            drop(ledger);
            if how == How::Expire {
                found.iter().for_each(|object| object.expire());
            }
            count += found.iter().filter(|object| object.counts()).count();
            if !more {
                return count;
            }
        }
    }

    /// From here on what was asked for earlier is refused; only then anything is dropped.
    fn note(&self, ledger: &mut Ledger, what: &What) {
        self.moment.store(ledger.purges.note(what).0, Ordering::SeqCst);
    }

    /// Allows more or fewer bytes; evicts until that holds.
    pub fn resize(&self, budget: u64) {
        self.ledger().budget = budget;
        loop {
            let mut gone = Vec::with_capacity(SLICE);
            let more = self.ledger().fit_slice(&self.lookup, SLICE, &mut gone);
            if !more {
                return;
            }
        }
    }

    /// The figures now.
    pub fn usage(&self) -> Usage {
        self.ledger().usage()
    }

    /// Shows all that is stored, in no order, a part of 256 at a time: what comes or goes meanwhile may be seen or not.
    /// No lock is held while `show` runs.
    pub fn each(&self, mut show: impl FnMut(Key, &Arc<T>)) {
        for slice in self.lookup.slices() {
            slice.iter().for_each(|(key, object)| show(*key, object));
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }
}
