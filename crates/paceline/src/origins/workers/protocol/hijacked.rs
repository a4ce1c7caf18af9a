//! Connections that an application has taken over (Rack SPEC "Hijacking"), such as WebSockets: how many of a worker's are open.
//! It never touches one.

use std::sync::{
    atomic::{AtomicUsize, Ordering::SeqCst},
    Arc,
};

/// Those of one worker.
#[derive(Debug, Clone, Default)]
pub struct HijackedConnections(Arc<AtomicUsize>);

impl HijackedConnections {
    /// One more.
    pub fn open(&self) -> Hijacked {
        self.0.fetch_add(1, SeqCst);
        Hijacked(self.0.clone())
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub struct Hijacked(Arc<AtomicUsize>);

impl Drop for Hijacked {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
