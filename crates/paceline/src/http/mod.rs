//! HTTP as the front speaks it on behalf of Rack: request heads and bodies in, response heads and bodies out.
//! It never chooses who answers.

mod base64;
pub mod body;
pub mod coding;
pub mod dechunk;
pub mod env;
pub mod hijack;
pub mod hop;
pub mod incoming;
pub mod response;
pub mod spool;
pub mod strict;
pub mod withheld;

pub use self::base64::base64;
