//! What became of a site's Ruby processes, counted.
//! It never decides what becomes of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a worker was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// It ended by itself, or was killed by somebody else.
    Crash,
    /// A request took longer than `app_hard_timeout`, or its channel broke.
    Broken,
    /// It used more memory than it may.
    Memory,
    /// It had answered as many requests as one may.
    MaxRequests,
}

impl Restart {
    pub const ALL: [Restart; 4] = [Restart::Crash, Restart::Broken, Restart::Memory, Restart::MaxRequests];

    pub fn as_str(self) -> &'static str {
        match self {
            Restart::Crash => "crash",
            Restart::Broken => "broken",
            Restart::Memory => "memory",
            Restart::MaxRequests => "max-requests",
        }
    }
}

/// Counts since the server began.
#[derive(Debug, Default)]
pub struct Processes {
    restarts: [AtomicU64; Restart::ALL.len()],
    ready: AtomicU64,
    failed: AtomicU64,
}

impl Processes {
    pub fn restarted(&self, why: Restart) {
        self.restarts[why as usize].fetch_add(1, Relaxed);
    }

    /// A generation has become ready, or has not.
    pub fn started(&self, ready: bool) {
        let count = if ready { &self.ready } else { &self.failed };
        count.fetch_add(1, Relaxed);
    }

    pub fn restarts(&self, why: Restart) -> u64 {
        self.restarts[why as usize].load(Relaxed)
    }

    /// Generations that became ready, and those that did not.
    pub fn generations(&self) -> (u64, u64) {
        (self.ready.load(Relaxed), self.failed.load(Relaxed))
    }
}
