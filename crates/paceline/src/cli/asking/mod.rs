//! The commands that ask the running server over its control socket and say what it answered. Each has a file here;
//! this one has their table, and finds the server. It never starts a server.

mod auto_cache;
mod cache;
mod cluster;
mod dashboard;
mod incidents;
mod log;
mod maintenance;
mod memory;
mod requests;
mod restart;
mod rolling;
mod schedule;
mod status;
mod text;
mod top;
mod upgrade;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::{config_file::config_file, CliExit};
use crate::{
    config::{self, Config, Flags, Surroundings},
    server::control::{
        client::{self, Failed},
        VARIABLE,
    },
};

/// A command that asks the running server.
pub struct Subcommand {
    pub name: &'static str,
    /// For `paceline --help`.
    pub about: &'static str,
    /// Its own command line, which has none of the server's settings.
    command: fn() -> Command,
    /// Asks, prints and says the exit status.
    run: fn(&Asker, &ArgMatches) -> Result<ExitCode, Failed>,
}

pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "purge",
        about: "Drop pages from the running server's cache: a URL, --tag, --prefix or --all",
        command: || where_it_is(cache::purge()),
        run: cache::run_purge,
    },
    Subcommand {
        name: "cache",
        about: "`cache stats`: statistics of the running server's page cache; `cache advise`, `cache why`: the automatic one",
        command: cache::cache,
        run: cache::run,
    },
    Subcommand {
        name: "cluster",
        about: "Show the servers of the running one's cluster, and how each is doing ([cluster])",
        command: || where_it_is(cluster::command()),
        run: cluster::run,
    },
    Subcommand {
        name: "dashboard",
        about: "Serve the dashboard of the running server on a local port, until Ctrl-C",
        command: || where_it_is(dashboard::command()),
        run: dashboard::run,
    },
    Subcommand {
        name: "restart",
        about: "Restart the applications without downtime; --wait prints the result, --rolling restarts all servers of the cluster",
        command: || where_it_is(restart::restart()),
        run: restart::run_restart,
    },
    Subcommand {
        name: "rollback",
        about: "Go back to the release before the last restart",
        command: || where_it_is(restart::rollback()),
        run: restart::run_rollback,
    },
    Subcommand {
        name: "maintenance",
        about: "Close the sites for a while with a page that says so, and open them: maintenance on, off or status; --cluster",
        command: || where_it_is(maintenance::command()),
        run: maintenance::run,
    },
    Subcommand {
        name: "upgrade",
        about: "Replace the running server with the installed Paceline, without refusing a connection",
        command: || where_it_is(upgrade::command()),
        run: upgrade::run,
    },
    Subcommand {
        name: "incidents",
        about: "List crashes, time-outs and failed starts; with an ID, print one post-mortem",
        command: || where_it_is(incidents::command()),
        run: incidents::run,
    },
    Subcommand {
        name: "requests",
        about: "List requests in progress; --backtrace prints the Ruby backtrace of one",
        command: || where_it_is(requests::requests()),
        run: requests::run,
    },
    Subcommand {
        name: "status",
        about: "Show the running server's sites, generations, workers, and requests of the last minute",
        command: || where_it_is(status::status()),
        run: status::run,
    },
    Subcommand {
        name: "top",
        about: "Show requests, times, queue, workers and slow routes of the running server, every second",
        command: || where_it_is(top::command()),
        run: top::run,
    },
    Subcommand {
        name: "schedule",
        about: "Show when pages change, and which are prepared ([[scheduled]])",
        command: || where_it_is(schedule::schedule()),
        run: schedule::run_schedule,
    },
    Subcommand {
        name: "preview",
        about: "Print a page as it will be: preview PATH --at \"tomorrow 12:00\"; --link signs a link",
        command: || where_it_is(schedule::preview()),
        run: schedule::run_preview,
    },
    Subcommand {
        name: "memory",
        about: "Show the real memory cost of each process, and the route that made a worker grow",
        command: memory::command,
        run: memory::run,
    },
    Subcommand {
        name: "log",
        about: "Print the last log lines of the running server; --follow keeps printing",
        command: || where_it_is(log::command()),
        run: log::run,
    },
];

/// What parts add to `paceline cache`, whose help has what they are about.
const OF_CACHE: &[Subcommand] = auto_cache::COMMANDS;

/// What is asked, and where.
pub struct Question {
    server: Asker,
    subcommand: &'static Subcommand,
    matches: ArgMatches,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.subcommand.name, self.server.shown)
    }
}

/// The running server, by its control socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Asker {
    pub socket: PathBuf,
    /// As the person at the terminal would name it.
    pub shown: String,
}

impl Asker {
    /// `body`: None for GET.
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Value, Failed> {
        client::ask(&self.socket, method, target, body)
    }

    /// Asks where the answer may take so long.
    pub fn ask_patiently(
        &self,
        method: &str,
        target: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<Value, Failed> {
        client::ask_patiently(&self.socket, method, target, body, patience)
    }
}

pub fn named(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name)
}

impl Subcommand {
    pub fn command(&self) -> Command {
        (self.command)()
    }
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

/// The options that name a running server.
pub fn where_it_is(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    command
        .arg(option("control", "PATH").help(format!("The server's control socket [env: {VARIABLE}]")))
        .arg(option("config", "FILE").short('C').help("The server's settings file, which names the socket"))
        .arg(option("dir", "DIR").help("Directory that the server serves, instead of the current one"))
}

pub fn understood(
    subcommand: &'static Subcommand,
    matches: ArgMatches,
    around: &Surroundings,
) -> Result<Question, CliExit> {
    let own = matches.subcommand().map_or(&matches, |(_, own)| own);
    Ok(Question { server: asker(own, around)?, subcommand, matches })
}

/// The running server that these options name.
pub fn asker(own: &ArgMatches, around: &Surroundings) -> Result<Asker, CliExit> {
    let wrong = |why: String| CliExit::Wrong(vec![why]);
    let named = own.get_one::<String>("control").cloned();
    let named = named.or_else(|| (around.env)(VARIABLE).filter(|path| !path.is_empty() && path != "off"));
    let socket = match named {
        Some(path) => around.cwd.join(path.strip_prefix("unix://").unwrap_or(&path)),
        None => {
            let file = config_file(own.get_one::<String>("config").map(String::as_str), &around.cwd)
                .map_err(|error| wrong(error.to_string()))?;
            let dir = own.get_one::<String>("dir").map(PathBuf::from);
            let flags = Flags { dir, config_file: file, asks: true, ..Flags::default() };
            let config = config::load(flags, around).map_err(|error| CliExit::Wrong(error.problems))?;
            let no_socket = || wrong("this server has no control socket, because control = \"off\"".into());
            socket_of(&config).ok_or_else(no_socket)?
        }
    };
    let shown = socket.strip_prefix(&around.cwd).unwrap_or(&socket).display().to_string();
    Ok(Asker { socket, shown })
}

/// The control socket of a server with these settings. None: it has none.
pub fn socket_of(config: &Config) -> Option<PathBuf> {
    let path = config.control.path.clone()?;
    // The server may have been told by a flag that this is a folder of sites.
    let of_folder = config.site_defaults.root.join(config::OF_FOLDER);
    if !config.control.named && !path.exists() && of_folder.exists() {
        Some(of_folder)
    } else {
        Some(path)
    }
}

/// The exit status is 1 when there was no answer.
pub fn run(question: &Question) -> ExitCode {
    let Question { server, subcommand, matches } = question;
    (subcommand.run)(server, matches).unwrap_or_else(|failed| {
        eprintln!("paceline: {}", explained(&failed, &server.socket, &server.shown));
        ExitCode::FAILURE
    })
}

/// Prints what was answered.
fn print(text: &str) -> Result<ExitCode, Failed> {
    // A reader that went away is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Prints the answer itself with `--json`, else the text that it makes.
fn print_answer(answer: &Value, matches: &ArgMatches, text: impl FnOnce(&Value) -> String) -> Result<ExitCode, Failed> {
    print(&if matches.get_flag("json") { format!("{answer:#}\n") } else { text(answer) })
}

fn explained(failed: &Failed, socket: &Path, shown: &str) -> String {
    match failed {
        Failed::NoServer(_) => format!(
            "no server answers at {shown}: run the command in the directory that it serves, or name its socket with --control PATH"
        ),
        Failed::Forbidden => {
            use std::os::unix::fs::MetadataExt;
            let owner = std::fs::metadata(socket).map(|found| format!(" (user {})", found.uid())).unwrap_or_default();
            format!("no permission for {shown}: run the command as its owner{owner} or as root")
        }
        Failed::Broken(why) => format!("{shown}: {why}"),
        Failed::Refused(why) => why.clone(),
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
        let asked_to = |line: &str| asked(&folder, &[], line).unwrap().subcommand.name;
        assert_eq!((asked_to("purge --all"), asked_to("cache stats --json")), ("purge", "cache"));
        for (line, told) in [
            ("purge", "required"),
            ("purge --all --tag a", "cannot be used with"),
            ("purge a b", "unexpected argument 'b'"),
            ("cache", "subcommand"),
            ("cache purge", "unrecognized subcommand"),
            ("-p 1 purge --all", "put purge first"),
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
            assert_eq!((question.server.socket, question.server.shown.as_str()), (folder.0.join(path), path), "{line}");
        }
        assert!(asked(&folder, &[], "cache stats --dir off").is_err());
    }
}
