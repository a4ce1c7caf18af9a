//! HTTP as the front speaks it on behalf of Rack: request heads and bodies in, response heads and bodies out.
//! It never chooses who answers.

mod base64;
pub mod body;
pub mod coding;
pub mod hop;
pub mod host;
pub mod http2_message;
pub mod incoming;
pub mod spool;
pub mod strict;
pub mod tunnel;
pub mod withheld;

pub use self::base64::base64;
