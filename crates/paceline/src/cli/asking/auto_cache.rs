//! `paceline cache advise`, `why`, `serve` and `stop`: what the automatic page cache of the running server has watched, and which
//! routes it may show.
//! It never shows what stands in a page or a URL as a command to the terminal.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::{json, Value};
use units::grouped;

use super::{
    print, print_answer, switch,
    text::{number, printable, text},
    Asker, Subcommand,
};
use crate::{observe::local_time::local_time, server::control::client::Failed};

const ADVISE_AFTER: &str = "\
For each route: how many of its requests a cache could have answered, what its pages read, what they vary by, and how many of the pages
that the cache would have shown differed from the application's. Of a route that can't be cached: why, and the line that reads it.
The last lines sum up which lines of the application keep the most pages out, and how many could be hits at most without these.
With `mode = \"verify\"` or `\"serve\"` also how far the route has come: learning, verifying, ready, serving, or off, and why.
Needs `[auto_cache]` in paceline.toml.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none.";

pub const COMMANDS: &[Subcommand] = &[
    Subcommand { name: "advise", about: "", command: advise, run: run_advise },
    Subcommand { name: "why", about: "", command: why, run: run_why },
    Subcommand { name: "serve", about: "", command: serve, run: |server, own| run_turn(server, own, true) },
    Subcommand { name: "stop", about: "", command: stop, run: |server, own| run_turn(server, own, false) },
];

fn advise() -> Command {
    Command::new("advise")
        .about("What an automatic page cache would do, for each route ([auto_cache])")
        .after_help(ADVISE_AFTER)
        .arg(switch("json").help("As JSON"))
}

fn why() -> Command {
    Command::new("why")
        .about("What one page read, what it varies by, and who wrote that last ([auto_cache])")
        .arg(Arg::new("page").value_name("URL").required(true).help("Like https://shop.test/beers/1"))
        .arg(switch("json").help("As JSON"))
}

const ROUTE: &str = "A path like /beers/*, as `paceline cache advise` prints it";

fn serve() -> Command {
    Command::new("serve")
        .about("Lets a route of the automatic page cache that is off begin once more: it learns, is compared, and is served ([auto_cache])")
        .arg(Arg::new("route").value_name("ROUTE").required(true).help(ROUTE))
}

fn stop() -> Command {
    Command::new("stop")
        .about("Turns a route of the automatic page cache off, until `paceline cache serve` ([auto_cache])")
        .after_help("Its pages are dropped at once. It stays off when the server is restarted.")
        .arg(Arg::new("route").value_name("ROUTE").required(true).help(ROUTE))
}

fn run_turn(server: &Asker, matches: &ArgMatches, serve: bool) -> Result<ExitCode, Failed> {
    let route = matches.get_one::<String>("route");
    let answer = server.ask("POST", "/cache/route", Some(&json!({ "route": route, "serve": serve })))?;
    let sites: Vec<String> = list(&answer["sites"]).filter_map(Value::as_str).map(printable).collect();
    let what = if serve { "begins to learn" } else { "is off" };
    print(&format!("{} {what}: {}\n", said(&answer, "route"), sites.join(", ")))
}

fn run_advise(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/cache/advise", None)?;
    print_answer(&answer, matches, advice)
}

fn run_why(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let url = matches.get_one::<String>("page");
    let answer = server.ask("POST", "/cache/why", Some(&json!({ "url": url })))?;
    print_answer(&answer, matches, page)
}

fn said(value: &Value, key: &str) -> String {
    text(&value[key])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn advice(answer: &Value) -> String {
    let sites: Vec<_> = answer["sites"].as_object().into_iter().flatten().collect();
    if sites.is_empty() {
        return "No site is watched: add `[auto_cache]` with `mode = \"watch\"` to paceline.toml, and restart.\n"
            .into();
    }
    let mut text = String::new();
    for (name, site) in &sites {
        if sites.len() > 1 {
            text.push_str(&format!("{}\n", printable(name)));
        }
        if let Some(obstacle) = site["obstacle"].as_str() {
            text.push_str(&format!("No pages are shown now: {}.\n", printable(obstacle)));
        }
        if number(&site["processes"]) == 0 {
            text.push_str("No process of the application is connected yet, so nothing is recorded.\n");
        } else if list(&site["routes"]).next().is_none() {
            text.push_str("No GET has been answered yet.\n");
        }
        let rows: Vec<[String; 3]> =
            list(&site["routes"]).map(|route| row(route, site["mode"].as_str().unwrap_or("watch"))).collect();
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (first, second) = (wide(0), wide(1));
        for [route, share, facts] in &rows {
            text.push_str(format!("{route:first$}   {share:second$}   {facts}").trim_end());
            text.push('\n');
        }
        for route in list(&site["routes"]) {
            text.push_str(&difference(route));
        }
        if number(&site["passed_over"]) > 0 {
            text.push_str(&format!(
                "{} answers were not looked at: too many came at once.\n",
                grouped(number(&site["passed_over"]))
            ));
        }
        text.push_str(&sum(site));
        text.push_str(&hints(site));
        text.push_str(&next_mode(site));
    }
    text
}

/// What all routes come to, and would without the lines that keep pages out.
fn sum(site: &Value) -> String {
    let total = |key: &str| list(&site["routes"]).map(|route| number(&route[key])).sum::<u64>();
    let served = total("served");
    let (gets, hits, refused) = (total("requests") + served, total("hits") + served, total("refused"));
    let share = |count: u64| count * 100 / gets.max(1);
    let steps: Vec<String> = list(&site["blockers"])
        .map(|one| {
            let (line, count) = (said(one, "line"), number(&one["refused"]));
            let kept = share((gets - refused.min(gets)) + number(&one["freed"]));
            format!("without {line} ({} GET{}) up to {kept} %", grouped(count), if count == 1 { "" } else { "s" })
        })
        .collect();
    if steps.is_empty() {
        return String::new();
    }
    let gets = format!("of {} GET{}", grouped(gets), if gets == 1 { "" } else { "s" });
    format!("{gets} {} % could be hits; {}\n", share(hits), steps.join(", and "))
}

/// What to do about the reasons that keep pages out, each once.
fn hints(site: &Value) -> String {
    let refusals = list(&site["routes"]).filter_map(|route| list(&route["refusals"]).next());
    let mut found: Vec<&str> = refusals.filter_map(|refusal| hint(refusal["why"].as_str().unwrap_or(""))).collect();
    found.sort_unstable();
    found.dedup();
    found.iter().map(|hint| format!("try: {hint}\n")).collect()
}

fn hint(why: &str) -> Option<&'static str> {
    HINTS.iter().find(|(beginning, _)| why.starts_with(beginning)).map(|(_, hint)| *hint)
}

/// In mode "watch" nothing is shown to visitors; which mode does, once pages have been compared.
fn next_mode(site: &Value) -> String {
    let is_good = |route: &&Value| number(&route["hits"]) > 0 && number(&route["differed"]) == 0;
    let good = list(&site["routes"]).filter(is_good).count();
    if good == 0 || site["mode"].as_str().unwrap_or("watch") != "watch" {
        return String::new();
    }
    format!(
        "Pages of {good} route{} were always equal: mode = \"verify\" goes on to prove them, mode = \"serve\" shows those that are proven.\n",
        if good == 1 { "" } else { "s" }
    )
}

/// By what a reason begins with.
const HINTS: [(&str, &str); 16] = [
    ("changes session", SESSION),
    ("writes the session", SESSION),
    ("reads the whole session", "read the keys of the session that the page needs, one by one"),
    ("sets the cookie", "set the cookie in an answer to a POST, or in JavaScript"),
    (
        "asks another server",
        "put what other servers say into a fragment of its own: <%= esi_include ... %>, docs/esi.md",
    ),
    ("starts a thread", THREAD),
    ("hands work to another thread", THREAD),
    ("counts in Rails.cache", COUNT),
    ("reads the session's id", "store a value of your own in the session or in a cookie, and read that"),
    ("lists files", "list them once when the application starts, or folder by folder (Dir.children)"),
    ("reads a raw entry of Rails.cache", "read the entry without raw: true, if it does not expire"),
    ("reads an entry of Rails.cache", EXPIRING),
    ("reads entries of Rails.cache", EXPIRING),
    ("reads Time", CLOCK),
    ("reads Date", CLOCK),
    ("writes: ", COUNT),
];
const THREAD: &str = "move the work to a job, or the part of the page to a fragment: docs/esi.md";
const COUNT: &str = "count visits by a POST from JavaScript, or in a fragment of its own: docs/esi.md";
const SESSION: &str =
    "write the session in answers to POSTs, or put that part of the page into a fragment of its own: docs/esi.md";
const EXPIRING: &str = "store the entry without expires_in, and delete or write it when its source changes";
const CLOCK: &str =
    "let JavaScript write times, and say when the page changes: Paceline.changes_at(time), docs/scheduled-pages.md";

/// A route, its share of hits, and why.
fn row(route: &Value, mode: &str) -> [String; 3] {
    let (requests, hits, refused) = (number(&route["requests"]), number(&route["hits"]), number(&route["refused"]));
    let served = number(&route["served"]);
    let share = if served > 0 {
        format!("{} % were hits", served * 100 / (requests + served))
    } else if requests == 0 && refused == 0 {
        "not asked for".to_owned()
    } else if refused == requests {
        "never".to_owned()
    } else {
        format!("{} % could be hits", hits * 100 / requests.max(1))
    };
    let mut facts = Vec::new();
    if refused < requests {
        facts.extend(reads(route));
        facts.extend(holes(route));
        facts.push(match hits {
            0 => "not compared yet".to_owned(),
            _ => format!("{} of {} comparisons differed", grouped(number(&route["differed"])), grouped(hits)),
        });
    }
    if let Some(refusal) = list(&route["refusals"]).next() {
        let share =
            if refused == requests { String::new() } else { format!("{} % never: ", refused * 100 / requests.max(1)) };
        facts.push(format!("{share}{}", refusal_words(refusal)));
    }
    if mode != "watch" && (refused < requests || requests == 0) {
        facts.push(stage(route));
    }
    [said(route, "route"), share, facts.join("   ")]
}

/// How far the route has come.
fn stage(route: &Value) -> String {
    match said(route, "stage").as_str() {
        "off" => format!("off: {}", said(route, "off_because")),
        "verifying" => {
            let visitors = number(&route["visitors_needed"]).saturating_sub(number(&route["visitors"]));
            let visitors = if visitors > 0 { ", of one visitor so far" } else { "" };
            format!("verifying: {} of {}{visitors}", grouped(number(&route["equal"])), number(&route["equal_needed"]))
        }
        stage => stage.to_owned(),
    }
}

fn refusal_words(refusal: &Value) -> String {
    match said(refusal, "at") {
        at if at.is_empty() => said(refusal, "why"),
        at => format!("{} in {at}", said(refusal, "why")),
    }
}

/// `reads beers#id, cookie locale (2 values)`
fn reads(route: &Value) -> Option<String> {
    let values = |name: &str| {
        list(&route["varies"]).find(|varies| varies["name"] == name).map(|varies| number(&varies["values"]))
    };
    let shown = list(&route["reads"]).filter_map(|reading| match values(reading["what"].as_str().unwrap_or("")) {
        None => Some(said(reading, "what")),
        // Every page of Rails depends on its format.
        Some(..=1) if reading["at"] == "" => None,
        Some(1) => Some(format!("{} (1 value)", said(reading, "what"))),
        Some(more) => Some(format!("{} ({} values)", said(reading, "what"), grouped(more))),
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("reads {}", shown.join(", ")))
}

fn holes(route: &Value) -> Option<String> {
    let kinds = [("tokens", "CSRF token"), ("nonces", "nonce"), ("texts", "random name")];
    let counted = kinds.map(|(kind, word)| (number(&route[kind]), word)).into_iter().filter(|(count, _)| *count > 0);
    let counted: Vec<(u64, &str)> = counted.collect();
    let all: u64 = counted.iter().map(|(count, _)| count).sum();
    let words: Vec<String> = counted
        .into_iter()
        .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
        .collect();
    let holes = if all == 1 { "hole" } else { "holes" };
    (!words.is_empty()).then(|| format!("{all} {holes}: {}", words.join(", ")))
}

fn difference(route: &Value) -> String {
    let found = &route["difference"];
    if found.is_null() {
        return String::new();
    }
    format!(
        "\n{} differed at {}: {}\n  would have been shown  {}\n  the application        {}\n",
        said(route, "route"),
        local_time(number(&found["at"]) as f64 / 1000.0, "%H:%M:%S"),
        said(found, "url"),
        said(found, "kept"),
        said(found, "application"),
    )
}

fn page(answer: &Value) -> String {
    let time = |value: &Value| local_time(number(value) as f64 / 1000.0, "%H:%M:%S");
    let mut text = format!("{}\n", said(answer, "url"));
    for page in list(&answer["pages"]) {
        let until = match &page["good_until"] {
            Value::Null => String::new(),
            until => format!(", until {} by the clock", time(until)),
        };
        text.push_str(&format!("would be a hit since {}{until}\n", time(&page["at"])));
        for reading in list(&page["reads"]) {
            let at = said(reading, "at");
            let at = if at.is_empty() { at } else { format!("   {at}") };
            text.push_str(&format!("  reads {}{at}\n", said(reading, "what")));
        }
    }
    let varies: Vec<String> = list(&answer["pages"])
        .take(1)
        .flat_map(|page| list(&page["varies"]))
        .filter_map(Value::as_str)
        .map(printable)
        .collect();
    if !varies.is_empty() {
        text.push_str(&format!("varies by {}\n", varies.join(", ")));
    }
    if list(&answer["pages"]).next().is_none() {
        text.push_str("would be a miss\n");
        for refusal in list(&answer["route"]["refusals"]) {
            text.push_str(&format!(
                "  {} of its route: {}\n",
                grouped(number(&refusal["requests"])),
                refusal_words(refusal)
            ));
        }
    }
    if let written @ Value::Object(_) = &answer["written"] {
        let at = match number(&written["at"]) {
            0 => String::new(),
            _ => format!(" at {}", time(&written["at"])),
        };
        text.push_str(&format!("dropped last{at} by {}\n", said(written, "by")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(label: &str, counts: [u64; 4]) -> Value {
        let [requests, hits, differed, refused] = counts;
        json!({
            "route": label, "requests": requests, "hits": hits, "differed": differed, "refused": refused, "refusals": [],
            "served": 0, "reads": [], "varies": [], "tokens": 0, "nonces": 0, "texts": 0, "difference": null,
        })
    }

    #[test]
    fn advice_reads_well() {
        let mut beers = route("GET /beers/*", [6051, 3812, 0, 0]);
        beers["reads"] = json!([
            { "what": "beers#id", "at": "app/models/beer.rb:7" }, { "what": "cookie locale", "at": "app/x.rb:1" },
            { "what": "request.accept", "at": "" },
        ]);
        beers["varies"] = json!([{ "name": "cookie locale", "values": 2 }, { "name": "request.accept", "values": 1 }]);
        beers["tokens"] = json!(2);
        let mut home = route("GET /", [10, 0, 0, 10]);
        home["refusals"] = json!([{ "why": "reads Time.now", "at": "app/views/\u{1b}nav.erb:7", "requests": 10 }]);
        let mut news = route("GET /news", [100, 50, 1, 10]);
        news["refusals"] = json!([{ "why": "sets the cookie theme", "at": "", "requests": 10 }]);
        news["difference"] =
            json!({ "url": "http://shop.test/news", "at": 0, "kept": "7 times", "application": "8 times" });
        let site = json!({ "processes": 2, "passed_over": 0, "routes": [beers, home, news] });
        let text = advice(&json!({ "sites": { "shop": site } }));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "GET /beers/*   62 % could be hits   reads beers#id, cookie locale (2 values)   2 holes: 2 CSRF tokens   0 of 3,812 comparisons differed"
        );
        assert_eq!(lines[1], "GET /          never                reads Time.now in app/views/\u{fffd}nav.erb:7");
        assert_eq!(
            lines[2],
            "GET /news      50 % could be hits   1 of 50 comparisons differed   10 % never: sets the cookie theme"
        );
        assert!(lines[4].starts_with("GET /news differed at ") && lines[5].ends_with("7 times"), "{text}");
        assert!(
            lines[7].starts_with("try: let JavaScript write times") && lines[8].starts_with("try: set the cookie"),
            "{text}"
        );
        assert!(lines[9].starts_with("Pages of 1 route were always equal: mode = \"verify\""), "{text}");
        assert!(!text.contains("without"), "{text}");
        assert!(advice(&json!({ "sites": {} })).starts_with("No site is watched"));
        let idle = json!({ "processes": 0, "passed_over": 3, "routes": [] });
        let text = advice(&json!({ "sites": { "shop": idle } }));
        assert!(text.starts_with("No process") && text.contains("3 answers were not looked at"), "{text}");
    }

    #[test]
    fn advice_sums_up_which_lines_keep_pages_out() {
        let mut home = route("GET /", [700, 0, 0, 686]);
        home["refusals"] = json!([{ "why": "reads Time.now", "at": "app/a.rb:7", "requests": 686 }]);
        let blockers = json!([
            { "line": "app/a.rb:7", "refused": 686, "freed": 70 }, { "line": "app/\u{1b}b.rb:1", "refused": 322, "freed": 392 },
        ]);
        let site = json!({ "processes": 2, "passed_over": 0, "routes": [home], "blockers": blockers });
        let text = advice(&json!({ "sites": { "shop": site } }));
        let line = "of 700 GETs 0 % could be hits; without app/a.rb:7 (686 GETs) up to 12 %, and without app/\u{fffd}b.rb:1 (322 GETs) up to 58 %";
        assert!(text.lines().any(|own| own == line), "{text}");
    }

    #[test]
    fn advice_says_how_far_a_route_has_come() {
        let advice_of = |stage: Value| {
            let mut beers = route("GET /beers/*", [400, 350, 0, 0]);
            beers.as_object_mut().unwrap().extend(stage.as_object().unwrap().clone());
            let site =
                json!({ "mode": "serve", "obstacle": null, "processes": 2, "passed_over": 0, "routes": [beers] });
            advice(&json!({ "sites": { "shop": site } }))
        };
        let text = advice_of(json!({ "stage": "serving", "served": 1200 }));
        assert_eq!(text, "GET /beers/*   75 % were hits   0 of 350 comparisons differed   serving\n");
        let text = advice_of(
            json!({ "stage": "verifying", "equal": 120, "equal_needed": 300, "visitors": 1, "visitors_needed": 2 }),
        );
        assert!(text.ends_with("   verifying: 120 of 300, of one visitor so far\n"), "{text}");
        let text = advice_of(json!({ "stage": "off", "off_because": "stopped by `paceline cache stop`" }));
        assert!(text.ends_with("   off: stopped by `paceline cache stop`\n"), "{text}");
        let site = json!({ "mode": "serve", "obstacle": "no worker is connected", "processes": 0, "passed_over": 0, "routes": [] });
        let text = advice(&json!({ "sites": { "shop": site } }));
        assert!(text.starts_with("No pages are shown now: no worker is connected.\n"), "{text}");
    }

    #[test]
    fn why_reads_well() {
        let reads =
            json!([{ "what": "beers#id", "at": "app/models/beer.rb:7" }, { "what": "cookie locale", "at": "" }]);
        let kept = json!({
            "url": "http://shop.test/beers/1", "pages": [{ "at": 0, "reads": reads, "varies": ["cookie locale"] }],
            "written": { "by": "UPDATE beers", "at": 0 }, "route": null,
        });
        let text = page(&kept);
        assert!(!text.contains("until"), "{text}");
        for line in
            ["  reads beers#id   app/models/beer.rb:7", "varies by cookie locale", "dropped last by UPDATE beers"]
        {
            assert!(text.lines().any(|own| own == line), "{text}");
        }
        let mut home = route("GET /", [10, 0, 0, 10]);
        home["refusals"] = json!([{ "why": "reads Time.now", "at": "a.rb:7", "requests": 10 }]);
        let text = page(&json!({ "url": "http://shop.test/", "pages": [], "written": null, "route": home }));
        assert_eq!(text, "http://shop.test/\nwould be a miss\n  10 of its route: reads Time.now in a.rb:7\n");
    }
}
