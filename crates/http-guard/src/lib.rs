//! What is good HTTP and what is not: the strict parser, the guard before hyper, and the rules about header fields.
//! Pure, but for the guard.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod coding;
pub mod field_blocks;
pub mod guard;
pub mod hop;
pub mod host;
pub mod identity_fields;
pub mod stall;
pub mod strict;
pub mod withheld;
pub mod write_timeout;
