//! Where the server is that the fronts of a cluster share: its own address, sentinels that know which one is the primary,
//! or nodes of a Valkey Cluster. It never connects, and never shows a password.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

/// Sentinels' usual port.
const SENTINEL_PORT: u16 = 26379;

/// Addresses that may have a password in them.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    urls: Vec<String>,
    is_list: bool,
}

/// Why an address can't be used. Its words go behind `has a url `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "that can't be read; use redis://HOST:PORT, rediss://HOST:PORT (TLS), unix:///PATH or \
         redis-sentinel://HOST:26379,HOST:26379/NAME, with USER:PASSWORD@ before the host if it needs them, or a list with the \
         nodes of a Valkey Cluster"
    )]
    Unreadable,
    #[error(
        "of sentinels that does not end with the name of the primary that they watch: write it as \
         redis-sentinel://HOST:26379,HOST:26379/NAME"
    )]
    NoName,
    #[error(
        "that is a list with sentinels; name all of them in one address, as redis-sentinel://HOST:26379,HOST:26379/NAME: a list is \
         for the nodes of a Valkey Cluster"
    )]
    SentinelInList,
    #[error("with nodes of a Valkey Cluster that differ; write redis:// before all of them, or rediss://")]
    Mixed,
    #[error("with a database, and a Valkey Cluster has only database 0; leave /NUMBER out")]
    Database,
}

/// Who is asked.
pub(super) enum Servers {
    /// It is the one.
    One(ConnectionInfo),
    /// They know the address of the primary. How it lets us in is in `login`.
    Sentinels { sentinels: Vec<ConnectionInfo>, name: String, login: RedisConnectionInfo },
    /// One of the nodes of a Valkey Cluster has our keys.
    Nodes(Vec<ConnectionInfo>),
}

impl Servers {
    /// Whether one of them is reached by TLS.
    pub(super) fn want_tls(&self) -> bool {
        let all = match self {
            Servers::One(one) => std::slice::from_ref(one),
            Servers::Sentinels { sentinels: all, .. } | Servers::Nodes(all) => all,
        };
        all.iter().any(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }))
    }
}

impl Address {
    /// One address.
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        Address { urls: vec![url.to_owned()], is_list: false }.checked()
    }

    /// A list: nodes of a Valkey Cluster.
    pub fn parse_list(urls: &[&str]) -> Result<Address, AddressError> {
        Address { urls: urls.iter().map(|url| (*url).to_owned()).collect(), is_list: true }.checked()
    }

    fn checked(self) -> Result<Address, AddressError> {
        self.servers().map(|_| self)
    }

    /// With their passwords: for the client and for nothing else.
    pub(super) fn servers(&self) -> Result<Servers, AddressError> {
        if self.is_list {
            return nodes(&self.urls).map(Servers::Nodes);
        }
        let url = self.urls.first().ok_or(AddressError::Unreadable)?;
        match sentinel_scheme(url) {
            Some((scheme, rest)) => sentinels(scheme, rest),
            None => read(url).map(Servers::One),
        }
    }

    /// Host and port, or the path of the socket; of several all of them.
    pub fn place(&self) -> String {
        let all = |infos: &[ConnectionInfo]| {
            let shown: Vec<_> = infos.iter().map(|info| info.addr().to_string()).collect();
            shown.join(", ")
        };
        match self.servers() {
            Ok(Servers::One(info)) => info.addr().to_string(),
            Ok(Servers::Sentinels { sentinels, name, .. }) => format!("{name} (sentinels {})", all(&sentinels)),
            Ok(Servers::Nodes(nodes)) => all(&nodes),
            Err(_) => "an address that can't be read".into(),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

fn read(url: &str) -> Result<ConnectionInfo, AddressError> {
    let info = url.into_connection_info().map_err(|_| AddressError::Unreadable)?;
    // The client takes any text for a path.
    let is_path = matches!(info.addr(), ConnectionAddr::Unix(path) if !path.is_absolute());
    if is_path {
        return Err(AddressError::Unreadable);
    }
    Ok(info)
}

fn nodes(urls: &[String]) -> Result<Vec<ConnectionInfo>, AddressError> {
    if urls.iter().any(|url| sentinel_scheme(url).is_some()) {
        return Err(AddressError::SentinelInList);
    }
    let nodes = urls.iter().map(|url| read(url)).collect::<Result<Vec<_>, _>>()?;
    let first = nodes.first().ok_or(AddressError::Unreadable)?;
    let kind = |info: &ConnectionInfo| std::mem::discriminant(info.addr());
    if nodes.iter().any(|node| kind(node) != kind(first) || matches!(node.addr(), ConnectionAddr::Unix(_))) {
        return Err(AddressError::Mixed);
    }
    if nodes.iter().any(|node| node.redis_settings().db() != 0) {
        return Err(AddressError::Database);
    }
    Ok(nodes)
}

/// The scheme of a single server that is reached in the same way, and what comes after it.
fn sentinel_scheme(url: &str) -> Option<(&'static str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    match scheme {
        "redis-sentinel" | "valkey-sentinel" => Some(("redis", rest)),
        "rediss-sentinel" | "valkeys-sentinel" => Some(("rediss", rest)),
        _ => None,
    }
}

/// `[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME[/DATABASE]`. User and password are the primary's.
fn sentinels(scheme: &str, rest: &str) -> Result<Servers, AddressError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let (name, database) = path.split_once('/').unwrap_or((path, "0"));
    let database: i64 = database.parse().ok().filter(|number| *number >= 0).ok_or(AddressError::Unreadable)?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_letter) {
        return Err(AddressError::NoName);
    }
    let mut sentinels = Vec::new();
    for host in hosts.split(',') {
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
        sentinels.push(read(&format!("{scheme}://{login}{host}{port}"))?);
    }
    let first = sentinels.first().ok_or(AddressError::Unreadable)?;
    let login = first.redis_settings().clone().set_db(database);
    // What lets us into the primary is no business of the sentinels'.
    let sentinels = sentinels.into_iter().map(|info| info.set_redis_settings(RedisConnectionInfo::default()));
    Ok(Servers::Sentinels { sentinels: sentinels.collect(), name: name.to_owned(), login })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        for (text, place) in [
            ("redis://10.0.0.5:6379", "10.0.0.5:6379"),
            ("redis://paceline:secret@valkey.internal", "valkey.internal:6379"),
            ("valkey://:secret@valkey.internal/3", "valkey.internal:6379"),
            ("rediss://:secret@valkey.internal:6380", "valkey.internal:6380"),
            ("unix:///run/valkey.sock?pass=secret", "/run/valkey.sock"),
            ("redis-sentinel://a/shop", "shop (sentinels a:26379)"),
            ("rediss-sentinel://u:secret@a,b:5000,[::1]/shop/2", "shop (sentinels a:26379, b:5000, ::1:26379)"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!((address.place().as_str(), format!("{address:?}").contains("secret")), (place, false), "{text}");
        }
        let list = Address::parse_list(&["redis://:secret@a:7000", "redis://:secret@b"]).unwrap();
        assert_eq!(list.place(), "a:7000, b:6379");
    }

    #[test]
    fn what_can_not_be_used_is_refused() {
        use AddressError::{Database, Mixed, NoName, SentinelInList, Unreadable};
        for (text, error) in [
            ("", Unreadable),
            ("10.0.0.5", Unreadable),
            ("http://10.0.0.5", Unreadable),
            ("redis://", Unreadable),
            ("unix://valkey.sock", Unreadable),
            ("redis://a:1,b:2", Unreadable),
            ("redis-sentinel://a:1", NoName),
            ("redis-sentinel://a:1/", NoName),
            ("redis-sentinel://a:1/no name", NoName),
            ("redis-sentinel://a:1,/shop", Unreadable),
            ("redis-sentinel:///shop", Unreadable),
            ("redis-sentinel://a:1/shop/x", Unreadable),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text}");
        }
        for (list, error) in [
            (&[][..], Unreadable),
            (&["redis://a", "redis-sentinel://a/b"], SentinelInList),
            (&["redis://a", "rediss://b"], Mixed),
            (&["unix:///run/a"], Mixed),
            (&["redis://a", "redis://b/1"], Database),
            (&["redis://a", "b"], Unreadable),
        ] {
            assert_eq!(Address::parse_list(list), Err(error), "{list:?}");
        }
    }

    #[test]
    fn the_password_is_the_primarys_and_not_the_sentinels() {
        let address = Address::parse("redis-sentinel://user:p%40ss@a,b/shop/2").unwrap();
        let Ok(Servers::Sentinels { sentinels, name, login }) = address.servers() else { panic!("no sentinels") };
        assert_eq!(name, "shop");
        assert_eq!((login.username(), login.password(), login.db()), (Some("user"), Some("p@ss"), 2));
        assert_eq!(sentinels.len(), 2);
        assert!(sentinels
            .iter()
            .all(|info| info.redis_settings().password().is_none() && info.redis_settings().db() == 0));
    }
}
