//! Keeps the record of a start: steps as they begin and end, what the app printed, how it failed.
//! It never asks the clock: every time is handed in.

use super::{
    phrases::{duration, plain, plain_lines, signal_name},
    place::{place, Root},
    Failure, StartupReport, Step, StepRecord,
};
use std::{path::PathBuf, time::Duration};
use unix_user::RunAs;

/// What is kept of the app's output.
const OUTPUT_LINES: usize = 200;
const OUTPUT_BYTES: usize = 64 * 1024;

impl Step {
    pub const ALL: [Step; 8] =
        [Step::Found, Step::Bundler, Step::Settings, Step::Boot, Step::Preload, Step::Fork, Step::Ready, Step::Check];

    /// The protocol's and the log's name of the step.
    pub fn name(self) -> &'static str {
        match self {
            Step::Found => "found",
            Step::Bundler => "bundler",
            Step::Settings => "settings",
            Step::Boot => "boot",
            Step::Preload => "preload",
            Step::Fork => "fork",
            Step::Ready => "ready",
            Step::Check => "check",
        }
    }

    pub fn from_name(name: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == name)
    }

    /// What happens in it, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Step::Found => "find the application",
            Step::Bundler => "set up its gems",
            Step::Settings => "read config/puma.rb",
            Step::Boot => "load the application",
            Step::Preload => "eager-load its code",
            Step::Fork => "start workers",
            Step::Ready => "workers ready",
            Step::Check => "answer a request",
        }
    }
}

/// Where a step stands, as both renderings show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Done(Duration),
    Running,
    Failed,
    /// Passed over: a later step began without it (an app without a Gemfile has no `bundler`).
    Skipped,
    NotReached,
}

impl StartupReport {
    pub fn new(site: impl Into<String>, root: impl Into<PathBuf>, environment: impl Into<String>) -> Self {
        StartupReport {
            id: uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect(),
            site: site.into(),
            root: root.into(),
            environment: environment.into(),
            steps: Vec::new(),
            failure: None,
            output: Vec::new(),
            versions: String::new(),
            read_as: RunAs::unless_root(),
        }
    }

    /// The application's directory, and with whose rights its files are shown.
    pub fn place(&self) -> Root {
        Root::of(&self.root).read_as(self.read_as.clone())
    }

    /// A step begins, `at` since the start began. Beginning a step again (a second worker) keeps the first time.
    pub fn begin(&mut self, step: Step, at: Duration) {
        if !self.steps.iter().any(|record| record.step == step) {
            self.steps.push(StepRecord { step, began: at, took: None });
        }
    }

    pub fn done(&mut self, step: Step, at: Duration) {
        self.begin(step, at);
        if let Some(record) = self.steps.iter_mut().find(|record| record.step == step) {
            record.took = Some(at.saturating_sub(record.began));
        }
    }

    /// The first failure stays: what follows it is usually its echo.
    pub fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure);
        }
    }

    /// Keeps a line the app printed, without colours and control characters; the oldest lines go first.
    pub fn push_output(&mut self, line: impl AsRef<str>) {
        let line = plain(line.as_ref());
        let is_crash = || self.output.iter().any(|line| line.starts_with("-- Other runtime information"));
        if is_filler_of_crash(&line) && is_crash() {
            return;
        }
        self.output.push(line);
        let mut bytes: usize = self.output.iter().map(|line| line.len() + 1).sum();
        let mut drop = 0;
        while drop < self.output.len() && (self.output.len() - drop > OUTPUT_LINES || bytes > OUTPUT_BYTES) {
            bytes -= self.output.get(drop).map_or(0, |line| line.len() + 1);
            drop += 1;
        }
        self.output.drain(..drop);
    }

    /// The line with which Ruby's own report of its crash begins.
    pub fn crash(&self) -> Option<&str> {
        self.output.iter().find(|line| line.contains(": [BUG] ")).map(String::as_str)
    }

    /// The step that failed: the one still open, or the one that would have come next.
    pub fn failed_step(&self) -> Option<Step> {
        self.failure.as_ref()?;
        let open = self.steps.iter().rev().find(|record| record.took.is_none());
        let last_done = self.steps.iter().map(|record| record.step).max();
        open.map(|record| record.step)
            .or_else(|| {
                let next = |step: &Step| *step != Step::Settings && last_done.is_none_or(|last| *step > last);
                Step::ALL.into_iter().find(next)
            })
            .or(Some(Step::Ready))
    }

    /// Every step with its mark, in order.
    pub fn marks(&self) -> Vec<(Step, Mark)> {
        let failed = self.failed_step();
        let last = self.steps.iter().map(|record| record.step).max().max(failed);
        let mark = |step: Step| {
            if failed == Some(step) {
                return Mark::Failed;
            }
            match self.steps.iter().find(|record| record.step == step) {
                Some(StepRecord { took: Some(took), .. }) => Mark::Done(*took),
                // Workers that load the application themselves are all under way when one fails.
                Some(_) if failed.is_some() => Mark::NotReached,
                Some(_) => Mark::Running,
                None if failed.is_some_and(|failed| step > failed) => Mark::NotReached,
                None if last.is_some_and(|last| step < last) => Mark::Skipped,
                None => Mark::NotReached,
            }
        };
        let is_begun = |step: Step| failed == Some(step) || self.steps.iter().any(|record| record.step == step);
        let shown = |step: &Step| !matches!(step, Step::Settings | Step::Check) || is_begun(*step);
        Step::ALL.into_iter().filter(shown).map(|step| (step, mark(step))).collect()
    }

    /// From the start's beginning to the last thing recorded.
    pub fn elapsed(&self) -> Duration {
        self.steps.iter().map(|record| record.began + record.took.unwrap_or_default()).max().unwrap_or_default()
    }

    /// One line for the log.
    pub fn summary(&self) -> String {
        let site = &self.site;
        match (&self.failure, self.failed_step()) {
            (Some(failure), Some(step)) => {
                format!(
                    "{site} did not start ({}): {} [{}]",
                    step.name(),
                    failure.headline(&Root::of(&self.root)),
                    self.id
                )
            }
            _ => format!("{site} started in {}", duration(self.elapsed())),
        }
    }
}

impl Failure {
    /// The failure in one line: class, first line of the message, place.
    pub fn headline(&self, root: &Root) -> String {
        match self {
            Failure::Exception { class, message, .. } => {
                let first = first_words(message);
                let mut text = if first.is_empty() { class.clone() } else { format!("{class}: {first}") };
                if let Some(place) = place(self, root).filter(|place| place.of_app) {
                    let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
                    text.push_str(&format!(" ({}{line})", root.short(&place.file)));
                }
                text
            }
            Failure::Exited { status, signal, who } => match (status, signal) {
                (_, Some(signal)) => format!("the {who} was killed by signal {signal} (SIG{})", signal_name(*signal)),
                (Some(status), None) => format!("the {who} ended with status {status} before the app was ready"),
                (None, None) => format!("the {who} ended before the app was ready"),
            },
            Failure::TimedOut { after } => format!("not ready after {}", duration(*after)),
            Failure::Unready { path, told } => format!("GET {path} {told}"),
            Failure::System { doing, error } => format!("could not {doing}: {error}"),
        }
    }
}

/// A line of the thousands in which a crashed Ruby names all files it has loaded (`  12 enumerator.so`) and all its memory
/// (`7f30-7f31 r-xp ...`). Above them it says what happened.
fn is_filler_of_crash(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_loaded = line.starts_with(' ') && !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_loaded || first.split_once('-').is_some_and(|(from, to)| hex(from) && hex(to))
}

/// The first line of a message, and the next one where it only announces that: `Cannot load database configuration:`.
fn first_words(message: &str) -> String {
    let mut words = String::new();
    for line in plain_lines(message).iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        words = if words.is_empty() { line.to_string() } else { format!("{words} {line}") };
        if !line.ends_with(':') {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn steps_are_marked_done_failed_skipped_and_not_reached() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        report.done(Step::Found, ms(1));
        report.begin(Step::Boot, ms(2));
        assert_eq!(report.marks()[2].1, Mark::Running);
        report.fail(Failure::TimedOut { after: ms(60_000) });
        let marks: Vec<Mark> = report.marks().into_iter().map(|(_, mark)| mark).collect();
        assert_eq!(
            marks,
            [Mark::Done(ms(0)), Mark::Skipped, Mark::Failed, Mark::NotReached, Mark::NotReached, Mark::NotReached]
        );
        assert_eq!(report.summary(), format!("shop did not start (boot): not ready after 1 min [{}]", report.id));
        assert_eq!(report.id.len(), 8);
    }

    #[test]
    fn a_failure_between_steps_belongs_to_the_next() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        report.done(Step::Bundler, ms(1));
        report.fail(Failure::Exited { status: Some(1), signal: None, who: "preloader".into() });
        assert_eq!(report.failed_step(), Some(Step::Boot));
    }

    #[test]
    fn only_the_first_failure_counts() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        report.fail(Failure::TimedOut { after: ms(1) });
        report.fail(Failure::Exited { status: None, signal: Some(9), who: "preloader".into() });
        assert_eq!(report.failure, Some(Failure::TimedOut { after: ms(1) }));
    }

    #[test]
    fn output_is_bounded_in_lines_and_bytes() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        for n in 0..500 {
            report.push_output(format!("line {n}\n"));
        }
        assert_eq!(report.output.len(), OUTPUT_LINES);
        assert_eq!(report.output.last().map(String::as_str), Some("line 499"));
        for _ in 0..100 {
            report.push_output("x".repeat(1 << 20));
        }
        assert!(report.output.iter().map(String::len).sum::<usize>() <= OUTPUT_BYTES);
        assert!(!report.output.is_empty());
    }

    #[test]
    fn what_a_crashed_ruby_has_loaded_pushes_nothing_out() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        for line in
            ["   1 beer", "x.rb:1: [BUG] Segmentation fault", "-- Other runtime information ----", "* Loaded features:"]
        {
            report.push_output(line);
        }
        for n in 0..300 {
            report.push_output(format!(" {n:4} /usr/lib/ruby/{n}.rb"));
            report.push_output(format!(
                "7fbd8c2fe0{n:02}-7fbd8c2ff000 rw-p 00080000 fe:00 326450   /usr/lib/libgmp.so.10"
            ));
        }
        assert_eq!(report.output.len(), 4);
    }

    #[test]
    fn a_worker_that_loads_the_application_itself_fails_in_that_step() {
        let mut report = StartupReport::new("shop", "/srv/shop", "development");
        for step in [Step::Found, Step::Bundler, Step::Fork] {
            report.done(step, ms(1));
        }
        report.begin(Step::Ready, ms(2));
        report.begin(Step::Boot, ms(3));
        report.fail(Failure::TimedOut { after: ms(4) });
        let marks: Vec<Mark> = report.marks().into_iter().map(|(_, mark)| mark).collect();
        let done = Mark::Done(ms(0));
        assert_eq!(marks[2..], [Mark::Failed, Mark::NotReached, done, Mark::NotReached]);
    }

    #[test]
    fn headline_names_place_below_the_root() {
        let failure = Failure::Exception {
            class: "NameError".into(),
            message: "\nIn the routes:\n uninitialized constant Foo\nmore".into(),
            file: Some("/srv/shop/config/routes.rb".into()),
            line: Some(3),
            backtrace: vec![],
            cause: None,
            detail: None,
        };
        assert_eq!(
            failure.headline(&Root::of("/srv/shop".as_ref())),
            "NameError: In the routes: uninitialized constant Foo (config/routes.rb:3)"
        );
    }
}
