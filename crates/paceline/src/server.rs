//! The front as a whole: listeners, event-loop threads, sites, signals, start and end.
//! It never handles a request itself.

use std::{
    collections::HashMap,
    net::SocketAddr,
    os::{fd::FromRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::{Duration, SystemTime},
};

use tokio::{
    signal::unix::{signal, SignalKind},
    sync::{oneshot, watch},
};

use crate::{
    config::{self, AppKind, Config, SiteConfig},
    connection,
    listen::{self, Listener},
    log::Log,
    route::{Routes, Site},
    startup_report::{self, Failure, StartupReport, Step},
    static_files::Folder,
    supervisor::{
        app::{App, Order, State},
        reaper::Reaper,
    },
};

/// How often files that are watched are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What all connections share.
pub struct Server {
    pub config: Config,
    pub log: Log,
    routes: RwLock<Arc<Routes>>,
}

impl Server {
    pub fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Serves until told to stop. Err: one line that says why it could not begin.
pub fn run(config: Config) -> Result<(), String> {
    let log = Log::open(&config.log).map_err(|error| error.to_string())?;
    let listeners = open_listeners(&config)?;
    let pidfile = config.pidfile.as_deref().map(Pidfile::write).transpose()?;
    let runtime = event_loop().map_err(|error| format!("event loop: {error}"))?;
    let ended = runtime.block_on(supervise(config, log.clone(), listeners));
    drop(pidfile);
    log.flush();
    ended
}

fn event_loop() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn open_listeners(config: &Config) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for bind in &config.binds {
        listeners.push(listen::open(bind).map_err(|unbound| {
            let site = config.sites.first().unwrap_or(&config.site_defaults);
            let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
            report.begin(Step::Found, Duration::ZERO);
            report.fail(Failure::System {
                doing: format!("listen on {}", listen::shown(&unbound.bind)),
                error: unbound.error.to_string(),
            });
            startup_report::text::render(&report, false)
        })?);
    }
    Ok(listeners)
}

async fn supervise(config: Config, log: Log, listeners: Vec<Listener>) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let reaper = Reaper::start().map_err(failed)?;
    let mut signals = Signals::new().map_err(failed)?;
    let server = Arc::new(Server { config, log, routes: RwLock::default() });
    server.config.notices.iter().for_each(|notice| server.log.event(notice));

    let mut sites = Sites {
        server: server.clone(),
        reaper,
        adopted: adopted(&server.config),
        known: HashMap::new(),
        problems: Vec::new(),
    };
    sites.update();

    let (stop, stopped) = watch::channel(false);
    let mut threads = Vec::new();
    for number in 0..server.config.front_threads.max(1) {
        let listeners = listeners.iter().map(Listener::try_clone).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let (server, stopped) = (server.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name(format!("front-{number}"));
        threads.push(thread.spawn(move || accept_all(listeners, server, stopped)).map_err(failed)?);
    }
    drop(stopped);
    for listener in &listeners {
        server.log.event(format!("Listening on {}", listener.url()));
    }

    let mut look = tokio::time::interval(LOOK);
    let halted = loop {
        tokio::select! {
            _ = look.tick() => sites.look(),
            signal = signals.next() => match signal {
                Told::Stop => break false,
                Told::Halt => break true,
                Told::Restart => sites.order(|| Order::Restart),
                Told::Reopen => server.log.reopen(),
                Told::Grow => sites.order(|| Order::Grow),
                Told::Shrink => sites.order(|| Order::Shrink),
            }
        }
    };
    drop(listeners);
    let _ = stop.send(true);
    if halted {
        server.log.event("Halted");
        return Ok(());
    }
    server.log.event("Stopping: requests in hand are finished first");
    let grace = server.config.shutdown_timeout;
    let finished = async {
        // Every accept loop and every connection holds a receiver.
        stop.closed().await;
        sites.stop(grace).await;
    };
    tokio::select! {
        _ = tokio::time::timeout(grace + Duration::from_secs(5), finished) => {}
        _ = signals.again() => server.log.event("Stopping at once"),
    }
    server.log.event("Stopped");
    Ok(())
}

/// The control socket of the process that started us as the server of an app it has already loaded.
#[allow(unsafe_code)]
fn adopted(config: &Config) -> Option<UnixStream> {
    let fd = config.adopt_control_fd.filter(|fd| *fd > 2 && Path::new(&format!("/proc/self/fd/{fd}")).exists())?;
    // SAFETY: our parent opened this descriptor for us and named it on the command line; it was just seen to be open,
    // and this runs once, so nothing else owns it.
    let socket = unsafe { UnixStream::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(socket)
}

/// One thread's event loop: accepts and serves until told to stop, then until its connections are closed.
fn accept_all(listeners: Vec<Listener>, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let Ok(runtime) = event_loop() else { return };
    runtime.block_on(async move {
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| tokio::spawn(accept(listener, server.clone(), stop.clone())))
            .collect();
        drop(stop);
        for task in accepting {
            let _ = task.await;
        }
        // Connections that are finishing, conversations and upgraded streams end with the process at the latest.
        std::future::pending::<()>().await
    });
}

async fn accept(listener: Listener, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let mut stopped = stop.clone();
    macro_rules! serve_from {
        ($listener:expr, $address:expr) => {
            loop {
                tokio::select! {
                    accepted = $listener.accept() => match accepted {
                        Ok((stream, peer)) => {
                            let (remote, local) = $address(&stream, peer);
                            tokio::spawn(connection::serve(stream, connection::facts(remote, local), server.clone(), stop.clone()));
                        }
                        // Out of descriptors, or a client that left again: those being served go on, and a moment
                        // later there may be room.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    },
                    _ = until(&mut stopped) => return,
                }
            }
        };
    }
    match &listener {
        Listener::Tcp(listener) => {
            let Ok(listener) = listener.try_clone().and_then(tokio::net::TcpListener::from_std) else { return };
            serve_from!(listener, |stream: &tokio::net::TcpStream, peer: SocketAddr| {
                let _ = stream.set_nodelay(true);
                (Some(peer), stream.local_addr().ok())
            })
        }
        Listener::Unix { listener, .. } => {
            let Ok(listener) = listener.try_clone().and_then(tokio::net::UnixListener::from_std) else { return };
            serve_from!(listener, |_: &tokio::net::UnixStream, _| (None, None))
        }
    }
}

/// The sites that are served, and what is watched of them.
struct Sites {
    server: Arc<Server>,
    reaper: Reaper,
    adopted: Option<UnixStream>,
    known: HashMap<String, (Arc<Site>, Option<SystemTime>)>,
    /// Folders that are no sites, as last said in the log.
    problems: Vec<String>,
}

impl Sites {
    /// Makes the routes what the configuration and the folder of sites say now.
    fn update(&mut self) {
        let config = &self.server.config;
        let mut wanted = config.sites.clone();
        if let Some(dir) = &config.sites_dir {
            match config::sites_in(dir, &config.site_defaults) {
                Ok(found) => {
                    wanted.extend(found.sites);
                    for problem in found.problems.iter().filter(|problem| !self.problems.contains(problem)) {
                        self.server.log.event(problem);
                    }
                    self.problems = found.problems;
                }
                // The folder is away for a moment (a mount, a rename): what is served goes on being served.
                Err(_) if !self.known.is_empty() => return,
                Err(error) => self.server.log.event(format!("{}: {error}", dir.display())),
            }
        }
        let mut changed = self.server.routes().all().is_empty();
        let names: Vec<String> = wanted.iter().map(|site| site.name.clone()).collect();
        for site in wanted {
            let kind = kind_of(&site);
            if self
                .known
                .get(&site.name)
                .is_some_and(|(known, _)| known.config.root == site.root && known.config.kind == kind)
            {
                continue;
            }
            changed = true;
            let (name, site) = (site.name.clone(), self.make(site, kind));
            let stamp = restart_stamp(&site.config.root);
            if let Some((old, _)) = self.known.insert(name, (Arc::new(site), stamp)) {
                stop_app(&old);
            }
        }
        self.known.retain(|name, (site, _)| {
            let keep = names.contains(name);
            if !keep {
                changed = true;
                stop_app(site);
            }
            keep
        });
        if changed {
            let in_order = names.iter().filter_map(|name| self.known.get(name)).map(|(site, _)| site.clone()).collect();
            *self.server.routes.write().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                Arc::new(Routes::new(in_order));
        }
    }

    fn make(&mut self, mut site: SiteConfig, kind: Option<AppKind>) -> Site {
        site.kind = kind;
        let is_files = kind == Some(AppKind::Files);
        let folder =
            (site.static_files || is_files).then(|| Folder::new(files_of(&site, is_files), site.static_max_age));
        let app = (!is_files).then(|| {
            let app = App::new(site.clone(), self.adopted.take(), self.reaper.clone(), self.server.log.clone());
            if !site.on_demand {
                app.order(Order::Start);
            }
            app
        });
        Site { config: site, folder, app }
    }

    /// Looks at the folder of sites, and at each app's tmp/restart.txt.
    fn look(&mut self) {
        if self.server.config.sites_dir.is_some() {
            self.update();
        }
        for (site, stamp) in self.known.values_mut() {
            let now = restart_stamp(&site.config.root);
            if now != *stamp {
                *stamp = now;
                if let (Some(app), true) = (&site.app, now.is_some()) {
                    if !matches!(app.state(), State::Stopped) {
                        self.server.log.event(format!("{}: tmp/restart.txt was touched", site.config.name));
                        app.order(Order::Restart);
                    }
                }
            }
        }
    }

    fn order(&self, order: impl Fn() -> Order) {
        self.known.values().filter_map(|(site, _)| site.app.as_ref()).for_each(|app| app.order(order()));
    }

    async fn stop(&self, grace: Duration) {
        let mut waiting = Vec::new();
        for app in self.known.values().filter_map(|(site, _)| site.app.as_ref()) {
            let (done, wait) = oneshot::channel();
            app.order(Order::Stop { grace, done });
            waiting.push(wait);
        }
        for wait in waiting {
            let _ = wait.await;
        }
    }
}

fn stop_app(site: &Site) {
    if let Some(app) = &site.app {
        app.order(Order::Stop { grace: Duration::from_secs(30), done: oneshot::channel().0 });
    }
}

/// What is there now; None when nothing is recognised, which the start-up page will explain.
fn kind_of(site: &SiteConfig) -> Option<AppKind> {
    site.kind.or_else(|| config::detect(&site.root).ok().map(|detected| detected.kind))
}

/// The folder that files are served from: `public`, or what a site of plain files consists of.
fn files_of(site: &SiteConfig, is_files: bool) -> PathBuf {
    let found = is_files.then(|| config::detect(&site.root).ok()).flatten();
    found.filter(|found| found.kind == AppKind::Files).map_or_else(|| site.root.join(&site.public), |found| found.entry)
}

fn restart_stamp(root: &Path) -> Option<SystemTime> {
    std::fs::metadata(root.join("tmp/restart.txt")).and_then(|found| found.modified()).ok()
}

/// The file with our pid, removed in the end.
struct Pidfile(PathBuf);

impl Pidfile {
    fn write(path: &Path) -> Result<Pidfile, String> {
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("pidfile {}: {error}", path.display()))?;
        Ok(Pidfile(path.to_path_buf()))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        let ours = std::fs::read_to_string(&self.0).is_ok_and(|pid| pid.trim() == std::process::id().to_string());
        if ours {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// What a signal tells us, in Puma's meaning.
enum Told {
    Stop,
    Halt,
    Restart,
    Reopen,
    Grow,
    Shrink,
}

struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    usr1: tokio::signal::unix::Signal,
    usr2: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
    ttin: tokio::signal::unix::Signal,
    ttou: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        // TTIN and TTOU have no name of their own in tokio.
        let raw = |number| signal(SignalKind::from_raw(number));
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            usr1: signal(SignalKind::user_defined1())?,
            usr2: signal(SignalKind::user_defined2())?,
            hup: signal(SignalKind::hangup())?,
            ttin: raw(rustix::process::Signal::TTIN.as_raw())?,
            ttou: raw(rustix::process::Signal::TTOU.as_raw())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.term.recv() => Told::Stop,
            _ = self.int.recv() => Told::Stop,
            _ = self.quit.recv() => Told::Halt,
            _ = self.usr1.recv() => Told::Restart,
            _ = self.usr2.recv() => Told::Restart,
            _ = self.hup.recv() => Told::Reopen,
            _ = self.ttin.recv() => Told::Grow,
            _ = self.ttou.recv() => Told::Shrink,
        }
    }

    /// Told to stop once more.
    async fn again(&mut self) {
        while !matches!(self.next().await, Told::Stop | Told::Halt) {}
    }
}

/// Resolves when told to stop.
async fn until(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
