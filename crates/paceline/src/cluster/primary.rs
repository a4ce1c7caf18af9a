//! Connections to the one server that has our keys, wherever it is now: sentinels or the nodes of a Valkey Cluster are asked
//! for it each time, and it must confirm it. A sentinel or node that does not answer soon is left for the next one. It
//! never shows an address with its password.

use std::{
    fs, io,
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    time::Duration,
};

use parking_lot::Mutex;
use redis::{
    aio::MultiplexedConnection, AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisError,
    Role, Value,
};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::{address::Servers, error::LinkError, reply_limit::LimitedStream, stream, Settings};

/// Time to connect.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// Time to connect to one of several who know where the primary is, and time for each of its answers.
const ASKING_TIME: Duration = Duration::from_millis(500);
/// Bytes of an answer, at most: a page that is shared is smaller. One that is longer ends its connection.
const LONGEST: u64 = 32 << 20;

/// How a connection is to be.
#[derive(Clone)]
pub struct Terms {
    /// Time for an answer.
    pub time: Duration,
    /// Bytes of one, at most.
    pub most: u64,
    /// It has ended because an answer was longer.
    pub exceeded: Arc<AtomicBool>,
}

impl Terms {
    /// For answers of any kind.
    pub fn new(time: Duration) -> Terms {
        Terms { time, most: LONGEST, exceeded: Arc::default() }
    }
}

/// Knows how to reach the primary.
pub struct Primary {
    servers: Servers,
    tls: Option<Arc<ClientConfig>>,
    /// Which sentinel, or node, knew it last.
    last: AtomicUsize,
    /// Where it was last.
    found: Mutex<Option<ConnectionAddr>>,
}

impl Primary {
    /// Does not connect. It reads files, so no event loop calls it.
    pub fn open(settings: &Settings) -> Result<Primary, LinkError> {
        let mut servers = settings.url.servers()?;
        let secret = |file: &Option<_>, key| file.as_deref().map(|file| password(file, key)).transpose();
        if let Some(secret) = secret(&settings.password_file, "password_file")? {
            let with_it = |login: &RedisConnectionInfo| login.clone().set_password(&secret);
            match &mut servers {
                Servers::One(info) => log_in(info, with_it),
                Servers::Sentinels { login, .. } => *login = with_it(login),
                Servers::Nodes(nodes) => nodes.iter_mut().for_each(|node| log_in(node, with_it)),
            }
        }
        if let Some(secret) = secret(&settings.sentinel_password_file, "sentinel_password_file")? {
            if let Servers::Sentinels { sentinels, .. } = &mut servers {
                sentinels.iter_mut().for_each(|one| log_in(one, |login| login.clone().set_password(&secret)));
            }
        }
        let tls = if servers.want_tls() || settings.ca_file.is_some() {
            Some(directory::trust::config(settings.ca_file.as_deref())?)
        } else {
            None
        };
        Ok(Primary { servers, tls, last: AtomicUsize::new(0), found: Mutex::default() })
    }

    /// Where it was found last. None: it is always at the same address, or was not found yet.
    pub fn found(&self) -> Option<String> {
        Some(self.found.lock().as_ref()?.to_string())
    }

    /// A connection of its own. `key`: one of those that the primary has.
    pub async fn connect(&self, key: &str, terms: &Terms) -> Result<MultiplexedConnection, LinkError> {
        match &self.servers {
            Servers::One(info) => self.reach(info, CONNECT_TIME, terms).await,
            Servers::Sentinels { sentinels, name, login } => {
                self.find(sentinels, terms, Asking::Sentinel { name, login }).await
            }
            Servers::Nodes(nodes) => self.find(nodes, terms, Asking::Node { key }).await,
        }
    }

    /// Asks one after the other, the one first that knew it last.
    async fn find(
        &self,
        all: &[ConnectionInfo],
        terms: &Terms,
        asking: Asking<'_>,
    ) -> Result<MultiplexedConnection, LinkError> {
        let first = self.last.load(Relaxed);
        let (mut refused, mut why): (Vec<ConnectionAddr>, Vec<(ConnectionAddr, LinkError)>) = (Vec::new(), Vec::new());
        for number in (first..first + all.len()).map(|number| number % all.len()) {
            let Some(asked) = all.get(number) else { continue };
            let found = match self.address(asked, &asking).await {
                Ok(found) if refused.contains(found.addr()) => continue,
                Ok(found) => found,
                Err(error) => {
                    why.push((asked.addr().clone(), error));
                    continue;
                }
            };
            let addr = found.addr().clone();
            match self.confirmed(found, terms, &asking).await {
                Ok(connection) => {
                    self.last.store(number, Relaxed);
                    *self.found.lock() = Some(addr);
                    return Ok(connection);
                }
                Err(error) => why.push((addr.clone(), error)),
            }
            refused.push(addr);
        }
        Err(LinkError::NoneOfSeveral(why))
    }

    /// Where the primary is, as this one knows it.
    async fn address(&self, asked: &ConnectionInfo, asking: &Asking<'_>) -> Result<ConnectionInfo, LinkError> {
        let mut connection = self.reach(asked, ASKING_TIME, &Terms::new(ASKING_TIME)).await?;
        match asking {
            Asking::Sentinel { name, login } => {
                let mut command = redis::cmd("SENTINEL");
                command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
                let told: Option<(String, u16)> = command.query_async(&mut connection).await?;
                let (host, port) = told.ok_or_else(|| LinkError::UnknownPrimary((*name).to_owned()))?;
                Ok(asked.clone().set_addr(at(asked.addr(), host, port)).set_redis_settings((*login).clone()))
            }
            Asking::Node { key } => {
                let mut commands = redis::pipe();
                commands.cmd("CLUSTER").arg("KEYSLOT").arg(key).cmd("CLUSTER").arg("SLOTS");
                let told: Result<(i64, Value), _> = commands.query_async(&mut connection).await;
                let (slot, slots) = told.map_err(|error| match error.code() {
                    Some("ERR") => LinkError::NoNode,
                    _ => error.into(),
                })?;
                let (host, port) = primary_of(&slots, slot).ok_or(LinkError::NoOwner)?;
                // None: it does not know its own name, which is the one that it was asked by.
                let host = host.unwrap_or_else(|| host_of(asked.addr()));
                Ok(asked.clone().set_addr(at(asked.addr(), host, port)))
            }
        }
    }

    /// A connection to it, if it says itself that it is the primary.
    async fn confirmed(
        &self,
        found: ConnectionInfo,
        terms: &Terms,
        asking: &Asking<'_>,
    ) -> Result<MultiplexedConnection, LinkError> {
        let mut connection = self.reach(&found, CONNECT_TIME, terms).await?;
        match asking {
            Asking::Sentinel { .. } => match redis::cmd("ROLE").query_async(&mut connection).await? {
                Role::Primary { .. } => {}
                _ => return Err(LinkError::NoPrimary),
            },
            // One that has lost them, or only copies them, says MOVED.
            Asking::Node { key } => {
                let _: u64 = redis::cmd("EXISTS").arg(key).query_async(&mut connection).await?;
            }
        }
        Ok(connection)
    }

    async fn reach(
        &self,
        info: &ConnectionInfo,
        time: Duration,
        terms: &Terms,
    ) -> Result<MultiplexedConnection, LinkError> {
        let connecting = async {
            let stream = stream::open(info.addr(), self.tls.as_ref()).await.map_err(RedisError::from)?;
            let stream = LimitedStream::new(stream, terms.most, terms.exceeded.clone());
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(terms.time));
            MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await
        };
        let connected = timeout(time, connecting).await;
        let (connection, driving) =
            connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))?;
        // It ends with the last of those who have the connection.
        tokio::spawn(driving);
        Ok(connection)
    }
}

/// What is asked for, of whom.
enum Asking<'a> {
    Sentinel { name: &'a str, login: &'a RedisConnectionInfo },
    Node { key: &'a str },
}

fn password(file: &Path, key: &'static str) -> Result<String, LinkError> {
    let read = fs::read_to_string(file).map_err(|why| LinkError::PasswordFile {
        key,
        file: file.to_owned(),
        why: Arc::new(why),
    })?;
    Ok(read.trim_end().to_owned())
}

fn log_in(info: &mut ConnectionInfo, login: impl Fn(&RedisConnectionInfo) -> RedisConnectionInfo) {
    *info = info.clone().set_redis_settings(login(info.redis_settings()));
}

/// Another address, reached as this one is.
fn at(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

fn host_of(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    }
}

/// Host and port of the node that has a slot, by what CLUSTER SLOTS answers: for each range its first and last slot, and
/// its nodes, the primary first. No host: that of the node that answers.
fn primary_of(slots: &Value, slot: i64) -> Option<(Option<String>, u16)> {
    let Value::Array(ranges) = slots else { return None };
    let has_it = |range: &&Value| match range {
        Value::Array(fields) => {
            matches!(&fields[..], [Value::Int(first), Value::Int(last), ..] if (*first..=*last).contains(&slot))
        }
        _ => false,
    };
    let Some(Value::Array(fields)) = ranges.iter().find(has_it) else { return None };
    let Some(Value::Array(node)) = fields.get(2) else { return None };
    let [host, Value::Int(port), ..] = &node[..] else { return None };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => Some(String::from_utf8(host.clone()).ok()?),
        Value::BulkString(_) | Value::Nil => None,
        _ => return None,
    };
    // It is known, and nobody knows where.
    if host.as_deref() == Some("?") {
        return None;
    }
    Some((host, u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn the_primary_of_a_slot_is_the_first_node_of_its_range() {
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node, Value::Nil]);
        let slots = Value::Array(vec![
            range(0, 99, node(text("a"), 7000)),
            range(100, 199, node(Value::Nil, 7001)),
            range(200, 299, node(text(""), 7002)),
            range(300, 300, node(text("?"), 7003)),
            range(301, 301, node(text("b"), 70_000)),
            Value::Array(vec![Value::Int(400), Value::Int(500)]),
        ]);
        for (slot, wanted) in [
            (0, Some((Some("a".to_owned()), 7000))),
            (99, Some((Some("a".to_owned()), 7000))),
            (100, Some((None, 7001))),
            (299, Some((None, 7002))),
            (300, None),
            (301, None),
            (350, None),
            (400, None),
        ] {
            assert_eq!(primary_of(&slots, slot), wanted, "{slot}");
        }
        assert_eq!(primary_of(&Value::Okay, 0), None);
    }

    #[test]
    fn another_address_is_reached_in_the_same_way() {
        let tls = ConnectionAddr::TcpTls { host: "a".into(), port: 1, insecure: false, tls_params: None };
        assert!(matches!(at(&tls, "b".into(), 2), ConnectionAddr::TcpTls { host, port: 2, .. } if host == "b"));
        let plain = ConnectionAddr::Tcp("a".into(), 1);
        assert_eq!(at(&plain, "b".into(), 2), ConnectionAddr::Tcp("b".into(), 2));
    }
}
