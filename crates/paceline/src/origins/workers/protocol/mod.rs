//! One Ruby worker as the front sees it: the frames on its sockets.
//! It never decides which worker gets a request (`dispatch`) nor when one is started (`supervisor`).

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod channel;
pub mod control;
pub mod failed;
pub mod fields;
pub mod frame;
mod half_frame;
pub mod hang_up;
pub mod hijacked;
pub mod ruby_heap;
pub mod spin;

#[cfg(test)]
mod vectors;
