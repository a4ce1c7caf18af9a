//! How often the stack of a request is read: until that says enough of its route, however long it takes on a busy machine, within bounds. It replays
//! nothing itself.

use std::time::Duration;

use doctor::profile::{Profile, LEAST_READINGS};

/// After so many no more are needed.
pub const READINGS: u64 = 60;
/// What reading one request may take, and all of them.
const ONE: Duration = Duration::from_millis(800);
const ALL: Duration = Duration::from_secs(8);
/// The same where too little is known of the route: a copy that seldom gets the processor is seldom read.
const UNKNOWN_ONE: Duration = Duration::from_secs(8);
const UNKNOWN_ALL: Duration = Duration::from_secs(40);

/// What is left of the time for reading.
pub struct ProfilingTime {
    all: Duration,
    unknown: Duration,
}

impl Default for ProfilingTime {
    fn default() -> ProfilingTime {
        ProfilingTime { all: ALL, unknown: UNKNOWN_ALL }
    }
}

impl ProfilingTime {
    /// Replays a request until its stack was read often enough. `known`: readings of other requests of its route; `elapsed`: since this began.
    pub fn profile<E>(
        &mut self,
        known: u64,
        elapsed: impl Fn() -> Duration,
        mut replay: impl FnMut() -> Result<Option<Profile>, E>,
    ) -> Result<Profile, E> {
        let mut profile = Profile::default();
        while profile.readings < READINGS && elapsed() < self.of(known + profile.readings) {
            profile.add(replay()?.unwrap_or_default());
        }
        self.all = self.all.saturating_sub(elapsed());
        self.unknown = self.unknown.saturating_sub(elapsed());
        Ok(profile)
    }

    /// For a request of a route that was read so often.
    fn of(&self, readings: u64) -> Duration {
        if readings < READINGS {
            UNKNOWN_ONE.min(self.unknown)
        } else {
            ONE.min(self.all)
        }
    }
}

/// As for a first look, which is wanted soon: no more than `soon` if that is enough to say something at all.
pub fn is_enough_soon(readings: u64, elapsed: Duration, soon: Duration, late: Duration) -> bool {
    readings >= READINGS || elapsed >= if readings >= LEAST_READINGS { soon } else { late }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Seconds and readings of a request whose replays take so many milliseconds and bring so many readings.
    fn read(time: &mut ProfilingTime, known: u64, millis: u64, readings: u64) -> (u64, u64) {
        let now = Cell::new(Duration::ZERO);
        let replay = || {
            now.set(now.get() + Duration::from_millis(millis));
            Ok::<_, ()>(Some(Profile { readings, ..Profile::default() }))
        };
        let profile = time.profile(known, || now.get(), replay).unwrap();
        (now.get().as_millis() as u64, profile.readings)
    }

    #[test]
    fn a_page_is_read_until_enough_is_known_of_it() {
        let mut time = ProfilingTime::default();
        assert_eq!(read(&mut time, 0, 10, 3), (200, 60));
        // On a busy machine that takes longer.
        assert_eq!(read(&mut time, 0, 100, 1), (6_000, 60));
        assert_eq!(read(&mut time, 0, 1_000, 1), (8_000, 8));
        assert_eq!(read(&mut time, 0, 30_000, 900), (30_000, 900), "one replay in any case");
    }

    #[test]
    fn more_of_a_route_that_is_known_takes_little_time() {
        let mut time = ProfilingTime::default();
        assert_eq!(read(&mut time, 60, 100, 1), (800, 8));
        assert_eq!(read(&mut time, 55, 100, 1), (800, 8), "it becomes known meanwhile");
        for _ in 0..7 {
            read(&mut time, 60, 100, 1);
        }
        assert_eq!(read(&mut time, 60, 100, 1), (800, 8));
        assert_eq!(read(&mut time, 60, 100, 1), (0, 0), "the time for all of them is over");
        assert_eq!(read(&mut time, 0, 100, 1), (6_000, 60), "not that for what nothing is known of");
    }

    #[test]
    fn all_pages_together_have_an_end() {
        let mut time = ProfilingTime::default();
        let all: u64 = (0..20).map(|_| read(&mut time, 0, 1_000, 1).0).sum();
        assert_eq!(all, 40_000);
    }

    #[test]
    fn a_first_look_waits_for_what_it_can_say() {
        let [soon, late] = [Duration::from_millis(500), Duration::from_secs(3)];
        let is_enough = |readings, millis| is_enough_soon(readings, Duration::from_millis(millis), soon, late);
        assert_eq!([is_enough(60, 10), is_enough(59, 499), is_enough(20, 500)], [true, false, true]);
        assert_eq!([is_enough(19, 500), is_enough(19, 2_999), is_enough(0, 3_000)], [false, false, true]);
    }
}
