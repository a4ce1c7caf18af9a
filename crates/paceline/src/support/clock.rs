//! The clocks: the timeline's (CLOCK_MONOTONIC, shared with the Ruby processes), that of ages, and the time of day.
//! What decides how long something takes or lasts asks one of the first two: somebody may set the time of day at any
//! moment.

use std::{
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

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
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Milliseconds since the Unix epoch by the time of day, for dates that others read or have written.
pub fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Milliseconds for ages: as `unix_millis` when this process began to ask, and from then on with CLOCK_BOOTTIME, which
/// nobody sets and which goes on while the machine sleeps. So they mean the same after a restart, if the time of day
/// was right.
pub fn age_millis() -> u64 {
    static EPOCH: OnceLock<u64> = OnceLock::new();
    let time = clock_gettime(ClockId::Boottime);
    let booted = time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000;
    EPOCH.get_or_init(|| unix_millis().saturating_sub(booted)) + booted
}
