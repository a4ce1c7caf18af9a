//! The front as a whole: listeners, event-loop threads, sites, signals, start and end.
//! It never handles a request itself.

mod accept;
pub mod drain;
mod ending;
mod incidents;
mod notify;
mod opening;
mod pidfile;
mod popular;
mod room;
mod signals;
mod sites;
mod watched;

use std::{
    os::{fd::FromRawFd, unix::net::UnixStream},
    path::Path,
    sync::{Arc, Mutex, RwLock},
    time::{Duration, Instant, SystemTime},
};

use tokio::{runtime::Handle, time::sleep_until};

use self::{
    drain::{Readiness, Ready},
    ending::End,
    opening::{left_out, open_listeners, proofs, shared, Entered},
    pidfile::Pidfile,
    room::Room,
    signals::{Signals, Told},
    sites::Sites,
};
use crate::{
    acme::{Keeper, Shelf},
    admission::{Connections, Full},
    caching::{Cache, Disk},
    config::{CacheDisk, Config},
    connection,
    control::Control,
    dispatch::queue::Depth,
    http::spool,
    incidents::Incidents,
    log::{Log, Name},
    memory,
    metrics::Metrics,
    route::Routes,
    supervisor::{actor::restart::Wish, app::Order, attempts::Cause, reaper::Reaper},
};

/// How often files that are watched are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What all connections share.
pub struct Server {
    /// What all sites keep of what their apps said.
    pub cache: Arc<Cache>,
    pub config: Config,
    pub log: Log,
    /// Certificates that the server gets by itself, and the proofs for them.
    pub automatic: Option<Arc<Shelf>>,
    /// Where we serve TLS, for those who come without.
    pub https_port: Option<u16>,
    pub connections: Arc<Connections>,
    pub metrics: Metrics,
    /// What went wrong with applications' processes.
    pub incidents: Arc<Incidents>,
    pub began: SystemTime,
    /// When it was last said that connections were turned away.
    full_said: Mutex<Option<Instant>>,
    routes: RwLock<Arc<Routes>>,
    room: Room,
    ready: Ready,
    /// The event loops, for the count of their tasks.
    loops: Mutex<Vec<Handle>>,
}

impl Server {
    /// Whether requests should be sent here.
    pub fn readiness(&self) -> Readiness {
        self.ready.get()
    }

    fn know(&self, event_loop: Handle) {
        self.loops.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event_loop);
    }

    /// What is held at this moment, in a line for each part: after all clients have left it is what it was before they came.
    fn tell(&self) {
        let tasks: usize = {
            let loops = self.loops.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            loops.iter().map(|event_loop| event_loop.metrics().num_alive_tasks()).sum()
        };
        let (taken, room) = self.room.taken();
        // The one that reads them is not counted.
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count().saturating_sub(1));
        self.log.event(
            Name::State,
            format!(
                "State: places={taken}/{room} resting={} tasks={tasks} descriptors={descriptors} buffered={}",
                connection::resting(),
                memory::BODIES.used()
            ),
        );
        for site in self.routes().all() {
            let Some(app) = &site.app else { continue };
            let Depth { waiting, idle, busy } = app.queue.depth();
            self.log.of(&site.config.name).event(
                Name::State,
                format!("State of {}: waiting={waiting} idle={idle} busy={busy}", site.config.name),
            );
        }
    }

    /// Says so in the log, but not each time: this happens by the thousand.
    pub fn turned_away(&self, full: Full) {
        let mut said = self.full_said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if said.is_none_or(|said| said.elapsed() >= Duration::from_secs(10)) {
            *said = Some(Instant::now());
            self.log.event(
                Name::Full,
                match full {
                    Full::InAll => "Connections are turned away: there are max_connections".to_string(),
                    Full::Address(address) => {
                        format!("Connections from {address} are turned away: there are max_connections_per_address")
                    }
                },
            );
        }
    }

    pub fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Serves until told to stop. Err: one line that says why it could not begin.
pub fn run(mut config: Config) -> Result<(), String> {
    let log = Log::open(&config.log).map_err(|error| error.to_string())?;
    // Of a server that was started by the app's own process the pidfile names that process.
    let pidfile = config.pidfile.as_deref().filter(|_| config.adopt_control_fd.is_none());
    let pidfile = pidfile.map(Pidfile::write).transpose()?;
    let keeper = config.tls.automatic.as_ref().map(Keeper::open).transpose()?;
    let listeners = open_listeners(&config, keeper.as_ref().map(Keeper::shelf))?;
    let control = Control::open(&mut config)?;
    let runtime = event_loop().map_err(|error| format!("event loop: {error}"))?;
    let ended = runtime.block_on(supervise(config, log.clone(), listeners, keeper, control));
    drop(pidfile);
    log.flush();
    ended
}

fn event_loop() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn supervise(
    config: Config,
    log: Log,
    listeners: Vec<Entered>,
    keeper: Option<Keeper>,
    mut control: Control,
) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let reaper = Reaper::start().map_err(failed)?;
    let mut signals = Signals::new().map_err(failed)?;
    let https_port = listeners.iter().filter(|(_, entrance)| entrance.scheme() == "https").find_map(|one| one.0.port());
    let automatic = keeper.as_ref().map(|keeper| keeper.shelf().clone());
    let room = Room::new(&config);
    memory::BODIES.allow(config.buffer_memory);
    let connections = Connections::new(config.client.connections, config.client.connections_per_address);
    let incidents = incidents::open(&config, &log);
    let server = Arc::new(Server {
        cache: cache(&config, &log).map_err(failed)?,
        config,
        log,
        automatic,
        https_port,
        connections,
        metrics: Metrics::default(),
        incidents,
        began: SystemTime::now(),
        full_said: Mutex::default(),
        routes: RwLock::default(),
        room,
        ready: Ready::default(),
        loops: Mutex::default(),
    });
    server.know(Handle::current());
    server.config.notices.iter().for_each(|notice| server.log.event(Name::Notice, notice));
    let swept = spool::sweep();
    if swept > 0 {
        server.log.event(Name::Notice, format!("Removed {swept} temporary files of servers that were killed"));
    }
    left_out(&server.config, &listeners).iter().for_each(|line| server.log.event(Name::Notice, line));

    let mut sites = Sites::new(server.clone(), reaper, adopted(&server.config));
    sites.update();

    control.serve(&server);

    let (stopping, stop) = drain::stopping();
    let mut threads = Vec::new();
    for number in 0..server.config.front_threads.max(1) {
        let listeners = listeners.iter().map(shared).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let (server, stop) = (server.clone(), stop.clone());
        let thread = std::thread::Builder::new().name(format!("front-{number}"));
        threads.push(thread.spawn(move || accept::all(listeners, server, stop)).map_err(failed)?);
    }
    drop(stop);
    for (listener, entrance) in &listeners {
        entrance.warnings().iter().for_each(|warning| server.log.event(Name::Notice, warning));
        server.log.event(Name::Listening, format!("Listening on {}", listener.url(entrance.scheme())));
    }

    // Without TLS nobody would see a certificate.
    if let Some(keeper) = keeper.filter(|_| server.https_port.is_some()) {
        keeper.begin(proofs(&listeners), server.log.clone());
    }

    tokio::spawn({
        let (started, server) = (sites.started(), server.clone());
        async move {
            started.await;
            server.ready.ready();
            notify::manager("READY=1");
        }
    });

    let mut look = tokio::time::interval(LOOK);
    // When listeners close; None: nobody has told us to stop.
    let mut told: Option<Instant> = None;
    let delay = server.config.shutdown_delay;
    let end = loop {
        tokio::select! {
            _ = sleep_until((told.unwrap_or_else(Instant::now) + delay).into()), if told.is_some() => break End::Drained,
            _ = look.tick() => {
                sites.look();
                server.metrics.look();
                control.look(&server);
                listeners.iter().flat_map(|(_, entrance)| entrance.look()).for_each(|line| server.log.event(Name::Certificate, line));
                if server.cache.has_shed() {
                    tokio::task::spawn_blocking(memory::give_back);
                }
            }
            signal = signals.next() => match signal {
                Told::Stop => match told {
                    None => {
                        told = Some(Instant::now());
                        ending::begin(&server);
                    }
                    Some(first) if signals::is_echo(first) => {}
                    Some(_) => break End::AtOnce,
                },
                Told::Halt => break End::Halted,
                Told::Restart => sites.order(|| Order::Restart(Wish::by(Cause::Told("a signal")))),
                Told::Reopen => server.log.reopen(),
                Told::Tell => server.tell(),
                Told::Grow => sites.order(|| Order::Grow),
                Told::Shrink => sites.order(|| Order::Shrink),
            }
        }
    };
    // Before the loops look for the last connections in their queues.
    drop(listeners);
    ending::end(end, told.unwrap_or_else(Instant::now), &server, &stopping, &sites, &mut signals).await;
    Ok(())
}

/// The page cache, with what is on disk from the last time.
fn cache(config: &Config, log: &Log) -> std::io::Result<Arc<Cache>> {
    let Some(CacheDisk { size, dir }) = &config.cache_disk else { return Ok(Arc::new(Cache::new(config.cache_size))) };
    let log = log.clone();
    match Disk::open(dir, *size, Arc::new(move |line| log.event(Name::Cache, line))) {
        Some(disk) => Cache::with_disk(config.cache_size, disk),
        None => Ok(Arc::new(Cache::new(config.cache_size))),
    }
}

/// The control socket of the process that started us as the server of an app it has already loaded.
#[allow(unsafe_code)]
fn adopted(config: &Config) -> Option<UnixStream> {
    let fd = config.adopt_control_fd.filter(|fd| *fd > 2 && Path::new(&format!("/proc/self/fd/{fd}")).exists())?;
    // SAFETY: our parent opened this descriptor for us and named it on the command line; it was just seen to be open,
    // and this runs once, so nothing else owns it.
    let socket = unsafe { UnixStream::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
    // That process holds the app: without it there is nothing to serve.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).ok()?;
    Some(socket)
}
