//! A trial: `paceline doctor` as a child of the server, with the lowest priority, for settings alone. What it prints is read
//! as a result. It never takes longer than it may, and ends with the server.

use std::{
    env, io,
    os::unix::process::CommandExt,
    process::{ChildStderr, ChildStdout, Command, Stdio},
    time::Duration,
};

use doctor::{candidate::Kind, live::ExpectedGain};
use rustix::process::{getpid, kill_process_group, Pid, Signal};
use serde_json::Value;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, time::timeout};

use super::rules::{Change, TrialEnd};
use crate::{
    apps::{
        environment::Environment,
        processes::BECOME,
        reaper::{Exit, Reaper},
        spawn::MANAGERS,
        tuned::Tuned,
    },
    config::TunedSettings,
};

/// Where a doctor that the server starts finds the server's own arguments, as a JSON array of texts: it is to start the
/// application in the same way.
pub const SERVER_ARGUMENTS: &str = "PACELINE_SERVER_ARGUMENTS";
/// A trial beside live traffic waits for quiet moments.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// Bytes of the report, and of what is said beside it.
const MAX_REPORT: u64 = 4 << 20;
const MAX_SAID: u64 = 64 << 10;

/// A trial that runs.
pub struct RunningTrial {
    pid: Pid,
    exit: tokio::sync::oneshot::Receiver<Exit>,
    report: ChildStdout,
    said: ChildStderr,
}

/// What a trial is about.
pub struct TrialWish<'a> {
    pub site: &'a str,
    pub control: &'a std::path::Path,
    /// For how long visitors' requests are watched.
    pub watch: Duration,
    pub kinds: &'a [Kind],
    /// Not even to wait for a quiet machine.
    pub is_impatient: bool,
}

impl RunningTrial {
    /// Must be called on the main thread: the kernel ties the child's end to it.
    pub fn start(wish: &TrialWish, reaper: &Reaper) -> io::Result<RunningTrial> {
        let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let mut command = Command::new("/proc/self/exe");
        command.arg(BECOME).arg(getpid().as_raw_nonzero().to_string()).arg("/proc/self/exe");
        command.args(["doctor", "--json", "--no-keep", "--site", wish.site]).arg("--control").arg(wish.control);
        command.arg("--watch").arg(format!("{}s", wish.watch.as_secs().max(1)));
        command.arg("--only").arg(words(wish.kinds));
        if wish.is_impatient {
            command.arg("--busy");
        }
        for name in MANAGERS {
            command.env_remove(name);
        }
        command.env(SERVER_ARGUMENTS, Value::from(arguments).to_string());
        command.process_group(0);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("it has no pipe");
        let (report, said) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        let pid = Pid::from_child(&child);
        Ok(RunningTrial { pid, exit: reaper.exit_of(pid.as_raw_nonzero().get()), report, said })
    }

    /// `is_wanted` is asked all the while.
    pub async fn end(self, is_wanted: impl Fn() -> bool) -> TrialEnd {
        let RunningTrial { pid, mut exit, report, said } = self;
        let report = tokio::spawn(read(Receiver::from_owned_fd(report.into()), MAX_REPORT));
        let said = tokio::spawn(read(Receiver::from_owned_fd(said.into()), MAX_SAID));
        let began = std::time::Instant::now();
        let ended = loop {
            match timeout(Duration::from_secs(1), &mut exit).await {
                Ok(ended) => break ended.unwrap_or(Exit::Untold),
                Err(_) if is_wanted() && began.elapsed() < MAX_TIME => {}
                // Gone already.
                Err(_) => drop(kill_process_group(pid, Signal::KILL)),
            }
        };
        let (report, said) = (report.await.unwrap_or_default(), said.await.unwrap_or_default());
        match ended {
            Exit::Status(0 | 1) => result(&report),
            Exit::Status(_) => TrialEnd::Failed(last_line(&said)),
            other => TrialEnd::Failed(format!("paceline doctor {other}")),
        }
    }
}

async fn read(pipe: io::Result<Receiver>, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(pipe) = pipe {
        let mut pipe = pipe.take(max);
        let _ = pipe.read_to_end(&mut bytes).await;
        // A writer that has more to say is not kept waiting.
        let mut rest = pipe.into_inner();
        let mut waste = [0; 4096];
        while rest.read(&mut waste).await.is_ok_and(|count| count > 0) {}
    }
    bytes
}

/// As `yjit,gc_settings`.
fn words(kinds: &[Kind]) -> String {
    let words: Vec<String> =
        kinds.iter().filter_map(|kind| Some(serde_json::to_value(kind).ok()?.as_str()?.to_owned())).collect();
    words.join(",")
}

fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("paceline doctor said nothing");
    let line = line.strip_prefix("paceline: ").unwrap_or(line);
    line.chars().filter(|letter| !letter.is_control()).take(300).collect()
}

/// The best change in a report of the doctor: what saves time goes before what saves memory.
fn result(report: &[u8]) -> TrialEnd {
    let Ok(report) = serde_json::from_slice::<Value>(report) else {
        return TrialEnd::Failed("paceline doctor printed no report".into());
    };
    let advice = || report["advice"].as_array().into_iter().flatten();
    let saved = |one: &Value| one["saved_us"].as_f64().unwrap_or(0.0);
    let changes = advice().filter_map(|one| Some((saved(one), change(one)?)));
    if let Some((_, change)) = changes.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        return TrialEnd::Found(change);
    }
    let others = || report["others"].as_array().into_iter().flatten();
    // What could not be tried is tried another time.
    if let Some(one) = advice().find(|one| one["trial"] == "untried") {
        return TrialEnd::Failed(last_line(one["trial_note"].as_str().unwrap_or_default().as_bytes()));
    }
    if let Some(one) = others().find(|one| one["standing"] == "failed") {
        return TrialEnd::Failed(last_line(one["why"].as_str().unwrap_or_default().as_bytes()));
    }
    let tried: Vec<String> = others().filter_map(in_short).collect();
    match &tried[..] {
        // Other requests may have something.
        [] => TrialEnd::Failed("the requests that were watched leave nothing to try".into()),
        tried => TrialEnd::Nothing(format!(" ({})", tried.join("; "))),
    }
}

/// As `YJIT: +0.4 %, noise`.
fn in_short(other: &Value) -> Option<String> {
    let why = match other["standing"].as_str()? {
        "changes" => "pages change",
        _ => other["why"].as_str()?,
    };
    Some(last_line(format!("{}: {why}", other["short"].as_str()?).as_bytes()))
}

/// None: it was not tried, or is none that may be tuned.
fn change(advice: &Value) -> Option<Change> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let trial = advice["trial"].as_str()?;
    let tuned = match trial {
        "environment" => {
            let environment: Environment = serde_json::from_value(advice["environment"].clone()).ok()?;
            Tuned { environment, ..Tuned::default() }
        }
        // As the setting that it is: where a library lies the server finds by itself.
        "load" | "memory" => {
            let settings = TunedSettings::parse(advice["fix"]["setting"].as_str()?)?;
            Tuned { settings, ..Tuned::default() }
        }
        _ => return None,
    };
    let gain = |gain: &Value| {
        let [gain_us, low_us, high_us, of_us] =
            ["gain_us", "low_us", "high_us", "of_us"].map(|name| gain[name].as_f64());
        Some(ExpectedGain {
            route: text(&gain["route"])?,
            gain_us: gain_us?,
            low_us: low_us?,
            high_us: high_us?,
            of_us: of_us?,
        })
    };
    // Of the others no gain is one of requests on routes.
    let of_routes = advice["gains"].as_array().filter(|_| trial == "environment").into_iter().flatten();
    let gains = of_routes.filter_map(gain).filter(|gain| gain.low_us > 0.0);
    Some(Change {
        kind: serde_json::from_value(advice["kind"].clone()).ok()?,
        short: text(&advice["short"])?,
        tuned,
        gains: gains.take(doctor::live::MAX_ROUTES).collect(),
        memory: advice["memory"].as_i64().filter(|_| trial == "load"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn advice(kind: &str, saved_us: f64) -> Value {
        json!({
            "kind": kind, "short": kind, "trial": "environment", "saved_us": saved_us,
            "environment": { "set": {}, "unset": [], "ruby_options": ["--yjit"] },
            "gains": [{ "route": "GET /a", "gain_us": 4.0, "low_us": 3.0, "high_us": 5.0, "of_us": 9.0, "share": 1.0 },
                      { "route": "GET /b", "gain_us": 0.1, "low_us": -1.0, "high_us": 1.0, "of_us": 9.0, "share": 1.0 }],
        })
    }

    #[test]
    fn the_best_change_of_a_report() {
        let found = |report: Value| result(report.to_string().as_bytes());
        let patch = json!({ "kind": "yjit", "trial": "patch", "saved_us": 1e9 });
        let all = json!({ "advice": [advice("gc_settings", 9.0), advice("yjit", 20.0), patch], "others": [] });
        let TrialEnd::Found(change) = found(all) else { panic!() };
        assert_eq!((change.kind, change.short.as_str(), change.gains.len()), (Kind::Yjit, "yjit", 1));
        assert_eq!(change.tuned.to_string(), "RUBYOPT=--yjit");
        let others = json!([{ "standing": "not_worth", "short": "YJIT", "why": "+0.4 %, noise" }, { "standing": "changes", "short": "GC" }]);
        let nothing = TrialEnd::Nothing(" (YJIT: +0.4 %, noise; GC: pages change)".into());
        assert_eq!(found(json!({ "advice": [], "others": others })), nothing);
        assert!(matches!(found(json!({ "advice": [], "others": [] })), TrialEnd::Failed(_)));
        let failed = json!({ "advice": [], "others": [{ "standing": "failed", "why": "it did not start" }] });
        assert_eq!(found(failed), TrialEnd::Failed("it did not start".into()));
        assert!(matches!(result(b"oops"), TrialEnd::Failed(_)));
    }

    #[test]
    fn settings_in_a_report() {
        let of = |advice: Value| result(json!({ "advice": [advice], "others": [] }).to_string().as_bytes());
        let found = |advice: Value| match of(advice) {
            TrialEnd::Found(change) => (change.tuned.to_string(), change.gains.len(), change.memory),
            other => panic!("{other:?}"),
        };
        let with = |kind: &str, trial: &str, setting: Value, memory: i64| {
            let mut advice = advice(kind, 0.0);
            (advice["trial"], advice["memory"]) = (trial.into(), memory.into());
            advice["fix"] = json!({ "line": "as it is shown", "setting": setting });
            advice["environment"] =
                json!({ "set": { "LD_PRELOAD": "/usr/lib/libjemalloc.so.2" }, "unset": [], "ruby_options": [] });
            advice
        };
        let threads = with("too_few_threads", "load", "threads = 9".into(), 5_000_000);
        assert_eq!(found(threads), ("threads = 9".into(), 0, Some(5_000_000)));
        let jemalloc = with("allocator", "memory", "allocator = \"jemalloc\"".into(), -50_000_000);
        assert_eq!(found(jemalloc), ("allocator = \"jemalloc\"".into(), 0, None));
        let arenas = with("allocator", "memory", "malloc_arenas = 2".into(), -50_000_000);
        assert!(matches!(of(arenas), TrialEnd::Failed(_)), "it may not be tuned");
        let mut untried = with("too_few_threads", "untried", "threads = 9".into(), 0);
        untried["trial_note"] = "the machine was busy".into();
        assert_eq!(of(untried), TrialEnd::Failed("the machine was busy".into()), "nothing was proved");
    }

    #[test]
    fn what_the_doctor_says_of_a_failure() {
        assert_eq!(last_line(b"shop: watching\npaceline: no GET\x1b request\n\n"), "no GET request");
        assert_eq!(words(&[Kind::Yjit, Kind::GcSettings]), "yjit,gc_settings");
    }
}
