//! A new program takes the place of the one that serves, without refusing a connection: listeners, control socket,
//! cache and the pid by which the server is known go from front to front. It never changes what is served.
//!
//! # What happens
//!
//! 1. The old front starts the program at the path that it was started from itself (`program`), and tells it over a
//!    pair of sockets (`wire`) what there is: listening sockets, control socket, keys of the cache (`giving`,
//!    `inheritance`).
//! 2. The new one reads its settings, starts its applications, and says that it is ready. The old one serves meanwhile,
//!    and goes on serving if that fails.
//! 3. The old one gives it what its cache holds in memory, closes the cache's disk, and lets it serve.
//! 4. The new one accepts; the old one drains as it does at its end, and tells the new one of purges in requests it
//!    still has.
//! 5. The first front becomes the stand-in (`stand_in`): it keeps the pid. A later one just ends (`lineage`); the front
//!    after it is then the stand-in's child.

pub mod giving;
pub mod inheritance;
mod lineage;
mod program;
pub mod stand_in;
pub mod taking;
pub mod wire;

pub use self::{giving::Successor, inheritance::Inheritance, lineage::Lineage, program::Program};

/// Names the descriptor of the socket between the two.
pub const VARIABLE: &str = "PACELINE_HANDOVER_FD";
