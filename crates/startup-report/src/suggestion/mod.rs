//! Says what to do about a failed start or an exception in a request: a sentence and, where one helps, a command to run in the app's directory.
//! It only reads the record and asks `Surroundings`; it never runs or changes anything.

mod case;
mod code;
mod database;
mod files;
mod gems;
mod process;
mod rails;
mod ruby;
mod services;
mod surroundings;
#[cfg(test)]
pub mod testing;

pub use case::{Case, Occasion, Symptom};
pub use surroundings::{port_holder, Here, Surroundings};

use super::{place::Root, Failure, StartupReport};
use std::path::Path;
use unix_user::RunAs;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// One to three sentences.
    pub text: String,
    /// To run in the app's directory.
    pub command: Option<String>,
}

impl Suggestion {
    fn say(text: impl Into<String>) -> Option<Self> {
        Some(Suggestion { text: text.into(), command: None })
    }

    fn run(text: impl Into<String>, command: impl Into<String>) -> Option<Self> {
        Self::with(text, Some(command.into()))
    }

    /// A suggestion that may have no command.
    fn with(text: impl Into<String>, command: Option<String>) -> Option<Self> {
        Some(Suggestion { text: text.into(), command })
    }
}

type Rule = fn(&Symptom, &Case) -> Option<Suggestion>;

/// From the certain to the vague: the first rule that knows a symptom speaks.
const RULES: [Rule; 7] =
    [gems::rule, ruby::rule, rails::rule, database::rule, services::rule, files::rule, process::exit_by_exception];

/// What to do about the failure, looking at this machine.
pub fn suggest(report: &StartupReport) -> Option<Suggestion> {
    suggest_with(report, &Here::of(report))
}

/// What to do about the failure, with the machine as an argument.
pub fn suggest_with(report: &StartupReport, seen: &dyn Surroundings) -> Option<Suggestion> {
    let case = Case { report, seen, root: Root::of(&report.root), occasion: Occasion::Start };
    match report.failure.as_ref()? {
        Failure::Exception { .. } => from_symptoms(&case.exception_symptoms(), &case),
        Failure::Exited { status, signal, .. } => process::killed(*signal, *status, &case)
            .or_else(|| from_symptoms(&case.printed_symptoms(), &case))
            .or_else(|| process::exited(*status, &case)),
        Failure::TimedOut { after } => process::timed_out(*after, &case),
        Failure::Unready { path, .. } => process::unready(path),
        Failure::System { doing, error } => process::system(doing, error, &case),
    }
}

/// What to do about an exception that a request has ended with. The app's files are read with the rights of `read_as`.
pub fn suggest_for_request(
    failure: &Failure,
    root: &Path,
    environment: &str,
    read_as: Option<&RunAs>,
) -> Option<Suggestion> {
    let mut report = StartupReport::new("", root, environment);
    report.read_as = read_as.cloned();
    report.fail(failure.clone());
    for_request(&report, &Here::of(&report))
}

fn for_request(report: &StartupReport, seen: &dyn Surroundings) -> Option<Suggestion> {
    let case = Case { report, seen, root: Root::of(&report.root), occasion: Occasion::Request };
    from_symptoms(&case.exception_symptoms(), &case)
}

fn from_symptoms(symptoms: &[Symptom], case: &Case) -> Option<Suggestion> {
    let specific = symptoms.iter().find_map(|symptom| RULES.iter().find_map(|rule| rule(symptom, case)));
    specific.or_else(|| symptoms.iter().find_map(|symptom| code::rule(symptom, case)))
}
