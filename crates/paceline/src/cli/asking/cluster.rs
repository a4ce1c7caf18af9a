//! `paceline cluster`: the servers of the running one's cluster, and how each is doing. It never shows the address with its
//! password: the server does not tell it.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::Value;
use units::{age, grouped, millis};

use super::{
    print_answer, switch,
    text::{printable, table, text},
    Asker,
};
use crate::server::control::client::Failed;

const AFTER: &str = "\
A member is behind by the purges that it has not applied yet. A silent member asks the application before it shows a cached page.
Requests per second and p99 are those of the last minute, cache hits those since the server began. Members report once a second,
and at once when maintenance or a restart has changed something.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none, or it is alone.";

pub fn command() -> Command {
    Command::new("cluster")
        .bin_name("paceline cluster")
        .about("Shows the servers of the running one's cluster, and how each is doing")
        .after_help(AFTER)
        .arg(switch("json").help("Print JSON"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/cluster", None)?;
    print_answer(&answer, matches, shown)
}

fn shown(cluster: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let members: Vec<_> = cluster["members"].as_array().into_iter().flatten().collect();
    let mut lines = format!("{}, by {}", text(&cluster["name"]), text(&cluster["server"]));
    if cluster["primary"].is_string() {
        lines.push_str(&format!(", primary {}", text(&cluster["primary"])));
    }
    lines.push_str(&match cluster["trouble"].as_str() {
        Some(why) => format!(": not reached: {}\n", printable(why)),
        None if members.len() == 1 => ": 1 server\n".into(),
        None => format!(": {} servers\n", members.len()),
    });
    lines.push_str(match cluster["shows_pages"].as_bool() {
        Some(true) => "this server shows pages from its cache\n",
        _ => "this server asks the application for each page: it does not know what the others have purged\n",
    });
    let (unsent, unconfirmed) = (number(&cluster["unsent"]), number(&cluster["unconfirmed"]));
    lines.push_str(&format!(
        "purges in flight: {} to send, {} to be confirmed\n",
        grouped(unsent),
        grouped(unconfirmed)
    ));
    lines.push_str(&shared_cache(&cluster["shared_cache"]));
    lines.push_str(&shared_rate_limits(&cluster["shared_rate_limits"]));
    lines.push_str(&closed(&cluster["closed"]));
    if members.is_empty() {
        return lines;
    }
    let title = ["SERVER", "VERSION", "APPLIED", "BEHIND", "UNSENT", "SEEN"].map(String::from);
    let rows = members.iter().map(|member| {
        let this = if member["is_this"] == true { " this" } else { "" };
        let seen = format!("{} ago", age(number(&member["silent_ms"]) / 1000));
        [
            format!("{} pid {}{this}", text(&member["host"]), number(&member["pid"])),
            text(&member["version"]),
            grouped(number(&member["applied"])),
            grouped(number(&member["behind"])),
            grouped(number(&member["unsent"])),
            if member["is_silent"] == true { format!("silent, {seen}") } else { seen },
        ]
    });
    let rows: Vec<_> = std::iter::once(title).chain(rows).collect();
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    lines.push('\n');
    for row in &rows {
        let cell = |(column, cell): (usize, &String)| {
            let space = " ".repeat(wide(column) - cell.chars().count());
            // Numbers end in one column.
            if (2..5).contains(&column) {
                format!("{space}{cell}")
            } else {
                format!("{cell}{space}")
            }
        };
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        lines.push_str(cells.join("  ").trim_end());
        lines.push('\n');
    }
    lines.push_str(&doing(&members));
    lines
}

/// How each member is doing.
fn doing(members: &[&Value]) -> String {
    if members.iter().all(|member| member["status"].is_null()) {
        return String::new();
    }
    let title = ["SERVER", "GENERATION", "WORKERS", "REQ/S", "P99", "QUEUE", "CACHE HITS", "STATE"].map(String::from);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let rows = members.iter().filter(|member| member["is_silent"] != true).map(|member| {
        let status = &member["status"];
        let name = text(&member["host"]);
        let generation = match (number(&status["generation"]), status["release"].as_str().unwrap_or("")) {
            (0, _) if number(&status["apps"]) > 1 => format!("{} apps", number(&status["apps"])),
            (0, _) => "-".into(),
            (generation, "") => generation.to_string(),
            (generation, release) => format!("{generation} {}", printable(release)),
        };
        let ratio = match number(&status["asked"]) {
            0 => "-".into(),
            asked => format!("{:.1} %", number(&status["hits"]) as f64 / asked as f64 * 100.0),
        };
        [
            format!("{name} pid {}", number(&member["pid"])),
            generation,
            format!("{} of {}", number(&status["workers"]), number(&status["workers_wanted"])),
            format!("{:.1}", status["per_second"].as_f64().unwrap_or(0.0)),
            status["p99_ms"].as_f64().map_or("-".into(), millis),
            grouped(number(&status["waiting"])),
            ratio,
            state(member).join(", "),
        ]
    });
    let rows: Vec<_> = std::iter::once(title).chain(rows).collect();
    // As far to the left as the table before it.
    let lines = table(&rows);
    std::iter::once("\n".to_owned())
        .chain(lines.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))))
        .collect()
}

/// What a member is occupied with, in words.
fn state(member: &Value) -> Vec<String> {
    let number = |key: &str| member["status"][key].as_u64().unwrap_or(0);
    let mut words = Vec::new();
    if member["status"].is_null() {
        return vec!["its Paceline is older".into()];
    }
    match (number("closed"), number("closed_here"), number("sites")) {
        (0, ..) => {}
        (closed, 0, sites) => words.push(format!("closed: {closed} of {sites}")),
        (closed, here, sites) => words.push(format!("closed: {closed} of {sites}, {here} by itself")),
    }
    if member["knows_closed"] == false {
        words.push("has not heard the last `maintenance --cluster`".into());
    }
    match member["restart"]["state"].as_str() {
        Some("restarting" | "watching") => words.push("restarting (--rolling)".into()),
        Some("failed") => words.push("its last --rolling restart failed".into()),
        _ if number("restarting") > 0 => words.push("restarting".into()),
        _ => {}
    }
    if number("failing") > 0 {
        words.push("the last start failed".into());
    }
    words
}

/// What is closed on all servers. Nothing, if nothing is.
fn closed(closed: &Value) -> String {
    let names = |key: &str| -> String {
        let names: Vec<_> =
            closed[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(printable).collect();
        names.join(", ")
    };
    match (closed["all"] == true, names("sites"), names("open")) {
        (true, _, open) if open.is_empty() => "closed for maintenance on all servers: all sites\n".into(),
        (true, _, open) => format!("closed for maintenance on all servers: all sites but {open}\n"),
        (false, sites, _) if sites.is_empty() => String::new(),
        (false, sites, _) => format!("closed for maintenance on all servers: {sites}\n"),
    }
}

/// For `paceline maintenance status --cluster`.
pub fn maintenance_of_all(cluster: &Value) -> String {
    let mut lines = match closed(&cluster["closed"]) {
        none if none.is_empty() => "nothing is closed for maintenance on all servers\n".to_owned(),
        closed => closed,
    };
    if let Some(why) = cluster["trouble"].as_str() {
        let server = text(&cluster["server"]);
        lines.push_str(&format!(
            "{server} can't be reached: {}. The state of the other servers is unknown\n",
            printable(why)
        ));
    }
    for member in cluster["members"].as_array().into_iter().flatten() {
        let number = |key: &str| member["status"][key].as_u64().unwrap_or(0);
        let name = text(&member["host"]);
        let state = match (member["is_silent"] == true, number("closed"), number("sites")) {
            (true, ..) => format!("silent for {}: not known", age(member["silent_ms"].as_u64().unwrap_or(0) / 1000)),
            _ if member["status"].is_null() => "its Paceline is older: not known".into(),
            (_, 0, _) => "open".into(),
            (_, closed, sites) => match number("closed_here") {
                0 => format!("{closed} of {sites} sites are closed"),
                here => format!("{closed} of {sites} sites are closed, {here} by that server"),
            },
        };
        let late = if member["knows_closed"] == false { "; it has not heard the last change" } else { "" };
        lines.push_str(&format!("{name} (pid {}): {state}{late}\n", member["pid"].as_u64().unwrap_or(0)));
    }
    lines
}

/// What this server has had from the pages that all share. Nothing, if they share none.
fn shared_cache(tier: &Value) -> String {
    if tier.is_null() {
        return String::new();
    }
    let count = |key: &str| grouped(tier[key].as_u64().unwrap_or(0));
    let bytes = |key: &str| units::bytes(tier[key].as_u64().unwrap_or(0));
    let mut line = format!(
        "shared cache: {} hits, {} misses, {} read, {} written, {} errors, {} skipped, {} late",
        count("hits"),
        count("misses"),
        bytes("bytes_read"),
        bytes("bytes_written"),
        count("errors"),
        count("skipped"),
        count("late"),
    );
    if let Some(why) = tier["trouble"].as_str() {
        line.push_str(&match tier["open_for_ms"].as_u64().unwrap_or(0) {
            0 => format!("\nthe shared cache is tried again: {}", printable(why)),
            left => format!("\nthe shared cache is skipped for {}: {}", millis(left as f64), printable(why)),
        });
    }
    line.push('\n');
    line
}

/// Whom this server has let in by what all have counted. Nothing, if its limits are its own.
fn shared_rate_limits(rates: &Value) -> String {
    if rates.is_null() {
        return String::new();
    }
    let count = |key: &str| grouped(rates[key].as_u64().unwrap_or(0));
    let mut line = format!(
        "shared rate limits: {} admitted, {} refused, {} errors, {} skipped\n",
        count("admitted"),
        count("refused"),
        count("errors"),
        count("skipped"),
    );
    if let Some(why) = rates["trouble"].as_str() {
        line.push_str(&format!("rate limits count the requests of this server alone: {}\n", printable(why)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member(more: Value) -> Value {
        let mut member = json!({
            "host": "web1", "pid": 12, "is_silent": false, "knows_closed": true,
            "status": {
                "sites": 2, "closed": 0, "closed_here": 0, "apps": 1, "restarting": 0, "failing": 0, "generation": 4,
                "release": "20261126", "workers": 3, "workers_wanted": 4, "per_second": 120.46, "p99_ms": 48.1, "waiting": 1200,
                "hits": 3, "asked": 4,
            },
        });
        for (key, value) in more.as_object().unwrap() {
            match value {
                Value::Object(inner) if key == "status" => {
                    inner.iter().for_each(|(key, value)| member["status"][key] = value.clone())
                }
                value => member[key] = value.clone(),
            }
        }
        member
    }

    #[test]
    fn how_each_is_doing() {
        let members = [
            member(json!({})),
            member(
                json!({ "pid": 7, "status": { "apps": 2, "generation": 0, "asked": 0, "p99_ms": null, "closed": 2, "closed_here": 1 } }),
            ),
            member(json!({ "pid": 8, "restart": { "state": "watching" }, "knows_closed": false })),
            member(json!({ "pid": 9, "is_silent": true })),
        ];
        let wanted = "
SERVER       GENERATION  WORKERS  REQ/S      P99  QUEUE  CACHE HITS  STATE
web1 pid 12  4 20261126   3 of 4  120.5  48.1 ms  1,200      75.0 %
web1 pid 7   2 apps       3 of 4  120.5        -  1,200           -  closed: 2 of 2, 1 by itself
web1 pid 8   4 20261126   3 of 4  120.5  48.1 ms  1,200      75.0 %  has not heard the last `maintenance --cluster`, restarting (--rolling)
";
        let shown = doing(&members.iter().collect::<Vec<_>>());
        let spaces = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(spaces(&shown), spaces(wanted), "{shown}");
        assert_eq!(doing(&[&member(json!({ "status": null }))]), "");
    }

    #[test]
    fn what_is_closed_on_all() {
        let shown =
            |all: bool, sites: &[&str], open: &[&str]| closed(&json!({ "all": all, "sites": sites, "open": open }));
        assert_eq!(shown(false, &[], &[]), "");
        assert_eq!(shown(false, &["a", "b"], &[]), "closed for maintenance on all servers: a, b\n");
        assert_eq!(shown(true, &[], &["a"]), "closed for maintenance on all servers: all sites but a\n");
        let members = [
            member(json!({})),
            member(json!({ "pid": 7, "status": { "closed": 2, "closed_here": 1 } })),
            member(json!({ "pid": 9, "is_silent": true, "silent_ms": 8000, "knows_closed": false })),
        ];
        let cluster = json!({ "closed": { "all": true, "sites": [], "open": [] }, "server": "10.0.0.5", "trouble": "refused", "members": members });
        let wanted = "\
closed for maintenance on all servers: all sites
10.0.0.5 can't be reached: refused. The state of the other servers is unknown
web1 (pid 12): open
web1 (pid 7): 2 of 2 sites are closed, 1 by that server
web1 (pid 9): silent for 8 s: not known; it has not heard the last change
";
        assert_eq!(maintenance_of_all(&cluster), wanted);
    }

    #[test]
    fn members_stand_in_a_table() {
        let member = |host: &str, is_this: bool, applied: u64, is_silent: bool| {
            json!({
                "host": host, "pid": 12, "version": "0.1.0", "applied": applied, "behind": 1204 - applied, "unsent": 0,
                "is_silent": is_silent, "silent_ms": if is_silent { 12_000 } else { 0 }, "is_this": is_this,
            })
        };
        let members = [member("web1", true, 1204, false), member("web2\u{1b}", false, 1200, true)];
        let cluster = json!({
            "name": "shop", "server": "10.0.0.5:6379", "trouble": null, "shows_pages": true, "unsent": 0, "unconfirmed": 1,
            "members": members,
        });
        let wanted = "\
shop, by 10.0.0.5:6379: 2 servers
this server shows pages from its cache
purges in flight: 0 to send, 1 to be confirmed

SERVER            VERSION  APPLIED  BEHIND  UNSENT  SEEN
web1 pid 12 this  0.1.0      1,204       0       0  0 s ago
web2\u{fffd} pid 12      0.1.0      1,200       4       0  silent, 12 s ago
";
        assert_eq!(shown(&cluster), wanted);
        let mut sharing = cluster;
        sharing["shared_cache"] = json!({
            "hits": 12_000, "misses": 3, "bytes_read": 1 << 20, "bytes_written": 2048, "errors": 5, "skipped": 7, "late": 1,
            "open_for_ms": 400, "trouble": "no answer in 20 ms\u{1b}",
        });
        let line = "\
purges in flight: 0 to send, 1 to be confirmed
shared cache: 12,000 hits, 3 misses, 1.0 MB read, 2.0 KB written, 5 errors, 7 skipped, 1 late
the shared cache is skipped for 400 ms: no answer in 20 ms\u{fffd}

SERVER";
        assert!(shown(&sharing).contains(line), "{}", shown(&sharing));
        sharing["primary"] = json!("10.0.0.6:6379");
        sharing["shared_rate_limits"] =
            json!({ "admitted": 1200, "refused": 3, "errors": 5, "skipped": 7, "trouble": "no answer in 20 ms" });
        let screen = shown(&sharing);
        assert!(screen.starts_with("shop, by 10.0.0.5:6379, primary 10.0.0.6:6379: 2 servers\n"), "{screen}");
        let lines = "
shared rate limits: 1,200 admitted, 3 refused, 5 errors, 7 skipped
rate limits count the requests of this server alone: no answer in 20 ms

SERVER";
        assert!(screen.contains(lines), "{screen}");
        let lost =
            json!({ "name": "shop", "server": "10.0.0.5:6379", "trouble": "refused", "unsent": 2, "members": [] });
        assert_eq!(
            shown(&lost),
            "shop, by 10.0.0.5:6379: not reached: refused\n\
             this server asks the application for each page: it does not know what the others have purged\n\
             purges in flight: 2 to send, 0 to be confirmed\n"
        );
    }
}
