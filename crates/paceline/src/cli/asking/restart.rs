//! `paceline restart` and `paceline rollback`: another generation for the running server's applications.
//! It never restarts the server itself.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgMatches, Command};
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use serde_json::{json, Value};

use super::{print, switch, Asker};
use crate::control::client::Failed;

/// How often it is asked whether it is done.
const LOOK: Duration = Duration::from_millis(200);

const RESTART_AFTER: &str = "\
The code is booted anew beside what serves, asked whether it is ready, and takes over when it is; no request waits for it.
If it does not start, what serves goes on. Exit status with --wait: 0 when the new code serves, 1 when it does not.";

const ROLLBACK_AFTER: &str = "\
For keep_previous (outside development ten minutes) after a restart this needs no boot; later the release before is booted anew if
its folder is still there. Exit status: 1 when there is nothing to go back to, with --wait also when it does not serve again.";

fn wait() -> Arg {
    switch("wait").help("Wait until it serves, or has failed: then print the start-up page")
}

fn site() -> Arg {
    Arg::new("site").long("site").value_name("NAME")
}

pub fn restart() -> Command {
    Command::new("restart")
        .bin_name("paceline restart")
        .about("Restarts the applications of the running server, one generation after the other")
        .after_help(RESTART_AFTER)
        .arg(wait())
        .arg(site().help("This application alone"))
}

pub fn rollback() -> Command {
    Command::new("rollback")
        .bin_name("paceline rollback")
        .about("Goes back to the release that served before the last restart")
        .after_help(ROLLBACK_AFTER)
        .arg(wait())
        .arg(site().help("This application; needed where there are several"))
}

pub fn run_restart(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    begun(server, matches, "/restart", "restart begun")
}

pub fn run_rollback(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    begun(server, matches, "/rollback", "going back")
}

fn begun(server: &Asker, matches: &ArgMatches, target: &str, word: &str) -> Result<ExitCode, Failed> {
    let wish = match matches.get_one::<String>("site") {
        Some(site) => json!({ "site": site }),
        None => json!({}),
    };
    let answer = server.ask("POST", target, Some(&wish))?;
    let attempts = attempts(&answer);
    if !matches.get_flag("wait") {
        let lines: String = attempts.iter().map(|(site, _)| format!("{site}: {word}\n")).collect();
        return print(&lines);
    }
    let mut all_serve = true;
    for (site, number) in attempts {
        let target = format!("/restarts/{number}-{}", utf8_percent_encode(&site, NON_ALPHANUMERIC));
        let ended = loop {
            let told = server.ask("GET", &target, None)?;
            if !told["outcome"].is_null() {
                break told;
            }
            std::thread::sleep(LOOK);
        };
        let (text, serves) = shown(&site, &ended);
        all_serve &= serves;
        print(&text)?;
    }
    Ok(if all_serve { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each site's attempt.
fn attempts(answer: &Value) -> Vec<(String, u64)> {
    let sites = answer["sites"].as_object().into_iter().flatten();
    sites.filter_map(|(site, told)| Some((site.clone(), told["attempt"].as_u64()?))).collect()
}

/// What is printed, and whether the new code serves.
fn shown(site: &str, ended: &Value) -> (String, bool) {
    let text = ended["text"].as_str().unwrap_or_default().trim_end();
    match ended["outcome"].as_str() {
        Some("serves") => (format!("{text}\n"), true),
        Some("failed") => (format!("{text}\n\n{site}: what served before goes on serving\n"), false),
        Some("rolled-back") => (format!("{site}: rolled back: {text}\n"), false),
        _ => (format!("{site}: {text}\n"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed() {
        let one = |outcome: &str| shown("shop", &json!({ "outcome": outcome, "text": "told\n" }));
        assert_eq!(one("serves"), ("told\n".into(), true));
        assert_eq!(one("failed"), ("told\n\nshop: what served before goes on serving\n".into(), false));
        assert_eq!(one("rolled-back"), ("shop: rolled back: told\n".into(), false));
        assert_eq!(one("refused"), ("shop: told\n".into(), false));
        let answer = json!({ "sites": { "shop": { "attempt": 3 } } });
        assert_eq!(attempts(&answer), [("shop".to_owned(), 3)]);
    }
}
