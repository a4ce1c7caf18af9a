//! The incidents of this server: where they are kept, and which lines of the log each shows.
//! It never records one.

use std::sync::Arc;

use jiff::{tz::TimeZone, Timestamp};

use crate::{
    config::Config,
    observe::{
        incidents::Incidents,
        log::{Log, Name},
    },
};

/// Lines of the log that are looked through for those about a site.
const LOOKED_THROUGH: usize = 500;

/// The incidents, with those of the last time.
pub fn open(config: &Config, log: &Log) -> Arc<Incidents> {
    let (dir, named) = config.incidents_dir.clone().map_or((None, false), |(dir, named)| (Some(dir), named));
    let shown = dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default();
    let lines = log.clone();
    let (incidents, trouble) = Incidents::open(dir, move |site, most| about(site, most, &lines));
    if let Some(why) = trouble.filter(|_| named) {
        log.event(Name::Notice, format!("incidents_dir {shown}: {why}; they are kept in memory alone"));
    }
    incidents
}

/// The last lines about a site or about the server as a whole, with the time of day.
fn about(site: &str, most: usize, log: &Log) -> Vec<String> {
    let zone = TimeZone::system();
    let mut all = Vec::new();
    for line in log.recent(0, LOOKED_THROUGH) {
        if line.site.as_deref().is_none_or(|about| about == site) {
            let at = Timestamp::from_millisecond((line.time * 1000.0) as i64).unwrap_or_default();
            let at = at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
            all.extend(line.as_text().lines().map(|text| format!("{at} {text}")));
        }
    }
    all.drain(..all.len().saturating_sub(most));
    all
}
