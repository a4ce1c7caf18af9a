//! The one clock of the timeline: microseconds of CLOCK_MONOTONIC, shared with the Ruby processes.
//! It never tells the time of day.

use rustix::time::{clock_gettime, ClockId};

/// Microseconds of CLOCK_MONOTONIC.
pub type Micros = u64;

/// Now, in microseconds of CLOCK_MONOTONIC.
pub fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Seconds since the Unix epoch with microseconds, as `X-Request-Start: t=` wants them.
pub fn unix_seconds() -> f64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
