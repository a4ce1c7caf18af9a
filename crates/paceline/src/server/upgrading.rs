//! An upgrade as the main thread sees it: asked for, under way, done or given up; and who waits to hear of it.
//! It never serves, and never ends the server by itself.

use std::{future::Future, pin::Pin, sync::Arc};

use rustix::process::{kill_process, Pid, Signal};
use tokio::sync::oneshot;

use super::{
    handover::{giving, wire::Hello, Lineage, Program, Successor},
    notify,
    opening::BoundListener,
    sites::Sites,
};
use crate::{
    apps::reaper::Reaper,
    edge::listen,
    observe::log::Name,
    request::front::{Front, UpgradeError, UpgradeOutcome},
    server::control::Control,
};

type UnderWay = Pin<Box<dyn Future<Output = Result<Successor, UpgradeError>> + Send>>;

pub struct Upgrading {
    program: Result<Program, UpgradeError>,
    pub lineage: Lineage,
    under_way: Option<(i32, UnderWay)>,
    waiting: Vec<oneshot::Sender<UpgradeOutcome>>,
}

/// What the server has that a new front can take.
pub struct UpgradeContext<'a> {
    pub server: &'a Arc<Front>,
    pub listeners: &'a [BoundListener],
    pub control: &'a Control,
    pub sites: &'a Sites,
    pub reaper: &'a Reaper,
}

impl Upgrading {
    pub fn new(program: Result<Program, UpgradeError>, lineage: Lineage) -> Upgrading {
        Upgrading { program, lineage, under_way: None, waiting: Vec::new() }
    }

    /// Starts the new program, unless one is on its way. `answer`: who wants to know what becomes of it.
    pub fn begin(&mut self, having: &UpgradeContext<'_>, answer: Option<oneshot::Sender<UpgradeOutcome>>) {
        self.waiting.extend(answer);
        if self.under_way.is_some() {
            return;
        }
        if let Err(why) = self.start(having) {
            self.failed(having.server, why);
        }
    }

    fn start(&mut self, having: &UpgradeContext<'_>) -> Result<(), UpgradeError> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let mut fds = having.listeners.iter().map(|one| one.listener.fd()).collect::<Result<Vec<_>, _>>();
        let mut hello = Hello {
            identity: self.lineage.identity(),
            parent: std::process::id() as i32,
            listeners: having.server.config.binds.iter().map(|given| listen::shown(&given.bind)).collect(),
            secret: having.server.cache.secret(),
            cluster: having.server.cluster.as_ref().and_then(|cluster| cluster.place()),
            disk: having.server.cache.disk().and(having.server.config.cache_disk.as_ref()).map(|disk| disk.dir.clone()),
            up: having.sites.up(),
            codes: having.server.cache.codes(),
            ..Hello::default()
        };
        if let (Ok(fds), Some((path, fd, made_folder))) = (&mut fds, having.control.handed()) {
            (hello.control, hello.control_folder) = (Some(path), made_folder);
            fds.push(fd);
        }
        let mut fds = fds?;
        fds.push(self.lineage.stand_in()?);
        let log = &having.server.log;
        log.event(Name::Upgrade, format!("Upgrading: starting {}", program.path().display()));
        let (pid, ended) = giving::begin(program, giving::Estate { hello, fds }, having.reaper, having.server)?;
        self.under_way = Some((pid, Box::pin(ended)));
        notify::reloading("A new program boots");
        Ok(())
    }

    /// Resolves when the upgrade that is under way has ended; without one, never.
    pub async fn ended(&mut self) -> Result<Successor, UpgradeError> {
        let Some((_, ended)) = &mut self.under_way else { return std::future::pending().await };
        let ended = ended.await;
        self.under_way = None;
        ended
    }

    /// The server goes on as it was.
    pub fn failed(&mut self, server: &Front, why: UpgradeError) {
        server.log.event(Name::Upgrade, format!("The new program does not take over; this one goes on serving: {why}"));
        notify::manager("READY=1\nSTATUS=Serving; an upgrade did not succeed");
        self.answer(&Err(why));
    }

    /// Another front serves.
    pub fn replaced(&mut self, server: &Front, successor: &Successor) {
        let pid = successor.pid;
        server.log.event(Name::Upgrade, format!("Replaced by pid {pid}: requests in hand are finished first"));
        // The first front becomes the stand-in, and will know it by itself.
        let _ = self.lineage.tell(pid);
        notify::manager("READY=1\nSTATUS=Serving");
        self.answer(&Ok(pid));
    }

    fn answer(&mut self, outcome: &UpgradeOutcome) {
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(outcome.clone());
        }
    }

    /// The server ends: nobody is to take over.
    pub fn abandon(&mut self) {
        if let Some(pid) = self.under_way.take().and_then(|(pid, _)| Pid::from_raw(pid)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        self.answer(&Err(UpgradeError::Stopped));
    }
}
