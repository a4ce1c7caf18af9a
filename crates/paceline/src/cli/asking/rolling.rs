//! `paceline restart --rolling`: restarts all servers of the running one's cluster, one after the other. The command decides which is
//! next: when it ends, whatever it ends by, no further server is restarted. It never speaks with the other servers itself.

use std::{
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use clap::{Arg, ArgMatches};
use serde_json::{json, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{
    print, switch,
    text::{printable, seconds, text},
    Asker,
};
use crate::server::control::client::Failed;

/// How often it is asked how a server is doing.
const LOOK: Duration = Duration::from_millis(200);
/// A server that is there hears of its order within a second.
const HEARS: Duration = Duration::from_secs(15);
/// How long Valkey may be away before the command gives up: as long as the lease lasts.
const TROUBLE: Duration = Duration::from_secs(8);
/// What a shell says of a command that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

pub fn arguments() -> [Arg; 4] {
    [
        switch("rolling")
            .conflicts_with("canary")
            .help("Restart all servers of the cluster, one after the other; stop at the first that fails ([cluster])"),
        Arg::new("watch")
            .long("watch")
            .value_name("TIME")
            .value_parser(seconds)
            .requires("rolling")
            .help("How long each server's answers are counted before the next is restarted, like 30s [default: 5s]"),
        switch("skip-silent").requires("rolling").help("Leave out servers that are silent, instead of restarting none"),
        switch("json").requires("rolling").help("Print the result as JSON, without progress"),
    ]
}

/// What became of all.
#[derive(Debug, Default)]
struct Outcome {
    cluster: String,
    /// Each with what it said.
    restarted: Vec<(Server, String)>,
    /// Servers without such an application.
    nothing: Vec<Server>,
    /// The one at which it stopped, with why.
    stopped: Option<(Server, Stop)>,
    waiting: Vec<Server>,
    skipped: Vec<Server>,
}

/// Why it stopped.
#[derive(Debug, Clone, PartialEq)]
enum Stop {
    /// The old code serves there, or the new code not well.
    Failed(String),
    /// What becomes of the server is not known.
    Unknown(String),
    Interrupted,
    /// Nobody has told the server yet.
    BeforeIt(String),
}

#[derive(Debug, Clone, PartialEq)]
struct Server {
    id: String,
    host: String,
    pid: u64,
}

impl Server {
    fn of(said: &Value) -> Server {
        let text = |key: &str| text(&said[key]);
        Server { id: text("id"), host: text("host"), pid: said["pid"].as_u64().unwrap_or(0) }
    }

    fn shown(&self) -> String {
        format!("{} (pid {})", self.host, self.pid)
    }

    fn to_json(&self) -> Value {
        json!({ "host": self.host, "pid": self.pid })
    }
}

/// Asks step by step.
struct Rolling<'a> {
    server: &'a Asker,
    token: Value,
    site: Option<&'a String>,
    watch: Option<u64>,
    is_ended: Arc<AtomicBool>,
    shows_progress: bool,
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    // Before anything begins, so that no signal ends it without a word.
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, is_ended.clone()).map_err(|why| Failed::Broken(why.to_string()))?;
    }
    let begun =
        server.ask("POST", "/cluster/restart", Some(&json!({ "skip_silent": matches.get_flag("skip-silent") })))?;
    let all = |key: &str| begun[key].as_array().into_iter().flatten().map(Server::of).collect::<Vec<_>>();
    let rolling = Rolling {
        server,
        token: begun["token"].clone(),
        site: matches.get_one("site"),
        watch: matches.get_one::<f64>("watch").map(|seconds| (seconds * 1000.0) as u64),
        is_ended,
        shows_progress: !matches.get_flag("json"),
    };
    let cluster = text(&begun["cluster"]);
    let mut outcome = Outcome { cluster, skipped: all("skipped"), waiting: all("members"), ..Outcome::default() };
    rolling.all(&mut outcome)?;
    // Without it nobody could begin another one for ten seconds.
    let _ = server.ask("POST", "/cluster/restart/end", Some(&json!({ "token": rolling.token })));
    print(&if rolling.shows_progress { outcome.summary() } else { format!("{:#}\n", outcome.to_json()) })?;
    Ok(outcome.status())
}

impl Rolling<'_> {
    fn all(&self, outcome: &mut Outcome) -> Result<(), Failed> {
        let count = outcome.waiting.len();
        self.say(&format!("{}: {count} servers, one after the other\n", outcome.cluster))?;
        for number in 1..=count {
            if self.is_ended.load(Relaxed) {
                outcome.stopped = Some((outcome.waiting[0].clone(), Stop::Interrupted));
                return Ok(());
            }
            let next = outcome.waiting[0].clone();
            let stop = |why| Some((next.clone(), why));
            let order = match self.order(&next) {
                Ok(order) => order,
                Err(why) => {
                    // It may have heard of it.
                    if !matches!(why, Stop::BeforeIt(_)) {
                        outcome.waiting.remove(0);
                    }
                    outcome.stopped = stop(why);
                    return Ok(());
                }
            };
            outcome.waiting.remove(0);
            self.say(&format!("{number} of {count}  {}: restarting\n", next.shown()))?;
            match self.end_of(&next, &order) {
                Ok(Some(text)) => {
                    self.say(&format!("{number} of {count}  {}: {text}\n", next.shown()))?;
                    outcome.restarted.push((next, text));
                }
                Ok(None) => {
                    self.say(&format!("{number} of {count}  {}: site not configured on this server\n", next.shown()))?;
                    outcome.nothing.push(next);
                }
                Err(why) => {
                    outcome.stopped = stop(why);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Tells one server to restart. The order's id.
    fn order(&self, server: &Server) -> Result<Value, Stop> {
        let wish = json!({ "token": self.token, "member": server.id, "site": self.site, "watch": self.watch });
        let answer =
            self.server.ask("POST", "/cluster/restart/order", Some(&wish)).map_err(|why| Stop::Unknown(said(&why)))?;
        match (answer["order"].as_str(), answer["trouble"].as_str()) {
            (Some(_), _) => Ok(answer["order"].clone()),
            // It may have arrived.
            (None, Some(why)) => Err(Stop::Unknown(printable(why))),
            (None, None) => Err(Stop::BeforeIt(LOST.into())),
        }
    }

    /// What the server says when it has restarted. None: it has no such application.
    fn end_of(&self, server: &Server, order: &Value) -> Result<Option<String>, Stop> {
        let wish = json!({ "token": self.token, "member": server.id, "order": order });
        let began = Instant::now();
        let mut trouble_since = None;
        loop {
            if self.is_ended.load(Relaxed) {
                return Err(Stop::Interrupted);
            }
            let answer = match self.server.ask("POST", "/cluster/restart/look", Some(&wish)) {
                Ok(answer) => answer,
                Err(why) => return Err(Stop::Unknown(said(&why))),
            };
            if let Some(why) = answer["trouble"].as_str() {
                if trouble_since.get_or_insert_with(Instant::now).elapsed() >= TROUBLE {
                    return Err(Stop::Unknown(printable(why)));
                }
            } else {
                trouble_since = None;
                if let Some(end) = end_of(&answer, began.elapsed()) {
                    return end;
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn say(&self, line: &str) -> Result<(), Failed> {
        if self.shows_progress {
            print(line)?;
        }
        Ok(())
    }
}

const LOST: &str = "another command restarts all servers now, or Valkey has lost its data";

/// How it ended on a server, if it has.
fn end_of(answer: &Value, since: Duration) -> Option<Result<Option<String>, Stop>> {
    let text = || text(&answer["text"]);
    let unknown = |why: &str| Some(Err(Stop::Unknown(why.into())));
    match answer["state"].as_str() {
        Some("serves") => Some(Ok(Some(text()))),
        Some("nothing") => Some(Ok(None)),
        Some("failed") => Some(Err(Stop::Failed(text()))),
        Some("silent") => unknown("it is silent now"),
        Some("left") => unknown("it has left the cluster: stopped, or upgraded"),
        Some("lost") => unknown(LOST),
        Some("waiting") if since >= HEARS => unknown("it has not begun: is its Paceline older?"),
        _ => None,
    }
}

fn said(failed: &Failed) -> String {
    match failed {
        Failed::NoServer(_) | Failed::Forbidden => "the running server does not answer any more".into(),
        Failed::Broken(why) | Failed::Refused(why) => printable(why),
    }
}

impl Outcome {
    /// All that could be restarted are, and there were some.
    fn is_done(&self) -> bool {
        self.stopped.is_none() && !self.restarted.is_empty()
    }

    fn status(&self) -> ExitCode {
        match &self.stopped {
            None if self.is_done() => ExitCode::SUCCESS,
            Some((_, Stop::Interrupted)) => ExitCode::from(INTERRUPTED),
            _ => ExitCode::FAILURE,
        }
    }

    fn summary(&self) -> String {
        let names =
            |servers: &mut dyn Iterator<Item = &Server>| servers.map(Server::shown).collect::<Vec<_>>().join(", ");
        let mut lines = String::new();
        let old = &self.waiting;
        match &self.stopped {
            None if self.restarted.is_empty() => {
                lines.push_str("nothing was restarted: the site is not configured on any server\n")
            }
            None => lines.push_str(&match self.restarted.len() {
                1 => "1 server serves the new code\n".to_owned(),
                count => format!("all {count} servers serve the new code\n"),
            }),
            Some((server, Stop::Failed(why))) => {
                lines.push_str(&format!("{}: {why}\nstopped: no further server is restarted\n", server.shown()));
            }
            Some((server, Stop::Unknown(why))) => {
                lines.push_str(&format!(
                    "{}: {why}\nstopped: no further server is restarted. `paceline cluster` shows whether this one has the \
                     new code\n",
                    server.shown()
                ));
            }
            Some((_, Stop::BeforeIt(why))) => {
                lines.push_str(&format!("stopped: {why}. No further server is restarted\n"))
            }
            Some((server, Stop::Interrupted)) => {
                lines.push_str("interrupted: no further server is restarted\n");
                if !old.iter().any(|waiting| waiting.id == server.id) {
                    lines.push_str(&format!(
                        "in progress: {}; what has begun there goes on by itself, and `paceline cluster` shows how it ends\n",
                        server.shown()
                    ));
                }
            }
        }
        if self.stopped.is_some() {
            if !self.restarted.is_empty() {
                lines.push_str(&format!("new code: {}\n", names(&mut self.restarted.iter().map(|(server, _)| server))));
            }
            if let Some((server, Stop::Failed(_))) = &self.stopped {
                lines.push_str(&format!("failed: {}\n", server.shown()));
            }
            if !old.is_empty() {
                lines.push_str(&format!("old code: {}\n", names(&mut old.iter())));
            }
        }
        if !self.skipped.is_empty() {
            lines.push_str(&format!("left out, because silent: {}\n", names(&mut self.skipped.iter())));
        }
        lines
    }

    fn to_json(&self) -> Value {
        let all = |servers: &[Server]| servers.iter().map(Server::to_json).collect::<Vec<_>>();
        let stopped = self.stopped.as_ref().map(|(server, stop)| {
            let (kind, why) = match stop {
                Stop::Failed(why) => ("failed", why.as_str()),
                Stop::Unknown(why) => ("unknown", why.as_str()),
                Stop::BeforeIt(why) => ("not-begun", why.as_str()),
                Stop::Interrupted => ("interrupted", ""),
            };
            json!({ "host": server.host, "pid": server.pid, "what": kind, "why": why })
        });
        let restarted =
            self.restarted.iter().map(|(server, text)| json!({ "host": server.host, "pid": server.pid, "text": text }));
        json!({
            "cluster": self.cluster,
            "done": self.is_done(),
            "restarted": restarted.collect::<Vec<_>>(),
            "nothing_to_restart": all(&self.nothing),
            "stopped": stopped,
            "not_restarted": all(&self.waiting),
            "skipped": all(&self.skipped),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(number: u64) -> Server {
        Server { id: number.to_string(), host: format!("web{number}"), pid: number }
    }

    fn outcome(stop: Option<Stop>) -> Outcome {
        Outcome {
            cluster: "shop".into(),
            restarted: vec![(server(1), "generation 2 serves in 3s".into())],
            stopped: stop.map(|stop| (server(2), stop)),
            waiting: vec![server(3)],
            ..Outcome::default()
        }
    }

    #[test]
    fn what_became_of_all_is_said() {
        let done = Outcome { waiting: Vec::new(), skipped: vec![server(4)], ..outcome(None) };
        assert_eq!(done.summary(), "1 server serves the new code\nleft out, because silent: web4 (pid 4)\n");
        let failed = outcome(Some(Stop::Failed("GET /up was answered 503".into())));
        assert_eq!(
            failed.summary(),
            "web2 (pid 2): GET /up was answered 503\nstopped: no further server is restarted\nnew code: web1 (pid 1)\n\
             failed: web2 (pid 2)\nold code: web3 (pid 3)\n"
        );
        let told = failed.to_json();
        assert_eq!(
            (&told["done"], &told["stopped"]["what"], &told["stopped"]["host"]),
            (&json!(false), &json!("failed"), &json!("web2"))
        );
        assert_eq!(told["not_restarted"], json!([{ "host": "web3", "pid": 3 }]));
        let interrupted = outcome(Some(Stop::Interrupted)).summary();
        assert!(interrupted.contains("in progress: web2 (pid 2); what has begun there"), "{interrupted}");
        let lost = outcome(Some(Stop::Unknown("10.0.0.5 can't be reached".into()))).summary();
        assert!(lost.contains("`paceline cluster` shows whether this one has the new code"), "{lost}");
        let before = Outcome { waiting: vec![server(2), server(3)], ..outcome(Some(Stop::BeforeIt(LOST.into()))) };
        assert!(before.summary().ends_with("old code: web2 (pid 2), web3 (pid 3)\n"), "{}", before.summary());
        assert!(!Outcome { nothing: vec![server(1)], ..Outcome::default() }.is_done());
    }

    #[test]
    fn how_it_ends_on_a_server() {
        let end = |answer: Value, seconds: u64| end_of(&answer, Duration::from_secs(seconds));
        for state in ["restarting", "watching", "waiting"] {
            assert_eq!(end(json!({ "state": state }), 1), None, "{state}");
        }
        assert_eq!(end(json!({ "state": "serves", "text": "told" }), 1), Some(Ok(Some("told".into()))));
        assert_eq!(end(json!({ "state": "nothing" }), 1), Some(Ok(None)));
        assert_eq!(end(json!({ "state": "failed", "text": "why" }), 1), Some(Err(Stop::Failed("why".into()))));
        for answer in [
            json!({ "state": "silent" }),
            json!({ "state": "left" }),
            json!({ "state": "lost" }),
            json!({ "state": "waiting" }),
        ] {
            assert!(matches!(end(answer.clone(), 20), Some(Err(Stop::Unknown(_)))), "{answer}");
        }
    }
}
