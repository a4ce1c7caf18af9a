//! `paceline purge` and `paceline cache stats`: asks the running server over its control socket, and says what it answered.
//! It never starts a server.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::{json, Value};

use super::{arguments::config_file, CliExit};
use crate::{
    config::{self, Flags, Surroundings},
    control::{
        client::{self, Failed},
        VARIABLE,
    },
};

/// What is asked, and where.
#[derive(Debug, PartialEq)]
pub struct Question {
    socket: PathBuf,
    /// As the person at the terminal would name it.
    shown: String,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    /// The body of POST /cache/purge.
    Purge(Value),
    Stats {
        json: bool,
    },
}

const PURGE_AFTER: &str = "\
Tags are those of the response headers Surrogate-Key and Cache-Tag; a group of Cache-Groups is the tag \"https://host group\".
Without --control the server is the one of this directory. Exit status: 0 when it did it, 1 when there is none.";

/// The command line of these commands, which has none of the server's settings. `args` begins with the program's name.
pub fn command(args: &[OsString]) -> Option<Command> {
    match args.get(1)?.to_str()? {
        "purge" => Some(where_it_is(purge())),
        "cache" => {
            let stats =
                Command::new("stats").about("Hits and misses, memory, and what could have been a hit but for a header");
            let stats = stats.arg(switch("json").help("As JSON"));
            let cache = Command::new("cache").bin_name("paceline cache").about("The page cache of the running server");
            Some(cache.subcommand_required(true).disable_help_subcommand(true).subcommand(where_it_is(stats)))
        }
        _ => None,
    }
}

fn purge() -> Command {
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
                .help("Mark them stale instead: they may be shown while a new one is made, where they allow it"),
        )
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn where_it_is(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    command
        .arg(option("control", "PATH").help(format!("The server's control socket [env: {VARIABLE}]")))
        .arg(option("config", "FILE").short('C').help("The server's settings, which name it"))
        .arg(option("dir", "DIR").help("The directory that is served, instead of the current one"))
}

pub fn understood(matches: &ArgMatches, around: &Surroundings) -> Result<Question, CliExit> {
    let wrong = |why: String| CliExit::Wrong(vec![why]);
    let (own, what) = match matches.subcommand() {
        Some((_, stats)) => (stats, What::Stats { json: stats.get_flag("json") }),
        None => {
            let text = |name: &str| matches.get_one::<String>(name);
            let given = ["url", "tag", "prefix"].into_iter().find_map(|name| Some((name, json!(text(name)?))));
            let (name, value) = given.unwrap_or(("all", true.into()));
            (matches, What::Purge(json!({ name: value, "soft": matches.get_flag("soft") })))
        }
    };
    let named = own.get_one::<String>("control").cloned();
    let named = named.or_else(|| (around.env)(VARIABLE).filter(|path| !path.is_empty() && path != "off"));
    let socket = match named {
        Some(path) => around.cwd.join(path.strip_prefix("unix://").unwrap_or(&path)),
        None => {
            let file = config_file(own.get_one::<String>("config").map(String::as_str), &around.cwd).map_err(wrong)?;
            let dir = own.get_one::<String>("dir").map(PathBuf::from);
            let flags = Flags { dir, config_file: file, ..Flags::default() };
            let config = config::load(flags, around).map_err(|error| CliExit::Wrong(error.problems))?;
            let no_socket = || wrong("this server has no control socket: control = \"off\"".into());
            let path = config.control.path.ok_or_else(no_socket)?;
            // The server may have been told by a flag that this is a folder of sites.
            let of_folder = config.site_defaults.root.join(config::OF_FOLDER);
            match !config.control.named && !path.exists() && of_folder.exists() {
                true => of_folder,
                false => path,
            }
        }
    };
    let shown = socket.strip_prefix(&around.cwd).unwrap_or(&socket).display().to_string();
    Ok(Question { socket, shown, what })
}

pub fn run(question: &Question) -> ExitCode {
    let answered = match &question.what {
        What::Purge(body) => {
            client::ask(&question.socket, "POST", "/cache/purge", Some(body)).map(|answer| purged(&answer))
        }
        What::Stats { json } => client::ask(&question.socket, "GET", "/cache/stats", None).map(|answer| match json {
            true => format!("{answer:#}\n"),
            false => table(&answer),
        }),
    };
    match answered {
        Ok(text) => {
            // A reader that went away is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("paceline: {}", told(&failed, &question.socket, &question.shown));
            ExitCode::FAILURE
        }
    }
}

fn told(failed: &Failed, socket: &Path, shown: &str) -> String {
    match failed {
        Failed::NoServer(_) => format!(
            "no server answers at {shown}: run this in the directory that it serves, or name its socket with --control PATH"
        ),
        Failed::Forbidden => {
            use std::os::unix::fs::MetadataExt;
            let owner = std::fs::metadata(socket).map(|found| format!(" (user {})", found.uid())).unwrap_or_default();
            format!("{shown} is not yours to use: run this as its owner{owner} or as root")
        }
        Failed::Broken(why) => format!("{shown}: {why}"),
        Failed::Refused(why) => why.clone(),
    }
}

fn purged(answer: &Value) -> String {
    match answer["purged"].as_u64().unwrap_or(0) {
        1 => "1 response purged\n".into(),
        more => format!("{more} responses purged\n"),
    }
}

/// The statistics for people.
fn table(stats: &Value) -> String {
    let number = |value: &Value| grouped(value.as_u64().unwrap_or(0));
    let (bytes, budget) = (stats["bytes"].as_u64().unwrap_or(0), stats["budget"].as_u64().unwrap_or(0));
    let full = bytes * 100 / budget.max(1);
    let mut text = format!(
        "{} responses in {} of {} ({full} %), {} evicted\n",
        number(&stats["responses"]),
        size(bytes),
        size(budget),
        number(&stats["evicted"])
    );
    if let disk @ Value::Object(_) = &stats["disk"] {
        let (bytes, budget) = (disk["bytes"].as_u64().unwrap_or(0), disk["budget"].as_u64().unwrap_or(0));
        text.push_str(&match disk["given_up"].as_bool() {
            Some(true) => "on disk: not used any more, the log says why\n".into(),
            _ => format!(
                "on disk: {} responses in {} of {}, {} hits, {} evicted, {} damaged\n",
                number(&disk["responses"]),
                size(bytes),
                size(budget),
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
            let held = size(one["body_bytes"].as_u64().unwrap_or(0));
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
        text.push_str("\n  Could have been hits, but for a header\n");
        let rows = missed.iter().map(|one| {
            let said = |key: &str| one[key].as_str().unwrap_or("").to_owned();
            [format!("~{}", number(&one["requests"])), said("header"), said("path")]
        });
        text.push_str(&columns(["misses", "header", "path"], rows.collect()));
    }
    text
}

/// Numbers to the right, the rest to the left; the last column as wide as it is.
fn columns(heads: [&str; 3], rows: Vec<[String; 3]>) -> String {
    let wide = |index: usize| {
        let cells = rows.iter().map(|row| row[index].chars().count());
        cells.max().unwrap_or(0).max(heads[index].len())
    };
    let (first, second) = (wide(0), wide(1));
    let mut text = format!("  {:>first$}  {:<second$}  {}\n", heads[0], heads[1], heads[2]);
    for [one, two, three] in &rows {
        text.push_str(&format!("  {one:>first$}  {two:<second$}  {}\n", printable(three)));
    }
    text
}

/// Clients choose what stands in URLs: nothing of it is to reach the terminal as a command.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn size(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{self, parse},
        config::test_folder::{around, Folder},
    };

    fn asked(folder: &Folder, env: &[(&str, &str)], line: &str) -> Result<Question, CliExit> {
        let args: Vec<&str> = std::iter::once("paceline").chain(line.split_whitespace()).collect();
        match around(&folder.0, env, |around| parse(args, around)) {
            Ok(cli::Command::Ask(question)) => Ok(question),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(end) => Err(end),
        }
    }

    #[test]
    fn what_is_asked() {
        let folder = Folder::with(&[("config.ru", "")]);
        for (line, body) in [
            ("purge http://shop.test/a", json!({ "url": "http://shop.test/a", "soft": false })),
            ("purge --tag issue-42 --soft", json!({ "tag": "issue-42", "soft": true })),
            ("purge --prefix http://shop.test/", json!({ "prefix": "http://shop.test/", "soft": false })),
            ("purge --all", json!({ "all": true, "soft": false })),
        ] {
            assert_eq!(asked(&folder, &[], line).unwrap().what, What::Purge(body), "{line}");
        }
        assert_eq!(asked(&folder, &[], "cache stats --json").unwrap().what, What::Stats { json: true });
        for (line, told) in [
            ("purge", "required"),
            ("purge --all --tag a", "cannot be used with"),
            ("purge a b", "unexpected argument 'b'"),
            ("cache", "subcommand"),
            ("cache purge", "unrecognized subcommand"),
            ("-p 1 purge --all", "purge comes first"),
            ("purge --all -C none.toml", "no such file"),
        ] {
            match asked(&folder, &[], line) {
                Err(CliExit::Wrong(lines)) => assert!(lines[0].contains(told), "{line}: {lines:?}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(asked(&folder, &[], "purge --help"), Err(CliExit::Print(text)) if text.contains("--prefix")));
    }

    #[test]
    fn where_the_server_is() {
        let folder = Folder::with(&[
            ("config.ru", ""),
            ("other/paceline.toml", "control = \"run/x.sock\""),
            ("off/paceline.toml", "control = \"off\""),
            ("app/paceline.toml", "[[site]]\nroot = \"current\"\n"),
            ("sites/paceline.toml", "sites = \"more\""),
            ("sites/more/shop/config.ru", ""),
            ("folder/.paceline.sock", ""),
            ("two/paceline.toml", "[[site]]\nroot = \"a\"\nhost = \"a\"\n[[site]]\nroot = \"b\"\nhost = \"b\"\n"),
        ]);
        for (line, env, path) in [
            ("purge --all", &[][..], "tmp/paceline.sock"),
            ("purge --all", &[("PACELINE_CONTROL", "/run/p.sock")], "/run/p.sock"),
            ("purge --all --control x.sock", &[("PACELINE_CONTROL", "/run/p.sock")], "x.sock"),
            ("purge --all --control unix:///x.sock", &[], "/x.sock"),
            ("cache stats --dir other", &[], "other/run/x.sock"),
            ("cache stats -C other/paceline.toml", &[], "other/run/x.sock"),
            ("cache stats --dir app", &[], "app/current/tmp/paceline.sock"),
            ("cache stats --dir two", &[], "two/tmp/paceline.sock"),
            ("cache stats --dir sites", &[], "sites/more/.paceline.sock"),
            ("cache stats --dir folder", &[], "folder/.paceline.sock"),
        ] {
            let question = asked(&folder, env, line).unwrap();
            assert_eq!((question.socket, question.shown.as_str()), (folder.0.join(path), path), "{line}");
        }
        assert!(asked(&folder, &[], "cache stats --dir off").is_err());
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

  Could have been hits, but for a header
  misses  header                  path
    ~200  Cache-Control: private  /issues\u{fffd}[2J

Most used
  hits  size    page
   900  2.0 KB  http://shop.test/  (2 variants)
   100  10 B    http://shop.test/a
";
        assert_eq!(table(&stats), wanted);
        assert_eq!(
            purged(&json!({ "purged": 1 })) + &purged(&json!({ "purged": 0 })),
            "1 response purged\n0 responses purged\n"
        );
    }
}
