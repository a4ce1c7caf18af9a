//! Self-tuning (`tune = "auto"`): the server tries settings at quiet times, starts the application with what is
//! proven, and gives it back if requests become slower. Runs on the front's main thread, one task for each site.
//! It never decides anything: `rules` does; and it never serves or judges a request.
//!
//! Reading order: `rules` (what is done when), `hours` (what is compared), `budget` (what memory there is), `trial` (the doctor
//! as a child), `store` (what survives the server), `fingerprint` (what a result is true for).

mod budget;
mod fingerprint;
mod hours;
mod rules;
mod store;
mod trial;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use doctor::candidate::Kind;
use tokio::{sync::oneshot, task::spawn_blocking};
use unix_user::RunAs;

pub use self::{fingerprint::lock, trial::SERVER_ARGUMENTS};
use self::{
    rules::{Act, CanaryEnd, Change, Fingerprint, Sight, Tuner},
    trial::{RunningTrial, TrialWish},
};
use super::{
    actor::restart::Wish,
    app::{App, Order, State},
    attempts::{Cause, Outcome, REPLACED},
    canary::{Expectation, Plan},
    found::StartableApp,
    headroom::Headroom,
    reaper::Reaper,
    spawn,
    tuned::Tuned,
};
use crate::{
    config::{SelfTuning, SiteConfig},
    observe::log::{Log, Name},
    support::{clock, pressure},
};

/// How often it is looked whether something is to be done, at most.
const LOOK: Duration = Duration::from_secs(30);
/// Of 10,000 requests; for how long, and at least so many requests.
const SHARE: u32 = 1_000;
const MAX_CANARY: Duration = Duration::from_secs(60);
const REQUESTS: u64 = 20;
/// Set in tests on a busy machine: trials wait for nothing.
const IMPATIENT: &str = "PACELINE_TUNE_IMPATIENT";
/// How somebody tells an application its number of threads.
const THREADS: [&str; 3] = ["RAILS_MAX_THREADS", "PUMA_MAX_THREADS", "MAX_THREADS"];
/// One of so many threads may be busy when a trial begins.
const QUIET: usize = 4;

/// What generations are started with beside the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    pub tuned: Tuned,
    /// Of Gemfile.lock: with another one it is not used.
    pub lock: String,
}

/// What an earlier run of the server has tuned, unless somebody has set it since.
pub fn kept(site: &SiteConfig) -> Option<Overlay> {
    let tune = site.tune.as_ref()?;
    let kept = store::load(&store::path(site)?, &site.root).kept?;
    let is_tunable = tune.kinds.contains(&kept.change.kind);
    is_tunable.then_some(Overlay { tuned: kept.change.tuned, lock: kept.fingerprint.lock })
}

/// Tunes one site.
struct SiteTuning {
    app: Weak<App>,
    site: SiteConfig,
    settings: SelfTuning,
    control: PathBuf,
    file: PathBuf,
    reaper: Reaper,
    log: Log,
    tuner: Tuner,
}

/// Begins to tune an application, if that is wanted, until it is gone. `control`: the server's control socket. Must be called
/// on the front's main thread, within its event loop.
pub fn begin(app: &Arc<App>, control: Option<&PathBuf>, reaper: &Reaper, log: &Log) {
    let site = app.site.clone();
    let Some(settings) = site.tune.clone() else { return };
    let log = log.of(&site.name);
    let say = |why: &str| log.event(Name::Notice, format!("{}: tune = \"auto\" does nothing: {why}", site.name));
    if settings.kinds.is_empty() {
        return say("what it may try (tune_kinds) is set");
    }
    let Some(control) = control.cloned() else { return say("there is no control socket (control = \"off\")") };
    let Some(file) = store::path(&site) else { return say("there is no folder for what it learns (HOME is not set)") };
    let state = store::load(&file, &site.root);
    let tuner = Tuner::new(&site.name, settings.clone(), state, clock::unix_seconds());
    app.queue.keep_times();
    let app = Arc::downgrade(app);
    let tuning = SiteTuning { app, site, settings, control, file, reaper: reaper.clone(), log, tuner };
    tokio::spawn(tuning.run());
}

impl SiteTuning {
    async fn run(mut self) {
        let hour = self.settings.watch / hours::HOURS;
        let pause = LOOK.min(self.settings.every / 2).min(hour / 2).max(Duration::from_millis(100));
        loop {
            tokio::time::sleep(pause).await;
            let Some(app) = self.app.upgrade() else { return };
            let sight = self.sight(&app).await;
            let acts = self.tuner.look(clock::unix_seconds(), &sight, || hours::figures(app.queue.take_times()));
            drop(app);
            self.perform(acts).await;
        }
    }

    async fn sight(&self, app: &App) -> Sight {
        let overview = app.overview().await;
        let Some(current) = overview.current().filter(|_| matches!(app.state(), State::Ready)) else {
            return Sight::default();
        };
        let depth = app.queue.depth();
        let is_calm = depth.waiting == 0 && depth.busy * QUIET <= depth.busy + depth.idle;
        let (site, release) = (self.site.clone(), current.release.clone());
        let configured = overview.tuned.settings.applied_to(&self.site);
        let kinds = undecided(&self.settings.kinds, &configured, &app.settings());
        let ruby = fingerprint::ruby(&current.versions);
        let seen = spawn_blocking(move || {
            let run_as = StartableApp::at(&site).ok()?.run_as(&site).ok()?;
            let fingerprint = Fingerprint {
                ruby,
                lock: fingerprint::lock(&release, &run_as),
                code: fingerprint::code(&release, &run_as),
            };
            Some((fingerprint, unset(&kinds, &spawn::environment(&site, &run_as)), pressure::busy().is_none()))
        });
        let Some((fingerprint, kinds, is_machine_quiet)) = seen.await.ok().flatten() else { return Sight::default() };
        Sight {
            // An application that was loaded by somebody else is not ours to start.
            is_ready: overview.restarts == 0 && current.preloader.is_some() && !current.versions.is_empty(),
            is_quiet: is_impatient() || is_calm && is_machine_quiet,
            is_waiting: depth.waiting > 0,
            fingerprint,
            tuned: overview.tuned.clone(),
            worker_memory: overview.headroom.as_ref().map(Headroom::worker),
            kinds,
        }
    }

    async fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = std::collections::VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            self.show();
            match act {
                Act::Say(name, text) => self.log.event(name, text),
                Act::Save => self.save().await,
                Act::GiveBack => self.give_back().await,
                Act::Trial(kinds) => {
                    let (end, now) = (self.trial(&kinds).await, clock::unix_seconds());
                    let (workers, room) = self.memory().await;
                    let limits = self.site.limits;
                    let shortage = |change: &Change| budget::shortage(change, &limits, workers, room.as_ref());
                    acts.extend(self.tuner.trial_ended(now, end, shortage));
                }
                Act::Canary(change) => {
                    let end = self.canary(&change).await;
                    // Those of both generations.
                    self.app.upgrade().iter().for_each(|app| drop(app.queue.take_times()));
                    acts.extend(self.tuner.canary_ended(clock::unix_seconds(), end));
                }
            }
        }
        self.show();
    }

    fn show(&self) {
        if let Some(app) = self.app.upgrade() {
            *app.tuned.lock() = Some(self.tuner.shown());
        }
    }

    async fn save(&self) {
        let (file, state) = (self.file.clone(), self.tuner.state.clone());
        if let Ok(Err(error)) = spawn_blocking(move || store::save(&file, &state)).await {
            let (name, file) = (&self.site.name, self.file.display());
            self.log.event(
                Name::Notice,
                format!("{name}: what was tuned is forgotten with the server's end: {file}: {error}"),
            );
        }
    }

    async fn trial(&self, kinds: &[Kind]) -> rules::TrialEnd {
        let wish = TrialWish {
            site: &self.site.name,
            control: &self.control,
            watch: self.settings.every.min(MAX_CANARY),
            kinds,
            is_impatient: is_impatient(),
        };
        match RunningTrial::start(&wish, &self.reaper) {
            Ok(trial) => trial.end(|| self.app.strong_count() > 0).await,
            Err(error) => rules::TrialEnd::Failed(format!("paceline doctor could not be started: {error}")),
        }
    }

    async fn canary(&self, change: &Change) -> CanaryEnd {
        let gains = change.gains.clone();
        let expectation = (!gains.is_empty()).then(|| Arc::new(Expectation { gains, files: Vec::new() }));
        let plan = Plan {
            part: SHARE,
            time: self.settings.every.min(MAX_CANARY),
            requests: REQUESTS,
            expectation,
            tuned: Some(change.tuned.clone()),
            settings: None,
        };
        let Some(outcome) = self.restart(Some(plan)).await else {
            return CanaryEnd::Undecided("the application is stopping".into());
        };
        match outcome {
            Outcome::Serves { text, .. } if self.is_started_with(&change.tuned).await => CanaryEnd::Serves(
                text.split_once("; as a canary ").map_or(text.clone(), |(_, figures)| figures.to_owned()),
            ),
            Outcome::Serves { .. } => CanaryEnd::Undecided("another generation serves".into()),
            Outcome::RolledBack(why) if why == REPLACED => CanaryEnd::Undecided(why),
            Outcome::RolledBack(why) => CanaryEnd::RolledBack(why),
            Outcome::Failed(report) => CanaryEnd::RolledBack(format!("it does not start: {}", report.summary())),
            Outcome::Refused(why) => CanaryEnd::Undecided(why),
        }
    }

    async fn is_started_with(&self, tuned: &Tuned) -> bool {
        let Some(app) = self.app.upgrade() else { return false };
        app.overview().await.tuned == *tuned
    }

    /// How many workers there are to be, and the last figures of their memory.
    async fn memory(&self) -> (usize, Option<Headroom>) {
        let Some(app) = self.app.upgrade() else { return (0, None) };
        let overview = app.overview().await;
        (overview.workers_wanted, overview.headroom)
    }

    async fn give_back(&self) {
        if let Some(app) = self.app.upgrade() {
            app.order(Order::Untune);
        }
        if let Some(Outcome::Failed(report)) = self.restart(None).await {
            let name = &self.site.name;
            self.log.event(Name::Notice, format!("{name}: did not start without it: {}", report.summary()));
        }
    }

    /// None: there is no application any more.
    async fn restart(&self, canary: Option<Plan>) -> Option<Outcome> {
        let (done, ended) = oneshot::channel();
        let wish = Wish { canary, done: Some(done), ..Wish::by(Cause::Told("tune")) };
        self.app.upgrade()?.order(Order::Restart(wish));
        ended.await.ok()
    }
}

fn is_impatient() -> bool {
    std::env::var_os(IMPATIENT).is_some()
}

/// Those that are in force as they were configured (with what is tuned): others were applied since (`paceline doctor apply`).
fn undecided(kinds: &[Kind], configured: &SiteConfig, in_force: &SiteConfig) -> Vec<Kind> {
    let (then, now) = (&configured.tuning, &in_force.tuning);
    let is_same = |kind: &Kind| match kind {
        Kind::Yjit => then.yjit == now.yjit,
        Kind::GcSettings => configured.env == in_force.env,
        Kind::TooFewThreads => (configured.threads_min, configured.threads) == (in_force.threads_min, in_force.threads),
        Kind::Allocator => (then.jemalloc, then.malloc_arenas) == (now.jemalloc, now.malloc_arenas),
        _ => false,
    };
    kinds.iter().copied().filter(is_same).collect()
}

/// Those of which nothing is in the environment that the application is started in.
fn unset(kinds: &[Kind], env: &BTreeMap<OsString, OsString>) -> Vec<Kind> {
    let has = |wanted: &dyn Fn(&str, &str) -> bool| {
        env.iter().any(|(name, value)| wanted(&name.to_string_lossy(), &value.to_string_lossy()))
    };
    let is_set = |kind: &Kind| match kind {
        Kind::Yjit => has(&|name, value| name == "RUBY_YJIT_ENABLE" || name == "RUBYOPT" && value.contains("jit")),
        Kind::GcSettings => has(&|name, _| name.starts_with("RUBY_GC_")),
        Kind::TooFewThreads => has(&|name, _| THREADS.contains(&name)),
        Kind::Allocator => has(&|name, value| match name {
            "LD_PRELOAD" | "GLIBC_TUNABLES" => value.contains("malloc"),
            _ => name.starts_with("MALLOC_"),
        }),
        _ => true,
    };
    kinds.iter().copied().filter(|kind| !is_set(kind)).collect()
}

/// The lock of a generation that is to be started, and what it is started with: `overlay`, unless the bundle is another one.
pub fn overlay_for(overlay: Option<Overlay>, root: &std::path::Path, run_as: &RunAs) -> (String, Option<Overlay>) {
    let lock = fingerprint::lock(root, run_as);
    let overlay = overlay.filter(|overlay| overlay.lock == lock);
    (lock, overlay)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{RubyTuning, TunedSettings};

    const ALL: [Kind; 4] = [Kind::Yjit, Kind::GcSettings, Kind::TooFewThreads, Kind::Allocator];

    #[test]
    fn what_somebody_has_applied_is_left_alone() {
        let site = SiteConfig::with_defaults(Path::new("/srv/shop"), "production");
        let settings = TunedSettings { threads: Some((1, 9)), ..TunedSettings::default() };
        let tuned = settings.applied_to(&site);
        assert_eq!(undecided(&ALL, &tuned, &tuned), ALL);
        let left = |in_force: SiteConfig| {
            let kept = undecided(&ALL, &site, &in_force);
            ALL.into_iter().filter(|kind| !kept.contains(kind)).collect::<Vec<_>>()
        };
        assert_eq!(left(tuned), [Kind::TooFewThreads]);
        let with = |tuning: RubyTuning| SiteConfig { tuning, ..site.clone() };
        assert_eq!(left(with(RubyTuning { jemalloc: true, ..site.tuning.clone() })), [Kind::Allocator]);
        assert_eq!(left(with(RubyTuning { yjit: "on".into(), ..site.tuning.clone() })), [Kind::Yjit]);
        let env = [("RUBY_GC_HEAP_FREE_SLOTS".to_owned(), "200000".to_owned())].into();
        assert_eq!(left(SiteConfig { env, ..site.clone() }), [Kind::GcSettings]);
    }

    #[test]
    fn what_somebody_has_set_is_left_alone() {
        let of = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
            unset(&ALL, &env)
        };
        assert_eq!(of(&[("RUBYOPT", "-W0"), ("PATH", "/jit"), ("LD_PRELOAD", "/opt/a.so")]), ALL);
        for (own, kind) in [
            (("RUBY_YJIT_ENABLE", "0"), Kind::Yjit),
            (("RUBYOPT", "--disable-yjit"), Kind::Yjit),
            (("RUBY_GC_MALLOC_LIMIT", "1"), Kind::GcSettings),
            (("RAILS_MAX_THREADS", "3"), Kind::TooFewThreads),
            (("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4"), Kind::Allocator),
            (("MALLOC_ARENA_MAX", "4"), Kind::Allocator),
            (("GLIBC_TUNABLES", "glibc.malloc.arena_max=1"), Kind::Allocator),
        ] {
            let others: Vec<Kind> = ALL.into_iter().filter(|other| *other != kind).collect();
            assert_eq!(of(&[own]), others, "{own:?}");
        }
    }
}
