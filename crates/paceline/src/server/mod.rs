//! The front as a whole: listeners, event-loop threads, sites, signals, start and end.
//! It never handles a request itself.

mod accept;
mod ending;
mod error;
pub mod handover;
mod incidents;
mod leaving;
mod notify;
mod opening;
mod outbound;
mod pidfile;
mod popular;
mod signals;
mod sites;
mod survey;
mod upgrading;
mod watched;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tokio::{runtime::Handle, sync::mpsc, task::AbortHandle, time::sleep_until};

pub use self::error::{StartError, TakeoverError};
use self::{
    ending::How,
    handover::{Inheritance, Lineage, Program, Successor},
    opening::{left_out, open_listeners, proofs, shared, BoundListener},
    pidfile::Pidfile,
    signals::{SignalCommand, Signals},
    sites::Sites,
    upgrading::{UpgradeContext, Upgrading},
};
use crate::{
    apps::{actor::restart::Wish, app::Order, attempts::Cause, reaper::Reaper},
    config::{Bind, Config},
    content::spool,
    edge::{acme::Keeper, admission::Connections, h1},
    front::{drain, sampling, ConnectionSlots, Front, UpgradeError, ADOPTED},
    observe::{
        control::Control,
        log::{Log, Name},
        metrics::Metrics,
        traces::Tracer,
    },
    support::buffer_memory,
    workers::dispatch::queue::Depth,
};

/// How often files that are watched are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What tasks beside the event loop get to end.
const LAST_TASKS: Duration = Duration::from_secs(1);
/// Why a front leaves its main loop.
enum End {
    Stopped(How),
    Replaced(Successor),
}

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
    handover::mask::block();
    let log = Log::open(&config.log).map_err(StartError::Log);
    handover::mask::unblock();
    let log = log?;
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
    let listeners = open_listeners(&config, keeper.as_ref().map(Keeper::certificates), inheritance.as_mut())?;
    let control = Control::open(&mut config, inheritance.is_some(), |path| inheritance.as_mut()?.control(path))?;
    let runtime = event_loop().map_err(StartError::EventLoop)?;
    let opened = OpenServer { listeners, keeper, control, pidfile, program };
    let ended = runtime.block_on(supervise(config, log.clone(), opened, inheritance));
    if let Ok(ServerEnd::Replaced(..)) = &ended {
        // What comes from here on waits for the stand-in.
        handover::mask::block();
    }
    runtime.shutdown_timeout(LAST_TASKS);
    log.flush();
    ended
}

/// An event loop. Its other threads take no signals of the server's.
fn event_loop() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().on_thread_start(handover::mask::block).build()
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
        let Depth { waiting, idle, busy } = app.queue.depth();
        server
            .log
            .of(&site.config.name)
            .event(Name::State, format!("State of {}: waiting={waiting} idle={idle} busy={busy}", site.config.name));
    }
}

async fn supervise(
    config: Config,
    log: Log,
    opened: OpenServer,
    mut inheritance: Option<Inheritance>,
) -> Result<ServerEnd, StartError> {
    let OpenServer { mut listeners, keeper, mut control, mut pidfile, program } = opened;
    let reaper = Reaper::start()?;
    let mut signals = Signals::new()?;
    let https_port = listeners.iter().filter(|(_, entrance)| entrance.scheme() == "https").find_map(|one| one.0.port());
    let automatic = keeper.as_ref().map(|keeper| keeper.certificates().clone());
    let slots = ConnectionSlots::new(&config);
    buffer_memory::BODIES.allow(config.buffer_memory);
    let tracing = config.traces.clone().map(|settings| Tracer::start(settings, log.clone()));
    let tracer = tracing.transpose()?.map(Arc::new);
    let connections = Connections::new(config.client.connections, config.client.connections_per_address);
    let incidents = incidents::open(&config, &log);
    let (upgrades, mut upgrades_asked) = mpsc::unbounded_channel();
    let server = Arc::new(Front {
        cache: opening::cache(&config, &log, inheritance.as_mut())?,
        config,
        log,
        automatic,
        https_port,
        connections,
        metrics: Metrics::default(),
        incidents,
        samples: Default::default(),
        began: SystemTime::now(),
        up_since: Instant::now(),
        egress: Arc::default(),
        outbound_advice: Arc::default(),
        tracer,
        full_said: Mutex::default(),
        routes: RwLock::default(),
        slots,
        ready: Default::default(),
        upgrades,
        loops: Mutex::default(),
    });
    server.know(Handle::current());
    server.config.notices.iter().for_each(|notice| server.log.event(Name::Notice, notice));
    let swept = spool::sweep();
    if swept > 0 {
        server.log.event(Name::Notice, format!("Removed {swept} temporary files of servers that were killed"));
    }
    left_out(&server.config, &listeners).iter().for_each(|line| server.log.event(Name::Notice, line));

    let mut sites = Sites::new(server.clone(), reaper.clone(), opening::adopted(&server.config));
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
    control.serve(&server);
    tokio::spawn(sampling::run(server.clone()));

    let (stopping, stop) = drain::stopping();
    let mut threads = Vec::new();
    for number in 0..server.config.front_threads.max(1) {
        let listeners = listeners.iter().map(shared).collect::<Result<Vec<_>, _>>()?;
        let (server, stop) = (server.clone(), stop.clone());
        let thread = std::thread::Builder::new().name(format!("front-{number}"));
        threads.push(thread.spawn(move || accept::all(listeners, server, stop))?);
    }
    drop(stop);
    for (listener, entrance) in &listeners {
        entrance.warnings().iter().for_each(|warning| server.log.event(Name::Notice, warning));
        server.log.event(Name::Listening, format!("Listening on {}", listener.url(entrance.scheme())));
    }

    let lineage = match inheritance {
        None => Lineage::first()?,
        Some(inheritance) => {
            let lineage = inheritance.took_over(&server.cache)?;
            for ((listener, _), given) in listeners.iter_mut().zip(&server.config.binds) {
                if let Bind::Unix { path, .. } = &given.bind {
                    listener.own(Some(path));
                }
            }
            control.own();
            pidfile.iter_mut().for_each(Pidfile::own);
            lineage
        }
    };
    let mut upgrading = Upgrading::new(program, lineage);

    // Without TLS nobody would see a certificate.
    let keeping = keeper.filter(|_| server.https_port.is_some());
    let keeping = keeping.map_or_else(Vec::new, |keeper| keeper.begin(proofs(&listeners), server.log.clone()));

    tokio::spawn({
        let (started, server) = (sites.started(), server.clone());
        let up = async move {
            started.await;
            server.ready.ready();
        };
        notify::booting(up)
    });
    tokio::spawn(notify::watch(server.clone(), upgrading.lineage.identity()));

    let mut look = tokio::time::interval(LOOK);
    // When listeners close; None: nobody has told us to stop.
    let mut told: Option<Instant> = None;
    let delay = server.config.shutdown_delay;
    let end = loop {
        tokio::select! {
            _ = sleep_until((told.unwrap_or_else(Instant::now) + delay).into()), if told.is_some() => break End::Stopped(How::Drained),
            _ = look.tick() => {
                if !upgrading.lineage.look() {
                    break End::Stopped(How::Halted);
                }
                sites.look();
                server.metrics.look();
                control.look(&server);
                listeners.iter().flat_map(|(_, entrance)| entrance.look()).for_each(|line| server.log.event(Name::Certificate, line));
                if server.cache.has_shed() {
                    tokio::task::spawn_blocking(buffer_memory::give_back);
                }
            }
            scan = sites.looked() => sites.update(scan),
            Some(answer) = upgrades_asked.recv() => {
                let having = UpgradeContext { server: &server, listeners: &listeners, control: &control, sites: &sites, reaper: &reaper };
                upgrading.begin(&having, Some(answer));
            }
            ended = upgrading.ended() => match ended {
                Ok(successor) => {
                    upgrading.replaced(&server, &successor);
                    break End::Replaced(successor);
                }
                Err(why) => upgrading.failed(&server, why),
            },
            signal = signals.next() => match signal {
                SignalCommand::Stop => match told {
                    None => {
                        told = Some(Instant::now());
                        ending::begin(&server);
                    }
                    Some(first) if signals::is_echo(first) => {}
                    Some(_) => break End::Stopped(How::AtOnce),
                },
                SignalCommand::Halt => break End::Stopped(How::Halted),
                SignalCommand::Restart => drop(tokio::spawn(notify::restarting(sites.restart("a signal")))),
                SignalCommand::Upgrade if server.is_adopted() => {
                    server.log.event(Name::Upgrade, ADOPTED);
                    sites.order(|| Order::Restart(Wish::by(Cause::Told("a signal"))));
                }
                SignalCommand::Upgrade => {
                    let having =
                        UpgradeContext { server: &server, listeners: &listeners, control: &control, sites: &sites, reaper: &reaper };
                    upgrading.begin(&having, None);
                }
                SignalCommand::Reopen => server.log.reopen(),
                SignalCommand::Tell => log_state(&server),
                SignalCommand::Grow => sites.order(|| Order::Grow),
                SignalCommand::Shrink => sites.order(|| Order::Shrink),
            }
        }
    };
    keeping.iter().for_each(AbortHandle::abort);
    let how = match end {
        End::Replaced(successor) => {
            for ((listener, _), taken) in listeners.iter_mut().zip(&successor.taken.listeners) {
                if *taken {
                    listener.own(None);
                }
            }
            control.leave(successor.taken.control);
            pidfile.iter_mut().for_each(|pidfile| pidfile.leave(successor.taken.pidfile.as_deref()));
            drop(listeners);
            ending::replaced(successor.pid, &server, &stopping, &sites, &mut signals, control.answered()).await;
            return Ok(ServerEnd::Replaced(successor, upgrading.lineage));
        }
        End::Stopped(how) => how,
    };
    // Before the loops look for the last connections in their queues.
    drop(listeners);
    upgrading.abandon();
    ending::end(how, told.unwrap_or_else(Instant::now), &server, &stopping, &sites, &mut signals).await;
    Ok(ServerEnd::Stopped)
}
