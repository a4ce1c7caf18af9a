//! The load generator of the tests and of the benchmarks. It never judges what it sees; who drives it does.
//!
//!     loadgen crowd ADDRESS:PORT      many slow clients at once, by commands on standard input: see `crowd.rs`
//!     loadgen load                    a plan (JSON) on standard input, its result (JSON) on standard output: `load.rs`
//!     loadgen steady                  clients that ask again and again until standard input ends: `steady.rs`

mod client;
mod crowd;
mod load;
mod plan;
mod steady;

use std::io;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let local = tokio::task::LocalSet::new();
    match words[..] {
        ["crowd", address] => crowd::run(address).await,
        ["load"] => local.run_until(load::run()).await,
        ["steady"] => local.run_until(steady::run()).await,
        _ => Err(io::Error::other("usage: loadgen crowd ADDRESS:PORT, loadgen load or loadgen steady")),
    }
}
