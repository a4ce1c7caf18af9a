//! The memory that all bodies together may take while they wait for a client or a worker. What finds no room goes to a
//! file. It never holds a body itself.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

/// The bodies of this process.
pub static BODIES: Budget = Budget::new(256 << 20);

/// A number of bytes, and how many of them are taken.
pub struct Budget {
    used: AtomicUsize,
    limit: AtomicUsize,
}

/// Bytes that are taken until this is dropped.
pub struct BufferLease {
    budget: &'static Budget,
    bytes: usize,
}

impl Budget {
    pub const fn new(limit: usize) -> Budget {
        Budget { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
    }

    pub fn allow(&self, limit: usize) {
        self.limit.store(limit, Relaxed);
    }

    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// None: there is no room for so many.
    pub fn take(&'static self, bytes: usize) -> Option<BufferLease> {
        let limit = self.limit.load(Relaxed);
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used.fetch_update(Relaxed, Relaxed, room).ok()?;
        Some(BufferLease { budget: self, bytes })
    }

    /// These bytes, which count until the last reference to them is gone. Err: there is no room for them.
    pub fn hold(&'static self, bytes: Bytes) -> Result<Bytes, Bytes> {
        match self.take(bytes.len()) {
            Some(held) => Ok(Bytes::from_owner(CountedBytes { bytes, _held: held })),
            None => Err(bytes),
        }
    }
}

impl BufferLease {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more; false: there is no room for it.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Some(more) = self.budget.take(bytes) else { return false };
        self.bytes += bytes;
        std::mem::forget(more);
        true
    }
}

impl Drop for BufferLease {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// Gives memory that nobody uses back to the system: the allocator keeps it otherwise. Takes milliseconds.
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: it takes a number and touches nothing but the allocator's own lists, under its own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

struct CountedBytes {
    bytes: Bytes,
    _held: BufferLease,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_the_last_reference_is_gone() {
        static BUDGET: Budget = Budget::new(10);
        let held = BUDGET.hold(Bytes::from_static(b"abcdef")).unwrap();
        let slice = held.slice(2..4);
        assert_eq!(BUDGET.hold(Bytes::from_static(b"ghijk")), Err(Bytes::from_static(b"ghijk")));
        drop(held);
        assert_eq!((BUDGET.used(), &slice[..]), (6, &b"cd"[..]));
        drop(slice);
        let mut taken = BUDGET.take(4).unwrap();
        assert!(taken.grow(6) && !taken.grow(1) && BUDGET.take(usize::MAX).is_none());
        drop(taken);
        assert_eq!(BUDGET.used(), 0);
    }
}
