//! What all steps of a run share: copies of the application, a quiet machine, and what is said of the progress.
//! It measures nothing itself.

use std::{os::unix::net::UnixStream, time::Duration};

use doctor::{protocol::LoadStart, report::Spent};

use super::{
    progress::Progress,
    quiet_machine::{BusyMachine, Quiet},
    replaying::Replaying,
    source::{NoShadow, Source},
};
use crate::{
    apps::environment::Environment,
    config::SiteConfig,
    origins::shadow::{Shadow, ShadowError},
};

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
    /// The application as the server would start it, started by the doctor for the trials of environments.
    plain: Option<Source>,
    /// Routes of which was said where they spend their time.
    told: Vec<String>,
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
        Driver { source, replaying, quiet, progress, is_live, site, plain: None, told: Vec::new() }
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

    /// Says where the time is spent, of routes of which it was not said before.
    pub fn say_spent(&mut self, spent: &[Spent]) {
        for one in spent {
            if !self.told.contains(&one.route) {
                self.say(&one.to_string());
                self.told.push(one.route.clone());
            }
        }
    }

    /// Returns when the machine is quiet.
    pub fn wait(&mut self) -> Result<(), RunError> {
        let progress = &self.progress;
        Ok(self.quiet.wait(&|why| progress.say(why))?)
    }

    /// So that the time that a run took is not taken for that of its trials.
    pub fn say_waited(&self) {
        let waited = self.quiet.waited().as_secs();
        if waited > 0 {
            self.say(&format!("waited {waited} s for a quiet machine"));
        }
    }

    /// What starting the application takes. None: it was not started here yet.
    pub fn starting(&self) -> Option<Duration> {
        self.plain.as_ref().unwrap_or(&self.source).starting()
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

    /// A copy of the application as it is started, and one started in another environment. A copy ends with the process that
    /// it was forked from: those that were started for this come with them. `is_fresh`: the first is one of these.
    pub fn in_environment(
        &mut self,
        change: &Environment,
        is_fresh: bool,
    ) -> Result<(Shadow, Shadow, Vec<Source>), RunError> {
        self.wait()?;
        self.quiet.has_memory()?;
        let mut sources = Vec::new();
        let control = if is_fresh {
            let mut started = self.started(&Environment::default())?;
            let shadow = started.shadow()?;
            sources.push(started);
            shadow
        } else {
            self.plain()?.shadow()?
        };
        let mut started = self.started(change)?;
        let trial = started.shadow()?;
        sources.push(started);
        Ok((control, trial, sources))
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
        let change = if self.is_live { change.in_background() } else { change.clone() };
        Source::boot(site, &change)
            .map_err(|error| RunError::Environment(format!("the application did not start: {}", error.headline())))
    }
}
