//! `paceline cluster`: the servers that the running one shares its purges with. It never shows the address with its
//! password: the server does not tell it.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::Value;

use super::{
    print, switch,
    text::{age, grouped, millis, printable, size},
    Asker,
};
use crate::observe::control::client::Failed;

const AFTER: &str = "\
A member is behind by the purges that it has not applied yet. One that is silent asks the application before it shows a cached page.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none, or it is alone.";

pub fn command() -> Command {
    Command::new("cluster")
        .bin_name("paceline cluster")
        .about("Shows the servers that the running one shares its purges with")
        .after_help(AFTER)
        .arg(switch("json").help("Print JSON"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/cluster", None)?;
    print(&match matches.get_flag("json") {
        true => format!("{answer:#}\n"),
        false => shown(&answer),
    })
}

fn shown(cluster: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or(""));
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
    lines
}

/// What this server has had from the pages that all share. Nothing, if they share none.
fn shared_cache(tier: &Value) -> String {
    if tier.is_null() {
        return String::new();
    }
    let count = |key: &str| grouped(tier[key].as_u64().unwrap_or(0));
    let bytes = |key: &str| size(tier[key].as_u64().unwrap_or(0));
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
the shared cache is skipped for 400.0 ms: no answer in 20 ms\u{fffd}

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
