//! The life of one side process, from the first generation that is ready until the site is stopped: started, read,
//! ended, started again. When it is started again `policy` decides. It never looks at another one's.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{kill_process_group, Pid, Signal};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep_until, timeout},
};
use units::show_duration;

use super::{
    child::{self, Release},
    guard,
    policy::Policy,
    ProcessView, Standing,
};
use crate::{
    apps::{
        output::read_lines,
        reaper::{Exit, Reaper},
    },
    config::{ProcessConfig, SiteConfig},
    observe::{
        incidents::{Incident, Incidents, Kind},
        log::{Log, Name},
    },
    support::clock,
};

/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(2);

/// What it is told.
pub enum Order {
    /// A generation has taken over.
    TookOver(Release),
    Stop,
}

/// One side process.
pub struct Life {
    pub config: ProcessConfig,
    pub site: SiteConfig,
    /// Its name in the log.
    pub who: String,
    pub reaper: Reaper,
    pub log: Log,
    pub incidents: Arc<Incidents>,
    pub view: watch::Sender<ProcessView>,
}

struct RunningProcess {
    pid: i32,
    since: Instant,
    exit: oneshot::Receiver<Exit>,
}

impl Life {
    /// Until it is told to stop, and has.
    pub async fn run(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut policy = Policy::new(self.config.restart);
        let mut release: Option<Release> = None;
        let mut start_at: Option<Instant> = None;
        let mut running: Option<RunningProcess> = None;
        loop {
            let due = start_at.filter(|_| running.is_none());
            let exited = async {
                match &mut running {
                    // The sender is kept until the exit is known.
                    Some(running) => (&mut running.exit).await.unwrap_or(Exit::Status(0)),
                    None => pending().await,
                }
            };
            tokio::select! {
                // What is told comes before what is due.
                biased;
                order = orders.recv() => match order {
                    Some(Order::TookOver(new)) => {
                        let first = release.replace(new).is_none();
                        if first || self.config.restart_with_app {
                            if let Some(running) = running.take() {
                                self.end(running).await;
                            }
                            policy.forget();
                            start_at = Some(Instant::now());
                        }
                    }
                    Some(Order::Stop) | None => {
                        if let Some(running) = running.take() {
                            self.end(running).await;
                        }
                        return;
                    }
                },
                exit = exited => {
                    let Some(running) = running.take() else { continue };
                    self.gone(running.pid);
                    let pause = policy.after(Some(exit), running.since.elapsed());
                    let what = format!("{} (pid {}) {exit}", self.who, running.pid);
                    if exit != Exit::Status(0) {
                        self.died(exit);
                    }
                    start_at = self.log_end(what, pause);
                    self.show(if pause.is_some() { Standing::Pausing } else { Standing::Ended }, |view| {
                        view.last_exit = Some(exit.to_string());
                    });
                }
                _ = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    start_at = None;
                    let Some(release) = &release else { continue };
                    match self.start(release) {
                        Ok(started) => running = Some(started),
                        Err(error) => {
                            let pause = policy.after(None, Duration::ZERO);
                            start_at = self.log_end(format!("{} could not be started: {error}", self.who), pause);
                            self.show(if pause.is_some() { Standing::Pausing } else { Standing::Ended }, |_| {});
                        }
                    }
                }
            }
        }
    }

    fn start(&self, release: &Release) -> std::io::Result<RunningProcess> {
        let started = child::start(&self.config, &self.who, &self.site, release)?;
        let exit = self.reaper.exit_of(started.pid);
        guard::watch(started.pid);
        for pipe in started.output {
            let (log, who) = (self.log.clone(), self.who.clone());
            read_lines(pipe, move |line| line.iter().for_each(|line| log.output(&who, line)))?;
        }
        let command = self.config.command.join(" ");
        self.log.event(Name::ProcessStarted, format!("{} is started: {command} (pid {})", self.who, started.pid));
        self.show(Standing::Running, |view| {
            view.pid = Some(started.pid);
            view.starts += 1;
        });
        Ok(RunningProcess { pid: started.pid, since: Instant::now(), exit })
    }

    /// Asks it to end, waits as long as it may take, and kills it with what it has forked.
    async fn end(&self, running: RunningProcess) {
        let RunningProcess { pid, mut exit, .. } = running;
        self.show(Standing::Stopping, |_| {});
        signal(pid, self.config.stop_signal);
        let what = match timeout(self.config.stop_timeout, &mut exit).await {
            Ok(exit) => format!("has ended{}", told_otherwise(exit.ok(), self.config.stop_signal)),
            Err(_) => {
                signal(pid, Signal::KILL);
                let _ = timeout(KILLED, exit).await;
                format!("did not end within {} and was killed", show_duration(self.config.stop_timeout))
            }
        };
        self.gone(pid);
        self.log.event(Name::ProcessStopped, format!("{} (pid {pid}) {what}", self.who));
        self.show(Standing::Ended, |_| {});
    }

    /// What it leaves behind in its process group ends with it.
    fn gone(&self, pid: i32) {
        signal(pid, Signal::KILL);
        guard::forget(pid);
        self.view.send_modify(|view| view.pid = None);
    }

    /// Says that it has ended by itself, and what follows; returns when it is to be started again.
    fn log_end(&self, what: String, pause: Option<Duration>) -> Option<Instant> {
        let then = match pause {
            Some(pause) => format!("starting it again in {}", show_duration(pause)),
            None => "it is not started again before the application is".into(),
        };
        self.log.event(Name::ProcessEnded, format!("{what}; {then}"));
        pause.map(|pause| Instant::now() + pause)
    }

    /// In words that are the same each time, so that one that dies again and again is one incident.
    fn died(&self, exit: Exit) {
        let what = format!("{} {exit}", self.who);
        self.incidents.record(Incident::new(Kind::ProcessDied, &self.site.name, what, clock::unix_seconds()));
    }

    fn show(&self, standing: Standing, more: impl FnOnce(&mut ProcessView)) {
        self.view.send_modify(|view| {
            view.standing = standing;
            view.since = clock::unix_seconds();
            more(view);
        });
    }
}

/// How it ended, where that is not what one expects of a process that was asked to.
fn told_otherwise(exit: Option<Exit>, asked: Signal) -> String {
    match exit {
        None | Some(Exit::Status(0)) => String::new(),
        Some(Exit::Signal(signal)) if signal == asked.as_raw() => String::new(),
        // So say shells and those who do as they do.
        Some(Exit::Status(status)) if status == 128 + asked.as_raw() => String::new(),
        Some(exit) => format!(": it {exit}"),
    }
}

/// Reaches all that it has forked and that has not left its process group.
fn signal(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unexpected_end_is_described() {
        let told = |exit| told_otherwise(Some(exit), Signal::TERM);
        assert_eq!([Exit::Status(0), Exit::Signal(15), Exit::Status(143)].map(told), ["", "", ""]);
        assert_eq!(told(Exit::Status(1)), ": it exited with status 1");
        assert_eq!(told(Exit::Signal(9)), ": it was killed by signal 9 (KILL)");
    }
}
