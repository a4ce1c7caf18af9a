//! Talking to a shadow: a forked copy of the loaded application that answers one replayed request at a time. The doctor
//! and scheduled pages use it. It never asks for a shadow, and never decides what is replayed.
//!
//! Reading order: `copy` (one shadow), `socket` (where it comes in), `lines` and `peer` (what goes over the socket, and
//! who is at its other end).

mod copy;
mod lines;
mod peer;
mod socket;

pub use copy::{Shadow, ShadowError};
pub use lines::{LineError, Lines};
pub use socket::ShadowSocket;
