//! The steps of a request: the pipeline with their order, the steps that are small, fragments, errors as responses, and
//! the end with its log line; and what all requests share: the front and its sites.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod access_rules;
pub mod auth;
pub mod errors;
pub mod finish;
pub mod forwarded;
pub mod fragments;
pub mod front;
pub mod http_01;
pub mod https_only;
pub mod maintenance;
pub mod pages;
pub mod pipeline;
pub mod preview;
pub mod private;
pub mod route;
pub mod rules;
pub mod server_timing;
