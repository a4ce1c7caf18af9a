//! Sessions in Redis or Valkey (6.2 or newer), for several machines. Each call is one command or one script, so it is
//! done completely or not at all; a connection that breaks is made again, and the call sent once more. It never logs an
//! address with its password.

use std::{path::PathBuf, time::Duration};

use redis::{
    aio::{ConnectionManager, ConnectionManagerConfig},
    Client, FromRedisValue, IntoConnectionInfo, RedisError, Script, ScriptInvocation, TlsCertificates,
};

use crate::{
    store::{Answer, Record, Store, StoredRecord, Swept},
    Error, Key, Secret, UnixMillis,
};

/// Time to connect, and time for an answer.
const CONNECT_TIME: Duration = Duration::from_secs(1);
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Where Redis is.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// `redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://` (TLS), `valkey://`, `valkeys://`, or
    /// `redis+unix:///PATH?db=0&user=..&pass=..`. USER is a user of its ACL.
    pub url: Secret,
    /// The password, if it is not in the URL.
    pub password: Option<Secret>,
    /// Certificates in PEM that are trusted in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// All keys begin with it. Braces around a part of it keep all of them in one slot of a cluster.
    pub prefix: String,
    /// Logins that have begun and are kept at the same time.
    pub max_logins: usize,
}

impl RedisSettings {
    pub const PREFIX: &'static str = "{paceline:sign-in}:";
}

/// Sessions in Redis.
pub struct RedisStore {
    connection: ConnectionManager,
    /// Host and port, or the path of the socket.
    server: String,
    prefix: String,
    max_logins: usize,
    scripts: Scripts,
}

struct Scripts {
    insert: Script,
    remove: Script,
    remove_indexed: Script,
    get: Script,
    insert_login: Script,
    take_login: Script,
    mark: Script,
}

impl RedisStore {
    /// Does not connect: that happens with the first call, so that a server starts while its Redis is away. It reads the
    /// file of certificates, so no event loop calls it; but it needs a tokio runtime.
    ///
    /// # Errors
    /// The URL or the certificates can't be read.
    pub fn open(settings: RedisSettings) -> Result<RedisStore, Error> {
        let bad_url =
            |_: RedisError| Error::Setting("the URL of Redis can't be read: it looks like redis://HOST:6379/0".into());
        let mut info = settings.url.expose().into_connection_info().map_err(bad_url)?;
        let server = info.addr().to_string();
        if let Some(password) = &settings.password {
            let redis = info.redis_settings().clone().set_password(password.expose());
            info = info.set_redis_settings(redis);
        }
        // The library takes the process's own, and panics without one. It may be there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |why: String| Error::Redis { server: server.clone(), why };
        let client = match &settings.ca_file {
            None => Client::open(info),
            Some(path) => {
                let pem = std::fs::read(path).map_err(|error| {
                    Error::Setting(format!("the certificates of {} can't be read: {error}", path.display()))
                })?;
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: Some(pem) })
            }
        };
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIME))
            .set_response_timeout(Some(ANSWER_TIME))
            .set_number_of_retries(1)
            .set_pipeline_buffer_size(1_024);
        let connection = client
            .and_then(|client| client.get_connection_manager_lazy(config))
            .map_err(|error| failed(without_details(&error)))?;
        let RedisSettings { prefix, max_logins, .. } = settings;
        Ok(RedisStore { connection, server, prefix, max_logins, scripts: Scripts::new() })
    }

    fn session_key(&self, key: Key) -> String {
        format!("{}s:{}", self.prefix, key.to_hex())
    }

    fn index_key(&self, key: Key) -> String {
        format!("{}i:{}", self.prefix, key.to_hex())
    }

    fn login_key(&self, key: Key) -> String {
        format!("{}p:{}", self.prefix, key.to_hex())
    }

    /// The logins by their expiry.
    fn queue_key(&self) -> String {
        format!("{}logins", self.prefix)
    }

    fn mark_key(&self, key: Key) -> String {
        format!("{}m:{}", self.prefix, key.to_hex())
    }

    /// Runs a script. If the connection was broken it runs once more, on a new one: each script may run twice.
    async fn run<T: FromRedisValue>(&self, script: ScriptInvocation<'_>) -> Result<T, Error> {
        let mut connection = self.connection.clone();
        let mut done = script.invoke_async(&mut connection).await;
        if done.as_ref().is_err_and(is_broken) {
            done = script.invoke_async(&mut connection).await;
        }
        done.map_err(|error| Error::Redis { server: self.server.clone(), why: without_details(&error) })
    }

    async fn put(&self, key: Key, record: Record, only_if_there: bool) -> Result<bool, Error> {
        let mut script = self.scripts.insert.prepare_invoke();
        script.key(self.session_key(key));
        for index in &record.indexes {
            script.key(self.index_key(*index));
        }
        script.arg(record.sealed).arg(record.expires).arg(record.ends).arg(key.to_hex()).arg(u8::from(only_if_there));
        self.run(script).await
    }
}

impl Scripts {
    fn new() -> Scripts {
        Scripts {
            // KEYS: the session, its indexes. ARGV: content, expires, ends, the session's name in an index, only if it
            // is there. An index lives as long as the session of it that ends last.
            insert: Script::new(
                r"
                if ARGV[5] == '1' then
                  if not redis.call('SET', KEYS[1], ARGV[1], 'XX', 'PXAT', ARGV[2]) then return 0 end
                else
                  redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])
                end
                local time = redis.call('TIME')
                local now = time[1] * 1000
                for number = 2, #KEYS do
                  redis.call('ZREMRANGEBYSCORE', KEYS[number], '-inf', now)
                  redis.call('ZADD', KEYS[number], ARGV[3], ARGV[4])
                  local last = redis.call('ZRANGE', KEYS[number], -1, -1, 'WITHSCORES')
                  redis.call('PEXPIREAT', KEYS[number], last[2])
                end
                return 1
                ",
            ),
            remove: Script::new(
                r"
                for number = 2, #KEYS do redis.call('ZREM', KEYS[number], ARGV[1]) end
                return redis.call('DEL', KEYS[1])
                ",
            ),
            // ARGV: the beginning of the keys of sessions, which are in the same slot.
            remove_indexed: Script::new(
                r"
                local found = redis.call('ZRANGE', KEYS[1], 0, -1)
                local removed = {}
                for _, name in ipairs(found) do
                  if redis.call('DEL', ARGV[1] .. name) == 1 then removed[#removed + 1] = name end
                end
                redis.call('DEL', KEYS[1])
                return removed
                ",
            ),
            get: Script::new(
                r"
                local found = redis.call('GET', KEYS[1])
                if not found then return nil end
                return { found, redis.call('PTTL', KEYS[1]) }
                ",
            ),
            // KEYS: the login, the queue. ARGV: content, expires, its name, the bound, the beginning of the keys.
            insert_login: Script::new(
                r"
                local time = redis.call('TIME')
                redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', time[1] * 1000)
                redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])
                redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
                while redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[4]) do
                  redis.call('DEL', ARGV[5] .. redis.call('ZPOPMIN', KEYS[2])[1])
                end
                local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
                redis.call('PEXPIREAT', KEYS[2], last[2])
                return 1
                ",
            ),
            take_login: Script::new(
                r"
                redis.call('ZREM', KEYS[2], ARGV[1])
                return redis.call('GETDEL', KEYS[1])
                ",
            ),
            // ARGV: expires, who marks: the same call, sent once more, has done it.
            mark: Script::new(
                r"
                local found = redis.call('GET', KEYS[1])
                if found then return found == ARGV[2] and 1 or 0 end
                redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[1])
                return 1
                ",
            ),
        }
    }
}

impl Store for RedisStore {
    fn insert(&self, key: Key, record: Record) -> Answer<'_, ()> {
        Box::pin(async move { self.put(key, record, false).await.map(drop) })
    }

    fn get(&self, key: Key, now: UnixMillis) -> Answer<'_, Option<StoredRecord>> {
        Box::pin(async move {
            let mut script = self.scripts.get.prepare_invoke();
            script.key(self.session_key(key));
            let found: Option<(Vec<u8>, i64)> = self.run(script).await?;
            // -1: it does not expire, so it is none of ours.
            let found = found.and_then(|(sealed, left)| Some((sealed, u64::try_from(left).ok()?)));
            Ok(found.map(|(sealed, left)| StoredRecord { sealed, expires: now + left }))
        })
    }

    fn update(&self, key: Key, record: Record, _: UnixMillis) -> Answer<'_, bool> {
        Box::pin(self.put(key, record, true))
    }

    fn touch(&self, key: Key, expires: UnixMillis, _: UnixMillis) -> Answer<'_, bool> {
        Box::pin(async move {
            let script = Script::new("return redis.call('PEXPIREAT', KEYS[1], ARGV[1])");
            let mut script = script.prepare_invoke();
            script.key(self.session_key(key)).arg(expires);
            self.run(script).await
        })
    }

    fn remove(&self, key: Key, indexes: Vec<Key>) -> Answer<'_, bool> {
        Box::pin(async move {
            let mut script = self.scripts.remove.prepare_invoke();
            script.key(self.session_key(key));
            for index in &indexes {
                script.key(self.index_key(*index));
            }
            script.arg(key.to_hex());
            self.run(script).await
        })
    }

    fn remove_indexed(&self, index: Key) -> Answer<'_, Vec<Key>> {
        Box::pin(async move {
            let mut script = self.scripts.remove_indexed.prepare_invoke();
            script.key(self.index_key(index)).arg(format!("{}s:", self.prefix));
            let removed: Vec<String> = self.run(script).await?;
            Ok(removed.iter().filter_map(|name| Key::from_hex(name)).collect())
        })
    }

    fn insert_login(&self, key: Key, sealed: Vec<u8>, expires: UnixMillis, _: UnixMillis) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut script = self.scripts.insert_login.prepare_invoke();
            script.key(self.login_key(key)).key(self.queue_key());
            script.arg(sealed).arg(expires).arg(key.to_hex()).arg(self.max_logins).arg(format!("{}p:", self.prefix));
            self.run(script).await
        })
    }

    fn take_login(&self, key: Key, _: UnixMillis) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut script = self.scripts.take_login.prepare_invoke();
            script.key(self.login_key(key)).key(self.queue_key()).arg(key.to_hex());
            self.run(script).await
        })
    }

    fn mark(&self, key: Key, expires: UnixMillis, _: UnixMillis) -> Answer<'_, bool> {
        Box::pin(async move {
            let mut script = self.scripts.mark.prepare_invoke();
            let caller = crate::SessionId::random().key();
            script.key(self.mark_key(key)).arg(expires).arg(caller.to_hex());
            self.run(script).await
        })
    }

    fn unmark(&self, key: Key) -> Answer<'_, ()> {
        Box::pin(async move {
            let script = Script::new("return redis.call('DEL', KEYS[1])");
            let mut script = script.prepare_invoke();
            script.key(self.mark_key(key));
            self.run::<i64>(script).await.map(drop)
        })
    }

    /// Redis removes what has expired.
    fn sweep(&self, _: UnixMillis) -> Answer<'_, Swept> {
        Box::pin(async { Ok(Swept::default()) })
    }
}

fn is_broken(error: &RedisError) -> bool {
    !error.is_timeout() && (error.is_connection_dropped() || error.is_unrecoverable_error())
}

/// What has gone wrong. Details of the server may repeat what was sent, so only its error code is kept.
fn without_details(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("it answers {code}"),
        None => error.to_string(),
    }
}
