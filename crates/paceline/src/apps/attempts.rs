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
    /// That generation serves, and what is told of it is not known yet.
    settles: bool,
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
        let attempt = Attempt { number: self.last, begun: false, settles: false, outcome: None, waiting };
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
        let is_ended = |attempt: &&mut Attempt| attempt.begun && !attempt.settles && attempt.outcome.is_none();
        self.recent.iter_mut().filter(is_ended).for_each(|attempt| attempt.end(outcome));
    }

    /// The generation that was under way has come to its end as a restart; what is told of it is told with `end_one`, to these.
    pub fn settle(&mut self) -> Vec<u64> {
        let settles = |attempt: &&mut Attempt| attempt.begun && !attempt.settles && attempt.outcome.is_none();
        let settling = self.recent.iter_mut().filter(settles);
        settling
            .map(|attempt| {
                attempt.settles = true;
                attempt.number
            })
            .collect()
    }

    /// All that have not ended, begun or not: nothing will come of them.
    pub fn end_all(&mut self, outcome: &Outcome) {
        let open = self.recent.iter_mut().filter(|attempt| attempt.outcome.is_none());
        open.for_each(|attempt| attempt.end(outcome));
    }

    /// This one has ended.
    pub fn end_one(&mut self, number: u64, outcome: &Outcome) {
        let is_open = |attempt: &&mut Attempt| attempt.number == number && attempt.outcome.is_none();
        if let Some(attempt) = self.recent.iter_mut().find(is_open) {
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

    /// What is told of the first is not known yet when the second, which fails, has ended.
    #[test]
    fn each_is_told_of_its_own_generation() {
        let mut attempts = Attempts::default();
        let first = attempts.open(None);
        attempts.begin();
        assert_eq!(attempts.settle(), [first]);
        let second = attempts.open(None);
        attempts.begin();
        attempts.end(&refused("no"));
        assert_eq!((word(&attempts, first), word(&attempts, second)), (Some(None), Some(Some("refused"))));
        attempts.end_one(first, &Outcome::Serves { generation: 2, text: "ready".into() });
        attempts.end_one(first, &refused("late"));
        assert_eq!((word(&attempts, first), attempts.settle()), (Some(Some("serves")), Vec::new()));
        let third = attempts.open(None);
        attempts.begin();
        attempts.settle();
        attempts.end_all(&refused("stopped"));
        assert_eq!(word(&attempts, third), Some(Some("refused")));
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
