//! Whether and when a side process that has ended is started again. Pure: how it ended and how long it lived are
//! arguments. It never starts anything.

use std::time::Duration;

use crate::{apps::reaper::Exit, config::Restart};

/// One that lived longer is not in trouble: the pauses begin anew.
const LONG_LIFE: Duration = Duration::from_secs(30);
/// The first pause; each that follows is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is remembered of the lives of one process.
#[derive(Debug)]
pub struct Policy {
    restart: Restart,
    /// Short lives one after another.
    short: u32,
}

impl Policy {
    pub fn new(restart: Restart) -> Policy {
        Policy { restart, short: 0 }
    }

    /// The pause before it is started again; None: it is not. `exit`: None where it could not be started at all.
    pub fn after(&mut self, exit: Option<Exit>, lived: Duration) -> Option<Duration> {
        let again = match self.restart {
            Restart::Always => true,
            Restart::OnFailure => exit != Some(Exit::Status(0)),
            Restart::Never => false,
        };
        self.short = if lived >= LONG_LIFE { 0 } else { self.short + 1 };
        let doublings = self.short.saturating_sub(1).min(5);
        again.then(|| (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE))
    }

    /// Another release is started: what was wrong may be mended.
    pub fn forget(&mut self) {
        self.short = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_until_it_lives() {
        let mut policy = Policy::new(Restart::Always);
        let mut pause = |lived| policy.after(Some(Exit::Status(0)), lived).unwrap().as_secs();
        assert_eq!((0..7).map(|_| pause(SHORT)).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!([pause(LONG_LIFE), pause(SHORT), pause(SHORT)], [1, 1, 2]);
        policy.forget();
        assert_eq!(policy.after(None, Duration::ZERO), Some(FIRST_PAUSE));
    }

    #[test]
    fn who_is_started_again() {
        let fine = Some(Exit::Status(0));
        for (restart, exit, again) in [
            (Restart::Always, fine, true),
            (Restart::OnFailure, fine, false),
            (Restart::OnFailure, Some(Exit::Status(1)), true),
            (Restart::OnFailure, Some(Exit::Signal(9)), true),
            (Restart::OnFailure, None, true),
            (Restart::Never, Some(Exit::Signal(9)), false),
        ] {
            assert_eq!(Policy::new(restart).after(exit, SHORT).is_some(), again, "{restart:?} {exit:?}");
        }
    }
}
