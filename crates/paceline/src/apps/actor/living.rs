//! Which processes of the application live, for the automatic page cache: each of them may write. It decides nothing about them.

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
        let preloads = self.context.site.preload;
        let mut living = Living::default();
        self.generations().for_each(|generation| add(&mut living, generation, preloads));
        reporter.tell(living);
        self.reporter = Some(reporter);
    }
}

/// `preloads`: the application is loaded before the workers are forked.
fn add(living: &mut Living, generation: &Generation, preloads: bool) {
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
    let preloader = preloader.map(|pid| Process { pid: generation.ruby.unwrap_or(pid), worker: None, stage });
    living.processes.extend(preloader);
    let workers = generation.workers.values().filter(|worker| !matches!(worker.end, WorkerEnd::Exited { .. }));
    let process = |worker: &Worker| Process {
        pid: worker.pid,
        worker: Some(worker.index),
        stage: stage_of(worker.stage, preloads),
    };
    living.processes.extend(workers.map(process));
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
