//! The command line of `paceline doctor` and `paceline doctor apply`: which application, which requests, which trials.
//! It never starts or asks anything: `crate::doctor` does.

use std::{path::PathBuf, time::Duration};

use clap::{value_parser, Arg, ArgAction, ArgMatches, Command};
use doctor::candidate::Kind;
use units::parse_duration;

use super::{asking, config_file::config_file, expected::Expected, CliExit};
use crate::{
    config::{self, Config, Flags, Surroundings},
    doctor::{CanaryWish, Job, Place, ServedBy, Wish},
};

pub const NAME: &str = "doctor";
pub const ABOUT: &str = "Find what would make the application faster, try it, and show what each change brings";

/// Of visitors' requests.
const WATCH: Duration = Duration::from_secs(60);
const MAX_WATCH: Duration = Duration::from_secs(3600);
const MAX_ROUNDS: u64 = 100;

const AFTER: &str = "\
Copies of the loaded application answer GET requests again, each request with and without a change in turn. The copies write
nothing: a request that tries to is left out and reported. A change is advice only if its gain is sure and the pages stay the same.

  paceline doctor                       on the running server: its requests of one minute
  paceline doctor --offline . --path /  starts the application by itself, also one that another server serves
  paceline doctor apply 1               writes the line of advice 1

Exit status: 1 when a change saves more than 5 % of a request, otherwise 0; 2 when there is no result.";

const APPLY_AFTER: &str = "\
The line is written if the folder is a git tree without uncommitted changes; otherwise it is printed as a patch. A running server is
then restarted with the change as a canary. If it saves less than in the trial, or does worse in another way, the server goes back and
the files are put back. Exit status: 0, 1 when the change was taken back, 2 when there is nothing to write.";

/// Of a canary with an advice.
const CANARY: Duration = Duration::from_secs(60);
const MAX_CANARY: Duration = Duration::from_secs(86_400);

pub fn command() -> Command {
    let number = |max: u64| value_parser!(u64).range(1..=max);
    where_it_is(Command::new(NAME))
        .bin_name("paceline doctor")
        .about(ABOUT)
        .after_help(AFTER)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .arg(
            option("watch", "TIME")
                .value_parser(time)
                .help("How long to watch the requests of visitors, like 5m [default: 60s]"),
        )
        .arg(
            option("offline", "DIR")
                .conflicts_with_all(["watch", "control", "dir"])
                .help("Start the application of this directory, instead of asking a running server"),
        )
        .arg(option("log", "FILE").conflicts_with("watch").help("Replay the GETs of this access log"))
        .arg(
            option("path", "PATH")
                .action(ArgAction::Append)
                .conflicts_with_all(["watch", "log"])
                .value_parser(path)
                .help("Replay this path, like /beers?page=2; may be repeated [default with --offline: /]"),
        )
        .arg(
            option("except", "PATH")
                .action(ArgAction::Append)
                .value_parser(path)
                .help("Replay no request of this path, or with /admin/* of any below it; may be repeated"),
        )
        .arg(
            option("rounds", "N")
                .value_parser(number(MAX_ROUNDS))
                .help("Rounds of each trial [default: until it is decided, up to 9 to 30]"),
        )
        .arg(
            option("only", "KIND")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .value_parser(kind)
                .help("Try only changes of this kind, like cold_connections; may be repeated"),
        )
        .arg(
            option("server", "SERVER")
                .value_parser(["paceline", "other"])
                .help("What serves the application today [default: paceline, with --offline: other]"),
        )
        .arg(
            Arg::new("busy")
                .long("busy")
                .action(ArgAction::SetTrue)
                .conflicts_with("offline")
                .help("Do not wait for a quiet machine: visitors may notice the trials"),
        )
        .arg(
            Arg::new("no-keep")
                .long("no-keep")
                .action(ArgAction::SetTrue)
                .help("Do not keep the result for paceline doctor apply and the dashboard"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the result as JSON"))
        .subcommand(
            where_it_is(Command::new("apply"))
                .about("Writes the line of an advice, and restarts a running server with it as a canary")
                .after_help(APPLY_AFTER)
                .arg(
                    Arg::new("number")
                        .value_name("N")
                        .required(true)
                        .value_parser(number(1000))
                        .help("Number of the advice"),
                )
                .arg(
                    option("for", "TIME").value_parser(canary_time).help(
                        "Duration of the canary, like 5m; ten times as long until the gain is known [default: 60s]",
                    ),
                )
                .arg(
                    Arg::new("no-wait")
                        .long("no-wait")
                        .action(ArgAction::SetTrue)
                        .help("Return at once; the server decides alone, and leaves the files as they are"),
                ),
        )
}

fn option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

fn where_it_is(command: Command) -> Command {
    asking::where_it_is(command).arg(option("site", "NAME").help("The application; required with several sites"))
}

fn time(text: &str) -> Result<Duration, Expected> {
    let time = parse_duration(text).filter(|time| (Duration::from_secs(1)..=MAX_WATCH).contains(time));
    time.ok_or(Expected("a time from 1s to 1h, like 5m"))
}

fn canary_time(text: &str) -> Result<Duration, Expected> {
    let time = parse_duration(text).filter(|time| (Duration::from_secs(1)..=MAX_CANARY).contains(time));
    time.ok_or(Expected("a time from 1s to 1d, like 5m"))
}

fn path(text: &str) -> Result<String, Expected> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() || byte >= 0x80);
    is_path.then(|| text.to_owned()).ok_or(Expected("a path like /beers"))
}

fn kind(text: &str) -> Result<Kind, Expected> {
    serde_json::from_value(text.replace('-', "_").into())
        .map_err(|_| Expected("a kind of finding; docs/doctor.md lists them"))
}

/// What `args`, which begin with the program's name, ask for.
pub fn understood(matches: &ArgMatches, around: &Surroundings) -> Result<Wish, CliExit> {
    let own = matches.subcommand().map_or(matches, |(_, own)| own);
    let site = own.get_one::<String>("site").cloned();
    let offline = (own.try_get_one::<String>("offline").ok().flatten()).map(PathBuf::from);
    let place = match &offline {
        Some(dir) => Place::Offline(Box::new(load(own, Some(dir.clone()), around)?)),
        None => {
            let server = asking::asker(own, around)?;
            Place::Live {
                socket: server.socket,
                shown: server.shown,
                config: load(own, None, around).ok().map(Box::new),
            }
        }
    };
    if let Some(number) = own.try_get_one::<u64>("number").ok().flatten() {
        let time = own.get_one::<Duration>("for").copied().unwrap_or(CANARY);
        let canary = CanaryWish { time, waits: !own.get_flag("no-wait") };
        return Ok(Wish { place, site, job: Job::Apply(*number as usize, canary) });
    }
    let list = |name: &str| own.get_many::<String>(name).into_iter().flatten().cloned().collect::<Vec<_>>();
    let served_by = match own.get_one::<String>("server").map(String::as_str) {
        Some("other") => ServedBy::Other,
        Some(_) => ServedBy::Paceline,
        None if offline.is_some() => ServedBy::Other,
        None => ServedBy::Paceline,
    };
    let job = Job::Diagnose {
        watch: own.get_one::<Duration>("watch").copied().unwrap_or(WATCH),
        log: own.get_one::<String>("log").map(|file| around.cwd.join(file)),
        paths: list("path"),
        except: list("except"),
        rounds: own.get_one::<u64>("rounds").map(|rounds| *rounds as usize),
        only: own.get_many::<Kind>("only").into_iter().flatten().copied().collect(),
        json: own.get_flag("json"),
        when_busy: own.get_flag("busy"),
        served_by,
        keep: !own.get_flag("no-keep"),
    };
    Ok(Wish { place, site, job })
}

fn load(own: &ArgMatches, dir: Option<PathBuf>, around: &Surroundings) -> Result<Config, CliExit> {
    let file = config_file(own.get_one::<String>("config").map(String::as_str), &around.cwd);
    let file = file.map_err(|error| CliExit::Wrong(vec![error.to_string()]))?;
    let named = own.try_get_one::<String>("dir").ok().flatten().map(PathBuf::from);
    let flags = Flags { dir: dir.or(named), config_file: file, ..Flags::default() };
    config::load(flags, around).map_err(|error| CliExit::Wrong(error.problems))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{self, parse},
        config::test_folder::{around, Folder},
    };

    fn asked(folder: &Folder, line: &str) -> Result<Wish, CliExit> {
        let args: Vec<&str> = std::iter::once("paceline").chain(line.split_whitespace()).collect();
        match around(&folder.0, &[], |around| parse(args, around)) {
            Ok(cli::Command::Doctor(wish)) => Ok(*wish),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(end) => Err(end),
        }
    }

    #[test]
    fn what_is_asked_of_the_running_server() {
        let folder = Folder::with(&[("config.ru", "")]);
        let wish = asked(
            &folder,
            "doctor --watch 5m --site shop --only cold-connections,xml_mini --rounds 4 --json --except /admin/*",
        )
        .unwrap();
        let Place::Live { socket, shown, config } = &wish.place else { panic!("{:?}", wish.place) };
        assert_eq!((socket, shown.as_str()), (&folder.0.join("tmp/paceline.sock"), "tmp/paceline.sock"));
        assert!(config.is_some() && wish.site.as_deref() == Some("shop"));
        let Job::Diagnose { watch, rounds, only, json, served_by, except, .. } = wish.job else {
            panic!("{:?}", wish.job)
        };
        assert_eq!(except, ["/admin/*"]);
        assert_eq!((watch.as_secs(), rounds, json, served_by), (300, Some(4), true, ServedBy::Paceline));
        assert_eq!(only, [Kind::ColdConnections, Kind::XmlMini]);
    }

    #[test]
    fn an_application_that_another_server_serves() {
        let folder = Folder::with(&[("app/config.ru", ""), ("a.log", "")]);
        let wish = asked(&folder, "doctor --offline app --path /a --path /b?c=1").unwrap();
        let Place::Offline(config) = &wish.place else { panic!("{:?}", wish.place) };
        assert_eq!(config.sites[0].root, folder.0.join("app"));
        let Job::Diagnose { paths, served_by, log, .. } = wish.job else { panic!("{:?}", wish.job) };
        assert_eq!((paths, served_by, log), (vec!["/a".to_owned(), "/b?c=1".into()], ServedBy::Other, None));
        let wish = asked(&folder, "doctor --offline app --log a.log --server paceline").unwrap();
        let Job::Diagnose { served_by, log, .. } = wish.job else { panic!("{:?}", wish.job) };
        assert_eq!((served_by, log), (ServedBy::Paceline, Some(folder.0.join("a.log"))));
    }

    #[test]
    fn advice_is_applied_by_its_number() {
        let folder = Folder::with(&[("config.ru", "")]);
        let wish = asked(&folder, "doctor apply 2 --site shop").unwrap();
        let minute = CanaryWish { time: CANARY, waits: true };
        assert!(matches!(wish.job, Job::Apply(2, canary) if canary == minute) && wish.site.as_deref() == Some("shop"));
        let wish = asked(&folder, "doctor apply 2 --for 5m --no-wait").unwrap();
        assert!(matches!(wish.job, Job::Apply(2, CanaryWish { time, waits: false }) if time == CANARY * 5));
    }

    #[test]
    fn mistakes_take_one_line() {
        let folder = Folder::with(&[("config.ru", "")]);
        for (line, told) in [
            ("doctor --offline . --watch 5s", "cannot be used with"),
            ("doctor --path beers", "a path like /beers"),
            ("doctor --watch 2h", "a time from 1s to 1h"),
            ("doctor --only speed", "expected a kind of finding"),
            ("doctor --rounds 0", "0 is not in 1..=100"),
            ("doctor apply", "required"),
            ("doctor apply one", "invalid"),
            ("doctor apply 1 --for 2d", "a time from 1s to 1d"),
            ("doctor --offline nowhere", "nowhere"),
            ("-p 1 doctor", "put doctor first"),
        ] {
            match asked(&folder, line) {
                Err(CliExit::Wrong(lines)) => assert!(lines[0].contains(told), "{line}: {lines:?}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(asked(&folder, "doctor --help"), Err(CliExit::Print(text)) if text.contains("Exit status")));
    }
}
