//! The restarts that were asked for, and what came of each: for those who wait for one, and for the record.
//! It never starts one.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use tokio::sync::oneshot;

use startup_report::StartupReport;

/// So many are remembered after they have ended.
const REMEMBERED: usize = 32;

/// Why a canary is rolled back of which nothing is known: another generation takes its place.
pub const REPLACED: &str = "another restart was asked for";

/// Why a restart is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A person or a program says so, by this: "USR1", "paceline restart".
    Told(&'static str),
    /// tmp/restart.txt was touched; `with_release`: by the deployment that has just made the root lead elsewhere.
    RestartTxt { with_release: bool },
    /// The root, a symbolic link, leads to another release.
    Release,
    /// tmp/always_restart.txt is there, and a request came.
    Always,
    /// This file of its code has changed (live reload).
    Changed(PathBuf),
    /// A request came, and the code that changed last did not start.
    Outdated,
}

impl Cause {
    /// Nobody waits at a terminal for it: after failures it is tried again with a pause.
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Cause::Told(_))
    }
}

/// What came of a restart.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// This generation serves now; with how, in a line.
    Serves { generation: u64, text: String },
    /// The new generation did not start.
    Failed(Arc<StartupReport>),
    /// What served before serves again, and why.
    RolledBack(String),
    /// It was not done, and why.
    Refused(String),
}

impl Outcome {
    /// As the control socket says it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Serves { .. } => "serves",
            Outcome::Failed(_) => "failed",
            Outcome::RolledBack(_) => "rolled-back",
            Outcome::Refused(_) => "refused",
        }
    }
}

struct Attempt {
    number: u64,
    /// A generation that was begun after it was asked for is under way.
    begun: bool,
    outcome: Option<Outcome>,
    waiting: Option<oneshot::Sender<Outcome>>,
}

/// The restarts of one app.
#[derive(Default)]
pub struct Attempts {
    last: u64,
    recent: VecDeque<Attempt>,
}

impl Attempts {
    /// One more is asked for. `waiting`: hears of its end.
    pub fn open(&mut self, waiting: Option<oneshot::Sender<Outcome>>) -> u64 {
        self.last += 1;
        let attempt = Attempt { number: self.last, begun: false, outcome: None, waiting };
        self.recent.push_back(attempt);
        while self.recent.len() > REMEMBERED && self.recent.front().is_some_and(|oldest| oldest.outcome.is_some()) {
            self.recent.pop_front();
        }
        self.last
    }

    /// A generation begins to boot, for all that were asked for until now.
    pub fn begin(&mut self) {
        self.recent.iter_mut().filter(|attempt| attempt.outcome.is_none()).for_each(|attempt| attempt.begun = true);
    }

    /// This one is done by the generation that boots already.
    pub fn join(&mut self, number: u64) {
        self.recent.iter_mut().filter(|attempt| attempt.number == number).for_each(|attempt| attempt.begun = true);
    }

    /// The generation that was under way has come to its end as a restart.
    pub fn end(&mut self, outcome: &Outcome) {
        for attempt in self.recent.iter_mut().filter(|attempt| attempt.begun && attempt.outcome.is_none()) {
            attempt.end(outcome);
        }
    }

    /// All that have not ended, begun or not: nothing will come of them.
    pub fn end_all(&mut self, outcome: &Outcome) {
        self.begin();
        self.end(outcome);
    }

    /// This one has ended.
    pub fn end_one(&mut self, number: u64, outcome: &Outcome) {
        if let Some(attempt) = self.recent.iter_mut().find(|attempt| attempt.number == number) {
            attempt.end(outcome);
        }
    }

    /// What came of this one: None: it is not known; Some(None): it is under way.
    pub fn outcome(&self, number: u64) -> Option<Option<Outcome>> {
        let attempt = self.recent.iter().find(|attempt| attempt.number == number)?;
        Some(attempt.outcome.clone())
    }

    /// How many have not ended.
    pub fn under_way(&self) -> usize {
        self.recent.iter().filter(|attempt| attempt.outcome.is_none()).count()
    }
}

impl Attempt {
    fn end(&mut self, outcome: &Outcome) {
        self.outcome = Some(outcome.clone());
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(why: &str) -> Outcome {
        Outcome::Refused(why.into())
    }

    fn word(attempts: &Attempts, number: u64) -> Option<Option<&'static str>> {
        attempts.outcome(number).map(|outcome| outcome.map(|outcome| outcome.as_str()))
    }

    #[test]
    fn an_attempt_ends_with_the_generation_that_was_begun_after_it() {
        let mut attempts = Attempts::default();
        let (tell, mut told) = oneshot::channel();
        let first = attempts.open(Some(tell));
        attempts.begin();
        let second = attempts.open(None);
        assert_eq!(attempts.under_way(), 2);
        attempts.end(&Outcome::Serves { generation: 2, text: "ready".into() });
        assert_eq!((word(&attempts, first), word(&attempts, second)), (Some(Some("serves")), Some(None)));
        assert_eq!(told.try_recv().map(|outcome| outcome.as_str()), Ok("serves"));
        attempts.begin();
        attempts.end(&Outcome::RolledBack("slow".into()));
        assert_eq!(
            (word(&attempts, first), word(&attempts, second)),
            (Some(Some("serves")), Some(Some("rolled-back")))
        );
        assert!(attempts.under_way() == 0 && attempts.outcome(9).is_none());
    }

    #[test]
    fn only_ended_ones_are_forgotten() {
        let mut attempts = Attempts::default();
        let waiting = attempts.open(None);
        let numbers: Vec<_> = (0..100).map(|_| attempts.open(None)).collect();
        assert_eq!(word(&attempts, waiting), Some(None));
        attempts.end_one(numbers[50], &refused("no"));
        attempts.end_all(&refused("stopped"));
        attempts.open(None);
        assert_eq!((attempts.outcome(waiting).is_none(), attempts.recent.len()), (true, REMEMBERED));
    }
}
