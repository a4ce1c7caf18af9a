//! What becomes of deadlines when the front did not run for a while: that time is taken from nobody.
//! It never decides what is done at a deadline.

use std::time::{Duration, Instant};

use super::Actor;
use crate::{apps::worker_process::Worker, support::stall::STALL};

/// How often it is noted that the front runs.
pub(super) const BEAT: Duration = Duration::from_secs(1);

impl Actor {
    /// Puts all deadlines off if the front has not run for a while; true if it has not.
    pub(super) fn notice_stall(&mut self, now: Instant) -> bool {
        let away = now.saturating_duration_since(std::mem::replace(&mut self.beat, now));
        if away < BEAT + STALL {
            return false;
        }
        let put_off = |deadline: &mut Instant| *deadline += away;
        for generation in self.generations() {
            put_off(&mut generation.deadline);
            generation.fork_due.iter_mut().chain(&mut generation.gone_at).for_each(put_off);
            let workers = generation.workers.values_mut();
            workers.flat_map(Worker::deadlines).for_each(put_off);
        }
        self.start_at.iter_mut().for_each(put_off);
        true
    }
}
