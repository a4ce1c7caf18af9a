//! An applied advice on a running server: a restart as a canary that is to gain what the trial has shown, and what
//! becomes of the edited files when the server takes it back. The server decides, also when nobody waits here.

use std::{process::ExitCode, time::Duration};

use doctor::{
    apply::FileEdit,
    live::{expected, ExpectedGain},
    verdict::Verdict,
};
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use serde_json::{json, Value};
use units::show_duration;

use super::{
    diagnosing::Target,
    source::{explained, Server},
    writing::{put_back, say},
};
use crate::{apps::attempts::REPLACED, server::control::client::Failed};

/// Percent of the requests that the changed application gets first.
const SHARE: u32 = 10;
/// How often the server is asked whether it has decided.
const LOOK: Duration = Duration::from_millis(500);

/// How an advice is tried live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryWish {
    pub time: Duration,
    /// Returns when the server has decided.
    pub waits: bool,
}

/// As a command that does the same.
pub fn command() -> String {
    format!("paceline restart --canary {SHARE}% --wait")
}

/// A change that is written.
pub struct Change<'a> {
    pub edits: &'a [FileEdit],
    /// The change as a line of paceline.toml, if it is a setting: the server does not read the file again.
    pub settings: Option<&'a str>,
}

/// Restarts the server with the change.
pub fn restart(target: &Target, server: &Server, change: &Change, verdict: &Verdict, wish: CanaryWish) -> ExitCode {
    let name = &target.name;
    let (gains, edits) = (expected(verdict), change.edits);
    let asked = asked(&server.site, &gains, change, wish.time);
    let attempt = match server.ask("POST", "/restart", Some(&asked)) {
        Ok(answer) => answer["sites"][&server.site]["attempt"].as_u64(),
        Err(Failed::Refused(why)) if change.settings.is_some() => {
            say(&format!("{name}: not tried: {why}\n"));
            put_back(target, edits);
            return ExitCode::FAILURE;
        }
        Err(failed) => {
            say(&format!("{name}: the server did not restart ({}); run: {}\n", explained(failed), command()));
            return ExitCode::FAILURE;
        }
    };
    say(&format!("{name}: {}\n", begun(gains.first(), wish.time)));
    let back = format!("git checkout {} && paceline rollback", names(edits));
    let Some(attempt) = attempt.filter(|_| wish.waits) else {
        say(&format!(
            "{name}: the server decides and logs the result; the files stay as they are. To undo it, run: {back}\n"
        ));
        return ExitCode::SUCCESS;
    };
    match outcome(server, attempt) {
        Err(failed) => {
            let (why, files) = (explained(failed), names(edits));
            say(&format!("{name}: could not read the canary's result ({why}); {files} is unchanged\n"));
            ExitCode::FAILURE
        }
        Ok(ended) => concluded(target, edits, &ended, &back),
    }
}

fn asked(site: &str, gains: &[ExpectedGain], change: &Change, time: Duration) -> Value {
    let files: Vec<&str> = change.edits.iter().map(|edit| edit.path.as_str()).collect();
    let mut asked = json!({ "site": site, "canary": SHARE, "for": time.as_secs_f64() });
    if !gains.is_empty() {
        asked["expect"] = json!({ "gains": gains, "files": files });
    }
    if let Some(settings) = change.settings {
        asked["settings"] = settings.into();
    }
    asked
}

fn begun(gain: Option<&ExpectedGain>, time: Duration) -> String {
    let (time, longest) = (show_duration(time), show_duration(time * 10));
    let canary = format!("restarting with it as a canary: {SHARE} % of the requests for {time}");
    match gain {
        Some(gain) => format!("{canary}, and until its gain on {} is known, {longest} at most", gain.route),
        None => format!(
            "{canary}, then all if it does no worse (its gain is not the time of requests, so it is not compared)"
        ),
    }
}

/// The server's answer when it has decided. Err: it does not answer any more.
fn outcome(server: &Server, attempt: u64) -> Result<Value, Failed> {
    let target = format!("/restarts/{attempt}-{}", utf8_percent_encode(&server.site, NON_ALPHANUMERIC));
    loop {
        let answer = server.ask("GET", &target, None)?;
        if !answer["outcome"].is_null() {
            return Ok(answer);
        }
        std::thread::sleep(LOOK);
    }
}

fn concluded(target: &Target, edits: &[FileEdit], ended: &Value, back: &str) -> ExitCode {
    let name = &target.name;
    let text = ended["text"].as_str().unwrap_or_default().trim_end();
    match ended["outcome"].as_str() {
        Some("serves") => {
            say(&format!("{text}\n{name}: kept; to undo it, run: {back}\n"));
            ExitCode::SUCCESS
        }
        Some(word @ ("rolled-back" | "failed")) if text != REPLACED => {
            match word {
                "failed" => say(&format!("{text}\n\n{name}: it does not start with the change\n")),
                _ => say(&format!("{name}: rolled back: {text}\n")),
            }
            put_back(target, edits);
            ExitCode::FAILURE
        }
        _ => {
            say(&format!("{name}: undecided: {text}; {} is unchanged\n", names(edits)));
            ExitCode::SUCCESS
        }
    }
}

/// Their files.
pub fn names(edits: &[FileEdit]) -> String {
    edits.iter().map(|edit| edit.path.as_str()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_is_told() {
        let edit = FileEdit { path: "config/a.rb".into(), before: None, after: "a".into() };
        let (route, gain_us) = ("GET /a".to_owned(), 40.0);
        let gain = ExpectedGain { route, gain_us, low_us: 38.0, high_us: 42.0, of_us: 90.0 };
        let time = Duration::from_secs(60);
        let edits = [edit];
        let change = Change { edits: &edits, settings: None };
        let told = asked("shop", std::slice::from_ref(&gain), &change, time);
        assert_eq!(told["settings"], Value::Null);
        assert_eq!(told["expect"]["files"], json!(["config/a.rb"]));
        assert_eq!(told["expect"]["gains"][0]["low_us"], 38.0);
        assert!(
            begun(Some(&gain), time).ends_with("for 1m, and until its gain on GET /a is known, 10m at most"),
            "{}",
            begun(Some(&gain), time)
        );
        let change = Change { settings: Some("threads = 5"), ..change };
        let told = asked("shop", &[], &change, time);
        assert_eq!((&told["expect"], &told["settings"]), (&Value::Null, &json!("threads = 5")));
        assert!(begun(None, time).contains("is not compared"));
    }
}
