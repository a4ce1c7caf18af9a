//! The front: everything between a client's socket and the Ruby workers.
//! A request's way is composed in `pipeline`; each step is a room of its own and rooms never import each other's steps.

pub mod accepted;
pub mod access_log;
pub mod account;
pub mod acme;
pub mod admission;
pub mod answers;
pub mod cli;
pub mod clock;
pub mod compress;
pub mod config;
pub mod connection;
pub mod dispatch;
pub mod exchange;
pub mod finish;
pub mod forwarded;
pub mod guard;
pub mod http;
pub mod http2;
pub mod https_only;
pub mod listen;
pub mod log;
pub mod memory;
pub mod pages;
pub mod pipeline;
pub mod preface;
pub mod proxy_protocol;
pub mod rate_limit;
pub mod route;
pub mod server;
pub mod startup_report;
pub mod static_files;
pub mod supervisor;
pub mod tls;
pub mod upstream;
pub mod worker;
