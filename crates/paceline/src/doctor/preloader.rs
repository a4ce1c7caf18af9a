//! An application that the doctor starts by itself, as the server would: with `--offline`, and to try another
//! environment. It never serves a visitor, and ends with the doctor.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use parking_lot::Mutex;
use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};
use startup_report::{Failure, StartupReport, Step};
use unix_user::RunAs;

use crate::{
    apps::{environment::Environment, generation::start_frame, spawn, startable_app::StartableApp},
    config::SiteConfig,
    origins::workers::protocol::{
        failed::failure,
        frame::{self, kind, Raw},
    },
};

/// Lines of its output that are kept for a report.
const MAX_LINES: usize = 100;
/// Bytes of a line of its output.
const LONGEST_LINE: u64 = 4096;
/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(2);
/// How long the last output of one that has failed is waited for.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// The process that has loaded the application.
pub struct Preloader {
    pid: Pid,
    control: UnixStream,
    pub run_as: RunAs,
    /// What loading took.
    pub loading: Duration,
}

impl Preloader {
    /// Loads the application, which takes as long as it does, but no longer than `start_timeout`. Must be called on the
    /// main thread. Err: the report of the start that failed.
    pub fn boot(site: &SiteConfig, environment: &Environment) -> Result<Preloader, Box<StartupReport>> {
        let began = Instant::now();
        let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
        report.begin(Step::Found, Duration::ZERO);
        let system = |report: &mut StartupReport, doing: &str, error: String| {
            report.fail(Failure::System { doing: doing.into(), error });
            Box::new(report.clone())
        };
        let found = StartableApp::at(site).and_then(StartableApp::that_starts);
        let found = found.map_err(|error| system(&mut report, "find the application", error.to_string()))?;
        let run_as = found.run_as(site);
        let run_as =
            run_as.map_err(|error| system(&mut report, "choose a user for the application", error.to_string()))?;
        report.read_as = Some(run_as.clone());
        let spawned = spawn::preloader_with(site, &found.root, run_as, |env| environment.apply(env));
        let spawned = spawned.map_err(|error| {
            let doing = format!("start {}", site.ruby.display());
            system(&mut report, &doing, error.to_string())
        })?;
        let Some(pid) = Pid::from_raw(spawned.pid) else {
            return Err(system(&mut report, "start the application", "it has no process id".into()));
        };
        report.done(Step::Found, began.elapsed());
        let printed = Arc::new(Mutex::new(VecDeque::new()));
        let reading = [spawned.stdout, spawned.stderr].map(|pipe| keep_lines(pipe, printed.clone()));
        let loading = Duration::ZERO;
        let mut preloader = Preloader { pid, control: spawned.control, run_as: spawned.run_as, loading };
        let Err(why) = preloader.load(site, &found, &mut report, began) else {
            preloader.loading = began.elapsed();
            return Ok(preloader);
        };
        drop(preloader);
        // What it forked may keep a pipe open for longer.
        let deadline = Instant::now() + LAST_OUTPUT;
        while Instant::now() < deadline && !reading.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK);
        }
        report.fail(*why);
        printed.lock().iter().for_each(|line: &String| report.push_output(line));
        Err(Box::new(report))
    }

    /// Sends START and waits for LOADED.
    fn load(
        &mut self,
        site: &SiteConfig,
        found: &StartableApp,
        report: &mut StartupReport,
        began: Instant,
    ) -> Result<(), Box<Failure>> {
        // The doctor needs a loaded application to fork.
        let site = SiteConfig { preload: true, ..site.clone() };
        let deadline = began + site.start_timeout;
        let talking = |error: std::io::Error| {
            let doing = "talk to the process that loads the application".into();
            Box::new(Failure::System { doing, error: error.to_string() })
        };
        self.control.write_all(&start_frame(&site, found)).map_err(talking)?;
        let mut received = BytesMut::new();
        loop {
            match frame::take(&mut received).map_err(|error| talking(std::io::Error::other(error)))? {
                Some(Raw { kind: kind::LOADED, .. }) => return Ok(()),
                Some(Raw { kind: kind::PRELOADER_FAILED, payload }) => {
                    let (step, why) = failure(&payload);
                    report.begin(step.unwrap_or(Step::Boot), began.elapsed());
                    return Err(Box::new(why));
                }
                Some(_) => continue,
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Box::new(Failure::TimedOut { after: site.start_timeout }));
            }
            self.control.set_read_timeout(Some(left)).map_err(talking)?;
            let mut piece = [0; 4096];
            match self.control.read(&mut piece) {
                Ok(0) => {
                    let who = "preloader".into();
                    return Err(Box::new(Failure::Exited { status: None, signal: None, who }));
                }
                Ok(count) => received.extend_from_slice(&piece[..count]),
                Err(error) if is_time_out(&error) => {}
                Err(error) => return Err(talking(error)),
            }
        }
    }

    /// Has a shadow forked, which connects to this socket.
    pub fn ask_for_shadow(&mut self, socket: &Path) -> std::io::Result<()> {
        self.control.write_all(&frame::shadow(socket))
    }
}

fn is_time_out(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

impl Drop for Preloader {
    /// The end of its control socket is the end of the process, and of what it has forked.
    fn drop(&mut self) {
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let deadline = Instant::now() + END;
        while let Ok(None) = waitpid(Some(self.pid), WaitOptions::NOHANG) {
            if Instant::now() > deadline {
                let _ = kill_process(self.pid, Signal::KILL);
                let _ = waitpid(Some(self.pid), WaitOptions::empty());
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Takes what it prints, so that it never waits to print, and keeps the last lines.
fn keep_lines(pipe: OwnedFd, kept: Arc<Mutex<VecDeque<String>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(std::fs::File::from(pipe));
        let mut line = Vec::new();
        while reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let mut kept = kept.lock();
            if kept.len() == MAX_LINES {
                kept.pop_front();
            }
            kept.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    })
}
