//! When a service that fails is left alone, and for how long. It reads no clock and asks nobody.

use crate::Millis;

/// Failures in a row after which it is left alone.
const FAILURES: u32 = 5;
/// For how long at first, and at most.
const FIRST: Millis = 1000;
const LONGEST: Millis = 60_000;

/// A circuit breaker. It opens after some failures in a row. When its time is over the next try decides: a success
/// closes it, a failure opens it for twice as long.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    open: Option<Open>,
    opened: u64,
}

#[derive(Debug)]
struct Open {
    until: Millis,
    span: Millis,
}

impl Breaker {
    /// Whether the service may be asked.
    pub fn admits(&self, now: Millis) -> bool {
        self.open_for(now) == 0
    }

    /// For how long it is still left alone.
    pub fn open_for(&self, now: Millis) -> Millis {
        self.open.as_ref().map_or(0, |open| open.until.saturating_sub(now))
    }

    /// How often it has opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    pub fn succeeded(&mut self, now: Millis) {
        self.failures = 0;
        // What was sent before it opened may succeed late, and says nothing of what comes.
        if self.admits(now) {
            self.open = None;
        }
    }

    /// It can't even be reached: that is as good as some failures. True: it has opened just now.
    pub fn unreachable(&mut self, now: Millis) -> bool {
        self.failures = self.failures.max(FAILURES - 1);
        self.failed(now)
    }

    /// True: it has opened just now.
    pub fn failed(&mut self, now: Millis) -> bool {
        self.failures += 1;
        let span = match &self.open {
            Some(open) if open.until > now => return false,
            Some(open) => (open.span * 2).min(LONGEST),
            None if self.failures < FAILURES => return false,
            None => FIRST,
        };
        self.open = Some(Open { until: now + span, span });
        self.opened += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails until it opens; for how long it does.
    fn open(breaker: &mut Breaker, now: Millis) -> Millis {
        for _ in 0..FAILURES - 1 {
            assert!(!breaker.failed(now) && breaker.admits(now));
        }
        assert!(breaker.failed(now) && !breaker.admits(now));
        breaker.open_for(now)
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        let mut breaker = Breaker::default();
        for _ in 0..3 * FAILURES {
            breaker.failed(0);
            breaker.succeeded(0);
        }
        assert!(breaker.admits(0));
        assert_eq!((open(&mut breaker, 0), breaker.opened()), (FIRST, 1));
        assert!(!breaker.admits(FIRST - 1) && breaker.admits(FIRST));
    }

    #[test]
    fn it_opens_at_once_for_what_is_not_there() {
        let mut breaker = Breaker::default();
        assert!(breaker.unreachable(0) && !breaker.unreachable(1) && breaker.unreachable(FIRST));
        assert_eq!(breaker.open_for(FIRST), 2 * FIRST);
    }

    #[test]
    fn one_more_failure_opens_it_for_twice_as_long() {
        let mut breaker = Breaker::default();
        let (mut now, mut span) = (0, open(&mut breaker, 0));
        for _ in 0..10 {
            // Failures of what was sent before are no news.
            assert!(!breaker.failed(now + span - 1));
            now += span;
            assert!(breaker.failed(now));
            assert_eq!(breaker.open_for(now), (span * 2).min(LONGEST));
            span = breaker.open_for(now);
        }
        assert_eq!(span, LONGEST);
    }

    #[test]
    fn a_success_closes_it_when_its_time_is_over() {
        let mut breaker = Breaker::default();
        let span = open(&mut breaker, 0);
        breaker.succeeded(span - 1);
        assert!(!breaker.admits(span - 1), "a late answer");
        breaker.succeeded(span);
        assert_eq!(open(&mut breaker, span), FIRST, "it begins from the beginning");
    }
}
