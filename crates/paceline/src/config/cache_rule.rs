//! `[[cache]]`: an owner's rule for pages that the app does not let be cached, as a table and as text.
//! It never applies one.

use std::time::Duration;

use cache::stubborn::{Rule, SetCookie};
use toml_edit::{Item, TableLike};
use units::parse_duration;

use super::tables::tables_of;

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheRuleError {
    #[error("must be a path and a ttl like \"/projects/* ttl=5s cookies=_session\", not {0:?}")]
    NoPath(String),
    #[error("has {0:?}, which is not KEY=VALUE")]
    NotAPair(String),
    #[error("has {}, not {key:?}", KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("must have a {key} like \"5s\" or \"10m\", not {found:?}")]
    Time { key: String, found: String },
    #[error("must have set_cookie \"refuse\" or \"strip\", not {0:?}")]
    SetCookie(String),
    #[error("must have no_cache true or false, not {0:?}")]
    NoCache(String),
    #[error("has no ttl for {path}: add ttl = \"5s\"")]
    NoTtl { path: String },
    #[error(
        "has neither cookies nor ignore_cookies for {path}: add cookies = [\"_session\"] with the cookies that tell visitors apart, or \
         ignore_cookies = [\"theme\"] with those that no page depends on ([]: none); requests with any other cookie bypass the rule"
    )]
    NeitherCookies { path: String },
    #[error("must have names of cookies, not {0:?}")]
    Cookies(Vec<String>),
    #[error("must have names in ignore_cookies, or beginnings of names like \"consent_*\", not {0:?}")]
    IgnoreCookies(Vec<String>),
    /// A list of something else.
    #[error("must have strings in {0}")]
    NotTexts(&'static str),
    #[error("must have a string as {0}")]
    NotAText(&'static str),
    /// It would be two words of the rule as text.
    #[error("must have no space in {key}, as in {found:?}")]
    Space { key: &'static str, found: String },
}

/// The keys of the table, in the order of the text.
const KEYS: [&str; 8] =
    ["path", "ttl", "cookies", "ignore_cookies", "set_cookie", "no_cache", "stale_while_revalidate", "stale_if_error"];

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// `/projects/* ttl=5s cookies=_session,lang set_cookie=strip no_cache=true stale_if_error=1h`
pub fn parse(text: &str) -> Result<Rule, CacheRuleError> {
    let mut words = text.split_ascii_whitespace();
    let path = words
        .next()
        .filter(|path| path.starts_with(['/', '*']))
        .ok_or_else(|| CacheRuleError::NoPath(text.to_owned()))?;
    let mut rule = Rule { path: path.into(), ..Rule::default() };
    let mut ttl = None;
    let mut says_cookies = false;
    let list = |value: &str| value.split(',').filter(|name| !name.is_empty()).map(String::from).collect();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| CacheRuleError::NotAPair(word.to_owned()))?;
        let time = || {
            let time = parse_duration(value).filter(|time| *time <= YEAR);
            let time = time.ok_or_else(|| CacheRuleError::Time { key: key.to_owned(), found: value.to_owned() })?;
            Ok::<u64, CacheRuleError>(time.as_millis() as u64)
        };
        match key {
            "ttl" => ttl = Some(time()?),
            "cookies" => (rule.cookies, says_cookies) = (list(value), true),
            "ignore_cookies" => (rule.ignore_cookies, says_cookies) = (list(value), true),
            "set_cookie" => {
                rule.set_cookie = match value {
                    "refuse" => SetCookie::Refuse,
                    "strip" => SetCookie::Strip,
                    _ => return Err(CacheRuleError::SetCookie(value.to_owned())),
                }
            }
            "no_cache" => {
                rule.no_cache = value.parse().map_err(|_| CacheRuleError::NoCache(value.to_owned()))?;
            }
            "stale_while_revalidate" => rule.stale_while_revalidate = time()?,
            "stale_if_error" => rule.stale_if_error = time()?,
            _ => return Err(CacheRuleError::UnknownKey { key: key.to_owned() }),
        }
    }
    rule.ttl = ttl.filter(|ttl| *ttl > 0).ok_or_else(|| CacheRuleError::NoTtl { path: path.to_owned() })?;
    if !says_cookies {
        return Err(CacheRuleError::NeitherCookies { path: path.to_owned() });
    }
    if rule.cookies.iter().any(|name| !cache::fields::is_token(name.as_bytes())) {
        return Err(CacheRuleError::Cookies(rule.cookies));
    }
    let is_pattern = |name: &String| {
        let name = name.strip_suffix('*').unwrap_or(name);
        cache::fields::is_token(name.as_bytes()) && !name.contains('*')
    };
    if !rule.ignore_cookies.iter().all(is_pattern) {
        return Err(CacheRuleError::IgnoreCookies(rule.ignore_cookies));
    }
    Ok(rule)
}

/// Each table as text. None: no tables.
pub fn tables(item: &Item) -> Option<Result<Vec<String>, CacheRuleError>> {
    Some(tables_of(item)?.into_iter().map(text_of).collect())
}

fn text_of(table: &dyn TableLike) -> Result<String, CacheRuleError> {
    let mut text = String::new();
    for key in KEYS {
        let Some(item) = table.get(key) else { continue };
        let value = match (item.as_str(), item.as_bool(), item.as_array()) {
            (Some(text), _, _) => text.to_owned(),
            (_, Some(is), _) => is.to_string(),
            (_, _, Some(list)) => {
                let names: Option<Vec<&str>> = list.iter().map(|name| name.as_str()).collect();
                names.ok_or(CacheRuleError::NotTexts(key))?.join(",")
            }
            _ => return Err(CacheRuleError::NotAText(key)),
        };
        if value.contains(char::is_whitespace) {
            return Err(CacheRuleError::Space { key, found: value });
        }
        let parted = if key == "path" { value } else { format!(" {key}={value}") };
        text.push_str(&parted);
    }
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(CacheRuleError::UnknownKey { key: key.to_owned() });
    }
    parse(&text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_as_text() {
        let rule =
            parse("/projects/* ttl=5s cookies=_session,lang ignore_cookies=a,b_* set_cookie=strip no_cache=true stale_if_error=1h")
                .unwrap();
        assert_eq!(rule.ignore_cookies, ["a", "b_*"]);
        assert_eq!(rule.path, "/projects/*");
        assert_eq!((rule.ttl, rule.stale_if_error, rule.stale_while_revalidate), (5_000, 3_600_000, 0));
        assert_eq!(
            (rule.cookies, rule.set_cookie, rule.no_cache),
            (vec!["_session".into(), "lang".into()], SetCookie::Strip, true)
        );
    }

    #[test]
    fn mistakes() {
        for (text, told) in [
            ("projects ttl=5s", "must be a path"),
            ("/a", "has no ttl"),
            ("/a ttl=0s", "has no ttl"),
            ("/a ttl=x", "must have a ttl like"),
            ("/a ttl=5s set_cookie=keep", "\"refuse\" or \"strip\""),
            ("/a ttl=5s cookie=a", "not \"cookie\""),
            ("/a ttl=5s", "has neither cookies nor ignore_cookies for /a: add cookies = [\"_session\"]"),
            ("/a ttl=5s cookies=a;b", "names of cookies"),
            ("/a ttl=5s ignore_cookies=*", "beginnings of names"),
            ("/a ttl=5s ignore_cookies=a*b", "beginnings of names"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(told), "{text}: {:?}", parse(text));
        }
    }

    /// All requests with cookies bypass such a rule.
    #[test]
    fn no_cookie_may_be_ignored() {
        assert_eq!(parse("/a ttl=5s ignore_cookies=").unwrap().ignore_cookies, Vec::<String>::new());
        let table =
            "[[cache]]\npath = \"/a\"\nttl = \"5s\"\nignore_cookies = []".parse::<toml_edit::DocumentMut>().unwrap();
        assert_eq!(tables(&table["cache"]), Some(Ok(vec!["/a ttl=5s ignore_cookies=".into()])));
    }
}
