//! `[[rate_limit]]`: how often one client may ask for a path, as a table and as text. It never counts.

use toml_edit::{Item, TableLike};

use crate::{
    config::{
        groups::CLIENTS,
        option::{Opt, Scope::Site},
        table::TableItem,
        value::{described, Kind},
    },
    exchange::rate_limit::{Rule, RuleError},
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CLIENTS, "rate_limit", Kind::table::<Vec<Rule>>(),
        "Limit how often one address may request paths with a given beginning; further requests get 429 with Retry-After. `*` in `path` stands for anything, and each \
        way to write or read a path counts. The address is the client's if a trusted proxy sends it. `path = \"/login\"`, `rate = \"5/s\"` (or /m, /h), `burst = 10` (how many at once; default: the number in `rate`). In a site: \
        [[site.rate_limit]].")
        .flag("rate-limit")
        .risk("Many people may share an address, and behind a proxy that is not in trusted_proxies all of them do."),
];

/// What is wrong with a `[[rate_limit]]`. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateLimitError {
    #[error("has path, rate and burst, not {0:?}")]
    UnknownKey(String),
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl TableItem for Rule {
    const WORDS: &'static str = "tables [[rate_limit]] with path, rate and burst";
    const EXAMPLE: &'static str = "[{ path = \"/login\", rate = \"5/s\" }]";
    const PLACEHOLDER: &'static str = "PATH RATE BURST";
    type Error = RateLimitError;

    fn read(table: &dyn TableLike) -> Result<Rule, RateLimitError> {
        rule(table)
    }

    fn parse(text: &str) -> Option<Result<Rule, RateLimitError>> {
        Some(Rule::parse(text).map_err(RateLimitError::Rule))
    }
}

fn rule(table: &dyn TableLike) -> Result<Rule, RateLimitError> {
    if let Some((key, _)) = table.iter().find(|(key, _)| !["path", "rate", "burst"].contains(key)) {
        return Err(RateLimitError::UnknownKey(key.to_owned()));
    }
    let word = |key: &str| table.get(key).and_then(Item::as_str).unwrap_or("");
    let burst = table.get("burst").map_or_else(String::new, described);
    Ok(Rule::parse(&format!("{} {} {burst}", word("path"), word("rate")))?)
}
