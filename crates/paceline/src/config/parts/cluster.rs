//! Reads `[cluster]`. It never connects, and never repeats an address, which may have a password in it.

use std::{path::Path, time::Duration};

use toml_edit::{Item, TableLike};
use units::{parse_bytes, parse_duration};

use crate::{
    cluster::{Address, AddressError, Settings, SharedCache},
    config::{
        groups::CLUSTER,
        option::{Opt, Scope::Server},
        table::{TableProblem, TableSetting},
        value::Kind,
    },
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Server, CLUSTER, "cluster", Kind::table::<Settings>(),
        "The table [cluster] joins the servers of several machines: a purge on one of them reaches all (docs/cluster.md). They meet at a Valkey or Redis, 6.2 or \
        newer.\n\n\
        | key | meaning |\n| --- | --- |\n\
        | `url` | its address: `redis://HOST:PORT/DB`, `rediss://HOST:PORT` (TLS) or `unix:///PATH`, with `USER:PASSWORD@` before the host if it needs them; \
        `redis-sentinel://HOST:PORT,HOST:PORT/NAME` (`rediss-sentinel://`) asks sentinels for the primary; a list is the nodes of a Valkey Cluster |\n\
        | `name` | servers with the same name belong together. Default: `\"paceline\"` |\n\
        | `partition_ttl` | how long a server that can't reach it shows pages from its cache; after that, each is asked from the application. Default: `\"5s\"` |\n\
        | `password_file` | file with the password, in place of one in the URL |\n\
        | `sentinel_password_file` | file with the password of the sentinels, if they have one |\n\
        | `ca_file` | certificates in PEM that are trusted in place of the system's |\n\
        | `shared_cache` | `true`: the servers share their cached pages, too. Default: `false` |\n\
        | `shared_cache_object` | larger pages are not shared. Default: `\"1MB\"` |\n\
        | `shared_cache_time` | how long a request waits for an answer from there, before the application is asked, or a rate limit counts this server's requests \
        alone. Default: `\"20ms\"` |\n\
        | `shared_rate_limits` | `true`: [rate limits](limits.md#rate-limits) count the requests of all servers. Default: `false` |\n\nWithout the table a server is alone.")
        .risk("Anyone who can write there can drop all cached pages of all servers, and so make the applications generate them again. With \
        shared_cache the pages are stored there, too: who can read there can read them, and who can write there can show any page to all visitors.").roots_own(),
];

/// How long a front that can't reach the server shows pages, if nothing is said of it.
const PARTITION_TTL: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
/// Pages that fronts share are at most so large, and are waited for at most so long, if nothing is said of it.
const SHARED_OBJECT: u64 = 1 << 20;
const SHARED_TIME: Duration = Duration::from_millis(20);
/// One command may be as large: 512 MB at the server, and nobody wants to wait for more than this.
const LARGEST_SHARED: u64 = 64 << 20;
const SHORTEST_SHARED: Duration = Duration::from_millis(1);
const LONGEST_SHARED: Duration = Duration::from_secs(10);

/// What is wrong with a `[cluster]`. Its words go behind `"cluster" `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "has url, name, partition_ttl, password_file, sentinel_password_file, ca_file, shared_cache, shared_cache_object, \
         shared_cache_time and shared_rate_limits, not {0:?}"
    )]
    UnknownKey(String),
    #[error("needs url, the address of a Valkey or Redis: add url = \"redis://10.0.0.5:6379\"")]
    NoUrl,
    #[error("has a url {0}")]
    BadUrl(#[from] AddressError),
    #[error("must have {expected} as {key}")]
    Mismatch { key: &'static str, expected: &'static str },
}

impl TableSetting for Settings {
    const WORDS: &'static str = "a table [cluster] with url, name and partition_ttl";
    const EXAMPLE: &'static str = "{ url = \"redis://a\" }";
    const PLACEHOLDER: &'static str = "TABLE";

    fn from_toml(item: &Item) -> Option<Result<Settings, TableProblem>> {
        Some(settings(item.as_table_like()?).map_err(TableProblem::new))
    }

    fn anchor(&mut self, base: &Path) {
        let Settings { password_file, sentinel_password_file, ca_file, .. } = self;
        for path in [password_file, sentinel_password_file, ca_file].into_iter().flatten() {
            *path = base.join(&*path);
        }
    }
}

fn settings(table: &dyn TableLike) -> Result<Settings, ClusterError> {
    const KEYS: [&str; 10] = [
        "url",
        "name",
        "partition_ttl",
        "password_file",
        "sentinel_password_file",
        "ca_file",
        "shared_cache",
        "shared_cache_object",
        "shared_cache_time",
        "shared_rate_limits",
    ];
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(ClusterError::UnknownKey(key.to_owned()));
    }
    let text = |key: &'static str, expected: &'static str| match table.get(key) {
        None => Ok(None),
        Some(item) => item.as_str().map(Some).ok_or(ClusterError::Mismatch { key, expected }),
    };
    let url = address(table.get("url").ok_or(ClusterError::NoUrl)?)?;
    const NAME: &str = "a word of at most 64 letters, digits, dots, hyphens and underscores";
    let name = text("name", NAME)?.unwrap_or("paceline");
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_word) {
        return Err(ClusterError::Mismatch { key: "name", expected: NAME });
    }
    const TIME: &str = "a time like \"5s\" from 100ms to 1h";
    let partition_ttl = match text("partition_ttl", TIME)? {
        None => PARTITION_TTL,
        Some(text) => parse_duration(text)
            .filter(|time| (SHORTEST..=LONGEST).contains(time))
            .ok_or(ClusterError::Mismatch { key: "partition_ttl", expected: TIME })?,
    };
    const ON: &str = "true or false";
    let is_on = |key: &'static str| match table.get(key) {
        None => Ok(false),
        Some(item) => item.as_bool().ok_or(ClusterError::Mismatch { key, expected: ON }),
    };
    const SIZE: &str = "a size like \"1MB\" up to 64MB";
    let object = match text("shared_cache_object", SIZE)? {
        None => SHARED_OBJECT,
        Some(text) => parse_bytes(text)
            .filter(|size| (1..=LARGEST_SHARED).contains(size))
            .ok_or(ClusterError::Mismatch { key: "shared_cache_object", expected: SIZE })?,
    };
    const WAIT: &str = "a time like \"20ms\" from 1ms to 10s";
    let time = match text("shared_cache_time", WAIT)? {
        None => SHARED_TIME,
        Some(text) => parse_duration(text)
            .filter(|time| (SHORTEST_SHARED..=LONGEST_SHARED).contains(time))
            .ok_or(ClusterError::Mismatch { key: "shared_cache_time", expected: WAIT })?,
    };
    let path = |key| text(key, "the path of a file").map(|path| path.map(Into::into));
    Ok(Settings {
        url,
        password_file: path("password_file")?,
        sentinel_password_file: path("sentinel_password_file")?,
        ca_file: path("ca_file")?,
        name: name.into(),
        partition_ttl,
        shared_cache: is_on("shared_cache")?.then_some(SharedCache { object, time }),
        shared_rate_limits: is_on("shared_rate_limits")?.then_some(time),
    })
}

/// One address, or a list of those of a Valkey Cluster.
fn address(item: &Item) -> Result<Address, ClusterError> {
    const URL: ClusterError =
        ClusterError::Mismatch { key: "url", expected: "an address in quotes, or a list of such addresses" };
    if let Some(url) = item.as_str() {
        return Ok(Address::parse(url)?);
    }
    let urls: Option<Vec<_>> = item.as_array().ok_or(URL)?.iter().map(|url| url.as_str()).collect();
    Ok(Address::parse_list(&urls.ok_or(URL)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Result<Settings, TableProblem>> {
        let document = toml_edit::Document::parse(text).unwrap();
        Settings::from_toml(document.as_table().get("cluster").unwrap())
    }

    #[test]
    fn a_cluster_has_a_url_and_defaults() {
        let mut settings = read("[cluster]\nurl = \"redis://:secret@valkey\"\nca_file = \"ca.pem\"").unwrap().unwrap();
        settings.anchor(Path::new("/etc/paceline"));
        assert_eq!(settings.url.place(), "valkey:6379");
        assert_eq!((settings.name.as_str(), settings.partition_ttl), ("paceline", Duration::from_secs(5)));
        assert_eq!(settings.ca_file.as_deref(), Some(Path::new("/etc/paceline/ca.pem")));
        assert!(!format!("{settings:?}").contains("secret") && settings.shared_cache.is_none());
        assert_eq!(settings.shared_rate_limits, None);
        let settings =
            read("[cluster]\nurl = [\"redis://a:7000\", \"redis://b\"]\nshared_rate_limits = true").unwrap().unwrap();
        assert_eq!(settings.url.place(), "a:7000, b:6379");
        assert_eq!(settings.shared_rate_limits, Some(Duration::from_millis(20)));
        let settings = read("[cluster]\nurl = \"redis://valkey\"\nshared_cache = true").unwrap().unwrap();
        assert_eq!(settings.shared_cache, Some(SharedCache { object: 1 << 20, time: Duration::from_millis(20) }));
        let settings = read("cluster = { url = \"unix:///run/v.sock\", name = \"shop\", partition_ttl = \"200ms\" }")
            .unwrap()
            .unwrap();
        assert_eq!((settings.name.as_str(), settings.partition_ttl), ("shop", Duration::from_millis(200)));
    }

    #[test]
    fn mistakes_are_told_without_the_address() {
        assert_eq!(read("cluster = \"redis://:secret@valkey\""), None);
        for (text, told) in [
            ("name = \"shop\"", "needs url"),
            ("url = 5", "must have an address in quotes, or a list of such addresses as url"),
            ("url = \"http://:secret@valkey\"", "has a url that can't be read"),
            ("url = \"redis-sentinel://:secret@valkey\"", "does not end with the name of the primary"),
            ("url = [\"redis://a\", 5]", "a list of such addresses as url"),
            ("url = [\"redis://:secret@a\", \"unix:///b\"]", "nodes of a Valkey Cluster that differ"),
            ("url = \"redis://a\"\nnmae = \"shop\"", "not \"nmae\""),
            ("url = \"redis://a\"\nname = \"a/b\"", "as name"),
            ("url = \"redis://a\"\npartition_ttl = \"5\"", "as partition_ttl"),
            ("url = \"redis://a\"\npartition_ttl = \"2h\"", "from 100ms to 1h"),
            ("url = \"redis://a\"\nshared_cache = \"on\"", "true or false as shared_cache"),
            ("url = \"redis://a\"\nshared_rate_limits = 1", "true or false as shared_rate_limits"),
            ("url = \"redis://a\"\nshared_cache_object = \"1GB\"", "up to 64MB"),
            ("url = \"redis://a\"\nshared_cache_time = \"1h\"", "from 1ms to 10s"),
        ] {
            let why = read(&format!("[cluster]\n{text}")).unwrap().unwrap_err().to_string();
            assert!(why.contains(told) && !why.contains("secret"), "{text}: {why}");
        }
    }
}
