//! The main loop of a front that serves: signals, upgrades, sites that come and go, and what is looked at from time to
//! time. It ends with the reason for which the front leaves.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc::UnboundedReceiver, oneshot},
    time::sleep_until,
};

use super::{
    accept,
    ending::{self, How},
    handover::{Inheritance, Lineage, Successor},
    log_state, notify,
    opening::BoundListener,
    pidfile::Pidfile,
    signals::{self, SignalCommand, Signals},
    sites::Sites,
    upgrading::{UpgradeContext, Upgrading},
    ServerEnd, StartError,
};
use crate::{
    apps::{
        attempts::Cause,
        orders::{Order, Wish},
        reaper::Reaper,
    },
    config::Bind,
    observe::log::Name,
    request::front::{drain, sampling, Front, UpgradeOutcome, ADOPTED},
    server::control::Control,
    support::{buffer_memory, event_loops::EventLoops},
};

/// How often files that are watched are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Why a front leaves its main loop.
pub(super) enum End {
    Stopped(How),
    Replaced(Successor),
}

/// What a front has open, and its successor may take over.
pub(super) struct Open {
    pub(super) listeners: Vec<BoundListener>,
    pub(super) control: Control,
    pub(super) pidfile: Option<Pidfile>,
}

impl Open {
    /// Answers the control socket, and starts the event loops that serve clients.
    pub(super) fn serve(&mut self, server: &Arc<Front>, stop: drain::Stop) -> Result<(), StartError> {
        self.control.serve(server);
        tokio::spawn(sampling::run(server.clone()));
        let loops = EventLoops::new(server.config.front_threads.max(1));
        for number in 0..server.config.front_threads.max(1) {
            let listeners = self.listeners.iter().map(BoundListener::shared).collect::<Result<Vec<_>, _>>()?;
            let (server, stop, loops) = (server.clone(), stop.clone(), loops.clone());
            let thread = std::thread::Builder::new().name(format!("front-{number}"));
            thread.spawn(move || accept::all(listeners, server, stop, loops, number))?;
        }
        for BoundListener { listener, entrance } in &self.listeners {
            entrance.warnings().iter().for_each(|warning| server.log.event(Name::Notice, warning));
            server.log.event(Name::Listening, format!("Listening on {}", listener.url(entrance.scheme())));
        }
        Ok(())
    }

    /// From now on this front removes what has a name in the file system, and the one before it does not.
    pub(super) fn take_over(
        &mut self,
        inheritance: Option<Inheritance>,
        server: &Front,
    ) -> Result<Lineage, StartError> {
        let Some(inheritance) = inheritance else { return Ok(Lineage::first()?) };
        let lineage = inheritance.took_over(&server.cache)?;
        for (BoundListener { listener, .. }, given) in self.listeners.iter_mut().zip(&server.config.binds) {
            if let Bind::Unix { path, .. } = &given.bind {
                listener.own(Some(path));
            }
        }
        self.control.own();
        self.pidfile.iter_mut().for_each(Pidfile::own);
        Ok(lineage)
    }

    /// What the successor has taken stays when this front ends.
    fn leave_to(&mut self, successor: &Successor) {
        for (BoundListener { listener, .. }, taken) in self.listeners.iter_mut().zip(&successor.taken.listeners) {
            if *taken {
                listener.own(None);
            }
        }
        self.control.leave(successor.taken.control);
        self.pidfile.iter_mut().for_each(|pidfile| pidfile.leave(successor.taken.pidfile.as_deref()));
    }
}

/// A front that serves.
pub(super) struct Supervisor {
    pub(super) server: Arc<Front>,
    pub(super) open: Open,
    pub(super) sites: Sites,
    pub(super) reaper: Reaper,
    pub(super) signals: Signals,
    pub(super) upgrades_asked: UnboundedReceiver<oneshot::Sender<UpgradeOutcome>>,
    pub(super) upgrading: Upgrading,
    /// When it was told to stop; the listeners close `shutdown_delay` later.
    pub(super) told: Option<Instant>,
}

impl Supervisor {
    pub(super) async fn run(&mut self) -> End {
        let mut look = tokio::time::interval(LOOK);
        let delay = self.server.config.shutdown_delay;
        loop {
            let closing = self.told.unwrap_or_else(Instant::now) + delay;
            let end = tokio::select! {
                _ = sleep_until(closing.into()), if self.told.is_some() => Some(End::Stopped(How::Drained)),
                _ = look.tick() => self.look(),
                scan = self.sites.looked() => {
                    self.sites.update(scan);
                    None
                }
                Some(answer) = self.upgrades_asked.recv() => {
                    self.upgrade(Some(answer));
                    None
                }
                ended = self.upgrading.ended() => match ended {
                    Ok(successor) => {
                        self.upgrading.replaced(&self.server, &successor);
                        Some(End::Replaced(successor))
                    }
                    Err(why) => {
                        self.upgrading.failed(&self.server, why);
                        None
                    }
                },
                signal = self.signals.next() => self.handle_signal(signal),
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Looks at files that are watched, and at what changes by itself.
    fn look(&mut self) -> Option<End> {
        if !self.upgrading.lineage.look() {
            return Some(End::Stopped(How::Halted));
        }
        self.sites.look();
        self.server.metrics.look();
        self.open.control.look(&self.server);
        let certificates = self.open.listeners.iter().flat_map(|one| one.entrance.look());
        certificates.for_each(|line| self.server.log.event(Name::Certificate, line));
        if self.server.cache.has_shed() {
            tokio::task::spawn_blocking(buffer_memory::give_back);
        }
        None
    }

    fn handle_signal(&mut self, signal: SignalCommand) -> Option<End> {
        match signal {
            SignalCommand::Stop => match self.told {
                None => {
                    self.told = Some(Instant::now());
                    ending::begin(&self.server);
                }
                Some(first) if signals::is_echo(first) => {}
                Some(_) => return Some(End::Stopped(How::AtOnce)),
            },
            SignalCommand::Halt => return Some(End::Stopped(How::Halted)),
            SignalCommand::Restart => drop(tokio::spawn(notify::restarting(self.sites.restart("a signal")))),
            SignalCommand::Upgrade if self.server.is_adopted() => {
                self.server.log.event(Name::Upgrade, ADOPTED);
                self.sites.order(|| Order::Restart(Wish::by(Cause::Told("a signal"))));
            }
            SignalCommand::Upgrade => self.upgrade(None),
            SignalCommand::Reopen => self.server.log.reopen(),
            SignalCommand::Tell => log_state(&self.server),
            SignalCommand::Grow => self.sites.order(|| Order::Grow),
            SignalCommand::Shrink => self.sites.order(|| Order::Shrink),
        }
        None
    }

    fn upgrade(&mut self, answer: Option<oneshot::Sender<UpgradeOutcome>>) {
        let Supervisor { server, open, sites, reaper, upgrading, .. } = self;
        let having = UpgradeContext { server, listeners: &open.listeners, control: &open.control, sites, reaper };
        upgrading.begin(&having, answer);
    }

    /// Closes the listeners, drains what is in hand, and ends the applications, unless a successor has them.
    pub(super) async fn end(self, end: End, stopping: &drain::DrainControl) -> ServerEnd {
        let Supervisor { server, mut open, sites, mut signals, mut upgrading, told, .. } = self;
        if let End::Replaced(successor) = &end {
            open.leave_to(successor);
        }
        let Open { listeners, control, pidfile } = open;
        // Before the loops look for the last connections in their queues.
        drop(listeners);
        let end = match end {
            End::Replaced(successor) => {
                let answered = control.answered();
                ending::replaced(successor.pid, &server, stopping, &sites, &mut signals, answered).await;
                ServerEnd::Replaced(successor, upgrading.lineage)
            }
            End::Stopped(how) => {
                upgrading.abandon();
                let told = told.unwrap_or_else(Instant::now);
                ending::end(how, told, &server, stopping, &sites, &mut signals).await;
                ServerEnd::Stopped
            }
        };
        // The last ones remove the folder that they have made, if nothing else is left there.
        drop((server, sites, signals));
        drop(pidfile);
        drop(control);
        end
    }
}
