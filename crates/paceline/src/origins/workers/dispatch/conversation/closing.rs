//! What is left when the answer is known: the thread runs `body.close` and callbacks, and then is free. If that takes
//! long, another thread takes its place. It never touches the answer.

use std::io;

use tokio::time::timeout;

use super::{progress, ticks_to_release, Conversation};
use crate::origins::workers::protocol::frame::FromWorker;

impl Conversation {
    /// The response is complete: when the thread is idle too, the next request may have it.
    pub(super) fn finish(mut self: Box<Self>, busy: bool) {
        self.end_body();
        self.lease.channel().forget_cancel();
        let counted = self.request.counters.get();
        self.lease.allocated = counted.map_or(0, |counted| counted.allocated);
        self.lease.app_time = counted.map(|counted| counted.app_finished.saturating_sub(counted.app_started));
        if busy || !self.lease.channel().drained() {
            tokio::spawn(self.end(busy));
        } else {
            self.lease.give_back();
        }
    }

    async fn end(mut self: Box<Self>, busy: bool) {
        if busy {
            match self.idle().await {
                Ok(FromWorker::Idle) => {}
                Ok(_) => return,
                Err(error) => return self.broken(&error),
            }
        }
        while !self.lease.channel().drained() {
            if let Err(error) = progress(&mut self.lease).await {
                return self.broken(&error);
            }
        }
        self.lease.give_back();
    }

    /// The frame after an answer, when what follows it is done.
    async fn idle(&mut self) -> io::Result<FromWorker> {
        let (pace, mut look) = self.look();
        // Most are idle after a moment, and so need no timer of their own.
        for _ in 0..ticks_to_release(pace) {
            if !self.lease.piped && self.request.after_reply.is_none() {
                break;
            }
            tokio::select! {
                biased;
                frame = self.next() => return frame,
                () = look.next() => {}
            }
        }
        self.lease.release_followers();
        if let Some(bound) = self.request.after_reply {
            if let Ok(frame) = timeout(bound, self.next()).await {
                return frame;
            }
            // The next request does not wait for that.
            self.lease.step_aside();
        }
        self.next().await
    }
}
