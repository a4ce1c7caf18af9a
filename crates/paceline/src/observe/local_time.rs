//! A moment as people read it: in the machine's zone.
//! It never asks what time it is.

use jiff::{tz::TimeZone, Timestamp};

/// RFC 3339 with milliseconds.
pub const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S%.3f%:z";

/// Unix `seconds` by strftime's letters.
pub fn local_time(seconds: f64, format: &str) -> String {
    let time = Timestamp::from_microsecond((seconds * 1e6) as i64).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime(format).to_string()
}
