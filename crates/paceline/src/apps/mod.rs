//! The Ruby processes of every app: started, watched, replaced, drained. Runs on the front's main thread alone.
//! It never sees a request; it only fills and empties the apps' queues.

pub mod actor;
pub mod app;
pub mod attempts;
pub mod canary;
pub mod concurrency;
pub mod environment;
mod events;
pub mod generation;
pub mod growth;
pub mod headroom;
mod limits;
pub mod memory;
pub mod orders;
pub mod output;
pub mod overview;
pub mod pages;
mod pool;
pub mod processes;
pub mod ready_check;
pub mod reaper;
mod ruby_facts;
pub mod spawn;
pub mod startable_app;
pub mod trial;
pub mod tuning;
pub mod worker_process;
