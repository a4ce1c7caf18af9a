//! Remembers the hashes of what lately left the small queue unused, so that who comes again goes to the main queue at
//! once. It holds no objects.

use std::{collections::VecDeque, mem::size_of};

use hashbrown::HashTable;

/// Each part is small, so that none takes long to grow.
const PARTS: usize = 256;

#[derive(Default)]
struct Part {
    known: HashTable<u64>,
    /// Oldest first. May name what is no longer known.
    order: VecDeque<u64>,
}

impl Part {
    fn bytes(&self) -> u64 {
        (self.known.allocation_size() + self.order.capacity() * size_of::<u64>()) as u64
    }
}

pub(super) struct Ghosts {
    parts: Box<[Part]>,
    bytes: u64,
}

impl Ghosts {
    /// Bytes of an empty one.
    pub const FIXED: usize = PARTS * size_of::<Part>();

    pub fn new() -> Self {
        Ghosts { parts: (0..PARTS).map(|_| Part::default()).collect(), bytes: 0 }
    }

    /// Bytes beyond [`Self::FIXED`].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Remembers a hash, and about `most` in all.
    pub fn add(&mut self, hash: u64, most: usize) {
        self.change(hash, |part| {
            part.known.entry(hash, |known| *known == hash, |known| *known).or_insert(hash);
            part.order.push_back(hash);
            // Two at a time, so that it gets smaller where `most` did.
            for _ in 0..2 {
                if part.order.len() > 1 + most / PARTS {
                    let oldest = part.order.pop_front().unwrap_or_default();
                    let _ = part.known.find_entry(oldest, |known| *known == oldest).map(|entry| entry.remove());
                }
            }
            if part.order.len() < part.order.capacity() / 4 {
                part.order.shrink_to(part.order.len() * 2);
                part.known.shrink_to(part.order.len() * 2, |known| *known);
            }
        });
    }

    /// Whether it was remembered; it no longer is.
    pub fn take(&mut self, hash: u64) -> bool {
        self.change(hash, |part| {
            part.known.find_entry(hash, |known| *known == hash).map(|entry| entry.remove()).is_ok()
        })
    }

    fn change<R>(&mut self, hash: u64, change: impl FnOnce(&mut Part) -> R) -> R {
        let part = &mut self.parts[(hash >> 48) as usize % PARTS];
        let before = part.bytes();
        let result = change(part);
        self.bytes = self.bytes - before + part.bytes();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_youngest_and_forgets_who_came_back() {
        let mut ghosts = Ghosts::new();
        let hash = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for n in 0..100_000 {
            ghosts.add(hash(n), 10_000);
        }
        let mut known = |from, to| (from..to).filter(|n| ghosts.take(hash(*n))).count();
        assert_eq!(known(0, 80_000), 0);
        let recent = known(80_000, 100_000);
        assert!((9_000..11_000).contains(&recent), "{recent}");
        assert_eq!(known(0, 100_000), 0);
    }

    #[test]
    fn gets_smaller_with_the_cache() {
        let mut ghosts = Ghosts::new();
        let hash = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (0..200_000).for_each(|n| ghosts.add(hash(n), 100_000));
        let full = ghosts.bytes();
        (200_000..500_000).for_each(|n| ghosts.add(hash(n), 1_000));
        assert!(ghosts.bytes() < full / 10, "{full} -> {}", ghosts.bytes());
    }
}
