//! Certificates that the server gets and renews by itself (ACME, RFC 8555): one for each host of `tls = "auto"`.
//! It never stands in the way of a request or of another host: what fails is tried again later.

mod authority;
pub mod http_01;
mod keeper;
mod order;
mod schedule;
mod shelf;
mod storage;
mod tls_alpn_01;
mod trouble;
mod validity;

pub use keeper::Keeper;
pub use shelf::Shelf;
pub use tls_alpn_01::PROTOCOL as VALIDATION_PROTOCOL;

/// How a host proves to the authority that it is served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A file over http, port 80.
    Http01,
    /// A certificate in a TLS handshake, port 443.
    TlsAlpn01,
}
