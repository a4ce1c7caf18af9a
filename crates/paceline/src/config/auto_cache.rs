//! `[auto_cache]`: a table in TOML; as text (flags, environment) its mode, then `max_ttl=1h` and `verify=1%`. It knows no site.

use toml_edit::Item;

use crate::caching::auto::{Mode, Policy};

/// What it must be.
pub const WORDS: &str = "a table [auto_cache] with mode = \"off\", \"watch\", \"verify\" or \"serve\", max_ttl like \"1h\" and verify like \"1%\"";
const KEYS: [&str; 2] = ["max_ttl", "verify"];

/// A key that `[auto_cache]` does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("has mode, max_ttl and verify, not {0:?}")]
pub struct UnknownKey(String);

/// None: it is not well formed. Some(None): off.
pub fn parse(text: &str) -> Option<Option<Policy>> {
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

/// The table as text. None: it is none, or has no mode.
pub fn text_of(item: &Item) -> Result<Option<String>, UnknownKey> {
    let Some(table) = item.as_table_like() else { return Ok(None) };
    let is_known = |key: &str| key == "mode" || KEYS.contains(&key);
    if let Some((key, _)) = table.iter().find(|(key, _)| !is_known(key)) {
        return Err(UnknownKey(key.to_owned()));
    }
    let Some(mode) = table.get("mode").and_then(Item::as_str) else { return Ok(None) };
    let mut text = mode.to_owned();
    for key in KEYS {
        match table.get(key).map(Item::as_str) {
            None => {}
            Some(Some(value)) => text.push_str(&format!(" {key}={value}")),
            Some(None) => return Ok(None),
        }
    }
    Ok(Some(text))
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
        let text = |toml: &str| {
            let document: toml_edit::DocumentMut = toml.parse().unwrap();
            text_of(&document["auto_cache"])
        };
        assert_eq!(text("[auto_cache]\nmode = \"serve\"\nverify = \"2%\""), Ok(Some("serve verify=2%".into())));
        assert_eq!(text("[auto_cache]\nverify = \"2%\""), Ok(None));
        assert_eq!(text("[auto_cache]\nmode = \"serve\"\nmax_ttl = 5"), Ok(None));
        assert_eq!(text("auto_cache = \"serve\""), Ok(None));
        assert!(text("[auto_cache]\nmode = \"serve\"\nttl = \"1h\"").is_err());
    }
}
