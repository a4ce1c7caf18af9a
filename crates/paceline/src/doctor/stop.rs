//! Why a trial is not gone on with: by itself, or with the whole run. It never decides that.

use super::{driver::RunError, source::NoShadow};
use crate::origins::shadow::ShadowError;

/// Why a trial has no result.
pub enum Stop {
    /// Another trial may have one.
    Trial(String),
    Run(RunError),
}

impl From<ShadowError> for Stop {
    fn from(error: ShadowError) -> Stop {
        Stop::Trial(error.to_string())
    }
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Stop {
        match error {
            RunError::Environment(why) => Stop::Trial(why),
            other => Stop::Run(other),
        }
    }
}

impl From<NoShadow> for Stop {
    fn from(error: NoShadow) -> Stop {
        match error {
            NoShadow::Shadow(error) => error.into(),
            other => Stop::Run(other.into()),
        }
    }
}
