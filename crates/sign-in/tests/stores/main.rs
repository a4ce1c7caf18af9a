//! What each store has to do, tried with a file and with a real Redis; and what only one of them can get wrong.

mod file;
mod law;
mod redis;

use std::time::{SystemTime, UNIX_EPOCH};

/// Redis has a clock of its own.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}
