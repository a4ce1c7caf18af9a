//! When the disk's part is tried again after it was given up: after a minute, then at longer intervals, and only where the
//! disk has more room than the file had. It never reads a clock, and never touches a file.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Between two attempts, if a purge of everything asks for one.
const AT_LEAST: Duration = Duration::from_secs(1);

/// What is known of attempts to begin again.
#[derive(Debug, Default)]
pub struct Recovery {
    pause: Duration,
    /// It is off until then.
    due: Option<Instant>,
    /// It is off since, or was tried.
    tried: Option<Instant>,
    /// It is on again since.
    since: Option<Instant>,
    /// Bytes that have to be free before it is tried.
    needed: u64,
}

impl Recovery {
    /// It was given up. `needed`: bytes that have to be free before it is worth an attempt. Returns when that is looked at.
    pub fn off(&mut self, now: Instant, needed: u64) -> Duration {
        let lasted = self.since.take().is_some_and(|since| now.saturating_duration_since(since) >= LONGEST);
        if lasted {
            self.pause = Duration::ZERO;
        }
        self.needed = needed;
        self.put_off(now);
        self.pause
    }

    /// An attempt has failed, or was not worth one.
    pub fn put_off(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(FIRST, LONGEST);
        self.due = Some(now + self.pause);
        self.tried = Some(now);
    }

    pub fn on(&mut self, now: Instant) {
        self.due = None;
        self.since = Some(now);
    }

    /// Somebody wants it tried now.
    pub fn hurry(&mut self, now: Instant) {
        let may = self.tried.is_none_or(|tried| now.saturating_duration_since(tried) >= AT_LEAST);
        if self.due.is_some() && may {
            self.due = Some(now);
            // If that fails, the next one of its own accord is no later for it.
            self.pause /= 2;
        }
    }

    /// When it is tried, if it is off and can come back.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub fn needed(&self) -> u64 {
        self.needed
    }

    #[cfg(test)]
    pub fn bring_forward(&mut self) {
        assert!(self.due.is_some());
        self.due = Some(Instant::now());
    }

    #[cfg(test)]
    pub fn forget_last_attempt(&mut self) {
        self.tried = None;
    }
}

/// Bytes that have to be free for a new file, where the one before took `taken` of `size`: with as much as that one had, the
/// disk would be full at the same point again.
pub fn needed(taken: u64, size: u64) -> u64 {
    (taken + taken / 8).max(size / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_further_and_further_apart_until_it_has_gone_well_for_long() {
        let start = Instant::now();
        let mut recovery = Recovery::default();
        assert!(!recovery.is_due(start) && recovery.due().is_none());
        assert_eq!(recovery.off(start, 7), FIRST);
        assert_eq!(recovery.needed(), 7);
        assert!(!recovery.is_due(start + FIRST - AT_LEAST) && recovery.is_due(start + FIRST));
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            now = recovery.due().unwrap();
            recovery.put_off(now);
            pauses.push((recovery.due().unwrap() - now).as_secs());
        }
        assert_eq!(pauses, [120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        // Back for a moment only.
        recovery.on(now);
        assert!(recovery.due().is_none());
        assert_eq!(recovery.off(now + LONGEST - AT_LEAST, 7), LONGEST);
        recovery.on(now);
        assert_eq!(recovery.off(now + LONGEST, 7), FIRST);
    }

    #[test]
    fn who_wants_it_now_has_it_tried_once_a_second() {
        let start = Instant::now();
        let mut recovery = Recovery::default();
        recovery.hurry(start);
        assert!(!recovery.is_due(start + LONGEST), "it is not off");
        recovery.off(start, 0);
        recovery.hurry(start);
        assert!(!recovery.is_due(start));
        let now = start + AT_LEAST;
        recovery.hurry(now);
        assert!(recovery.is_due(now));
        recovery.put_off(now);
        assert_eq!(recovery.due(), Some(now + FIRST));
        recovery.hurry(now);
        assert!(!recovery.is_due(now));
    }

    #[test]
    fn a_disk_that_has_only_the_old_files_room_is_not_worth_an_attempt() {
        assert_eq!(needed(800, 1600), 900);
        assert_eq!(needed(0, 1600), 200);
    }
}
