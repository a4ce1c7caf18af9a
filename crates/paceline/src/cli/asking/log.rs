//! `paceline log`: the last events of the running server and what its applications printed, also as they come.
//! It never shows what an app printed as a command to the terminal.

use std::{io::Write, process::ExitCode, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use serde_json::Value;

use super::{switch, text::printable, Asker};
use crate::server::control::client::Failed;

const AFTER: &str = "\
The server holds its last 2,000 lines, 1 MB at most; docs/logging.md lists the events by name, `output` is what applications print.
Requests are in the access log.";
/// How often it is asked for more.
const AGAIN: Duration = Duration::from_millis(300);
/// How often a server that does not answer is asked before it is given up: it may be about to be taken over by another
/// one.
const ATTEMPTS: usize = 20;
/// As wide as the names of events are.
const NAME: usize = 17;

pub fn command() -> Command {
    Command::new("log")
        .bin_name("paceline log")
        .about("The last log lines of the running server: its events, and its applications' output")
        .after_help(AFTER)
        .arg(switch("follow").short('f').help("Keep printing new lines"))
        .arg(
            Arg::new("lines")
                .long("lines")
                .short('n')
                .value_name("N")
                .value_parser(clap::value_parser!(u32))
                .default_value("50")
                .help("Number of lines"),
        )
        .arg(
            Arg::new("event")
                .long("event")
                .value_name("NAME")
                .action(ArgAction::Append)
                .help("Only events with this name; can be given several times"),
        )
        .arg(Arg::new("site").long("site").value_name("NAME").help("Only lines of this site"))
        .arg(switch("json").help("Print one JSON object per line"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let (follow, as_json) = (matches.get_flag("follow"), matches.get_flag("json"));
    let filter = filter(matches);
    let most = matches.get_one::<u32>("lines").copied().unwrap_or_default();
    let mut answer = server.ask("GET", &format!("/log?most={most}{filter}"), None)?;
    loop {
        let last = answer["last"].as_u64().unwrap_or(0);
        let lines = answer["lines"].as_array().into_iter().flatten();
        let text: String = lines.map(|line| if as_json { format!("{line}\n") } else { shown(line) }).collect();
        let mut out = std::io::stdout().lock();
        // A reader that went away wants no more.
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || !follow {
            return Ok(ExitCode::SUCCESS);
        }
        drop(out);
        answer = more(server, last, &filter)?;
    }
}

fn more(server: &Asker, last: u64, filter: &str) -> Result<Value, Failed> {
    let mut attempts = 0;
    loop {
        std::thread::sleep(AGAIN);
        match server.ask("GET", &format!("/log?after={last}{filter}"), None) {
            // Another server, which counts anew.
            Ok(answer) if answer["last"].as_u64() < Some(last) => {
                return server.ask("GET", &format!("/log?after=0{filter}"), None);
            }
            Err(Failed::NoServer(_)) if attempts < ATTEMPTS => attempts += 1,
            other => return other,
        }
    }
}

fn filter(matches: &ArgMatches) -> String {
    let events = matches.get_many::<String>("event").into_iter().flatten().map(|name| ("event", name));
    let site = matches.get_one::<String>("site").map(|name| ("site", name));
    events.chain(site).map(|(key, name)| format!("&{key}={}", utf8_percent_encode(name, NON_ALPHANUMERIC))).collect()
}

/// When, what, and the text; further lines of a text below its first.
fn shown(line: &Value) -> String {
    let word = |key: &str| line[key].as_str().unwrap_or("");
    let time = word("time").get(..19).unwrap_or("").replace('T', " ");
    let from = line["from"].as_str().map_or_else(String::new, |from| format!("[{from}] "));
    let mut text = String::new();
    for (nth, part) in word("text").split('\n').enumerate() {
        let part = printable(&part.replace('\t', "    "));
        let line = match nth {
            0 => format!("{time}  {:<NAME$}  {}{part}", word("event"), printable(&from)),
            _ => format!("{:1$}{part}", "", 19 + 2 + NAME + 2),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_stand_in_columns() {
        let line = |event: &str, from: Option<&str>, text: &str| {
            shown(
                &json!({ "number": 1, "time": "2026-11-21T22:13:20.250+01:00", "event": event, "from": from, "text": text }),
            )
        };
        assert_eq!(
            line("listening", None, "Listening on http://127.0.0.1:3000"),
            "2026-11-21 22:13:20  listening          Listening on http://127.0.0.1:3000\n"
        );
        assert_eq!(
            line("output", Some("shop.2"), "a\tb\x1b[2J"),
            "2026-11-21 22:13:20  output             [shop.2] a    b\u{fffd}[2J\n"
        );
        assert_eq!(
            line("generation-failed", None, "shop did not start\n\n  boot"),
            "2026-11-21 22:13:20  generation-failed  shop did not start\n\n                                          boot\n"
        );
    }

    #[test]
    fn what_is_asked_for() {
        let asked =
            |line: &str| filter(&command().get_matches_from(std::iter::once("log").chain(line.split_whitespace())));
        assert_eq!(asked("--event output --event state --site a&b"), "&event=output&event=state&site=a%26b");
        assert_eq!(asked("-f -n 3"), "");
    }
}
