//! Programs that run beside an application's workers (`[[process]]`): started when its first generation is ready,
//! restarted with it, ended with it. They run on the main thread's event loop. It never knows what they do.
//!
//! Reading order: `life` (one of them), `policy` (when it is started again), `child` (how it is started), `guard` (what
//! sees that none outlives the front).

mod child;
mod guard;
mod life;
mod policy;

use std::sync::Arc;

pub use child::{become_it, Release, BECOME};
pub use guard::{run as guard, GUARD};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use self::life::{Life, Order};
use super::reaper::Reaper;
use crate::{
    config::SiteConfig,
    observe::{incidents::Incidents, log::Log},
};

/// One of them at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessView {
    /// As configured.
    pub name: String,
    /// As the log names it: `shop.jobs`, with several of it `shop.jobs.2`.
    pub who: String,
    pub standing: Standing,
    /// When that began, in Unix seconds.
    pub since: f64,
    /// It runs, or is about to end.
    pub pid: Option<i32>,
    /// How often it was started.
    pub starts: u64,
    /// How it ended the last time that it was not told to.
    pub last_exit: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The application has not been ready yet.
    Waiting,
    Running,
    /// It has ended, and will be started again.
    Pausing,
    Stopping,
    /// It has ended, and will not be started again before the application is.
    Ended,
}

impl Standing {
    /// As status and JSON say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Waiting => "waiting",
            Standing::Running => "running",
            Standing::Pausing => "pausing",
            Standing::Stopping => "stopping",
            Standing::Ended => "ended",
        }
    }
}

/// Those of one site.
#[derive(Default)]
pub struct Processes {
    each: Vec<(mpsc::UnboundedSender<Order>, watch::Receiver<ProcessView>)>,
    lives: Mutex<Vec<JoinHandle<()>>>,
}

impl Processes {
    /// Makes them known; none is started yet. Must be called on the front's main thread, within its event loop.
    pub fn new(site: &SiteConfig, reaper: &Reaper, log: &Log, incidents: &Arc<Incidents>) -> Processes {
        let mut processes = Processes::default();
        for config in &site.processes {
            for number in 1..=config.count {
                let who = match config.count {
                    1 => format!("{}.{}", site.name, config.name),
                    _ => format!("{}.{}.{number}", site.name, config.name),
                };
                let view = ProcessView {
                    name: config.name.clone(),
                    who: who.clone(),
                    standing: Standing::Waiting,
                    since: crate::support::clock::unix_seconds(),
                    pid: None,
                    starts: 0,
                    last_exit: None,
                };
                let (view, shown) = watch::channel(view);
                let (orders, receiver) = mpsc::unbounded_channel();
                let (config, site) = (config.clone(), site.clone());
                let (reaper, log, incidents) = (reaper.clone(), log.clone(), incidents.clone());
                let life = Life { config, site, who, reaper, log, incidents, view };
                processes.lives.get_mut().push(tokio::spawn(life.run(receiver)));
                processes.each.push((orders, shown));
            }
        }
        processes
    }

    /// A generation serves from now on: they are started, or restarted.
    pub fn took_over(&self, release: &Release) {
        self.tell(|| Order::TookOver(release.clone()));
    }

    /// Asks all to end. Those that don't are killed when their time is over.
    pub fn stop(&self) {
        self.tell(|| Order::Stop);
    }

    /// Resolves when all that were told to stop have ended. To be called once.
    pub async fn ended(&self) {
        let lives = std::mem::take(&mut *self.lives.lock());
        for life in lives {
            let _ = life.await;
        }
    }

    pub fn views(&self) -> Vec<ProcessView> {
        self.each.iter().map(|(_, view)| view.borrow().clone()).collect()
    }

    fn tell(&self, order: impl Fn() -> Order) {
        self.each.iter().for_each(|(orders, _)| drop(orders.send(order())));
    }
}
