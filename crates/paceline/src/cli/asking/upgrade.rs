//! `paceline upgrade`: a new program in the place of the running server's own.
//! It never installs one.

use std::{process::ExitCode, time::Duration};

use clap::{ArgMatches, Command};
use serde_json::{json, Value};

use super::{print, switch, Asker};
use crate::server::control::client::Failed;

/// The server answers when `upgrade_timeout` is over at the latest.
const PATIENCE: Duration = Duration::from_secs(86_400);

const AFTER: &str = "\
The program that is now at the server's path starts beside the server, with the same arguments, in the same directory. It reads the
settings, boots the applications, and takes over listening sockets and page cache. No connection is refused. If it does not get ready,
the running server continues. Exit status with --wait: 0 when the new program serves, 1 when it does not.
docs/signals.md has the details.";

pub fn command() -> Command {
    Command::new("upgrade")
        .bin_name("paceline upgrade")
        .about("Replaces the running server with the installed Paceline")
        .after_help(AFTER)
        .arg(switch("wait").help("Wait for the result; print the reason if it fails"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer =
        server.ask_patiently("POST", "/upgrade", Some(&json!({ "wait": matches.get_flag("wait") })), PATIENCE)?;
    print(&summary(&answer))
}

fn summary(answer: &Value) -> String {
    match (answer["restarted"].as_str(), answer["pid"].as_i64()) {
        (Some(why), _) => format!("{why}\n"),
        (None, Some(pid)) => format!("upgraded: now serving with pid {pid}\n"),
        (None, None) => "upgrade started\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_it() {
        assert_eq!(summary(&json!({ "upgrading": true })), "upgrade started\n");
        assert_eq!(summary(&json!({ "pid": 7 })), "upgraded: now serving with pid 7\n");
        assert_eq!(summary(&json!({ "restarted": "so" })), "so\n");
    }
}
