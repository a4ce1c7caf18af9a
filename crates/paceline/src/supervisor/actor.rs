//! Decides over one app's processes: what is started, switched to, replaced, drained and killed, and when.
//! It never touches a request.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{kill_process, Pid, Signal};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};

use super::{
    app::{Order, State},
    generation::{failure, forward_output, Generation, Phase},
    reaper::{Exit, Reaper},
    spawn,
};
use crate::{
    config::{self, SiteConfig},
    dispatch::queue::{Complaint, Queue, WorkerId},
    log::Log,
    startup_report::{self, Failure, StartupReport, Step},
    worker::{
        channel::Channel,
        fields,
        frame::{encode, kind, Raw},
    },
};

/// What an actor works with.
pub struct Context {
    pub site: SiteConfig,
    pub queue: Arc<Queue>,
    pub state: watch::Sender<State>,
    /// Control socket of a preloader that was there before the front (`rackup -s paceline`).
    pub adopted: Option<UnixStream>,
    pub reaper: Reaper,
    pub log: Log,
}

/// Something happened to a process of a generation.
pub struct Event {
    pub generation: u64,
    /// None: the preloader.
    pub worker: Option<WorkerId>,
    pub happened: Happened,
}

pub enum Happened {
    Frame(Raw, Option<OwnedFd>),
    /// The control socket was closed: the process is gone.
    Closed,
    /// Who printed it, and the line.
    Printed(String, String),
    /// The preloader, the front's child, has been reaped.
    Exited(Exit),
    /// The pause before a crashed worker is replaced is over.
    Refork(usize),
}

/// A worker that lived shorter than this is replaced after a pause.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// How long requests in other threads of a worker that is being replaced may take.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// What a preloader gets to end by itself.
const PRELOADER_END: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to start.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

struct Actor {
    context: Context,
    events: mpsc::UnboundedSender<Event>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    /// Serves requests.
    current: Option<Generation>,
    /// Boots.
    next: Option<Generation>,
    /// Finish their last requests.
    leaving: Vec<Generation>,
    next_generation: u64,
    next_worker: WorkerId,
    workers: usize,
    /// Starts that failed one after another.
    failures: u32,
    /// Short-lived workers one after another.
    crashes: u32,
    stopping: Option<(Instant, Vec<oneshot::Sender<()>>)>,
}

/// Runs until the app is stopped or its handle is dropped.
pub async fn run(context: Context, mut orders: mpsc::UnboundedReceiver<Order>) {
    let (events, mut happenings) = mpsc::unbounded_channel();
    let (complaints, mut complaining) = mpsc::unbounded_channel();
    let workers = context.site.workers;
    let mut actor = Actor {
        context,
        events,
        complaints,
        current: None,
        next: None,
        leaving: Vec::new(),
        next_generation: 1,
        next_worker: 1,
        workers,
        failures: 0,
        crashes: 0,
        stopping: None,
    };
    loop {
        let deadline = actor.next_deadline();
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => actor.obey(order).await,
                None => actor.stop(Duration::ZERO, None).await,
            },
            Some(event) = happenings.recv() => actor.handle(event).await,
            Some((worker, complaint)) = complaining.recv() => actor.hear(worker, complaint).await,
            _ = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => actor.pass(Instant::now()).await,
        }
        if actor.is_over() {
            return actor.over();
        }
    }
}

impl Actor {
    async fn obey(&mut self, order: Order) {
        match order {
            _ if self.stopping.is_some() => {
                if let (Order::Stop { done, .. }, Some((_, waiting))) = (order, &mut self.stopping) {
                    waiting.push(done);
                }
            }
            Order::Start if self.current.is_none() && self.next.is_none() => self.start().await,
            Order::Start => {
                // Whoever asked waits for a change of state.
                self.context.state.send_modify(|_| {});
            }
            Order::Restart if self.next.is_none() => self.start().await,
            Order::Restart => {}
            Order::Grow => {
                self.workers += 1;
                let (workers, threads) = (self.workers, self.context.site.threads);
                if let Some(current) = &mut self.current {
                    current.fork(workers, threads).await;
                }
            }
            Order::Shrink if self.workers > 1 => {
                self.workers -= 1;
                let newest = self.current.as_ref().and_then(|current| {
                    current
                        .workers
                        .iter()
                        .filter(|(_, worker)| worker.kill_at.is_none())
                        .max_by_key(|(_, worker)| worker.index)
                        .map(|(id, _)| *id)
                });
                if let Some(id) = newest {
                    self.drain_worker(id, LAST_REQUESTS).await;
                }
            }
            Order::Shrink => {}
            Order::Stop { grace, done } => self.stop(grace, Some(done)).await,
        }
    }

    /// Boots a generation.
    async fn start(&mut self) {
        let began = Instant::now();
        if self.current.is_none() {
            self.context.state.send_replace(State::Starting);
        }
        let site = self.context.site.clone();
        let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
        report.begin(Step::Found, began.elapsed());
        let found = found(&site);
        let (root, kind, rackup) = match found {
            Ok(found) => found,
            Err(error) => {
                report.fail(Failure::System {
                    doing: format!("looking for an application in {}", site.root.display()),
                    error,
                });
                return self.failed(report);
            }
        };
        report.done(Step::Found, began.elapsed());
        let (socket, process) = match self.context.adopted.take() {
            Some(socket) => (socket, None),
            None => match spawn::preloader(&site, &root) {
                Ok(spawned) => spawned.into(),
                Err(error) => {
                    report.fail(Failure::System {
                        doing: format!("starting {}", site.ruby.display()),
                        error: error.to_string(),
                    });
                    return self.failed(report);
                }
            },
        };
        let number = self.next_generation;
        self.next_generation += 1;
        if let Some((pid, ..)) = &process {
            self.await_exit(number, *pid);
        }
        match Generation::new(number, report.clone(), began, socket, process, &site, &self.events) {
            Ok(mut generation) => {
                let gemfile = site
                    .env
                    .get("BUNDLE_GEMFILE")
                    .map(PathBuf::from)
                    .or_else(|| std::env::var_os("BUNDLE_GEMFILE").map(PathBuf::from));
                let gemfile = gemfile.or_else(|| Some(root.join("Gemfile"))).filter(|gemfile| gemfile.is_file());
                generation.start(&site, kind, rackup, gemfile, &root).await;
                self.next = Some(generation);
            }
            Err(error) => {
                report.fail(Failure::System { doing: "opening the control socket".into(), error: error.to_string() });
                self.failed(report);
            }
        }
    }

    fn await_exit(&self, generation: u64, pid: i32) {
        let exit = self.context.reaper.exit_of(pid);
        let events = self.events.clone();
        tokio::spawn(async move {
            if let Ok(exit) = exit.await {
                let _ = events.send(Event { generation, worker: None, happened: Happened::Exited(exit) });
            }
        });
    }

    /// A start ended badly: whatever served before goes on serving.
    fn failed(&mut self, report: StartupReport) {
        self.failures += 1;
        let log = &self.context.log;
        log.text(startup_report::text::render(&report, false));
        let report = Arc::new(report);
        if self.current.is_some() {
            return log.event(format!(
                "{}: the new generation did not start; the old one goes on serving",
                self.context.site.name
            ));
        }
        // In development a reload is an attempt; in production the attempts of many visitors are spread out.
        let pause = match self.context.site.environment.as_str() {
            "production" => Duration::from_secs(1 << self.failures.min(5)).min(LONGEST_PAUSE),
            _ => Duration::from_millis(300),
        };
        self.context.state.send_replace(State::Failed { report, retry_at: Instant::now() + pause });
    }

    async fn handle(&mut self, event: Event) {
        match (event.worker, event.happened) {
            (_, Happened::Printed(who, line)) => {
                self.context.log.output(&who, &line);
                if let Some(next) = self.next.as_mut().filter(|next| next.number == event.generation) {
                    next.report.push_output(&line);
                }
            }
            (None, Happened::Frame(frame, fd)) => self.preloader_says(event.generation, frame, fd).await,
            (None, Happened::Closed) => {
                if let Some(generation) = self.generation(event.generation) {
                    generation.control = None;
                    // An adopted preloader is not our child: its EOF is all we learn.
                    if generation.pid.is_none() {
                        self.preloader_gone(event.generation, Exit::Status(0)).await;
                    }
                }
            }
            (None, Happened::Exited(exit)) => self.preloader_gone(event.generation, exit).await,
            (_, Happened::Refork(index)) => {
                let threads = self.context.site.threads;
                let wanted = index <= self.workers && self.stopping.is_none();
                if let Some(current) =
                    self.current.as_mut().filter(|current| wanted && current.number == event.generation)
                {
                    current.fork(index, threads).await;
                }
            }
            (Some(worker), Happened::Frame(frame, fd)) => self.worker_says(event.generation, worker, frame, fd).await,
            (Some(worker), Happened::Closed) => self.worker_gone(event.generation, worker).await,
            (Some(_), Happened::Exited(_)) => {}
        }
    }

    fn generation(&mut self, number: u64) -> Option<&mut Generation> {
        let all = self.current.iter_mut().chain(self.next.iter_mut()).chain(self.leaving.iter_mut());
        all.into_iter().find(|generation| generation.number == number)
    }

    async fn preloader_says(&mut self, number: u64, frame: Raw, fd: Option<OwnedFd>) {
        let (site, events, workers) = (self.context.site.clone(), self.events.clone(), self.workers);
        let id = self.next_worker;
        let Some(generation) = self.generation(number) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::STEP => generation.step(text(0), text(1)),
            kind::LOADED => {
                let versions = texts
                    .chunks_exact(2)
                    .filter(|pair| ["ruby", "rack", "rails"].contains(&pair[0].as_str()) && !pair[1].is_empty());
                generation.report.versions =
                    versions.map(|pair| format!("{} {}", pair[0], pair[1])).collect::<Vec<_>>().join(", ");
                if generation.phase == Phase::Loading {
                    generation.phase = Phase::Forking;
                    generation.step("fork", "begin");
                    for index in 1..=workers {
                        generation.fork(index, site.threads).await;
                    }
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
                if generation.phase == Phase::Leaving {
                    kill(pid);
                }
                self.next_worker += 1;
            }
            kind::EXITED => {
                let exit = Exit::parse(text(1));
                let found = generation.workers.iter_mut().find(|(_, worker)| text(0).parse() == Ok(worker.pid));
                let Some((&id, worker)) = found else { return };
                worker.exit = exit;
                if worker.gone {
                    self.bury(number, id).await;
                }
            }
            kind::PRELOADER_FAILED => {
                let (step, failure) = failure(&frame.payload);
                self.generation_failed(number, step, failure).await;
            }
            _ => {}
        }
    }

    /// A generation that has not become ready never will.
    async fn generation_failed(&mut self, number: u64, step: Option<Step>, failure: Failure) {
        if self.next.as_ref().is_none_or(|next| next.number != number) {
            return;
        }
        if let Some(mut next) = self.next.take() {
            // What it printed last may still be in the pipe: the failure is told when it has been read.
            if let Some(step) = step {
                next.report.begin(step, next.elapsed());
            }
            next.report.fail(failure);
            next.workers.values().for_each(|worker| kill(worker.pid));
            if next.control.take().is_some() {
                // EOF ends the preloader; a stuck one is killed.
                if let Some(pid) = next.pid {
                    kill_later(pid, PRELOADER_END);
                }
            }
            if self.stopping.is_none() {
                self.failed(next.report);
            }
        }
    }

    async fn preloader_gone(&mut self, number: u64, exit: Exit) {
        // The exit may overtake the frames on the socket: FAILED says more than a status.
        if let Some(generation) = self.generation(number).filter(|generation| generation.control.is_some()) {
            let _ = generation;
            let events = self.events.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = events.send(Event { generation: number, worker: None, happened: Happened::Exited(exit) });
            });
            return;
        }
        if self.next.as_ref().is_some_and(|next| next.number == number) {
            let (status, signal) = match exit {
                Exit::Status(status) => (Some(status), None),
                Exit::Signal(signal) => (None, Some(signal)),
            };
            return self
                .generation_failed(number, None, Failure::Exited { status, signal, who: "the preloader".into() })
                .await;
        }
        self.leaving.retain(|generation| generation.number != number);
        let Some(current) = self.current.take_if(|current| current.number == number) else { return };
        self.context.log.event(format!("{}: the preloader {exit}; starting it again", self.context.site.name));
        for (id, worker) in &current.workers {
            self.context.queue.leave(*id);
            self.context.queue.remove(*id);
            kill(worker.pid);
        }
        if self.stopping.is_none() && current.pid.is_some() {
            if current.elapsed() < SHORT_LIFE {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            self.start().await;
        }
    }

    async fn worker_says(&mut self, number: u64, id: WorkerId, frame: Raw, fd: Option<OwnedFd>) {
        let events = self.events.clone();
        let (queue, log, name) = (self.context.queue.clone(), self.context.log.clone(), self.context.site.name.clone());
        let Some(generation) = self.generation(number) else { return };
        let phase = generation.phase;
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        let texts = fields::texts(&frame.payload);
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match frame.kind {
            kind::CHANNEL => {
                let thread = text(0).parse().unwrap_or(0);
                let Some(Ok(channel)) = fd.map(|fd| Channel::new(fd, thread)) else { return };
                if worker.ready && phase != Phase::Forking {
                    queue.add(id, channel);
                } else {
                    worker.early.push(channel);
                }
            }
            kind::OUTPUT => {
                let who = format!("{name}.{}", worker.index);
                if let Some(fd) = fd {
                    let _ = forward_output(number, who, fd, &events);
                }
            }
            kind::READY => {
                worker.ready = true;
                worker.kill_at = None;
                if phase == Phase::Ready {
                    let early = std::mem::take(&mut worker.early);
                    self.context.queue.join(id, self.complaints.clone());
                    early.into_iter().for_each(|channel| queue.add(id, channel));
                } else if generation.complete() {
                    self.switch(number).await;
                }
            }
            kind::BACKTRACE => log.text(format!(
                "* {name}.{} thread {} is here:\n    {}",
                worker.index,
                text(0),
                text(1).replace('\n', "\n    ")
            )),
            kind::WORKER_FAILED => {
                let (step, failure) = failure(&frame.payload);
                if phase == Phase::Ready {
                    let mut report = generation.report.clone();
                    report.fail(failure);
                    log.text(startup_report::text::render(&report, false));
                } else {
                    self.generation_failed(number, step.or(Some(Step::Ready)), failure).await;
                }
            }
            _ => {}
        }
    }

    /// The generation that booted takes the traffic; the one before finishes what it has.
    async fn switch(&mut self, number: u64) {
        let Some(mut generation) = self.next.take_if(|next| next.number == number) else { return };
        generation.step("ready", "done");
        generation.phase = Phase::Ready;
        for (id, worker) in &mut generation.workers {
            self.context.queue.join(*id, self.complaints.clone());
            worker.early.drain(..).for_each(|channel| self.context.queue.add(*id, channel));
        }
        self.failures = 0;
        let report = &generation.report;
        self.context.log.event(format!(
            "{} is ready: {}, {} x {} threads, {} ({:.1} s)",
            self.context.site.name,
            report.environment,
            generation.workers.len(),
            self.context.site.threads,
            report.versions,
            generation.elapsed().as_secs_f64()
        ));
        let old = self.current.replace(generation);
        self.context.state.send_replace(State::Ready);
        if let Some(old) = old {
            self.retire(old, LAST_REQUESTS).await;
        }
        if self.current.as_ref().is_some_and(|current| current.workers.len() < self.workers) {
            // The pool grew while this generation booted.
            let missing: Vec<_> =
                (self.current.as_ref().map_or(0, |current| current.workers.len()) + 1..=self.workers).collect();
            for index in missing {
                let threads = self.context.site.threads;
                if let Some(current) = &mut self.current {
                    current.fork(index, threads).await;
                }
            }
        }
    }

    async fn retire(&mut self, mut generation: Generation, grace: Duration) {
        generation.phase = Phase::Leaving;
        for (id, worker) in &mut generation.workers {
            self.context.queue.leave(*id);
            let _ = worker.control.send(&encode(kind::DRAIN, |_| {})).await;
            worker.kill_at = Some(Instant::now() + grace);
        }
        if generation.workers.is_empty() {
            self.end_preloader(&mut generation);
        }
        self.leaving.push(generation);
    }

    /// Closing the control socket ends the preloader; its exit ends the generation.
    fn end_preloader(&self, generation: &mut Generation) {
        generation.control = None;
        if let Some(pid) = generation.pid {
            kill_later(pid, PRELOADER_END);
        }
    }

    async fn drain_worker(&mut self, id: WorkerId, grace: Duration) {
        self.context.queue.leave(id);
        let all = self.current.iter_mut().chain(self.next.iter_mut()).chain(self.leaving.iter_mut());
        for generation in all {
            if let Some(worker) = generation.workers.get_mut(&id) {
                let _ = worker.control.send(&encode(kind::DRAIN, |_| {})).await;
                worker.kill_at = Some(Instant::now() + grace);
            }
        }
    }

    async fn worker_gone(&mut self, number: u64, id: WorkerId) {
        self.context.queue.leave(id);
        self.context.queue.remove(id);
        let Some(generation) = self.generation(number) else { return };
        let Some(worker) = generation.workers.get_mut(&id) else { return };
        worker.gone = true;
        // The preloader tells how it ended, now or in a moment; without a preloader nobody will.
        if worker.exit.is_some() || generation.control.is_none() {
            self.bury(number, id).await;
        }
    }

    /// A worker is gone and its exit known: replace it, or count it off.
    async fn bury(&mut self, number: u64, id: WorkerId) {
        let name = self.context.site.name.clone();
        let workers = self.workers;
        let Some(generation) = self.generation(number) else { return };
        let Some(worker) = generation.workers.remove(&id) else { return };
        let exit = worker.exit.unwrap_or(Exit::Status(0));
        match generation.phase {
            Phase::Loading | Phase::Forking => {
                let (status, signal) = match exit {
                    Exit::Status(status) => (Some(status), None),
                    Exit::Signal(signal) => (None, Some(signal)),
                };
                let who = format!("worker {}", worker.index);
                self.generation_failed(number, Some(Step::Ready), Failure::Exited { status, signal, who }).await;
            }
            Phase::Leaving => {
                if generation.workers.is_empty() {
                    generation.control = None;
                    if let Some(pid) = generation.pid {
                        kill_later(pid, PRELOADER_END);
                    }
                    if generation.pid.is_none() {
                        self.leaving.retain(|generation| generation.number != number);
                    }
                }
            }
            Phase::Ready => {
                let asked = worker.kill_at.is_some() && worker.ready;
                if !asked || exit != Exit::Status(0) {
                    self.context.log.event(format!("{name}.{} (pid {}) {exit}", worker.index, worker.pid));
                }
                if worker.index > workers || self.stopping.is_some() {
                    return;
                }
                self.crashes = if worker.forked.elapsed() < SHORT_LIFE && !asked { self.crashes + 1 } else { 0 };
                let pause = match self.crashes {
                    0 | 1 => Duration::ZERO,
                    crashes => Duration::from_millis(100 << crashes.min(7)).min(LONGEST_PAUSE),
                };
                let events = self.events.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    let _ = events.send(Event {
                        generation: number,
                        worker: None,
                        happened: Happened::Refork(worker.index),
                    });
                });
            }
        }
    }

    async fn hear(&mut self, id: WorkerId, complaint: Complaint) {
        let log = self.context.log.clone();
        let site = self.context.site.name.clone();
        let all = self.current.iter_mut().chain(self.leaving.iter_mut());
        let Some(worker) = all.flat_map(|generation| generation.workers.get_mut(&id)).next() else { return };
        let (thread, replace) = match &complaint {
            Complaint::Slow { thread, request } => {
                log.event(format!(
                    "{site}.{} thread {thread}: {request} has been in the app for {:?}",
                    worker.index,
                    self.context.site.app_soft_timeout.unwrap_or_default()
                ));
                (*thread, false)
            }
            Complaint::Replace { thread, reason } => {
                log.event(format!("{site}.{} thread {thread}: {reason}; replacing the worker", worker.index));
                (*thread, true)
            }
        };
        let _ = worker.control.send(&encode(kind::ASK_BACKTRACE, |out| fields::put(out, thread.to_string()))).await;
        if replace && worker.kill_at.is_none() {
            let busy_elsewhere = !self.context.queue.leave(id);
            let grace = if busy_elsewhere { LAST_REQUESTS } else { Duration::from_millis(500) };
            self.drain_worker(id, grace).await;
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let generations = || self.current.iter().chain(self.next.iter()).chain(self.leaving.iter());
        let kills =
            generations().flat_map(|generation| generation.workers.values().filter_map(|worker| worker.kill_at));
        let starts = self.next.iter().map(|next| next.deadline);
        kills.chain(starts).min()
    }

    /// Time has passed: kill what did not end, give up what did not start.
    async fn pass(&mut self, now: Instant) {
        if self.next.as_ref().is_some_and(|next| next.deadline <= now) {
            let number = self.next.as_ref().map_or(0, |next| next.number);
            let after = self.context.site.start_timeout;
            if let Some(pid) = self.next.as_ref().and_then(|next| next.pid) {
                kill(pid);
            }
            self.generation_failed(number, None, Failure::TimedOut { after }).await;
        }
        for generation in self.current.iter_mut().chain(self.next.iter_mut()).chain(self.leaving.iter_mut()) {
            for worker in generation.workers.values_mut().filter(|worker| worker.kill_at.is_some_and(|at| at <= now)) {
                kill(worker.pid);
                worker.kill_at = Some(now + Duration::from_secs(3600));
            }
        }
    }

    async fn stop(&mut self, grace: Duration, done: Option<oneshot::Sender<()>>) {
        if let Some((_, waiting)) = &mut self.stopping {
            waiting.extend(done);
            return;
        }
        self.stopping = Some((Instant::now() + grace, done.into_iter().collect()));
        self.context.state.send_replace(State::Stopped);
        if let Some(mut next) = self.next.take() {
            next.workers.values().for_each(|worker| kill(worker.pid));
            self.end_preloader(&mut next);
        }
        if let Some(current) = self.current.take() {
            self.retire(current, grace).await;
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some() && self.leaving.is_empty()
    }

    fn over(self) {
        if let Some((_, waiting)) = self.stopping {
            waiting.into_iter().for_each(|done| {
                let _ = done.send(());
            });
        }
    }
}

/// The real path of the root (Capistrano's `current` is a symlink), what is there, and its rackup or Sinatra file.
fn found(site: &SiteConfig) -> Result<(PathBuf, config::AppKind, Option<PathBuf>), String> {
    let root = real(&site.root)?;
    let detected = config::detect(&root);
    let kind = match site.kind {
        Some(kind) => kind,
        None => detected.as_ref().map_err(|error| error.to_string())?.kind,
    };
    let entry = detected.ok().filter(|detected| detected.kind == kind).map(|detected| detected.entry);
    let rackup = site.rackup.clone().or(entry).filter(|path| path.is_file() || site.rackup.is_some());
    Ok((root, kind, rackup))
}

fn real(root: &Path) -> Result<PathBuf, String> {
    root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn kill_later(pid: i32, after: Duration) {
    // A pid that has been reaped and given to somebody else within two seconds would need a full turn of the pid space.
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        if is_child(pid) {
            kill(pid);
        }
    });
}

/// Whether the process is still the front's child.
fn is_child(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent =
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).and_then(|text| text.parse().ok());
    parent == Some(rustix::process::getpid().as_raw_nonzero().get())
}
