//! TLS (RFC 8446, RFC 5246): certificates from files, chosen by the name a client asks for, replaced when the files
//! change. It never reads a request, and it serves nothing older than TLS 1.2.

pub mod certificate;
pub mod handshake;
mod names;
pub mod own;
mod store;

pub use handshake::{Acceptor, AcceptorError};
pub use store::Store;
