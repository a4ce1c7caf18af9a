//! When a trial is made, what is done with its result, and when a change is given back. Pure: the time and what is seen are
//! arguments, and what is to be done is answered.

use std::path::{Path, PathBuf};

use doctor::{candidate::Kind, live::ExpectedGain};
use serde::{Deserialize, Serialize};

use super::hours::{Hours, RouteFigures, Span, HOURS};
use crate::{
    apps::{canary::exceeds, tuned::Tuned},
    config::SelfTuning,
    observe::log::Name,
    support::units::{megabytes, show_duration},
};

/// Changes that did not hold and are remembered: the newest.
const MAX_REJECTIONS: usize = 20;
/// A change is given back after so many hours in a row that were slower.
const SLOWER_HOURS: u32 = 2;
/// So many times as much memory a worker may have after a change that is about memory or takes some, and so many bytes more.
const LARGER: (f64, f64) = (1.5, 32e6);

/// What did not hold, or is not worth it.
const NOT_AGAIN: &str = "not tried again until the code or Ruby changes";

/// After each trial that could not be made, the next one waits twice as long; so often.
const MAX_DOUBLINGS: u32 = 4;

/// What a result is true for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// As `ruby 3.1.2`.
    pub ruby: String,
    /// Of Gemfile.lock.
    pub lock: String,
    /// Of the release.
    pub code: String,
}

/// A change that a trial has proved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub kind: Kind,
    /// As `YJIT`.
    pub short: String,
    #[serde(flatten)]
    pub tuned: Tuned,
    pub gains: Vec<ExpectedGain>,
    /// Bytes that all workers together had more in the trial. None: unknown, or there was only one process.
    #[serde(default)]
    pub memory: Option<i64>,
}

impl Change {
    /// More threads make each request longer, and none of them wait.
    fn span(&self) -> Span {
        if self.tuned.settings.threads.is_some() {
            Span::Whole
        } else {
            Span::App
        }
    }
}

/// The change that the application is started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptChange {
    pub change: Change,
    pub fingerprint: Fingerprint,
    /// Unix seconds.
    pub since: f64,
    /// What the canary has shown.
    pub live: String,
    pub before: Hours,
    /// Bytes that the largest worker had before.
    #[serde(default)]
    pub memory_before: Option<u64>,
    /// Hours that were compared, and those in a row that were slower.
    pub compared: u32,
    pub slower: u32,
    /// It was watched to the end.
    pub is_proven: bool,
}

impl KeptChange {
    /// What a worker has come to have, if that is too much. YJIT and the garbage collector are judged by time alone: a worker
    /// that has been up for long has more in any case.
    fn grown(&self, now: Option<u64>) -> Option<String> {
        let (before, now) = self.memory_before.zip(now).filter(|_| !self.change.tuned.settings.is_empty())?;
        let is_larger = exceeds([before as f64, now as f64], LARGER);
        is_larger.then(|| format!("a worker has {}, before {}", megabytes(now), megabytes(before)))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    pub kind: Kind,
    pub short: String,
    pub fingerprint: Fingerprint,
    pub why: String,
}

/// What survives the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TuneState {
    /// The site's root as configured.
    pub root: PathBuf,
    pub kept: Option<KeptChange>,
    pub rejected: Vec<Rejection>,
    /// For this, a trial has found nothing.
    pub nothing_for: Option<Fingerprint>,
    /// The same of a trial that was made because requests had waited for a thread.
    #[serde(default)]
    pub no_threads_for: Option<Fingerprint>,
}

impl TuneState {
    pub fn new(root: &Path) -> TuneState {
        TuneState { root: root.to_owned(), ..TuneState::default() }
    }
}

/// What is seen at a moment.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// A generation serves, and no restart is under way.
    pub is_ready: bool,
    /// Neither the machine nor the application has much to do.
    pub is_quiet: bool,
    /// Requests wait for a thread.
    pub is_waiting: bool,
    pub fingerprint: Fingerprint,
    /// What the generation that serves was started with.
    pub tuned: Tuned,
    /// Bytes of the largest worker. None: unknown.
    pub worker_memory: Option<u64>,
    /// What nobody has set.
    pub kinds: Vec<Kind>,
}

/// What a trial came to.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialEnd {
    /// The best that was proved.
    Found(Change),
    /// Nothing is worth it; what was tried, as ` (YJIT: +0.4 %, noise)`.
    Nothing(String),
    /// It could not be made: why.
    Failed(String),
}

/// What a canary with a change came to; the figures, or why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanaryEnd {
    Serves(String),
    RolledBack(String),
    /// Something else came in between.
    Undecided(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Try these kinds.
    Trial(Vec<Kind>),
    Canary(Change),
    /// The application is started without the change again.
    GiveBack,
    Say(Name, String),
    Save,
}

/// Why a trial is made at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// There is little to do.
    Quiet,
    /// Requests wait for a thread: only then it can be seen what more threads bring. What is watched is busy; the trial
    /// itself waits for a quiet machine, as any other.
    Waiting,
}

impl Occasion {
    fn of(kind: Kind) -> Occasion {
        match kind {
            Kind::TooFewThreads => Occasion::Waiting,
            _ => Occasion::Quiet,
        }
    }

    fn is_now(self, sight: &Sight) -> bool {
        match self {
            Occasion::Quiet => sight.is_quiet,
            Occasion::Waiting => sight.is_waiting,
        }
    }
}

/// When the next trial of an occasion may be made.
#[derive(Debug)]
struct Schedule {
    /// Unix seconds.
    next: f64,
    /// Trials in a row that could not be made, and why the last one could not.
    failures: u32,
    failure: String,
}

impl Schedule {
    fn from(next: f64) -> Schedule {
        Schedule { next, failures: 0, failure: String::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Idle,
    Trial(Fingerprint, Occasion),
    Canary(Change, Fingerprint),
}

pub struct Tuner {
    site: String,
    settings: SelfTuning,
    pub state: TuneState,
    stage: Stage,
    quiet: Schedule,
    waiting: Schedule,
    /// The hour that is measured.
    hour: u64,
    before: Hours,
    /// Bytes of the largest worker in these hours.
    memory: Option<u64>,
}

impl Tuner {
    /// `now`: Unix seconds.
    pub fn new(site: &str, settings: SelfTuning, state: TuneState, now: f64) -> Tuner {
        let mut tuner = Tuner {
            site: site.to_owned(),
            quiet: Schedule::from(now + settings.every.as_secs_f64()),
            waiting: Schedule::from(now + settings.every.as_secs_f64()),
            settings,
            state,
            stage: Stage::Idle,
            hour: 0,
            before: Hours::default(),
            memory: None,
        };
        tuner.hour = tuner.hour_at(now);
        tuner
    }

    fn hour_at(&self, now: f64) -> u64 {
        (now * f64::from(HOURS) / self.settings.watch.as_secs_f64().max(0.001)) as u64
    }

    /// An hour may have ended: `figures` is asked for what its requests took.
    pub fn look(&mut self, now: f64, sight: &Sight, figures: impl FnOnce() -> Vec<RouteFigures>) -> Vec<Act> {
        let (hour, ended) = (self.hour_at(now), self.hour);
        self.hour = hour;
        let figures = (hour != ended).then(figures);
        let of_day = (ended % u64::from(HOURS)) as u32;
        if self.stage != Stage::Idle || !sight.is_ready {
            return Vec::new();
        }
        if let Some(kept) = &self.state.kept {
            return match self.end_of(kept, sight) {
                Some((why, is_rejected)) => self.give_back(&why, is_rejected, !sight.tuned.is_empty()),
                None => self.watch(now, of_day, figures, sight),
            };
        }
        if let Some(figures) = figures {
            self.before.keep(of_day, figures);
            self.memory = self.memory.max(sight.worker_memory);
        }
        for occasion in [Occasion::Quiet, Occasion::Waiting] {
            let kinds = self.untried(occasion, sight);
            if occasion.is_now(sight) && now >= self.schedule(occasion).next && !kinds.is_empty() {
                self.stage = Stage::Trial(sight.fingerprint.clone(), occasion);
                return vec![Act::Trial(kinds)];
            }
        }
        Vec::new()
    }

    fn schedule(&mut self, occasion: Occasion) -> &mut Schedule {
        match occasion {
            Occasion::Quiet => &mut self.quiet,
            Occasion::Waiting => &mut self.waiting,
        }
    }

    /// For what a trial of this occasion has found nothing.
    fn nothing_for(&mut self, occasion: Occasion) -> &mut Option<Fingerprint> {
        match occasion {
            Occasion::Quiet => &mut self.state.nothing_for,
            Occasion::Waiting => &mut self.state.no_threads_for,
        }
    }

    /// What a trial of this occasion may find.
    fn untried(&mut self, occasion: Occasion, sight: &Sight) -> Vec<Kind> {
        if self.nothing_for(occasion).as_ref() == Some(&sight.fingerprint) {
            return Vec::new();
        }
        let is_open = |kind: &Kind| Occasion::of(*kind) == occasion && !self.is_rejected(*kind, sight);
        sight.kinds.iter().copied().filter(is_open).collect()
    }

    fn is_rejected(&self, kind: Kind, sight: &Sight) -> bool {
        self.state.rejected.iter().any(|one| one.kind == kind && one.fingerprint == sight.fingerprint)
    }

    /// Why a change is no longer kept, whatever it brings, and whether that says something of it.
    fn end_of(&self, kept: &KeptChange, sight: &Sight) -> Option<(String, bool)> {
        let (then, now) = (&kept.fingerprint, &sight.fingerprint);
        if then.ruby != now.ruby {
            return Some((format!("it was tried with {}, and this is {}", then.ruby, now.ruby), false));
        }
        if then.lock != now.lock {
            return Some(("Gemfile.lock has changed since it was tried".into(), false));
        }
        if !sight.kinds.contains(&kept.change.kind) {
            return Some(("it is set in the configuration or the environment now".into(), false));
        }
        (sight.tuned != kept.change.tuned)
            .then(|| ("what serves was started without it (paceline rollback)".into(), true))
    }

    fn watch(&mut self, now: f64, hour: u32, figures: Option<Vec<RouteFigures>>, sight: &Sight) -> Vec<Act> {
        let Some(kept) = self.state.kept.as_mut().filter(|kept| !kept.is_proven) else { return Vec::new() };
        let grown = figures.as_ref().and_then(|_| kept.grown(sight.worker_memory));
        let compared = figures.and_then(|figures| kept.before.compare(hour, &figures, kept.change.span()));
        let is_looked_at = compared.is_some() || grown.is_some();
        if is_looked_at {
            let is_slower = compared.is_some_and(|compared| compared.is_slower());
            kept.compared += 1;
            kept.slower = if is_slower || grown.is_some() { kept.slower + 1 } else { 0 };
            let figures: Vec<String> = compared.map(|compared| compared.to_string()).into_iter().chain(grown).collect();
            kept.live = figures.join("; ");
            if kept.slower >= SLOWER_HOURS {
                let what = if is_slower { "slower" } else { "larger" };
                let why = format!("{what} in {} hours in a row: {}", kept.slower, kept.live);
                return self.give_back(&why, true, true);
            }
        }
        if now < kept.since + self.settings.watch.as_secs_f64() {
            return if is_looked_at { vec![Act::Save] } else { Vec::new() };
        }
        kept.is_proven = true;
        kept.before = Hours::default();
        let watch = show_duration(self.settings.watch);
        let text = match kept.compared {
            0 => format!(
                "{}: {} is kept after {watch}; no hour had enough requests to be compared",
                self.site, kept.change.short
            ),
            hours => format!(
                "{}: {} is kept after {watch}, {hours} of {HOURS} hours compared; last {}",
                self.site, kept.change.short, kept.live
            ),
        };
        vec![Act::Say(Name::TuneKept, text), Act::Save]
    }

    fn give_back(&mut self, why: &str, is_rejected: bool, is_in_force: bool) -> Vec<Act> {
        let Some(kept) = self.state.kept.take() else { return Vec::new() };
        let text = format!("{}: {} is given back: {why}", self.site, kept.change.short);
        if is_rejected {
            self.reject(&kept.change, kept.fingerprint, why);
        }
        let mut acts = vec![Act::Save, Act::Say(Name::TuneGivenBack, text)];
        acts.extend(is_in_force.then_some(Act::GiveBack));
        acts
    }

    fn reject(&mut self, change: &Change, fingerprint: Fingerprint, why: &str) {
        let (kind, short, why) = (change.kind, change.short.clone(), why.to_owned());
        self.state.rejected.push(Rejection { kind, short, fingerprint, why });
        let surplus = self.state.rejected.len().saturating_sub(MAX_REJECTIONS);
        self.state.rejected.drain(..surplus);
    }

    /// `shortage`: why there is no memory for a change.
    pub fn trial_ended(
        &mut self,
        now: f64,
        end: TrialEnd,
        shortage: impl FnOnce(&Change) -> Option<String>,
    ) -> Vec<Act> {
        let Stage::Trial(fingerprint, occasion) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return Vec::new();
        };
        let (every, site) = (self.settings.every, self.site.clone());
        let schedule = self.schedule(occasion);
        schedule.failures = if matches!(end, TrialEnd::Failed(_)) { schedule.failures + 1 } else { 0 };
        let pause = every * (1 << schedule.failures.saturating_sub(1).min(MAX_DOUBLINGS));
        schedule.next = now + pause.as_secs_f64();
        let say = |text: String| Act::Say(Name::TuneTrial, format!("{site}: {text}"));
        match end {
            TrialEnd::Found(change) if change.tuned.is_tuning() && !change.tuned.is_empty() => {
                let Change { short, tuned, .. } = &change;
                if let Some(why) = shortage(&change) {
                    let text = say(format!("{short} would be worth it ({tuned}), but {why}; {NOT_AGAIN}"));
                    self.reject(&change, fingerprint, &why);
                    return vec![text, Act::Save];
                }
                let text = say(format!("{short} is worth it ({tuned}): trying it on visitors' requests"));
                self.stage = Stage::Canary(change.clone(), fingerprint);
                vec![text, Act::Canary(change)]
            }
            TrialEnd::Found(Change { short, .. }) => {
                *self.nothing_for(occasion) = Some(fingerprint);
                vec![say(format!("{short} is no setting that can be tuned")), Act::Save]
            }
            TrialEnd::Nothing(tried) => {
                *self.nothing_for(occasion) = Some(fingerprint);
                vec![say(format!("no setting is worth it{tried}; {NOT_AGAIN}")), Act::Save]
            }
            TrialEnd::Failed(why) if why == schedule.failure => Vec::new(),
            TrialEnd::Failed(why) => {
                let text = say(format!("no trial: {why}; again in {}", show_duration(pause)));
                schedule.failure = why;
                vec![text]
            }
        }
    }

    pub fn canary_ended(&mut self, now: f64, end: CanaryEnd) -> Vec<Act> {
        let Stage::Canary(change, fingerprint) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return Vec::new();
        };
        let name = format!("{}: {}", self.site, change.short);
        match end {
            CanaryEnd::Serves(live) => {
                let watch = show_duration(self.settings.watch);
                let text = format!("{name} is tuned ({}): {live}; compared with before for {watch}", change.tuned);
                self.state.kept = Some(KeptChange {
                    change,
                    fingerprint,
                    since: now,
                    live,
                    before: std::mem::take(&mut self.before),
                    memory_before: self.memory.take(),
                    compared: 0,
                    slower: 0,
                    is_proven: false,
                });
                vec![Act::Save, Act::Say(Name::Tuned, text)]
            }
            CanaryEnd::RolledBack(why) => {
                self.reject(&change, fingerprint, &why);
                let text = format!("{name} is given back: {why}; {NOT_AGAIN}");
                vec![Act::Save, Act::Say(Name::TuneGivenBack, text)]
            }
            CanaryEnd::Undecided(why) => {
                vec![Act::Say(Name::TuneTrial, format!("{name}: nothing is decided: {why}; again later"))]
            }
        }
    }

    /// For status and dashboard.
    pub fn shown(&self) -> String {
        match (&self.stage, &self.state) {
            (Stage::Trial(..), _) => "trying settings on copies of the application".into(),
            (Stage::Canary(change, _), _) => format!("{}: trying it on visitors' requests", change.short),
            (_, TuneState { kept: Some(kept), .. }) => {
                let how = if kept.is_proven { "kept" } else { "compared with before" };
                format!("{} ({}), {how}: {}", kept.change.short, kept.change.tuned, kept.live)
            }
            (_, TuneState { rejected, .. }) if !rejected.is_empty() => {
                let last = &rejected[rejected.len() - 1];
                format!("nothing; {} was given back: {}", last.short, last.why)
            }
            (_, TuneState { nothing_for: Some(_), .. } | TuneState { no_threads_for: Some(_), .. }) => {
                "nothing; no setting was worth it".into()
            }
            _ => "nothing yet; a trial needs visitors' requests and a quiet machine".into(),
        }
    }
}

#[cfg(test)]
mod tests;
