//! A worker's report of its work on a request, beside the response. It never reads a frame.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::support::clock::Micros;

/// What is known of the worker that answers.
#[derive(Default)]
pub struct WorkerReport {
    /// Set by the worker; may come after the response head.
    pub counters: Arc<OnceLock<Counters>>,
    /// None: nobody wants to know what the page was made of.
    pub record: Option<RecordSlot>,
    /// It belongs to a generation on trial, which answers its share of the requests.
    pub by_canary: bool,
}

/// What the worker counted over one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pieces the body came in.
    pub chunks: u32,
    /// Time in garbage collection while the request ran, microseconds.
    pub gc: u32,
    /// Objects allocated by the process while the request ran.
    pub allocated: u32,
    pub app_started: Micros,
    pub app_finished: Micros,
    /// Named spans: name, total microseconds, count.
    pub spans: Vec<(String, u64, u32)>,
}

/// Where the record comes of what a page was made of, before the end of its body.
pub type RecordSlot = Arc<Mutex<Option<Bytes>>>;
