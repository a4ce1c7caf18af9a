//! The static library that the gem's native part links: what C may call of the crates beside this one. Nothing else is
//! here.
#![deny(unsafe_code)]

pub use paceline_store::ffi as store;
pub use paceline_xml::{ffi as xml, ffi_read as xml_read};
