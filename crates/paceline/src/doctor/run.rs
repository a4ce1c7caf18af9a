//! A run: the application as it is, what may be worth a change, a trial of each, and the report. The rooms below do it;
//! here is their order. It decides nothing by itself.

use std::{
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use doctor::{
    candidate::{Candidate, Kind, Trial},
    findings,
    observation::{Asset, Machine, Observations, Queue, Server, Settings},
    protocol::LoadStart,
    report::Report,
    verdict,
};

use super::{
    baseline::Baseline,
    fetching::{Link, Listener},
    machine::Process,
    progress::{left, Progress},
    quiet::{BusyMachine, Quiet},
    replaying::{line, Replaying},
    samples::Samples,
    source::{NoShadow, Source},
    trying,
};
use crate::{
    apps::{environment::Environment, tuned::Tuned},
    config::SiteConfig,
    shadow::{Shadow, ShadowError},
};

/// Candidates that are tried; the most promising come first.
const MAX_TRIALS: usize = 24;
/// What a trial takes, as long as few have been made.
const USUAL_TRIAL: Duration = Duration::from_secs(20);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    NoShadow(#[from] NoShadow),
    #[error(transparent)]
    Shadow(#[from] ShadowError),
    #[error(transparent)]
    BusyMachine(#[from] BusyMachine),
    /// One trial can't be made.
    #[error("{0}")]
    Environment(String),
    #[error("{0}")]
    Nothing(String),
}

/// What all steps of a run share.
pub struct Driver {
    source: Source,
    pub replaying: Replaying,
    quiet: Quiet,
    progress: Progress,
    is_live: bool,
    /// How the application is started in another environment. None: that can't be tried.
    site: Option<SiteConfig>,
    /// What the server has tuned of its environment by itself: changes are tried beside it.
    tuned: Environment,
    /// The application as the server would start it, started by the doctor for the trials of environments.
    plain: Option<Source>,
}

impl Driver {
    pub fn new(
        source: Source,
        replaying: Replaying,
        progress: Progress,
        site: Option<SiteConfig>,
        quiet: Quiet,
    ) -> Driver {
        let is_live = matches!(source, Source::Live(_));
        Driver { source, replaying, quiet, progress, is_live, site, tuned: Environment::default(), plain: None }
    }

    /// The same beside what the server has tuned by itself.
    pub fn beside(self, tuned: &Tuned) -> Driver {
        let site = self.site.map(|site| tuned.settings.applied_to(&site));
        Driver { site, tuned: tuned.environment.clone(), ..self }
    }

    /// Others are served by the application meanwhile.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    pub fn say(&self, what: &str) {
        self.progress.say(what);
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        self.progress.tell(what);
    }

    /// Returns when the machine is quiet.
    pub fn wait(&mut self) -> Result<(), RunError> {
        let progress = &self.progress;
        Ok(self.quiet.wait(&|why| progress.say(why))?)
    }

    /// So that the time that a run took is not taken for that of its trials.
    fn say_waited(&self) {
        let waited = self.quiet.waited().as_secs();
        if waited > 0 {
            self.say(&format!("waited {waited} s for a quiet machine"));
        }
    }

    /// Another copy of the application.
    pub fn shadow(&mut self) -> Result<Shadow, RunError> {
        self.wait()?;
        self.quiet.has_memory()?;
        Ok(self.source.shadow()?)
    }

    /// Returns when the machine is quiet without our copies, none of which is at work: what they did before is no sign.
    pub fn wait_at_rest(&mut self) -> Result<(), RunError> {
        let progress = &self.progress;
        Ok(self.quiet.wait_at_rest(&|why| progress.say(why))?)
    }

    /// Connections of a shadow, each answered by a thread of its own.
    pub fn channels(&self, shadow: &mut Shadow, start: LoadStart) -> Result<Vec<UnixStream>, NoShadow> {
        self.source.channels(shadow, start)
    }

    /// A copy of the application as it is started, and one started in another environment; the latter ends with the
    /// process that it was forked from.
    pub fn in_environment(&mut self, change: &Environment) -> Result<(Shadow, Shadow, Source), RunError> {
        self.wait()?;
        self.quiet.has_memory()?;
        let control = self.plain()?.shadow()?;
        let mut started = self.started(change)?;
        let trial = started.shadow()?;
        Ok((control, trial, started))
    }

    /// The application as the server would start it, for comparison with another environment.
    pub fn plain(&mut self) -> Result<&mut Source, RunError> {
        if matches!(self.source, Source::Live(_)) && self.plain.is_none() {
            self.plain = Some(self.boot(&Environment::default())?);
        }
        Ok(self.plain.as_mut().unwrap_or(&mut self.source))
    }

    /// The application in another environment.
    pub fn started(&self, change: &Environment) -> Result<Source, RunError> {
        self.quiet.has_memory()?;
        self.boot(change)
    }

    fn boot(&self, change: &Environment) -> Result<Source, RunError> {
        let site = self.site.as_ref().ok_or_else(|| {
            let why = "the settings of the server are not known here: run the command in its directory";
            RunError::Environment(why.into())
        })?;
        let change = self.tuned.changed_by(change);
        let change = if self.is_live { change.in_background() } else { change };
        Source::boot(site, &change)
            .map_err(|error| RunError::Environment(format!("the application did not start: {}", error.headline())))
    }
}

/// What is known beside the requests.
pub struct Surroundings {
    pub site: String,
    pub server: Server,
    pub machine: Machine,
    pub queue: Option<Queue>,
    /// How the server runs the application, given a process of it.
    pub settings: Box<dyn FnOnce(&Process) -> Settings>,
    /// Where the server can be asked for the files that pages link to.
    pub listeners: Vec<Listener>,
    /// Only these are tried; empty: all.
    pub only: Vec<Kind>,
    /// Rounds of each trial. None: until it is decided.
    pub rounds: Option<usize>,
}

/// What a run has found.
pub struct RunResult {
    pub report: Report,
    /// Its version; empty: not a Rails application.
    pub rails: String,
}

pub fn run(driver: &mut Driver, samples: Samples, around: Surroundings) -> Result<RunResult, RunError> {
    for remark in &samples.remarks {
        driver.say(remark);
    }
    let baseline = Baseline::measure(driver, samples, driver.is_live)?;
    if baseline.sample.requests == 0 {
        return Err(RunError::Nothing(nothing(&baseline)));
    }
    let assets = assets(driver, &baseline, &around)?;
    let observations = Observations {
        server: around.server,
        ruby: baseline.hello.ruby.clone(),
        rails: baseline.hello.rails.clone(),
        facts: baseline.hello.facts.clone(),
        settings: (around.settings)(&baseline.process),
        machine: around.machine,
        queue: around.queue,
        assets,
        routes: baseline.observed.clone(),
    };
    let mut candidates = findings::find(&observations);
    candidates.retain(|one| around.only.is_empty() || around.only.contains(&one.kind));
    candidates.truncate(MAX_TRIALS);
    let verdicts = try_all(driver, &baseline, &observations, candidates, around.rounds);
    driver.say_waited();
    Ok(RunResult { report: Report::new(&around.site, baseline.sample, verdicts), rails: baseline.hello.rails })
}

fn try_all(
    driver: &mut Driver,
    baseline: &Baseline,
    observations: &Observations,
    candidates: Vec<Candidate>,
    rounds: Option<usize>,
) -> Vec<verdict::Verdict> {
    let is_tried = |one: &Candidate| !matches!(one.trial, Trial::Computed { .. } | Trial::Untried { .. });
    let all = candidates.iter().filter(|one| is_tried(one)).count();
    let (began, mut done) = (Instant::now(), 0);
    // What was measured before stays known.
    let mut over: Option<String> = None;
    let failed = |why: &str| verdict::Outcome { failure: Some(line(why).into_owned()), ..Default::default() };
    let mut verdicts = Vec::new();
    for candidate in candidates {
        if is_tried(&candidate) && over.is_none() {
            let of_one = (USUAL_TRIAL + began.elapsed()) / (done + 1);
            let to_come = of_one * (all as u32 - done);
            done += 1;
            driver.say(&format!("trying {done} of {all}: {}{}", candidate.short, left(to_come)));
        }
        let outcome = match &over {
            Some(why) if is_tried(&candidate) => failed(why),
            _ => trying::try_it(driver, baseline, &candidate, rounds).unwrap_or_else(|why| {
                if let RunError::BusyMachine(_) = why {
                    over = Some(why.to_string());
                }
                failed(&why.to_string())
            }),
        };
        verdicts.push(verdict::judge(candidate, &outcome, observations));
    }
    verdicts
}

/// The files that most pages link to, as a browser would get them: from the running server, or from an application that
/// another server serves.
fn assets(driver: &mut Driver, baseline: &Baseline, around: &Surroundings) -> Result<Vec<Asset>, RunError> {
    let links = baseline.links.most_linked();
    let found: Vec<Option<Asset>> = match (around.listeners.first(), &around.server) {
        (Some(listener), Server::Paceline) => links.iter().map(|link| listener.fetch(&link.host, &link.path)).collect(),
        (None, Server::Other(_)) if !driver.is_live && !links.is_empty() => {
            let mut shadow = driver.shadow()?;
            links.iter().map(|link| driver.replaying.file(&mut shadow, link).ok()).collect()
        }
        _ => Vec::new(),
    };
    let with_share = |(link, asset): (&Link, Option<Asset>)| Some(Asset { share: link.share, ..asset? });
    Ok(links.iter().zip(found).filter_map(with_share).collect())
}

/// Why no request is left.
fn nothing(baseline: &Baseline) -> String {
    match baseline.sample.dropped.first() {
        None => "no request to replay: name some with --path or --log".into(),
        Some(first) => {
            let all = baseline.sample.dropped.len();
            format!("none of {all} requests can be replayed; {} {}", first.request, super::baseline::why(&first.why))
        }
    }
}
