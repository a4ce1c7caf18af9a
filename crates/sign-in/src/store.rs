//! What keeps sessions: the interface, and the form of a record. It never sees what a session says: that is sealed.

use std::{future::Future, pin::Pin};

use crate::{Error, Key, UnixMillis};

/// What a store will answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A session to be kept.
#[derive(Debug, Clone)]
pub struct Record {
    pub sealed: Vec<u8>,
    /// It is gone then, unless it is used before (`touch`).
    pub expires: UnixMillis,
    /// It is gone then at the latest.
    pub ends: UnixMillis,
    /// What else it is found by.
    pub indexes: Vec<Key>,
}

/// A session that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub sealed: Vec<u8>,
    pub expires: UnixMillis,
}

/// How many records had expired and were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub sessions: usize,
    pub logins: usize,
    pub marks: usize,
}

/// Keeps sessions, logins that have begun, and marks. Each change is done completely or not at all. `now` and all
/// expiries are of the caller's clock. A record is never given out after it has expired.
pub trait Store: Send + Sync {
    /// Keeps a new session.
    fn insert(&self, key: Key, record: Record) -> Answer<'_, ()>;

    /// The session.
    fn get(&self, key: Key, now: UnixMillis) -> Answer<'_, Option<StoredRecord>>;

    /// Replaces a session. False: there is none any more, and so it stays.
    fn update(&self, key: Key, record: Record, now: UnixMillis) -> Answer<'_, bool>;

    /// A session has been used: it expires later. False: there is none any more.
    fn touch(&self, key: Key, expires: UnixMillis, now: UnixMillis) -> Answer<'_, bool>;

    /// Removes a session. `indexes`: those of its record, as far as the caller knows them. False: there was none.
    fn remove(&self, key: Key, indexes: Vec<Key>) -> Answer<'_, bool>;

    /// Removes all sessions that have this index, and says which these were.
    fn remove_indexed(&self, index: Key) -> Answer<'_, Vec<Key>>;

    /// Keeps a login that has begun. There is a bound: where it is reached the login that expires first is dropped.
    fn insert_login(&self, key: Key, sealed: Vec<u8>, expires: UnixMillis, now: UnixMillis) -> Answer<'_, ()>;

    /// Takes a login out: nobody gets it a second time.
    fn take_login(&self, key: Key, now: UnixMillis) -> Answer<'_, Option<Vec<u8>>>;

    /// Marks something as done until then. False: it was marked already.
    fn mark(&self, key: Key, expires: UnixMillis, now: UnixMillis) -> Answer<'_, bool>;

    /// Takes a mark away.
    fn unmark(&self, key: Key) -> Answer<'_, ()>;

    /// Removes what has expired. A call removes a bounded number: call it again while it removes something.
    fn sweep(&self, now: UnixMillis) -> Answer<'_, Swept>;
}
