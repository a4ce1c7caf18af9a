//! `paceline restart` and `paceline rollback`: another generation for the running server's applications.
//! It never restarts the server itself.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgMatches, Command};
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use serde_json::{json, Value};

use super::{print, rolling, switch, text::seconds, Asker};
use crate::{cli::expected::Expected, server::control::client::Failed};

/// How often it is asked whether it is done.
const LOOK: Duration = Duration::from_millis(200);

const RESTART_AFTER: &str = "\
The new code boots beside the running version and takes over when it is ready; no request waits for it. If it does not start, the
running version continues. Exit status with --wait: 0 when the new code serves, 1 when it does not.
With --rolling all servers of the cluster restart, one after the other, and each is watched before the next. The command stops at the
first server that fails, and on Ctrl-C: then it restarts no further server. Exit status: 0 when all serve the new code, 1 when not, 130 after Ctrl-C.";

const ROLLBACK_AFTER: &str = "\
Within keep_previous after a restart (ten minutes outside development) a rollback needs no boot. Later the previous release boots again
if its folder is still there. Exit status: 1 when there is nothing to roll back to, with --wait also when it does not serve again.";

fn wait() -> Arg {
    switch("wait").help("Wait for the result; if the start fails, print its start-up page")
}

fn site() -> Arg {
    Arg::new("site").long("site").value_name("NAME")
}

pub fn restart() -> Command {
    Command::new("restart")
        .bin_name("paceline restart")
        .about("Boots the new code beside the old and switches to it when it is ready")
        .after_help(RESTART_AFTER)
        .arg(wait())
        .arg(site().help("Only this application"))
        .arg(
            Arg::new("canary")
                .long("canary")
                .value_name("SHARE")
                .value_parser(percent)
                .help("First give the new code this share of the requests, like 5%, and compare"),
        )
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("TIME")
                .value_parser(seconds)
                .requires("canary")
                .help("Duration of the canary, like 5m [default: 60s]"),
        )
        .arg(
            Arg::new("requests")
                .long("requests")
                .value_name("N")
                .value_parser(clap::value_parser!(u64))
                .requires("canary")
                .help("Minimum number of requests for the canary [default: 20]"),
        )
        .args(rolling::arguments())
}

pub fn rollback() -> Command {
    Command::new("rollback")
        .bin_name("paceline rollback")
        .about("Goes back to the release before the last restart")
        .after_help(ROLLBACK_AFTER)
        .arg(wait())
        .arg(site().help("Application to roll back; required with several sites"))
}

pub fn run_restart(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    if matches.get_flag("rolling") {
        return rolling::run(server, matches);
    }
    let mut wish = of_site(matches);
    if let Some(percent) = matches.get_one::<f64>("canary") {
        wish["canary"] = json!(percent);
        if let Some(seconds) = matches.get_one::<f64>("for") {
            wish["for"] = json!(seconds);
        }
        if let Some(requests) = matches.get_one::<u64>("requests") {
            wish["requests"] = json!(requests);
        }
    }
    begun(server, matches, "/restart", "restart started", &wish)
}

pub fn run_rollback(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    begun(server, matches, "/rollback", "rollback started", &of_site(matches))
}

fn of_site(matches: &ArgMatches) -> Value {
    match matches.get_one::<String>("site") {
        Some(site) => json!({ "site": site }),
        None => json!({}),
    }
}

fn percent(text: &str) -> Result<f64, Expected> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    number.filter(|number| (0.1..=90.0).contains(number)).ok_or(Expected("a share from 0.1% to 90%, like 5%"))
}

fn begun(server: &Asker, matches: &ArgMatches, target: &str, word: &str, wish: &Value) -> Result<ExitCode, Failed> {
    let answer = server.ask("POST", target, Some(wish))?;
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
        Some("failed") => {
            (format!("{text}\n\n{site}: the generation that served before, if there was one, continues\n"), false)
        }
        Some("rolled-back") => (format!("{site}: rolled back: {text}\n"), false),
        _ => (format!("{site}: {text}\n"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times() {
        assert_eq!((percent("5%"), percent("12.5 %")), (Ok(5.0), Ok(12.5)));
        assert_eq!((seconds("90"), seconds("5m"), seconds("200ms")), (Ok(90.0), Ok(300.0), Ok(0.2)));
        assert!(percent("5").is_err() && percent("100%").is_err() && seconds("soon").is_err());
    }

    #[test]
    fn what_belongs_to_rolling() {
        let parsed = |line: &str| restart().try_get_matches_from(line.split(' '));
        assert!(parsed("restart --rolling --site shop --watch 30s --skip-silent --json").is_ok());
        for wrong in ["restart --watch 5s", "restart --skip-silent", "restart --json", "restart --rolling --canary 5%"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_printed() {
        let one = |outcome: &str| shown("shop", &json!({ "outcome": outcome, "text": "told\n" }));
        assert_eq!(one("serves"), ("told\n".into(), true));
        assert_eq!(
            one("failed"),
            ("told\n\nshop: the generation that served before, if there was one, continues\n".into(), false)
        );
        assert_eq!(one("rolled-back"), ("shop: rolled back: told\n".into(), false));
        assert_eq!(one("refused"), ("shop: told\n".into(), false));
        let answer = json!({ "sites": { "shop": { "attempt": 3 } } });
        assert_eq!(attempts(&answer), [("shop".to_owned(), 3)]);
    }
}
