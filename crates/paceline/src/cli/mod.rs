//! The command line: parses arguments, chooses the command and turns failures into one line on the terminal.
//! It never opens sockets or starts processes itself.

mod arguments;
mod asking;
mod build_facts;
mod check;
mod config_file;
mod doctor;
mod expected;
mod flags;
mod in_ruby;
mod shell;
mod sso;
mod systemd;

use std::{
    ffi::OsString,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

pub use arguments::parse;
use clap::ArgMatches;

use crate::{
    apps::{processes, trial::Trial},
    config::{Config, Surroundings},
    server::handover::{stand_in, Inheritance},
    support::explanation::Explanation,
};
use unix_user;

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Serve(Config),
    /// Say whether the configuration and the applications are fine, without serving.
    Check(Config),
    /// Ask the running server.
    Ask(asking::Question),
    /// Find what would make an application faster.
    Doctor(Box<crate::doctor::Wish>),
    /// Find out why people can't sign in.
    SignOn(Box<Config>, crate::server::sso_check::Wish),
}

/// The program ends without a command being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CliExit {
    /// `--help`, `--version`: text for standard output, status 0.
    Print(String),
    /// Something is wrong with the command line or the configuration: lines for standard error, status 2.
    Wrong(Vec<String>),
}

/// A command with flags of its own, none of the server's, that does not only ask a running server.
struct Standalone {
    name: &'static str,
    /// For `paceline --help`.
    about: &'static str,
    command: fn() -> clap::Command,
    understood: fn(&ArgMatches, &Surroundings) -> Result<Command, CliExit>,
}

const STANDALONE: &[Standalone] = &[
    Standalone {
        name: doctor::NAME,
        about: doctor::ABOUT,
        command: doctor::command,
        understood: |matches, around| Ok(Command::Doctor(Box::new(doctor::understood(matches, around)?))),
    },
    Standalone {
        name: sso::NAME,
        about: sso::ABOUT,
        command: sso::command,
        understood: |matches, around| {
            let (config, wish) = sso::understood(matches, around)?;
            Ok(Command::SignOn(Box::new(config), wish))
        },
    },
];

fn standalone(name: &str) -> Option<&'static Standalone> {
    STANDALONE.iter().find(|own| own.name == name)
}

const WRONG: u8 = 2;
/// The command that the crate `bench` runs.
const BENCH: &str = "bench";

/// Runs the command named on the command line and returns the exit status.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == unix_user::SWITCH => return unix_user::obey(arguments),
        Some(first) if first == processes::BECOME => return processes::become_it(arguments),
        Some(first) if first == processes::GUARD => return processes::guard(),
        Some(first) if first == stand_in::FLAG => return stand_in::run(arguments),
        Some(first) if first.to_str().is_some_and(|name| in_ruby::named(name).is_some()) => {
            return in_ruby::run(in_ruby::named(&first.to_string_lossy()).unwrap_or_default(), arguments)
        }
        Some(first) if first == BENCH => return bench::main(std::iter::once(first).chain(arguments)),
        _ => {}
    }
    let Some(cwd) = current_dir() else {
        return exit(CliExit::Wrong(vec!["the current directory no longer exists; change to one that does".into()]));
    };
    let inheritance = match Inheritance::receive().transpose() {
        Ok(inheritance) => inheritance,
        Err(why) => return exit(CliExit::Wrong(vec![why.to_string()])),
    };
    let around = Surroundings {
        env: &|name| std::env::var_os(name).map(|text: OsString| text.to_string_lossy().into_owned()),
        cwd,
        // Of a server that takes over it is known by the other's pid: also to who has handed it sockets.
        pid: inheritance.as_ref().map_or_else(std::process::id, |inherited| inherited.identity() as u32),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        in_container: std::process::id() == 1
            || ["/.dockerenv", "/run/.containerenv"].iter().any(|file| Path::new(file).exists()),
        ruby: &crate::apps::spawn::Readers,
    };
    match parse(std::env::args_os(), &around) {
        Ok(command) => run(command, inheritance),
        Err(end) => {
            if let CliExit::Wrong(lines) = &end {
                Inheritance::report(inheritance.as_ref()).failed(&lines.join("\n"));
            }
            exit(end)
        }
    }
}

/// As the shell names it, if that is the same: in Capistrano's `current` it is the link that counts, not where it leads
/// now.
fn current_dir() -> Option<PathBuf> {
    let real = std::env::current_dir().ok()?;
    let named = std::env::var_os("PWD").map(PathBuf::from);
    let named = named.filter(|named| named.is_absolute() && named.canonicalize().is_ok_and(|path| path == real));
    Some(named.unwrap_or(real))
}

/// The one place where commands become deeds.
fn run(command: Command, inheritance: Option<Inheritance>) -> ExitCode {
    match command {
        Command::Serve(config) => serve(config, inheritance),
        Command::Ask(question) => asking::run(&question),
        Command::Doctor(wish) => crate::doctor::main(*wish),
        Command::SignOn(config, wish) => sso::run(&config, &wish, &mut std::io::stdout()),
        Command::Check(config) => match Trial::new() {
            Ok(trial) => check::run(&config, &mut std::io::stdout(), &|site| {
                let colour = std::io::stdout().is_terminal();
                let started = trial.start(site, config.reader.take());
                started.map_err(|report| Explanation::new(startup_report::text::render(&report, colour)))
            }),
            Err(why) => exit(CliExit::Wrong(vec![why.to_string()])),
        },
    }
}

fn serve(config: Config, inheritance: Option<Inheritance>) -> ExitCode {
    match crate::server::run(config, inheritance) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("paceline: {}", why.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

fn exit(end: CliExit) -> ExitCode {
    match end {
        CliExit::Print(text) => {
            // A reader that went away (`paceline --help | head`) is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        CliExit::Wrong(lines) => {
            for line in lines {
                // A report has its own heading.
                if line.trim_end().contains('\n') {
                    eprintln!("{}", line.trim_end())
                } else {
                    eprintln!("paceline: {line}")
                }
            }
            ExitCode::from(WRONG)
        }
    }
}
