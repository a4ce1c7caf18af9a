//! The flags, made from the options table, and those of Puma that are no setting.
//! It never reads their values.

use clap::{builder::ArgAction, value_parser, Arg, Command};
use clap_complete::Shell;

use super::{asking::SUBCOMMANDS, in_ruby, BENCH, STANDALONE};
use crate::config::{all_options, Kind, Opt, TableKind};

const HELP_WIDTH: usize = 88;

/// Puma's flags that are accepted and ignored so that old command lines still work, and whether each takes a value.
pub const WITHOUT_MEANING: &[(&str, FlagValue)] = &[
    ("prune-bundler", FlagValue::Nothing),
    ("debug", FlagValue::Nothing),
    ("tcp-mode", FlagValue::Nothing),
    ("fork-worker", FlagValue::Maybe),
    ("bind-to-activated-sockets", FlagValue::Maybe),
    ("extra-runtime-dependencies", FlagValue::Value),
    ("include", FlagValue::Value),
    ("plugin", FlagValue::Value),
    ("restart-cmd", FlagValue::Value),
    ("state", FlagValue::Value),
    ("redirect-append", FlagValue::Nothing),
    ("no-redirect-append", FlagValue::Nothing),
    ("idle-timeout", FlagValue::Value),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FlagValue {
    Nothing,
    Maybe,
    Value,
}

pub const ABOUT: &str = "Serves the Ruby web application (Rails, Sinatra, Rack) or the plain files in this directory.";
pub const AFTER: &str = "\
Flags win over environment variables, then paceline.toml, config/puma.rb and the defaults.
--help shows all settings; docs/configuration.md describes each.";

pub fn command() -> Command {
    let mut command = Command::new("paceline")
        .version(env!("PACELINE_VERSION"))
        .about(ABOUT)
        .after_help(AFTER)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("systemd")
                .about("Print a systemd unit for this directory and these settings")
                .arg(
                    Arg::new("socket")
                        .long("socket")
                        .action(ArgAction::SetTrue)
                        .help("Print the unit for its sockets instead"),
                )
                .arg(target()),
        )
        .subcommand(
            Command::new("check").about("Check the configuration and the application, without serving").arg(target()),
        )
        .subcommands(SUBCOMMANDS.iter().map(|asking| elsewhere(asking.name, asking.about)))
        .subcommand(elsewhere(
            BENCH,
            "Measure an HTTP server from outside, and show where a Paceline server spends the time",
        ))
        .subcommands(STANDALONE.iter().map(|own| elsewhere(own.name, own.about)))
        .subcommands(in_ruby::COMMANDS.iter().map(|(name, _, about)| elsewhere(name, about)))
        .subcommand(completions())
        .subcommand(Command::new("man-page").about("Print the manual page, in roff"))
        .subcommand(Command::new("config-docs").hide(true).about("Print docs/configuration.md"))
        .arg(target())
        .arg(Arg::new("version").short('V').long("version").action(ArgAction::Version).help("Print the version"))
        .arg(
            Arg::new("build")
                .long("build")
                .action(ArgAction::SetTrue)
                .requires("version")
                .help("With --version: print the commit, target, features and compiler of this program"),
        );
    for option in all_options().filter(|option| !option.long.is_empty()) {
        command = command.arg(argument(option));
    }
    command.args(fixed())
}

/// For the help; `asking` has its flags.
fn elsewhere(name: &'static str, about: &'static str) -> Command {
    let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true).hide(true);
    Command::new(name).about(about).disable_help_flag(true).arg(rest)
}

fn target() -> Arg {
    Arg::new("target").value_name("RACKUP_FILE|DIR").help("Rackup file (default config.ru), or the directory to serve")
}

fn argument(option: &'static Opt) -> Arg {
    let mut facts = String::new();
    if let Kind::Enum(choices) = option.kind {
        facts.push_str(&format!(" [one of: {}]", choices.join(", ")));
    }
    if let Some(preset) = option.default_words() {
        facts.push_str(&format!(" [default: {preset}]"));
    }
    if !option.env.is_empty() {
        facts.push_str(&format!(" [env: {}]", option.env.join(", ")));
    }
    let first = option.doc.split_inclusive(". ").next().unwrap_or(option.doc).trim_end_matches(['.', ' ']);
    let mut arg = Arg::new(option.key)
        .long(option.long)
        .aliases(option.aliases)
        .global(true)
        .help(format!("{first}{facts}"))
        .long_help(wrapped(&format!("{}{facts}", option.doc), HELP_WIDTH))
        .help_heading(option.group)
        .hide_short_help(!option.common)
        .value_name(value_name(&option.kind));
    if let Some(letter) = option.short {
        arg = arg.short(letter);
    }
    match option.kind {
        Kind::List { .. } | Kind::Table(&TableKind { repeats: true, .. }) => arg.action(ArgAction::Append),
        Kind::Bool => arg.num_args(0..=1).require_equals(true).default_missing_value("true").overrides_with(option.key),
        _ => arg.action(ArgAction::Set).overrides_with(option.key),
    }
}

fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < width => line.extend([" ", word]),
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

fn value_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "true|false",
        Kind::Int { .. } | Kind::Count { .. } => "NUMBER",
        Kind::Threads { .. } | Kind::Workers { .. } => "NUMBER|MIN:MAX",
        Kind::Bytes { .. } => "SIZE",
        Kind::Duration { .. } => "TIME",
        Kind::Path { .. } => "PATH",
        Kind::Text { .. } | Kind::Map => "TEXT",
        Kind::Table(table) => table.placeholder,
        Kind::List { .. } => "URI",
        Kind::Enum(_) => "WORD",
    }
}

/// Flags that are no setting of the table.
fn fixed() -> Vec<Arg> {
    let word = |name: &'static str| Arg::new(name).long(name).global(true);
    let mut args = vec![
        word("config")
            .short('C')
            .value_name("FILE")
            .action(ArgAction::Set)
            .overrides_with("config")
            .help("Read settings from this file: paceline's own (.toml) or Puma's (.rb); - for none"),
        word("no-config").action(ArgAction::SetTrue).hide(true),
        word("dir").value_name("DIR").help("Serve this directory instead of the current one"),
        word("quiet").short('q').action(ArgAction::SetTrue).help("Write no access log").help_heading("Logs"),
        word("silent").short('s').action(ArgAction::SetTrue).hide(true),
        word("adopt-control-fd").value_parser(value_parser!(i32).range(3..)).value_name("N").hide(true),
    ];
    for (name, takes) in WITHOUT_MEANING {
        let arg = word(name).hide(true);
        let arg = match *name {
            "fork-worker" => arg.short('f'),
            "include" => arg.short('I'),
            "restart-cmd" => arg.short('R'),
            "state" => arg.short('S'),
            _ => arg,
        };
        args.push(match takes {
            FlagValue::Nothing => arg.action(ArgAction::SetTrue),
            FlagValue::Maybe => {
                arg.num_args(0..=1).require_equals(true).default_missing_value("").action(ArgAction::Append)
            }
            FlagValue::Value => arg.action(ArgAction::Append),
        });
    }
    args
}

/// `paceline completions SHELL`.
pub fn completions() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell));
    Command::new("completions").about("Print the completions of a shell").arg(shell.help("The shell"))
}
