//! Has a Ruby process read config/puma.rb, and takes what it says as one source of settings among others. The process
//! keeps the file's hooks and goes on to load the application, so that the file is read once.
//! It never obeys the file, and starts no process itself.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    io::{self, IsTerminal, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use parking_lot::Mutex;

use super::{
    layer::Layer,
    option_checks,
    options::{self, named},
    parts::processes::ProcessConfig,
    value::Value,
    SiteConfig,
};
use crate::origins::workers::protocol::{
    failed, fields,
    frame::{self, encode, kind, Raw},
};
use startup_report::{Failure, StartupReport, Step};
use unix_user::{Refused, RunAs};

/// How long the file may take, with the bundle that is set up for it.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the last output of a Ruby that has failed is waited for.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What the file says.
#[derive(Debug, Default, PartialEq)]
pub struct FromPuma {
    pub layer: Layer,
    /// `directory`: the application's root.
    pub directory: Option<PathBuf>,
    /// Its connections may begin with a PROXY header (`set_remote_address proxy_protocol: :v1`).
    pub proxy_protocol: bool,
    pub notices: Vec<String>,
}

/// Why the file's settings are not known. `file`: as it is shown.
#[derive(Debug, thiserror::Error)]
pub enum PumaError {
    /// The file, or what it asks for, raised something.
    #[error("{}", startup_report::text::render(.0, io::stderr().is_terminal()))]
    Raised(Box<StartupReport>),
    #[error("{file}: Ruby ended before it had read it{}", .last_line.as_ref().map(|line| format!(": {line}")).unwrap_or_default())]
    Ended { file: String, last_line: Option<String> },
    #[error("{file}: not read after {} s; remove code from it that waits", LIMIT.as_secs())]
    TimedOut { file: String },
    #[error("{ruby}: not found, but {file} needs Ruby; install Ruby, name it with --ruby, or skip the file with -C -")]
    NoRuby { ruby: String, file: String },
    #[error("{ruby}: cannot be run to read {file}: {error}")]
    NotRun { ruby: String, file: String, error: io::Error },
    #[error("{file}: no address is left to listen on: {why}")]
    NoAddress { file: String, why: String },
    /// As whom Ruby is to read it.
    #[error(transparent)]
    Account(#[from] Refused),
}

/// A Ruby process with the worker protocol's control socket. It ends when that is closed.
pub struct RubyProcess {
    pub control: UnixStream,
    /// None: it has started this server.
    pub child: Option<RubyChild>,
}

/// One that this server has started, and how.
pub struct RubyChild {
    pub pid: i32,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub run_as: RunAs,
    pub ruby: PathBuf,
    /// The real path of the directory that it runs in.
    pub root: PathBuf,
    pub gemfile: Option<PathBuf>,
    pub env: BTreeMap<OsString, OsString>,
}

/// The process that has read config/puma.rb, until somebody takes it to load the application.
#[derive(Clone, Default)]
pub struct PumaReader(Arc<Mutex<Option<RubyProcess>>>);

impl PumaReader {
    pub fn new(process: Option<RubyProcess>) -> PumaReader {
        PumaReader(Arc::new(Mutex::new(process)))
    }

    pub fn take(&self) -> Option<RubyProcess> {
        self.0.lock().take()
    }
}

impl fmt::Debug for PumaReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PumaReader").field(&self.0.lock().is_some()).finish()
    }
}

/// Starts the process that reads the file. Whoever loads settings brings it.
pub trait StartRuby {
    /// As for the application of `site`, in `site.root`. `names_environment`: somebody has said which environment that is.
    fn start(&self, site: &SiteConfig, run_as: RunAs, names_environment: bool) -> io::Result<RubyProcess>;

    /// The process that started this server, which holds the other end of this descriptor.
    fn adopted(&self, fd: i32) -> Option<UnixStream>;
}

/// What Ruby is asked.
pub struct Asking<'a> {
    pub path: &'a Path,
    /// As the settings are so far; its root is where Ruby runs, and relative paths of the file are below it.
    pub site: &'a SiteConfig,
    /// The environment if flags, variables or paceline.toml name one; otherwise the file may.
    pub environment: Option<&'a str>,
    /// The number of workers that flags or paceline.toml name.
    pub workers: Option<String>,
}

/// Has `process` read the file.
pub fn read(process: &mut RubyProcess, asking: &Asking) -> Result<FromPuma, PumaError> {
    let shown = shown(asking);
    // The other end may have been made by a Ruby, whose sockets are not.
    let blocking = process.control.set_nonblocking(false);
    let answer = blocking
        .and_then(|()| ask(process, asking))
        .and_then(|()| receive(&mut process.control, Instant::now() + LIMIT));
    match answer {
        Ok(Some(Raw { kind: kind::CONFIGURED, payload })) => {
            let pairs = fields::pairs(&payload).map(|(name, text)| {
                (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(text).into_owned())
            });
            let mut read = understood(pairs, &shown)?;
            read.directory = read.directory.map(|path| asking.site.root.join(path));
            options::anchor(&mut read.layer, read.directory.as_deref().unwrap_or(&asking.site.root));
            Ok(read)
        }
        Ok(Some(Raw { kind: kind::PRELOADER_FAILED, payload })) => Err(raised(process, asking, &payload)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            if let Some(pid) = process.child.as_ref().and_then(|child| rustix::process::Pid::from_raw(child.pid)) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            Err(PumaError::TimedOut { file: shown })
        }
        _ => {
            let last_line = output(process).into_iter().rev().find(|line| !line.trim().is_empty());
            Err(PumaError::Ended { file: shown, last_line })
        }
    }
}

fn shown(asking: &Asking) -> String {
    asking.path.strip_prefix(&asking.site.root).unwrap_or(asking.path).display().to_string()
}

/// Sends CONFIGURE.
fn ask(process: &mut RubyProcess, asking: &Asking) -> io::Result<()> {
    let gemfile = process.child.as_ref().and_then(|child| child.gemfile.clone());
    let frame = encode(kind::CONFIGURE, |out| {
        fields::put_pair(out, "root", asking.site.root.as_os_str().as_bytes());
        fields::put_pair(out, "puma_config", asking.path.as_os_str().as_bytes());
        fields::put_pair(out, "environment", asking.environment.unwrap_or_default());
        fields::put_pair(out, "workers", asking.workers.as_deref().unwrap_or_default());
        fields::put_pair(out, "gemfile", gemfile.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default());
        fields::put_pair(out, "site", &asking.site.name);
    });
    process.control.write_all(&frame)
}

/// The next frame; None at the end of the socket. No descriptor comes with one of these.
fn receive(control: &mut UnixStream, deadline: Instant) -> io::Result<Option<Raw>> {
    let mut received = BytesMut::new();
    let mut bytes = [0; 16 << 10];
    loop {
        let taken = frame::take(&mut received).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if taken.is_some() {
            control.set_read_timeout(None)?;
            return Ok(taken);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        control.set_read_timeout(Some(left))?;
        match control.read(&mut bytes)? {
            0 => return Ok(None),
            read => received.extend_from_slice(&bytes[..read]),
        }
    }
}

/// The report of a file that raised.
fn raised(process: &mut RubyProcess, asking: &Asking, payload: &[u8]) -> PumaError {
    let site = asking.site;
    let mut report = StartupReport::new(&site.name, &site.root, asking.environment.unwrap_or(&site.environment));
    report.done(Step::Found, Duration::ZERO);
    let (_, failure) = failed::failure(payload);
    let class = match &failure {
        Failure::Exception { class, .. } => class.as_str(),
        _ => "",
    };
    let step = if class.starts_with("Bundler::") { Step::Bundler } else { Step::Settings };
    report.begin(step, Duration::ZERO);
    report.fail(failure);
    report.read_as = process.child.as_ref().map(|child| child.run_as.clone());
    output(process).iter().for_each(|line| report.push_output(line));
    PumaError::Raised(Box::new(report))
}

/// What Ruby has printed so far, at its end.
fn output(process: &mut RubyProcess) -> Vec<String> {
    let Some(child) = process.child.take() else { return Vec::new() };
    let deadline = Instant::now() + LAST_OUTPUT;
    let mut text = Vec::new();
    for pipe in [child.stdout, child.stderr] {
        let _ = rustix::io::ioctl_fionbio(&pipe, true);
        let mut pipe = std::fs::File::from(pipe);
        while Instant::now() < deadline {
            match pipe.read_to_end(&mut text) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => break,
            }
        }
    }
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// What the file's pairs mean. What can't be had is left out with a word: the file is Puma's, and ends no start.
fn understood(pairs: impl Iterator<Item = (String, String)>, shown: &str) -> Result<FromPuma, PumaError> {
    let mut read = FromPuma::default();
    let (mut binds, mut processes, mut refused) = (Vec::new(), Vec::new(), None);
    for (key, text) in pairs {
        match key.as_str() {
            "notice" => read.notices.push(format!("{shown}: {text}")),
            "directory" => read.directory = Some(PathBuf::from(text)),
            "proxy_protocol" => read.proxy_protocol = true,
            "process" => processes.extend(ProcessConfig::of_command("solid_queue", &text)),
            // Further ones stand beside the first.
            "port" if read.layer.has("port") => binds.push(format!(":{text}")),
            "bind" => match option_checks::bind(&text) {
                Ok(()) => binds.push(text),
                Err(why) => {
                    read.notices.push(format!("{shown}: bind {why}: nobody listens there"));
                    refused.get_or_insert_with(|| why.to_string());
                }
            },
            key => match named(key).map(|option| (option.key, option.kind.parse(&text))) {
                Some((key, Ok(value))) => read.layer.set(key, value),
                Some((key, Err(why))) => read.notices.push(format!("{shown}: {key} {text} is ignored: {why}")),
                None => read.notices.push(format!("{shown}: {key} {text} is ignored: there is no such setting")),
            },
        }
    }
    if let Some(why) = refused.filter(|_| binds.is_empty() && !read.layer.has("port")) {
        return Err(PumaError::NoAddress { file: shown.to_owned(), why });
    }
    if !binds.is_empty() {
        read.layer.set("bind", Value::List(binds));
    }
    if !processes.is_empty() {
        read.layer.set("process", Value::table(processes));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(pairs: &[(&str, &str)]) -> Result<FromPuma, PumaError> {
        understood(pairs.iter().map(|(key, text)| (key.to_string(), text.to_string())), "config/puma.rb")
    }

    #[test]
    fn what_can_not_be_had_is_left_out_with_a_word() {
        let read =
            read_from(&[("threads", "5000"), ("bind", "unix://@x"), ("bind", "tcp://:1"), ("spin", "3")]).unwrap();
        assert_eq!(read.layer.get("bind"), Some(&Value::List(vec!["tcp://:1".into()])));
        for (notice, words) in read.notices.iter().zip(["threads 5000 is ignored", "abstract", "spin 3 is ignored"]) {
            assert!(notice.starts_with("config/puma.rb: ") && notice.contains(words), "{notice}");
        }
        assert_eq!(read.notices.len(), 3);
        let error = read_from(&[("bind", "unix://@x")]).unwrap_err().to_string();
        assert!(error.contains("no address is left to listen on"), "{error}");
    }

    #[test]
    fn ports_after_the_first_are_addresses() {
        let read = read_from(&[("port", "80"), ("port", "81")]).unwrap();
        assert_eq!(read.layer.get("port"), Some(&Value::Int(80)));
        assert_eq!(read.layer.get("bind"), Some(&Value::List(vec![":81".into()])));
    }

    #[test]
    fn the_queue_is_a_process() {
        let read = read_from(&[("process", "bin/jobs")]).unwrap();
        let processes: &Vec<ProcessConfig> = read.layer.table("process").unwrap();
        assert_eq!(
            (processes[0].name.as_str(), &processes[0].command[..]),
            ("solid_queue", &["bin/jobs".to_string()][..])
        );
    }
}
