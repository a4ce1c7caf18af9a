//! The command line of `paceline bench`: ab's flags with ab's meaning, and its own. Never measures.

use std::{fs, io, net::IpAddr, path::PathBuf, time::Duration};

use base64::{engine::general_purpose::STANDARD, Engine as _};
use bytes::Bytes;
use clap::{Arg, ArgAction, ArgMatches, Command};
use http::{header, HeaderName, HeaderValue, Method};

use crate::{
    report::ab,
    request::Template,
    run::End,
    target::{Target, TargetError},
    wire::{Version, Words},
};

/// Clients of a closed loop where nothing says how many.
const CLIENTS: usize = 25;
/// The longest time of a run where nothing says how long.
const TIME: Duration = Duration::from_secs(10);
/// Clients of an open loop at most, where nothing says how many.
pub const OPEN_CLIENTS: usize = 1000;
/// Requests a second to another machine, unless `--yes` is given.
pub const STRANGERS_RATE: f64 = 50.0;

/// What to measure, and where to write what was found.
pub struct Options {
    /// One, or two to compare.
    pub targets: Vec<Target>,
    pub template: Template,
    pub clients: usize,
    pub end: End,
    pub mode: Mode,
    pub version: Version,
    /// Requests that share a connection of HTTP/2.
    pub streams: usize,
    /// For one request.
    pub limit: Duration,
    /// Whether a certificate that can't be verified is accepted.
    pub insecure: bool,
    /// Any rate to any machine.
    pub yes: bool,
    /// Connections come from this address. None: the system chooses.
    pub local: Option<IpAddr>,
    /// What is said of each response.
    pub words: Words,
    /// ab's report in place of the own one.
    pub ab: Option<ab::Tables>,
    /// Responses may have different lengths (ab's -l).
    pub any_length: bool,
    pub quiet: bool,
    pub output: Output,
}

/// How requests follow each other.
pub enum Mode {
    /// Each client waits for its response.
    Closed,
    /// So many a second.
    Rate(f64),
    /// As in an access log, so many times as fast.
    Replay { file: PathBuf, speed: f64 },
    /// The largest rate whose p99 is not above this.
    Find(Duration),
}

/// Files to write and to read.
#[derive(Default)]
pub struct Output {
    /// Standard output gets JSON.
    pub json: bool,
    pub save: Option<PathBuf>,
    pub csv: Option<PathBuf>,
    pub gnuplot: Option<PathBuf>,
    pub percentiles_csv: Option<PathBuf>,
    pub hdr: Option<PathBuf>,
    pub html: Option<PathBuf>,
    /// A saved result to compare with.
    pub against: Vec<PathBuf>,
}

/// What is wrong with the command line.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("-{flag} {value}: {problem}")]
    Value { flag: &'static str, value: String, problem: &'static str },
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{0} and {1} can't be combined")]
    Both(&'static str, &'static str),
}

fn value(flag: &'static str, value: &str, problem: &'static str) -> OptionError {
    OptionError::Value { flag, value: value.to_owned(), problem }
}

/// The command for clap.
pub fn command() -> Command {
    let option =
        |id: &'static str, name: &'static str, help: &'static str| Arg::new(id).long(id).value_name(name).help(help);
    let flag = |id: &'static str, help: &'static str| Arg::new(id).long(id).action(ArgAction::SetTrue).help(help);
    Command::new("paceline bench")
        .about("Measures an HTTP server from outside, and shows where a Paceline server spends the time")
        .after_help(
            "Without -n, -t and --rate: 25 clients for 10 s. As with ab, each request has a connection of its own unless -k is given,\n\
             and there is one client if -n or -t is given without -c.\n\
             docs/bench.md explains each figure.",
        )
        .override_usage("paceline bench [OPTIONS] URL [URL]")
        .arg(Arg::new("url").value_name("URL").required(true).num_args(1..=2).help("What to measure; two are compared, in turn"))
        .next_help_heading("Load")
        .arg(option("requests", "NUMBER", "End after this many requests").short('n'))
        .arg(option("concurrency", "NUMBER", "Clients, each with one request at a time").short('c'))
        .arg(option("time", "TIME", "End after this time, such as 30s; a number alone is seconds").short('t').visible_alias("timelimit"))
        .arg(flag("keep-alive", "Keep connections open for further requests").short('k'))
        .arg(option("rate", "NUMBER", "Send this many requests a second, such as 500/s, however long responses take"))
        .arg(option("replay", "FILE", "Send the GET and HEAD requests of an access log, in its rhythm"))
        .arg(option("speed", "FACTOR", "With --replay: so many times as fast, such as 2x"))
        .arg(option("find", "TIME", "Find the largest rate whose p99 is at most this, such as 100ms"))
        .arg(flag("yes", "Send more than 50 requests a second to another machine"))
        .next_help_heading("Request")
        .arg(option("header", "NAME: VALUE", "Add a header field; can be repeated").short('H').action(ArgAction::Append))
        .arg(option("cookie", "NAME=VALUE", "Add a cookie; can be repeated").short('C').action(ArgAction::Append))
        .arg(option("auth", "USER:PASSWORD", "HTTP Basic authentication").short('A'))
        .arg(option("method", "METHOD", "Request method").short('m'))
        .arg(flag("head", "Send HEAD requests").short('i'))
        .arg(option("post", "FILE", "POST this file; set -T too").short('p'))
        .arg(option("put", "FILE", "PUT this file; set -T too").short('u'))
        .arg(option("content-type", "TYPE", "Content-Type of the file; the default is text/plain").short('T'))
        .arg(option("timeout", "SECONDS", "Time limit for one request; the default is 30").short('s'))
        .next_help_heading("Connection")
        .arg(flag("http2", "Use HTTP/2; over http:// with prior knowledge"))
        .arg(option("streams", "NUMBER", "With --http2: so many clients share a connection; the default is 1"))
        .arg(option("unix-socket", "PATH", "Connect to this Unix socket in place of the URL's host and port"))
        .arg(option("local-address", "ADDRESS", "Connect from this IP address").short('B'))
        .arg(flag("insecure", "Accept any certificate (on this machine every certificate is accepted)"))
        .next_help_heading("Output")
        .arg(flag("ab", "Print ab's report"))
        .arg(flag("no-percentages", "With --ab: no table of percentages").short('d'))
        .arg(flag("no-deviation", "With --ab: no median, and no standard deviation").short('S'))
        .arg(option("verbosity", "NUMBER", "On standard error, 2: failures and answers that are not 2xx, 3: each status, 4: each head (HTTP/1.1)").short('v'))
        .arg(flag("json", "Print JSON"))
        .arg(option("save", "FILE", "Write the result as JSON, for --against and --html"))
        .arg(option("against", "FILE", "Compare with a saved result; can be repeated with --html").action(ArgAction::Append))
        .arg(option("html", "FILE", "Write a page with charts, of this run and those of --against"))
        .arg(option("csv", "FILE", "Write a line for every 200 ms"))
        .arg(option("percentiles-csv", "FILE", "Write the percentiles as ab's -e does: percentage, milliseconds").short('e'))
        .arg(option("gnuplot", "FILE", "Write a line for each request as ab's -g does").short('g'))
        .arg(option("hdr", "FILE", "Write the percentile distribution of HdrHistogram (.hgrm)"))
        .arg(flag("any-length", "Do not mention responses of different lengths").short('l'))
        .arg(flag("quiet", "No progress, only the result").short('q'))
        .arg(flag("keep-going", "As with ab's -r; failures never end a run").short('r').hide(true))
}

impl Options {
    /// `stderr_is_terminal`: progress is drawn there.
    pub fn of(matches: &ArgMatches) -> Result<Options, OptionError> {
        let text = |id: &str| matches.get_one::<String>(id).map(String::as_str);
        let file = |id: &str| matches.get_one::<String>(id).map(PathBuf::from);
        let urls = matches.get_many::<String>("url").into_iter().flatten();
        let targets = urls.map(|url| Target::parse(url, file("unix-socket"))).collect::<Result<Vec<_>, _>>()?;
        let requests = text("requests").map(|given| number("n", given)).transpose()?;
        let time = text("time").map(|given| duration("t", given)).transpose()?;
        let given_clients = text("concurrency").map(|given| number("c", given)).transpose()?;
        let mode = mode(matches)?;
        let version = if matches.get_flag("http2") { Version::Http2 } else { Version::Http1 };
        let end = match (requests, time, &mode) {
            (None, None, Mode::Replay { .. }) => End::default(),
            (None, None, _) => End { requests: None, time: Some(TIME) },
            _ => End { requests, time },
        };
        let open = !matches!(mode, Mode::Closed);
        let clients = match given_clients {
            Some(clients) => clients as usize,
            None if open => OPEN_CLIENTS,
            None if requests.is_some() || time.is_some() => 1,
            None => CLIENTS,
        };
        if targets.len() > 1 && open {
            return Err(OptionError::Both("two URLs", "--rate, --replay or --find"));
        }
        let verbosity = text("verbosity").map(|given| number("v", given)).transpose()?;
        let wrong = |given: &str| value("B", given, "must be an IP address of this machine");
        let local = text("local-address").map(|given| given.parse().map_err(|_| wrong(given))).transpose()?;
        let tables = ab::Tables {
            percentages: !matches.get_flag("no-percentages"),
            deviation: !matches.get_flag("no-deviation"),
        };
        let limit = text("timeout").map(|given| duration("s", given)).transpose()?;
        Ok(Options {
            targets,
            template: template(matches, version)?,
            clients,
            end,
            mode,
            version,
            streams: text("streams").map(|given| number("-streams", given)).transpose()?.unwrap_or(1) as usize,
            limit: limit.unwrap_or(Duration::from_secs(30)),
            insecure: matches.get_flag("insecure"),
            yes: matches.get_flag("yes"),
            local,
            words: Words::of(verbosity.unwrap_or_default()),
            ab: matches.get_flag("ab").then_some(tables),
            any_length: matches.get_flag("any-length"),
            // Progress would be drawn over what is said.
            quiet: matches.get_flag("quiet") || verbosity.is_some_and(|level| level > 1),
            output: Output {
                json: matches.get_flag("json"),
                save: file("save"),
                csv: file("csv"),
                gnuplot: file("gnuplot"),
                percentiles_csv: file("percentiles-csv"),
                hdr: file("hdr"),
                html: file("html"),
                against: matches.get_many::<String>("against").into_iter().flatten().map(PathBuf::from).collect(),
            },
        })
    }
}

fn mode(matches: &ArgMatches) -> Result<Mode, OptionError> {
    let text = |id: &str| matches.get_one::<String>(id).map(String::as_str);
    let speed = match text("speed") {
        None => 1.0,
        Some(given) => positive("-speed", given.trim_end_matches('x'), given)?,
    };
    match (text("rate"), text("replay"), text("find")) {
        (Some(_), Some(_), _) => Err(OptionError::Both("--rate", "--replay")),
        (Some(_), _, Some(_)) => Err(OptionError::Both("--rate", "--find")),
        (_, Some(_), Some(_)) => Err(OptionError::Both("--replay", "--find")),
        (Some(given), ..) => Ok(Mode::Rate(positive("-rate", given.trim_end_matches("/s"), given)?)),
        (_, Some(file), _) => Ok(Mode::Replay { file: file.into(), speed }),
        (.., Some(given)) => Ok(Mode::Find(duration("-find", given)?)),
        _ => Ok(Mode::Closed),
    }
}

fn template(matches: &ArgMatches, version: Version) -> Result<Template, OptionError> {
    let text = |id: &str| matches.get_one::<String>(id).map(String::as_str);
    let many = |id: &str| matches.get_many::<String>(id).into_iter().flatten();
    let read =
        |path: &str| fs::read(path).map(Bytes::from).map_err(|error| OptionError::File { path: path.into(), error });
    let (method, body) = match (text("post"), text("put")) {
        (Some(_), Some(_)) => return Err(OptionError::Both("-p", "-u")),
        (Some(path), None) => (Method::POST, read(path)?),
        (None, Some(path)) => (Method::PUT, read(path)?),
        (None, None) if matches.get_flag("head") => (Method::HEAD, Bytes::new()),
        (None, None) => (Method::GET, Bytes::new()),
    };
    let method = match text("method") {
        Some(given) => given.parse().map_err(|_| value("m", given, "not a method"))?,
        None => method,
    };
    let mut fields = Vec::new();
    for line in many("header") {
        let wrong = || value("H", line, "not a header field; write NAME: VALUE");
        let (name, content) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        fields.push((name, HeaderValue::from_str(content.trim()).map_err(|_| wrong())?));
    }
    let cookies: Vec<&str> = many("cookie").map(String::as_str).collect();
    if !cookies.is_empty() {
        let all = cookies.join("; ");
        let content = HeaderValue::from_str(&all).map_err(|_| value("C", &all, "not a cookie; write NAME=VALUE"))?;
        fields.push((header::COOKIE, content));
    }
    if let Some(given) = text("auth") {
        let content = format!("Basic {}", STANDARD.encode(given));
        let mut content = HeaderValue::from_str(&content).map_err(|_| value("A", "...", "write USER:PASSWORD"))?;
        content.set_sensitive(true);
        fields.push((header::AUTHORIZATION, content));
    }
    Ok(Template {
        method,
        fields,
        body,
        content_type: text("content-type").map(str::to_owned),
        keep_alive: matches.get_flag("keep-alive") || version == Version::Http2,
        asks_inside: true,
    })
}

fn number(flag: &'static str, given: &str) -> Result<u64, OptionError> {
    let wrong = || value(flag, given, "must be a whole number of at least 1");
    given.parse().ok().filter(|number| *number >= 1).ok_or_else(wrong)
}

fn positive(flag: &'static str, digits: &str, given: &str) -> Result<f64, OptionError> {
    let wrong = || value(flag, given, "must be a number above 0");
    digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0).ok_or_else(wrong)
}

/// Like "200ms", "5s", "2m", "1h"; a number alone is seconds, as with ab.
fn duration(flag: &'static str, given: &str) -> Result<Duration, OptionError> {
    let at = given.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(given.len());
    let (digits, unit) = given.split_at(at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(value(flag, given, "must be a time like 200ms, 5s or 2m")),
    };
    let seconds = positive(flag, digits, given)? * seconds;
    Duration::try_from_secs_f64(seconds).map_err(|_| value(flag, given, "must be a time like 200ms, 5s or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Options, OptionError> {
        Options::of(&command().try_get_matches_from(format!("bench {line}").split(' ')).unwrap())
    }

    #[test]
    fn abs_flags_mean_what_ab_means() {
        let options =
            of("-n 1000 -c 10 -k -C a=b -C c=d -H Accept-Language:de -A me:secret http://127.0.0.1:3000/beers")
                .unwrap();
        assert_eq!((options.end.requests, options.end.time, options.clients), (Some(1000), None, 10));
        assert!(options.template.keep_alive);
        let fields = options.template.fields();
        assert_eq!(fields["cookie"], "a=b; c=d");
        assert_eq!(fields["accept-language"], "de");
        assert_eq!(fields["authorization"], "Basic bWU6c2VjcmV0");
        assert_eq!(of("-n 10 http://localhost/").unwrap().clients, 1);
        assert_eq!(of("-t 30 http://localhost/").unwrap().end.time, Some(Duration::from_secs(30)));
        assert_eq!(of("-i http://localhost/").unwrap().template.method, Method::HEAD);
    }

    #[test]
    fn nothing_given_is_25_clients_for_ten_seconds() {
        let options = of("localhost:3000/beers").unwrap();
        assert_eq!((options.clients, options.end.time), (25, Some(TIME)));
        assert!(!options.template.keep_alive);
    }

    #[test]
    fn rates_and_times_have_units() {
        assert!(matches!(of("--rate 500/s localhost").unwrap().mode, Mode::Rate(rate) if rate == 500.0));
        assert!(matches!(of("--find 100ms localhost").unwrap().mode, Mode::Find(time) if time.as_millis() == 100));
        assert!(matches!(of("--replay a.log --speed 2x localhost").unwrap().mode, Mode::Replay { speed: 2.0, .. }));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            ("-n 0 localhost", "-n 0: must be a whole number of at least 1"),
            ("-t 5d localhost", "-t 5d: must be a time like 200ms, 5s or 2m"),
            ("-B here localhost", "-B here: must be an IP address of this machine"),
            ("-H nothing localhost", "-H nothing: not a header field; write NAME: VALUE"),
            ("-p /no/such/file localhost", "/no/such/file: No such file or directory (os error 2)"),
            ("--rate 0 localhost", "--rate 0: must be a number above 0"),
            ("--rate 5 localhost localhost", "two URLs and --rate, --replay or --find can't be combined"),
            ("ftp://localhost", "ftp://localhost: only http:// and https:// can be measured"),
        ] {
            assert_eq!(of(line).err().unwrap().to_string(), expected);
        }
    }
}
