//! `paceline maintenance on|off`: closes the sites of the running server for a while, and opens them again.
//! It never touches an application: it goes on running.

use std::{fs::File, io::Read, path::Path, process::ExitCode};

use clap::{builder::PossibleValuesParser, value_parser, Arg, ArgAction, ArgMatches, Command};
use serde_json::{json, Value};

use super::{print, text::printable, Asker};
use crate::observe::control::{client::Failed, maintenance::MAX_PAGE};

const AFTER: &str = "\
Visitors get 503 with Retry-After and a page that says so, until `paceline maintenance off`; a restart of the server changes nothing.
Requests for /up and for the site's ready_path are answered as before, so load balancers keep the server.
Without --control the server is the one of this directory. Exit status: 0 when it was done, 1 when it was not.";

pub fn command() -> Command {
    Command::new("maintenance")
        .bin_name("paceline maintenance")
        .about("Closes the sites of the running server for a while, with a page that says so")
        .after_help(AFTER)
        .arg(
            Arg::new("state")
                .value_name("on|off")
                .required(true)
                .value_parser(PossibleValuesParser::new(["on", "off"]))
                .hide_possible_values(true),
        )
        .arg(Arg::new("site").long("site").value_name("NAME").help("This site, instead of all"))
        .arg(Arg::new("page").long("page").value_name("FILE").help("Page of HTML to show, instead of the server's own"))
        .arg(
            Arg::new("allow")
                .long("allow")
                .value_name("ADDRESS")
                .action(ArgAction::Append)
                .help("Address or network that is let in, such as 192.0.2.7; can be given several times"),
        )
        .arg(
            Arg::new("retry-after")
                .long("retry-after")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64).range(1..=604_800))
                .default_value("300")
                .help("When clients may try again"),
        )
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let text = |name: &str| matches.get_one::<String>(name);
    let mut wish = json!({ "on": text("state").is_some_and(|state| state == "on"), "site": text("site") });
    if wish["on"] == true {
        wish["page"] = text("page").map(|file| page(Path::new(file))).transpose()?.into();
        wish["allow"] = matches.get_many::<String>("allow").into_iter().flatten().cloned().collect::<Vec<_>>().into();
        wish["retry_after"] = matches.get_one::<u64>("retry-after").copied().into();
    }
    print(&told(&server.ask("POST", "/maintenance", Some(&wish))?))
}

fn page(file: &Path) -> Result<String, Failed> {
    let refused = |why: String| Failed::Refused(format!("{}: {why}", file.display()));
    let mut page = String::new();
    let opened = File::open(file).map_err(|error| refused(error.to_string()))?;
    opened.take(MAX_PAGE as u64 + 1).read_to_string(&mut page).map_err(|error| refused(error.to_string()))?;
    match page.len() > MAX_PAGE {
        true => {
            Err(refused(format!("it has more than {} KB: put pictures elsewhere and link to them", MAX_PAGE >> 10)))
        }
        false => Ok(page),
    }
}

fn told(answer: &Value) -> String {
    let mut lines = String::new();
    for (name, site) in answer["sites"].as_object().into_iter().flatten() {
        let name = printable(name);
        lines.push_str(&match site["maintenance"].is_object() {
            true => format!("{name} is closed for maintenance{}\n", exceptions(&site["maintenance"])),
            false => format!("{name} is open\n"),
        });
        if let Some(trouble) = site["trouble"].as_str() {
            lines.push_str(&format!("  {}\n", printable(trouble)));
        }
    }
    lines
}

/// Who is let in.
pub fn exceptions(maintenance: &Value) -> String {
    let allow: Vec<String> =
        maintenance["allow"].as_array().into_iter().flatten().filter_map(Value::as_str).map(printable).collect();
    match allow.is_empty() {
        true => String::new(),
        false => format!(", but for {}", allow.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn what_is_told() {
        let answer = json!({ "sites": {
            "blog": { "maintenance": null, "trouble": null },
            "shop": { "maintenance": { "allow": ["192.0.2.7", "10.0.0.0/8"] }, "trouble": "it can't be written" },
        } });
        assert_eq!(
            told(&answer),
            "blog is open\nshop is closed for maintenance, but for 192.0.2.7, 10.0.0.0/8\n  it can't be written\n"
        );
    }

    #[test]
    fn a_page_has_a_bound() {
        let folder = Folder::with(&[("page.html", "<p>"), ("large.html", &"x".repeat(MAX_PAGE + 1))]);
        assert_eq!(page(&folder.0.join("page.html")).unwrap(), "<p>");
        for name in ["large.html", "none.html"] {
            assert!(page(&folder.0.join(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn on_or_off() {
        let parsed = |line: &str| command().try_get_matches_from(line.split(' '));
        assert!(parsed("maintenance on --allow 192.0.2.7 --allow ::1 --site shop").is_ok());
        for wrong in ["maintenance", "maintenance maybe", "maintenance on --retry-after 0"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
