//! The front: everything between a client's socket and the Ruby workers.
//! A request's way is composed in `pipeline`; each step is a room of its own and rooms never import each other's steps.

pub mod cli;
pub mod config;
pub mod pages;
pub mod startup_report;
pub mod static_files;
