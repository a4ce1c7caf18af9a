//! A circuit breaker: an upstream that could not be reached several times in a row is left alone for a while, which
//! grows; then one call tries again. Pure: time is an argument. It never counts what an upstream answers.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    /// Until then it is left alone, and the pause after that if it fails again.
    open: Option<(Instant, Duration)>,
}

impl Breaker {
    /// Whether a connection may be tried. The first after a pause holds the others off for as long again.
    pub fn check(&mut self, now: Instant) -> Result<(), Failure> {
        match self.open {
            Some((until, _)) if now < until => Err(Failure::OpenCircuit { retry_after: until - now }),
            Some((_, pause)) => {
                self.open = Some((now + pause, pause));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    /// `most`: failures in a row that open it; 0: none do.
    pub fn failed(&mut self, most: u32, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if most > 0 && self.failures >= most {
            let pause = self.open.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
            self.open = Some((now + pause, pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_and_tries_again() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut breaker = Breaker::default();
        breaker.failed(3, at(0.0));
        breaker.failed(3, at(0.0));
        assert!(breaker.check(at(0.0)).is_ok());
        breaker.failed(3, at(0.0));
        assert!(
            matches!(breaker.check(at(0.5)), Err(Failure::OpenCircuit { retry_after }) if retry_after == Duration::from_millis(500))
        );
        // One tries, the others still wait.
        assert!(breaker.check(at(1.1)).is_ok());
        assert!(breaker.check(at(1.2)).is_err());
        breaker.failed(3, at(1.3));
        assert!(breaker.check(at(3.2)).is_err() && breaker.check(at(3.4)).is_ok());
        breaker.succeeded();
        assert!(breaker.check(at(3.5)).is_ok() && breaker.check(at(3.5)).is_ok());
    }

    #[test]
    fn without_a_number_it_never_does() {
        let mut breaker = Breaker::default();
        (0..100).for_each(|_| breaker.failed(0, Instant::now()));
        assert!(breaker.check(Instant::now()).is_ok());
    }
}
