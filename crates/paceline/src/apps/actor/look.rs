//! Takes the picture of the app that `overview` describes.
//! It never changes anything.

use std::sync::Arc;

use super::Actor;
use crate::{
    apps::{
        generation::Generation,
        orders::State,
        overview::{GenerationView, Overview, Role, Standing, WorkerView},
    },
    origins::workers::dispatch::queue::Tally,
};

impl Actor {
    pub(super) fn overview(&self) -> Overview {
        let told = || self.told.clone().map(Arc::new);
        let (state, failure) = match &*self.context.state.borrow() {
            State::Stopped => (Standing::Stopped, told()),
            State::Starting => (Standing::Starting, told()),
            State::Ready => (Standing::Ready, told()),
            State::Failed { report, .. } => (Standing::Failed, Some(report.clone())),
        };
        let tallies = self.context.queue.tallies();
        let current = self.current.iter().map(|generation| (Role::Current, generation));
        let next = self.next.iter().map(|generation| (Role::Next, generation));
        let leaving = self.leaving.iter().map(|generation| (Role::Leaving, generation));
        let previous = self.previous.iter().map(|(generation, _)| (Role::Previous, generation));
        let canary = self.canary.iter().map(|canary| (Role::Canary, &canary.generation));
        let all = current.chain(canary).chain(next).chain(previous).chain(leaving);
        let generations = all.map(|(role, generation)| view(role, generation, &tallies)).collect();
        let (processes, restarts) = (self.context.processes.views(), self.attempts.under_way());
        Overview { state, failure, workers_wanted: self.workers, restarts, generations, processes }
    }
}

fn view(role: Role, generation: &Generation, tallies: &[Tally]) -> GenerationView {
    let mut workers: Vec<_> = generation
        .workers
        .iter()
        .map(|(id, worker)| {
            let tally = tallies.iter().find(|tally| tally.id == *id);
            WorkerView {
                id: *id,
                index: worker.index,
                pid: worker.pid,
                forked: worker.forked,
                ready: worker.is_ready(),
                leaving: role == Role::Leaving || tally.is_some_and(|tally| tally.leaving),
                answered: tally.map_or(0, |tally| tally.answered),
                busy: tally.map_or(0, |tally| tally.busy),
                streams: tally.map_or(0, |tally| tally.streams),
                hijacked: tally.map_or(0, |tally| tally.hijacked),
            }
        })
        .collect();
    workers.sort_by_key(|worker| (worker.index, worker.id));
    GenerationView {
        role,
        number: generation.number,
        phase: generation.phase,
        began: generation.began,
        began_at: generation.began_at,
        release: generation.release.clone(),
        versions: generation.report.versions.clone(),
        reforked: generation.mold.is_some(),
        preloader: generation.pid,
        workers,
    }
}
