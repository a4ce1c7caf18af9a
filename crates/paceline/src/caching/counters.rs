//! What the cache of a site did, counted by RFC 9211's words, and which paths it could have answered but for a header.
//! It never decides anything.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use cache::status::{CacheStatus, Forward, Reason};
use parking_lot::Mutex;

/// Counts since the site began.
#[derive(Default)]
pub struct Counters {
    hits: AtomicU64,
    /// Hits that were stale.
    stale: AtomicU64,
    collapsed: AtomicU64,
    stored: AtomicU64,
    forwarded: [AtomicU64; Forward::ALL.len()],
    reasons: [AtomicU64; Reason::ALL.len()],
    /// Requests that could not be stored, by path: all at first, then a sample.
    missed: Mutex<HashMap<(Box<str>, Reason), u64>>,
    seen: AtomicU64,
}

/// A path whose answers were not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedPath {
    pub path: String,
    pub reason: Reason,
    /// About so many requests.
    pub requests: u64,
}

/// After so many only one in `SAMPLED` is looked at.
const ALL_OF: u64 = 1000;
const SAMPLED: u64 = 8;

/// For how many the request of this number stands; 0: it is not looked at. Not each eighth: requests come in turns.
fn weight(number: u64) -> u64 {
    if number < ALL_OF {
        return 1;
    }
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    if mixed % SAMPLED == 0 {
        SAMPLED
    } else {
        0
    }
}

/// Paths that are told apart; when there are more, the rare ones make room.
const MAX_PATHS: usize = 512;
/// Query strings and endless paths are not kept.
const LONGEST_PATH: usize = 200;

impl Counters {
    pub fn count(&self, status: &CacheStatus, path: &str) {
        if status.hit {
            self.hits.fetch_add(1, Relaxed);
        }
        if status.ttl.is_some_and(|ttl| ttl < 0) {
            self.stale.fetch_add(1, Relaxed);
        }
        if status.collapsed {
            self.collapsed.fetch_add(1, Relaxed);
        }
        if status.stored {
            self.stored.fetch_add(1, Relaxed);
        }
        // A stale response that stands in for an error is a hit, and no request counts as both.
        if let Some(forward) = status.forward.filter(|_| !status.hit) {
            self.forwarded[forward as usize].fetch_add(1, Relaxed);
        }
        if let Some(reason) = status.reason {
            self.reasons[reason as usize].fetch_add(1, Relaxed);
            let weight = if reason.advice().is_some() { weight(self.seen.fetch_add(1, Relaxed)) } else { 0 };
            if weight > 0 {
                self.miss(path, reason, weight);
            }
        }
    }

    fn miss(&self, path: &str, reason: Reason, weight: u64) {
        let end = (0..=LONGEST_PATH.min(path.len())).rev().find(|end| path.is_char_boundary(*end)).unwrap_or(0);
        let mut missed = self.missed.lock();
        *missed.entry((path[..end].into(), reason)).or_default() += weight;
        if missed.len() > MAX_PATHS {
            // Half of what was counted is forgotten, and with it what was counted once.
            missed.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
    }

    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Requests that went to the origin, by why; and all counts that are not zero, by name.
    pub fn all(&self) -> Vec<(String, u64)> {
        let named = |prefix: &str, word: &str, count: &AtomicU64| (format!("{prefix}{word}"), count.load(Relaxed));
        let mut all = vec![
            named("", "hit", &self.hits),
            named("", "stale", &self.stale),
            named("", "collapsed", &self.collapsed),
            named("", "stored", &self.stored),
        ];
        all.extend(
            Forward::ALL.iter().map(|forward| named("fwd=", forward.as_str(), &self.forwarded[*forward as usize])),
        );
        all.extend(Reason::ALL.iter().map(|reason| named("detail=", reason.as_str(), &self.reasons[*reason as usize])));
        all.retain(|(_, count)| *count > 0);
        all
    }

    /// The `most` paths that were missed most, with what stopped them.
    pub fn top_missed(&self, most: usize) -> Vec<MissedPath> {
        let missed = self.missed.lock();
        let mut all: Vec<_> = missed
            .iter()
            .map(|((path, reason), count)| MissedPath { path: path.to_string(), reason: *reason, requests: *count })
            .collect();
        all.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.path.cmp(&b.path)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all_also_of_requests_that_come_in_turns() {
        for turn in 0..8 {
            let counted: u64 = (0..100_000).filter(|number| number % 8 == turn).map(weight).sum();
            assert!((11_000..14_000).contains(&counted), "{turn}: {counted}");
        }
    }
}
