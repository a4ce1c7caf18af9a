//! Records in one file that many processes read and write at once: LMDB (by heed), with a checksum for each record and
//! a look at the whole file before it is believed. One writer at a time, readers never wait. Knows nothing of what the
//! records mean, takes no decision, and locks nothing beyond a single commit.
#![deny(unsafe_code)]

mod error;
#[allow(unsafe_code)]
pub mod ffi;
mod opening;
mod store;
mod verify;

pub use error::{Error, Kind};
pub use store::{Change, Expected, Options, Snapshot, Store};
pub use verify::{verify, Damage, Entry};
