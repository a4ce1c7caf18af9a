//! An error that is only shown: a sentence for the operator. It never decides anything: where a caller does something else for
//! one failure than for another, the failure has a type of its own.

use std::{error::Error, fmt};

/// Why something was not done: what is wrong, where, and what to do about it where that is known. It is written to stand
/// behind `paceline: `, in the log or in an answer of the control socket.
#[derive(Debug)]
pub struct Explanation {
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Explanation {
    /// The whole sentence.
    pub fn new(text: impl Into<String>) -> Explanation {
        Explanation { text: text.into(), source: None }
    }

    /// What failed, and why: the cause is shown behind a colon.
    pub fn caused(text: impl Into<String>, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Explanation {
        Explanation { text: text.into(), source: Some(cause.into()) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)?;
        match &self.source {
            Some(cause) => write!(out, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl Error for Explanation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_shown_and_can_be_asked_for() {
        let whole = Explanation::new("no version is running. Fix the error, then run `paceline restart`");
        assert_eq!(whole.to_string(), "no version is running. Fix the error, then run `paceline restart`");
        assert!(whole.source().is_none());
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let caused = Explanation::caused("/srv/shop/paceline.toml", denied);
        assert_eq!(caused.to_string(), "/srv/shop/paceline.toml: permission denied");
        assert!(caused.source().is_some_and(|cause| cause.is::<io::Error>()));
    }
}
