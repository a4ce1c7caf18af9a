//! How an app comes back after its processes died: how long each pause is, and when a start is tried again by itself.
//! It never starts anything.

use std::time::{Duration, Instant};

use super::{Actor, LONGEST_PAUSE, SHORT_LIFE};
use startup_report::{Failure, StartupReport};

/// The longest pause while nobody serves: requests are waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long starts may be killed one after another before requests are told that the app does not start; or less, if
/// `start_timeout` is less.
const LONGEST_RECOVERY: Duration = Duration::from_secs(60);

impl Actor {
    /// How long to wait before a process that lived so long is replaced: the first at once, then ever longer.
    pub(super) fn pause_after(&mut self, life: Duration) -> Duration {
        self.crashes = if life < SHORT_LIFE { self.crashes + 1 } else { 0 };
        pause(self.crashes, self.serves())
    }

    /// Whether a worker takes requests.
    pub(super) fn serves(&self) -> bool {
        let workers = self.current.iter().flat_map(|current| current.workers.values());
        workers.filter(|worker| worker.serves()).count() > 0
    }

    /// The generation that served is gone, before another could take its place.
    pub(super) fn begin_recovery(&mut self) {
        self.recovering = self.recovering.or(Some((Instant::now(), 0)));
    }

    /// What served before has shown that the app can start. If a signal ended its successor, it is tried again after
    /// this pause, and requests wait meanwhile: it was killed from outside, or the machine had no memory for a
    /// moment.
    pub(super) fn recovers(&mut self, report: &StartupReport) -> Option<Duration> {
        let killed = matches!(report.failure, Some(Failure::Exited { signal: Some(_), .. }));
        let longest = LONGEST_RECOVERY.min(self.context.site.start_timeout);
        let (_, starts) = self.recovering.as_mut().filter(|(began, _)| killed && began.elapsed() < longest)?;
        *starts += 1;
        Some(pause(*starts, false))
    }
}

fn pause(crashes: u32, serves: bool) -> Duration {
    let longest = if serves { LONGEST_PAUSE } else { LONGEST_WAIT };
    match crashes {
        0 | 1 => Duration::ZERO,
        crashes => Duration::from_millis(100 << crashes.min(9)).min(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_but_requests_do_not_wait_for_a_long_one() {
        let seconds = |serves| (1..7).map(move |crashes| pause(crashes, serves).as_secs_f32()).collect::<Vec<_>>();
        assert_eq!(seconds(true), [0.0, 0.4, 0.8, 1.6, 3.2, 6.4]);
        assert_eq!(seconds(false), [0.0, 0.4, 0.8, 1.0, 1.0, 1.0]);
        assert_eq!(pause(u32::MAX, true), LONGEST_PAUSE);
    }
}
