//! `paceline requests`: the requests under way in the running server, and where the Ruby thread is that has one of
//! them. It never shows what a client has sent as a command to the terminal.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use serde_json::Value;
use units::millis;

use super::{
    print_answer, switch,
    text::{printable, table, text},
    Asker,
};
use crate::server::control::client::Failed;

const AFTER: &str = "\
Steps: front (looks for a file or page), waiting (for the same page, which another has asked for), reading-body, queued,
app (worker.thread has it), upstream, sending, upgraded (WebSocket). What the cache answers at once is never listed.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none.";
/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(1);
/// Letters of a target that are shown.
const LONGEST: usize = 80;

pub fn requests() -> Command {
    Command::new("requests")
        .bin_name("paceline requests")
        .about("Lists the running server's requests in progress, the oldest first")
        .after_help(AFTER)
        .arg(switch("watch").short('w').help("Repeat every second, until Ctrl-C").conflicts_with("backtrace"))
        .arg(switch("json").help("Print JSON; with --watch one line per second"))
        .arg(
            Arg::new("backtrace")
                .long("backtrace")
                .value_name("NUMBER")
                .value_parser(clap::value_parser!(u64))
                .help("Print the Ruby backtrace of the thread that has this request"),
        )
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let as_json = matches.get_flag("json");
    if let Some(number) = matches.get_one::<u64>("backtrace") {
        let answer = server.ask("GET", &format!("/requests/{number}/backtrace"), None)?;
        return print_answer(&answer, matches, backtrace);
    }
    if !matches.get_flag("watch") {
        let answer = server.ask("GET", "/requests", None)?;
        return print_answer(&answer, matches, page);
    }
    let clears = std::io::stdout().is_terminal() && !as_json;
    loop {
        let answer = server.ask("GET", "/requests", None)?;
        let text = if as_json { format!("{answer}\n") } else { page(&answer) };
        let clear = if clears { "\x1b[H\x1b[2J" } else { "" };
        let mut out = std::io::stdout();
        if out.write_all(format!("{clear}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
            // Whoever has read it has gone.
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(EVERY);
    }
}

fn seconds(value: &Value) -> String {
    millis(value.as_f64().unwrap_or(0.0) * 1000.0)
}

fn page(answer: &Value) -> String {
    let requests: Vec<_> = answer["requests"].as_array().into_iter().flatten().collect();
    if requests.is_empty() {
        return "no requests in progress\n".into();
    }
    let sites = requests.iter().any(|one| one["site"] != requests[0]["site"]);
    let mut rows = vec![["number", "age", "step", "for", "worker", "client", "request"].map(str::to_owned)];
    rows.extend(requests.iter().map(|request| {
        let site = if sites { format!("{}: ", text(&request["site"])) } else { String::new() };
        [
            request["number"].to_string(),
            seconds(&request["age"]),
            step(request),
            seconds(&request["step_age"]),
            worker(request),
            client(request),
            format!("{site}{} {}", text(&request["method"]), shortened(&text(&request["target"]))),
        ]
    }));
    table(&rows)
}

/// The address, and the name of somebody who has signed in.
fn client(request: &Value) -> String {
    let address = request["client"].as_str().map_or_else(|| "-".into(), printable);
    match request["user"].as_str() {
        Some(user) => format!("{address} {}", printable(user)),
        None => address,
    }
}

fn step(request: &Value) -> String {
    match request["client_is"].as_str() {
        Some("gone") => format!("{}, client gone", text(&request["step"])),
        // Only the app has still something to do.
        Some("answered") => "after the reply".into(),
        _ => text(&request["step"]),
    }
}

/// As `2.5`: thread 5 of worker 2.
fn worker(request: &Value) -> String {
    let worker = &request["worker"];
    match (worker["index"].as_u64(), worker["thread"].as_u64()) {
        (Some(index), Some(thread)) => format!("{index}.{thread}"),
        (None, Some(thread)) => format!("?.{thread}"),
        _ => "-".into(),
    }
}

fn shortened(target: &str) -> String {
    match target.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &target[..end]),
        None => target.to_owned(),
    }
}

fn backtrace(answer: &Value) -> String {
    let mut page = format!(
        "{} {}, {} old, {}: {}, pid {}, thread {}\n",
        text(&answer["method"]),
        shortened(&text(&answer["target"])),
        seconds(&answer["age"]),
        step(answer),
        format_args!("{}.{}", text(&answer["site"]), answer["worker"]["index"]),
        answer["worker"]["pid"],
        answer["worker"]["thread"],
    );
    for line in answer["backtrace"].as_array().into_iter().flatten() {
        page.push_str(&format!("    {}\n", text(line)));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request() -> Value {
        json!({
            "number": 4711, "id": "a", "age": 12.34, "step": "app", "step_age": 12.3, "site": "shop", "method": "GET",
            "target": "/slow?\u{1b}[2J", "client": "192.0.2.7", "client_is": "waits",
            "worker": { "index": 2, "pid": 99, "thread": 5, "generation": 7 },
        })
    }

    #[test]
    fn a_table() {
        assert_eq!(page(&json!({ "requests": [] })), "no requests in progress\n");
        let mut queued = request();
        for (name, value) in [
            ("number", json!(5)),
            ("age", json!(0.004)),
            ("step_age", json!(0.0)),
            ("step", json!("queued")),
            ("worker", Value::Null),
            ("client", Value::Null),
            ("target", json!("/".repeat(100))),
        ] {
            queued[name] = value;
        }
        let mut left = request();
        (left["client_is"], left["age"]) = (json!("gone"), json!(7384));
        let wanted = format!(
            "  \
  number       age  step              for     worker  client     request
    4711    12.3 s  app               12.3 s  2.5     192.0.2.7  GET /slow?\u{fffd}[2J
       5   4.00 ms  queued           0.00 ms  -       -          GET {}...
    4711  2 h 3 min  app, client gone  12.3 s  2.5     192.0.2.7  GET /slow?\u{fffd}[2J
",
            "/".repeat(80)
        );
        let page = page(&json!({ "requests": [request(), queued, left] }));
        let columns = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(columns(&page), columns(&wanted), "\n{page}");
        assert!(page.lines().all(|line| !line.ends_with(' ')), "{page}");
    }

    #[test]
    fn sites_are_told_apart_where_there_are_several() {
        let mut other = request();
        other["site"] = "docs".into();
        other["client_is"] = "answered".into();
        let page = page(&json!({ "requests": [request(), other] }));
        assert!(page.contains("shop: GET /slow") && page.contains("docs: GET /slow"), "{page}");
        assert!(page.contains("after the reply"), "{page}");
    }

    #[test]
    fn a_backtrace() {
        let mut answer = request();
        answer["backtrace"] = json!(["/srv/shop/config.ru:3:in `sleep'", "/srv/\u{1b}x:1"]);
        let wanted = "\
GET /slow?\u{fffd}[2J, 12.3 s old, app: shop.2, pid 99, thread 5
    /srv/shop/config.ru:3:in `sleep'
    /srv/\u{fffd}x:1
";
        assert_eq!(backtrace(&answer), wanted);
    }
}
