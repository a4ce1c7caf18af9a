//! The front: everything between a client's socket and the Ruby workers. ARCHITECTURE.md is its map,
//! `request::pipeline` the way of a request.

pub mod apps;
pub mod caching;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod content;
pub mod doctor;
pub mod edge;
pub mod exchange;
pub mod observe;
pub mod origins;
pub mod request;
pub mod server;
pub mod support;
