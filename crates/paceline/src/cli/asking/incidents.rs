//! `paceline incidents`: what went wrong with the running server's applications, all in a table or one as a
//! post-mortem. It never shows what an app or a client chose as a command to the terminal.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use jiff::tz::TimeZone;
use serde_json::{json, Value};

use super::{print, switch, Asker};
use crate::{
    apps::incidents::{text, Incident},
    observe::control::client::Failed,
};

const AFTER: &str = "\
An incident is a worker or preloader that ended, a request over app_hard_timeout, a memory limit, or a start that failed.
The last 50 are held. docs/incidents.md tells what each part of a post-mortem means.";

pub fn command() -> Command {
    Command::new("incidents")
        .bin_name("paceline incidents")
        .about("Crashes, time-outs and failed starts of the running server")
        .after_help(AFTER)
        .arg(
            Arg::new("id")
                .value_name("ID")
                .help("Print the post-mortem of this incident; the beginning of its number is enough if it is unique"),
        )
        .arg(switch("json").help("As JSON"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let zone = TimeZone::system();
    let all = server.ask("GET", "/incidents", None)?;
    let as_json = matches.get_flag("json");
    let Some(id) = matches.get_one::<String>("id") else {
        return print(&match as_json {
            true => format!("{all:#}\n"),
            false => text::table(&each(&all), &zone),
        });
    };
    let ids: Vec<_> = each(&all).into_iter().map(|one| one.id).filter(|known| known.starts_with(&**id)).collect();
    let [id] = &*ids else {
        return Err(Failed::Refused(match ids.is_empty() {
            true => format!("no incident {id}: paceline incidents lists all"),
            false => format!("{id} matches {}: add more digits", ids.join(", ")),
        }));
    };
    let one = server.ask("GET", &format!("/incidents/{id}"), None)?;
    let broken = || Failed::Broken("it runs another version".into());
    print(&match as_json {
        true => format!("{one:#}\n"),
        false => text::post_mortem(&Incident::from_json(&one).ok_or_else(broken)?, &zone),
    })
}

fn each(all: &Value) -> Vec<Incident> {
    let incidents = all["incidents"].as_array().into_iter().flatten();
    // The list tells how many requests there were, not which.
    incidents
        .filter_map(|one| {
            let mut one = one.clone();
            one["requests"] = json!([]);
            Incident::from_json(&one)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_makes_a_table() {
        let one = json!({ "id": "1a2b3c4d", "at": 1.0, "last": 2.0, "times": 2, "kind": "start-failed", "site": "shop",
            "what": "shop did not start", "requests": 0 });
        let table = text::table(&each(&json!({ "count": 1, "incidents": [one] })), &TimeZone::UTC);
        assert_eq!(
            table.lines().nth(1),
            Some("1a2b3c4d  1970-01-01 00:00:02  start-failed  shop  shop did not start (2 times)")
        );
        assert!(each(&json!({})).is_empty());
    }
}
