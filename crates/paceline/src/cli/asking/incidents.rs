//! `paceline incidents`: what went wrong with the running server's applications, all in a table or one as a
//! post-mortem; and, in a table of their own, requests that failed in them. It never shows what an app or a client chose as a command to the terminal.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use jiff::tz::TimeZone;
use serde_json::{json, Value};

use super::{print, switch, text::printable, Asker};
use crate::{
    observe::incidents::{text, Incident},
    server::control::client::Failed,
};

const AFTER: &str = "\
An incident is a worker or preloader that ended, a request over app_hard_timeout, a memory limit, or a start that failed.
A request that fails while the application goes on is not an incident; a second table has the last 30 of these.
The server keeps the last 50 incidents. docs/incidents.md explains each part of a post-mortem.";

pub fn command() -> Command {
    Command::new("incidents")
        .bin_name("paceline incidents")
        .about("Crashes, time-outs and failed starts of the running server")
        .after_help(AFTER)
        .arg(
            Arg::new("id")
                .value_name("ID")
                .help("Print the post-mortem of this incident, or what is known of this failed request; the beginning of its number is enough if it is unique"),
        )
        .arg(switch("json").help("As JSON"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let zone = TimeZone::system();
    let all = server.ask("GET", "/incidents", None)?;
    let as_json = matches.get_flag("json");
    let Some(id) = matches.get_one::<String>("id") else {
        return print(&if as_json {
            format!("{all:#}\n")
        } else {
            text::table(&each(&all), &zone) + &failed(&server.ask("GET", "/errors", None)?, &zone)
        });
    };
    let errors = server.ask("GET", "/errors", None)?;
    let incidents = each(&all).into_iter().map(|one| format!("incidents/{}", one.id));
    let targets: Vec<_> = incidents
        .chain(errors_of(&errors).map(|one| format!("errors/{}", one["id"].as_str().unwrap_or_default())))
        .filter(|target| target.split_once('/').is_some_and(|(_, known)| known.starts_with(&**id)))
        .collect();
    let [target] = &*targets else {
        return Err(Failed::Refused(if targets.is_empty() {
            format!("no incident {id}: paceline incidents lists all")
        } else {
            format!("{id} matches {}: add more digits", targets.join(", "))
        }));
    };
    let one = server.ask("GET", &format!("/{target}"), None)?;
    let broken = || Failed::Broken("it runs another version".into());
    print(&if as_json {
        format!("{one:#}\n")
    } else if target.starts_with("errors/") {
        failure(&one, &zone)
    } else {
        text::post_mortem(&Incident::from_json(&one).ok_or_else(broken)?, &zone)
    })
}

fn errors_of(errors: &Value) -> impl Iterator<Item = &Value> {
    errors["errors"].as_array().into_iter().flatten()
}

/// Requests that failed in the application. Nothing, if none has.
fn failed(errors: &Value, zone: &TimeZone) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |one: &Value| {
        let what = text::often(&text(&one["what"]), one["times"].as_u64().unwrap_or(1));
        let when = text::when(one["last"].as_f64().unwrap_or(0.0), zone);
        [text(&one["id"]), when, one["status"].to_string(), text(&one["site"]), what]
    };
    let rows: Vec<_> = errors_of(errors).map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        format!(
            "\nRequests that failed in the application:\n{}",
            text::columns(["id", "when", "status", "site", "what"], rows)
        )
    }
}

/// One of these, with its backtrace if the server was told it.
fn failure(one: &Value, zone: &TimeZone) -> String {
    let text = |key: &str| printable(one[key].as_str().unwrap_or_default());
    let when = text::when(one["last"].as_f64().unwrap_or(0.0), zone);
    let mut lines = format!("{}: {}\n", text("site"), text("what"));
    lines.push_str(&format!(
        "  {when} · answered {} · request {} · id {}\n",
        one["status"],
        text("request"),
        text("id")
    ));
    if one["times"].as_u64().unwrap_or(1) > 1 {
        lines.push_str(&format!("  {} times\n", one["times"]));
    }
    let backtrace: Vec<_> = one["backtrace"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    lines.push_str(if backtrace.is_empty() {
        "  the application answered by itself: its own log has the error under the request's id\n"
    } else {
        "\nBacktrace\n"
    });
    backtrace.iter().for_each(|line| lines.push_str(&format!("  {}\n", printable(line))));
    lines
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
    fn failed_requests_are_no_incidents_and_have_a_table_of_their_own() {
        let one = json!({ "id": "5e6f7a8b", "last": 2.0, "times": 3, "status": 500, "site": "shop", "request": "r1",
            "what": "RuntimeError: no such luck (GET /raise)", "backtrace": ["app.rb:3"] });
        let wanted = "
Requests that failed in the application:
id        when                 status  site  what
5e6f7a8b  1970-01-01 00:00:02  500     shop  RuntimeError: no such luck (GET /raise) (3 times)
";
        assert_eq!(failed(&json!({ "errors": [one] }), &TimeZone::UTC), wanted);
        assert_eq!(failed(&json!({ "errors": [] }), &TimeZone::UTC), "");
        let told = failure(&one, &TimeZone::UTC);
        assert!(
            told.starts_with("shop: RuntimeError: no such luck (GET /raise)\n  1970-01-01 00:00:02 · answered 500 · "),
            "{told}"
        );
        assert!(told.ends_with("  3 times\n\nBacktrace\n  app.rb:3\n"), "{told}");
    }

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
