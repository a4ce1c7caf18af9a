//! `paceline dashboard`: the running server's dashboard in a browser, without a listener of the server's own.
//! It never opens more than a port of loopback, and never changes anything.

use std::{io::Write, process::ExitCode};

use clap::{value_parser, Arg, ArgMatches, Command};

use super::Asker;
use crate::server::control::{client::Failed, relay};

const AFTER: &str = "\
It serves the dashboard on a port of this machine's loopback for as long as it runs, by way of the control socket. The link it prints
opens once, in one browser. From elsewhere: ssh -L 9293:127.0.0.1:9293 HOST, and there paceline dashboard --port 9293.";

pub fn command() -> Command {
    Command::new("dashboard")
        .bin_name("paceline dashboard")
        .about("Serve the dashboard of the running server on a local port, until Ctrl-C")
        .after_help(AFTER)
        .arg(
            Arg::new("port")
                .long("port")
                .value_name("PORT")
                .value_parser(value_parser!(u16))
                .default_value("0")
                .help("Port to serve it on; 0 picks a free one"),
        )
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    // Whoever is not there is told of at once.
    server.ask("GET", "/incidents", None)?;
    let port = matches.get_one::<u16>("port").copied().unwrap_or(0);
    let told = |url: &str| {
        println!("The dashboard is available until Ctrl-C. This link works once:\n\n  {url}\n");
        let _ = std::io::stdout().flush();
    };
    relay::run(&server.socket, port, told)
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failed::Refused(format!("port {port} of 127.0.0.1: {error}")))
}
