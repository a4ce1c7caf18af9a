//! XML's bytes, for the gem's native part: text escaped as Ruby's Builder does, and documents read ([`read`]). Pure:
//! slices in, slices out. Nothing here knows Ruby, reads or writes. [`ffi`] and [`ffi_read`] are what C calls.
#![deny(unsafe_code)]

mod escape;
#[allow(unsafe_code)]
pub mod ffi;
#[allow(unsafe_code)]
pub mod ffi_read;
pub mod read;
mod scan;

pub use escape::{escape, Place, Progress};
