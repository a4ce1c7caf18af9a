//! `paceline purge` and `paceline cache`: the page cache of the running server.
//! It never shows what stands in a URL as a command to the terminal.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgGroup, ArgMatches, Command};
use serde_json::{json, Value};
use units::grouped;

use super::{
    print, print_answer, switch,
    text::{columns, printable},
    where_it_is, Asker, Subcommand, OF_CACHE,
};
use crate::server::control::client::Failed;

const PURGE_AFTER: &str = "\
Tags are those of the response headers Surrogate-Key and Cache-Tag; a group of Cache-Groups is the tag \"https://host group\".
Without --control the server is the one of this directory. Exit status: 0 when it did it, 1 when there is none.";

/// Other machines' servers are waited for as long as they may show pages.
const PATIENCE: Duration = Duration::from_secs(3700);

pub fn purge() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("purge")
        .bin_name("paceline purge")
        .about("Drops pages from the cache of the running server")
        .after_help(PURGE_AFTER)
        .arg(Arg::new("url").value_name("URL").help("All variants of this page, like https://shop.test/products/1"))
        .arg(text("tag", "TAG").help("All pages with this tag"))
        .arg(text("prefix", "PREFIX").help("All pages whose URL begins so, like https://shop.test/products/"))
        .arg(switch("all").help("All pages of all sites"))
        .group(ArgGroup::new("what").args(["url", "tag", "prefix", "all"]).required(true))
        .arg(
            switch("soft")
                .help("Mark them stale instead of dropping them: if a page allows it, it is shown during revalidation"),
        )
        .arg(switch("no-wait").help("Don't wait until the servers of other machines have confirmed it ([cluster])"))
}

pub fn cache() -> Command {
    let stats = Command::new("stats").about("Hits and misses, memory, and the headers that prevented hits");
    let stats = stats.arg(switch("json").help("As JSON"));
    let cache = Command::new("cache").bin_name("paceline cache").about("The page cache of the running server");
    let all = [stats].into_iter().chain(OF_CACHE.iter().map(Subcommand::command)).map(where_it_is);
    cache.subcommand_required(true).disable_help_subcommand(true).subcommands(all)
}

/// The body of POST /cache/purge.
fn wish(matches: &ArgMatches) -> Value {
    let text = |name: &str| matches.get_one::<String>(name);
    let given = ["url", "tag", "prefix"].into_iter().find_map(|name| Some((name, json!(text(name)?))));
    let (name, value) = given.unwrap_or(("all", true.into()));
    json!({ name: value, "soft": matches.get_flag("soft"), "wait": !matches.get_flag("no-wait") })
}

pub fn run_purge(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    print(&purged(&server.ask_patiently("POST", "/cache/purge", Some(&wish(matches)), PATIENCE)?))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let (name, own) = matches.subcommand().unwrap_or(("stats", matches));
    match OF_CACHE.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(server, own),
        None => run_stats(server, own),
    }
}

fn run_stats(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/cache/stats", None)?;
    print_answer(&answer, matches, table)
}

fn purged(answer: &Value) -> String {
    let here = match answer["purged"].as_u64().unwrap_or(0) {
        1 => "1 response purged".into(),
        more => format!("{more} responses purged"),
    };
    let silent: Vec<_> = answer["silent"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let elsewhere = match (answer["confirmed"].as_bool(), answer["fronts"].as_u64()) {
        (None, _) => String::new(),
        (Some(false), _) => " here; the other servers follow".into(),
        (Some(true), Some(0)) => " here; no other server shows pages".into(),
        (Some(true), Some(1)) => " here, and 1 other server has confirmed it".into(),
        (Some(true), more) => format!(" here, and {} other servers have confirmed it", more.unwrap_or(0)),
    };
    let silent = if silent.is_empty() {
        String::new()
    } else {
        format!("silent, so asking the application before showing a page: {}\n", printable(&silent.join(", ")))
    };
    format!("{here}{elsewhere}\n{silent}")
}

/// The statistics for people.
fn table(stats: &Value) -> String {
    let number = |value: &Value| grouped(value.as_u64().unwrap_or(0));
    let (bytes, budget) = (stats["bytes"].as_u64().unwrap_or(0), stats["budget"].as_u64().unwrap_or(0));
    let full = bytes * 100 / budget.max(1);
    let mut text = format!(
        "{} responses in {} of {} ({full} %), {} evicted\n",
        number(&stats["responses"]),
        units::bytes(bytes),
        units::bytes(budget),
        number(&stats["evicted"])
    );
    if let disk @ Value::Object(_) = &stats["disk"] {
        let (bytes, budget) = (disk["bytes"].as_u64().unwrap_or(0), disk["budget"].as_u64().unwrap_or(0));
        text.push_str(&match disk["given_up"].as_bool() {
            Some(true) => match disk["again_in"].as_u64() {
                Some(seconds) => format!("on disk: off, the log says why; tried again in {}\n", units::age(seconds)),
                None => "on disk: off until the next start, the log says why\n".into(),
            },
            _ => format!(
                "on disk: {} responses in {} of {}, {} hits, {} evicted, {} damaged\n",
                number(&disk["responses"]),
                units::bytes(bytes),
                units::bytes(budget),
                number(&disk["hits"]),
                number(&disk["evicted"]),
                number(&disk["damaged"])
            ),
        });
    }
    for (name, site) in stats["sites"].as_object().into_iter().flatten() {
        text.push_str(&of_site(name, site));
    }
    let top = stats["top"].as_array().filter(|top| !top.is_empty());
    if let Some(top) = top {
        text.push_str("\nMost used\n");
        let rows = top.iter().map(|one| {
            let variants = match one["responses"].as_u64() {
                Some(more) if more > 1 => format!("  ({more} variants)"),
                _ => String::new(),
            };
            let held = units::bytes(one["body_bytes"].as_u64().unwrap_or(0));
            [number(&one["hits"]), held, format!("{}{variants}", one["url"].as_str().unwrap_or(""))]
        });
        text.push_str(&columns(["hits", "size", "page"], rows.collect()));
    }
    text
}

fn of_site(name: &str, site: &Value) -> String {
    let number = |value: &Value| grouped(value.as_u64().unwrap_or(0));
    let ratio = site["hit_ratio"]
        .as_f64()
        .map_or_else(|| "no requests yet".into(), |ratio| format!("{:.1} % hits", ratio * 100.0));
    let mut text = format!("\n{name}: {ratio}\n");
    let mut rows = vec![["requests".to_string(), number(&site["requests"])], ["hits".into(), number(&site["hits"])]];
    let counted = |words: &Value| {
        let mut words: Vec<_> = words
            .as_object()
            .into_iter()
            .flatten()
            .map(|(word, count)| (word.clone(), count.as_u64().unwrap_or(0)))
            .collect();
        words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        words
    };
    for name in ["stale", "collapsed", "stored"] {
        rows.push([name.into(), number(&site[name])]);
    }
    for (prefix, words) in [("fwd", &site["fwd"]), ("detail", &site["detail"])] {
        rows.extend(counted(words).into_iter().map(|(word, count)| [format!("{prefix}={word}"), grouped(count)]));
    }
    let rows: Vec<_> = rows.into_iter().filter(|[name, count]| count != "0" || name == "hits").collect();
    let wide = rows.iter().map(|[name, _]| name.len()).max().unwrap_or(0);
    let digits = rows.iter().map(|[_, count]| count.len()).max().unwrap_or(0);
    if site["requests"].as_u64().unwrap_or(0) > 0 {
        rows.iter().for_each(|[name, count]| text.push_str(&format!("  {name:wide$}  {count:>digits$}\n")));
    }
    if let Some(missed) = site["missed"].as_array().filter(|missed| !missed.is_empty()) {
        text.push_str("\n  Misses caused by a header\n");
        let rows = missed.iter().map(|one| {
            let said = |key: &str| one[key].as_str().unwrap_or("").to_owned();
            [format!("~{}", number(&one["requests"])), said("header"), said("path")]
        });
        text.push_str(&columns(["misses", "header", "path"], rows.collect()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_purged() {
        for (line, body) in [
            ("http://shop.test/a", json!({ "url": "http://shop.test/a", "soft": false, "wait": true })),
            ("--tag issue-42 --soft", json!({ "tag": "issue-42", "soft": true, "wait": true })),
            ("--prefix http://shop.test/", json!({ "prefix": "http://shop.test/", "soft": false, "wait": true })),
            ("--all --no-wait", json!({ "all": true, "soft": false, "wait": false })),
        ] {
            let words = std::iter::once("purge").chain(line.split_whitespace());
            assert_eq!(wish(&purge().get_matches_from(words)), body, "{line}");
        }
    }

    #[test]
    fn statistics_read_well() {
        let site = json!({
            "requests": 1234, "hits": 1000, "hit_ratio": 0.8104, "stale": 0, "stored": 12,
            "fwd": { "uri-miss": 34, "bypass": 200 }, "detail": { "private": 200 },
            "missed": [{ "path": "/issues\u{1b}[2J", "requests": 200, "detail": "private", "header": "Cache-Control: private" }],
        });
        let stats = json!({
            "bytes": 3 << 20, "budget": 64 << 20, "responses": 12, "evicted": 0, "sites": { "shop": site },
            "disk": { "bytes": 5 << 20, "budget": 1 << 30, "responses": 1024, "hits": 3, "evicted": 0, "damaged": 1, "given_up": false },
            "top": [
                { "url": "http://shop.test/", "hits": 900, "body_bytes": 2048, "responses": 2 },
                { "url": "http://shop.test/a", "hits": 100, "body_bytes": 10, "responses": 1 },
            ],
        });
        let wanted = "\
12 responses in 3.0 MB of 64.0 MB (4 %), 0 evicted
on disk: 1,024 responses in 5.0 MB of 1.0 GB, 3 hits, 0 evicted, 1 damaged

shop: 81.0 % hits
  requests        1,234
  hits            1,000
  stored             12
  fwd=bypass        200
  fwd=uri-miss       34
  detail=private    200

  Misses caused by a header
  misses  header                  path
    ~200  Cache-Control: private  /issues\u{fffd}[2J

Most used
  hits  size      page
   900  2.0 KB    http://shop.test/  (2 variants)
   100  10 bytes  http://shop.test/a
";
        assert_eq!(table(&stats), wanted);
        for (again_in, line) in [
            (json!(100), "on disk: off, the log says why; tried again in 1 min 40 s\n"),
            (Value::Null, "on disk: off until the next start, the log says why\n"),
        ] {
            let stats = json!({ "bytes": 0, "budget": 1, "disk": { "given_up": true, "again_in": again_in } });
            assert!(table(&stats).contains(line), "{}", table(&stats));
        }
        assert_eq!(
            purged(&json!({ "purged": 1 })) + &purged(&json!({ "purged": 0 })),
            "1 response purged\n0 responses purged\n"
        );
        let silent = json!(["web3 (pid 7)"]);
        for (answer, words) in [
            (json!({ "purged": 1, "confirmed": false }), "1 response purged here; the other servers follow\n"),
            (
                json!({ "purged": 2, "confirmed": true, "fronts": 1, "silent": silent }),
                "2 responses purged here, and 1 other server has confirmed it\n\
                 silent, so asking the application before showing a page: web3 (pid 7)\n",
            ),
        ] {
            assert_eq!(purged(&answer), words);
        }
    }
}
