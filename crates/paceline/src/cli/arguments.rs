//! From arguments to a command: clap's work, and the settings that come of it.
//! It never runs the command, and reads files only through `config::load`.

use std::{ffi::OsString, path::Path};

use clap::{error::ErrorKind, ArgMatches};

use super::{flags, CliExit, Command};
use crate::config::{self, ConfigFile, Flags, Surroundings, Value};

/// `args` begins with the program's name.
pub fn parse<I, T>(args: I, around: &Surroundings) -> Result<Command, CliExit>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = flags::command().try_get_matches_from(args).map_err(|error| told(&error))?;
    match matches.subcommand() {
        Some(("config-docs", _)) => Err(CliExit::Print(config::markdown())),
        Some(("check", own)) => load(own, around).map(Command::Check),
        _ => load(&matches, around).map(Command::Serve),
    }
}

fn load(matches: &ArgMatches, around: &Surroundings) -> Result<config::Config, CliExit> {
    let flags = given(matches, &around.cwd).map_err(|problem| CliExit::Wrong(vec![problem]))?;
    config::load(flags, around).map_err(|error| CliExit::Wrong(error.problems))
}

fn given(matches: &ArgMatches, cwd: &Path) -> Result<Flags, String> {
    let mut given = Flags { adopt_control_fd: matches.get_one::<i32>("adopt-control-fd").copied(), ..Flags::default() };
    given.dir = matches.get_one::<String>("dir").map(Into::into);
    given.config_file = match matches.get_one::<String>("config").map(String::as_str) {
        None if matches.get_flag("no-config") => ConfigFile::None,
        None => ConfigFile::Usual,
        Some("-") => ConfigFile::None,
        Some(path) if path.ends_with(".toml") => ConfigFile::Toml(path.into()),
        Some(path) if path.ends_with(".rb") => ConfigFile::Puma(path.into()),
        Some(path) => return Err(format!("-C {path}: must end in .toml (paceline's own) or .rb (Puma's)")),
    };
    if let ConfigFile::Toml(path) | ConfigFile::Puma(path) = &given.config_file {
        if !cwd.join(path).is_file() {
            return Err(format!("-C {}: no such file", path.display()));
        }
    }
    for option in config::OPTIONS.iter().filter(|option| !option.long.is_empty()) {
        let Some(texts) = matches.get_many::<String>(option.key) else { continue };
        let mut list = Vec::new();
        for text in texts {
            let value = option.kind.parse(text).map_err(|why| format!("--{} {text}: {why}", option.long))?;
            match value {
                Value::List(mut more) => {
                    list.append(&mut more);
                    given.layer.set(option.key, Value::List(list.clone()));
                }
                value => given.layer.set(option.key, value),
            }
        }
    }
    if matches.get_flag("quiet") || matches.get_flag("silent") {
        given.layer.set("log_requests", Value::Bool(false));
    }
    if let Some(target) = matches.get_one::<String>("target") {
        let base = given.dir.as_ref().map_or_else(|| cwd.to_path_buf(), |dir| cwd.join(dir));
        match base.join(target) {
            path if path.is_dir() => given.dir = Some(path),
            path if path.is_file() => given.layer.set("rackup", Value::Path(path)),
            _ => return Err(format!("{target}: no such file, directory or command; see paceline --help")),
        }
    }
    for (name, _) in flags::WITHOUT_MEANING {
        if matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine) {
            given.notices.push(format!("--{name} has no meaning here"));
        }
    }
    Ok(given)
}

/// clap's several lines as one.
fn told(error: &clap::Error) -> CliExit {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return CliExit::Print(text);
    }
    let told = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let words = told
        .map(|line| line.trim().trim_start_matches("error: ").replace("tip: ", ""))
        .filter(|line| !line.is_empty() && !line.starts_with("to pass"));
    let line = words.collect::<Vec<_>>().join("; ");
    CliExit::Wrong(vec![format!("{line}; see paceline --help")])
}
