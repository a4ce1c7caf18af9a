//! Where a worker's thread is, for somebody who asks. What nobody has asked for goes to the log (`frames`).
//! It never waits for the answer.

use tokio::sync::oneshot;

use super::Actor;
use crate::{
    apps::worker_process::Worker,
    origins::workers::{
        dispatch::queue::WorkerId,
        protocol::{
            fields,
            frame::{encode, kind},
        },
    },
};

impl Actor {
    /// The answer is dropped if there is no such worker, or when it goes.
    pub(super) async fn ask_backtrace(&mut self, id: WorkerId, thread: usize, answer: oneshot::Sender<String>) {
        let worker = self.generations().find_map(|generation| generation.workers.get_mut(&id));
        let Some(worker) = worker.filter(|worker| worker.is_ready() && worker.is_reachable()) else { return };
        let frame = encode(kind::ASK_BACKTRACE, |out| fields::put(out, thread.to_string()));
        if worker.control.send(&frame).await.is_ok() {
            worker.asked.push((thread, answer));
        }
    }
}

impl Worker {
    /// Gives a backtrace to who asked for it first. False: nobody has.
    pub(super) fn was_asked(&mut self, thread: &str, lines: &str) -> bool {
        // One who could not wait any longer would keep it from the log.
        self.asked.retain(|(_, answer)| !answer.is_closed());
        let asked = self.asked.iter().position(|(asked, _)| thread.parse() == Ok(*asked));
        // The log, too, wants to know where a worker is stuck before it is killed.
        let Some(at) = asked.filter(|_| !self.end_on_backtrace) else { return false };
        self.asked.remove(at).1.send(lines.to_owned()).is_ok()
    }
}
