//! What an app's processes tell and have shown of their memory, as accounts of it want it: a picture, taken by the
//! actor. The kernel's figures are not in it: whoever wants them reads them (`accounting`).

use std::{collections::HashMap, time::Duration};

use tokio::{sync::watch, time::timeout_at};

use super::growth::RouteGrowth;
pub use crate::origins::workers::protocol::ruby_heap::RubyHeap;

/// A process that was asked for its heap.
pub struct HeapQuery {
    pub pid: i32,
    /// Changes when it answers.
    pub heap: watch::Receiver<Option<RubyHeap>>,
    /// None: it has not been looked at yet, or is a preloader.
    pub growth: Option<GrowthView>,
}

/// How a worker's own memory has grown; bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowthView {
    pub born: u64,
    pub now: u64,
    /// The most first.
    pub routes: Vec<RouteGrowth>,
}

/// What came of asking, by pid.
pub type HeapAnswers = HashMap<i32, (Option<RubyHeap>, Option<GrowthView>)>;

/// Waits for the answers, all of them together for so long: a worker whose threads compute answers late, one that is
/// stuck in C code not at all.
pub async fn answers(asked: Vec<HeapQuery>, patience: Duration) -> HeapAnswers {
    let end = tokio::time::Instant::now() + patience;
    let mut told = HeapAnswers::new();
    for mut process in asked {
        let came = matches!(timeout_at(end, process.heap.changed()).await, Ok(Ok(())));
        let heap = process.heap.borrow().clone().filter(|_| came);
        told.insert(process.pid, (heap, process.growth));
    }
    told
}
