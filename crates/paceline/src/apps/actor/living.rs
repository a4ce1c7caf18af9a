//! Which processes of the application live, for the automatic page cache: each of them may write. It decides nothing about them.

use std::sync::Arc;

use super::Actor;
use crate::{
    apps::{
        generation::{Generation, Phase},
        worker_process::{Worker, WorkerEnd, WorkerStage},
    },
    caching::auto::{Living, Process, Stage},
};

impl Actor {
    /// Called after each thing that happens.
    pub(super) fn report(&mut self) {
        let Some(mut reporter) = self.reporter.take() else { return };
        let mut living = Living::default();
        self.generations().for_each(|generation| add(&mut living, generation));
        reporter.tell(living);
        self.reporter = Some(reporter);
    }
}

fn add(living: &mut Living, generation: &Generation) {
    // The application is loaded before the workers are forked.
    let preloads = generation.settings.preload;
    if generation.control.is_some() && generation.exit.is_none() {
        living.forking += generation.forking;
    }
    // An adopted one has no part in it, and one that loads nothing has nothing to write with.
    let preloader = generation.pid.filter(|_| preloads && generation.exit.is_none());
    let stage = match generation.phase {
        Phase::Loading if generation.mold.is_some() => Stage::Booting,
        Phase::Loading | Phase::Failing => Stage::Loading,
        _ => Stage::Ready,
    };
    let load = Arc::new(generation.load());
    let process = |pid: i32, worker: Option<usize>, stage: Stage| Process { pid, worker, stage, load: load.clone() };
    living.processes.extend(preloader.map(|pid| process(generation.ruby.unwrap_or(pid), None, stage)));
    let workers = generation.workers.values().filter(|worker| !matches!(worker.end, WorkerEnd::Exited { .. }));
    let of_worker = |worker: &Worker| process(worker.pid, Some(worker.index), stage_of(worker.stage, preloads));
    living.processes.extend(workers.map(of_worker));
    living.processes.sort_by_key(|process| process.pid);
}

fn stage_of(stage: WorkerStage, preloads: bool) -> Stage {
    match stage {
        // It closes its connection, so that it can be forked from.
        WorkerStage::Preparing { .. } => Stage::Booting,
        _ if stage.is_ready() => Stage::Ready,
        _ if preloads => Stage::Booting,
        _ => Stage::Loading,
    }
}
