//! One request: the exchange, the pipeline of its steps, the steps that are small, errors as responses, and the end
//! with its log line.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod access_log;
pub mod access_rules;
pub mod auth;
pub mod crawlers;
pub mod errors;
pub mod exchange;
pub mod finish;
pub mod forwarded;
pub mod http2_message;
pub mod https_only;
pub mod incoming;
pub mod maintenance;
pub mod outbound_advice;
pub mod pages;
pub mod pipeline;
pub mod private;
pub mod rate_limit;
pub mod route;
pub mod rules;
pub mod server_timing;
pub mod tunnel;
