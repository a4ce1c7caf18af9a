//! One moment as somebody types it: `tomorrow 12:00`, `friday 09:30 Europe/Berlin`, `2026-11-27 12:00`, `12:00`, `+2h30m`,
//! `@1795780800`. It never asks what time it is.

use jiff::{civil::Date, tz::TimeZone, SignedDuration, Timestamp};

use crate::{
    when::{date, time_of_day, timestamp, weekday_named, WhenError},
    Millis,
};

/// Why a text is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    #[error("{0:?} is no time: write \"tomorrow 12:00\", \"friday 09:30\", \"2026-11-27 12:00 Europe/Berlin\", \"12:00\" or \"+2h\"")]
    Form(String),
    #[error("it {0}")]
    When(#[from] WhenError),
}

/// `zone`: of who types, where the text names none. A time of day alone is the next one.
///
/// # Errors
/// What of the text is not understood.
pub fn parse(text: &str, now: Millis, zone: &TimeZone) -> Result<Millis, MomentError> {
    let wrong = || MomentError::Form(text.to_owned());
    let now = timestamp(now).ok_or_else(wrong)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = match *words.as_slice() {
        [later] if later.starts_with('+') => {
            let later: SignedDuration = later[1..].parse().map_err(|_| wrong())?;
            now.checked_add(later).map_err(|_| wrong())?
        }
        [unix] if unix.starts_with('@') => {
            Timestamp::from_second(unix[1..].parse().map_err(|_| wrong())?).map_err(|_| wrong())?
        }
        [one] if one.contains('T') => one.parse().map_err(|_| wrong())?,
        [time] => {
            let today = now.to_zoned(zone.clone()).date();
            let at = instant(today, time, zone)?;
            if at > now {
                at
            } else {
                instant(today.tomorrow().map_err(|_| wrong())?, time, zone)?
            }
        }
        [day, time] => instant(day_of(day, now, zone).ok_or_else(wrong)??, time, zone)?,
        [day, time, name] => {
            let zone = TimeZone::get(name).map_err(|_| WhenError::Zone(name.to_owned()))?;
            instant(day_of(day, now, &zone).ok_or_else(wrong)??, time, &zone)?
        }
        _ => return Err(wrong()),
    };
    u64::try_from(at.as_millisecond()).map_err(|_| wrong())
}

/// None: it is no day at all.
fn day_of(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Result<Date, WhenError>> {
    let today = now.to_zoned(zone.clone()).date();
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "today" => Some(Ok(today)),
        "tomorrow" => today.tomorrow().ok().map(Ok),
        dated if dated.starts_with(|letter: char| letter.is_ascii_digit()) => Some(date(dated)),
        named => today.nth_weekday(1, weekday_named(named)?).ok().map(Ok),
    }
}

fn instant(day: Date, time: &str, zone: &TimeZone) -> Result<Timestamp, MomentError> {
    let zoned = zone.to_ambiguous_zoned(day.to_datetime(time_of_day(time)?)).compatible();
    zoned.map(|zoned| zoned.timestamp()).map_err(|_| MomentError::Form(time.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::when::tests::at;

    #[test]
    fn as_somebody_types_it() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        // A Wednesday.
        let now = at("2026-11-25T13:00:00+01:00");
        for (text, moment) in [
            ("tomorrow 12:00", "2026-11-26T12:00:00+01:00"),
            ("today 12:00", "2026-11-25T12:00:00+01:00"),
            ("12:00", "2026-11-26T12:00:00+01:00"),
            ("18:00:30", "2026-11-25T18:00:30+01:00"),
            ("friday 09:30", "2026-11-27T09:30:00+01:00"),
            ("wed 09:30", "2026-12-02T09:30:00+01:00"),
            ("tomorrow 12:00 America/New_York", "2026-11-26T12:00:00-05:00"),
            ("2026-11-27 12:00", "2026-11-27T12:00:00+01:00"),
            ("2026-11-27T12:00:00Z", "2026-11-27T12:00:00Z"),
            ("+2h30m", "2026-11-25T15:30:00+01:00"),
            ("@1795780800", "2026-11-27T12:00:00Z"),
        ] {
            assert_eq!(parse(text, now, &zone), Ok(at(moment)), "{text}");
        }
        for text in
            ["", "noon", "someday 12:00", "tomorrow", "tomorrow noon", "+x", "@x", "-2h", "2026-13-01 12:00", "a b c d"]
        {
            assert!(parse(text, now, &zone).is_err(), "{text}");
        }
    }
}
