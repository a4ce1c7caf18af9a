//! Puts another worker in the place of one that is to go: it is forked first, and only when it is ready the other
//! finishes what it has in hand. One at a time. It never decides who is to go.

use super::{refork::Refork, Actor};
use crate::{
    apps::{
        generation::Phase,
        worker_process::{Worker, WorkerStage},
    },
    origins::workers::dispatch::queue::WorkerId,
};

/// A worker that is to go when another, of the same index, can take its place.
pub struct Succession {
    leaving: WorkerId,
    index: usize,
}

impl Actor {
    /// Whether nothing else goes on by which workers come and go.
    pub(super) fn may_replace_worker(&self) -> bool {
        let reforking = matches!(self.refork, Refork::StandIn { .. } | Refork::Asked { .. });
        let calm = self.succession.is_none() && !reforking && self.next.is_none() && self.stopping.is_none();
        calm && self.current.as_ref().is_some_and(|current| {
            current.phase == Phase::Ready && current.forking == 0 && current.workers.values().all(Worker::serves)
        })
    }

    pub(super) async fn replace_worker(&mut self, leaving: WorkerId) {
        let threads = self.context.site.threads;
        let Some(current) = &mut self.current else { return };
        let Some(index) = current.workers.get(&leaving).map(|worker| worker.index) else { return };
        self.succession = Some(Succession { leaving, index });
        current.fork(index, threads).await;
    }

    /// A worker has become ready in a generation that serves: maybe the one that was waited for.
    pub(super) async fn successor_ready(&mut self, id: WorkerId, index: usize) {
        let Some(&Succession { leaving, index: awaited }) = self.succession.as_ref() else { return };
        if index != awaited || id == leaving {
            return;
        }
        self.succession = None;
        let site = &self.context.site;
        let grace = site.drain_timeout.max(site.app_hard_timeout.unwrap_or_default());
        let old = self.current.as_mut().and_then(|current| current.workers.get_mut(&leaving));
        if let Some(old) = old.filter(|old| old.stage == WorkerStage::Serving) {
            old.replaced = true;
            self.drain_worker(leaving, grace).await;
        }
    }

    /// A worker is gone. If it was to go anyway, or to take that one's place, there is nothing to wait for any more.
    pub(super) fn succession_without(&mut self, id: WorkerId, worker: &Worker) {
        let over = |one: &Succession| one.leaving == id || one.index == worker.index && !worker.is_ready();
        if self.succession.as_ref().is_some_and(over) {
            self.succession = None;
        }
    }
}
