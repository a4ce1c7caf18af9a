//! `paceline completions SHELL` and `paceline man-page`: made from the same commands and options as `--help`.
//! It never installs what it prints.

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;

use super::{asking, flags, standalone};

/// What `paceline completions` prints for the shell it was given.
pub fn completions_text(matches: &ArgMatches) -> String {
    let mut out = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>("shell") {
        clap_complete::generate(*shell, &mut whole_command(), "paceline", &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The manual page of section 1, in roff.
pub fn man_page() -> String {
    let mut out = Vec::new();
    let page = clap_mangen::Man::new(whole_command()).manual("User Commands").date("");
    // Writing to a Vec does not fail.
    let _ = page.render(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The command line with the flags of each subcommand and without what is hidden. For parsing, the subcommands that ask
/// a running server are placeholders, since they have none of the server's settings.
fn whole_command() -> Command {
    let parsed = flags::command();
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let args: Vec<Arg> =
        parsed.get_arguments().filter(shown).map(|arg| arg.clone().global(false).hide_short_help(false)).collect();
    let settings = args.iter().filter(|arg| !matches!(arg.get_id().as_str(), "target" | "version" | "build"));
    let with_settings = |command: &Command| command.clone().args(settings.clone());
    let subcommands = parsed.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| {
        match (command.get_name(), asking::named(command.get_name())) {
            (_, Some(asking)) => asking.command().about(asking.about),
            ("check" | "systemd", _) => with_settings(command),
            (name, None) => standalone(name).map_or_else(|| command.clone(), |own| (own.command)()),
        }
    });
    Command::new("paceline")
        .version(env!("PACELINE_VERSION"))
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .about(flags::ABOUT)
        .after_help(flags::AFTER)
        .args(&args)
        .subcommands(subcommands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::all_options;

    fn completions_of(shell: &str) -> String {
        completions_text(&flags::completions().get_matches_from(["completions", shell]))
    }

    #[test]
    fn every_option_is_completed_and_in_the_manual() {
        let (bash, page) = (completions_of("bash"), man_page());
        for option in all_options().filter(|option| !option.long.is_empty()) {
            let long = format!("--{}", option.long);
            assert!(bash.contains(&long), "{long} is not completed");
            assert!(page.contains(&long.replace('-', "\\-")), "{long} is not in the manual page");
        }
    }

    #[test]
    fn subcommands_are_completed_with_their_own_flags() {
        for shell in ["bash", "zsh", "fish"] {
            let text = completions_of(shell);
            for word in ["upgrade", "rollback", "completions", "backtrace"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
            assert!(!text.contains("config-docs") && !text.contains("adopt-control-fd"), "{shell}: hidden ones show");
        }
    }
}
