//! Ends a channel from outside of the request that uses it: a process that has died may have left its sockets to
//! another. It never closes a descriptor.

use std::{sync::Arc, task::Waker};

use parking_lot::Mutex;

/// Whether a channel has been hung up, shared by the channel and by those who may do it.
#[derive(Clone, Default)]
pub struct HangUp(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    done: bool,
    /// The request that waits for its answer.
    waiting: Option<Waker>,
}

impl HangUp {
    /// From now on the channel is at its end, when what it holds already has been read.
    pub fn hang_up(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.done = true;
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Whether both end the same channel.
    pub fn is(&self, other: &HangUp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether that has happened; if not, `waker` is woken when it does.
    pub fn is_done(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        if !state.done && !state.waiting.as_ref().is_some_and(|waiting| waiting.will_wake(waker)) {
            state.waiting = Some(waker.clone());
        }
        state.done
    }
}
