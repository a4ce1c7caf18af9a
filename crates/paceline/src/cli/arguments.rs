//! From arguments to a command: clap's work, and the settings that come of it.
//! It never runs the command, and reads files only through `config::load`.

use std::{ffi::OsString, path::Path};

use clap::{
    error::{ContextKind, ContextValue, ErrorKind},
    ArgMatches,
};

use super::{
    asking, build_facts,
    config_file::{config_file, ArgumentError},
    flags, in_ruby, shell, standalone, systemd, CliExit, Command, BENCH,
};
use crate::{
    config::{self, ConfigFile, Flags, Surroundings, Value},
    server::handover::Program,
};

/// `args` begins with the program's name.
pub fn parse<I, T>(args: I, around: &Surroundings) -> Result<Command, CliExit>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    // These have flags of their own, and none of the server's.
    let parsed = |own: clap::Command| own.try_get_matches_from(&args[1..]).map_err(|error| usage_error(&error));
    let name = args.get(1).and_then(|name| name.to_str());
    if let Some(own) = name.and_then(standalone) {
        return (own.understood)(&parsed((own.command)())?, around);
    }
    if let Some(own) = name.and_then(asking::named) {
        return asking::understood(own, parsed(own.command())?, around).map(Command::Ask);
    }
    if build_facts::are_wanted(&args) {
        return Err(CliExit::Print(build_facts::text()));
    }
    if let Some(problem) = removed_command(&args, &around.cwd) {
        return Err(CliExit::Wrong(vec![problem]));
    }
    let matches = flags::command().try_get_matches_from(&args).map_err(|error| usage_error(&error))?;
    match matches.subcommand() {
        Some(("completions", own)) => Err(CliExit::Print(shell::completions_text(own))),
        Some(("man-page", _)) => Err(CliExit::Print(shell::man_page())),
        Some(("config-docs", _)) => Err(CliExit::Print(config::markdown())),
        Some((command, _))
            if command == BENCH
                || standalone(command).is_some()
                || asking::named(command).is_some()
                || in_ruby::named(command).is_some() =>
        {
            Err(CliExit::Wrong(vec![format!(
                "put {command} first: paceline {command} ...; see paceline {command} --help"
            )]))
        }
        Some(("systemd", own)) => Err(CliExit::Print(unit(own, &args, around)?)),
        Some(("check", own)) => load(own, around).map(Command::Check),
        _ => load(&matches, around).map(Command::Serve),
    }
}

fn unit(matches: &ArgMatches, args: &[OsString], around: &Surroundings) -> Result<String, CliExit> {
    let config = load(matches, around)?;
    let wrong = |why: String| CliExit::Wrong(vec![why]);
    if matches.get_flag("socket") {
        return systemd::sockets(&config).map_err(|why| wrong(why.to_string()));
    }
    let program = Program::own().map_err(|error| wrong(error.to_string()))?;
    let given =
        systemd::UnitFacts { program: program.path(), arguments: &args[1..], cwd: &around.cwd, variable: around.env };
    Ok(systemd::service(&config, &given))
}

fn load(matches: &ArgMatches, around: &Surroundings) -> Result<config::Config, CliExit> {
    let flags = given(matches, &around.cwd).map_err(|problem| CliExit::Wrong(vec![problem.to_string()]))?;
    config::load(flags, around).map_err(|error| CliExit::Wrong(error.problems))
}

pub(super) fn given(matches: &ArgMatches, cwd: &Path) -> Result<Flags, ArgumentError> {
    let mut given = Flags { adopt_control_fd: matches.get_one::<i32>("adopt-control-fd").copied(), ..Flags::default() };
    given.dir = matches.get_one::<String>("dir").map(Into::into);
    given.config_file = match matches.get_one::<String>("config") {
        None if matches.get_flag("no-config") => ConfigFile::None,
        path => config_file(path.map(String::as_str), cwd)?,
    };
    for option in config::all_options().filter(|option| !option.long.is_empty()) {
        let Some(texts) = matches.get_many::<String>(option.key) else { continue };
        for text in texts {
            let parsed = option.kind.parse(text);
            let wrong = |error| ArgumentError::Value { option: option.long, value: text.clone(), error };
            given.layer.add(option.key, parsed.map_err(wrong)?);
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
            _ => return Err(ArgumentError::Target(target.clone())),
        }
    }
    for (name, _) in flags::WITHOUT_MEANING {
        if matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine) {
            given.notices.push(format!("--{name} is ignored"));
        }
    }
    Ok(given)
}

/// clap's several lines as one.
fn usage_error(error: &clap::Error) -> CliExit {
    let text = error.render().to_string();
    if let Some((flag, instead)) = removed_flag(error) {
        return CliExit::Wrong(vec![format!("{flag} is no longer a flag: {instead}")]);
    }
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return CliExit::Print(text);
    }
    let aside = ["to pass", "For more information", "[possible"];
    let words = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:"))
        .map(|line| line.trim().trim_start_matches("error: ").replace("tip: ", ""))
        .filter(|line| !line.is_empty() && !aside.iter().any(|start| line.starts_with(start)));
    let line = words.collect::<Vec<_>>().join("; ");
    CliExit::Wrong(vec![format!("{line}; see paceline --help")])
}

/// A flag of a setting that there is no more, and what to do instead.
fn removed_flag(error: &clap::Error) -> Option<(String, &'static str)> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let key = flag.strip_prefix("--")?.replace('-', "_");
    config::removed::setting(&key).map(|instead| (flag.clone(), instead))
}

/// A command that there is no more, and what to do instead. A directory or rackup file of that name is served.
fn removed_command(args: &[OsString], cwd: &Path) -> Option<String> {
    let name = args.get(1)?.to_str()?;
    let instead = config::removed::command(name).filter(|_| !cwd.join(name).exists())?;
    Some(format!("{name} is no longer a command: {instead}"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;
    use crate::{
        config::{
            test_folder::{around, Folder},
            Config,
        },
        observe::log::AccessLogFormat,
    };

    fn run(folder: &Folder, line: &str) -> Result<Command, CliExit> {
        let args: Vec<&str> = std::iter::once("paceline").chain(line.split_whitespace()).collect();
        around(&folder.0, &[], |around| parse(args, around))
    }

    fn served(folder: &Folder, line: &str) -> Config {
        match run(folder, line) {
            Ok(Command::Serve(config)) => config,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn pumas_flags() {
        let folder = Folder::with(&[
            ("config.ru", ""),
            ("other.ru", ""),
            ("app/config.ru", ""),
            ("tour/config.ru", ""),
            ("config/puma.rb", ""),
        ]);
        let config = served(&folder, "-p 0 -w 2 -t 0:16 -e production --pidfile a.pid --tag x -q -C - other.ru");
        let site = &config.sites[0];
        assert_eq!((site.workers, site.threads, site.environment.as_str()), (2, 16, "production"));
        assert_eq!(site.rackup, Some(folder.0.join("other.ru")));
        assert_eq!((config.pidfile, config.tag), (Some(folder.0.join("a.pid")), Some("x".into())));
        assert_eq!(config.log.access_format, AccessLogFormat::Off);
        assert_eq!(site.puma_config, None);
        assert_eq!(served(&folder, "--dir app -C - config.ru").sites[0].root, folder.0.join("app"));
        assert_eq!(served(&folder, "-C - app").sites[0].root, folder.0.join("app"));
        assert_eq!(
            served(&folder, "-C - tour").sites[0].root,
            folder.0.join("tour"),
            "no command any more, but a directory"
        );
        assert_eq!(served(&folder, "-C - -b tcp://0.0.0.0:1 -b unix:///x").binds.len(), 2);
        assert!(!served(&folder, "-C - --preload=false").sites[0].preload);
        assert!(served(&folder, "-C - --preload=false --preload").sites[0].preload);
        // Whoever reads the settings owns it from then on.
        let fd = std::os::unix::net::UnixStream::pair().unwrap().0.into_raw_fd();
        assert_eq!(served(&folder, &format!("-C - --adopt-control-fd {fd}")).adopt_control_fd, Some(fd));
        let config = served(&folder, "-C - --prune-bundler -S a.state --fork-worker --control-url auto -v");
        assert_eq!(config.notices.len(), 3, "{:?}", config.notices);
    }

    #[test]
    fn commands() {
        let folder = Folder::with(&[("config.ru", "")]);
        for line in ["check", "-p 1 check", "check -p 1 config.ru"] {
            assert!(matches!(run(&folder, line), Ok(Command::Check(_))), "{line}");
        }
        for (line, words) in [
            ("--version", "paceline "),
            ("-V", "paceline "),
            ("-h", "WEB_CONCURRENCY"),
            ("--help", "--queue-max"),
            ("config-docs", "# Configuration"),
        ] {
            assert!(matches!(run(&folder, line), Err(CliExit::Print(text)) if text.contains(words)), "{line}");
        }
    }

    #[test]
    fn mistakes_take_one_line() {
        let folder = Folder::with(&[("config.ru", "")]);
        for (line, told) in [
            ("--worker 2", "unexpected argument '--worker' found; a similar argument exists: '--workers'; see paceline --help"),
            (
                "--gc app",
                "--gc is no longer a flag: remove it: Ruby's own settings of the garbage collector apply. To trade CPU time for memory set RUBY_GC_ variables in env (docs/ruby-tuning.md)",
            ),
            ("-w", "a value is required for '--workers <NUMBER|MIN:MAX>' but none was supplied; see paceline --help"),
            ("-w x", "--workers x: must be a whole number up to 512, \"MIN:MAX\", or \"auto\" for as many as there are cores and memory for, not \"x\""),
            ("-p 99999", "--port 99999: must be a whole number from 0 to 65535, not \"99999\""),
            ("tour --path /beers", "tour is no longer a command: run paceline bench URL, paceline doctor and paceline restart --wait yourself (docs/getting-started.md)"),
            ("chek", "chek: no such file, directory or command; see paceline --help"),
            ("-C none.toml", "-C none.toml: no such file"),
            ("-C config.ru", "-C config.ru: must end in .toml (paceline's own) or .rb (Puma's)"),
            ("-b ssl://0.0.0.0:1", "TLS needs a certificate: add [[tls]] with cert and key to paceline.toml, or ?cert=...&key=... to the address, or tls = \"auto\" to a [[site]] with a host; in development --https makes one"),
        ] {
            match run(&folder, line) {
                Err(CliExit::Wrong(lines)) => assert_eq!(lines, [told], "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
