//! What was counted during the last minute, by looks at the counts every ten seconds.
//! It never counts itself.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use super::snapshot::Snapshot;

const EVERY: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_secs(60);

/// Looks at the counts of a site, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Instant, Arc<Snapshot>)>>);

/// What was counted lately.
#[derive(Debug, Clone, Default)]
pub struct LastMinute {
    /// About a minute, unless the site is younger.
    pub span: Duration,
    pub counts: Snapshot,
}

impl LastMinute {
    pub fn per_second(&self) -> f64 {
        self.counts.requests() as f64 / self.span.as_secs_f64().max(1.0)
    }
}

impl Recent {
    fn looks(&self) -> MutexGuard<'_, VecDeque<(Instant, Arc<Snapshot>)>> {
        self.0.lock()
    }

    /// Remembers the counts, if it is time to.
    pub fn look(&self, now: Instant, counts: impl FnOnce() -> Snapshot) {
        let mut looks = self.looks();
        if looks.back().is_some_and(|(last, _)| now < *last + EVERY) {
            return;
        }
        let counts = counts();
        // Of a site that nobody asks one picture is kept.
        let last = looks.back().map(|(_, last)| last).filter(|last| ***last == counts).cloned();
        looks.push_back((now, last.unwrap_or_else(|| counts.into())));
        while looks.get(1).is_some_and(|(second, _)| *second + SPAN <= now) {
            looks.pop_front();
        }
    }

    pub fn lately(&self, now: Instant, counts: &Snapshot) -> LastMinute {
        let looks = self.looks();
        let Some((then, before)) = looks.front() else { return LastMinute::default() };
        LastMinute { span: now.saturating_duration_since(*then), counts: counts.since(before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_looked_back() {
        let recent = Recent::default();
        assert_eq!(recent.lately(Instant::now(), &Snapshot::default()).counts.requests(), 0);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let counts = |aborted| Snapshot { aborted, ..Snapshot::default() };
        for second in 0..200 {
            recent.look(at(second), || counts(second));
        }
        let lately = recent.lately(at(200), &counts(200));
        assert_eq!((lately.span.as_secs(), lately.counts.aborted), (70, 70));
        let lately = recent.lately(at(205), &counts(205));
        assert_eq!((lately.span.as_secs(), lately.counts.aborted), (75, 75));
        assert!(recent.looks().len() <= 8);
    }
}
