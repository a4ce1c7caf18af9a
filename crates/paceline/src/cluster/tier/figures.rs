//! What the tier of shared pages has done, counted. It decides nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::cluster::Millis;
use serde_json::{json, Value};

/// Counts since the server began.
#[derive(Default)]
pub(super) struct Figures {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub bytes_read: AtomicU64,
    pub writes: AtomicU64,
    pub bytes_written: AtomicU64,
    pub errors: AtomicU64,
    pub skipped: AtomicU64,
    pub late: AtomicU64,
}

/// The figures at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierFigures {
    /// Requests that were answered by a page of another front.
    pub hits: u64,
    /// Those for which there was none.
    pub misses: u64,
    pub bytes_read: u64,
    /// Pages that were stored.
    pub writes: u64,
    pub bytes_written: u64,
    /// Questions without an answer, or without one in time.
    pub errors: u64,
    /// Requests for which it was not asked.
    pub skipped: u64,
    /// Pages that came after a later one, and were not stored.
    pub late: u64,
    /// For how long it is skipped yet.
    pub open_for: Millis,
    /// How often that began.
    pub opened: u64,
}

impl Figures {
    pub fn read(&self, open_for: Millis, opened: u64) -> TierFigures {
        let of = |count: &AtomicU64| count.load(Relaxed);
        TierFigures {
            hits: of(&self.hits),
            misses: of(&self.misses),
            bytes_read: of(&self.bytes_read),
            writes: of(&self.writes),
            bytes_written: of(&self.bytes_written),
            errors: of(&self.errors),
            skipped: of(&self.skipped),
            late: of(&self.late),
            open_for,
            opened,
        }
    }
}

impl TierFigures {
    pub fn to_json(self) -> Value {
        let TierFigures { hits, misses, bytes_read, writes, bytes_written, errors, skipped, late, open_for, opened } =
            self;
        json!({
            "hits": hits, "misses": misses, "bytes_read": bytes_read, "writes": writes, "bytes_written": bytes_written,
            "errors": errors, "skipped": skipped, "late": late, "open_for_ms": open_for, "opened": opened,
        })
    }
}
