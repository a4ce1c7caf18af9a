//! The generator as the tests and `bin/bench` drive it, by plans and commands on standard input, with every answer
//! checked. It never judges what it sees; who drives it does.
//!
//! ```text
//! loadgen crowd ADDRESS:PORT      many slow clients at once: see `crowd`
//! loadgen load                    a plan (JSON) on standard input, its result (JSON) on standard output: `load`
//! loadgen steady                  clients that ask again and again until standard input ends: `steady`
//! ```

mod client;
mod crowd;
mod load;
mod plan;
mod steady;

use std::io;

/// Runs the program `loadgen` with these arguments.
pub fn run(words: &[&str]) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    match words {
        ["crowd", address] => runtime.block_on(crowd::run(address)),
        ["load"] => local.block_on(&runtime, load::run()),
        ["steady"] => local.block_on(&runtime, steady::run()),
        _ => Err(io::Error::other("usage: loadgen crowd ADDRESS:PORT, loadgen load or loadgen steady")),
    }
}
