//! All that the front does with sessions: begin and take a login, sign in, find, renew and end a session. It never reads
//! a clock, and never asks an identity provider.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{
    cache::{Cache, CachedSession},
    seal::{seal, unseal, Purpose},
    session::{name_index, sid_index, subject_index},
    Error, Key, NewSession, Provider, Record, Session, SessionId, Store, Swept, UnixMillis,
};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// For so long one process alone asks the provider to confirm a session.
const CONFIRMING: u64 = 30 * SECOND;
/// Parts of `idle` after which the use of a session is written down: it may expire that much earlier than `idle` says.
const TOUCHES: u64 = 16;

/// How long sessions last, and how many are in memory. All times are milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A session ends so long after it began, however much it is used (12 hours).
    pub lifetime: u64,
    /// A session ends so long after its last use (2 hours). None: only `lifetime` ends it.
    pub idle: Option<u64>,
    /// For so long a session that was found is used without asking the store (5 seconds). A logout in another process
    /// counts here as much later.
    pub cache_time: u64,
    /// Bytes of sessions in memory (16 MiB: some 20,000 people with ten groups each).
    pub cached: usize,
    /// A login has to be completed within this time (10 minutes).
    pub login_time: u64,
}

impl Limits {
    pub const DEFAULT: Limits = Limits {
        lifetime: 12 * HOUR,
        idle: Some(2 * HOUR),
        cache_time: 5 * SECOND,
        cached: 16 << 20,
        login_time: 10 * MINUTE,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// The end of sessions that an identity provider has told us (OpenID Connect Back-Channel Logout 1.0). One of `subject`
/// and `sid` is there.
#[derive(Debug, Clone)]
pub struct Logout {
    pub provider: Provider,
    pub subject: Option<String>,
    pub sid: Option<String>,
    /// The token's own id (`jti`).
    pub token: String,
    /// Until when the token is remembered, so that nobody sends it again.
    pub expires: UnixMillis,
}

/// The sessions of one `[[sso]]` of one site.
pub struct Sessions {
    store: Arc<dyn Store>,
    cache: Cache,
    limits: Limits,
    /// A session of another realm does not open here, even if they share a store.
    realm: String,
}

impl Sessions {
    pub fn new(store: Arc<dyn Store>, limits: Limits, realm: impl Into<String>) -> Sessions {
        Sessions { store, cache: Cache::new(limits.cached), limits, realm: realm.into() }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Keeps what has to be known again when the provider sends this browser back with this `state`.
    ///
    /// # Errors
    /// The store fails.
    pub async fn begin_login(
        &self,
        browser: &SessionId,
        state: &str,
        login: &[u8],
        now: UnixMillis,
    ) -> Result<(), Error> {
        let key = browser.login_key(state);
        let sealed = seal(browser, Purpose::Login, &self.place(key), login).ok_or(Error::Mistake)?;
        self.store.insert_login(key, sealed, now + self.limits.login_time, now).await
    }

    /// What `begin_login` has kept, once. None: this browser has begun no such login, or too long ago.
    ///
    /// # Errors
    /// The store fails.
    pub async fn take_login(
        &self,
        browser: &SessionId,
        state: &str,
        now: UnixMillis,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let key = browser.login_key(state);
        let sealed = self.store.take_login(key, now).await?;
        let login = sealed.and_then(|sealed| unseal(browser, Purpose::Login, &self.place(key), &sealed));
        Ok(login.map(Zeroizing::new))
    }

    /// Begins a session, with an id that nobody had before.
    ///
    /// # Errors
    /// The store fails.
    pub async fn sign_in(&self, proof: NewSession, now: UnixMillis) -> Result<(SessionId, Arc<Session>), Error> {
        let id = SessionId::random();
        let session = Session::new(proof, &self.limits, now);
        let epoch = self.cache.epoch();
        let record = self.record(&id, &session, now)?;
        let expires = record.expires;
        self.store.insert(id.key(), record).await?;
        let session = Arc::new(session.without_tokens());
        self.cache.insert(id.key(), self.cached(session.clone(), expires, now), epoch);
        Ok((id, session))
    }

    /// The session, if it was found a moment ago. It never waits, and costs about a microsecond. None: call `find`.
    pub fn find_cached(&self, id: &SessionId, now: UnixMillis) -> Option<Arc<Session>> {
        let found = self.cache.get(&id.key(), now)?;
        let is_touched = self.touch(&found.session, found.expires, now).is_none();
        is_touched.then_some(found.session)
    }

    /// The session, without its tokens. None: there is none, or it has ended. Its use is written down a few times within
    /// `idle`.
    ///
    /// # Errors
    /// The store fails: then nobody knows whether there is a session.
    pub async fn find(&self, id: &SessionId, now: UnixMillis) -> Result<Option<Arc<Session>>, Error> {
        if let Some(session) = self.find_cached(id, now) {
            return Ok(Some(session));
        }
        let key = id.key();
        let epoch = self.cache.epoch();
        let Some(stored) = self.store.get(key, now).await? else { return Ok(None) };
        // What was made for another realm, or by somebody who can write to the store but has no id, is nobody's session.
        let Some(session) = self.open(id, &stored.sealed).filter(|session| now < session.expires) else {
            return Ok(None);
        };
        let mut expires = stored.expires.min(session.expires);
        if let Some(later) = self.touch(&session, expires, now) {
            if !self.store.touch(key, later, now).await? {
                return Ok(None);
            }
            expires = later;
        }
        let session = Arc::new(session.without_tokens());
        self.cache.insert(key, self.cached(session.clone(), expires, now), epoch);
        Ok(Some(session))
    }

    /// The session with its tokens, if the caller is to have the provider confirm it, because its `confirm_at` has come.
    /// Of all requests and processes one is told so, once within 30 seconds: a provider takes a refresh token that is
    /// used twice for stolen. The others go on with the session as it is.
    ///
    /// # Errors
    /// The store fails.
    pub async fn confirm(&self, id: &SessionId, session: &Session, now: UnixMillis) -> Result<Option<Session>, Error> {
        let Some(due) = session.confirm_at.filter(|due| *due <= now) else { return Ok(None) };
        let mark = Key::of(&[b"confirm\0", &id.key().0, &due.to_be_bytes()]);
        if !self.store.mark(mark, now + CONFIRMING, now).await? {
            return Ok(None);
        }
        let stored = self.store.get(id.key(), now).await?;
        let stored = stored.and_then(|stored| self.open(id, &stored.sealed));
        // What is in memory may be older than what another process has just renewed.
        Ok(stored.filter(|stored| stored.confirm_at.is_some_and(|due| due <= now)))
    }

    /// The provider has confirmed the session that `confirm` gave. None: it has been ended meanwhile, or the proof is of somebody else.
    ///
    /// # Errors
    /// The store fails.
    pub async fn renew(
        &self,
        id: &SessionId,
        session: &Session,
        proof: NewSession,
        now: UnixMillis,
    ) -> Result<Option<Arc<Session>>, Error> {
        let Some(renewed) = session.renewed(proof, &self.limits, now) else { return Ok(None) };
        let epoch = self.cache.epoch();
        let record = self.record(id, &renewed, now)?;
        let expires = record.expires;
        if !self.store.update(id.key(), record, now).await? {
            self.cache.remove(&[id.key()]);
            return Ok(None);
        }
        let renewed = Arc::new(renewed.without_tokens());
        self.cache.insert(id.key(), self.cached(renewed.clone(), expires, now), epoch);
        Ok(Some(renewed))
    }

    /// Ends a session. What it was, with its tokens, so that the provider can be told.
    ///
    /// # Errors
    /// The store fails: then the session may still be there.
    pub async fn sign_out(&self, id: &SessionId, now: UnixMillis) -> Result<Option<Arc<Session>>, Error> {
        let key = id.key();
        let stored = self.store.get(key, now).await?;
        let session = stored.and_then(|stored| self.open(id, &stored.sealed)).map(Arc::new);
        // A session of another realm is none of ours to end.
        if let Some(session) = &session {
            self.store.remove(key, session.indexes()).await?;
        }
        self.cache.remove(&[key]);
        Ok(session)
    }

    /// Ends the sessions that the provider says. How many there were; None: the token was used before.
    ///
    /// # Errors
    /// The store fails: then the token may be sent again.
    pub async fn log_out(&self, logout: &Logout, now: UnixMillis) -> Result<Option<usize>, Error> {
        let Provider { issuer, client_id } = &logout.provider;
        let mark =
            Key::of(&[b"logout\0", issuer.as_bytes(), b"\0", client_id.as_bytes(), b"\0", logout.token.as_bytes()]);
        if !self.store.mark(mark, logout.expires, now).await? {
            return Ok(None);
        }
        let index = match (&logout.sid, &logout.subject) {
            (Some(sid), _) => sid_index(&logout.provider, sid),
            (None, Some(subject)) => subject_index(&logout.provider, subject),
            (None, None) => return Ok(Some(0)),
        };
        match self.store.remove_indexed(index).await {
            Ok(removed) => {
                self.cache.remove(&removed);
                Ok(Some(removed.len()))
            }
            Err(error) => {
                // The provider will send it once more. If this fails too, the mark was not kept either, or expires.
                let _ = self.store.unmark(mark).await;
                Err(error)
            }
        }
    }

    /// Ends all sessions of a name, in all realms of the store. How many there were.
    ///
    /// # Errors
    /// The store fails.
    pub async fn log_out_name(&self, name: &str) -> Result<usize, Error> {
        let removed = self.store.remove_indexed(name_index(name)).await?;
        self.cache.remove(&removed);
        Ok(removed.len())
    }

    /// Removes what has expired from the store, in bounded steps. Call it every few minutes.
    ///
    /// # Errors
    /// The store fails.
    pub async fn sweep(&self, now: UnixMillis) -> Result<Swept, Error> {
        self.store.sweep(now).await
    }

    /// The new expiry, if the use of the session is to be written down.
    fn touch(&self, session: &Session, expires: UnixMillis, now: UnixMillis) -> Option<UnixMillis> {
        let idle = self.limits.idle?;
        let later = (now + idle).min(session.expires);
        (later > expires && later - expires >= (idle / TOUCHES).max(1)).then_some(later)
    }

    fn record(&self, id: &SessionId, session: &Session, now: UnixMillis) -> Result<Record, Error> {
        let sealed = seal(id, Purpose::Session, &self.place(id.key()), &session.to_bytes()).ok_or(Error::Mistake)?;
        let expires = self.limits.idle.map_or(session.expires, |idle| (now + idle).min(session.expires));
        Ok(Record { sealed, expires, ends: session.expires, indexes: session.indexes() })
    }

    fn open(&self, id: &SessionId, sealed: &[u8]) -> Option<Session> {
        let bytes = unseal(id, Purpose::Session, &self.place(id.key()), sealed).map(Zeroizing::new)?;
        Session::from_bytes(&bytes)
    }

    fn cached(&self, session: Arc<Session>, expires: UnixMillis, now: UnixMillis) -> CachedSession {
        CachedSession { session, expires, fresh_until: now + self.limits.cache_time }
    }

    /// What a sealed record is bound to.
    fn place(&self, key: Key) -> Vec<u8> {
        [&key.0[..], self.realm.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests;
