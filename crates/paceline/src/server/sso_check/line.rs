//! One answer of the check, and how those of the crates become one. Pure.

use negotiate::check::{Finding, Level as FindingLevel};
use openid::{CheckLine, Outcome};

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Good,
    /// Works, and is worth knowing; or could not be found out.
    Warning,
    /// Somebody can't sign in, or somebody could who should not.
    Wrong,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub level: Level,
    /// What it is about, in one word: `keytab`, `clock`, `issuer`.
    pub subject: &'static str,
    pub text: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Line {
    pub fn good(subject: &'static str, text: impl Into<String>) -> Line {
        Line { level: Level::Good, subject, text: text.into(), advice: None }
    }

    pub fn warning(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Line {
        Line { level: Level::Warning, subject, text: text.into(), advice: Some(advice.into()) }
    }

    pub fn wrong(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Line {
        Line { level: Level::Wrong, subject, text: text.into(), advice: Some(advice.into()) }
    }
}

impl From<Finding> for Line {
    fn from(finding: Finding) -> Line {
        let level = match finding.level {
            FindingLevel::Good => Level::Good,
            FindingLevel::Note => Level::Warning,
            FindingLevel::Bad => Level::Wrong,
        };
        Line { level, subject: finding.topic, text: finding.text, advice: finding.advice }
    }
}

impl From<CheckLine> for Line {
    fn from(line: CheckLine) -> Line {
        let level = match line.outcome {
            Outcome::Good => Level::Good,
            Outcome::Warning => Level::Warning,
            Outcome::Failed => Level::Wrong,
        };
        Line { level, subject: line.subject, text: line.text, advice: None }
    }
}
