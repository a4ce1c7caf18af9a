//! The front as a whole: listeners, event-loop threads, sites, signals, start and end.
//! It never handles a request itself.

mod accept;
mod cluster;
pub mod control;
mod ending;
mod error;
pub mod handover;
mod incidents;
mod journals;
mod leaving;
mod live_reload;
mod notify;
mod opening;
mod outbound;
mod passwords;
mod pidfile;
mod popular;
mod rolling;
pub mod scheduling;
mod sign_on;
mod signals;
mod site_pages;
mod site_thread;
mod sites;
pub mod sso_check;
mod supervisor;
mod survey;
mod upgrading;
mod watched;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

pub use self::{
    error::{StartError, TakeoverError},
    sso_check::warnings,
};
use self::{
    handover::{Inheritance, Lineage, Program, Successor},
    opening::{left_out, open_listeners, proofs, BoundListener},
    pidfile::Pidfile,
    signals::Signals,
    sites::Sites,
    supervisor::{Open, Supervisor},
    upgrading::Upgrading,
};
use crate::{
    apps::reaper::Reaper,
    config::Config,
    content::spool,
    edge::{acme::Keeper, h1, tls},
    observe::{
        log::{Log, Name},
        metrics::Metrics,
        traces::Tracer,
    },
    origins::workers::{dispatch::queue::Depth, protocol::spin},
    request::{
        front::{drain, ConnectionSlots, Front, UpgradeError, UpgradeOutcome},
        route::Site,
        rules,
    },
    server::{control::Control, scheduling::Scheduling},
    support::{admission::Connections, buffer_memory, certificate_store::CertificateStore, signal_mask},
};

/// What tasks beside the event loop get to end.
const LAST_TASKS: Duration = Duration::from_secs(1);
/// What parts begin with each site.
const BEGINNINGS: &[fn(&Arc<Config>, &Site, Log)] = &[passwords::begin, sign_on::begin];

/// How a front ends.
enum ServerEnd {
    Stopped,
    /// Another front serves in its place.
    Replaced(Successor, Lineage),
}

/// What a front has before it serves.
struct OpenServer {
    listeners: Vec<BoundListener>,
    keeper: Option<Keeper>,
    control: Control,
    pidfile: Option<Pidfile>,
    program: Result<Program, UpgradeError>,
}

/// Serves until told to stop, or until another front does. `inheritance`: what there is to be taken over from a front
/// that serves.
pub fn run(config: Config, inheritance: Option<Inheritance>) -> Result<ExitCode, StartError> {
    let report = Inheritance::report(inheritance.as_ref());
    let program = Program::own().map_err(UpgradeError::from);
    let ended = begin(config, inheritance, program).inspect_err(|why| report.failed(&why.to_string()))?;
    Ok(match ended {
        ServerEnd::Stopped => ExitCode::SUCCESS,
        ServerEnd::Replaced(successor, lineage) => handover::stand_in::follow(successor, lineage),
    })
}

fn begin(
    mut config: Config,
    mut inheritance: Option<Inheritance>,
    program: Result<Program, UpgradeError>,
) -> Result<ServerEnd, StartError> {
    // The log's thread takes none either.
    signal_mask::block();
    let log = Log::open(&config.log).map_err(StartError::Log);
    signal_mask::unblock();
    let log = log?;
    rules::check(&config.sites)?;
    // Of a server that was started by the app's own process the pidfile names that process.
    let pidfile = config.pidfile.as_deref().filter(|_| config.adopt_control_fd.is_none());
    let pidfile = pidfile.map(|path| match &inheritance {
        None => Pidfile::write(path),
        Some(inheritance) => Pidfile::of(path, inheritance.identity() as u32),
    });
    let pidfile = pidfile.transpose()?;
    if let (Some(inheritance), Some(pidfile)) = (&mut inheritance, &pidfile) {
        inheritance.taken().pidfile = Some(pidfile.path().to_path_buf());
    }
    let keeper = config.tls.automatic.as_ref().map(Keeper::open).transpose()?;
    if let Some(own) = &config.tls.own {
        log.event(Name::Certificate, tls::own::prepare(own)?);
    }
    let listeners = open_listeners(&config, keeper.as_ref().map(Keeper::certificates), inheritance.as_mut())?;
    let control = Control::open(&mut config, inheritance.is_some(), |path| inheritance.as_mut()?.control(path))?;
    let runtime = event_loop().map_err(StartError::EventLoop)?;
    let opened = OpenServer { listeners, keeper, control, pidfile, program };
    let ended = runtime.block_on(supervise(config, log.clone(), opened, inheritance));
    if let Ok(ServerEnd::Replaced(..)) = &ended {
        // What comes from here on waits for the stand-in.
        signal_mask::block();
    }
    runtime.shutdown_timeout(LAST_TASKS);
    log.flush();
    ended
}

/// An event loop. Its other threads take no signals of the server's.
fn event_loop() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().on_thread_start(signal_mask::block).on_thread_park(spin::before_park).build()
}

/// A thread with an event loop of its own, which takes no signals of the server's, and ends with the process.
fn thread_with_loop(name: &str) -> std::io::Result<Handle> {
    let runtime = event_loop()?;
    let handle = runtime.handle().clone();
    signal_mask::block();
    let thread = std::thread::Builder::new().name(name.into());
    let began = thread.spawn(move || runtime.block_on(std::future::pending::<()>()));
    signal_mask::unblock();
    began?;
    Ok(handle)
}

/// What is held at this moment, in a line for each part: after all clients have left it is what it was before they
/// came.
fn log_state(server: &Front) {
    let tasks: usize = {
        let loops = server.loops.lock();
        loops.iter().map(|event_loop| event_loop.metrics().num_alive_tasks()).sum()
    };
    let (taken, slots) = server.slots.taken();
    // The one that reads them is not counted.
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count().saturating_sub(1));
    server.log.event(
        Name::State,
        format!(
            "State: places={taken}/{slots} resting={} tasks={tasks} descriptors={descriptors} buffered={}",
            h1::resting(),
            buffer_memory::BODIES.used()
        ),
    );
    for site in server.routes().all() {
        let Some(app) = &site.app else { continue };
        let Depth { waiting, idle, busy, streams } = app.queue.depth();
        let figures = format!("waiting={waiting} idle={idle} busy={busy} streams={streams}");
        server.log.of(&site.config.name).event(Name::State, format!("State of {}: {figures}", site.config.name));
    }
}

async fn supervise(
    config: Config,
    log: Log,
    opened: OpenServer,
    mut inheritance: Option<Inheritance>,
) -> Result<ServerEnd, StartError> {
    let OpenServer { listeners, keeper, control, pidfile, program } = opened;
    let reaper = Reaper::start()?;
    let mut signals = Signals::new()?;
    let (upgrades, upgrades_asked) = mpsc::unbounded_channel();
    let https_port =
        listeners.iter().filter(|one| one.entrance.scheme() == "https").find_map(|one| one.listener.port());
    let automatic = keeper.as_ref().map(|keeper| keeper.certificates().clone());
    let server = front(config, log, https_port, automatic, upgrades, inheritance.as_mut())?;
    server.know(Handle::current());
    say_notices(&server, &listeners);

    opening::depend_on_starter(&server.config);
    let mut sites = Sites::new(server.clone(), reaper.clone());
    sites.look();
    let scan = sites.looked().await;
    sites.update(scan);

    let inheritance = match inheritance {
        None => None,
        Some(inheritance) => match handover::taking::boot(inheritance, &server, &sites, &mut signals).await? {
            None => return Ok(ServerEnd::Stopped),
            taken => taken,
        },
    };
    if inheritance.is_some() {
        // It may have been turned while this process started.
        server.routes().all().iter().for_each(|site| site.maintenance.read_again());
    }
    // What was taken over is purged from where it was, so this begins when all is there.
    cluster::begin(&server).await?;
    let (stopping, stop) = drain::stopping();
    let mut open = Open { listeners, control, pidfile };
    open.serve(&server, stop)?;
    // Until the front ends.
    let _scheduling = Scheduling::begin(&server)?;
    let lineage = open.take_over(inheritance, &server)?;
    // Without TLS nobody would see a certificate.
    let keeper = keeper.filter(|_| server.https_port.is_some());
    let keeping = keeper.map_or_else(Vec::new, |keeper| keeper.begin(proofs(&open.listeners), server.log.clone()));
    let upgrading = Upgrading::new(program, lineage);
    tell_manager(&server, &sites, &upgrading);

    let mut supervisor = Supervisor { server, open, sites, reaper, signals, upgrades_asked, upgrading, told: None };
    let end = supervisor.run().await;
    keeping.iter().for_each(AbortHandle::abort);
    Ok(supervisor.end(end, &stopping).await)
}

/// What all event loops and applications share.
fn front(
    config: Config,
    log: Log,
    https_port: Option<u16>,
    automatic: Option<Arc<CertificateStore>>,
    upgrades: mpsc::UnboundedSender<oneshot::Sender<UpgradeOutcome>>,
    mut inheritance: Option<&mut Inheritance>,
) -> Result<Arc<Front>, StartError> {
    buffer_memory::BODIES.allow(config.buffer_memory);
    let tracing = config.traces.clone().map(|settings| Tracer::start(settings, log.clone()));
    let tracer = tracing.transpose()?.map(Arc::new);
    let cache = opening::cache(&config, &log, inheritance.as_deref_mut())?;
    let has_disk = config.cache_disk.is_some();
    let inherited = inheritance.and_then(|inheritance| inheritance.cluster(has_disk));
    Ok(Arc::new(Front {
        cluster: opening::cluster(&config, &cache, &log, inherited),
        cache,
        connections: Connections::new(config.client.connections, config.client.connections_per_address),
        incidents: incidents::open(&config, &log),
        slots: ConnectionSlots::new(&config),
        config,
        log,
        automatic,
        https_port,
        metrics: Metrics::default(),
        samples: Default::default(),
        began: SystemTime::now(),
        up_since: Instant::now(),
        egress: Arc::default(),
        advice: Arc::default(),
        tracer,
        full_said: Mutex::default(),
        routes: RwLock::default(),
        ready: Default::default(),
        upgrades,
        loops: Mutex::default(),
    }))
}

/// What the log says before anything is served.
fn say_notices(server: &Front, listeners: &[BoundListener]) {
    server.config.notices.iter().for_each(|notice| server.log.event(Name::Notice, notice));
    let swept = spool::sweep();
    if swept > 0 {
        server.log.event(Name::Notice, format!("Removed {swept} temporary files of servers that were killed"));
    }
    left_out(&server.config, listeners).iter().for_each(|line| server.log.event(Name::Notice, line));
}

/// The service manager is told when all sites have started, and that the server lives.
fn tell_manager(server: &Arc<Front>, sites: &Sites, upgrading: &Upgrading) {
    let (started, ready) = (sites.started(), server.clone());
    tokio::spawn(notify::booting(async move {
        started.await;
        ready.ready.ready();
    }));
    tokio::spawn(notify::watch(server.clone(), upgrading.lineage.identity()));
}
