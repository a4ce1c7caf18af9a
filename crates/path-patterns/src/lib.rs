//! How the paths of requests are read, and compared with the patterns of settings: the same for `[[rule]]`, `[[sso]]`,
//! `[[rate_limit]]`, `[[cache]]` and `[[scheduled]]`. Pure; it never knows what a pattern is for.
//!
//! Reading order: `pattern_set` (many patterns at once), `readings` (all that a path may mean), `areas` (patterns that count for each
//! reading of a path), `weight` (what patterns of an account may cost), `route`
//! (which paths are those of one route).

mod areas;
mod pattern_set;
mod readings;
pub mod route;
mod weight;

pub use areas::{Areas, Paths};
pub use pattern_set::{matches, PatternSet};
pub use readings::Readings;
pub use weight::{weight, MAX_WEIGHT};
