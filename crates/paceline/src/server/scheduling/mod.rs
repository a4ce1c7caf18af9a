//! Pages that change at a known time: copies of the application whose clock is ahead render them before, and the page
//! cache gives them from the time on. When that is and what has to be done is in the crate `scheduled`; where the pages
//! lie, and from when on they are given, in `caching::scheduled`.
//!
//! Reading order: `driver` (the thread that waits for the time), `preparing` (the one that renders, by
//! `request::preview::rendering`), `comparing` (a sample after the time), `keeping` (what is prepared outlives the
//! server), `overview` (for `paceline schedule`).
//! It never answers a visitor.

mod comparing;
mod driver;
mod jobs;
mod keeping;
mod overview;
mod preparing;

pub use driver::Scheduling;
pub use overview::overview;
