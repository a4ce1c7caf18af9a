//! Certificates that the server gets and renews by itself (ACME, RFC 8555): one for each host of `tls = "auto"`.
//! It never stands in the way of a request or of another host: what fails is tried again later.

mod authority;
mod keeper;
mod order;
mod schedule;
mod storage;
mod tls_alpn_01;
mod trouble;
mod validity;

pub use crate::support::certificate_store::Proof;
pub use keeper::Keeper;
pub use storage::StorageError;
