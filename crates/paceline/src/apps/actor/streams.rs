//! Threads that take the places of those that have streams. It never counts streams: the queue does.

use std::io::ErrorKind;

use super::Actor;
use crate::{
    apps::worker_process::WorkerStage,
    observe::log::Name,
    origins::workers::{
        dispatch::queue::{Complaint, WorkerId},
        protocol::frame::{encode, kind},
    },
};

/// In the place of a thread's number: no thread with a channel is meant.
const MAIN: usize = 0;

impl Actor {
    /// A stream has left the count of this worker's threads, and another thread is to take its place; or it would have
    /// to, but there are as many as there may be.
    pub(super) async fn stream_began(&mut self, id: WorkerId, has_left: bool) {
        if !has_left {
            return self.tell_no_spare();
        }
        let worker = self.generations().find_map(|generation| generation.workers.get_mut(&id));
        let Some(worker) = worker.filter(|worker| worker.stage == WorkerStage::Serving) else { return };
        // One that is gone is noticed by the EOF on its socket.
        let sent = worker.control.send(&encode(kind::SPARE, |_| {})).await;
        if sent.is_err_and(|error| error.kind() == ErrorKind::TimedOut) {
            let reason = "its main thread does not read what the server sends".into();
            let _ = self.complaints.send((id, Complaint::Replace { thread: MAIN, reason }));
        }
    }

    /// Once: with as many streams it would be said all the time.
    fn tell_no_spare(&mut self) {
        if std::mem::replace(&mut self.told_no_spare, true) {
            return;
        }
        let (name, most) = (&self.context.site.name, self.context.site.stream_threads);
        let text = format!(
            "{name}: a worker has {most} streams, as many as stream_threads allows: further ones hold threads that pages need"
        );
        self.context.log.event(Name::Streams, text);
    }
}
