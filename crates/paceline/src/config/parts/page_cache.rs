//! The page cache: the settings and what they mean, and `[[cache]]`, an owner's rule for pages that the app does not let be
//! cached, as a table and as text. It never applies one.

use std::time::Duration;

use cache::stubborn::{Rule, SetCookie};
use toml_edit::TableLike;
use units::parse_duration;

use super::{live_reload, PART};
use crate::{
    caching::{OnRestart, Settings},
    config::{
        groups::CACHE,
        layer::View,
        option::{
            Opt,
            Preset::Unset,
            Scope::{Server, Site},
        },
        table::TableItem,
        value::{From, Kind},
    },
};

const TB: u64 = 1 << 40;
const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CACHE, "page_cache", Kind::Bool,
        "Store responses and reuse them as far as their own Cache-Control allows (RFC 9111), like a CDN. The Cache-Status header of each response says what the \
        cache did.").fixed("true").flag("page-cache")
        .risk("A page that says `public` or `max-age` but differs between visitors is shown to all of them: say `private` or `Vary`."),
    Opt::new(Server, CACHE, "cache_size", Kind::Bytes { min: 0, max: TB, off: false },
        "Memory for the stored responses of all sites, including the index.").fixed("64MB").flag("cache-size"),
    Opt::new(Server, CACHE, "cache_disk", Kind::Bytes { min: 8 << 20, max: TB, off: true },
        "Store responses on disk as well, up to this size, so that they survive restarts and crashes. Visitors' pages stored by a `[[cache]]` rule stay in memory.").fixed("off").flag("cache-disk")
        .risk("Anyone who can read the folder can read the pages. The server reads the file's index when it starts."),
    Opt::new(Server, CACHE, "cache_dir", Kind::Path { from: From::Settings, off: false },
        "Folder for `cache_disk`, created with mode 0700 and used by one server at a time.")
        .preset(Unset("tmp/cache/paceline below the root, with one site; otherwise you have to set it")).flag("cache-dir")
        .risk("A server that runs as root refuses a folder if others can write above it.").roots_own(),
    Opt::new(Site, CACHE, "cache_object", Kind::Bytes { min: 0, max: 1 << 30, off: false },
        "Leave larger bodies out of the cache.").fixed("4MB").flag("cache-object"),
    Opt::new(Site, CACHE, "cache_stale_if_error", Kind::Duration { min: Duration::ZERO, max: YEAR, off: false },
        "How long after it became stale a page may replace an error of the application. It applies to pages that have no stale-if-error of their own and do not \
        forbid it (must-revalidate).").fixed("0s").flag("cache-stale-if-error"),
    Opt::new(Site, CACHE, "cache_obey_requests", Kind::Bool,
        "Let clients ask for a fresh page (Cache-Control: no-cache or max-age=0, which a browser's reload sends).").fixed("true").flag("cache-obey-requests")
        .risk("With true, anybody can make the application generate a page again; with false, a reload may show an old page."),
    Opt::new(Site, CACHE, "cache", Kind::table::<Vec<Rule>>(),
         "Rules that store pages although they say `private` or `max-age=0`, one copy per visitor. A rule has `path` (`*` matches anything), `ttl`, `cookies = \
         [\"_session\"]` (the cookies that identify a visitor; each of their values has its own copy), `ignore_cookies = [\"consent_*\"]` (cookies that no page \
         depends on; `*` at the end matches anything), `set_cookie` (`refuse`: don't store a response that sets a cookie; `strip`: store it without the cookie), \
         `no_cache = true` (also store pages that say no-cache), `stale_while_revalidate` and `stale_if_error`. The first rule that matches a path counts. Pages \
         that say no-store are never stored. After a POST, PUT, PATCH or DELETE the stored copies of that visitor are dropped. In a site: [[site.cache]].")
         .risk("If a page depends on something else (a cookie of `ignore_cookies`, the visitor's address), all visitors get the first one's version. \
         Each rule needs `cookies` or `ignore_cookies`. A request with a cookie in neither of them bypasses the rule, but for well-known analytics cookies. \
        Requests with Authorization or an API key are never answered by a rule."),
    Opt::new(Site, CACHE, "purge_on_restart", Kind::Enum(OnRestart::WORDS),
        "Purge the site's stored pages when another generation takes over (a restart, a deployment, a rollback): `changed` if its code is other code (files of code, \
        templates and configuration, bundle, environment, Ruby), `always`, or `off`. With `changed` a restart of the same code leaves the cache warm. Pages that the old \
        code still makes at that moment, and those of a canary, are not stored. See docs/caching.md.").fixed("changed").flag("purge-on-restart")
        .risk("After a purge the application makes each page once more. With `off`, pages of the old code are shown until they expire. A folder outside the root that \
        the application names by its path is not compared."),
];

/// Without what other parts have to say. None: no page is stored.
pub fn settings(view: &View) -> Option<Settings> {
    view.bool("page_cache").then(|| Settings {
        object: view.number("cache_object"),
        stale_if_error: view.time("cache_stale_if_error").as_millis() as u64,
        obey_requests: view.bool("cache_obey_requests"),
        recode: view.bool("compress"),
        rules: view.table("cache").unwrap_or_default(),
        on_restart: if live_reload::is_on(view) {
            // It purges by itself, whenever a file changes.
            OnRestart::Off
        } else {
            OnRestart::named(&view.text("purge_on_restart").unwrap_or_default())
        },
        ..Settings::default()
    })
}

/// What comparing a path with the rule's costs.
pub fn weight(rule: &Rule) -> usize {
    path_patterns::weight(&rule.path) + PART * (1 + rule.cookies.len() + rule.ignore_cookies.len())
}

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

impl TableItem for Rule {
    const WORDS: &'static str = "tables [[cache]] with path, ttl and cookies or ignore_cookies";
    const EXAMPLE: &'static str = "[{ path = \"/*\", ttl = \"5s\", ignore_cookies = [] }]";
    const PLACEHOLDER: &'static str = "PATH RULE";
    type Error = CacheRuleError;

    fn read(table: &dyn TableLike) -> Result<Rule, CacheRuleError> {
        rule(table)
    }

    fn parse(text: &str) -> Option<Result<Rule, CacheRuleError>> {
        Some(parse(text))
    }
}

/// `/projects/* ttl=5s cookies=_session,lang set_cookie=strip no_cache=true stale_if_error=1h`
fn parse(text: &str) -> Result<Rule, CacheRuleError> {
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

fn rule(table: &dyn TableLike) -> Result<Rule, CacheRuleError> {
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
    parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TableSetting;

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
        let rules = Vec::<Rule>::from_toml(&table["cache"]);
        assert_eq!(rules, Some(Ok(vec![parse("/a ttl=5s ignore_cookies=").unwrap()])));
    }
}
