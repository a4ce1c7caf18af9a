//! Looking for an answer that comes soon, instead of sleeping: for a client that sends one request after the other, what takes longest is that the
//! kernel wakes one process after the other. An event loop spins only when it has nothing else to do and one request in hand, for a bounded time,
//! and the less often the more often it was in vain. It never reads or writes anything itself.

use std::{
    cell::RefCell,
    task::Waker,
    time::{Duration, Instant},
};

use crate::support::event_loops;

/// How long a loop spins for an answer, at most.
const SPIN_TIME: Duration = Duration::from_micros(50);
/// How many answers are waited for asleep after a spin that was in vain, at most. A worker's thread has the same
/// number (gem/ext/paceline_native/socket.c).
const MOST_SKIPPED: u32 = 63;

/// What an event loop knows of its spins.
#[derive(Default)]
struct Spins {
    /// Conversations with workers whose answers have not begun.
    conversations: u32,
    /// The task that has begun to wait for an answer since the loop last had nothing to do.
    expected: Option<Waker>,
    /// The loop has nothing else to do, and the task that `expected` named is to spin.
    turn: bool,
    /// So many answers are waited for asleep.
    skip: u32,
    /// So many more after the next spin that is in vain.
    next_skip: u32,
}

thread_local! {
    static SPINS: RefCell<Spins> = RefCell::default();
}

/// A conversation of this event loop whose answer has not begun.
pub struct WaitingConversation(());

impl WaitingConversation {
    pub fn begin() -> WaitingConversation {
        SPINS.with_borrow_mut(|spins| spins.conversations += 1);
        event_loops::note_given();
        WaitingConversation(())
    }
}

impl Drop for WaitingConversation {
    fn drop(&mut self) {
        // A task that is dropped with its loop may be dropped by another thread, or after the thread's own data.
        let _ = SPINS.try_with(|spins| {
            let mut spins = spins.borrow_mut();
            spins.conversations = spins.conversations.saturating_sub(1);
        });
    }
}

/// The task of this waker has sent a request, and its answer is expected soon.
pub fn expect(waker: &Waker) {
    // Dropped when nothing is borrowed any more: that may drop a task, and its conversation.
    drop(SPINS.with_borrow_mut(|spins| spins.expected.replace(waker.clone())));
}

/// The event loop has nothing to do: a task that expects an answer is given the turn to spin for it.
pub fn before_park() {
    let waker = SPINS.with_borrow_mut(|spins| {
        spins.turn = spins.expected.is_some() && spins.conversations == 1 && spins.skip == 0;
        if !spins.turn && spins.expected.is_some() {
            spins.skip = spins.skip.saturating_sub(1);
        }
        spins.expected.take().map(|waker| (waker, spins.turn))
    });
    if let Some((waker, true)) = waker {
        waker.wake();
    }
}

/// Calls `look` until it finds something, if the caller was given the turn; None: it was not, or the time has passed. Whatever else wants the
/// processor gets it meanwhile, and then the time is over, too: what is found after it would have been heard of earlier asleep.
pub fn spin<T>(look: impl FnMut() -> Option<T>) -> Option<T> {
    spin_for(SPIN_TIME, look)
}

fn spin_for<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    if !SPINS.with_borrow_mut(|spins| std::mem::take(&mut spins.turn)) {
        return None;
    }
    let end = Instant::now() + time;
    let (found, in_vain) = loop {
        let found = look();
        let is_late = Instant::now() >= end;
        if found.is_some() || is_late {
            break (found, is_late);
        }
        std::thread::yield_now();
    };
    SPINS.with_borrow_mut(|spins| {
        if in_vain {
            spins.skip = spins.next_skip;
            spins.next_skip = (spins.next_skip * 2 + 1).min(MOST_SKIPPED);
        } else {
            spins.next_skip = 0;
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    };

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(600);

    /// Whether a task that expects an answer gets the turn; `in_time`: whether it finds one before the time has passed.
    fn spins(in_time: bool) -> bool {
        let woken = Arc::new(Woken::default());
        expect(&woken.clone().into());
        before_park();
        let mut looked = false;
        let found = spin_for(if in_time { LONG } else { Duration::ZERO }, || {
            looked = true;
            Some(())
        });
        assert_eq!(found.is_some(), looked);
        assert_eq!(woken.0.load(Relaxed), usize::from(looked));
        looked
    }

    #[test]
    fn a_spin_that_is_in_vain_is_made_less_and_less_often() {
        let _one = WaitingConversation::begin();
        assert!((0..100).all(|_| spins(true)));
        let of_1000 = (0..1000).filter(|_| spins(false)).count();
        assert!((15..30).contains(&of_1000), "{of_1000}");
        // And again when they find what they look for.
        assert!((0..=MOST_SKIPPED).any(|_| spins(true)));
        assert!((0..100).all(|_| spins(true)));
    }

    #[test]
    fn only_a_loop_with_one_request_conversations_spins() {
        assert!(!spins(true));
        let one = WaitingConversation::begin();
        assert!(spins(true));
        let other = WaitingConversation::begin();
        assert!(!spins(true));
        drop(one);
        assert!(spins(true));
        drop(other);
        assert!(!spins(true));
    }

    #[test]
    fn an_answer_that_comes_too_late_is_not_looked_for_long() {
        let _one = WaitingConversation::begin();
        expect(std::task::Waker::noop());
        before_park();
        assert_eq!(spin_for(Duration::ZERO, || None::<()>), None);
    }

    #[test]
    fn nobody_spins_without_a_turn_and_each_turn_is_for_one_spin() {
        assert_eq!(spin(|| Some(1)), None);
        let _one = WaitingConversation::begin();
        assert!(spins(true));
        assert_eq!(spin(|| Some(1)), None);
        before_park();
        assert_eq!(spin(|| Some(1)), None);
    }
}
