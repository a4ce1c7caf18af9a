//! What is done when a process of a generation is gone, or is complained of: replaced, now or after a pause.
//! It never decides that a request is retried (`dispatch`).

use std::time::{Duration, Instant};

use super::{
    incident,
    leave::{end_preloader, kill},
    Actor, LAST_WORDS,
};
use crate::{
    apps::{
        events::{ActorEvent, Event},
        generation::Phase,
        orders::State,
        reaper::Exit,
        worker_process::{WorkerEnd, WorkerStage},
    },
    observe::{log::Name, metrics::Restart},
    origins::workers::{
        dispatch::queue::{Complaint, WorkerId},
        protocol::{
            fields,
            frame::{encode, kind},
        },
    },
};
use startup_report::{phrases, Failure, Step};

/// How long the preloader may take to tell how a worker ended whose socket is closed.
const EXIT_TOLD: Duration = Duration::from_secs(1);

/// A worker that was ready is replaced at once, but so long after it was forked at the earliest: those that end by themselves are not
/// forked without end.
const SHORTEST_LIFE: Duration = Duration::from_millis(100);

impl Actor {
    pub(super) async fn preloader_gone(&mut self, number: u64, exit: Exit) {
        let booting = |next: &&mut crate::apps::generation::Generation| next.number == number;
        if let Some(next) = self.next.as_mut().filter(booting) {
            next.exit = Some(exit);
            next.gone_at = None;
            next.control = None;
            return self.generation_failed(number, None, exited(exit, "preloader".into())).await;
        }
        if let Some(generation) = self.generation(number) {
            let workers: Vec<_> = generation.workers.iter().map(|(id, worker)| (*id, worker.pid)).collect();
            for (id, pid) in workers {
                self.context.queue.leave(id);
                self.context.queue.remove(id);
                kill(pid);
            }
        }
        if self.is_canary(number) {
            self.give_up_canary(&format!("its preloader {exit}")).await;
        }
        self.leaving.retain(|generation| generation.number != number);
        self.previous.take_if(|(previous, _)| previous.number == number);
        let Some(current) = self.current.take_if(|current| current.number == number) else { return };
        let name = self.context.site.name.clone();
        if current.pid.is_none() {
            // It was the one who started us: there is nothing left to serve with.
            self.context
                .log
                .event(Name::PreloaderEnded, format!("{name}: the process that loaded the application is gone"));
            return self.stop(Duration::ZERO.into(), None).await;
        }
        if self.stopping.is_some() {
            return;
        }
        if self.canary.is_some() {
            return self.promote_canary("what it was compared with has ended").await;
        }
        self.context.state.send_replace(State::Starting);
        self.begin_recovery();
        let pause = self.pause_after(current.elapsed());
        let when = shown_pause(pause);
        self.context.log.event(
            Name::PreloaderEnded,
            format!("{name}: the preloader (pid {}) {exit}; starting it again{when}", current.pid.unwrap_or_default()),
        );
        self.tell_preloader_died(&current, exit);
        // One that is booting already takes its place.
        if self.next.is_none() {
            // The root may lead to a release by now that never served.
            self.pinned = Some(current.release);
            self.start_at = Some(Instant::now() + pause);
        }
    }

    pub(super) async fn worker_gone(&mut self, number: u64, id: WorkerId) {
        self.context.queue.leave(id);
        let served = self.context.queue.remove(id);
        let Some(generation) = self.generation(number) else { return };
        if let Some(rehearsal) = &generation.rehearsal {
            rehearsal.remove(id);
        }
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        worker.served |= served;
        // The preloader tells how it ended, now or in a moment. One that is gone itself takes its workers along.
        match worker.end {
            WorkerEnd::Exited { .. } => self.bury(number, id).await,
            WorkerEnd::None | WorkerEnd::Closed { .. } => {
                worker.end = WorkerEnd::Closed { until: Instant::now() + EXIT_TOLD }
            }
        }
    }

    /// The other sign of a worker's end has not come: its preloader does not tell, or what closed its sockets still
    /// runs.
    pub(super) async fn wait_no_longer(&mut self, number: u64, id: WorkerId) {
        let Some(worker) = self.generation(number).and_then(|generation| generation.workers.get_mut(&id)) else {
            return;
        };
        if worker.exit().is_none() {
            kill(worker.pid);
            worker.end = WorkerEnd::Exited { exit: Exit::Untold, until: Instant::now() };
        }
        self.worker_gone(number, id).await;
    }

    /// A worker is gone and its exit known: replace it, or count it off.
    pub(super) async fn bury(&mut self, number: u64, id: WorkerId) {
        let workers = self.workers;
        let Some(generation) = self.generation(number) else { return };
        let Some(worker) = generation.workers.remove(&id) else { return };
        let exit = worker.exit().unwrap_or(Exit::Status(0));
        let phase = generation.phase;
        if phase == Phase::Ready {
            self.refork_without(id, &worker);
            self.succession_without(id, &worker);
        }
        match phase {
            Phase::Failing => {}
            Phase::Loading | Phase::Forking | Phase::Checking if worker.stage.is_draining() => {}
            Phase::Loading | Phase::Forking | Phase::Checking => {
                let failure = exited(exit, "worker".into());
                self.generation_failed(number, Some(Step::Ready), failure).await;
            }
            Phase::Leaving => {
                let at = self.leaving.iter().position(|left| left.number == number && left.workers.is_empty());
                let left = match at.map(|at| self.leaving.swap_remove(at)) {
                    Some(left) => self.keep(left).await,
                    None => None,
                };
                if let Some(mut left) = left {
                    end_preloader(&mut left);
                    if left.pid.is_some() {
                        self.leaving.push(left);
                    }
                }
            }
            Phase::Ready if self.is_canary(number) => {
                self.give_up_canary(&format!("its worker {} (pid {}) {exit}", worker.index, worker.pid)).await;
            }
            Phase::Ready => {
                let asked = worker.stage.is_leaving() && !worker.faulty;
                let wanted = worker.index <= workers && self.stopping.is_none() && !worker.replaced;
                let pause = if asked || worker.served {
                    Duration::ZERO
                } else if worker.is_ready() {
                    // It could start: what it died of came later, and the next one is as good as it was.
                    SHORTEST_LIFE.saturating_sub(worker.forked.elapsed())
                } else {
                    self.pause_after(worker.forked.elapsed())
                };
                if !asked && !worker.faulty && !worker.condemned {
                    self.context.metrics.processes.restarted(Restart::Crash);
                }
                if (!asked || exit != Exit::Status(0)) && !worker.condemned {
                    let (name, pid) = (format!("{}.{}", self.context.site.name, worker.index), worker.pid);
                    let then = if wanted { format!("; starting another{}", shown_pause(pause)) } else { String::new() };
                    self.context.log.event(Name::WorkerEnded, format!("{name} (pid {pid}) {exit}{then}"));
                    self.tell_worker_died(number, id, &worker, exit);
                }
                if wanted {
                    let events = self.events.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(pause).await;
                        let happened = ActorEvent::Refork(worker.index);
                        let _ = events.send(Event { generation: number, worker: None, happened });
                    });
                }
            }
        }
    }

    pub(super) async fn handle_complaint(&mut self, id: WorkerId, complaint: Complaint) {
        let log = self.context.log.clone();
        let site = self.context.site.clone();
        if matches!(complaint, Complaint::Spare | Complaint::NoSpare) {
            return self.stream_began(id, complaint == Complaint::Spare).await;
        }
        if let Complaint::Replace { reason, .. } = &complaint {
            if self.canary.as_ref().is_some_and(|canary| canary.generation.workers.contains_key(&id)) {
                return self.give_up_canary(&format!("a worker of it would have to be replaced: {reason}")).await;
            }
        }
        let mut serving = self.current.iter_mut().chain(self.leaving.iter_mut());
        let Some(generation) = serving.find(|generation| generation.workers.contains_key(&id)) else { return };
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        let who = format!("{}.{}", site.name, worker.index);
        let thread = match &complaint {
            Complaint::Slow { thread, request } => {
                let after = phrases::duration(site.app_soft_timeout.unwrap_or_default());
                log.event(Name::Slow, format!("{who} thread {thread}: {request} has been in the app for {after}"));
                *thread
            }
            Complaint::Replace { thread, reason } => {
                incident::tell_complaint(&self.context, generation.number, id, worker, reason);
                log.event(Name::WorkerReplaced, format!("{who} thread {thread}: {reason}; replacing the worker"));
                *thread
            }
            Complaint::Spare | Complaint::NoSpare => return,
        };
        let _ = worker.control.send(&encode(kind::ASK_BACKTRACE, |out| fields::put(out, thread.to_string()))).await;
        if matches!(complaint, Complaint::Slow { .. }) || worker.stage != WorkerStage::Serving {
            return;
        }
        worker.faulty = true;
        self.context.metrics.processes.restarted(Restart::Broken);
        let alone = self.context.queue.leave(id);
        worker.end_on_backtrace = alone;
        // Its successor need not wait for its end; but one that fails at once is replaced with a pause (`bury`).
        if generation.phase == Phase::Ready
            && worker.index <= self.workers
            && worker.forked.elapsed() >= Duration::from_secs(1)
        {
            worker.replaced = true;
            let index = worker.index;
            generation.fork(index, site.threads).await;
        }
        self.drain_worker(id, if alone { LAST_WORDS } else { site.drain_timeout }).await;
    }
}

fn exited(exit: Exit, who: String) -> Failure {
    match exit {
        Exit::Untold => Failure::Exited { status: None, signal: None, who },
        Exit::Status(status) => Failure::Exited { status: Some(status), signal: None, who },
        Exit::Signal(signal) => Failure::Exited { status: None, signal: Some(signal), who },
    }
}

pub(super) fn shown_pause(pause: Duration) -> String {
    match pause {
        pause if pause < Duration::from_millis(50) => String::new(),
        pause => format!(" in {:.1} s", pause.as_secs_f64()),
    }
}
