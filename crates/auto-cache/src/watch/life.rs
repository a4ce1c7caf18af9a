//! How far a route has come: it learns, is compared with the application, and then its pages may be shown. One difference that
//! nothing explains turns it off. It shows nothing by itself, and reads no clock.

use super::{unnamed::Across, MAX_TTL};

/// What the automatic page cache does with what it learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Counts alone.
    #[default]
    Watch,
    /// Counts, and turns off a route that differs.
    Verify,
    /// Routes that have proved to be right are shown.
    Serve,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Watch => "watch",
            Mode::Verify => "verify",
            Mode::Serve => "serve",
        }
    }
}

/// How pages may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// Milliseconds that a page is good for, whatever is written.
    pub max_ttl: u64,
    /// Of a million hits so many are asked of the application, and compared.
    pub sampled: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { mode: Mode::Watch, max_ttl: MAX_TTL, sampled: 10_000 }
    }
}

/// Comparisons in a row without a difference before a route's pages are shown.
pub const PROVEN: u64 = 300;
/// Comparisons without a difference for a route that was proven with this code before the server was started.
pub const PROVEN_AGAIN: u64 = PROVEN / 10;
/// Visitors whose requests they have to be, at least.
pub const VISITORS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage<'a> {
    /// Nothing could be compared yet.
    Learning,
    /// This many comparisons in a row were equal.
    Verifying(u64),
    /// It could be shown, and the mode does not.
    Ready,
    Serving,
    /// Why.
    Off(&'a str),
}

impl Stage<'_> {
    pub fn as_str(&self) -> &'static str {
        match self {
            Stage::Learning => "learning",
            Stage::Verifying(_) => "verifying",
            Stage::Ready => "ready",
            Stage::Serving => "serving",
            Stage::Off(_) => "off",
        }
    }
}

/// One route's.
#[derive(Debug, Default)]
pub struct Life {
    /// Comparisons in a row without a difference, with this load of the code.
    equal: u64,
    /// Whose requests these were: some of them, up to those that are needed.
    visitors: Vec<u64>,
    /// Between which values of what its records do not name it was equal.
    pub(super) across: Across,
    /// It was proven with this code before.
    is_remembered: bool,
    off: Option<String>,
}

impl Life {
    /// True: now it is proven.
    pub(super) fn was_equal(&mut self, visitor: u64) -> bool {
        let was_proven = self.is_proven();
        self.equal += 1;
        if self.visitors.len() < VISITORS && !self.visitors.contains(&visitor) {
            self.visitors.push(visitor);
        }
        !was_proven && self.is_proven()
    }

    pub(super) fn remember(&mut self) {
        self.is_remembered = true;
    }

    /// Comparisons that it needs.
    pub fn needed(&self) -> u64 {
        if self.is_remembered {
            PROVEN_AGAIN
        } else {
            PROVEN
        }
    }

    pub fn is_proven(&self) -> bool {
        self.off.is_none() && self.equal >= self.needed() && self.visitors.len() >= VISITORS
    }

    /// Begins from nothing. What turned it off stays.
    pub(super) fn restart(&mut self) {
        self.equal = 0;
        self.visitors.clear();
        self.across = Across::default();
        self.is_remembered = false;
    }

    pub(super) fn turn_off(&mut self, why: &str) {
        self.restart();
        self.off = Some(why.to_owned());
    }

    pub(super) fn turn_on(&mut self) {
        self.restart();
        self.off = None;
    }

    pub fn is_off(&self) -> bool {
        self.off.is_some()
    }

    pub fn visitors(&self) -> usize {
        self.visitors.len()
    }

    pub fn stage(&self, mode: Mode) -> Stage<'_> {
        match (&self.off, self.equal, self.is_proven(), mode) {
            (Some(why), ..) => Stage::Off(why),
            (None, 0, ..) => Stage::Learning,
            (None, equal, false, _) => Stage::Verifying(equal),
            (None, _, true, Mode::Serve) => Stage::Serving,
            (None, _, true, _) => Stage::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_shown_after_comparisons_of_two_visitors() {
        let mut life = Life::default();
        assert_eq!(life.stage(Mode::Serve), Stage::Learning);
        assert!((0..PROVEN).all(|_| !life.was_equal(1)));
        assert_eq!(life.stage(Mode::Serve), Stage::Verifying(PROVEN), "of one visitor alone");
        assert!(life.was_equal(2) && !life.was_equal(2));
        assert_eq!((life.stage(Mode::Serve), life.stage(Mode::Verify)), (Stage::Serving, Stage::Ready));
        life.restart();
        assert_eq!(life.stage(Mode::Serve), Stage::Learning, "another load of the code");
        life.turn_off("differs");
        assert!((0..=PROVEN).all(|nth| !life.was_equal(nth)));
        assert_eq!(life.stage(Mode::Serve), Stage::Off("differs"));
        life.turn_on();
        assert_eq!(life.stage(Mode::Serve), Stage::Learning);
    }

    #[test]
    fn what_was_proven_before_needs_a_tenth() {
        let mut life = Life::default();
        life.remember();
        assert!((2..PROVEN_AGAIN).all(|nth| !life.was_equal(nth)));
        assert_eq!((life.stage(Mode::Serve), life.needed()), (Stage::Verifying(28), 30));
        assert!(!life.was_equal(1) && life.was_equal(1));
        assert_eq!(life.stage(Mode::Serve), Stage::Serving);
        life.restart();
        assert_eq!(life.needed(), PROVEN);
    }
}
