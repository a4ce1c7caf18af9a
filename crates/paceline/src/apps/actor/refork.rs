//! A worker that has answered enough requests becomes the mold of the next ones: the preloader of a new generation,
//! which then becomes ready and takes over as any other. It never judges whether a fork does harm: the worker does.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{leave::kill, Actor};
use crate::{
    apps::{
        generation::{Generation, Mold, Preloader},
        reaper::Exit,
        startable_app::StartableApp,
        worker_process::{Worker, WorkerStage},
    },
    config::SiteConfig,
    observe::log::Name,
    origins::workers::{
        dispatch::queue::{Tally, WorkerId},
        protocol::{
            fields,
            frame::{encode, kind},
        },
    },
};
use startup_report::{StartupReport, Step};

/// How often requests are counted.
pub const INTERVAL: Duration = Duration::from_millis(200);
/// How long the exit of a mold is waited for, of which its former preloader may know alone.
pub const EXIT_TOLD: Duration = Duration::from_millis(500);
/// What the application's hooks and the search for what a fork would break may take, after the last requests.
const PREPARATION: Duration = Duration::from_secs(30);

/// How far a generation has come on the way to its successor.
pub enum Refork {
    /// No worker has answered enough, or those that have are busy with streams.
    Awaited(Wait),
    /// One has; another, forked from the preloader, is to take its place first.
    StandIn { candidate: WorkerId, requests: u64 },
    /// It has no requests any more and prepares itself.
    Asked { candidate: WorkerId, requests: u64 },
    /// Not with this generation, or not again.
    Over,
}

/// The wait for a worker that can be asked.
#[derive(Default)]
pub struct Wait {
    /// None is looked for before.
    from: Option<Instant>,
    /// It was said that streams are waited for.
    told: bool,
}

impl Default for Refork {
    fn default() -> Refork {
        Refork::Awaited(Wait::default())
    }
}

impl Refork {
    /// Of a generation that begins to serve. One that was forked from a mold is warm already.
    pub fn after(generation: &Generation) -> Refork {
        match generation.mold {
            Some(_) => Refork::Over,
            None => Refork::default(),
        }
    }

    fn postponed(by: Duration) -> Refork {
        Refork::Awaited(Wait { from: Some(Instant::now() + by), told: false })
    }
}

impl Actor {
    pub(super) fn awaits_mold(&self) -> bool {
        self.context.site.tuning.refork_after.is_some()
            && matches!(&self.refork, Refork::Awaited(wait) if wait.from.is_none_or(|from| Instant::now() >= from))
            && self.current.is_some()
            && self.succession.is_none()
            && self.next.is_none()
            && self.canary.is_none()
            && self.stopping.is_none()
    }

    /// Chooses the worker that has answered most, if that is enough, and has another forked that takes its place. One that
    /// has streams would wait for their ends, and most of these last longer than it may wait.
    pub(super) async fn look_for_mold(&mut self) {
        let (Some(after), threads) = (self.context.site.tuning.refork_after, self.context.site.threads) else { return };
        let Some(current) = &mut self.current else { return };
        let serves = |worker: &Worker| worker.stage == WorkerStage::Serving && !worker.faulty && !worker.replaced;
        let mut tallies = self.context.queue.tallies();
        tallies.retain(|tally| {
            tally.answered >= after && !tally.leaving && current.workers.get(&tally.id).is_some_and(serves)
        });
        let free = tallies.iter().filter(|tally| tally.streams == 0);
        let Some(&Tally { id: candidate, answered: requests, .. }) = free.max_by_key(|tally| tally.answered) else {
            if !tallies.is_empty() {
                self.tell_awaits_streams();
            }
            return;
        };
        let Some(index) = current.workers.get(&candidate).map(|worker| worker.index) else { return };
        self.refork = Refork::StandIn { candidate, requests };
        current.fork(index, threads).await;
    }

    /// Once for each wait.
    fn tell_awaits_streams(&mut self) {
        let Refork::Awaited(wait) = &mut self.refork else { return };
        if std::mem::replace(&mut wait.told, true) {
            return;
        }
        let name = &self.context.site.name;
        let text =
            format!("{name} is not reforked yet: it waits for a worker without streams that has answered enough");
        self.context.log.event(Name::Refork, text);
    }

    /// A worker has become ready in a generation that serves: maybe the one that was waited for.
    pub(super) async fn stand_in_ready(&mut self, id: WorkerId, index: usize) {
        let Refork::StandIn { candidate, requests } = self.refork else { return };
        let patience = self.context.site.drain_timeout;
        let has_streams = self.context.queue.tallies().iter().any(|tally| tally.id == candidate && tally.streams > 0);
        let Some(current) = &mut self.current else { return };
        let Some(worker) = current.workers.get_mut(&candidate) else { return };
        if worker.index != index || candidate == id {
            return;
        }
        if worker.stage != WorkerStage::Serving || self.next.is_some() || has_streams {
            self.refork = if has_streams { Refork::postponed(patience) } else { Refork::default() };
            return self.drain_twin(candidate).await;
        }
        self.refork = Refork::Asked { candidate, requests };
        self.context.queue.leave(candidate);
        worker.stage = WorkerStage::Preparing { kill_at: Instant::now() + patience + PREPARATION };
        let _ = worker.control.send(&encode(kind::MOLD, |out| fields::put(out, patience.as_secs().to_string()))).await;
    }

    /// Drains the worker that stands in for this one.
    async fn drain_twin(&mut self, candidate: WorkerId) {
        let Some(current) = &mut self.current else { return };
        let Some(index) = current.workers.get(&candidate).map(|worker| worker.index) else { return };
        let twin = current.workers.iter_mut().find(|(id, worker)| worker.index == index && **id != candidate);
        if let Some((&id, worker)) = twin {
            worker.replaced = true;
            self.drain_worker(id, self.context.site.drain_timeout).await;
        }
    }

    /// The worker has found something that a fork would break: it goes on as before. `is_busy`: only requests or streams
    /// that have not ended, so another one may be asked, or the same one later.
    pub(super) async fn unsafe_to_fork(&mut self, number: u64, id: WorkerId, why: &str, is_busy: bool) {
        if !self.is_asked(number, id) {
            return;
        }
        self.refork = if is_busy { Refork::postponed(self.context.site.drain_timeout) } else { Refork::Over };
        let Some(worker) = self.generation(number).and_then(|current| current.workers.get_mut(&id)) else { return };
        worker.stage = WorkerStage::Serving;
        let index = worker.index;
        let why = why.replace(char::is_control, " ");
        let name = &self.context.site.name;
        let text = if is_busy {
            format!("{name}.{index} is not reforked from yet, and goes on serving: {why}")
        } else {
            format!("{name}.{index} is not reforked from and goes on serving: {why} (or set refork_after = 0)")
        };
        self.context.log.event(Name::Refork, text);
        for _ in 0..self.context.queue.stay(id) {
            self.stream_began(id, true).await;
        }
        self.drain_twin(id).await;
        self.drain_surplus().await;
    }

    /// Whether this is the worker that prepares itself, and is still wanted as a mold.
    fn is_asked(&self, number: u64, id: WorkerId) -> bool {
        self.current.as_ref().is_some_and(|current| current.number == number)
            && matches!(self.refork, Refork::Asked { candidate, .. } if candidate == id)
    }

    /// The worker has become a preloader, which is told to on a socket of its own.
    pub(super) async fn promoted(&mut self, number: u64, id: WorkerId, fd: Option<OwnedFd>) {
        let wanted = self.is_asked(number, id) && self.next.is_none() && self.stopping.is_none();
        let requests = match self.refork {
            Refork::Asked { requests, .. } => requests,
            _ => 0,
        };
        let Some(generation) = self.generation(number) else { return };
        let (Some(socket), true) = (fd, wanted) else {
            // Its exit is told as any other worker's.
            return generation.workers.get(&id).map(|worker| kill(worker.pid)).unwrap_or_default();
        };
        let Some(worker) = generation.workers.remove(&id) else { return };
        generation.release(worker.pid).await;
        let (run_as, release) = (generation.run_as.clone(), generation.release.clone());
        self.context.queue.remove(id);
        self.refork = Refork::Over;
        let began = Instant::now();
        let site = self.context.site.clone();
        let next = self.next_generation;
        self.next_generation += 1;
        let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
        report.begin(Step::Found, Duration::ZERO);
        let found = look(&site, release).await;
        report.done(Step::Found, began.elapsed());
        report.read_as = Some(run_as.clone());
        let begun = found.and_then(|found| {
            let preloader = Preloader { control: UnixStream::from(socket), process: None, run_as };
            Ok((found, Generation::new(next, report, began, preloader, &site, &self.events)?))
        });
        match begun {
            Ok((found, mut generation)) => {
                generation.pid = Some(worker.pid);
                generation.mold = Some(Mold { index: worker.index, requests });
                generation.start(&site, &found).await;
                self.await_exit(next, worker.pid);
                self.next = Some(generation);
            }
            Err(error) => {
                kill(worker.pid);
                self.context.log.event(Name::Refork, format!("{}: not reforked: {error}", site.name));
            }
        }
    }

    /// A process that is none of its preloader's workers any more has ended while that preloader lived.
    pub(super) fn mold_exited(&mut self, pid: &str, exit: Option<Exit>) {
        let Some(pid) = pid.parse::<i32>().ok() else { return };
        let mold = self.generations().find(|generation| generation.mold.is_some() && generation.pid == Some(pid));
        let (Some(number), Some(exit)) = (mold.map(|mold| mold.number), exit) else { return };
        let happened = crate::apps::events::ActorEvent::Exited(exit);
        let _ = self.events.send(crate::apps::events::Event { generation: number, worker: None, happened });
    }

    /// A worker is gone: if it was to be the mold, or to stand in for it, that is over for this generation.
    pub(super) fn refork_without(&mut self, id: WorkerId, worker: &Worker) {
        let (Refork::StandIn { candidate, .. } | Refork::Asked { candidate, .. }) = self.refork else { return };
        let stand_in = || {
            let candidate = self.current.as_ref().and_then(|current| current.workers.get(&candidate));
            candidate.is_some_and(|candidate| candidate.index == worker.index) && !worker.is_ready()
        };
        if candidate == id || stand_in() {
            self.refork = Refork::Over;
        }
    }
}

/// What the release is, looked at away from the event loop: the files are the application's.
async fn look(site: &SiteConfig, release: PathBuf) -> io::Result<StartableApp> {
    let site = site.clone();
    let looked = tokio::task::spawn_blocking(move || StartableApp::in_release(&site, &release));
    looked.await?.map_err(io::Error::other)
}
