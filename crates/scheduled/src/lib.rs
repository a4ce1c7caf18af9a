//! Pages that change at a known time: when that is (`when`, `moment`; as the pages say it: `times`), which pages an owner
//! names (`rule`), what has to be done and when (`plan`), and for how long other caches may keep a page before the change
//! (`capping`).
//! It never reads a clock and never waits: the time of day is an argument.

#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod capping;
pub mod moment;
pub mod plan;
pub mod rule;
pub mod times;
pub mod when;

/// Milliseconds since the Unix epoch by the time of day, or a length of time.
pub type Millis = u64;

/// Where a response says when its page will look different: Unix seconds, or a date as in `Expires`; several may be said.
pub const CHANGES_AT: http::HeaderName = http::HeaderName::from_static("paceline-changes-at");
