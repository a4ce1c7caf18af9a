//! Deadlines after a stall: time in which the front itself did not run (see `http_guard::stall`).

pub use http_guard::stall::{GRACE, STALL};
use tokio::time::Instant;

/// Puts deadlines off for a moment, if a stall has made one of them due; false if not.
pub fn hear_out(now: Instant, deadlines: [&mut Option<Instant>; 2]) -> bool {
    let held_up = |at: Instant| now.saturating_duration_since(at) >= STALL;
    let stalled = deadlines.iter().any(|at| at.is_some_and(held_up));
    if stalled {
        deadlines.into_iter().flatten().for_each(|at| *at = (*at).max(now + GRACE));
    }
    stalled
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_stall_has_made_due_is_put_off() {
        let now = Instant::now() + Duration::from_secs(60);
        let (due, stalled, later) = (now - Duration::from_millis(999), now - STALL, now + Duration::from_secs(9));
        let (mut soft, mut hard) = (Some(due), None);
        assert!(!hear_out(now, [&mut soft, &mut hard]) && soft == Some(due), "on time");
        (soft, hard) = (Some(stalled), Some(later));
        assert!(hear_out(now, [&mut soft, &mut hard]));
        assert_eq!((soft, hard), (Some(now + GRACE), Some(later)));
    }
}
