//! What preloaders and workers say on their control sockets, and what follows from it.
//! It never reads a socket.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{leave::kill, Actor};
use crate::{
    apps::{generation::Phase, reaper::Exit, ruby_facts::RubyFacts, worker_process::WorkerEnd},
    observe::log::Name,
    origins::workers::{
        dispatch::queue::{StreamThreads, WorkerId},
        protocol::{
            channel::Channel,
            failed::failure,
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
        let (site, events) = (self.context.site.clone(), self.events.clone());
        let id = self.next_worker;
        let Some(generation) = self.generation(number) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::STEP if generation.phase == Phase::Loading => generation.step(text(0), text(1)),
            kind::LOADED if generation.phase == Phase::Loading => self.loaded(number, &texts).await,
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
                // The sockets of a process that has ended may still be held open by one that it forked. One that did
                // not become ready may have said why: that is waited for.
                let over = worker.is_ready() || !worker.is_reachable();
                worker.end =
                    WorkerEnd::Exited { exit: exit.unwrap_or(Exit::Untold), until: Instant::now() + LAST_FRAMES };
                if over {
                    self.worker_gone(number, id).await;
                }
            }
            kind::MEMORY => drop(generation.heap.send_replace(Some(RubyHeap::parse(&frame.payload)))),
            kind::PRELOADER_FAILED => {
                let (step, failure) = failure(&frame.payload);
                generation.report.versions = RubyFacts::parse(&texts).versions;
                self.generation_failed(number, step, failure).await;
            }
            _ => {}
        }
        if let Some(generation) = self.generation(number) {
            generation.heard();
        }
    }

    /// The application is loaded: its workers are forked. `facts`: names and values, one after the other.
    async fn loaded(&mut self, number: u64, facts: &[String]) {
        let Some(settings) = self.generation(number).map(|generation| generation.settings.clone()) else { return };
        let (site, workers) = (self.context.site.clone(), self.workers_of(&settings));
        let Some(generation) = self.generation(number) else { return };
        generation.facts = RubyFacts::parse(facts);
        generation.report.versions.clone_from(&generation.facts.versions);
        let notice = generation.facts.yjit_notice().filter(|_| settings.tuning.yjit == "auto");
        generation.ruby = facts.chunks_exact(2).find(|pair| pair[0] == "pid").and_then(|pair| pair[1].parse().ok());
        generation.phase = Phase::Forking;
        generation.step("fork", "begin");
        for index in 1..=workers {
            generation.fork(index, settings.threads).await;
        }
        if let Some(notice) = notice.filter(|_| !std::mem::replace(&mut self.told_of_yjit, true)) {
            self.context.log.event(Name::Notice, format!("{}: {notice}", site.name));
        }
    }

    pub(super) async fn worker_says(&mut self, number: u64, id: WorkerId, frame: Raw, fd: Option<OwnedFd>) {
        let events = self.events.clone();
        let name = self.context.site.name.clone();
        let Some(generation) = self.generation(number) else { return };
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::MAILBOX => worker.mailbox = fd.map(|fd| (text(0).parse().unwrap_or(0), fd)),
            kind::CHANNEL => self.channel_came(number, id, text(0).parse().unwrap_or(0), fd),
            kind::OUTPUT if worker.outputs == OUTPUTS => {}
            kind::OUTPUT => {
                worker.outputs += 1;
                let who = format!("{name}.{}", worker.index);
                if let Some(fd) = fd {
                    let _ = generation.listen_to(who, fd, &events);
                }
            }
            kind::READY if worker.is_ready() => {}
            kind::READY => self.worker_ready(number, id).await,
            kind::BACKTRACE if worker.was_asked(text(0), text(1)) => {}
            kind::BACKTRACE => self.backtrace_came(number, id, text(0), text(1)),
            kind::MEMORY => drop(worker.heap.send_replace(Some(RubyHeap::parse(&frame.payload)))),
            kind::PROMOTED => self.promoted(number, id, fd).await,
            kind::UNSAFE => self.unsafe_to_fork(number, id, text(0), text(1) == "busy").await,
            kind::WORKER_FAILED => self.worker_failed(number, &frame.payload).await,
            _ => {}
        }
    }

    /// The channel of one of its threads. Until its generation serves it waits for that.
    fn channel_came(&mut self, number: u64, id: WorkerId, thread: usize, fd: Option<OwnedFd>) {
        let queue = self.context.queue.clone();
        let Some(generation) = self.generation(number) else { return };
        let StreamThreads { threads, spare } = generation.threads();
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        // A thread that ends has its number until it has: others may come with higher ones.
        let highest = if worker.is_ready() { 2 * (threads + spare) } else { threads };
        if !(1..=highest).contains(&thread) {
            return;
        }
        let memory = worker.mailbox.take().filter(|(of, _)| *of == thread);
        let run_as = &generation.run_as;
        let opened = fd.map(|fd| match memory {
            Some((_, memory)) => Channel::new(fd, thread, run_as)?.with_mailbox(&memory),
            None => Channel::new(fd, thread, run_as),
        });
        let Some(Ok(channel)) = opened else { return };
        if let Some(rehearsal) = &generation.rehearsal {
            rehearsal.add(id, channel);
        } else if worker.is_ready() && generation.phase != Phase::Forking {
            queue.add(id, channel);
        } else {
            worker.early.retain(|early| early.thread != thread);
            worker.early.push(channel);
        }
    }

    /// It can serve. In a generation that serves it does at once; else when the others can, too.
    async fn worker_ready(&mut self, number: u64, id: WorkerId) {
        let queue = self.context.queue.clone();
        let Some(generation) = self.generation(number) else { return };
        let (run_as, threads) = (generation.run_as.clone(), generation.threads());
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        worker.stage = worker.stage.booted();
        match generation.phase {
            Phase::Ready => {
                let early = std::mem::take(&mut worker.early);
                let index = worker.index;
                queue.join_with(id, threads, run_as, self.complaints.clone());
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

    /// Where a thread is that has been busy for too long.
    fn backtrace_came(&mut self, number: u64, id: WorkerId, thread: &str, backtrace: &str) {
        let (log, name) = (self.context.log.clone(), self.context.site.name.clone());
        let Some(generation) = self.generation(number) else { return };
        let Some(worker) = generation.workers.get(&id) else { return };
        let lines = backtrace.replace('\n', "\n    ");
        log.text(Name::Backtrace, format!("* {name}.{} thread {thread} is here:\n    {lines}", worker.index));
        if worker.end_on_backtrace {
            kill(worker.pid);
        }
        self.context.incidents.backtrace(&name, id, thread, backtrace);
    }

    /// It could not start. In a generation that serves, that is all; else the generation has failed.
    async fn worker_failed(&mut self, number: u64, payload: &[u8]) {
        let (step, failure) = failure(payload);
        let Some(generation) = self.generation(number) else { return };
        if generation.report.versions.is_empty() {
            generation.report.versions = RubyFacts::parse(&fields::texts(payload)).versions;
        }
        if generation.phase != Phase::Ready {
            return self.generation_failed(number, step.or(Some(Step::Ready)), failure).await;
        }
        let mut report = generation.report.clone();
        report.fail(failure);
        let log = &self.context.log;
        log.text(Name::WorkerFailed, startup_report::text::render(&report, log.colour()));
        self.tell_worker_failed(&report);
    }
}
