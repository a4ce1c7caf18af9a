//! What the guard of a connection and the service that answers its requests tell each other. It never reads or writes a
//! byte.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::SeqCst},
        Arc, OnceLock,
    },
    task::{Context, Waker},
};

use parking_lot::Mutex;

use crate::strict::Refusal;

/// What guard and service tell each other.
#[derive(Debug, Default)]
pub struct MessageTracker {
    /// Requests that the service has seen, and those whose answers are done.
    seen: AtomicU64,
    /// Heads that have come whole.
    pub(crate) heads: AtomicU64,
    pub(crate) done: AtomicU64,
    /// The request of this number stands for a refused message.
    pub(crate) refused: OnceLock<(u64, Refusal)>,
    pub(crate) protocol: AtomicU8,
    /// The client wants no answer after this one.
    pub(crate) last: AtomicBool,
    /// A client that closes its side waits for its answer all the same.
    pub(crate) half_close: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

pub(crate) const UNKNOWN: u8 = 0;
pub(crate) const KEPT: u8 = 1;
pub(crate) const CHANGED: u8 = 2;

impl MessageTracker {
    /// The service has got a request: whether it stands for a refused message. The turn ends when it is dropped.
    pub fn begin(self: &Arc<MessageTracker>) -> (Option<Refusal>, MessageTurn) {
        let number = self.seen.fetch_add(1, SeqCst);
        let refusal = self.refused.get().filter(|(refused, _)| *refused == number).map(|(_, refusal)| *refusal);
        (refusal, MessageTurn(self.clone()))
    }

    /// The answer to a request for another protocol is known.
    pub fn protocol(&self, changed: bool) {
        self.protocol.store(if changed { CHANGED } else { KEPT }, SeqCst);
        let waker = self.reader.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether a further request has come than those the service has seen.
    pub fn has_more(&self) -> bool {
        self.heads.load(SeqCst) > self.seen.load(SeqCst)
    }

    /// Whether all that has come whole is answered, and more may come.
    pub fn is_between(&self) -> bool {
        let done = self.done.load(SeqCst);
        done > 0 && done == self.heads.load(SeqCst) && !self.last.load(SeqCst)
    }

    /// After the answer to this request the connection ends.
    pub fn is_last(&self) {
        self.last.store(true, SeqCst);
    }

    /// Whether the client may close its side after this request, and waits for the answer.
    pub fn may_half_close(&self, may: bool) {
        self.half_close.store(may, SeqCst);
    }

    pub(crate) fn wait(&self, cx: &Context<'_>) {
        *self.reader.lock() = Some(cx.waker().clone());
    }
}

/// A request whose answer is not done.
#[derive(Debug)]
pub struct MessageTurn(Arc<MessageTracker>);

impl Drop for MessageTurn {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, SeqCst);
    }
}
