//! What a Ruby process tells of its own memory: the frame MEMORY (docs/worker-protocol.md).
//! It never asks for it.

use super::fields;

/// One answer. What a Ruby does not count is 0 or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RubyHeap {
    /// Slots of the heap: places for objects.
    pub slots: u64,
    /// Those with an object in it, or with garbage that is not swept yet.
    pub live: u64,
    pub free: u64,
    pub old_objects: u64,
    pub pools: Vec<Pool>,
    /// Bytes that were asked of malloc since the last collection, and since the last full one.
    pub malloc: u64,
    pub old_malloc: u64,
    /// Objects ever.
    pub allocated: u64,
    pub minor_collections: u64,
    pub major_collections: u64,
    /// Microseconds of collecting, and of life, since the fork.
    pub collecting: u64,
    pub life: u64,
    /// Bytes of compiled code. None: there is no compiler at work.
    pub yjit: Option<u64>,
}

/// Slots of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Bytes of a slot.
    pub size: u64,
    pub slots: u64,
    /// None: this Ruby does not count it by size.
    pub live: Option<u64>,
}

/// Sizes of slots that are looked at; Ruby has five.
const MAX_POOLS: usize = 16;

impl RubyHeap {
    pub fn parse(payload: &[u8]) -> RubyHeap {
        let mut heap = RubyHeap::default();
        for (name, value) in fields::pairs(payload) {
            let text = String::from_utf8_lossy(value);
            let number = text.parse::<u64>().ok();
            let field = match name {
                b"slots" => &mut heap.slots,
                b"live" => &mut heap.live,
                b"free" => &mut heap.free,
                b"old" => &mut heap.old_objects,
                b"malloc" => &mut heap.malloc,
                b"oldmalloc" => &mut heap.old_malloc,
                b"allocated" => &mut heap.allocated,
                b"minor" => &mut heap.minor_collections,
                b"major" => &mut heap.major_collections,
                b"gc_us" => &mut heap.collecting,
                b"since_us" => &mut heap.life,
                b"yjit" => {
                    heap.yjit = number;
                    continue;
                }
                b"pools" => {
                    heap.pools = text.split(' ').filter_map(Pool::parse).take(MAX_POOLS).collect();
                    continue;
                }
                _ => continue,
            };
            *field = number.unwrap_or(0);
        }
        heap
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> u64 {
        self.pools.iter().map(|pool| pool.size.saturating_mul(pool.slots)).fold(0, u64::saturating_add)
    }

    /// Share of its life since the fork that went into collecting garbage, 0 to 1.
    pub fn collecting_share(&self) -> f64 {
        (self.collecting as f64 / self.life.max(1) as f64).min(1.0)
    }
}

impl Pool {
    fn parse(text: &str) -> Option<Pool> {
        let mut parts = text.split(':');
        let (size, slots) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Pool { size, slots, live: parts.next()?.parse().ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> RubyHeap {
        let mut payload = Vec::new();
        pairs.iter().for_each(|(name, value)| fields::put_pair(&mut payload, name, value));
        RubyHeap::parse(&payload)
    }

    #[test]
    fn what_a_ruby_tells() {
        let pools = "40:1000:800 80:500: nonsense 9:9 160:1:1";
        let heap =
            told(&[("slots", "1501"), ("live", "900"), ("gc_us", "250"), ("since_us", "1000"), ("pools", pools)]);
        assert_eq!((heap.slots, heap.live, heap.free), (1501, 900, 0));
        assert_eq!((heap.pools.len(), heap.pools[1].live), (3, None));
        assert_eq!((heap.bytes(), heap.collecting_share()), (40_000 + 40_000 + 160, 0.25));
    }

    #[test]
    fn what_makes_no_sense_does_no_harm() {
        let heap = told(&[("slots", "-1"), ("yjit", ""), ("pools", "18446744073709551615:2:"), ("gc_us", "9")]);
        assert_eq!((heap.slots, heap.yjit, heap.bytes(), heap.collecting_share()), (0, None, u64::MAX, 1.0));
        assert_eq!(RubyHeap::parse(b"\0\0\0a"), RubyHeap::default());
    }
}
