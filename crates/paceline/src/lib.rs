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
pub mod front;
pub mod observe;
pub mod request;
pub mod scheduling;
pub mod server;
pub mod shadow;
pub mod sso_check;
pub mod support;
pub mod upstream;
pub mod workers;
