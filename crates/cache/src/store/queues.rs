//! The two queues of S3-FIFO as doubly linked lists in one slab without holes, so that whatever leaves the cache early
//! leaves its queue and its memory at once. It knows objects only by their slot and the hash under which the lookup
//! finds them.

use std::mem::size_of;

use super::{allocated, lookup::SLOTS};

/// Nodes are allocated so many at a time: nothing large is ever copied to grow.
const CHUNK: usize = 256;
const NONE: u32 = u32::MAX;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Queue {
    /// Newcomers: a tenth of all, through which a scan passes.
    Small,
    /// What has been used since it came.
    Main,
}

/// The object that was in slot `from` is in slot `to` now.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Relocation {
    pub hash: u64,
    pub from: u32,
    pub to: u32,
}

/// Where an object is queued.
#[derive(Copy, Clone)]
pub(super) struct Place {
    pub slot: u32,
    pub queue: Queue,
}

#[derive(Copy, Clone)]
struct Node {
    hash: u64,
    before: u32,
    after: u32,
}

struct List {
    head: u32,
    tail: u32,
    units: u64,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, units: 0 };
}

pub(super) struct Queues {
    chunks: Vec<Vec<Node>>,
    len: u32,
    lists: [List; 2],
}

impl Queues {
    pub fn new() -> Self {
        Queues { chunks: Vec::new(), len: 0, lists: [List::EMPTY, List::EMPTY] }
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn is_full(&self) -> bool {
        self.len + 1 >= SLOTS
    }

    /// Bytes that the lists themselves take.
    pub fn bytes(&self) -> u64 {
        let chunk = allocated(CHUNK * size_of::<Node>()) + size_of::<Vec<Node>>();
        (self.chunks.len() * chunk) as u64
    }

    /// Weight of the queue's objects, in units of 16 bytes.
    pub fn units(&self, queue: Queue) -> u64 {
        self.lists[queue as usize].units
    }

    /// The oldest of the queue: its slot and hash.
    pub fn oldest(&self, queue: Queue) -> Option<(u32, u64)> {
        let head = self.lists[queue as usize].head;
        (head != NONE).then(|| (head, self.node(head).hash))
    }

    /// Gives a slot at the queue's young end.
    pub fn push(&mut self, queue: Queue, hash: u64, units: u32) -> u32 {
        let slot = self.len;
        if slot as usize == self.chunks.len() * CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[slot as usize / CHUNK].push(Node { hash, before: NONE, after: NONE });
        self.len += 1;
        self.link(queue, slot, units);
        slot
    }

    /// Takes a slot away. The last one takes its number, of which whoever knows it has to be told.
    pub fn remove(&mut self, Place { slot, queue }: Place, units: u32) -> Option<Relocation> {
        self.unlink(queue, slot, units);
        self.len -= 1;
        let from = self.len;
        let node = self.chunks[from as usize / CHUNK].pop()?;
        // One empty chunk stays, so that a slot to and fro does not allocate.
        let chunks = (from as usize).div_ceil(CHUNK) + 1;
        self.chunks.truncate(if from == 0 { 0 } else { chunks });
        if from == slot {
            return None;
        }
        *self.node_mut(slot) = node;
        match node.before {
            NONE => self.lists.iter_mut().filter(|list| list.head == from).for_each(|list| list.head = slot),
            before => self.node_mut(before).after = slot,
        }
        match node.after {
            NONE => self.lists.iter_mut().filter(|list| list.tail == from).for_each(|list| list.tail = slot),
            after => self.node_mut(after).before = slot,
        }
        Some(Relocation { hash: node.hash, from, to: slot })
    }

    /// To the young end of `to`, with the same slot.
    pub fn move_to(&mut self, from: Queue, to: Queue, slot: u32, units: u32) {
        self.unlink(from, slot, units);
        self.link(to, slot, units);
    }

    pub fn change_units(&mut self, queue: Queue, before: u32, after: u32) {
        let units = &mut self.lists[queue as usize].units;
        *units = *units - u64::from(before) + u64::from(after);
    }

    fn link(&mut self, queue: Queue, slot: u32, units: u32) {
        let list = &mut self.lists[queue as usize];
        list.units += u64::from(units);
        let before = std::mem::replace(&mut list.tail, slot);
        if before == NONE {
            list.head = slot;
        } else {
            self.node_mut(before).after = slot;
        }
        let node = self.node_mut(slot);
        (node.before, node.after) = (before, NONE);
    }

    fn unlink(&mut self, queue: Queue, slot: u32, units: u32) {
        let Node { before, after, .. } = *self.node(slot);
        match before {
            NONE => self.lists[queue as usize].head = after,
            _ => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.lists[queue as usize].tail = before,
            _ => self.node_mut(after).before = before,
        }
        self.lists[queue as usize].units -= u64::from(units);
    }

    fn node(&self, slot: u32) -> &Node {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queues: &mut Queues, queue: Queue) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some((slot, hash)) = queues.oldest(queue) {
            found.push(hash);
            queues.remove(Place { slot, queue }, 1);
        }
        found
    }

    #[test]
    fn first_in_is_first_out_and_the_middle_can_leave() {
        let mut queues = Queues::new();
        let mut slots: Vec<_> = (0..3000).map(|n| queues.push(Queue::Small, n, 1)).collect();
        for n in [0, 1500, 2999] {
            let moved = queues.remove(Place { slot: slots[n], queue: Queue::Small }, 1);
            if let Some(Relocation { hash, from, to }) = moved {
                assert_eq!(std::mem::replace(&mut slots[hash as usize], to), from);
            }
        }
        queues.move_to(Queue::Small, Queue::Main, slots[7], 1);
        queues.move_to(Queue::Main, Queue::Main, slots[7], 1);
        assert_eq!((queues.units(Queue::Small), queues.units(Queue::Main), queues.len()), (2996, 1, 2997));
        let left = drain(&mut queues, Queue::Small);
        assert_eq!(left, (0..3000).filter(|n| ![0, 7, 1500, 2999].contains(n)).collect::<Vec<_>>());
        assert_eq!(drain(&mut queues, Queue::Main), [7]);
        assert_eq!(queues.bytes(), 0, "an empty one has given its memory back");
    }

    #[test]
    fn there_are_no_holes() {
        let mut queues = Queues::new();
        for n in 0..10 * CHUNK as u64 {
            queues.push(if n % 5 == 0 { Queue::Main } else { Queue::Small }, n, 1);
        }
        assert_eq!(drain(&mut queues, Queue::Small).len(), 8 * CHUNK);
        assert_eq!(queues.chunks.len(), 3);
        assert!(drain(&mut queues, Queue::Main).is_sorted());
    }
}
