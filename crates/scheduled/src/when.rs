//! When something happens, as an owner writes it: `daily 12:00 America/New_York`, `mon-fri 09:00`, `hourly :00`, or once,
//! `2026-11-27 12:00 Europe/Berlin`. It never asks what time it is.
//!
//! A time that a day does not have, when clocks go forward, is later by as much as they do. One that it has twice is
//! the first.

use jiff::{
    civil::{Date, DateTime, Time, Weekday},
    tz::TimeZone,
    SignedDuration, Timestamp, ToSpan,
};

use crate::Millis;

/// Why a text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    #[error("must be a time like \"daily 12:00\", \"mon-fri 09:00\", \"hourly :30\" or \"2026-11-27 12:00\", with or without a zone like Europe/Berlin, not {0:?}")]
    Form(String),
    #[error("has {0:?}, which is no time of day: write it like 09:30")]
    Time(String),
    #[error("has {0:?}, which is no day: days are mon, tue, wed, thu, fri, sat and sun, as mon-fri or sat,sun")]
    Day(String),
    #[error("has {0:?}, which is no time zone of this machine: write it like Europe/Berlin or UTC")]
    Zone(String),
    #[error("has {0:?}, which is no date: write it like 2026-11-27")]
    Date(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// On these days, from Monday on.
    Days([bool; 7], Time),
    /// Each hour, so many seconds after it.
    Hourly(i64),
    Once(DateTime),
}

/// A time, or times that come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    pattern: Pattern,
    zone: TimeZone,
    text: String,
}

/// Days that are looked through for the next time.
const DAYS: usize = 9;

impl When {
    /// # Errors
    /// What of the text is not understood.
    pub fn parse(text: &str) -> Result<When, WhenError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (first, time, zone) = match *words.as_slice() {
            [first, time] => (first, time, None),
            [first, time, zone] => (first, time, Some(zone)),
            _ => return Err(WhenError::Form(text.to_owned())),
        };
        let zone = match zone {
            Some(name) => TimeZone::get(name).map_err(|_| WhenError::Zone(name.to_owned()))?,
            None => TimeZone::system(),
        };
        let pattern = match first.to_ascii_lowercase().as_str() {
            "hourly" => Pattern::Hourly(after_the_hour(time)?),
            "daily" => Pattern::Days([true; 7], time_of_day(time)?),
            day if day.starts_with(|letter: char| letter.is_ascii_digit()) => {
                Pattern::Once(date(day)?.to_datetime(time_of_day(time)?))
            }
            days => Pattern::Days(weekdays(days)?, time_of_day(time)?),
        };
        Ok(When { pattern, zone, text: words.join(" ") })
    }

    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after `now`. None: there is none.
    pub fn next_after(&self, now: Millis) -> Option<Millis> {
        let now = timestamp(now)?;
        let next = match &self.pattern {
            Pattern::Once(date) => self.instant(*date).filter(|at| *at > now)?,
            Pattern::Hourly(seconds) => self.next_hourly(now, *seconds)?,
            Pattern::Days(days, time) => {
                // Yesterday, too: what its night has lost may come today.
                let mut date = now.to_zoned(self.zone.clone()).date().yesterday().ok()?;
                let mut next = None;
                for _ in 0..DAYS + 1 {
                    let place = date.weekday().to_monday_zero_offset() as usize;
                    next = self.instant(date.to_datetime(*time)).filter(|at| days[place] && *at > now);
                    if next.is_some() {
                        break;
                    }
                    date = date.tomorrow().ok()?;
                }
                next?
            }
        };
        u64::try_from(next.as_millisecond()).ok()
    }

    /// Hours by the clock on the wall, whose offset may be of half an hour; each of them, also one that comes twice.
    fn next_hourly(&self, now: Timestamp, seconds: i64) -> Option<Timestamp> {
        let begins = |at: Timestamp| {
            let here = at.to_zoned(self.zone.clone());
            let past = i64::from(here.minute()) * 60 + i64::from(here.second()) - seconds;
            let past = SignedDuration::from_nanos(past * 1_000_000_000 + i64::from(here.subsec_nanosecond()));
            at.checked_sub(past).ok()
        };
        let hours = |count: i64| now.checked_add(count.hours()).ok().and_then(begins);
        [-1, 0, 1, 2].into_iter().filter_map(hours).filter(|at| *at > now).min()
    }

    fn instant(&self, at: DateTime) -> Option<Timestamp> {
        self.zone.to_ambiguous_zoned(at).compatible().ok().map(|zoned| zoned.timestamp())
    }
}

pub(crate) fn timestamp(at: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()
}

/// `12:00` or `12:00:30`.
pub(crate) fn time_of_day(text: &str) -> Result<Time, WhenError> {
    let wrong = || WhenError::Time(text.to_owned());
    let numbers: Option<Vec<i8>> = text.split(':').map(two_digits).collect();
    let (hour, minute, second) = match numbers.ok_or_else(wrong)?.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return Err(wrong()),
    };
    Time::new(hour, minute, second, 0).map_err(|_| wrong())
}

/// `:30` or `:30:15`.
fn after_the_hour(text: &str) -> Result<i64, WhenError> {
    let time = text.strip_prefix(':').ok_or_else(|| WhenError::Time(text.to_owned()))?;
    let time = time_of_day(&format!("00:{time}")).map_err(|_| WhenError::Time(text.to_owned()))?;
    Ok(i64::from(time.minute()) * 60 + i64::from(time.second()))
}

fn two_digits(text: &str) -> Option<i8> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

pub(crate) fn date(text: &str) -> Result<Date, WhenError> {
    text.parse().map_err(|_| WhenError::Date(text.to_owned()))
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The place of a day in the week.
fn weekday(name: &str) -> Option<usize> {
    let name = name.get(..3).filter(|_| name.len() == 3 || is_long(name))?;
    WEEKDAYS.iter().position(|day| *day == name)
}

fn is_long(name: &str) -> bool {
    const LONG: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    LONG.contains(&name)
}

/// `mon-fri`, `sat,sun`, `fri-mon`.
fn weekdays(text: &str) -> Result<[bool; 7], WhenError> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let wrong = || WhenError::Day(part.to_owned());
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = weekday(first).zip(weekday(last)).ok_or_else(wrong)?;
        let count = (last + 7 - first) % 7;
        (0..=count).for_each(|step| days[(first + step) % 7] = true);
    }
    Ok(days)
}

/// The place of a date's day in the week, for `moment`.
pub(crate) fn weekday_named(name: &str) -> Option<Weekday> {
    weekday(name).and_then(|place| Weekday::from_monday_zero_offset(place as i8).ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    /// As `2026-11-25T12:00:00-05:00`.
    pub(crate) fn at(text: &str) -> Millis {
        text.parse::<Timestamp>().unwrap().as_millisecond() as u64
    }

    #[test]
    fn the_next_time() {
        for (when, now, next) in [
            ("daily 12:00 America/New_York", "2026-11-25T11:59:59-05:00", "2026-11-25T12:00:00-05:00"),
            ("daily 12:00 America/New_York", "2026-11-25T12:00:00-05:00", "2026-11-26T12:00:00-05:00"),
            ("daily 12:00:30 UTC", "2026-12-31T12:00:30.001Z", "2027-01-01T12:00:30Z"),
            ("mon-fri 09:00 Europe/Berlin", "2026-11-27T09:00:00+01:00", "2026-11-30T09:00:00+01:00"),
            ("sat,sun 09:00 UTC", "2026-11-25T00:00:00Z", "2026-11-28T09:00:00Z"),
            ("fri-mon 09:00 UTC", "2026-11-30T09:00:00Z", "2026-12-04T09:00:00Z"),
            ("Wednesday 09:00 UTC", "2026-11-25T09:00:00Z", "2026-12-02T09:00:00Z"),
            ("hourly :00 UTC", "2026-11-25T11:00:00Z", "2026-11-25T12:00:00Z"),
            ("hourly :30:15 UTC", "2026-11-25T11:30:14.999Z", "2026-11-25T11:30:15Z"),
            ("hourly :00 Asia/Kolkata", "2026-11-25T11:00:00Z", "2026-11-25T11:30:00Z"),
            ("2026-11-27 12:00 Europe/Berlin", "2026-11-25T00:00:00Z", "2026-11-27T11:00:00Z"),
        ] {
            assert_eq!(When::parse(when).unwrap().next_after(at(now)), Some(at(next)), "{when} after {now}");
        }
        let once = When::parse("2026-11-27 12:00 UTC").unwrap();
        assert_eq!(once.next_after(at("2026-11-27T12:00:00Z")), None, "it is over");
    }

    /// In Berlin clocks go from 2:00 to 3:00 on 2026-03-29, and from 3:00 back to 2:00 on 2026-10-25.
    #[test]
    fn summer_time_begins_and_ends() {
        for (when, now, next) in [
            ("daily 02:30 Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-29T03:30:00+02:00"),
            ("daily 02:30 Europe/Berlin", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"),
            ("daily 12:00 Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T12:00:00+02:00"),
            ("daily 02:30 Europe/Berlin", "2026-10-25T00:00:00+02:00", "2026-10-25T02:30:00+02:00"),
            ("daily 02:30 Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"),
            ("hourly :00 Europe/Berlin", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"),
            ("hourly :00 Europe/Berlin", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"),
            ("hourly :00 Australia/Lord_Howe", "2026-04-05T01:30:00+11:00", "2026-04-05T02:00:00+10:30"),
        ] {
            assert_eq!(When::parse(when).unwrap().next_after(at(now)), Some(at(next)), "{when} after {now}");
        }
    }

    #[test]
    fn mistakes() {
        for (text, told) in [
            ("", "must be a time like"),
            ("12:00", "must be a time like"),
            ("daily 12:00 Europe/Berlin tomorrow", "must be a time like"),
            ("daily noon", "no time of day"),
            ("daily 24:00", "no time of day"),
            ("daily 9:00", "no time of day"),
            ("daily 12:00:00:00", "no time of day"),
            ("hourly 00", "no time of day"),
            ("hourly :60", "no time of day"),
            ("weekly 12:00", "no day"),
            ("mon-fry 12:00", "no day"),
            ("monkey 12:00", "no day"),
            ("2026-02-30 12:00", "no date"),
            ("daily 12:00 Europe/Paderborn", "no time zone"),
        ] {
            let error = When::parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
