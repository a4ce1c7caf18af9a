//! Processes that are no longer wanted: drained, ended and in the end killed.
//! It never starts one.

use std::time::Duration;

use rustix::process::{kill_process, Pid, Signal};
use tokio::sync::oneshot;

use super::{Actor, PRELOADER_END, SERVED_END};
use crate::{
    apps::{
        attempts::Outcome,
        generation::{Generation, Phase},
        orders::State,
        worker_process::{Grace, WorkerStage},
    },
    origins::workers::dispatch::queue::WorkerId,
};

impl Actor {
    /// Lets a generation finish what it has in hand.
    pub(super) async fn retire(&mut self, mut generation: Generation, grace: impl Into<Grace>) {
        let grace = grace.into();
        generation.phase = Phase::Leaving;
        for (id, worker) in &mut generation.workers {
            self.context.queue.leave(*id);
            worker.drain(grace).await;
        }
        if generation.workers.is_empty() {
            let Some(left) = self.keep(generation).await else { return };
            generation = left;
            end_preloader(&mut generation);
        }
        // An adopted preloader is not ours to wait for.
        if generation.pid.is_some() || !generation.workers.is_empty() {
            self.leaving.push(generation);
        }
    }

    pub(super) async fn drain_worker(&mut self, id: WorkerId, grace: Duration) {
        self.context.queue.leave(id);
        for generation in self.generations() {
            if let Some(worker) = generation.workers.get_mut(&id) {
                worker.drain(grace.into()).await;
            }
        }
    }

    /// Drains the workers that are more than wanted; one that still boots is drained when it is ready.
    pub(super) async fn drain_surplus(&mut self) {
        let wanted = self.workers;
        let Some(current) = &mut self.current else { return };
        let mut surplus = Vec::new();
        for (id, worker) in &mut current.workers {
            if worker.index > wanted && worker.stage == WorkerStage::Serving {
                // Should one more be wanted before this one has ended, it is a new one: this one's end asks for none.
                worker.replaced = true;
                surplus.push(*id);
            }
        }
        for id in surplus {
            self.drain_worker(id, self.context.site.drain_timeout).await;
        }
    }

    pub(super) async fn stop(&mut self, grace: Grace, done: Option<oneshot::Sender<()>>) {
        if let Some(waiting) = &mut self.stopping {
            waiting.extend(done);
            return;
        }
        self.stopping = Some(done.into_iter().collect());
        self.start_at = None;
        self.context.processes.stop();
        self.attempts.end_all(&Outcome::Refused("the server stops, or the site does".into()));
        self.forget_previous();
        self.context.state.send_replace(State::Stopped);
        if let Some(mut next) = self.next.take() {
            next.workers.values().for_each(|worker| kill(worker.pid));
            end_preloader(&mut next);
            if next.pid.is_some() {
                next.phase = Phase::Leaving;
                self.leaving.push(next);
            }
        }
        if let Some(canary) = self.canary.take() {
            self.context.queue.share_no_more();
            self.retire(canary.generation, grace).await;
        }
        for generation in &mut self.leaving {
            generation.keep = None;
        }
        if let Some(current) = self.current.take() {
            self.retire(current, grace).await;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stopping.is_some() && self.leaving.is_empty()
    }

    pub(super) fn over(self) {
        for done in self.stopping.into_iter().flatten() {
            let _ = done.send(());
        }
    }
}

/// Closing the control socket ends the preloader; its exit ends the generation.
pub(super) fn end_preloader(generation: &mut Generation) {
    generation.control = None;
    // One that owes a worker is stopped or hangs: it would run no hook either.
    let hangs = generation.fork_due.is_some();
    let time = if generation.phase == Phase::Leaving && !hangs { SERVED_END } else { PRELOADER_END };
    if let Some(pid) = generation.pid {
        // A pid that has been reaped and given to another child within that time would need a full turn of the pid
        // space.
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            if is_child(pid) {
                kill(pid);
            }
        });
    }
}

pub(super) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether the process is still the front's child.
fn is_child(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent =
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).and_then(|text| text.parse().ok());
    parent == Some(rustix::process::getpid().as_raw_nonzero().get())
}
