//! `[[process]]`: a program that runs beside the workers, as a table.
//! It never starts one.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use rustix::process::Signal;
use toml_edit::{Item, TableLike, Value as TomlValue};
use units::parse_duration;

use crate::config::{
    groups::APP,
    option::{Opt, Scope::Site},
    table::TableItem,
    value::Kind,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, APP, "process", Kind::table::<Vec<ProcessConfig>>(),
        "Programs that run beside the workers, such as a job queue: [[process]] with command = \"bin/jobs\", or [[site.process]] for one site. Further keys: name, \
        count, env, dir, stop_signal, stop_timeout, restart and restart_with_app; see docs/processes.md. Programs at the top run for every site that has no \
        [[site.process]] of its own."),
];

/// A program beside the workers of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessConfig {
    /// Names it in the log; unique in its site.
    pub name: String,
    /// The program and its arguments. Never empty.
    pub command: Vec<String>,
    /// How many of it run, at least 1.
    pub count: usize,
    /// Beside the variables of the site.
    pub env: BTreeMap<String, String>,
    /// Where it is started, below the application's root unless absolute. None: there.
    pub dir: Option<PathBuf>,
    /// What asks it to end.
    pub stop_signal: Signal,
    /// How long it may take to end before it is killed.
    pub stop_timeout: Duration,
    pub restart: Restart,
    /// A new generation of the application gets new ones.
    pub restart_with_app: bool,
}

/// Whether one that has ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    Always,
    /// Only after an exit status other than 0, or a signal.
    OnFailure,
    Never,
}

const KEYS: [&str; 9] =
    ["command", "name", "count", "env", "dir", "stop_signal", "stop_timeout", "restart", "restart_with_app"];

const SIGNALS: [(&str, Signal); 7] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("KILL", Signal::KILL),
];

const MAX: i64 = 64;
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_STOP: Duration = Duration::from_secs(3600);

/// Why a side process can't be started as it is described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    #[error("has two processes with the name {0:?}: add name = ... to one of them, or count = 2")]
    SameName(String),
    #[error("has {}, not {key:?}", KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("must have a string as {0}")]
    NotAText(&'static str),
    #[error("has no command: add command = \"bin/jobs\"")]
    NoCommand,
    #[error("has an empty command")]
    EmptyCommand,
    #[error("has an unclosed quote in command {0:?}")]
    UnclosedQuote(String),
    #[error("must have a string or a list of strings as command")]
    Command,
    #[error("must have a name of letters, digits, - _ and ., not {0:?}: add name = \"jobs\"")]
    Name(String),
    #[error("must have a count from 1 to {MAX}")]
    Count,
    #[error("must have a stop_timeout like \"30s\", at most 1h, not {0:?}")]
    StopTimeout(String),
    #[error("must have a stop_signal of {}, not {found:?}", signal_names())]
    StopSignal { found: String },
    #[error("must have restart \"always\" or \"on-failure\" or \"never\", not {0:?}")]
    Restart(String),
    #[error("must have restart_with_app true or false")]
    RestartWithApp,
    #[error("must have a table of names and strings as env")]
    Env,
    #[error("must have a string in quotes as env {0}")]
    Variable(String),
}

impl ProcessConfig {
    /// With this name and command, and otherwise as by default. None: the command is none.
    pub fn of_command(name: &str, command: &str) -> Option<ProcessConfig> {
        let mut table = toml_edit::Table::new();
        table.insert("name", toml_edit::value(name));
        table.insert("command", toml_edit::value(command));
        process(&table).ok()
    }
}

impl TableItem for ProcessConfig {
    const WORDS: &'static str = "tables [[process]] with command and further keys";
    const EXAMPLE: &'static str = "[{ name = \"jobs\", command = \"work\" }]";
    type Error = ProcessError;

    fn read(table: &dyn TableLike) -> Result<ProcessConfig, ProcessError> {
        process(table)
    }

    fn check(all: &[ProcessConfig]) -> Result<(), ProcessError> {
        let is_second = |nth: &usize| all[..*nth].iter().any(|other| other.name == all[*nth].name);
        match (0..all.len()).find(is_second) {
            Some(nth) => Err(ProcessError::SameName(all[nth].name.clone())),
            None => Ok(()),
        }
    }
}

fn process(table: &dyn TableLike) -> Result<ProcessConfig, ProcessError> {
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(ProcessError::UnknownKey { key: key.to_owned() });
    }
    let text = |key: &'static str| match table.get(key) {
        None => Ok(None),
        Some(item) => item.as_str().map(Some).ok_or(ProcessError::NotAText(key)),
    };
    let command = command(table.get("command"))?;
    let name = match text("name")? {
        Some(name) => name.to_owned(),
        None => command[0].rsplit('/').next().unwrap_or_default().to_owned(),
    };
    let fine = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    if name.is_empty() || !name.chars().all(fine) {
        return Err(ProcessError::Name(name));
    }
    let count = match table.get("count") {
        None => 1,
        Some(item) => item.as_integer().filter(|count| (1..=MAX).contains(count)).ok_or(ProcessError::Count)?,
    };
    let stop_timeout = match text("stop_timeout")? {
        None => STOP_TIMEOUT,
        Some(text) => parse_duration(text)
            .filter(|time| *time <= LONGEST_STOP)
            .ok_or_else(|| ProcessError::StopTimeout(text.to_owned()))?,
    };
    let restart_with_app = match table.get("restart_with_app") {
        None => true,
        Some(item) => item.as_bool().ok_or(ProcessError::RestartWithApp)?,
    };
    Ok(ProcessConfig {
        name,
        command,
        count: count as usize,
        env: variables(table.get("env"))?,
        dir: text("dir")?.map(PathBuf::from),
        stop_signal: signal(text("stop_signal")?.unwrap_or("TERM"))?,
        stop_timeout,
        restart: match text("restart")?.unwrap_or("always") {
            "always" => Restart::Always,
            "on-failure" => Restart::OnFailure,
            "never" => Restart::Never,
            other => return Err(ProcessError::Restart(other.to_owned())),
        },
        restart_with_app,
    })
}

/// Words as a shell would part them, or a list of them. Nothing in them is expanded.
fn command(item: Option<&Item>) -> Result<Vec<String>, ProcessError> {
    let item = item.ok_or(ProcessError::NoCommand)?;
    let words: Option<Vec<String>> = match (item.as_str(), item.as_array()) {
        (Some(text), _) => Some(shlex::split(text).ok_or_else(|| ProcessError::UnclosedQuote(text.to_owned()))?),
        (None, Some(list)) => list.iter().map(TomlValue::as_str).map(|word| word.map(String::from)).collect(),
        _ => None,
    };
    let words = words.ok_or(ProcessError::Command)?;
    match words.first() {
        Some(program) if !program.is_empty() && words.iter().all(|word| !word.contains('\0')) => Ok(words),
        _ => Err(ProcessError::EmptyCommand),
    }
}

fn variables(item: Option<&Item>) -> Result<BTreeMap<String, String>, ProcessError> {
    let Some(item) = item else { return Ok(BTreeMap::new()) };
    let table = item.as_table_like().ok_or(ProcessError::Env)?;
    let pairs = table.iter().map(|(name, value)| match value.as_str() {
        Some(text) if !text.contains('\0') => Ok((name.to_owned(), text.to_owned())),
        _ => Err(ProcessError::Variable(name.to_owned())),
    });
    pairs.collect()
}

fn signal(text: &str) -> Result<Signal, ProcessError> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    found.ok_or_else(|| ProcessError::StopSignal { found: text.to_owned() })
}

fn signal_names() -> String {
    SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{TableProblem, TableSetting};

    fn read(text: &str) -> Result<Vec<ProcessConfig>, TableProblem> {
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        Vec::from_toml(&document["process"]).unwrap()
    }

    #[test]
    fn little_has_to_be_said() {
        let [jobs] = &read("[[process]]\ncommand = \"bin/jobs start --queue 'a b' $HOME\"").unwrap()[..] else {
            panic!("one process")
        };
        assert_eq!(jobs.command, ["bin/jobs", "start", "--queue", "a b", "$HOME"]);
        assert_eq!((jobs.name.as_str(), jobs.count, jobs.dir.as_ref()), ("jobs", 1, None));
        assert_eq!((jobs.stop_signal, jobs.stop_timeout), (Signal::TERM, Duration::from_secs(30)));
        assert_eq!((jobs.restart, jobs.restart_with_app), (Restart::Always, true));
    }

    #[test]
    fn everything_can_be_said() {
        let text = "[[process]]\ncommand = [\"bundle\", \"exec\", \"sidekiq\"]\nname = \"sidekiq\"\ncount = 2\nenv.A = \"b\"\n\
            dir = \"jobs\"\nstop_signal = \"SIGINT\"\nstop_timeout = \"1m\"\nrestart = \"on-failure\"\nrestart_with_app = false";
        let sidekiq = read(text).unwrap().remove(0);
        assert_eq!(sidekiq.command, ["bundle", "exec", "sidekiq"]);
        assert_eq!((sidekiq.name.as_str(), sidekiq.count, sidekiq.env["A"].as_str()), ("sidekiq", 2, "b"));
        assert_eq!((sidekiq.dir, sidekiq.stop_signal), (Some("jobs".into()), Signal::INT));
        assert_eq!((sidekiq.restart, sidekiq.restart_with_app), (Restart::OnFailure, false));
        assert_eq!(sidekiq.stop_timeout, Duration::from_secs(60));
    }

    #[test]
    fn mistakes() {
        for (text, told) in [
            ("name = \"jobs\"", "has no command"),
            ("command = \"\"", "empty command"),
            ("command = \"bin/jobs 'a\"", "an unclosed quote"),
            ("command = 1", "a string or a list of strings"),
            ("command = \"bin/a\"\ncomand = \"x\"", "not \"comand\""),
            ("command = \"bin/a\"\ncount = 0", "a count from 1 to 64"),
            ("command = \"bin/a\"\nstop_signal = \"STOP\"", "stop_signal of TERM, INT"),
            ("command = \"bin/a\"\nstop_timeout = \"2h\"", "at most 1h"),
            ("command = \"bin/a\"\nrestart = \"yes\"", "\"on-failure\""),
            ("command = \"bin/a\"\nenv.A = 1", "a string in quotes as env A"),
            ("command = \"bin/a b\"\nname = \"a b\"", "a name of letters"),
            ("command = \"bin/a\"\n[[process]]\ncommand = \"sbin/a\"", "two processes with the name \"a\""),
        ] {
            let error = read(&format!("[[process]]\n{text}")).unwrap_err();
            assert!(error.to_string().contains(told), "{text}\n{error}");
        }
    }
}
