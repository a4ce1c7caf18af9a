//! When a trial is made, what is done with its result, and when a change is given back. Pure: the time and what is seen are
//! arguments, and what is to be done is answered.

use std::path::{Path, PathBuf};

use doctor::{candidate::Kind, live::ExpectedGain};
use serde::{Deserialize, Serialize};

use super::hours::{Hours, RouteFigures, HOURS};
use crate::{apps::environment::Environment, config::SelfTuning, observe::log::Name, support::units::show_duration};

/// Changes that did not hold and are remembered: the newest.
const MAX_REJECTIONS: usize = 20;
/// A change is given back after so many hours in a row that were slower.
const SLOWER_HOURS: u32 = 2;

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
    pub environment: Environment,
    pub gains: Vec<ExpectedGain>,
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
    /// Hours that were compared, and those in a row that were slower.
    pub compared: u32,
    pub slower: u32,
    /// It was watched to the end.
    pub is_proven: bool,
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
    pub fingerprint: Fingerprint,
    /// What the generation that serves was started with.
    pub environment: Environment,
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

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Idle,
    Trial(Fingerprint),
    Canary(Change, Fingerprint),
}

pub struct Tuner {
    site: String,
    settings: SelfTuning,
    pub state: TuneState,
    stage: Stage,
    /// Unix seconds.
    next_trial: f64,
    /// The hour that is measured.
    hour: u64,
    before: Hours,
    /// Trials in a row that could not be made, and why the last one could not.
    failures: u32,
    failure: String,
}

impl Tuner {
    /// `now`: Unix seconds.
    pub fn new(site: &str, settings: SelfTuning, state: TuneState, now: f64) -> Tuner {
        let mut tuner = Tuner {
            site: site.to_owned(),
            next_trial: now + settings.every.as_secs_f64(),
            settings,
            state,
            stage: Stage::Idle,
            hour: 0,
            before: Hours::default(),
            failures: 0,
            failure: String::new(),
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
                Some((why, is_rejected)) => self.give_back(&why, is_rejected, !sight.environment.is_empty()),
                None => self.watch(now, of_day, figures),
            };
        }
        if let Some(figures) = figures {
            self.before.keep(of_day, figures);
        }
        let kinds: Vec<Kind> = sight.kinds.iter().copied().filter(|kind| !self.is_rejected(*kind, sight)).collect();
        let is_known = self.state.nothing_for.as_ref() == Some(&sight.fingerprint) || kinds.is_empty();
        if !sight.is_quiet || now < self.next_trial || is_known {
            return Vec::new();
        }
        self.stage = Stage::Trial(sight.fingerprint.clone());
        vec![Act::Trial(kinds)]
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
        (sight.environment != kept.change.environment)
            .then(|| ("what serves was started without it (paceline rollback)".into(), true))
    }

    fn watch(&mut self, now: f64, hour: u32, figures: Option<Vec<RouteFigures>>) -> Vec<Act> {
        let Some(kept) = self.state.kept.as_mut().filter(|kept| !kept.is_proven) else { return Vec::new() };
        let compared = figures.and_then(|figures| kept.before.compare(hour, &figures));
        if let Some(compared) = compared {
            kept.compared += 1;
            kept.slower = if compared.is_slower() { kept.slower + 1 } else { 0 };
            kept.live = compared.to_string();
            if kept.slower >= SLOWER_HOURS {
                let why = format!("slower in {} hours in a row: {compared}", kept.slower);
                return self.give_back(&why, true, true);
            }
        }
        if now < kept.since + self.settings.watch.as_secs_f64() {
            return if compared.is_some() { vec![Act::Save] } else { Vec::new() };
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

    pub fn trial_ended(&mut self, now: f64, end: TrialEnd) -> Vec<Act> {
        self.failures = if matches!(end, TrialEnd::Failed(_)) { self.failures + 1 } else { 0 };
        let pause = self.settings.every * (1 << self.failures.saturating_sub(1).min(MAX_DOUBLINGS));
        self.next_trial = now + pause.as_secs_f64();
        let Stage::Trial(fingerprint) = std::mem::replace(&mut self.stage, Stage::Idle) else { return Vec::new() };
        let say = |text: String| Act::Say(Name::TuneTrial, format!("{}: {text}", self.site));
        match end {
            TrialEnd::Found(change) if change.environment.is_tuning() && !change.environment.is_empty() => {
                let text = say(format!(
                    "{} is worth it ({}): trying it on visitors' requests",
                    change.short, change.environment
                ));
                self.stage = Stage::Canary(change.clone(), fingerprint);
                vec![text, Act::Canary(change)]
            }
            TrialEnd::Found(Change { short, .. }) => {
                self.state.nothing_for = Some(fingerprint);
                vec![say(format!("{short} is no setting that can be tuned")), Act::Save]
            }
            TrialEnd::Nothing(tried) => {
                self.state.nothing_for = Some(fingerprint);
                vec![
                    say(format!(
                        "no setting of Ruby is worth it{tried}; not tried again until the code or Ruby changes"
                    )),
                    Act::Save,
                ]
            }
            TrialEnd::Failed(why) if why == self.failure => Vec::new(),
            TrialEnd::Failed(why) => {
                let text = say(format!("no trial: {why}; again in {}", show_duration(pause)));
                self.failure = why;
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
                let text =
                    format!("{name} is tuned ({}): {live}; compared with before for {watch}", change.environment);
                let before = std::mem::take(&mut self.before);
                let (since, is_proven) = (now, false);
                self.state.kept =
                    Some(KeptChange { change, fingerprint, since, live, before, compared: 0, slower: 0, is_proven });
                vec![Act::Save, Act::Say(Name::Tuned, text)]
            }
            CanaryEnd::RolledBack(why) => {
                self.reject(&change, fingerprint, &why);
                let text = format!("{name} is given back: {why}; not tried again until the code or Ruby changes");
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
            (Stage::Trial(_), _) => "trying settings of Ruby on copies of the application".into(),
            (Stage::Canary(change, _), _) => format!("{}: trying it on visitors' requests", change.short),
            (_, TuneState { kept: Some(kept), .. }) => {
                let how = if kept.is_proven { "kept" } else { "compared with before" };
                format!("{} ({}), {how}: {}", kept.change.short, kept.change.environment, kept.live)
            }
            (_, TuneState { rejected, .. }) if !rejected.is_empty() => {
                let last = &rejected[rejected.len() - 1];
                format!("nothing; {} was given back: {}", last.short, last.why)
            }
            (_, TuneState { nothing_for: Some(_), .. }) => "nothing; no setting of Ruby was worth it".into(),
            _ => "nothing yet; a trial needs visitors' requests and a quiet machine".into(),
        }
    }
}

#[cfg(test)]
mod tests;
