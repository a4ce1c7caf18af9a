//! `paceline doctor`: finds what would make an application faster, tries it in copies of the application that do no
//! harm, and shows what each change brings. The findings and the arithmetic are in the crate `doctor`; here is what
//! starts processes, talks to them and waits.
//!
//! Reading order: `diagnosing` (from the command line to the report), `watching` and `samples` (which requests), `run`
//! (the order of a run), `first_look` (a line to look at meanwhile), `baseline` and `controls` (the application as it is), `trying` (one change), `replaying` (one replay);
//! `load_trial`, `load_slice` and `load_copy` (other numbers of threads and workers, under load); `memory_trial` (another
//! allocator); `compressing` (pages as the front would compress them);
//! `source` and `preloader` (where shadows come from; how they are talked to is in `crate::origins::shadow`);
//! `quiet_machine`, `machine`, `expected_time` and `progress`; `applying` and `canary` (what becomes of the advice).

mod applying;
mod baseline;
mod canary;
mod compress_trial;
mod compressing;
mod controls;
mod diagnosing;
mod driver;
mod expected_time;
mod fetching;
mod first_look;
mod left_out;
mod load_copy;
mod load_slice;
mod load_trial;
mod machine;
mod memory_trial;
mod preloader;
mod profiling;
mod progress;
mod quiet_machine;
mod replaying;
mod run;
mod samples;
mod source;
mod stop;
mod trying;
mod visitors;
mod watching;
mod writing;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use doctor::candidate::Kind;

pub use canary::CanaryWish;

use crate::{
    apps::startable_app::NoApplication,
    config::{self, AppKind, Config, SiteConfig},
};

/// There is no result.
const NO_RESULT: u8 = 2;

/// What the command line asks for.
#[derive(Debug)]
pub struct Wish {
    pub place: Place,
    /// The site's name. None: the only application.
    pub site: Option<String>,
    pub job: Job,
}

/// Where the application is.
#[derive(Debug)]
pub enum Place {
    /// In a running server, which is asked at this control socket. `config`: the settings as they are read now, if they
    /// can be.
    Live { socket: PathBuf, shown: String, config: Option<Box<Config>> },
    /// In a folder, and is started.
    Offline(Box<Config>),
}

#[derive(Debug)]
pub enum Job {
    Diagnose {
        watch: Duration,
        log: Option<PathBuf>,
        paths: Vec<String>,
        /// Requests of these are left out; what ends in `*` is a beginning.
        except: Vec<String>,
        /// Of each trial. None: until it is decided.
        rounds: Option<usize>,
        /// Empty: all.
        only: Vec<Kind>,
        json: bool,
        /// Trials are not to wait for a quiet machine.
        when_busy: bool,
        served_by: ServedBy,
        /// For `apply` and the dashboard.
        keep: bool,
    },
    /// Write the line of the advice with this number, and try it live.
    Apply(usize, CanaryWish),
}

/// What serves the application today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    Paceline,
    Other,
}

/// Does it, and returns the exit status.
pub fn main(wish: Wish) -> ExitCode {
    let done = match wish.job {
        Job::Apply(number, canary) => applying::apply(&wish.place, wish.site.as_deref(), number, canary),
        job => diagnosing::diagnose(&wish.place, wish.site.as_deref(), job),
    };
    done.unwrap_or_else(|why| {
        progress::warn(&format!("paceline: {why}"));
        ExitCode::from(NO_RESULT)
    })
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum DoctorError {
    #[error(transparent)]
    Run(#[from] driver::RunError),
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: std::io::Error },
    #[error(transparent)]
    NoApplication(#[from] NoApplication),
    #[error("{0}")]
    Wrong(String),
}

impl DoctorError {
    fn of(file: &Path) -> impl FnOnce(std::io::Error) -> DoctorError + '_ {
        move |error| DoctorError::File { file: file.to_owned(), error }
    }
}

/// The application of these settings that is meant.
fn application(config: &Config, wanted: Option<&str>) -> Result<SiteConfig, DoctorError> {
    let wrong = |why: String| DoctorError::Wrong(why);
    let discovered = match &config.sites_dir {
        Some(dir) => config::sites_in(dir, &config.inherited, &config.site_defaults)
            .map_err(|error| wrong(format!("{}: {error}", dir.display())))?,
        None => Default::default(),
    };
    let is_app = |site: &&SiteConfig| {
        let kind = || config::detect_site(site, &site.root).ok().map(|found| found.kind);
        site.upstream.is_none() && kind() != Some(AppKind::Files)
    };
    let all: Vec<&SiteConfig> = config.sites.iter().chain(&discovered.sites).filter(is_app).collect();
    let named: Vec<_> = all.iter().filter(|site| wanted.is_none_or(|name| name == site.name)).collect();
    match (&named[..], wanted) {
        ([only], _) => Ok((**only).clone()),
        ([], Some(name)) => Err(wrong(format!("no application has the site name {name:?}"))),
        ([], None) => Err(wrong("there is no application here".into())),
        (several, _) => {
            let names: Vec<_> = several.iter().map(|site| site.name.as_str()).collect();
            Err(wrong(format!("several sites: name one with --site: {}", names.join(", "))))
        }
    }
}
