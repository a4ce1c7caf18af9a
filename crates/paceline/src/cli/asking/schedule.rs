//! `paceline schedule` and `paceline preview`: pages of the running server that change at a known time, and one page as it
//! will be. It never shows what stands in a URL as a command to the terminal.

use std::{collections::BTreeMap, io::Write, process::ExitCode, time::Duration};

use base64::{prelude::BASE64_STANDARD, Engine};
use clap::{Arg, ArgMatches, Command};
use serde_json::{json, Value};
use units::{age, grouped, parse_duration};

use super::{print, print_answer, switch, text::printable, Asker};
use crate::{cli::expected::Expected, observe::local_time::local_time, server::control::client::Failed};

const SCHEDULE_AFTER: &str = "\
Pages are ready (rendered, and shown from the time on), dynamic (the application renders them when they are asked for; why is said),
waiting, preparing, or, after the time, swapped; those that differ are not what the application now says.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none.";

const PREVIEW_AFTER: &str = "\
The page is rendered by a copy of the application whose clock is set to the time, as for a visitor without cookies. The copy writes
nothing. TIME is like \"tomorrow 12:00\", \"friday 09:30\", \"2026-11-27 12:00 Europe/Berlin\", \"12:00\" or \"+2h\".

  paceline preview /sales --at \"tomorrow 12:00\" > sales.html
  paceline preview /sales --at \"tomorrow 12:00\" --link    a link for editors, good for a day

Exit status: 0 when there is such a page, 1 when it can't be rendered or there is no server.";

/// A page may take a while.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn schedule() -> Command {
    Command::new("schedule")
        .bin_name("paceline schedule")
        .about("Shows when pages of the running server change, and which are prepared")
        .after_help(SCHEDULE_AFTER)
        .arg(switch("pages").help("List each page"))
        .arg(switch("json").help("Print JSON"))
}

pub fn preview() -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("preview")
        .bin_name("paceline preview")
        .about("Prints a page of the running server as it will be")
        .after_help(PREVIEW_AFTER)
        .arg(Arg::new("path").value_name("PATH").required(true).help("Path and query, like /sales?page=2"))
        .arg(option("at", "TIME").required(true).help("When, like \"tomorrow 12:00\""))
        .arg(option("host", "HOST").help("The host that the page is asked for on [default: the site's first]"))
        .arg(switch("https").help("As asked for by https"))
        .arg(option("site", "NAME").help("Which site, if the server has several"))
        .arg(switch("headers").help("Print status and headers before the page"))
        .arg(switch("link").help("Print a signed link that shows the page, instead of the page"))
        .arg(
            option("for", "TIME")
                .requires("link")
                .value_parser(|text: &str| parse_duration(text).ok_or(Expected("a time like 30m, 12h or 7d")))
                .help("How long the link is good for, 30d at most [default: 1d]"),
        )
}

pub fn run_schedule(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/schedule", None)?;
    print_answer(&answer, matches, |answer| shown(answer, matches.get_flag("pages")))
}

/// The body of POST /preview.
fn wish(matches: &ArgMatches) -> Value {
    let text = |name: &str| matches.get_one::<String>(name);
    let time = matches.get_one::<Duration>("for").map(|time| time.as_millis() as u64);
    json!({
        "path": text("path"), "at": text("at"), "host": text("host"), "site": text("site"),
        "https": matches.get_flag("https"), "link": matches.get_flag("link"), "for": time,
    })
}

pub fn run_preview(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask_patiently("POST", "/preview", Some(&wish(matches)), PATIENCE)?;
    if let Some(link) = answer["link"].as_str() {
        return print(&linked(&answer, link, matches));
    }
    let body = answer["body"].as_str().and_then(|body| BASE64_STANDARD.decode(body).ok()).unwrap_or_default();
    let mut bytes = if matches.get_flag("headers") { head(&answer).into_bytes() } else { Vec::new() };
    bytes.extend(body);
    // A reader that went away is no failure.
    let _ = std::io::stdout().write_all(&bytes);
    Ok(ExitCode::SUCCESS)
}

fn linked(answer: &Value, link: &str, matches: &ArgMatches) -> String {
    let named =
        answer["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).find(|host| !host.contains('*'));
    let host = matches.get_one::<String>("host").map(String::as_str).or(named);
    let scheme = if matches.get_flag("https") { "https" } else { "http" };
    match host {
        Some(host) => format!("{scheme}://{host}{link}\n"),
        // The server has no host of its own: the one who opens it knows by which it is reached.
        None => format!("{link}\n"),
    }
}

fn head(answer: &Value) -> String {
    let mut text = format!("HTTP/1.1 {}\n", answer["status"]);
    for pair in answer["headers"].as_array().into_iter().flatten() {
        let part = |index: usize| printable(pair[index].as_str().unwrap_or(""));
        text.push_str(&format!("{}: {}\n", part(0), part(1)));
    }
    text + "\n"
}

/// The schedule for people.
fn shown(answer: &Value, all: bool) -> String {
    let mut text = String::new();
    let sites: Vec<_> = answer["sites"].as_object().into_iter().flatten().collect();
    for (name, plans) in &sites {
        for plan in plans.as_array().into_iter().flatten() {
            let site = if sites.len() > 1 { format!("{}: ", printable(name)) } else { String::new() };
            text.push_str(&format!("{site}{}\n", line(plan)));
            if all {
                text.push_str(&pages(plan));
            }
        }
    }
    if text.is_empty() {
        text.push_str("Nothing is scheduled: add [[scheduled]] to paceline.toml, or say Paceline.changes_at(time) in an action.\n");
    }
    text
}

/// `12:00:00 in 3 min: 214 pages ready, 3 stay dynamic (NOW() in SQL: app/models/sale.rb:12)`
fn line(plan: &Value) -> String {
    let at = plan["at"].as_u64().unwrap_or(0) as f64 / 1000.0;
    let left = plan["in"].as_i64().unwrap_or(0) / 1000;
    let format = if left.abs() < 43_200 { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    let when = match left {
        0.. => format!("{} in {}", local_time(at, format), age(left.unsigned_abs())),
        _ => format!("{}, {} ago", local_time(at, format), age(left.unsigned_abs())),
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut why: BTreeMap<String, u64> = BTreeMap::new();
    for page in plan["pages"].as_array().into_iter().flatten() {
        let state = page["state"].as_str().unwrap_or("");
        *counts.entry(state).or_default() += 1;
        if state == "dynamic" {
            *why.entry(reason(page)).or_default() += 1;
        }
    }
    let count = |state: &str| counts.get(state).copied().unwrap_or(0);
    let pages = |count: u64| if count == 1 { "1 page".to_owned() } else { format!("{} pages", grouped(count)) };
    let mut parts = Vec::new();
    if plan["has_changed"].as_bool() == Some(true) {
        parts.push(format!("{} changed", pages(count("swapped") + count("differs"))));
        if count("differs") > 0 {
            parts.push(format!("{} of them not as the application now says", grouped(count("differs"))));
        }
    } else if plan["is_prepared"].as_bool() == Some(true) {
        parts.push(format!("{} ready", pages(count("ready"))));
        let under_way = count("waiting") + count("preparing");
        if under_way > 0 {
            parts.push(format!("{} being prepared", grouped(under_way)));
        }
    } else {
        let from = plan["prepared_from"].as_u64().unwrap_or(0) as f64 / 1000.0;
        let ready = count("ready");
        let so_far = if ready > 0 { format!("{} ready from before, ", pages(ready)) } else { String::new() };
        parts.push(format!("{so_far}prepared from {}", local_time(from, "%H:%M:%S")));
    }
    if count("dynamic") > 0 {
        let mut reasons: Vec<_> = why.into_iter().collect();
        reasons.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let more = if reasons.len() > 1 { format!(" and {} more reasons", reasons.len() - 1) } else { String::new() };
        let first = reasons.first().map(|(why, _)| why.as_str()).unwrap_or("");
        parts.push(format!("{} stay dynamic ({first}{more})", grouped(count("dynamic"))));
    }
    format!("{when}: {}", parts.join(", "))
}

fn reason(page: &Value) -> String {
    let said = |key: &str| printable(page[key].as_str().unwrap_or(""));
    match said("at") {
        at if at.is_empty() => said("why"),
        at => format!("{}: {at}", said("why")),
    }
}

fn pages(plan: &Value) -> String {
    let mut text = String::new();
    for page in plan["pages"].as_array().into_iter().flatten() {
        let said = |key: &str| printable(page[key].as_str().unwrap_or(""));
        let why = reason(page);
        let why = if why.is_empty() { why } else { format!("  ({why})") };
        text.push_str(&format!("  {:9}  {}{why}\n", said("state"), said("url")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pages: Value, left: i64, is_prepared: bool) -> Value {
        let at = 1_795_780_800_000i64;
        let has_changed = left < 0;
        json!({ "at": at, "in": left * 1000, "prepared_from": at - 600_000, "is_prepared": is_prepared, "has_changed": has_changed,
                "pages": pages })
    }

    fn page(state: &str, why: &str, at: &str) -> Value {
        json!({ "url": "http://shop.test/\u{1b}", "state": state, "why": why, "at": at })
    }

    #[test]
    fn the_schedule_reads_well() {
        let dynamic = || page("dynamic", "NOW() in SQL", "app/models/sale.rb:12");
        let ready = || page("ready", "", "");
        for (plan, told) in [
            (
                plan(json!([ready(), ready(), dynamic()]), 180, true),
                "2 pages ready, 1 stay dynamic (NOW() in SQL: app/models/sale.rb:12)",
            ),
            (
                plan(json!([dynamic(), dynamic(), page("dynamic", "status 404", "")]), 180, true),
                "0 pages ready, 3 stay dynamic (NOW() in SQL: app/models/sale.rb:12 and 1 more reasons)",
            ),
            (plan(json!([ready(), page("preparing", "", "")]), 180, true), "1 page ready, 1 being prepared"),
            (
                plan(json!([page("swapped", "", ""), page("differs", "a became b", "")]), -60, true),
                "2 pages changed, 1 of them not as the application now says",
            ),
        ] {
            let line = line(&plan);
            assert!(line.ends_with(&format!(": {told}")), "{line}");
        }
        let early = line(&plan(json!([]), 7_200, false));
        assert!(early.contains(" in 2 h") && early.contains("prepared from "), "{early}");
        let listed = pages(&plan(json!([dynamic()]), 1, true));
        assert_eq!(listed, "  dynamic    http://shop.test/\u{fffd}  (NOW() in SQL: app/models/sale.rb:12)\n");
        assert!(shown(&json!({ "sites": {} }), false).starts_with("Nothing is scheduled"));
    }

    #[test]
    fn what_is_asked_for() {
        let words = "preview /sales?a=1 --at +2h --host shop.test --link --for 2h".split_whitespace();
        let asked = wish(&preview().get_matches_from(words));
        assert_eq!(
            asked,
            json!({ "path": "/sales?a=1", "at": "+2h", "host": "shop.test", "site": null, "https": false, "link": true, "for": 7_200_000 })
        );
    }
}
