//! What a queue tells of itself. It never decides anything.

use super::{Member, Queue, WorkerId};

/// Counts for status and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    pub waiting: usize,
    pub idle: usize,
    pub busy: usize,
    /// Threads beside these, which have streams.
    pub streams: usize,
}

/// What one worker has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLoad {
    pub id: WorkerId,
    pub limit: usize,
    pub young: usize,
}

/// What one worker has done and does, also one that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub id: WorkerId,
    pub answered: u64,
    pub busy: usize,
    pub streams: usize,
    /// Connections that the app has taken over, such as WebSockets.
    pub hijacked: usize,
    pub leaving: bool,
}

impl Queue {
    /// What every worker that is known has done and does.
    pub fn tallies(&self) -> Vec<Tally> {
        let inner = self.lock();
        let tally = |(id, member): (&WorkerId, &Member)| Tally {
            id: *id,
            answered: member.answered,
            busy: member.in_hand.len(),
            streams: member.streams,
            hijacked: member.hijacked.count(),
            leaving: member.leaving,
        };
        inner.members.iter().map(tally).collect()
    }
}
