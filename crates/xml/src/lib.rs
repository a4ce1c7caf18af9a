//! XML's bytes, for the gem's native part: text escaped as Ruby's Builder does. Pure: slices in, slices out. Nothing here knows
//! Ruby, reads or writes. [`ffi`] is what C calls.
#![deny(unsafe_code)]

mod escape;
#[allow(unsafe_code)]
pub mod ffi;
mod scan;

pub use escape::{escape, Place, Progress};
