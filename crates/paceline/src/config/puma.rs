//! Asks Ruby what config/puma.rb says, in the one process that reading settings may start.
//! It never obeys the file: its settings become one source among others.

use std::{
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{
    bind,
    layer::Layer,
    options::named,
    value::{Value, ValueError},
};
use unix_user::{self, Refused, RunAs};

/// Read by `ruby -`, so that it is found wherever the program is installed.
const SCRIPT: &str = include_str!("../../../../gem/lib/paceline/server/puma_config.rb");
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(3);
/// How long each part of what Ruby wrote is waited for once it has ended. A process that the file left behind may keep
/// the pipes open for ever.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The script's last byte: all settings stand before it.
const END: char = '\0';

/// What the file says.
#[derive(Debug, Default, PartialEq)]
pub struct FromPuma {
    pub layer: Layer,
    /// `directory`: the application's root.
    pub directory: Option<PathBuf>,
    pub notices: Vec<String>,
}

/// Why the file's settings are not known. `file`: as it is shown.
#[derive(Debug, thiserror::Error)]
pub enum PumaError {
    /// What the script itself says of the file.
    #[error("{0}")]
    Script(String),
    #[error("{file}: Ruby failed to read it ({status}): {last_line}")]
    Failed { file: String, status: ExitStatus, last_line: String },
    #[error("{file}: Ruby's output was cut off; try again")]
    CutOff { file: String },
    #[error("{file}: not read after {} s; remove code from it that waits", LIMIT.as_secs())]
    TimedOut { file: String },
    #[error("{ruby}: not found, but {file} needs Ruby; install Ruby, name it with --ruby, or skip the file with -C -")]
    NoRuby { ruby: String, file: String },
    #[error("{ruby}: cannot be run to read {file}: {error}")]
    NotRun { ruby: String, file: String, error: io::Error },
    #[error("{file}: {error}")]
    NotAwaited { file: String, error: io::Error },
    #[error("{file}: {key} {value}: unknown setting")]
    UnknownSetting { file: String, key: String, value: String },
    #[error("{file}: {key} {value}: {error}")]
    Setting { file: String, key: String, value: String, error: Box<ValueError> },
    #[error("{file}: bind {error}")]
    Bind { file: String, error: ValueError },
    /// As whom Ruby is to read it.
    #[error(transparent)]
    Account(#[from] Refused),
}

/// How to run Ruby.
pub struct PumaScript<'a> {
    pub ruby: &'a Path,
    /// The directory served: Ruby runs there, and relative paths of the file are below it.
    pub dir: &'a Path,
    /// The environment if flags or variables name one; otherwise the file may.
    pub environment: Option<&'a str>,
    /// Who Ruby runs as. It is never root where others could have written what it reads.
    pub run_as: RunAs,
}

pub fn read(path: &Path, asking: &PumaScript) -> Result<FromPuma, PumaError> {
    let shown = path.strip_prefix(asking.dir).unwrap_or(path).display().to_string();
    let (status, text) = run(path, &shown, asking)?;
    if !status.success() {
        let path = path.display().to_string();
        // The script's own last word follows a NUL; before it stands what the file printed.
        let told = text.rsplit_once('\0').map(|(_, told)| told.trim().replace(&path, &shown));
        let last = || text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word").to_string();
        return Err(match told {
            Some(told) => PumaError::Script(told),
            None => PumaError::Failed { last_line: last(), file: shown, status },
        });
    }
    let settings = text.strip_suffix(END).ok_or_else(|| PumaError::CutOff { file: shown.clone() })?;
    let mut read = understood(settings, &shown)?;
    read.directory = read.directory.map(|path| asking.dir.join(path));
    read.layer.anchor(read.directory.as_deref().unwrap_or(asking.dir));
    Ok(read)
}

fn understood(out: &str, shown: &str) -> Result<FromPuma, PumaError> {
    let mut read = FromPuma::default();
    let mut binds = Vec::new();
    for line in out.lines() {
        let Some((key, text)) = line.split_once('\t').map(|(key, text)| (key, unescaped(text))) else { continue };
        let file = || shown.to_owned();
        match key {
            "ignored" if text == "plugin :solid_queue" => read.notices.push(format!(
                "{shown}: {text} does not run inside the server; run it beside the workers with [[process]] command = \"bin/jobs\" in paceline.toml"
            )),
            "ignored" => read.notices.push(format!("{shown}: {text} is ignored")),
            "directory" => read.directory = Some(PathBuf::from(text)),
            "bind" => {
                bind::check(&text).map_err(|error| PumaError::Bind { file: file(), error })?;
                binds.push(text);
            }
            _ => {
                let Some(option) = named(key) else {
                    return Err(PumaError::UnknownSetting { file: file(), key: key.to_owned(), value: text });
                };
                match option.kind.parse(&text) {
                    Ok(value) => read.layer.set(option.key, value),
                    Err(error) => {
                        let (key, error) = (key.to_owned(), Box::new(error));
                        return Err(PumaError::Setting { file: file(), key, value: text, error });
                    }
                }
            }
        }
    }
    if !binds.is_empty() {
        read.layer.set("bind", Value::List(binds));
    }
    Ok(read)
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => plain.push(match rest.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (c, false) => plain.push(c),
        }
    }
    plain
}

/// How Ruby ended, and the settings it told or, if it failed, what it printed.
fn run(path: &Path, shown: &str, asking: &PumaScript) -> Result<(ExitStatus, String), PumaError> {
    let (ruby, file) = (|| asking.ruby.display().to_string(), || shown.to_owned());
    let mut env = unix_user::env(&asking.run_as);
    if let Some(environment) = asking.environment {
        env.extend(["RAILS_ENV", "RACK_ENV", "APP_ENV"].map(|name| (name.into(), environment.into())));
    }
    let mut command = unix_user::command(&asking.run_as, asking.ruby, asking.dir, env);
    command.args(["-", "--dump"]).arg(path).arg(asking.environment.unwrap_or(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|why| match why.kind() {
        ErrorKind::NotFound => PumaError::NoRuby { ruby: ruby(), file: file() },
        _ => PumaError::NotRun { ruby: ruby(), file: file(), error: why },
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A Ruby that ends before it has read everything tells why by its status.
        let _ = stdin.write_all(SCRIPT.as_bytes());
    }
    let (out, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < LIMIT => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(PumaError::TimedOut { file: file() });
            }
            Err(error) => return Err(PumaError::NotAwaited { file: file(), error }),
        }
    };
    let text = if status.success() { heard(&out, Some(END)) } else { heard(&errors, None) };
    Ok((status, text))
}

/// What comes from `pipe`, in parts as they come.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = vec![0; 4096];
        while let Ok(read) = pipe.read(&mut bytes) {
            if read == 0 || to.send(bytes[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    from
}

/// All that came up to the end, or up to `last`.
fn heard(from: &mpsc::Receiver<Vec<u8>>, last: Option<char>) -> String {
    let mut bytes = Vec::new();
    while last.is_none_or(|last| bytes.last() != Some(&(last as u8))) {
        let Ok(part) = from.recv_timeout(LAST_WORDS) else { break };
        bytes.extend(part);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_with_a_place_of_its_own_is_told_where() {
        let read = understood("ignored\tplugin :solid_queue\nignored\tplugin :x", "config/puma.rb").ok().unwrap();
        assert!(read.notices[0].contains("[[process]] command = \"bin/jobs\""), "{:?}", read.notices);
        assert_eq!(read.notices[1], "config/puma.rb: plugin :x is ignored");
    }
}
