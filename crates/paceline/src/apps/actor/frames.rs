//! What preloaders and workers say on their control sockets, and what follows from it.
//! It never reads a socket.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{leave::kill, Actor};
use crate::{
    apps::{
        generation::{failure, Phase},
        reaper::Exit,
        tuning::TuningEnvironment,
    },
    observe::log::Name,
    workers::{
        dispatch::queue::WorkerId,
        protocol::{
            channel::Channel,
            fields,
            frame::{kind, Raw},
            ruby_heap::RubyHeap,
        },
    },
};
use startup_report::Step;

/// How long the last frames of a process that has ended are waited for.
const LAST_FRAMES: Duration = Duration::from_millis(500);
/// A worker has a standard output and a standard error.
const OUTPUTS: usize = 2;

impl Actor {
    pub(super) async fn preloader_says(&mut self, number: u64, frame: Raw, fd: Option<OwnedFd>) {
        let (site, events, workers) = (self.context.site.clone(), self.events.clone(), self.workers);
        let id = self.next_worker;
        let Some(generation) = self.generation(number) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::STEP if generation.phase == Phase::Loading => generation.step(text(0), text(1)),
            kind::LOADED if generation.phase == Phase::Loading => {
                let versions = texts
                    .chunks_exact(2)
                    .filter(|pair| ["ruby", "rack", "rails"].contains(&pair[0].as_str()) && !pair[1].is_empty());
                generation.report.versions =
                    versions.map(|pair| format!("{} {}", pair[0], pair[1])).collect::<Vec<_>>().join(", ");
                generation.phase = Phase::Forking;
                generation.step("fork", "begin");
                let heap =
                    texts.chunks_exact(2).find(|pair| pair[0] == "heap").map(|pair| TuningEnvironment::parse(&pair[1]));
                for index in 1..=workers {
                    generation.fork(index, site.threads).await;
                }
                let loaded = generation.mold.is_none();
                if let Some(heap) = heap.filter(|heap| loaded && site.tuning.gc && *heap != self.learned) {
                    heap.keep(&site);
                    self.learned = heap;
                }
            }
            kind::FORKED => {
                let (Ok(index), Ok(pid), Some(fd)) = (text(0).parse(), text(1).parse(), fd) else { return };
                if generation.adopt(id, index, pid, fd, &site, &events).is_err() {
                    return kill(pid);
                }
                if generation.forking == 0 && generation.phase == Phase::Forking {
                    generation.step("fork", "done");
                    generation.step("ready", "begin");
                }
                if matches!(generation.phase, Phase::Leaving | Phase::Failing) {
                    kill(pid);
                }
                self.next_worker += 1;
            }
            kind::EXITED => {
                let exit = Exit::parse(text(1));
                let found = generation.workers.iter_mut().find(|(_, worker)| text(0).parse() == Ok(worker.pid));
                let Some((&id, worker)) = found else { return self.mold_exited(text(0), exit) };
                worker.exit = exit;
                // The sockets of a process that has ended may still be held open by one that it forked. One that did
                // not become ready may have said why: that is waited for.
                if worker.gone || worker.ready {
                    self.worker_gone(number, id).await;
                } else {
                    worker.gone_at = Some(Instant::now() + LAST_FRAMES);
                }
            }
            kind::MEMORY => drop(generation.heap.send_replace(Some(RubyHeap::parse(&frame.payload)))),
            kind::PRELOADER_FAILED => {
                let (step, failure) = failure(&frame.payload);
                self.generation_failed(number, step, failure).await;
            }
            _ => {}
        }
        if let Some(generation) = self.generation(number) {
            generation.heard();
        }
    }

    pub(super) async fn worker_says(&mut self, number: u64, id: WorkerId, frame: Raw, fd: Option<OwnedFd>) {
        let events = self.events.clone();
        let (queue, log, name) = (self.context.queue.clone(), self.context.log.clone(), self.context.site.name.clone());
        let threads = self.context.site.threads;
        let Some(generation) = self.generation(number) else { return };
        let (phase, run_as) = (generation.phase, generation.run_as.clone());
        let rehearsal = generation.rehearsal.clone();
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::MAILBOX => worker.mailbox = fd.map(|fd| (text(0).parse().unwrap_or(0), fd)),
            kind::CHANNEL => {
                let thread = text(0).parse().unwrap_or(0);
                if !(1..=threads).contains(&thread) {
                    return;
                }
                let memory = worker.mailbox.take().filter(|(of, _)| *of == thread);
                let opened = fd.map(|fd| match memory {
                    Some((_, memory)) => Channel::new(fd, thread)?.with_mailbox(&memory),
                    None => Channel::new(fd, thread),
                });
                let Some(Ok(channel)) = opened else { return };
                if let Some(rehearsal) = rehearsal {
                    rehearsal.add(id, channel);
                } else if worker.ready && phase != Phase::Forking {
                    queue.add(id, channel);
                } else {
                    worker.early.retain(|early| early.thread != thread);
                    worker.early.push(channel);
                }
            }
            kind::OUTPUT if worker.outputs == OUTPUTS => {}
            kind::OUTPUT => {
                worker.outputs += 1;
                let who = format!("{name}.{}", worker.index);
                if let Some(fd) = fd {
                    let _ = generation.listen_to(who, fd, &events);
                }
            }
            kind::READY if worker.ready => {}
            kind::READY => {
                worker.ready = true;
                worker.kill_at = None;
                match phase {
                    Phase::Ready => {
                        let early = std::mem::take(&mut worker.early);
                        let index = worker.index;
                        queue.join(id, threads, run_as, self.complaints.clone());
                        early.into_iter().for_each(|channel| queue.add(id, channel));
                        self.measuring.soon();
                        self.stand_in_ready(id, index).await;
                        self.successor_ready(id, index).await;
                        self.drain_surplus().await;
                    }
                    _ if generation.complete() => self.rehearse(number).await,
                    _ => {}
                }
            }
            kind::BACKTRACE if worker.was_asked(text(0), text(1)) => {}
            kind::BACKTRACE => {
                log.text(
                    Name::Backtrace,
                    format!(
                        "* {name}.{} thread {} is here:\n    {}",
                        worker.index,
                        text(0),
                        text(1).replace('\n', "\n    ")
                    ),
                );
                if worker.end_on_backtrace {
                    kill(worker.pid);
                }
                self.context.incidents.backtrace(&name, id, text(0), text(1));
            }
            kind::MEMORY => drop(worker.heap.send_replace(Some(RubyHeap::parse(&frame.payload)))),
            kind::PROMOTED => self.promoted(number, id, fd).await,
            kind::UNSAFE => self.unsafe_to_fork(number, id, text(0)).await,
            kind::WORKER_FAILED => {
                let (step, failure) = failure(&frame.payload);
                if phase == Phase::Ready {
                    let mut report = generation.report.clone();
                    report.fail(failure);
                    log.text(Name::WorkerFailed, startup_report::text::render(&report, log.colour()));
                    self.tell_worker_failed(&report);
                } else {
                    self.generation_failed(number, step.or(Some(Step::Ready)), failure).await;
                }
            }
            _ => {}
        }
    }
}
