//! Sessions in a file (LMDB, by `paceline-store`), which all processes of a machine may share. Each call runs on the
//! runtime's blocking threads: it may wait for a disk or for another process. It never opens a file that others may
//! read or write.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use paceline_store::{Change, Options, Snapshot};
use parking_lot::Mutex;
use rustix::fs::{flock, FlockOperation};

use crate::{
    store::{Answer, Record, Store, StoredRecord, Swept},
    Error, Key, UnixMillis,
};

/// Records that one sweep removes at most, so that others get their turn.
const SWEPT_AT_ONCE: usize = 1_000;

/// The first byte of a key says what the record is.
const SESSION: u8 = b's';
const LOGIN: u8 = b'p';
const MARK: u8 = b'm';
/// An index and the key of a session that has it; no content.
const INDEX: u8 = b'i';
/// When a session or a mark expires, what it is, and its key; in the order of time.
const EXPIRY: u8 = b'e';
/// When a login expires, and its key.
const LOGIN_EXPIRY: u8 = b'q';

/// Sessions in a file.
pub struct FileStore(Arc<Inner>);

struct Inner {
    path: PathBuf,
    store: paceline_store::Store,
    /// Who changes something has this file locked, in all processes. LMDB's own lock is only for a single commit, and
    /// what is changed here was read before.
    turn: Mutex<File>,
    max_logins: usize,
}

impl FileStore {
    /// Opens the file, or makes it. `max_logins`: logins that have begun and are kept at the same time. It reads the
    /// file, so no event loop calls it.
    ///
    /// # Errors
    /// The file is damaged, or belongs to somebody else, or others may read or write it.
    pub fn open(path: &Path, max_logins: usize) -> Result<FileStore, Error> {
        let failed = |why: String| Error::File { path: path.to_owned(), why };
        own(path).map_err(|error| failed(error.to_string()))?;
        let options = Options { max_readers: 4_096, ..Options::default() };
        let store = paceline_store::Store::open(path, &options).map_err(|error| failed(error.to_string()))?;
        let turn = own(&turn_of(path)).map_err(|error| failed(error.to_string()))?;
        Ok(FileStore(Arc::new(Inner { path: path.to_owned(), store, turn: Mutex::new(turn), max_logins })))
    }

    fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Inner) -> Result<T, paceline_store::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || task(&inner).map_err(|error| inner.failed(&error.to_string())));
        Box::pin(async move { done.await.unwrap_or(Err(Error::Mistake)) })
    }

    /// As `run`, while nobody else changes anything.
    fn change<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Inner, &Snapshot) -> Result<(T, Vec<Write>), paceline_store::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.run(move |inner| {
            let turn = inner.turn.lock();
            flock(&*turn, FlockOperation::LockExclusive).map_err(std::io::Error::from)?;
            let done = inner.store.snapshot(true).and_then(|snapshot| {
                let (found, writes) = task(inner, &snapshot)?;
                // A commit may have to wait until no snapshot is left.
                drop(snapshot);
                inner.commit(&writes)?;
                Ok(found)
            });
            // The lock is of this open file: were it not given back here the next one of this process would have it.
            let _ = flock(&*turn, FlockOperation::Unlock);
            done
        })
    }
}

/// A change that waits for its commit. None: the record is removed.
type Write = (Vec<u8>, Option<Vec<u8>>);

impl Inner {
    fn failed(&self, why: &str) -> Error {
        Error::File { path: self.path.clone(), why: why.to_owned() }
    }

    fn commit(&self, writes: &[Write]) -> Result<(), paceline_store::Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let changes: Vec<_> = writes.iter().map(|(key, value)| Change { key, value: value.as_deref() }).collect();
        self.store.commit(&changes, false)
    }
}

impl Store for FileStore {
    fn insert(&self, key: Key, record: Record) -> Answer<'_, ()> {
        self.change(move |_, snapshot| {
            let mut writes = removal(snapshot, key)?;
            writes.extend(StoredSession::from(record).writes(key));
            Ok(((), writes))
        })
    }

    fn get(&self, key: Key, now: UnixMillis) -> Answer<'_, Option<StoredRecord>> {
        self.run(move |inner| {
            let found = session(&inner.store.snapshot(true)?, key)?.filter(|found| now < found.expires);
            Ok(found.map(|found| StoredRecord { sealed: found.sealed, expires: found.expires }))
        })
    }

    fn update(&self, key: Key, record: Record, now: UnixMillis) -> Answer<'_, bool> {
        self.change(move |_, snapshot| {
            if session(snapshot, key)?.is_none_or(|found| found.expires <= now) {
                return Ok((false, Vec::new()));
            }
            let mut writes = removal(snapshot, key)?;
            writes.extend(StoredSession::from(record).writes(key));
            Ok((true, writes))
        })
    }

    fn touch(&self, key: Key, expires: UnixMillis, now: UnixMillis) -> Answer<'_, bool> {
        self.change(move |_, snapshot| {
            let Some(found) = session(snapshot, key)?.filter(|found| now < found.expires) else {
                return Ok((false, Vec::new()));
            };
            let mut writes = vec![(expiry_key(found.expires, SESSION, key), None)];
            writes.extend(StoredSession { expires, ..found }.writes(key));
            Ok((true, writes))
        })
    }

    fn remove(&self, key: Key, _: Vec<Key>) -> Answer<'_, bool> {
        self.change(move |_, snapshot| {
            let writes = removal(snapshot, key)?;
            Ok((!writes.is_empty(), writes))
        })
    }

    fn remove_indexed(&self, index: Key) -> Answer<'_, Vec<Key>> {
        self.change(move |_, snapshot| {
            let begin = record_key(INDEX, &index.0);
            let mut keys = Vec::new();
            snapshot.scan(&begin, |key, _| {
                let indexed = key.strip_prefix(&begin[..]).and_then(Key::from_slice);
                keys.extend(indexed);
                indexed.is_some()
            })?;
            let mut writes = Vec::new();
            for key in &keys {
                writes.extend(removal(snapshot, *key)?);
            }
            Ok((keys, writes))
        })
    }

    fn insert_login(&self, key: Key, sealed: Vec<u8>, expires: UnixMillis, _: UnixMillis) -> Answer<'_, ()> {
        self.change(move |inner, snapshot| {
            let mut writes = login_removal(snapshot, key)?;
            writes.push((record_key(LOGIN, &key.0), Some(with_expiry(expires, &sealed))));
            writes.push((queue_key(expires, key), Some(vec![0])));
            // The queue has one record for each login, the one that expires first in front.
            let (mut oldest, mut count) = (None, 0);
            snapshot.scan(&[LOGIN_EXPIRY], |record, _| match queued(record) {
                Some(queued) => {
                    oldest.get_or_insert(queued);
                    count += 1;
                    count < inner.max_logins
                }
                None => false,
            })?;
            if let Some((expires, key)) = oldest.filter(|_| count >= inner.max_logins) {
                writes.push((record_key(LOGIN, &key.0), None));
                writes.push((queue_key(expires, key), None));
            }
            Ok(((), writes))
        })
    }

    fn take_login(&self, key: Key, now: UnixMillis) -> Answer<'_, Option<Vec<u8>>> {
        self.change(move |_, snapshot| {
            let found = snapshot.get(&record_key(LOGIN, &key.0))?.and_then(split_expiry);
            let sealed = found.filter(|(expires, _)| now < *expires).map(|(_, sealed)| sealed.to_vec());
            Ok((sealed, login_removal(snapshot, key)?))
        })
    }

    fn mark(&self, key: Key, expires: UnixMillis, now: UnixMillis) -> Answer<'_, bool> {
        self.change(move |_, snapshot| {
            let record = record_key(MARK, &key.0);
            let mut writes = Vec::new();
            if let Some((until, _)) = snapshot.get(&record)?.and_then(split_expiry) {
                if now < until {
                    return Ok((false, writes));
                }
                writes.push((expiry_key(until, MARK, key), None));
            }
            writes.push((record, Some(with_expiry(expires, &[]))));
            writes.push((expiry_key(expires, MARK, key), Some(vec![0])));
            Ok((true, writes))
        })
    }

    fn unmark(&self, key: Key) -> Answer<'_, ()> {
        self.change(move |_, snapshot| {
            let record = record_key(MARK, &key.0);
            let Some((until, _)) = snapshot.get(&record)?.and_then(split_expiry) else { return Ok(((), Vec::new())) };
            Ok(((), vec![(record, None), (expiry_key(until, MARK, key), None)]))
        })
    }

    fn sweep(&self, now: UnixMillis) -> Answer<'_, Swept> {
        self.change(move |_, snapshot| {
            let (mut swept, mut writes, mut sessions) = (Swept::default(), Vec::new(), Vec::new());
            snapshot.scan(&[EXPIRY], |record, _| {
                let Some((expires, kind, key)) = expiring(record).filter(|(expires, ..)| *expires <= now) else {
                    return false;
                };
                match kind {
                    SESSION => sessions.push(key),
                    _ => {
                        swept.marks += 1;
                        writes.push((record_key(MARK, &key.0), None));
                        writes.push((expiry_key(expires, MARK, key), None));
                    }
                }
                sessions.len() + swept.marks < SWEPT_AT_ONCE
            })?;
            snapshot.scan(&[LOGIN_EXPIRY], |record, _| {
                let Some((expires, key)) = queued(record).filter(|(expires, _)| *expires <= now) else { return false };
                swept.logins += 1;
                writes.push((record_key(LOGIN, &key.0), None));
                writes.push((queue_key(expires, key), None));
                swept.logins < SWEPT_AT_ONCE
            })?;
            swept.sessions = sessions.len();
            for key in sessions {
                writes.extend(removal(snapshot, key)?);
            }
            Ok((swept, writes))
        })
    }
}

/// A session as the file has it: expiry, the number of indexes and these, the sealed text.
struct StoredSession {
    expires: UnixMillis,
    indexes: Vec<Key>,
    sealed: Vec<u8>,
}

impl From<Record> for StoredSession {
    fn from(record: Record) -> StoredSession {
        let Record { sealed, expires, mut indexes, .. } = record;
        // A session has three; one byte has their number.
        indexes.truncate(u8::MAX.into());
        StoredSession { expires, indexes, sealed }
    }
}

impl StoredSession {
    fn parse(bytes: &[u8]) -> Option<StoredSession> {
        let (expires, rest) = split_expiry(bytes)?;
        let (&count, rest) = rest.split_first()?;
        let (indexes, sealed) = rest.split_at_checked(usize::from(count) * 32)?;
        let indexes = indexes.chunks_exact(32).filter_map(Key::from_slice).collect();
        Some(StoredSession { expires, indexes, sealed: sealed.to_vec() })
    }

    fn writes(self, key: Key) -> Vec<Write> {
        let mut content = vec![self.indexes.len() as u8];
        self.indexes.iter().for_each(|index| content.extend(index.0));
        content.extend(&self.sealed);
        let mut writes = vec![
            (record_key(SESSION, &key.0), Some(with_expiry(self.expires, &content))),
            (expiry_key(self.expires, SESSION, key), Some(vec![0])),
        ];
        writes.extend(self.indexes.iter().map(|index| (index_key(*index, key), Some(vec![0]))));
        writes
    }
}

fn session(snapshot: &Snapshot, key: Key) -> Result<Option<StoredSession>, paceline_store::Error> {
    Ok(snapshot.get(&record_key(SESSION, &key.0))?.and_then(StoredSession::parse))
}

/// All records of a session, to be removed.
fn removal(snapshot: &Snapshot, key: Key) -> Result<Vec<Write>, paceline_store::Error> {
    let Some(found) = session(snapshot, key)? else { return Ok(Vec::new()) };
    Ok(found.writes(key).into_iter().map(|(key, _)| (key, None)).collect())
}

fn login_removal(snapshot: &Snapshot, key: Key) -> Result<Vec<Write>, paceline_store::Error> {
    let record = record_key(LOGIN, &key.0);
    let Some((expires, _)) = snapshot.get(&record)?.and_then(split_expiry) else { return Ok(Vec::new()) };
    Ok(vec![(record, None), (queue_key(expires, key), None)])
}

fn record_key(kind: u8, key: &[u8]) -> Vec<u8> {
    [&[kind][..], key].concat()
}

fn index_key(index: Key, session: Key) -> Vec<u8> {
    [&[INDEX][..], &index.0, &session.0].concat()
}

fn expiry_key(expires: UnixMillis, kind: u8, key: Key) -> Vec<u8> {
    [&[EXPIRY][..], &expires.to_be_bytes(), &[kind], &key.0].concat()
}

fn queue_key(expires: UnixMillis, key: Key) -> Vec<u8> {
    [&[LOGIN_EXPIRY][..], &expires.to_be_bytes(), &key.0].concat()
}

fn expiring(record: &[u8]) -> Option<(UnixMillis, u8, Key)> {
    let (expires, rest) = split_expiry(record.strip_prefix(&[EXPIRY])?)?;
    let (&kind, key) = rest.split_first()?;
    Some((expires, kind, Key::from_slice(key)?))
}

fn queued(record: &[u8]) -> Option<(UnixMillis, Key)> {
    let (expires, key) = split_expiry(record.strip_prefix(&[LOGIN_EXPIRY])?)?;
    Some((expires, Key::from_slice(key)?))
}

fn with_expiry(expires: UnixMillis, content: &[u8]) -> Vec<u8> {
    [&expires.to_be_bytes()[..], content].concat()
}

fn split_expiry(bytes: &[u8]) -> Option<(UnixMillis, &[u8])> {
    let (expires, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*expires), rest))
}

/// The file whose lock is the turn to change something.
fn turn_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-turn");
    name.into()
}

/// Opens a file that only this user may read and write, or makes it.
fn own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    let found = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user {
        let why = format!("it belongs to the user {}, and this is {user}: delete it, or chown it", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    match found.mode() & 0o077 {
        0 => Ok(file),
        _ => {
            let why = format!("others may read or write it (mode {:o}): chmod 600 it", found.mode() & 0o777);
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_first_is_in_front() {
        let key = Key::of(&[b"a"]);
        assert!(expiry_key(255, MARK, key) < expiry_key(256, SESSION, key));
        assert_eq!(expiring(&expiry_key(7, MARK, key)), Some((7, MARK, key)));
        assert_eq!(queued(&queue_key(7, key)), Some((7, key)));
        assert_eq!(expiring(&queue_key(7, key)), None);
    }

    #[test]
    fn a_damaged_record_is_no_session() {
        let stored = StoredSession { expires: 5, indexes: vec![Key::of(&[b"a"])], sealed: vec![1, 2] };
        let bytes = stored.writes(Key::of(&[b"k"]))[0].1.clone().unwrap();
        let again = StoredSession::parse(&bytes).unwrap();
        assert_eq!((again.expires, again.indexes.len(), again.sealed), (5, 1, vec![1, 2]));
        (0..bytes.len() - 2).for_each(|end| assert!(StoredSession::parse(&bytes[..end]).is_none(), "{end}"));
    }
}
