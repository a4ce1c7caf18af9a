//! One measurement from beginning to end: resolves, sends, watches the machine. Never prints.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, BufReader},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use client_pool::{Trust, Trusts, Verify};
use http::Method;
use tokio::{task::spawn_local, time::sleep};

use crate::{
    compare::SliceFigures,
    machine::{MachineReading, MachineUse},
    options::{Mode, Options, STRANGERS_RATE},
    recording::Recording,
    replay::Replay,
    request::Template,
    run::{steady, Clients, End, Run},
    search::{self, Step},
    target::Target,
    wire::{stream::Dialer, Client, Fault, Prepared, Version, Way},
};

/// How often a watcher is shown the figures.
const INTERVAL: Duration = Duration::from_millis(200);
/// Slices of a comparison, of each side.
const PAIRS: u32 = 25;
/// A shorter slice would begin and end more than it measures.
const SHORTEST_SLICE: Duration = Duration::from_millis(200);
const WARM_UP: Duration = Duration::from_millis(500);

/// One target's figures.
pub struct Measured {
    pub target: Target,
    pub recording: Recording,
    pub machine: MachineUse,
    pub clients: usize,
    pub keep_alive: bool,
    pub version: Version,
    pub pace: Pace,
    /// What belongs below the figures.
    pub remarks: Vec<String>,
}

/// How the requests followed each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each client waited for its response.
    Closed,
    /// So many a second.
    Rate(f64),
    /// As in a log.
    Replay,
}

/// What was found.
pub enum Findings {
    One(Box<Measured>),
    Two {
        a: Box<Measured>,
        b: Box<Measured>,
        slices: [Vec<SliceFigures>; 2],
    },
    /// The steps of `--find`, and the run at the rate that was found.
    Search {
        limit: Duration,
        steps: Vec<Step>,
        best: Option<Box<Measured>>,
    },
}

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("{host}: {error}")]
    Resolve { host: String, error: io::Error },
    #[error("{url}: {fault}. Is the server running?")]
    Nothing { url: String, fault: Fault },
    #[error(
        "{0} is another machine: more than {STRANGERS_RATE} requests a second need --yes; or say --rate {STRANGERS_RATE}/s"
    )]
    Stranger(String),
    #[error("{}: {error}", .path.display())]
    Log { path: PathBuf, error: io::Error },
    #[error("{}: {}", .0.display(), .1)]
    EmptyLog(PathBuf, String),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What a watcher sees.
pub struct Progress<'a> {
    pub recording: &'a Recording,
    pub target: &'a Target,
    pub elapsed: Duration,
    /// What ends the run.
    pub end: End,
    pub in_flight: usize,
    /// Like "A" of two, or a step of a search.
    pub label: &'a str,
}

/// Is shown the figures while they come.
pub trait Watcher {
    fn show(&mut self, progress: &Progress<'_>);

    /// The run is over: what was drawn makes room for the result.
    fn end(&mut self) {}
}

/// A watcher that is shared with the task that shows it the figures.
pub type Watch = Rc<RefCell<dyn Watcher>>;

/// What all runs of a session need.
pub struct Session {
    pub options: Options,
    pub watch: Watch,
    /// The run that is on, for Ctrl-C.
    current: RefCell<Option<Rc<Run>>>,
    interrupted: std::cell::Cell<bool>,
}

impl Session {
    pub fn new(options: Options, watch: Watch) -> Rc<Session> {
        Rc::new(Session { options, watch, current: RefCell::default(), interrupted: Default::default() })
    }

    /// In a `LocalSet`.
    pub async fn measure(self: &Rc<Session>) -> Result<Findings, SessionError> {
        let session = self.clone();
        let interrupt = spawn_local(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                session.interrupted.set(true);
                if let Some(run) = &*session.current.borrow() {
                    run.stop();
                }
            }
        });
        let findings = match (&self.options.mode, &self.options.targets[..]) {
            (Mode::Closed, [a, b, ..]) => self.two(a, b).await,
            (Mode::Closed, _) => self.closed().await.map(|one| Findings::One(Box::new(one))),
            (Mode::Rate(rate), _) => {
                self.open(*rate, self.options.end, "").await.map(|one| Findings::One(Box::new(one)))
            }
            (Mode::Replay { file, speed }, _) => {
                self.replay(file, *speed).await.map(|one| Findings::One(Box::new(one)))
            }
            (Mode::Find(limit), _) => search::run(self, *limit).await,
        };
        interrupt.abort();
        findings
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    fn target(&self) -> &Target {
        &self.options.targets[0]
    }

    /// How connections are opened, once it is clear that this rate is allowed there.
    async fn way(&self, target: &Target, rate: f64) -> Result<Rc<Way>, SessionError> {
        let resolve = |error| SessionError::Resolve { host: target.host.clone(), error };
        let tls = if target.https { Some(self.tls(target).await?) } else { None };
        let dialer = Dialer::new(target.clone(), tls, self.options.local).await.map_err(resolve)?;
        if rate > STRANGERS_RATE && !self.options.yes && !dialer.is_loopback() {
            return Err(SessionError::Stranger(target.host.clone()));
        }
        Ok(Rc::new(Way {
            dialer,
            version: self.options.version,
            keep_alive: self.options.template.keep_alive,
            limit: self.options.limit,
            words: self.options.words,
        }))
    }

    async fn tls(&self, target: &Target) -> Result<Arc<rustls::ClientConfig>, SessionError> {
        let verify = if self.options.insecure || target.is_loopback() { Verify::Nothing } else { Verify::All };
        let only_http1 = self.options.version == Version::Http1;
        let trust = Trust { verify, ..Trust::default() };
        let config = Trusts::default().config(&trust, only_http1).map_err(|why| SessionError::Tls(why.to_string()))?;
        let mut config = (*config).clone();
        // Each handshake is a whole one, as a new visitor's is.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn prepared(&self, target: &Target) -> Prepared {
        Prepared::new(&self.options.template, target)
    }

    /// Lets `work` do the run's requests while the watcher looks on.
    async fn watched<T>(
        &self,
        run: &Rc<Run>,
        target: &Target,
        end: End,
        label: &str,
        work: impl std::future::Future<Output = T>,
    ) -> T {
        self.current.replace(Some(run.clone()));
        if self.options.output.gnuplot.is_some() {
            run.recording.borrow_mut().requests = Some(Vec::new());
        }
        if self.interrupted.get() {
            run.stop();
        }
        let looking = {
            let (run, watch, target, label) = (run.clone(), self.watch.clone(), target.clone(), label.to_owned());
            spawn_local(async move {
                loop {
                    sleep(INTERVAL).await;
                    let recording = run.recording.borrow();
                    let in_flight = run.in_flight.get() + run.waiting.borrow().len();
                    let (elapsed, label) = (run.elapsed(), label.as_str());
                    let progress = Progress { recording: &recording, target: &target, elapsed, end, in_flight, label };
                    watch.borrow_mut().show(&progress);
                }
            })
        };
        let done = work.await;
        looking.abort();
        self.current.replace(None);
        done
    }

    async fn closed(&self) -> Result<Measured, SessionError> {
        let target = self.target();
        let way = self.way(target, f64::INFINITY).await?;
        let mut clients = Clients::new(way, self.options.streams);
        let clients = (0..self.options.clients).map(|_| clients.make()).collect();
        let end = self.options.end;
        let run = Run::new(Rc::new(vec![self.prepared(target)]));
        let before = MachineReading::take();
        self.watched(&run, target, end, "", run.closed(clients, end)).await;
        self.measured(&run, target, before.since(), Pace::Closed)
    }

    /// An open loop at this rate.
    pub async fn open(&self, rate: f64, end: End, label: &str) -> Result<Measured, SessionError> {
        let target = self.target();
        let way = self.way(target, rate).await?;
        let mut clients = Clients::new(way, self.options.streams);
        let run = Run::new(Rc::new(vec![self.prepared(target)]));
        if let Some(time) = end.time {
            run.recording.borrow_mut().end_at(time.as_micros() as u64);
        }
        let before = MachineReading::take();
        let work = run.open(steady(rate, end), self.options.clients, || clients.make());
        self.watched(&run, target, end, label, work).await?;
        self.measured(&run, target, before.since(), Pace::Rate(rate))
    }

    async fn replay(&self, file: &PathBuf, speed: f64) -> Result<Measured, SessionError> {
        let target = self.target();
        let failed = |error| SessionError::Log { path: file.clone(), error };
        let replay = Replay::read(BufReader::new(File::open(file).map_err(failed)?), speed).map_err(failed)?;
        let Some(last) = replay.jobs.last() else { return Err(SessionError::EmptyLog(file.clone(), replay.nothing())) };
        let rate = replay.jobs.len() as f64 / last.due.as_secs_f64().max(1.0);
        let way = self.way(target, rate).await?;
        let mut clients = Clients::new(way, self.options.streams);
        let template = &self.options.template;
        let of = |(path, is_head): &(String, bool)| {
            let method = if *is_head { Method::HEAD } else { Method::GET };
            Prepared::new(&Template { method, ..template.clone() }, &target.with_path(path))
        };
        let run = Run::new(Rc::new(replay.paths.iter().map(of).collect()));
        let time = self.options.end.time;
        let most = self.options.end.requests.unwrap_or(u64::MAX);
        let jobs: Vec<_> = replay.jobs.iter().copied().take(usize::try_from(most).unwrap_or(usize::MAX)).collect();
        let end = End { requests: Some(jobs.len() as u64), time };
        let jobs = jobs.into_iter().take_while(|job| time.is_none_or(|time| job.due < time));
        let before = MachineReading::take();
        let work = run.open(jobs, self.options.clients, || clients.make());
        self.watched(&run, target, end, "", work).await?;
        let mut measured = self.measured(&run, target, before.since(), Pace::Replay)?;
        if replay.other_methods > 0 {
            let count = replay.other_methods;
            measured
                .remarks
                .push(format!("{count} requests of the log were left out: only GET and HEAD are sent again."));
        }
        if replay.unreadable > 0 {
            measured.remarks.push(format!("{} lines of the log are no requests.", replay.unreadable));
        }
        Ok(measured)
    }

    /// Two targets in turn, in slices of time.
    async fn two(&self, a: &Target, b: &Target) -> Result<Findings, SessionError> {
        let mut sides = Vec::new();
        for target in [a, b] {
            let way = self.way(target, f64::INFINITY).await?;
            let clients = Clients::new(way, self.options.streams);
            sides.push((target, Rc::new(vec![self.prepared(target)]), clients, Recording::default(), Vec::new()));
        }
        let time = self.options.end.time.unwrap_or(Duration::from_secs(10));
        let mut slowest = Duration::ZERO;
        for (target, requests, clients, ..) in &mut sides {
            let clients = self.connected(clients).await;
            let run = Run::new(requests.clone());
            let end = End { requests: None, time: Some(WARM_UP.min(time / 20)) };
            let label = "warm-up";
            self.watched(&run, target, end, label, run.closed(clients, end)).await;
            if let Some(fault) = run.hopeless() {
                return Err(SessionError::Nothing { url: target.to_string(), fault });
            }
            slowest = slowest.max(Duration::from_micros(run.recording.borrow().percentile(50.0)));
        }
        // A slice in which each client has twenty requests, but five pairs of them at least.
        let slice = (slowest * 20).clamp(SHORTEST_SLICE, (time / 12).max(SHORTEST_SLICE));
        let pairs = ((time.as_secs_f64() / 2.0 / slice.as_secs_f64()) as u32).max(5);
        let pairs = if self.options.end.time.is_none() { PAIRS } else { pairs };
        let per_slice = self.options.end.requests.map(|requests| requests.div_ceil(u64::from(pairs)).max(1));
        let end = End { requests: per_slice, time: Some(slice).filter(|_| per_slice.is_none()) };
        let before = MachineReading::take();
        for pair in 0..pairs {
            for turn in 0..2 {
                // A B, B A, A B: what grows or shrinks over time falls on both alike.
                let side = ((pair + turn) % 2) as usize;
                let (target, requests, clients, recording, slices) = &mut sides[side];
                let clients = self.connected(clients).await;
                let run = Run::new(requests.clone());
                let label = format!("{}, {} of {pairs}", ["A", "B"][side], pair + 1);
                self.watched(&run, target, end, &label, run.closed(clients, end)).await;
                let found = run.recording.borrow();
                let latencies = found.slices.iter().flat_map(|slice| slice.latencies.iter().copied()).collect();
                slices.push(SliceFigures { rate: found.rate(), latencies });
                recording.append(&found);
            }
            if self.interrupted.get() {
                break;
            }
        }
        let machine = before.since();
        let count = self.options.clients;
        let mut done = sides.into_iter().map(|(target, _, _, recording, slices)| {
            (self.told(recording, target, machine, Pace::Closed, count), slices)
        });
        match (done.next(), done.next()) {
            (Some((a, of_a)), Some((b, of_b))) => {
                Ok(Findings::Two { a: Box::new(a), b: Box::new(b), slices: [of_a, of_b] })
            }
            _ => unreachable!("two sides were made"),
        }
    }

    /// Clients for a slice of a comparison, with connections of their own: which of a server's threads a connection belongs
    /// to is decided when it is opened, and a lucky one that is kept would look like a faster server.
    async fn connected(&self, clients: &mut Clients) -> Vec<Client> {
        let mut all: Vec<_> = (0..self.options.clients).map(|_| clients.make()).collect();
        for client in &mut all {
            client.connect().await;
        }
        all
    }

    fn measured(&self, run: &Run, target: &Target, machine: MachineUse, pace: Pace) -> Result<Measured, SessionError> {
        if let Some(fault) = run.hopeless() {
            return Err(SessionError::Nothing { url: target.to_string(), fault });
        }
        let recording = run.recording.take();
        Ok(self.told(recording, target, machine, pace, self.options.clients))
    }

    fn told(&self, recording: Recording, target: &Target, machine: MachineUse, pace: Pace, clients: usize) -> Measured {
        Measured {
            target: target.clone(),
            recording,
            machine,
            clients,
            keep_alive: self.options.template.keep_alive,
            version: self.options.version,
            pace,
            remarks: Vec::new(),
        }
    }
}
