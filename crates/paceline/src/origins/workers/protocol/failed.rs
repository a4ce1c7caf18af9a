//! FAILED of a preloader or a worker: why the application does not start, as a report wants it.
//! It never decides what follows from it.

use std::{collections::HashMap, path::PathBuf};

use super::{fields, frame::AppError};
use startup_report::{Failure, Step};

/// The step it failed in, if that is known, and how.
pub fn failure(payload: &[u8]) -> (Option<Step>, Failure) {
    let pairs: HashMap<String, String> = fields::pairs(payload)
        .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()))
        .collect();
    let given = |name: &str| pairs.get(name).filter(|value| !value.is_empty()).cloned();
    let failure = Failure::Exception {
        class: given("class").unwrap_or_default(),
        message: given("message").unwrap_or_default(),
        file: given("file").map(PathBuf::from),
        line: given("line").and_then(|line| line.parse().ok()),
        backtrace: given("backtrace").map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default(),
        cause: given("cause"),
        detail: given("detail"),
    };
    (given("step").and_then(|name| Step::from_name(&name)), failure)
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Failure {
        let AppError { class, message, file, line, backtrace, cause, detail } = error;
        Failure::Exception {
            class,
            message,
            file: (!file.is_empty()).then(|| file.into()),
            line: line.parse().ok(),
            backtrace,
            cause: Some(cause),
            detail: Some(detail),
        }
    }
}
