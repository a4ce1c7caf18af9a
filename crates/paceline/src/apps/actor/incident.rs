//! What goes wrong with an app's processes, told as incidents.
//! It never decides what is done about it.

use super::{Actor, Context};
use crate::{
    apps::{generation::Generation, reaper::Exit, worker_process::Worker},
    observe::incidents::{Incident, Kind, Process},
    origins::workers::dispatch::queue::WorkerId,
    support::clock,
};
use startup_report::StartupReport;

/// What ends the reason of a complaint about a request that ran too long.
const TOO_LONG: &str = "app_hard_timeout";

impl Actor {
    pub(super) fn tell_worker_died(&self, generation: u64, id: WorkerId, worker: &Worker, exit: Exit) {
        let Context { site, incidents, .. } = &self.context;
        let who = format!("{}.{} (pid {})", site.name, worker.index, worker.pid);
        // One that was complained of has its incident already: this is how it ended.
        if worker.faulty && incidents.after(&site.name, id, format!("{who} {exit}")) {
            return;
        }
        let what = format!("worker {who} {exit}");
        let incident = Incident::new(Kind::WorkerDied, &site.name, what, clock::unix_seconds());
        incidents.record(incident.of(process(generation, id, worker)));
    }

    pub(super) fn tell_worker_failed(&self, report: &StartupReport) {
        let what = format!("a worker did not become ready: {}", report.summary());
        let text = startup_report::text::render(report, false);
        let incident = Incident::new(Kind::WorkerFailed, &self.context.site.name, what, clock::unix_seconds());
        let id = incident.id.clone();
        self.context.incidents.record(incident.with_report(&id, text));
    }

    pub(super) fn tell_preloader_died(&self, generation: &Generation, exit: Exit) {
        let Context { site, incidents, .. } = &self.context;
        let pid = generation.pid.unwrap_or_default();
        let what = format!("the preloader of {} (pid {pid}) {exit}, and its workers ended with it", site.name);
        let process = Process {
            workers: generation.workers.keys().copied().collect(),
            index: 0,
            pid,
            generation: generation.number,
            lived: generation.elapsed().as_secs_f64(),
        };
        incidents.record(Incident::new(Kind::PreloaderDied, &site.name, what, clock::unix_seconds()).of(process));
    }

    pub(super) fn tell_preloader_stuck(&self, what: &str) {
        let Context { site, incidents, .. } = &self.context;
        let what = format!("{}: {what}", site.name);
        incidents.record(Incident::new(Kind::PreloaderDied, &site.name, what, clock::unix_seconds()));
    }

    pub(super) fn tell_taken_back(&self, canary: u64, why: &str) {
        let site = &self.context.site.name;
        let what = format!("the canary of {site}, generation {canary}, was rolled back: {why}");
        let mut incident = Incident::new(Kind::RolledBack, site, what, clock::unix_seconds());
        incident.after.push("the old generation goes on serving".into());
        self.context.incidents.record(incident);
    }

    /// A start failed; with a generation that serves it was a restart.
    pub(super) fn tell_start_failed(&self, report: &StartupReport) {
        let kind = if self.current.is_some() { Kind::RestartFailed } else { Kind::StartFailed };
        let text = startup_report::text::render(report, false);
        let mut incident = Incident::new(kind, &self.context.site.name, report.summary(), clock::unix_seconds());
        if kind == Kind::RestartFailed {
            incident.after.push("the old generation goes on serving".into());
        }
        self.context.incidents.record(incident.with_report(&report.id, text));
    }
}

/// A worker is given up: a request ran too long, or its channel is broken.
pub(super) fn tell_complaint(context: &Context, generation: u64, id: WorkerId, worker: &Worker, reason: &str) {
    // One more complaint about a worker that is being replaced.
    if worker.faulty && context.incidents.after(&context.site.name, id, reason) {
        return;
    }
    let kind = if reason.ends_with(TOO_LONG) { Kind::TimedOut } else { Kind::Broken };
    let incident = Incident::new(kind, &context.site.name, reason, clock::unix_seconds());
    context.incidents.record(incident.of(process(generation, id, worker)));
}

/// The worker as an incident shows it.
pub(super) fn process(generation: u64, id: WorkerId, worker: &Worker) -> Process {
    Process {
        workers: vec![id],
        index: worker.index,
        pid: worker.pid,
        generation,
        lived: worker.forked.elapsed().as_secs_f64(),
    }
}
