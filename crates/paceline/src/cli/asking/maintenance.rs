//! `paceline maintenance on|off|status`: closes the sites of the running server for a while, or those of all servers of its
//! cluster, and opens them again. It never touches an application: it goes on running.

use std::{fs::File, io::Read, path::Path, process::ExitCode, time::Duration};

use clap::{builder::PossibleValuesParser, value_parser, Arg, ArgAction, ArgMatches, Command};
use serde_json::{json, Value};

use super::{
    cluster, print, switch,
    text::{printable, text},
    Asker,
};
use crate::server::control::{client::Failed, maintenance::MAX_PAGE};

/// How long the server may wait for the others to confirm it.
const PATIENCE: Duration = Duration::from_secs(30);

const AFTER: &str = "\
Visitors get 503 with Retry-After and a page that says so, until `paceline maintenance off`; a restart of the server changes nothing.
Requests for /up and for the site's ready_path are answered as before, so load balancers keep the server.
With --cluster the sites of all servers of its [cluster] are closed, also of those that start or come back later. What is closed by one server alone is opened there
alone, and what is closed with --cluster is opened with --cluster: a site that both have closed is open when both have opened it.
Without --control the server is the one of this directory. Exit status: 0 when it was done, 1 when it was not, or not confirmed by all servers of the cluster.";

pub fn command() -> Command {
    Command::new("maintenance")
        .bin_name("paceline maintenance")
        .about("Closes the sites of the running server for a while, with a page that says so")
        .after_help(AFTER)
        .arg(
            Arg::new("state")
                .value_name("on|off|status")
                .default_value("status")
                .hide_default_value(true)
                .value_parser(PossibleValuesParser::new(["on", "off", "status"]))
                .hide_possible_values(true)
                .help("Close, open, or show what is closed [default: status]"),
        )
        .arg(switch("cluster").help("On all servers of the cluster, instead of the running one ([cluster])"))
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
    let state = text("state").map_or("status", String::as_str);
    let is_for_all = matches.get_flag("cluster");
    match state {
        "status" if is_for_all => return print(&cluster::maintenance_of_all(&server.ask("GET", "/cluster", None)?)),
        "status" => return print(&standing(&server.ask("GET", "/maintenance", None)?)),
        _ => {}
    }
    let mut wish = json!({ "on": state == "on", "site": text("site"), "cluster": is_for_all });
    if wish["on"] == true {
        wish["page"] = text("page").map(|file| page(Path::new(file))).transpose()?.into();
        wish["allow"] = matches.get_many::<String>("allow").into_iter().flatten().cloned().collect::<Vec<_>>().into();
        wish["retry_after"] = matches.get_one::<u64>("retry-after").copied().into();
    }
    let answer = server.ask_patiently("POST", "/maintenance", Some(&wish), PATIENCE)?;
    if !is_for_all {
        return print(&summary(&answer));
    }
    let (lines, is_confirmed) = told_by_all(&answer);
    print(&lines)?;
    Ok(if is_confirmed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn page(file: &Path) -> Result<String, Failed> {
    let refused = |why: String| Failed::Refused(format!("{}: {why}", file.display()));
    let mut page = String::new();
    let opened = File::open(file).map_err(|error| refused(error.to_string()))?;
    opened.take(MAX_PAGE as u64 + 1).read_to_string(&mut page).map_err(|error| refused(error.to_string()))?;
    if page.len() > MAX_PAGE {
        Err(refused(format!("it has more than {} KB: put pictures elsewhere and link to them", MAX_PAGE >> 10)))
    } else {
        Ok(page)
    }
}

fn summary(answer: &Value) -> String {
    let mut lines = String::new();
    for (name, site) in answer["sites"].as_object().into_iter().flatten() {
        let name = printable(name);
        lines.push_str(&if site["maintenance"].is_object() {
            format!("{name} is closed for maintenance{}\n", exceptions(&site["maintenance"]))
        } else if site["cluster"].is_object() {
            format!(
                "{name} is still closed for maintenance: it is closed on all servers. `paceline maintenance off --cluster` opens it\n"
            )
        } else {
            format!("{name} is open\n")
        });
        if let Some(trouble) = site["trouble"].as_str() {
            lines.push_str(&format!("  {}\n", printable(trouble)));
        }
    }
    lines
}

/// What is closed, and by what.
fn standing(answer: &Value) -> String {
    let mut lines = String::new();
    for (name, site) in answer["sites"].as_object().into_iter().flatten() {
        let (here, all) = (&site["maintenance"], &site["cluster"]);
        let name = printable(name);
        lines.push_str(&match (here.is_object(), all.is_object()) {
            (false, false) => format!("{name} is open\n"),
            (true, false) => format!("{name} is closed for maintenance, by this server{}\n", exceptions(here)),
            (false, true) => format!("{name} is closed for maintenance, on all servers{}\n", exceptions(all)),
            (true, true) => format!(
                "{name} is closed for maintenance, by this server{}, and on all servers{}\n",
                exceptions(here),
                exceptions(all)
            ),
        });
    }
    if let Some(trouble) = answer["cluster"]["trouble"].as_str() {
        lines.push_str(&format!(
            "{} can't be reached: {}. This server may not know the latest changes\n",
            text(&answer["cluster"]["server"]),
            printable(trouble)
        ));
    }
    lines
}

/// What all servers of the cluster have done, and whether all have confirmed it.
fn told_by_all(answer: &Value) -> (String, bool) {
    let what = answer["site"].as_str().map_or("all sites are".into(), |site| format!("{} is", printable(site)));
    let state = if answer["on"] == true { "closed for maintenance" } else { "open again" };
    let mut lines = format!("{what} {state} on all servers of {}", text(&answer["cluster"]));
    let members: Vec<_> = answer["members"].as_array().into_iter().flatten().collect();
    let is_confirmed = |member: &&&Value| member["state"] == "confirmed";
    let confirmed = members.iter().filter(is_confirmed).count();
    if let Some(trouble) = answer["trouble"].as_str() {
        lines.push_str(&format!(
            ", and done here; could not ask the others: {}. They follow as soon as they reach it\n",
            printable(trouble)
        ));
        return (lines, false);
    }
    lines.push_str(&match members.len() {
        1 => ": this one is the only one\n".to_owned(),
        all if all == confirmed => format!(": {all} of {all} have confirmed it\n"),
        all => format!(": {confirmed} of {all} have confirmed it\n"),
    });
    for member in members.iter().filter(|member| !is_confirmed(member)) {
        let name = format!("{} (pid {})", text(&member["host"]), member["pid"]);
        let why = match member["state"].as_str() {
            Some("silent") => format!(
                "silent for {} s. It follows as soon as it reaches {}; until then it goes on as before",
                member["silent_ms"].as_u64().unwrap_or(0) / 1000,
                text(&answer["server"])
            ),
            Some("unable") => "its Paceline is older, and knows nothing of it: use `paceline maintenance` there".into(),
            _ => "no answer yet. `paceline cluster` shows when it follows".into(),
        };
        lines.push_str(&format!("not confirmed: {name}: {why}\n"));
    }
    if answer["on"] != true {
        for member in members.iter().filter(|member| member["closed_here"].as_u64().unwrap_or(0) > 0) {
            let name = format!("{} (pid {})", text(&member["host"]), member["pid"]);
            let count = match member["closed_here"].as_u64() {
                Some(1) => "1 site is".to_owned(),
                count => format!("{} sites are", count.unwrap_or(0)),
            };
            lines.push_str(&format!("{name}: {count} still closed by that server: `paceline maintenance off` there\n"));
        }
    }
    (lines, confirmed == members.len())
}

/// Who is let in.
pub fn exceptions(maintenance: &Value) -> String {
    let allow: Vec<String> =
        maintenance["allow"].as_array().into_iter().flatten().filter_map(Value::as_str).map(printable).collect();
    if allow.is_empty() {
        String::new()
    } else {
        format!(", but for {}", allow.join(", "))
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
            summary(&answer),
            "blog is open\nshop is closed for maintenance, but for 192.0.2.7, 10.0.0.0/8\n  it can't be written\n"
        );
        let both = json!({ "sites": { "shop": { "maintenance": null, "cluster": { "allow": [] } } } });
        assert!(summary(&both).starts_with("shop is still closed for maintenance: it is closed on all servers."));
    }

    #[test]
    fn what_stands_and_by_what() {
        let (here, all) = (json!({ "allow": ["192.0.2.7"] }), json!({ "allow": [] }));
        let answer = json!({
            "sites": {
                "a": { "maintenance": null, "cluster": null },
                "b": { "maintenance": here, "cluster": null },
                "c": { "maintenance": null, "cluster": all },
                "d": { "maintenance": here, "cluster": all },
            },
            "cluster": { "name": "shop", "server": "10.0.0.5:6379", "trouble": "refused" },
        });
        let wanted = "\
a is open
b is closed for maintenance, by this server, but for 192.0.2.7
c is closed for maintenance, on all servers
d is closed for maintenance, by this server, but for 192.0.2.7, and on all servers
10.0.0.5:6379 can't be reached: refused. This server may not know the latest changes
";
        assert_eq!(standing(&answer), wanted);
    }

    #[test]
    fn who_has_confirmed_it() {
        let member = |host: &str, state: &str, closed_here: u64| json!({ "host": host, "pid": 7, "state": state, "silent_ms": 8000, "closed_here": closed_here });
        let with = |on: bool, members: Vec<Value>| {
            told_by_all(&json!({ "cluster": "shop", "server": "10.0.0.5:6379", "on": on, "members": members }))
        };
        let all = with(true, vec![member("web1", "confirmed", 0), member("web2", "confirmed", 1)]);
        assert_eq!(
            all,
            ("all sites are closed for maintenance on all servers of shop: 2 of 2 have confirmed it\n".into(), true)
        );
        let (lines, is_confirmed) = with(
            false,
            vec![
                member("web1", "confirmed", 1),
                member("web2", "silent", 0),
                member("web3", "unable", 0),
                member("web4", "waiting", 0),
            ],
        );
        let wanted = "\
all sites are open again on all servers of shop: 1 of 4 have confirmed it
not confirmed: web2 (pid 7): silent for 8 s. It follows as soon as it reaches 10.0.0.5:6379; until then it goes on as before
not confirmed: web3 (pid 7): its Paceline is older, and knows nothing of it: use `paceline maintenance` there
not confirmed: web4 (pid 7): no answer yet. `paceline cluster` shows when it follows
web1 (pid 7): 1 site is still closed by that server: `paceline maintenance off` there
";
        assert_eq!((lines.as_str(), is_confirmed), (wanted, false));
        let lost = json!({ "cluster": "shop", "on": true, "site": "a", "members": [], "trouble": "10.0.0.5:6379 can't be reached: refused" });
        let (lines, is_confirmed) = told_by_all(&lost);
        assert!(
            lines.starts_with(
                "a is closed for maintenance on all servers of shop, and done here; could not ask the others: "
            ),
            "{lines}"
        );
        assert!(!is_confirmed);
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
        let state = |line: &str| parsed(line).unwrap().get_one::<String>("state").cloned().unwrap();
        assert_eq!((state("maintenance"), state("maintenance off --cluster")), ("status".into(), "off".into()));
        for wrong in ["maintenance maybe", "maintenance on --retry-after 0"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
