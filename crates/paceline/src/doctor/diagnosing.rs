//! From the command line to the report: where the application is, which requests are replayed, and where the result goes.
//! It tries nothing itself.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use doctor::{observation::Server as ServedByName, protocol::Deliver};
use flate2::read::MultiGzDecoder;
use rustix::fs::{flock, open, FlockOperation, Mode, OFlags};
use serde_json::{json, Value};
use unix_user::RunAs;

use super::{
    application,
    driver::{Driver, RunError},
    fetching::Listener,
    first_look, machine,
    progress::{plain, warn, Progress},
    quiet_machine::Quiet,
    replaying::Replaying,
    run::{run, RunResult, Surroundings},
    samples::Samples,
    source::{account, explained, Server, Source},
    watching::{watch, WatchResult},
    DoctorError, Job, Place, ServedBy,
};
use crate::{
    apps::{
        environment::Environment,
        startable_app::{NoApplication, StartableApp},
    },
    config::{Config, RubyTuning, SiteConfig},
    observe::doctor_result::DoctorResult,
    support::{clock, idle_policy::make_idle},
};

/// Bytes of a Gemfile.lock that are read.
const MAX_LOCK: u64 = 1 << 20;
/// How a file that gzip has made begins.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// What may serve a Rack application, by its gem.
const SERVERS: [(&str, &str); 8] = [
    ("passenger", "Passenger"),
    ("unicorn", "Unicorn"),
    ("pitchfork", "Pitchfork"),
    ("falcon", "Falcon"),
    ("iodine", "Iodine"),
    ("puma", "Puma"),
    ("thin", "Thin"),
    ("webrick", "WEBrick"),
];

/// An application that is looked at.
pub struct Target {
    pub name: String,
    pub root: PathBuf,
    pub run_as: RunAs,
    /// None: its settings are not known here.
    pub site: Option<SiteConfig>,
}

/// The exit status is that of the report.
pub fn diagnose(place: &Place, wanted: Option<&str>, job: Job) -> Result<ExitCode, DoctorError> {
    let Job::Diagnose { watch, log, paths, except, rounds, only, json, when_busy, served_by, keep } = job else {
        return Err(DoctorError::Wrong("nothing to diagnose".into()));
    };
    let requests = RequestSource { watch, log, paths, except };
    let clock = clock::unix_seconds();
    let (target, found) = match place {
        Place::Live { socket, shown, config } => {
            let (server, target) = find(socket, shown, config.as_deref(), wanted)?;
            let _held = hold(&target.root)?;
            // Those who are served go first. What is started for a trial does so, too.
            make_idle(std::process::id() as i32);
            let progress = Progress::new(&target.name);
            let replaying = Replaying::new(clock, deliver(served_by));
            let (quiet, site) = (Quiet::new(!when_busy), target.site.clone());
            let mut driver = Driver::new(Source::Live(server.clone()), replaying, progress.clone(), site, quiet);
            let look = |seen: &Value| first_look::of_visitors(&mut driver, seen, &requests.except);
            let (samples, watched) = requests.of_server(&server, &target, &progress, look)?;
            let puma_config = target.site.as_ref().and_then(machine::puma_config);
            let WatchResult { answered, pids, fault_rate, worker_memory } = watched;
            let around = Surroundings {
                site: target.name.clone(),
                server: named(served_by, &target.root),
                machine: machine::machine(&pids, fault_rate),
                queue: machine::queue(&answered),
                listeners: Listener::all(&answered),
                settings: Box::new(move |process| machine::settings(&answered, process, worker_memory, puma_config)),
                only,
                rounds,
            };
            let found = run(&mut driver, samples, around)?;
            (target, found)
        }
        Place::Offline(config) => {
            let target = Target::of(application(config, wanted)?)?;
            let _held = hold(&target.root)?;
            let progress = Progress::new(&target.name);
            let site = target.site.clone().map(|site| as_served(site, served_by));
            let site = site.ok_or_else(|| DoctorError::Wrong("there is no application here".into()))?;
            let samples = requests.of_log_or_paths(host(&site))?;
            progress.say(&format!("starting the application ({})", site.environment));
            let source = Source::boot(&site, &Environment::default()).map_err(RunError::from)?;
            let (is_ours, of_settings) = (served_by == ServedBy::Paceline, site.clone());
            let around = Surroundings {
                site: target.name.clone(),
                server: named(served_by, &target.root),
                machine: machine::machine(&[], None),
                queue: None,
                listeners: Vec::new(),
                settings: Box::new(move |process| machine::settings_of(&of_settings, is_ours, process)),
                only,
                rounds,
            };
            let replaying = Replaying::new(clock, deliver(served_by));
            let mut driver = Driver::new(source, replaying, progress, Some(site), Quiet::new(false));
            let found = run(&mut driver, samples, around)?;
            (target, found)
        }
    };
    Ok(conclude(&target, found, clock, json, keep))
}

/// Prints the report, and keeps it if that is wanted.
fn conclude(target: &Target, found: RunResult, at: f64, json: bool, keep: bool) -> ExitCode {
    let report = &found.report;
    let text = if json { format!("{}\n", report.json()) } else { plain(&report.text()) };
    let status = report.exit_code();
    let result = DoctorResult::new(&target.name, &target.root, found.rails, found.report, at);
    let saved = if keep { result.save(&target.run_as).map(drop) } else { Ok(()) };
    // A reader that went away is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if let Err(why) = saved {
        warn(&format!("paceline: the result can't be kept, so that paceline doctor apply will not find it: {why}"));
    }
    ExitCode::from(status)
}

impl Target {
    pub fn of(site: SiteConfig) -> Result<Target, DoctorError> {
        let found = StartableApp::at(&site)?;
        let run_as = found.run_as(&site).map_err(NoApplication::from)?;
        Ok(Target { name: site.name.clone(), root: found.root.clone(), run_as, site: Some(site) })
    }
}

/// The application of the running server.
pub fn find(
    socket: &Path,
    shown: &str,
    config: Option<&Config>,
    wanted: Option<&str>,
) -> Result<(Server, Target), DoctorError> {
    use crate::server::control::client::Failed;
    let mut server = Server { socket: socket.to_owned(), site: String::new(), run_as: RunAs::own() };
    let wish = json!({ "site": wanted });
    let found = server.ask("POST", "/doctor/find", Some(&wish)).map_err(|failed| {
        DoctorError::Wrong(match failed {
            Failed::NoServer(_) => format!(
                "no server answers at {shown}: run the command in the directory that it serves, name its socket with --control PATH, or start the application with --offline DIR"
            ),
            Failed::Forbidden => format!("no permission for {shown}: run the command as its owner or as root"),
            other => explained(other),
        })
    })?;
    server.site = found["site"].as_str().unwrap_or_default().to_owned();
    server.run_as = account(&found["account"]);
    let root = PathBuf::from(found["root"].as_str().unwrap_or_default());
    let root = root.canonicalize().map_err(DoctorError::of(&root))?;
    let site = config.and_then(|config| application(config, Some(&server.site)).ok());
    let site = site.filter(|site| site.root.canonicalize().is_ok_and(|path| path == root));
    let target = Target { name: server.site.clone(), root, run_as: server.run_as.clone(), site };
    Ok((server, target))
}

/// One doctor at a time looks at an application.
fn hold(root: &Path) -> Result<impl Drop, DoctorError> {
    let folder = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| DoctorError::of(root)(error.into()))?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        DoctorError::Wrong(format!("another paceline doctor looks at {}: wait until it is done", root.display()))
    })?;
    Ok(folder)
}

/// Which requests are replayed.
struct RequestSource {
    watch: Duration,
    log: Option<PathBuf>,
    paths: Vec<String>,
    except: Vec<String>,
}

impl RequestSource {
    fn of_server(
        &self,
        server: &Server,
        target: &Target,
        progress: &Progress,
        look: impl FnOnce(&Value),
    ) -> Result<(Samples, WatchResult), DoctorError> {
        let is_watched = self.log.is_none() && self.paths.is_empty();
        let time = if is_watched { self.watch } else { Duration::ZERO };
        let watched = watch(server, time, progress, look).map_err(|failed| DoctorError::Wrong(explained(failed)))?;
        if !is_watched {
            let host = target.site.as_ref().map_or("localhost", host);
            return Ok((self.of_log_or_paths(host)?, watched));
        }
        let samples = Samples::of_server(&watched.answered).without(&self.except);
        if samples.requests() == 0 {
            let why = "no GET request has reached the application: watch for longer with --watch, or name requests with --path or --log";
            return Err(DoctorError::Wrong(why.into()));
        }
        Ok((samples, watched))
    }

    fn of_log_or_paths(&self, host: &str) -> Result<Samples, DoctorError> {
        let Some(log) = &self.log else {
            let root = ["/".to_owned()];
            let paths = if self.paths.is_empty() { &root[..] } else { &self.paths[..] };
            return Ok(Samples::of_paths(paths, host).without(&self.except));
        };
        let samples = opened(log).and_then(|log| Samples::of_log(log, host)).map_err(DoctorError::of(log))?;
        let samples = samples.without(&self.except);
        match samples.requests() {
            0 => Err(DoctorError::Wrong(format!("{}: has no GET requests", log.display()))),
            _ => Ok(samples),
        }
    }
}

/// A log, also one that was compressed when it was rotated.
fn opened(log: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut plain = BufReader::new(File::open(log)?);
    let is_compressed = plain.fill_buf()?.starts_with(GZIP);
    if is_compressed {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(plain))));
    }
    Ok(Box::new(plain))
}

/// The host that a visitor would ask for.
fn host(site: &SiteConfig) -> &str {
    site.hosts.iter().find(|host| !host.starts_with('*')).map_or("localhost", String::as_str)
}

fn deliver(served_by: ServedBy) -> Deliver {
    match served_by {
        ServedBy::Paceline => Deliver::Gathered,
        ServedBy::Other => Deliver::Pieces,
    }
}

fn named(served_by: ServedBy, root: &Path) -> ServedByName {
    match served_by {
        ServedBy::Paceline => ServedByName::Paceline,
        ServedBy::Other => ServedByName::Other(other_server(root).into()),
    }
}

/// By the application's bundle.
fn other_server(root: &Path) -> &'static str {
    let mut lock = String::new();
    let read = File::open(root.join("Gemfile.lock")).and_then(|file| file.take(MAX_LOCK).read_to_string(&mut lock));
    let has = |gem: &str| read.is_ok() && lock.lines().any(|line| line.trim_start().starts_with(&format!("{gem} (")));
    SERVERS.iter().find(|(gem, _)| has(gem)).map_or("another server", |(_, name)| name)
}

/// Another server sets nothing up that Paceline would.
fn as_served(site: SiteConfig, served_by: ServedBy) -> SiteConfig {
    match served_by {
        ServedBy::Paceline => site,
        ServedBy::Other => SiteConfig {
            tuning: RubyTuning {
                yjit: "off".into(),
                malloc_arenas: None,
                jemalloc: false,
                oob_gc: false,
                compact: false,
                refork_after: None,
                warm_up: Vec::new(),
            },
            ..site
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn who_serves_it_today() {
        let of = |lock: &str| other_server(&Folder::with(&[("Gemfile.lock", lock)]).0);
        assert_eq!(of("GEM\n  specs:\n    puma (5.6.5)\n      nio4r (~> 2.0)\n"), "Puma");
        assert_eq!(of("    puma-daemon (1)\n    unicorn (6.1)\n    puma (5)\n"), "Unicorn");
        assert_eq!(of(""), "another server");
    }

    #[test]
    fn a_log_may_be_compressed() {
        let line = "1.1.1.1 - - [10/Oct/2023:13:55:36 +0200] \"GET /beers HTTP/1.1\" 200 5 \"-\" \"-\"\n";
        let folder = Folder::with(&[("a.log", line), ("empty.log", "")]);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(line.as_bytes()).unwrap();
        std::fs::write(folder.0.join("a.log.1.gz"), packed.finish().unwrap()).unwrap();
        let routes = |name: &str| {
            let samples = Samples::of_log(opened(&folder.0.join(name)).unwrap(), "localhost")?;
            io::Result::Ok(samples.routes.into_iter().map(|route| route.route).collect::<Vec<_>>())
        };
        assert_eq!([routes("a.log").unwrap(), routes("a.log.1.gz").unwrap()], [["GET /beers"], ["GET /beers"]]);
        assert_eq!(routes("empty.log").unwrap_err().to_string(), "the log is empty");
    }

    #[test]
    fn one_doctor_at_a_time() {
        let folder = Folder::with(&[("config.ru", "")]);
        let held = hold(&folder.0).unwrap();
        assert!(matches!(hold(&folder.0), Err(DoctorError::Wrong(why)) if why.contains("another paceline doctor")));
        drop(held);
        assert!(hold(&folder.0).is_ok());
    }
}
