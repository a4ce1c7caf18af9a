//! `paceline status`: how the running server stands, for people, and as JSON under Puma's names.
//! It never shows what a site is called, or where it lies, as a command to the terminal.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::Value;
use units::{age, grouped, millis};

use super::{
    maintenance::exceptions,
    print_answer, switch,
    text::{number, percent, printable, table, text},
    Asker,
};
use crate::{server::control::client::Failed, support::clock};

const AFTER: &str = "\
The JSON has the names of Puma's statistics (workers, phase, worker_status ...), and beside them each site.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none.";

pub fn status() -> Command {
    Command::new("status")
        .bin_name("paceline status")
        .about("Shows the running server's sites, generations, workers, and requests of the last minute")
        .after_help(AFTER)
        .arg(switch("json").help("As JSON"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/status", None)?;
    print_answer(&answer, matches, page)
}

fn page(status: &Value) -> String {
    let mut page = format!(
        "paceline {}, pid {}, up {}, {}; {}, {} in progress\n",
        text(&status["version"]),
        number(&status["pid"]),
        age(number(&status["uptime"])),
        text(&status["readiness"]),
        counted(number(&status["connections"]["open"]), "connection"),
        counted(number(&status["in_hand"]), "request"),
    );
    for (name, site) in status["sites"].as_object().into_iter().flatten() {
        page.push('\n');
        page.push_str(&of_site(&printable(name), site));
    }
    page
}

/// `since`: seconds since the Unix epoch.
fn seconds_since(since: &Value) -> u64 {
    (clock::unix_seconds() as u64).saturating_sub(number(since))
}

pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn of_site(name: &str, site: &Value) -> String {
    let app = &site["app"];
    let current = app["generations"].as_array().into_iter().flatten().find(|one| one["role"] == "current");
    let mut facts: Vec<String> = Vec::new();
    match site["kind"].as_str() {
        Some("app") => {
            facts.push(text(&app["state"]));
            if let Some(current) = current {
                facts.push(format!("generation {}", number(&current["number"])));
                facts.push(text(&current["versions"]));
            }
            facts.push(text(&site["environment"]));
        }
        Some(kind) => facts.push(kind.to_owned()),
        None => {}
    }
    facts.retain(|fact| !fact.is_empty());
    let mut page = format!("{name}: {}\n  {}\n", facts.join(", "), text(&site["serves"]));
    if site["maintenance"].is_object() {
        let since = age(seconds_since(&site["maintenance"]["since"]));
        let (here, all) = (site["maintenance"]["here"] == true, site["maintenance"]["cluster"] == true);
        let by = if !all {
            ""
        } else if here {
            " by this server, and on all servers"
        } else {
            " on all servers"
        };
        page.push_str(&format!("  CLOSED for maintenance since {since}{by}{}\n", exceptions(&site["maintenance"])));
    }
    if let Some(failure) = app["failure"].as_str() {
        page.push_str(&format!("  {}\n", printable(failure)));
    }
    page.push_str(&requests(site));
    page.push_str(&times(site));
    page.push_str(&crawlers(site));
    page.push_str(&upstream_hosts(site));
    page.push_str(&workers(site));
    page.push_str(&processes(site));
    page
}

/// What crawlers got, where they come last.
fn crawlers(site: &Value) -> String {
    let crawlers = &site["crawlers"];
    if !crawlers.is_object() {
        return String::new();
    }
    let (lately, all) = (&crawlers["lately"], &crawlers["counts"]);
    let mut rows = vec![["crawlers".to_owned(), lately_heading(&site["lately"]), "in all".into()]];
    let share = |of: &Value, requests: &Value| percent(number(&of["requests"]), number(&requests["requests"]));
    rows.push(["of requests".into(), share(lately, &site["lately"]), share(all, &site["counts"])]);
    for (name, key) in [("answered", "answered"), ("stale pages", "stale"), ("refused", "refused")] {
        rows.push([name.into(), grouped(number(&lately[key])), grouped(number(&all[key]))]);
    }
    let waited = |of: &Value| of["queue_ms"]["p50"].as_f64().map_or("-".into(), millis);
    rows.push(["waited (median)".into(), waited(lately), waited(all)]);
    let waiting = match number(&crawlers["waiting"]) {
        0 => String::new(),
        waiting => format!("  crawlers: {}\n", waits(waiting)),
    };
    format!("\n{}{waiting}", table(&rows))
}

/// The hosts of an upstream.
fn upstream_hosts(site: &Value) -> String {
    let mut rows = vec![["host", "state", "pending", "requests", "failures", "first byte"].map(str::to_owned)];
    for host in site["upstream"].as_array().into_iter().flatten() {
        rows.push([
            text(&host["host"]),
            text(&host["state"]),
            grouped(number(&host["pending"])),
            grouped(number(&host["requests"])),
            grouped(number(&host["failures"])),
            host["first_byte_ms"].as_f64().map_or(String::new(), millis),
        ]);
    }
    match rows.len() {
        1 => String::new(),
        _ => format!("\n{}", table(&rows)),
    }
}

/// What was answered: lately, and in all.
fn requests(site: &Value) -> String {
    let lately = &site["lately"];
    let all = &site["counts"];
    let mut rows = vec![["".to_owned(), lately_heading(lately), "in all".into()]];
    let both = |row: &str, of: fn(&Value) -> String| [row.to_owned(), of(lately), of(all)];
    rows.push(both("requests", |counts| grouped(number(&counts["requests"]))));
    for (group, words) in [("status", &["2xx", "3xx", "4xx", "5xx"][..]), ("kind", &KINDS)] {
        for word in words {
            let count = |counts: &Value| number(&counts[group][*word]);
            if count(all) > 0 {
                let share = |counts: &Value| percent(count(counts), number(&counts["requests"]));
                let name = if group == "kind" { format!("by {word}") } else { (*word).to_owned() };
                rows.push([name, share(lately), share(all)]);
            }
        }
    }
    if number(&all["aborted"]) > 0 {
        rows.push(both("clients left", |counts| grouped(number(&counts["aborted"]))));
    }
    rows.push(both("sent", |counts| units::bytes(number(&counts["bytes"]))));
    table(&rows)
}

const KINDS: [&str; 5] = ["cache", "static", "app", "upstream", "front"];

fn lately_heading(lately: &Value) -> String {
    format!("last {}", age(number(&lately["seconds"])))
}

/// Where the time of the last minute went.
fn times(site: &Value) -> String {
    let lately = &site["lately"];
    let mut rows = vec![["", "median", "95 %", "99 %"].map(str::to_owned)];
    for (name, key) in [("total", "total_ms"), ("queue", "queue_ms"), ("app", "app_ms")] {
        let of = |quantile: &str| lately[key][quantile].as_f64().map(millis);
        if let (Some(p50), Some(p95), Some(p99)) = (of("p50"), of("p95"), of("p99")) {
            rows.push([name.to_owned(), p50, p95, p99]);
        }
    }
    match rows.len() {
        1 => String::new(),
        _ => format!("\n{}", table(&rows)),
    }
}

fn workers(site: &Value) -> String {
    if site["kind"] != "app" {
        return String::new();
    }
    let threads = number(&site["threads"]);
    let mut rows = vec![["worker", "pid", "generation", "age", "requests", "busy", ""].map(str::to_owned)];
    for generation in site["app"]["generations"].as_array().into_iter().flatten() {
        for worker in generation["workers"].as_array().into_iter().flatten() {
            let state = match (worker["ready"].as_bool(), generation["role"].as_str(), worker["leaving"].as_bool()) {
                (Some(false), ..) => "boots",
                (_, Some("leaving"), _) | (.., Some(true)) => "finishes",
                (_, Some("next"), _) => "starts with the next generation",
                _ => "",
            };
            rows.push([
                number(&worker["index"]).to_string(),
                number(&worker["pid"]).to_string(),
                number(&generation["number"]).to_string(),
                age(number(&worker["age"])),
                grouped(number(&worker["answered"])),
                busy(worker, threads),
                state.to_owned(),
            ]);
        }
    }
    let mut page = match rows.len() {
        1 => "\n  no workers\n".to_owned(),
        _ => format!("\n{}", table(&rows)),
    };
    let restarts = site["restarts"].as_object().into_iter().flatten();
    let restarts: Vec<_> = restarts
        .filter(|(_, count)| number(count) > 0)
        .map(|(why, count)| format!("{} ({why})", number(count)))
        .collect();
    if !restarts.is_empty() {
        page.push_str(&format!("  workers replaced: {}\n", restarts.join(", ")));
    }
    let waiting = number(&site["queue"]["waiting"]);
    if waiting > 0 {
        page.push_str(&format!("  {} for a worker thread\n", waits(waiting)));
    }
    page
}

/// The threads that have requests; beside them those that have streams, and the connections that the app has taken over.
fn busy(worker: &Value, threads: u64) -> String {
    let mut busy = format!("{}/{threads}", number(&worker["busy"]));
    let (streams, hijacked) = (number(&worker["streams"]), number(&worker["hijacked"]));
    if streams > 0 {
        busy.push_str(&format!(", {}", counted(streams, "stream")));
    }
    if hijacked > 0 {
        busy.push_str(&format!(", {} hijacked (WebSockets)", grouped(hijacked)));
    }
    busy
}

/// What runs beside the workers.
fn processes(site: &Value) -> String {
    let mut rows = vec![["process", "pid", "starts", ""].map(str::to_owned)];
    for process in site["app"]["processes"].as_array().into_iter().flatten() {
        let mut state = text(&process["state"]);
        if let Some(exit) = process["last_exit"].as_str() {
            state.push_str(&format!("; the last one {exit}"));
        }
        let pid = process["pid"].as_u64().map(|pid| pid.to_string()).unwrap_or_default();
        rows.push([text(&process["who"]), pid, grouped(number(&process["starts"])), printable(&state)]);
    }
    match rows.len() {
        1 => String::new(),
        _ => format!("\n{}", table(&rows)),
    }
}

fn waits(waiting: u64) -> String {
    format!("{} wait{}", counted(waiting, "request"), if waiting == 1 { "s" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shop() -> Value {
        let counts = json!({
            "requests": 200, "bytes": 3 << 20, "aborted": 2,
            "status": { "1xx": 0, "2xx": 150, "3xx": 40, "4xx": 0, "5xx": 10 },
            "kind": { "front": 0, "static": 0, "cache": 150, "app": 50, "upstream": 0 },
        });
        let mut lately = counts.clone();
        lately["seconds"] = 65.into();
        lately["total_ms"] = json!({ "p50": 0.021, "p95": 12.5, "p99": 1234.0 });
        lately["app_ms"] = json!({ "p50": 11.0, "p95": 40.25, "p99": 1200.0 });
        let worker = |index, ready, leaving| json!({ "index": index, "pid": 4000 + index, "age": 90, "ready": ready, "leaving": leaving, "answered": 1234, "busy": 2, "streams": if leaving { 12 } else { 0 }, "hijacked": if ready { 0 } else { 1048 } });
        let generations = json!([
            { "role": "current", "number": 7, "versions": "ruby 3.1.2, rack 2.2.6", "workers": [worker(1, true, false), worker(2, false, false)] },
            { "role": "leaving", "number": 6, "versions": "", "workers": [worker(1, true, true)] },
        ]);
        json!({
            "kind": "app", "serves": "/srv/shop\u{1b}[2J", "environment": "production", "threads": 5,
            "app": { "state": "ready", "failure": null, "generations": generations, "processes": [
                { "who": "shop.jobs.1", "pid": 4100, "state": "running", "starts": 2, "last_exit": "exited with status 1" },
                { "who": "shop.clock", "pid": null, "state": "waiting", "starts": 0, "last_exit": null },
            ] },
            "queue": { "waiting": 1, "idle": 3, "busy": 2 }, "restarts": { "crash": 1, "broken": 0 },
            "counts": counts, "lately": lately,
        })
    }

    #[test]
    fn a_page_for_people() {
        let status = json!({
            "version": "0.1.0", "pid": 4711, "uptime": 93_784, "readiness": "ready",
            "connections": { "open": 1 }, "in_hand": 3, "sites": { "shop": shop() },
        });
        let wanted = "\
paceline 0.1.0, pid 4711, up 1 d 2 h, ready; 1 connection, 3 requests in progress

shop: ready, generation 7, ruby 3.1.2, rack 2.2.6, production
  /srv/shop\u{fffd}[2J
                last 1 min 5 s  in all
  requests                 200     200
  2xx                   75.0 %  75.0 %
  3xx                   20.0 %  20.0 %
  5xx                    5.0 %   5.0 %
  by cache              75.0 %  75.0 %
  by app                25.0 %  25.0 %
  clients left               2       2
  sent                  3.0 MB  3.0 MB

          median     95 %    99 %
  total  0.02 ms  12.5 ms  1.23 s
  app    11.0 ms  40.2 ms  1.20 s

  worker   pid  generation         age  requests                              busy
       1  4001           7  1 min 30 s     1,234                               2/5
       2  4002           7  1 min 30 s     1,234  2/5, 1,048 hijacked (WebSockets)  boots
       1  4001           6  1 min 30 s     1,234                   2/5, 12 streams  finishes
  workers replaced: 1 (crash)
  1 request waits for a worker thread

  process       pid  starts
  shop.jobs.1  4100       2  running; the last one exited with status 1
  shop.clock              0  waiting
";
        let page = page(&status);
        assert_eq!(page, wanted, "\n{page}");
    }

    #[test]
    fn crawlers_have_their_own_table_where_they_come_last() {
        let mut site = shop();
        let counts = |requests: u64, waited| json!({ "requests": requests, "answered": requests - 20, "stale": 15, "refused": 5, "queue_ms": waited });
        let (lately, all) = (counts(50, json!({ "p50": 120.0 })), counts(100, Value::Null));
        site["crawlers"] = json!({ "waiting": 3, "busy": 1, "lately": lately, "counts": all });
        let wanted = "
  crawlers         last 1 min 5 s  in all
  of requests              25.0 %  50.0 %
  answered                     30  80
  stale pages                  15  15
  refused                       5  5
  waited (median)          120 ms  -
  crawlers: 3 requests wait
";
        let page = crawlers(&site);
        assert_eq!(page, wanted, "\n{page}");
        assert_eq!(crawlers(&shop()), "");
    }

    #[test]
    fn an_upstream_shows_its_hosts() {
        let host = |host: &str, state, first: Option<f64>| json!({ "host": host, "state": state, "pending": 3, "requests": 1234, "failures": 2, "first_byte_ms": first });
        let hosts =
            json!([host("http://10.0.0.11:3000", "up", Some(12.5)), host("http://10.0.0.12:3000", "failing", None)]);
        let site = json!({ "kind": "upstream", "serves": "x", "counts": { "requests": 0 }, "upstream": hosts });
        let page = of_site("shop", &site);
        let wanted = "
  host                   state    pending  requests  failures  first byte
  http://10.0.0.11:3000  up             3     1,234         2     12.5 ms
  http://10.0.0.12:3000  failing        3     1,234         2
";
        assert!(page.ends_with(wanted), "\n{page}");
    }

    #[test]
    fn a_site_that_is_closed() {
        let maintenance = json!({ "since": clock::unix_seconds() as u64, "allow": ["192.0.2.7"] });
        let closed = of_site("shop", &json!({ "kind": "files", "serves": "/srv", "maintenance": maintenance }));
        assert!(
            closed.contains("\n  CLOSED for maintenance since ") && closed.contains(", but for 192.0.2.7\n"),
            "{closed}"
        );
    }

    #[test]
    fn a_folder_of_files_and_an_app_that_failed() {
        let files = of_site("docs", &json!({ "kind": "files", "serves": "/srv/docs", "counts": { "requests": 0 } }));
        assert!(files.starts_with("docs: files\n  /srv/docs\n"), "{files}");
        assert!(!files.contains("worker"), "{files}");
        let app = json!({ "state": "failed", "failure": "shop did not start (boot): no such file", "generations": [] });
        let failed = of_site("shop", &json!({ "kind": "app", "app": app }));
        assert!(failed.contains("shop: failed\n") && failed.contains("  shop did not start"), "{failed}");
        assert!(failed.contains("no workers"), "{failed}");
    }
}
