//! A shadow as the driver talks to it: a forked copy of the application that answers one replayed request at a time.
//! Whatever it says is checked; a shadow that answers nonsense ends its trial, and nothing else. It never starts one.

#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{os::unix::net::UnixStream, time::Duration};

use doctor::protocol::{Command, Done, Hello, LoadStart, Patch, Replay, ReplayResult};
use rustix::process::{kill_process, Pid, Signal};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    lines::{LineError, Lines},
    peer::Peer,
};

/// For the first line after the connection.
const HELLO: Duration = Duration::from_secs(30);
/// A patch may copy a database.
const PATCH: Duration = Duration::from_secs(180);
/// For one request.
const REPLAY: Duration = Duration::from_secs(60);

/// Why a shadow is of no use any more, or did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    #[error("the shadow process broke off: {0}")]
    Line(#[from] LineError),
    #[error("the shadow process answered what is not understood: {0}")]
    Nonsense(String),
    /// It goes on.
    #[error("{0}")]
    Refused(String),
}

impl ShadowError {
    /// Whether the shadow can be asked something else.
    pub fn is_over(&self) -> bool {
        !matches!(self, ShadowError::Refused(_) | ShadowError::Line(LineError::TooLong))
    }
}

pub struct Shadow {
    lines: Lines,
    pub hello: Hello,
    /// As the kernel says. None: not known, as from within another process namespace.
    pid: Option<Pid>,
}

impl Shadow {
    /// Takes over a connection that a shadow has made.
    pub fn greet(stream: UnixStream) -> Result<Shadow, ShadowError> {
        let pid = Peer::of(&stream).ok().and_then(|peer| peer.pid);
        let mut shadow = Shadow { lines: Lines::new(stream), hello: Hello::default(), pid };
        let mut hello: Hello = shadow.heard(HELLO)?;
        match hello.error.take() {
            Some(why) => Err(ShadowError::Refused(why)),
            None => {
                shadow.hello = hello;
                Ok(shadow)
            }
        }
    }

    pub fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    pub fn patch(&mut self, patch: &Patch) -> Result<(), ShadowError> {
        let done: Done = self.ask(&Command::Patch(patch.clone()), PATCH)?;
        unless_refused(done)
    }

    /// What other shadows have recorded of outbound calls.
    pub fn load(&mut self, recordings: &[Value]) -> Result<(), ShadowError> {
        let done: Done = self.ask(&Command::Recordings { all: recordings.to_vec() }, PATCH)?;
        unless_refused(done)
    }

    /// From now on it has a session of its own with the least share of the processors.
    pub fn step_back(&mut self) -> Result<(), ShadowError> {
        match self.ask::<Done>(&Command::Background, PATCH)?.refusal() {
            // The server may have been started with an earlier version, whose shadows have the least priority.
            Some(why) if !why.starts_with("unknown command") => Err(ShadowError::Refused(why)),
            _ => Ok(()),
        }
    }

    /// It connects to a socket, once for each thread.
    pub fn start_load(&mut self, start: &LoadStart) -> Result<(), ShadowError> {
        let done: Done = self.ask(&Command::Load(Box::new(start.clone())), PATCH)?;
        unless_refused(done)
    }

    pub fn replay(&mut self, replay: Replay) -> Result<ReplayResult, ShadowError> {
        let id = replay.id;
        let result: ReplayResult = self.ask(&Command::Replay(Box::new(replay)), REPLAY)?;
        match wrong(&result, id) {
            None => Ok(result),
            Some(why) => Err(ShadowError::Nonsense(why)),
        }
    }

    /// One that is stuck is not left behind.
    pub fn kill(&self) {
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn ask<T: DeserializeOwned>(&mut self, command: &Command, patience: Duration) -> Result<T, ShadowError> {
        let line = serde_json::to_vec(command).map_err(|error| ShadowError::Nonsense(error.to_string()))?;
        self.lines.write(&line, patience)?;
        self.heard(patience)
    }

    fn heard<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, ShadowError> {
        let line = self.lines.read(patience).inspect_err(|error| self.give_up(error))?;
        // The message of serde_json names a place and a type, never a value of the line.
        serde_json::from_slice(&line).map_err(|error| ShadowError::Nonsense(described(&error)))
    }

    /// One that does not answer is not left behind: the end of its socket means nothing to a thread that is stuck.
    fn give_up(&self, error: &LineError) {
        if let LineError::Silent(_) | LineError::Endless = error {
            self.kill();
        }
    }
}

/// What is wrong with the bytes, without any of them: they may be a visitor's.
fn described(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "JSON of another shape",
        _ => "no JSON",
    };
    format!("{what}, column {}", error.column())
}

fn wrong(result: &ReplayResult, id: u64) -> Option<String> {
    let times = [result.wall_us, result.cpu_us, result.gc_us];
    if result.id != id {
        return Some(format!("answer {} to request {id}", result.id));
    }
    if times.iter().any(|time| !time.is_finite() || *time < 0.0) {
        return Some("a time below zero".into());
    }
    let is_answer = result.error.is_some() || result.write.is_some() || (100..600).contains(&result.status);
    (!is_answer).then(|| format!("status {}", result.status))
}

fn unless_refused(done: Done) -> Result<(), ShadowError> {
    done.refusal().map_or(Ok(()), |why| Err(ShadowError::Refused(why)))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use doctor::protocol::Request;
    use serde_json::json;

    use super::*;

    /// A shadow that says hello, and then these lines, one after each command.
    fn scripted(answers: &[&str]) -> Shadow {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let answers: Vec<String> = answers.iter().map(|line| format!("{line}\n")).collect();
        std::thread::spawn(move || {
            (&theirs).write_all(b"{\"pid\":1,\"ruby\":\"3.1.2\",\"facts\":{}}\n").unwrap();
            let mut commands = BufReader::new(&theirs).lines();
            for answer in answers {
                if commands.next().is_none() || (&theirs).write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        Shadow::greet(ours).unwrap()
    }

    fn replay(id: u64) -> Replay {
        Replay::plain(id, Request::default(), 0.0, 1)
    }

    #[test]
    fn a_conversation() {
        let mut shadow = scripted(&[
            "{\"ok\":true}",
            "{\"error\":\"no Rails here\"}",
            "{\"id\":7,\"status\":200,\"body\":\"aGk=\",\"wall_us\":1.5}",
        ]);
        assert_eq!(shadow.hello.ruby, "3.1.2");
        shadow.patch(&Patch::named("xml")).unwrap();
        let refused = shadow.patch(&Patch::named("xml")).unwrap_err();
        assert_eq!((refused.to_string().as_str(), refused.is_over()), ("no Rails here", false));
        assert_eq!(shadow.replay(replay(7)).unwrap().body, b"hi");
        assert!(shadow.replay(replay(8)).unwrap_err().is_over(), "it has ended");
    }

    #[test]
    fn one_of_an_earlier_version_has_no_session_of_its_own() {
        scripted(&["{\"ok\":true}"]).step_back().unwrap();
        scripted(&["{\"error\":\"unknown command \\\"background\\\"\"}"]).step_back().unwrap();
        let refused = scripted(&["{\"error\":\"Errno::EIO\"}"]).step_back().unwrap_err();
        assert!(!refused.is_over(), "{refused}");
    }

    #[test]
    fn nonsense_ends_it_and_shows_nothing_of_what_was_said() {
        for (answer, told) in [
            ("{\"id\":8,\"status\":200}", "answer 8 to request 7"),
            ("{\"id\":7,\"status\":200,\"wall_us\":-1}", "a time below zero"),
            ("{\"id\":7,\"status\":200,\"wall_us\":null}", "JSON of another shape"),
            ("{\"id\":7,\"status\":99999999}", "JSON of another shape"),
            ("{\"id\":7}", "status 0"),
            ("secret=1", "no JSON"),
            ("{\"id\":7,\"status\":\"secret=1\"}", "JSON of another shape"),
            ("{\"id\":7,\"status\":200,\"body\":\"secret=1 is no base64!\"}", "JSON of another shape"),
            ("[]", "answer 0 to request 7"),
        ] {
            let error = scripted(&[answer]).replay(replay(7)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(told) && !text.contains("secret") && error.is_over(), "{answer}: {text}");
        }
        let deep = format!("{{\"id\":7,\"recording\":{}", "[".repeat(100_000));
        assert!(matches!(scripted(&[&deep]).replay(replay(7)), Err(ShadowError::Nonsense(_))));
    }

    #[test]
    fn there_may_be_none() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        writeln!(&theirs, "{}", json!({ "error": "preload = false" })).unwrap();
        assert!(matches!(Shadow::greet(ours), Err(ShadowError::Refused(why)) if why == "preload = false"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(matches!(Shadow::greet(ours), Err(ShadowError::Line(LineError::Ended))));
    }
}
