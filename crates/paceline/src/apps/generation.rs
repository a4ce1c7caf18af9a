//! A generation: one preloader and the workers it forked, from spawn to the last exit. Holds what is known of them and
//! sends them frames; what is to be done is decided in `actor`.

use std::{
    collections::HashMap,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

use super::ruby_facts::RubyFacts;
use super::{
    events::{ActorEvent, Event},
    limits,
    output::read_lines,
    pages::{Digest, Uncompared},
    reaper::Exit,
    spawn::{environment_digest, PreloaderProcess},
    startable_app::StartableApp,
    worker_process::Worker,
};
use crate::{
    caching::code::{FolderId, Load},
    config::{AppKind, SiteConfig},
    origins::workers::{
        dispatch::queue::{Queue, StreamThreads, WorkerId},
        protocol::{
            control::{control, ControlReader, ControlWriter},
            fields,
            frame::{encode, kind, shadow},
            ruby_heap::RubyHeap,
        },
    },
};
use startup_report::{StartupReport, Step};
use unix_user::RunAs;

/// How long a fork may take, with the hooks before it; or as long as a start may, if that is less. A preloader that
/// finds no memory for it says so all the while.
const FORK_TIME: Duration = Duration::from_secs(10);

/// Where a generation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Loading,
    Forking,
    /// Its workers are asked for pages before they get visitors.
    Checking,
    Ready,
    Leaving,
    /// It did not start; its last output is still being read.
    Failing,
}

impl Phase {
    /// As status and JSON say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Loading => "loading",
            Phase::Forking => "forking",
            Phase::Checking => "checking",
            Phase::Ready => "ready",
            Phase::Leaving => "leaving",
            Phase::Failing => "failing",
        }
    }
}

/// One preloader with its workers.
pub struct Generation {
    pub number: u64,
    pub phase: Phase,
    /// None for an adopted preloader: it is not the front's child.
    pub pid: Option<i32>,
    /// The process that has loaded the application, as it says: `pid` may be a wrapper's.
    pub ruby: Option<i32>,
    pub control: Option<ControlWriter>,
    pub workers: HashMap<WorkerId, Worker>,
    pub report: StartupReport,
    /// What its preloader has said of Ruby.
    pub facts: RubyFacts,
    pub began: Instant,
    /// When it began, in Unix seconds.
    pub began_at: f64,
    /// The real path of the root that it is loaded from.
    pub release: PathBuf,
    /// Which folder was there before it was.
    pub folder: Option<FolderId>,
    /// Of its bundle.
    pub gemfile: Option<PathBuf>,
    /// Its workers' indexes that have been asked for and not come yet.
    pub forking: usize,
    /// Within this time the preloader forks, or says why not.
    pub fork_time: Duration,
    /// When it has to have forked what it was asked for.
    pub fork_due: Option<Instant>,
    /// When it has to be ready; of one that failed, when its failure is told.
    pub deadline: Instant,
    /// Who its processes run as.
    pub run_as: RunAs,
    /// The digest of the environment that these were given.
    pub environment: String,
    /// Pipes on which somebody may still print.
    pub pipes: usize,
    /// The preloader's exit, which may come before its last frames.
    pub exit: Option<Exit>,
    /// When frames of a preloader that has exited are no longer waited for.
    pub gone_at: Option<Instant>,
    /// The preloader was a worker of the generation before.
    pub mold: Option<Mold>,
    /// What the preloader told last of Ruby's heap.
    pub heap: watch::Sender<Option<RubyHeap>>,
    /// Where its workers' channels are while they are asked before they get visitors.
    pub rehearsal: Option<Arc<Queue>>,
    /// For how long its preloader stays when its workers have gone, for a rollback.
    pub keep: Option<Duration>,
    /// It is gone back to.
    pub rollback: bool,
    /// The settings that it was started with.
    pub settings: Arc<SiteConfig>,
    /// Of its code, once it is known or it is known that it will not be.
    pub digest: Option<Digest>,
}

/// A worker that has become a preloader.
#[derive(Debug, Clone, Copy)]
pub struct Mold {
    pub index: usize,
    /// What it had answered.
    pub requests: u64,
}

/// Why there is no copy of the application for a doctor, or for pages that are rendered before they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotForked {
    #[error("the application is being stopped")]
    Stopping,
    #[error("the application is not running: send it a request, or look at paceline status")]
    NotRunning,
    #[error("the process that loaded the application is gone")]
    PreloaderGone,
}

/// What a generation begins with: the process that loads its application.
pub struct Preloader {
    pub control: UnixStream,
    /// Its number, and the pipes that it prints to. None: it was not started as a preloader by this front.
    pub process: Option<(i32, OwnedFd, OwnedFd)>,
    pub run_as: RunAs,
}

impl Generation {
    /// Takes over a preloader that was just started, or adopted.
    pub fn new(
        number: u64,
        report: StartupReport,
        began: Instant,
        preloader: Preloader,
        site: &SiteConfig,
        events: &mpsc::UnboundedSender<Event>,
    ) -> std::io::Result<Generation> {
        let Preloader { control: socket, process, run_as } = preloader;
        let (reader, writer) = control(socket, &run_as)?;
        forward(number, None, reader, events.clone());
        let pid = process.as_ref().map(|(pid, ..)| *pid);
        let settings = Arc::new(site.clone());
        let mut generation = Generation {
            number,
            phase: Phase::Loading,
            pid,
            ruby: None,
            control: Some(writer),
            workers: HashMap::new(),
            report,
            facts: RubyFacts::default(),
            began,
            began_at: crate::support::clock::unix_seconds() - began.elapsed().as_secs_f64(),
            release: PathBuf::new(),
            folder: None,
            gemfile: None,
            forking: 0,
            fork_time: FORK_TIME.min(site.start_timeout),
            fork_due: None,
            deadline: began + site.start_timeout,
            run_as,
            environment: String::new(),
            pipes: 0,
            exit: None,
            gone_at: None,
            mold: None,
            heap: watch::Sender::new(None),
            rehearsal: None,
            keep: None,
            rollback: false,
            settings,
            digest: None,
        };
        if let Some((_, stdout, stderr)) = process {
            for pipe in [stdout, stderr] {
                generation.listen_to(site.name.clone(), pipe, events)?;
            }
        }
        Ok(generation)
    }

    /// Lines of a pipe as events.
    pub fn listen_to(
        &mut self,
        who: String,
        pipe: OwnedFd,
        events: &mpsc::UnboundedSender<Event>,
    ) -> std::io::Result<()> {
        let (generation, events) = (self.number, events.clone());
        let event = move |happened| drop(events.send(Event { generation, worker: None, happened }));
        read_lines(pipe, move |line| {
            event(match line {
                Some(line) => ActorEvent::Printed(who.clone(), line),
                None => ActorEvent::PrintedAll,
            })
        })?;
        self.pipes += 1;
        Ok(())
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Threads of each of its workers, and those beside them for streams.
    pub fn threads(&self) -> StreamThreads {
        StreamThreads { threads: self.settings.threads, spare: self.settings.stream_threads }
    }

    /// Sends START.
    pub async fn start(&mut self, site: &SiteConfig, found: &StartableApp) {
        self.release.clone_from(&found.root);
        self.folder = found.folder;
        self.gemfile = found.gemfile(site);
        self.environment = environment_digest(site, &self.run_as);
        self.send(&start_frame(site, found)).await;
    }

    /// Asks the preloader for a worker.
    pub async fn fork(&mut self, index: usize, threads: usize) {
        self.forking += 1;
        self.fork_due.get_or_insert_with(|| Instant::now() + self.fork_time);
        let frame = encode(kind::FORK, |out| {
            fields::put(out, index.to_string());
            fields::put(out, threads.to_string());
        });
        self.send(&frame).await;
    }

    /// The preloader has said something: it lives, and has its time again for what it was asked.
    pub fn heard(&mut self) {
        self.fork_due = (self.forking > 0).then(|| Instant::now() + self.fork_time);
    }

    /// Says that its workers serve.
    pub async fn booted(&mut self) {
        self.send(&encode(kind::BOOTED, |_| {})).await;
    }

    /// Says that it has no workers any more, and may get some again.
    pub async fn stopped(&mut self) {
        self.send(&encode(kind::STOPPED, |_| {})).await;
    }

    /// Asks a preloader that loads where it is; it prints the answer.
    pub async fn ask_backtrace(&mut self) {
        self.send(&encode(kind::ASK_BACKTRACE, |out| fields::put(out, "0"))).await;
    }

    /// Tells the preloader that a worker it forked is none of its own any more.
    pub async fn release(&mut self, pid: i32) {
        self.send(&encode(kind::RELEASE, |out| fields::put(out, pid.to_string()))).await;
    }

    /// Asks the preloader for a copy of the application that answers replayed requests at this socket. It is no worker:
    /// no frame reports it. Err: the preloader is gone.
    pub async fn shadow(&mut self, socket: &Path) -> Result<(), NotForked> {
        let control = self.control.as_mut().ok_or(NotForked::PreloaderGone)?;
        control.send(&shadow(socket)).await.map_err(|_| NotForked::PreloaderGone)
    }

    async fn send(&mut self, frame: &[u8]) {
        // A preloader that is gone is noticed by the EOF on its socket.
        if let Some(control) = &mut self.control {
            let _ = control.send(frame).await;
        }
    }

    /// Of its code.
    pub fn load(&self) -> Load {
        Load {
            root: self.release.clone(),
            folder: self.folder,
            gemfile: self.gemfile.clone(),
            versions: self.report.versions.clone(),
            environment: self.environment.clone(),
        }
    }

    /// Notes that a step began or ended.
    pub fn step(&mut self, name: &str, what: &str) {
        let at = self.elapsed();
        if let Some(step) = Step::from_name(name) {
            match what {
                "begin" => self.report.begin(step, at),
                _ => self.report.done(step, at),
            }
        }
    }

    /// All workers that were asked for have come and are ready.
    pub fn complete(&self) -> bool {
        self.phase == Phase::Forking
            && self.forking == 0
            && self.fresh().next().is_some()
            && self.fresh().all(|(_, worker)| worker.is_ready())
    }

    /// Its workers but those that finish what they have from an earlier time.
    pub fn fresh(&self) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.workers.iter().filter(|(_, worker)| !worker.stage.is_draining())
    }

    /// Begins once more, with the preloader it has: it is to fork workers again.
    pub fn revive(&mut self, mut report: StartupReport, start_timeout: Duration) {
        report.versions.clone_from(&self.report.versions);
        self.report = report;
        self.phase = Phase::Forking;
        self.began = Instant::now();
        self.began_at = crate::support::clock::unix_seconds();
        self.deadline = self.began + start_timeout;
        self.keep = None;
        self.rollback = true;
        self.digest.get_or_insert(Err(Uncompared::NotInTime));
        self.workers.values_mut().for_each(|worker| worker.replaced = true);
    }

    /// Takes a worker that was forked, with its control socket.
    pub fn adopt(
        &mut self,
        id: WorkerId,
        index: usize,
        pid: i32,
        fd: OwnedFd,
        site: &SiteConfig,
        events: &mpsc::UnboundedSender<Event>,
    ) -> std::io::Result<()> {
        self.forking = self.forking.saturating_sub(1);
        let (reader, control) = control(UnixStream::from(fd), &self.run_as)?;
        forward(self.number, Some(id), reader, events.clone());
        let worker = Worker::new(index, pid, control, site.start_timeout, limits::quota(&site.limits));
        self.workers.insert(id, worker);
        Ok(())
    }
}

/// Encodes START: what a preloader is to load, and how.
pub fn start_frame(site: &SiteConfig, found: &StartableApp) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let path = |path: Option<PathBuf>| path.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
    encode(kind::START, |out| {
        fields::put_pair(out, "root", found.root.as_os_str().as_bytes());
        fields::put_pair(
            out,
            "kind",
            match found.kind {
                AppKind::Rails => "rails",
                AppKind::Sinatra => "sinatra",
                AppKind::Rack | AppKind::Files => "rack",
            },
        );
        fields::put_pair(out, "rackup", path(found.rackup.clone()));
        fields::put_pair(out, "environment", &site.environment);
        fields::put_pair(out, "gemfile", path(found.gemfile(site)));
        fields::put_pair(out, "puma_config", path(found.puma_config.clone()));
        fields::put_pair(out, "site", &site.name);
        fields::put_pair(out, "preload", if site.preload { "1" } else { "0" });
        let served = site.static_files.then(|| found.root.join(&site.public));
        fields::put_pair(out, "served_folder", path(served));
        fields::put_pair(out, "threads", site.threads.to_string());
        fields::put_pair(out, "stream_threads", site.stream_threads.to_string());
        fields::put_pair(out, "workers", site.workers.to_string());
        let tuning = &site.tuning;
        let yes = |yes: bool| if yes { "1" } else { "0" };
        fields::put_pair(out, "yjit", &tuning.yjit);
        fields::put_pair(out, "oob_gc", yes(tuning.oob_gc));
        fields::put_pair(out, "compact", yes(tuning.compact));
        fields::put_pair(out, "warm_up", tuning.warm_up.join(" "));
        let host = site.hosts.iter().find(|host| !host.starts_with('*'));
        fields::put_pair(out, "host", host.map_or("localhost", String::as_str));
        fields::put_pair(out, "refork", yes(tuning.refork_after.is_some()));
        let patience = site.app_hard_timeout.map_or(String::new(), |time| time.as_secs_f64().to_string());
        fields::put_pair(out, "app_hard_timeout", patience);
        fields::put_pair(out, "front", std::process::id().to_string());
    })
}

/// Frames of one control socket as events.
fn forward(generation: u64, worker: Option<WorkerId>, mut reader: ControlReader, events: mpsc::UnboundedSender<Event>) {
    tokio::spawn(async move {
        loop {
            let happened = match reader.receive().await {
                Ok(Some((frame, fd))) => ActorEvent::Frame(frame, fd),
                Ok(None) | Err(_) => ActorEvent::Closed,
            };
            let closed = matches!(happened, ActorEvent::Closed);
            if events.send(Event { generation, worker, happened }).is_err() || closed {
                return;
            }
        }
    });
}

impl From<PreloaderProcess> for Preloader {
    fn from(spawned: PreloaderProcess) -> Preloader {
        let process = Some((spawned.pid, spawned.stdout, spawned.stderr));
        Preloader { control: spawned.control, process, run_as: spawned.run_as }
    }
}
