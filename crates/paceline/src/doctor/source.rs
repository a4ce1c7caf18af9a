//! Where shadows come from: the preloader of the running server, asked by the control socket, or one of the doctor's own.
//! It never talks to a shadow beyond its first line.

use std::{io, os::unix::net::UnixStream, path::PathBuf, time::Duration};

use doctor::protocol::LoadStart;
use serde_json::{json, Value};
use startup_report::StartupReport;
use unix_user::{Account, RunAs};

use super::preloader::Preloader;
use crate::{
    apps::environment::Environment,
    config::SiteConfig,
    origins::shadow::{Shadow, ShadowError, ShadowSocket},
    server::control::client::{self, Failed},
    support::idle_policy::make_idle,
};

/// Why there is no shadow.
#[derive(Debug, thiserror::Error)]
pub enum NoShadow {
    #[error("the running server: {0}")]
    Server(String),
    #[error("the socket for a shadow process: {0}")]
    ShadowSocket(#[from] io::Error),
    #[error("{0}")]
    Shadow(#[from] ShadowError),
    /// The report of a start that failed.
    #[error("{}", startup_report::text::render(.0, false))]
    Start(Box<StartupReport>),
}

impl NoShadow {
    /// In one line.
    pub fn headline(&self) -> String {
        match self {
            NoShadow::Start(report) => match &report.failure {
                Some(failure) => failure.headline(&report.place()),
                None => report.summary(),
            },
            other => other.to_string(),
        }
    }
}

/// The running server.
#[derive(Debug, Clone)]
pub struct Server {
    pub socket: PathBuf,
    pub site: String,
    /// As whom its processes run.
    pub run_as: RunAs,
}

impl Server {
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Value, Failed> {
        client::ask(&self.socket, method, target, body)
    }

    /// Asks where the answer may take as long as `patience`.
    pub fn ask_patiently(&self, method: &str, target: &str, body: &Value, patience: Duration) -> Result<Value, Failed> {
        client::ask_patiently(&self.socket, method, target, Some(body), patience)
    }

    fn shadow_socket(&self) -> io::Result<ShadowSocket> {
        // The server may have a /tmp of its own; the folder of its socket it shares with us.
        let folder = self.socket.parent().map(PathBuf::from);
        let bases: Vec<PathBuf> = folder.into_iter().chain([std::env::temp_dir()]).collect();
        ShadowSocket::open(&bases, &self.run_as)
    }

    fn shadow(&self) -> Result<Shadow, NoShadow> {
        let socket = self.shadow_socket()?;
        let asked = json!({ "site": self.site, "socket": socket.path() });
        self.ask("POST", "/doctor/shadow", Some(&asked)).map_err(|failed| NoShadow::Server(explained(failed)))?;
        let mut shadow = Shadow::greet(socket.accept()?)?;
        // Those who are served go first.
        if let Some(pid) = shadow.pid() {
            make_idle(pid);
        }
        shadow.step_back()?;
        Ok(shadow)
    }
}

/// In a few words.
pub fn explained(failed: Failed) -> String {
    match failed {
        Failed::NoServer(error) => format!("it does not answer: {error}"),
        Failed::Forbidden => "no permission for its control socket".into(),
        Failed::Broken(why) | Failed::Refused(why) => why,
    }
}

/// The account that the server has named; as root we make what it has to reach as that account.
pub fn account(answered: &Value) -> RunAs {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let named = || {
        let (uid, gid) = (number(&answered["uid"])?, number(&answered["gid"])?);
        let groups = answered["groups"].as_array()?.iter().filter_map(number).collect();
        Some(Account { uid, gid, groups, name: None, home: "/".into() })
    };
    let is_root = rustix::process::geteuid().is_root();
    named().filter(|_| is_root).map_or_else(RunAs::own, |account| RunAs::Account(account.into()))
}

/// Where the shadows of a run come from.
pub enum Source {
    Live(Server),
    Own(Preloader),
}

impl Source {
    /// Starts the application. Must be called on the main thread.
    pub fn boot(site: &SiteConfig, environment: &Environment) -> Result<Source, NoShadow> {
        Preloader::boot(site, environment).map(Source::Own).map_err(NoShadow::Start)
    }

    /// What starting the application took. None: it was not started here.
    pub fn starting(&self) -> Option<Duration> {
        match self {
            Source::Live(_) => None,
            Source::Own(preloader) => Some(preloader.loading),
        }
    }

    pub fn shadow(&mut self) -> Result<Shadow, NoShadow> {
        match self {
            Source::Live(server) => server.shadow(),
            Source::Own(preloader) => {
                let socket = own_socket(preloader)?;
                preloader.ask_for_shadow(&socket.path())?;
                Ok(Shadow::greet(socket.accept()?)?)
            }
        }
    }

    /// Connections of a shadow, on each of which a thread of its own answers. `start.socket` is filled in here.
    pub fn channels(&self, shadow: &mut Shadow, start: LoadStart) -> Result<Vec<UnixStream>, NoShadow> {
        let socket = match self {
            Source::Live(server) => server.shadow_socket()?,
            Source::Own(preloader) => own_socket(preloader)?,
        };
        let count = start.threads as usize;
        let path = socket.path().to_string_lossy().into_owned();
        shadow.start_load(&LoadStart { socket: path, ..start })?;
        Ok(socket.accept_all(count)?)
    }
}

fn own_socket(preloader: &Preloader) -> io::Result<ShadowSocket> {
    ShadowSocket::open(&[std::env::temp_dir()], &preloader.run_as)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_taken_only_from_a_whole_answer() {
        for answered in [json!(null), json!({ "uid": 1 }), json!({ "uid": -1, "gid": 1, "groups": [] })] {
            assert_eq!(account(&answered), RunAs::own(), "{answered}");
        }
        if rustix::process::geteuid().is_root() {
            let found = account(&json!({ "uid": 7, "gid": 8, "groups": [8, 9] }));
            assert_eq!(found.account().map(|account| (account.uid, account.gid)), Some((7, 8)));
        }
    }
}
