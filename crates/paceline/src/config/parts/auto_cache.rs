//! `[auto_cache]`: a table in TOML; as text (flags, environment) its mode, then `max_ttl=1h` and `verify=1%`. It knows no site.

use std::time::Duration;

use toml_edit::{Item, TableLike};
use units::show_duration;

use crate::{
    caching::auto::{Mode, Policy},
    config::{
        groups::CACHE,
        option::{Opt, Scope::Site},
        table::{TableProblem, TableSetting},
        value::Kind,
    },
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CACHE, "auto_cache", Kind::table::<Option<Policy>>(),
        "The automatic page cache: the server learns what each page was made of (rows of the database, cookies, the session, files) and which writes change that. \
        `mode = \"watch\"` counts and compares, and shows nothing; `\"verify\"` turns a route off when a page differs from the application's; `\"serve\"` answers requests of routes that \
        were compared 300 times without a difference. `max_ttl` (1h) bounds the age of a page, `verify` (1%) is the share of hits that the application answers all the same, for a \
        comparison. `paceline cache advise` prints how far each route has come. As text: `serve max_ttl=1h verify=1%`. In a site: [site.auto_cache]. See docs/automatic-page-cache.md.")
        .fixed("off").flag("auto-cache")
        .risk("Methods of Active Record, Rack, Rails, Time and File are wrapped in the application's processes, which costs some time of each request. Up to \
        32 MB of pages for each site are kept in memory. With \"serve\", what programs without Rails write to a database other than SQLite, and don't announce, is seen after `max_ttl` at the latest."),
];

/// What is wrong with a site that serves by itself in a cluster.
pub const IN_CLUSTER: &str =
    "[auto_cache] mode = \"serve\" does not work with [cluster]: what other machines write is not seen here, so pages \
     would be stale; set mode = \"verify\" or remove [cluster]";

pub fn serves(policy: Policy) -> bool {
    policy.mode == Mode::Serve
}

/// What the automatic page cache can't know.
pub fn notice(policy: Policy) -> Option<String> {
    serves(policy).then(|| {
        format!(
            "auto_cache: programs that write to the database and load no Rails application (psql, imports) are \
             not seen, unless it is a file of SQLite: a page may show what was there before for up to max_ttl = \"{}\"",
            show_duration(Duration::from_millis(policy.max_ttl))
        )
    })
}

const KEYS: [&str; 2] = ["max_ttl", "verify"];

/// What is wrong with an `[auto_cache]`. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AutoCacheError {
    #[error("has mode, max_ttl and verify, not {0:?}")]
    UnknownKey(String),
    #[error("must be {}, not {found:?}", Option::<Policy>::WORDS)]
    Mismatch { found: String },
    #[error("must have strings as mode, max_ttl and verify: add mode = \"watch\"")]
    NotTexts,
}

/// None: off.
impl TableSetting for Option<Policy> {
    const WORDS: &'static str =
        "a table [auto_cache] with mode = \"off\", \"watch\", \"verify\" or \"serve\", max_ttl like \"1h\" and verify like \"1%\"";
    const EXAMPLE: &'static str = "{ mode = \"watch\" }";
    const PLACEHOLDER: &'static str = "WORD";

    fn from_toml(item: &Item) -> Option<Result<Self, TableProblem>> {
        Some(text_of(item.as_table_like()?).and_then(|text| read(&text)).map_err(TableProblem::new))
    }

    fn from_text(text: &str) -> Option<Result<Self, TableProblem>> {
        Some(read(text).map_err(TableProblem::new))
    }
}

fn read(text: &str) -> Result<Option<Policy>, AutoCacheError> {
    parse(text).ok_or_else(|| AutoCacheError::Mismatch { found: text.to_owned() })
}

/// None: it is not well formed. Some(None): off.
fn parse(text: &str) -> Option<Option<Policy>> {
    let mut words = text.split(' ');
    let mode = match words.next()? {
        "off" => None,
        "watch" => Some(Mode::Watch),
        "verify" => Some(Mode::Verify),
        "serve" => Some(Mode::Serve),
        _ => return None,
    };
    let mut policy = Policy { mode: mode.unwrap_or_default(), ..Policy::default() };
    for word in words {
        match word.split_once('=')? {
            ("max_ttl", time) => {
                let millis = units::parse_duration(time)?.as_millis().try_into().ok();
                policy.max_ttl = millis.filter(|millis| *millis > 0)?;
            }
            ("verify", share) => policy.sampled = millionths(share)?,
            _ => return None,
        }
    }
    Some(mode.map(|_| policy))
}

fn text_of(table: &dyn TableLike) -> Result<String, AutoCacheError> {
    let is_known = |key: &str| key == "mode" || KEYS.contains(&key);
    if let Some((key, _)) = table.iter().find(|(key, _)| !is_known(key)) {
        return Err(AutoCacheError::UnknownKey(key.to_owned()));
    }
    let value = |key: &str| table.get(key).map(|item| item.as_str().ok_or(AutoCacheError::NotTexts)).transpose();
    let mut text = value("mode")?.ok_or(AutoCacheError::NotTexts)?.to_owned();
    for key in KEYS {
        if let Some(value) = value(key)? {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    Ok(text)
}

/// `1%`, `0.5%`: of a million.
fn millionths(share: &str) -> Option<u32> {
    let percent: f64 = share.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((percent * 10_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_text() {
        let policy = |mode, max_ttl, sampled| Some(Some(Policy { mode, max_ttl, sampled }));
        assert_eq!(parse("off"), Some(None));
        assert_eq!(parse("watch"), policy(Mode::Watch, 3_600_000, 10_000));
        assert_eq!(parse("serve max_ttl=5m verify=0.1%"), policy(Mode::Serve, 300_000, 1000));
        assert_eq!(parse("verify verify=100%"), policy(Mode::Verify, 3_600_000, 1_000_000));
        for wrong in [
            "",
            "on",
            "serve max_ttl=0s",
            "serve max_ttl=5",
            "serve verify=1",
            "serve verify=101%",
            "serve verify=x%",
            "serve ttl=1h",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn as_a_table() {
        let read = |toml: &str| {
            let document: toml_edit::DocumentMut = toml.parse().unwrap();
            Option::<Policy>::from_toml(&document["auto_cache"])
        };
        let policy = Policy { mode: Mode::Serve, max_ttl: 3_600_000, sampled: 20_000 };
        assert_eq!(read("[auto_cache]\nmode = \"serve\"\nverify = \"2%\""), Some(Ok(Some(policy))));
        assert_eq!(read("[auto_cache]\nmode = \"off\""), Some(Ok(None)));
        assert_eq!(read("auto_cache = \"serve\""), None);
        for (wrong, told) in [
            ("verify = \"2%\"", "add mode = \"watch\""),
            ("mode = \"serve\"\nmax_ttl = 5", "must have strings as mode, max_ttl and verify"),
            ("mode = \"serve\"\nttl = \"1h\"", "not \"ttl\""),
            ("mode = \"on\"", "must be a table [auto_cache] with mode = \"off\""),
        ] {
            let error = read(&format!("[auto_cache]\n{wrong}")).unwrap().unwrap_err().to_string();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
