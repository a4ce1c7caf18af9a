//! What every connection, request and control answer shares: the configuration, the sites, the cache, the log, and how
//! far the server is with starting and ending. It starts, stops and serves nothing: `server` runs it.

mod connection_slots;
pub mod drain;
pub mod sampling;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};
use units::show_duration;

pub use self::connection_slots::ConnectionSlots;
use self::{
    drain::{Readiness, Ready},
    sampling::Samples,
};
use crate::{
    apps::reaper::Exit,
    caching::Cache,
    cluster::Cluster,
    config::Config,
    exchange::Advice,
    observe::{
        incidents::Incidents,
        log::{Log, Name},
        metrics::Metrics,
        traces::Tracer,
    },
    request::route::Routes,
    support::{
        admission::{Connections, Full},
        certificate_store::CertificateStore,
    },
};

/// Said instead of an upgrade.
pub const ADOPTED: &str =
    "This server is part of the application's own process, which can't be upgraded: the application is restarted";

/// What became of an upgrade: the new front's process id, or why there is none.
pub type UpgradeOutcome = Result<i32, UpgradeError>;

/// Why a new program does not take over. All who wait for the upgrade are told.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpgradeError {
    /// There is no file to start, or it can't be started.
    #[error("{}: {error}", path.display())]
    NotStarted { path: PathBuf, error: Arc<io::Error> },
    #[error("{} is no program", .0.display())]
    NotAProgram(PathBuf),
    #[error("it {0} before it had taken over; the log has what it printed")]
    Exited(Exit),
    #[error("it went silent before it had taken over")]
    Silent,
    #[error("it was not ready within {} (upgrade_timeout)", show_duration(*.0))]
    TimedOut(Duration),
    /// What the new front itself says.
    #[error("{0}")]
    Refused(String),
    #[error("the server was told to stop")]
    Stopped,
    #[error("{0}")]
    System(Arc<io::Error>),
}

impl From<io::Error> for UpgradeError {
    fn from(error: io::Error) -> UpgradeError {
        UpgradeError::System(Arc::new(error))
    }
}

/// What all connections share; one for the whole process.
pub struct Front {
    /// What all sites keep of what their apps said.
    pub cache: Arc<Cache>,
    /// The fronts of other machines. None: this one is alone.
    pub cluster: Option<Arc<Cluster>>,
    pub config: Config,
    pub log: Log,
    /// Certificates that the server gets by itself, and the proofs for them.
    pub automatic: Option<Arc<CertificateStore>>,
    /// Where we serve TLS, for those who come without.
    pub https_port: Option<u16>,
    pub connections: Arc<Connections>,
    pub metrics: Metrics,
    /// What went wrong with applications' processes.
    pub incidents: Arc<Incidents>,
    /// What the dashboard shows.
    pub samples: Samples,
    pub began: SystemTime,
    /// When it began, for how long it has run.
    pub up_since: Instant,
    /// What their processes call.
    pub egress: Arc<egress::Sites>,
    /// What was said of requests that open connections by themselves.
    pub advice: Arc<Advice>,
    /// None: there are no traces.
    pub tracer: Option<Arc<Tracer>>,
    /// When it was last said that connections were turned away.
    pub(crate) full_said: Mutex<Option<Instant>>,
    pub(crate) routes: RwLock<Arc<Routes>>,
    pub(crate) slots: ConnectionSlots,
    pub(crate) ready: Ready,
    /// Who asks for an upgrade.
    pub(crate) upgrades: mpsc::UnboundedSender<oneshot::Sender<UpgradeOutcome>>,
    /// The event loops, for the count of their tasks.
    pub(crate) loops: Mutex<Vec<Handle>>,
}

impl Front {
    /// Whether requests should be sent here.
    pub fn readiness(&self) -> Readiness {
        self.ready.get()
    }

    /// Whether the server belongs to the process that has loaded the application (`rackup -s paceline`).
    pub fn is_adopted(&self) -> bool {
        self.config.adopt_control_fd.is_some()
    }

    /// Asks for an upgrade; what became of it is answered when it is known.
    pub fn upgrade(&self) -> oneshot::Receiver<UpgradeOutcome> {
        let (sender, outcome) = oneshot::channel();
        let _ = self.upgrades.send(sender);
        outcome
    }

    /// The event loops: that of the main thread and those of the front threads.
    pub fn loops(&self) -> Vec<Handle> {
        self.loops.lock().clone()
    }

    pub fn know(&self, event_loop: Handle) {
        self.loops.lock().push(event_loop);
    }

    /// Says so in the log, but not each time: this happens by the thousand.
    pub fn turned_away(&self, full: Full) {
        let mut said = self.full_said.lock();
        if said.is_none_or(|said| said.elapsed() >= Duration::from_secs(10)) {
            *said = Some(Instant::now());
            self.log.event(
                Name::Full,
                match full {
                    Full::InAll => "Connections are refused: max_connections is reached".to_string(),
                    Full::Address(address) => {
                        format!("Connections from {address} are refused: max_connections_per_address is reached")
                    }
                },
            );
        }
    }

    pub fn routes(&self) -> Arc<Routes> {
        self.routes.read().clone()
    }

    /// Ends the streams to all pages that are open.
    pub fn end_streams(&self) {
        self.routes().all().iter().for_each(|site| site.end_streams());
    }
}
