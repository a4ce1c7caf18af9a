//! The one table from key to object: 256 parts, each behind a lock of its own that is held for a look and never while
//! an object is dropped or its bytes are copied. It knows nothing of queues, names or budgets.

use std::{
    mem::size_of,
    sync::{
        atomic::{AtomicU32, Ordering::Relaxed},
        Arc,
    },
};

use hashbrown::HashTable;
use parking_lot::RwLock;

use super::{
    queues::{Place, Queue, Relocation},
    Key,
};

const PARTS: usize = 256;
/// An object counts as used at most so often (S3-FIFO's two bits).
const MAX_USES: u32 = 3;
const USES: u32 = 0b11;
const MAIN: u32 = 0b100;
const SLOT_SHIFT: u32 = 3;
/// Slots have to stay below this: what `state` has bits for.
pub(super) const SLOTS: u32 = 1 << (32 - SLOT_SHIFT);

/// An object in its place: 32 bytes.
pub(super) struct TableEntry<T> {
    pub key: Key,
    pub object: Arc<T>,
    /// Weight in units of 16 bytes, as it was when the object came.
    pub units: u32,
    /// Slot, queue, and the uses since the queue last asked. Readers change the uses only.
    state: AtomicU32,
}

impl<T> TableEntry<T> {
    pub fn place(&self) -> Place {
        let state = self.state.load(Relaxed);
        Place { slot: state >> SLOT_SHIFT, queue: if state & MAIN == 0 { Queue::Small } else { Queue::Main } }
    }

    fn is_in(&self, slot: u32) -> bool {
        self.state.load(Relaxed) >> SLOT_SHIFT == slot
    }

    /// Counts a use. A use that is lost to another thread's is no loss.
    fn used(&self) {
        let state = self.state.load(Relaxed);
        if state & USES < MAX_USES {
            let _ = self.state.compare_exchange(state, state + 1, Relaxed, Relaxed);
        }
    }
}

/// Bits for a part, apart from those that the table uses (the lowest, and the highest seven).
fn part_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTS
}

// The key is a random number already: no second hash.
fn rehash<T>(held: &TableEntry<T>) -> u64 {
    held.key.hash()
}

pub(super) struct Lookup<T> {
    parts: Box<[Part<T>]>,
}

/// On cache lines of its own, so that threads at different parts do not disturb each other.
#[repr(align(64))]
struct Part<T>(RwLock<HashTable<TableEntry<T>>>);

/// What a table gained or lost in size, in bytes.
pub(super) type Growth = i64;

impl<T> Lookup<T> {
    /// Bytes of an empty one.
    pub const FIXED: usize = PARTS * size_of::<Part<T>>();

    pub fn new() -> Self {
        Lookup { parts: (0..PARTS).map(|_| Part(RwLock::new(HashTable::new()))).collect() }
    }

    fn read<R>(&self, hash: u64, look: impl FnOnce(&HashTable<TableEntry<T>>) -> R) -> R {
        look(&self.parts[part_of(hash)].0.read())
    }

    fn write<R>(&self, hash: u64, change: impl FnOnce(&mut HashTable<TableEntry<T>>) -> R) -> R {
        change(&mut self.parts[part_of(hash)].0.write())
    }

    pub fn get(&self, key: Key) -> Option<Arc<T>> {
        self.read(key.hash(), |table| {
            let held = table.find(key.hash(), |held| held.key == key)?;
            held.used();
            Some(held.object.clone())
        })
    }

    pub fn peek(&self, key: Key) -> Option<Arc<T>> {
        self.read(key.hash(), |table| table.find(key.hash(), |held| held.key == key).map(|held| held.object.clone()))
    }

    /// Adds what is not there yet.
    pub fn add(&self, key: Key, object: Arc<T>, units: u32, place: Place) -> Growth {
        let main = if place.queue == Queue::Main { MAIN } else { 0 };
        let held = TableEntry { key, object, units, state: AtomicU32::new(place.slot << SLOT_SHIFT | main) };
        self.write(key.hash(), |table| {
            let before = table.allocation_size();
            table.insert_unique(key.hash(), held, rehash);
            table.allocation_size() as Growth - before as Growth
        })
    }

    /// Puts another object in the same place: the one before with its units and its place.
    pub fn replace(&self, key: Key, object: &Arc<T>, units: u32) -> Option<(Arc<T>, u32, Place)> {
        self.write(key.hash(), |table| {
            let held = table.find_mut(key.hash(), |held| held.key == key)?;
            let before = std::mem::replace(&mut held.object, object.clone());
            Some((before, std::mem::replace(&mut held.units, units), held.place()))
        })
    }

    /// Takes the object of this key out, if it is the `wanted` one.
    pub fn take(&self, key: Key, wanted: impl Fn(&Arc<T>) -> bool) -> Option<(TableEntry<T>, Growth)> {
        self.take_where(key.hash(), |held| held.key == key && wanted(&held.object))
    }

    pub fn take_slot(&self, hash: u64, slot: u32) -> Option<(TableEntry<T>, Growth)> {
        self.take_where(hash, |held| held.is_in(slot))
    }

    fn take_where(&self, hash: u64, found: impl Fn(&TableEntry<T>) -> bool) -> Option<(TableEntry<T>, Growth)> {
        self.write(hash, |table| {
            let before = table.allocation_size();
            let (held, _) = table.find_entry(hash, found).ok()?.remove();
            // Half of what would make it grow again, so that it does not go to and fro.
            if table.len() < table.capacity() / 4 {
                table.shrink_to(table.len() * 2, rehash);
            }
            Some((held, table.allocation_size() as Growth - before as Growth))
        })
    }

    /// Forgets one use of the object; its units, if there was one.
    pub fn spend_use(&self, hash: u64, slot: u32) -> Option<u32> {
        self.read(hash, |table| {
            let held = table.find(hash, |held| held.is_in(slot))?;
            (held.state.load(Relaxed) & USES > 0).then(|| {
                // Only the holder of the ledger takes uses away, so there still is one.
                held.state.fetch_sub(1, Relaxed);
                held.units
            })
        })
    }

    /// Forgets all uses of the object, which from now on is of the main queue; its units, if there was a use.
    pub fn promote_used(&self, hash: u64, slot: u32) -> Option<u32> {
        self.write(hash, |table| {
            let held = table.find_mut(hash, |held| held.is_in(slot))?;
            let used = *held.state.get_mut() & USES > 0;
            used.then(|| {
                *held.state.get_mut() = slot << SLOT_SHIFT | MAIN;
                held.units
            })
        })
    }

    /// Tells an object its new slot.
    pub fn renumber(&self, Relocation { hash, from, to }: Relocation) {
        self.write(hash, |table| {
            if let Some(held) = table.find_mut(hash, |held| held.is_in(from)) {
                let state = held.state.get_mut();
                *state = to << SLOT_SHIFT | *state & (USES | MAIN);
            }
        });
    }

    /// Empties all; what was in it is for the caller to drop where it holds up nobody.
    pub fn take_all(&self) -> Vec<HashTable<TableEntry<T>>> {
        self.parts.iter().map(|part| std::mem::take(&mut *part.0.write())).collect()
    }

    /// What is there now, a part at a time; no lock is held while the caller looks.
    pub fn slices(&self) -> impl Iterator<Item = Vec<(Key, Arc<T>)>> + '_ {
        self.parts.iter().map(|part| {
            let table = part.0.read();
            table.iter().map(|held| (held.key, held.object.clone())).collect()
        })
    }

    #[cfg(test)]
    pub fn table_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.0.read().allocation_size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_costs_what_the_design_says() {
        assert_eq!(size_of::<TableEntry<String>>(), 32);
    }
}
