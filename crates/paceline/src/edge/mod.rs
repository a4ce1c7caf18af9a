//! Between the network and a request: listening sockets, the PROXY protocol, TLS and its certificates,
//! HTTP/1.1 and HTTP/2.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod acme;
pub mod h1;
pub mod h2;
pub mod listen;
pub mod negotiate;
pub mod proxy_protocol;
pub mod sniff;
pub mod tls;
