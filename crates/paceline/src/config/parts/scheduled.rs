//! `[[scheduled]]`: pages that change at a known time, as a table and as text.
//! It never says what becomes of them.

use std::time::Duration;

use scheduled::{
    rule::{Rule, PREPARE},
    when::WhenError,
};
use toml_edit::{Item, TableLike};
use units::parse_duration;

use super::{weight_of_all, PART};
use crate::config::{
    groups::CACHE,
    layer::View,
    option::{Opt, Scope::Site},
    table::TableItem,
    value::Kind,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CACHE, "scheduled", Kind::table::<Vec<Rule>>(),
         "Pages that change at a known time. A rule has `path` (a path or a list of them; `*` matches anything), `at` (`daily 12:00 America/New_York`, `mon-fri \
         09:00`, `hourly :30`, or once: `2026-11-27 12:00 Europe/Berlin`; without a zone it is the machine's) and `prepare` (how long before that the pages are \
         rendered, 10m by default). At the time the new pages replace the old ones, and no cache keeps an old one for longer. Needs `page_cache`; pages that the \
         cache would not store are rendered by the application as usual. In a site: [[site.scheduled]]. See docs/scheduled-pages.md.")
        .risk("The pages are rendered as for a visitor without cookies, by a copy of the application whose clock is ahead. What depends on another clock, such as \
        that of another service, looks as it is now."),
];

pub fn rules(view: &View) -> Vec<Rule> {
    view.table("scheduled").unwrap_or_default()
}

/// What comparing a path with the rule's costs.
pub fn weight(rule: &Rule) -> usize {
    weight_of_all(&rule.paths) + PART
}

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduledRuleError {
    #[error("must have a path like \"/sales/*\", not {0:?}")]
    Path(String),
    #[error("has no at for {path}: add at = \"daily 12:00\"")]
    NoAt { path: String },
    #[error("{path}: at {why}")]
    At { path: String, why: WhenError },
    #[error("must have a prepare from 1s to 1d like \"10m\", not {0:?}")]
    Prepare(String),
    #[error("has {}, not {key:?}", KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("must have a string or a list of strings as path, and strings as at and prepare")]
    NotTexts,
}

/// The keys of the table, in the order of the text.
const KEYS: [&str; 3] = ["path", "at", "prepare"];

const MAX: Duration = Duration::from_secs(86_400);

impl TableItem for Rule {
    const WORDS: &'static str = "tables [[scheduled]] with path and at";
    const EXAMPLE: &'static str = "[{ path = \"/*\", at = \"daily 12:00 UTC\" }]";
    const PLACEHOLDER: &'static str = "PATH AT";
    type Error = ScheduledRuleError;

    fn read(table: &dyn TableLike) -> Result<Rule, ScheduledRuleError> {
        rule(table)
    }

    fn parse(text: &str) -> Option<Result<Rule, ScheduledRuleError>> {
        Some(parse(text))
    }
}

/// `/ /sales/* daily 12:00 America/New_York prepare=10m`
fn parse(text: &str) -> Result<Rule, ScheduledRuleError> {
    let (mut paths, mut at, mut prepare) = (Vec::new(), Vec::new(), None);
    for word in text.split_ascii_whitespace() {
        match word.strip_prefix("prepare=") {
            Some(time) => prepare = Some(time),
            // A zone has a slash in it, and does not begin with one.
            None if at.is_empty() && word.starts_with(['/', '*']) => paths.push(word.to_owned()),
            None => at.push(word),
        }
    }
    let Some(path) = paths.first().cloned() else { return Err(ScheduledRuleError::Path(text.to_owned())) };
    let prepare = match prepare {
        None => PREPARE,
        Some(time) => {
            let found = parse_duration(time).filter(|time| (Duration::from_secs(1)..=MAX).contains(time));
            found.ok_or_else(|| ScheduledRuleError::Prepare(time.to_owned()))?.as_millis() as u64
        }
    };
    if at.is_empty() {
        return Err(ScheduledRuleError::NoAt { path });
    }
    Rule::new(paths, &at.join(" "), prepare).map_err(|why| ScheduledRuleError::At { path, why })
}

fn rule(table: &dyn TableLike) -> Result<Rule, ScheduledRuleError> {
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(ScheduledRuleError::UnknownKey { key: key.to_owned() });
    }
    let text = |item: &Item| item.as_str().map(str::to_owned).ok_or(ScheduledRuleError::NotTexts);
    let mut words = match table.get("path") {
        None => Vec::new(),
        Some(item) => match item.as_array() {
            Some(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>(),
            None => Some(vec![text(item)?]),
        }
        .ok_or(ScheduledRuleError::NotTexts)?,
    };
    let is_path = |path: &String| path.starts_with(['/', '*']) && !path.contains(char::is_whitespace);
    if let Some(wrong) = words.iter().find(|path| !is_path(path)) {
        return Err(ScheduledRuleError::Path(wrong.clone()));
    }
    if let Some(at) = table.get("at") {
        words.push(text(at)?);
    }
    if let Some(prepare) = table.get("prepare") {
        words.push(format!("prepare={}", text(prepare)?));
    }
    parse(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TableSetting;

    #[test]
    fn a_rule_as_text() {
        let rule = parse("/ /sales/* daily 12:00 America/New_York prepare=5m").unwrap();
        assert_eq!(rule.paths, ["/", "/sales/*"]);
        assert_eq!((rule.when.as_str(), rule.prepare), ("daily 12:00 America/New_York", 300_000));
        assert_eq!(parse("* hourly :00").unwrap().prepare, 600_000);
    }

    #[test]
    fn a_rule_as_a_table() {
        let document: toml_edit::DocumentMut =
            "[[scheduled]]\npath = [\"/\", \"/sales/*\"]\nat = \"mon-fri 09:00 UTC\"\nprepare = \"1m\"\n"
                .parse()
                .unwrap();
        let rules = Vec::<Rule>::from_toml(&document["scheduled"]).unwrap().unwrap();
        assert_eq!(rules, [parse("/ /sales/* mon-fri 09:00 UTC prepare=1m").unwrap()]);
        for (wrong, told) in [
            ("path = \"sales\"\nat = \"daily 12:00\"", "must have a path"),
            ("path = \"/a b\"\nat = \"daily 12:00\"", "must have a path"),
            ("at = \"daily 12:00\"", "must have a path"),
            ("path = \"/\"", "has no at for /"),
            ("path = \"/\"\nat = \"noon\"", "/: at must be a time like"),
            ("path = \"/\"\nat = 12", "must have a string"),
            ("path = \"/\"\nat = \"daily 12:00\"\nprepare = \"2d\"", "from 1s to 1d"),
            ("path = \"/\"\nat = \"daily 12:00\"\nwhen = \"\"", "not \"when\""),
        ] {
            let document: toml_edit::DocumentMut = format!("[[scheduled]]\n{wrong}\n").parse().unwrap();
            let error = Vec::<Rule>::from_toml(&document["scheduled"]).unwrap().unwrap_err().to_string();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
