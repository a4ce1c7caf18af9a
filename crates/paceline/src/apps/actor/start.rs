//! A generation's way from nothing to ready, or to a report that says why not.
//! It never touches what serves already, but to let it go when its successor is ready.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{leave::kill, replace::shown_pause, Actor};
use crate::{
    apps::{
        attempts::Outcome,
        events::{ActorEvent, Event},
        generation::{Generation, Phase, Preloader},
        orders::State,
        spawn::{self, PreloaderProcess},
        startable_app::{NoApplication, StartableApp},
    },
    config::SiteConfig,
    observe::log::Name,
};
use startup_report::{Failure, StartupReport, Step};
use unix_user::{Refused, RunAs};

/// How long the last output of a start that failed is waited for.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

impl Actor {
    /// Boots a generation.
    pub(super) async fn start(&mut self) {
        let began = Instant::now();
        if self.current.is_none() {
            self.context.state.send_replace(State::Starting);
        }
        self.once_more = None;
        self.start_at = None;
        self.attempts.begin();
        let pinned = self.pinned.clone().filter(|release| release.is_dir());
        let site = self.wanted_settings();
        let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
        report.begin(Step::Found, began.elapsed());
        let fail = |mut report: StartupReport, doing: String, error: String| {
            report.fail(Failure::System { doing, error });
            report
        };
        let (found, run_as) = match look(&site, pinned).await {
            Ok(found) => found,
            Err((doing, error)) => return self.failed(fail(report, doing, error)).await,
        };
        let preloader = match (self.context.adopted.take(), run_as) {
            (Some(control), _) => Preloader { control, process: None, run_as: RunAs::own() },
            (None, Err(refused)) => {
                let doing = "choose a user for the application".into();
                return self.failed(fail(report, doing, refused.to_string())).await;
            }
            (None, Ok(run_as)) => match self.spawn(&site, &found, run_as) {
                Ok(spawned) => {
                    if let Some(notice) = &spawned.notice {
                        self.context.log.event(Name::Notice, format!("{}: {notice}", site.name));
                    }
                    spawned.into()
                }
                Err(error) => {
                    let doing = format!("start {}", site.ruby.display());
                    return self.failed(fail(report, doing, error.to_string())).await;
                }
            },
        };
        report.read_as = Some(preloader.run_as.clone());
        report.done(Step::Found, began.elapsed());
        let number = self.next_generation;
        self.next_generation += 1;
        if let Some((pid, ..)) = &preloader.process {
            self.await_exit(number, *pid);
        }
        match Generation::new(number, report.clone(), began, preloader, &site, &self.events) {
            Ok(mut generation) => {
                generation.start(&site, &found).await;
                self.next = Some(generation);
            }
            Err(error) => self.failed(fail(report, "open the control socket".into(), error.to_string())).await,
        }
    }

    /// Starts the process that loads the application, or takes the one that has read config/puma.rb.
    fn spawn(&mut self, site: &SiteConfig, found: &StartableApp, run_as: RunAs) -> io::Result<PreloaderProcess> {
        let reader = self.context.reader.take();
        let taken = reader.and_then(|process| spawn::reader(process, site, found, &run_as));
        match taken {
            Some(taken) => Ok(taken),
            None => spawn::preloader_with(site, &found.root, run_as, |_| {}),
        }
    }

    /// The settings of the next start: a canary may have its own.
    fn wanted_settings(&self) -> Arc<SiteConfig> {
        let tried = self.plan.as_ref().and_then(|plan| plan.settings.clone());
        tried.unwrap_or_else(|| Arc::new(self.context.site.clone()))
    }

    pub(super) fn await_exit(&self, generation: u64, pid: i32) {
        let exit = self.context.reaper.exit_of(pid);
        let events = self.events.clone();
        tokio::spawn(async move {
            if let Ok(exit) = exit.await {
                let _ = events.send(Event { generation, worker: None, happened: ActorEvent::Exited(exit) });
            }
        });
    }

    /// A generation that has not become ready never will: its processes are ended, and when all they printed has been
    /// read, the failure is told.
    pub(super) async fn generation_failed(&mut self, number: u64, step: Option<Step>, failure: Failure) {
        let Some(next) = self.next.as_mut().filter(|next| next.number == number) else { return };
        if next.phase == Phase::Failing {
            return;
        }
        if let Some(step) = step {
            next.report.begin(step, next.elapsed());
        }
        next.report.fail(failure);
        next.phase = Phase::Failing;
        next.deadline = Instant::now() + LAST_OUTPUT;
        next.workers.values().for_each(|worker| kill(worker.pid));
        if next.pipes == 0 {
            self.tell_failure().await;
        }
    }

    /// The time for starting is over. The preloader is asked where it is, for the report.
    pub(super) async fn start_timed_out(&mut self) {
        let Some(next) = &mut self.next else { return };
        let (number, loading) = (next.number, next.phase == Phase::Loading);
        if loading {
            next.ask_backtrace().await;
        } else if let Some(pid) = next.pid {
            kill(pid);
        }
        let after = self.context.site.start_timeout;
        self.generation_failed(number, None, Failure::TimedOut { after }).await;
    }

    /// One of a generation's pipes is closed.
    pub(super) async fn printed_all(&mut self, number: u64) {
        let Some(generation) = self.generation(number) else { return };
        generation.pipes = generation.pipes.saturating_sub(1);
        if generation.phase == Phase::Failing && generation.pipes == 0 {
            self.tell_failure().await;
        }
    }

    /// The generation that failed is done with.
    pub(super) async fn tell_failure(&mut self) {
        let Some(mut next) = self.next.take_if(|next| next.phase == Phase::Failing) else { return };
        next.control = None;
        if let Some(pid) = next.pid.filter(|_| next.exit.is_none()) {
            kill(pid);
        }
        if self.stopping.is_none() {
            self.failed(next.report).await;
        }
    }

    /// A start ended badly: whatever served before goes on serving.
    async fn failed(&mut self, mut report: StartupReport) {
        self.failures += 1;
        self.context.metrics.processes.started(false);
        self.failed_at = Some(Instant::now());
        self.plan = None;
        let log = self.context.log.clone();
        match self.told.as_ref().filter(|told| told.failure == report.failure && told.output == report.output) {
            // Every reload is an attempt: what has been told already keeps its number, and takes one line.
            Some(told) => {
                report.id.clone_from(&told.id);
                log.event(Name::StartFailed, format!("{} (as before)", report.summary()));
            }
            None => log.text(Name::StartFailed, startup_report::text::render(&report, log.colour())),
        }
        self.tell_start_failed(&report);
        self.told = Some(report.clone());
        let report = Arc::new(report);
        self.attempts.end(&Outcome::Failed(report.clone()));
        if self.current.is_some() {
            let name = &self.context.site.name;
            log.event(
                Name::StartFailed,
                format!("{name}: the new generation did not start; the old one goes on serving"),
            );
        }
        if self.once_more().await || self.current.is_some() {
            return;
        }
        if let Some(pause) = self.recovers(&report) {
            let name = &self.context.site.name;
            log.event(Name::StartFailed, format!("{name}: starting it again{}", shown_pause(pause)));
            self.start_at = Some(Instant::now() + pause);
            return;
        }
        // A release that does not start is not insisted on.
        self.pinned = None;
        let pause = self.pause_after_failure();
        self.context.state.send_replace(State::Failed { report, retry_at: Some(Instant::now() + pause) });
    }
}

/// What is to be started, and as whom, looked at away from the event loop: the files are the application's. Err: what
/// could not be done, and why.
async fn look(
    site: &SiteConfig,
    release: Option<PathBuf>,
) -> Result<(StartableApp, Result<RunAs, Refused>), (String, String)> {
    let doing = format!("find an application in {}", site.root.display());
    let site = site.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let found = StartableApp::in_release(&site, release.as_ref().unwrap_or(&site.root))?.that_starts()?;
        let run_as = found.run_as(&site);
        Ok::<_, NoApplication>((found, run_as))
    });
    match looked.await {
        Ok(found) => found.map_err(|error| (doing, error.to_string())),
        Err(error) => Err((doing, error.to_string())),
    }
}
