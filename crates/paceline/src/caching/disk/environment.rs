//! What the cache keeps on disk, as LMDB holds it: records by key, and beside them what purges and eviction find them
//! by. It never decides what is written or dropped, and hands out nothing whose checksum does not match.
//!
//! One tree, told apart by the first byte of its keys. Each entry but the records holds the checksum of its key and
//! value in front of its value; they are all read when the file is opened (`verify`).
//!
//! | key | value |
//! | --- | --- |
//! | `r` key | the record (`cache::record`) |
//! | `i` key | number, softly purged or not, response or not, URL, hashes of the tags |
//! | `u` URL NUL key | nothing |
//! | `t` tag's hash, key | nothing |
//! | `o` number | key: in the order in which they came |
//! | `m` name | the version, the secret of the keys |

use std::{
    collections::HashSet,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use cache::{
    groups,
    record::{self, checksum},
    store::{How, Key, Object},
    stored::Entry,
};
use heed::{types::Bytes, Database, Env, EnvFlags, EnvOpenOptions, Error, MdbError, RoTxn, RwTxn, WithoutTls};

use super::mapped_files::{is_shortened, MappedFiles};
use crate::caching::Purge;

/// LMDB's names for its files.
pub const FILE: &str = "data.mdb";
pub const READERS: &str = "lock.mdb";

/// URLs that are longer are kept in memory only: LMDB's keys have 511 bytes.
pub const LONGEST_URL: usize = 450;
/// Entries that are changed in one transaction of a purge.
const SLICE: usize = 512;
/// Of so many records that eviction comes across those that are in use come again later.
const MAX_SPARED: usize = 256;
const FORMAT: u32 = record::VERSION;
const VERSION_KEY: &[u8] = b"mversion";
const SECRET_KEY: &[u8] = b"msecret";

/// The open environment.
pub struct Environment {
    env: Env<WithoutTls>,
    files: MappedFiles,
    all: Database<Bytes, Bytes>,
    size: u64,
    page: u64,
    next: AtomicU64,
    responses: AtomicU64,
    secret: [u64; 2],
}

/// What was found of a key.
pub enum Read {
    Nothing,
    Found(Entry),
    Damaged,
}

/// What is known of a record without reading it.
struct Index {
    number: u64,
    expired: bool,
    directory: bool,
    url: Vec<u8>,
    tags: Vec<[u8; 8]>,
}

/// What the verification of a file found in its entries.
#[derive(Default)]
pub struct Entries {
    records: u64,
    responses: u64,
    indexed: u64,
    ordered: u64,
    damaged: bool,
    version: Option<u32>,
}

impl Entries {
    pub fn see(&mut self, key: &[u8], value: Option<&[u8]>) {
        match key.first() {
            Some(b'r') => self.records += 1,
            _ if key == VERSION_KEY => {
                self.version = value.and_then(|value| value.try_into().ok()).map(u32::from_le_bytes);
            }
            _ => {
                let value = value.and_then(|value| sealed(key, value));
                self.damaged |= value.is_none();
                if key.first() == Some(&b'i') {
                    self.indexed += 1;
                    let index = value.and_then(Index::parse);
                    self.responses += u64::from(index.is_some_and(|index| !index.directory));
                }
                self.ordered += u64::from(key.first() == Some(&b'o'));
            }
        }
    }

    /// They were written by this version of the format.
    pub fn are_ours(&self) -> bool {
        self.version == Some(FORMAT)
    }

    pub fn are_sound(&self) -> bool {
        !self.damaged && self.records == self.indexed && self.indexed == self.ordered
    }
}

impl Environment {
    /// Opens the environment of this folder; without a file it is an empty one. `entries`: those that are in the file. `secret`:
    /// the keys' in an empty one.
    #[allow(unsafe_code)]
    pub fn open(folder: &Path, size: u64, entries: &Entries, secret: Option<[u64; 2]>) -> Result<Environment, Error> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(usize::try_from(size).unwrap_or(usize::MAX) / 65_536 * 65_536).max_readers(64);
        // SAFETY: without the sync of its head the file stays whole after a power failure; the last commit may be
        // undone.
        unsafe { options.flags(EnvFlags::NO_META_SYNC | EnvFlags::NO_READ_AHEAD) };
        // SAFETY: the file is in a folder that is ours alone and that we hold the lock of, and it was verified.
        let env = unsafe { options.open(folder) }?;
        let files = MappedFiles::open([FILE, READERS].map(|name| folder.join(name)))?;
        let mut txn = env.write_txn()?;
        let all: Database<Bytes, Bytes> = env.create_database(&mut txn, None)?;
        let page = u64::from(all.stat(&txn)?.page_size);
        let found = all.get(&txn, SECRET_KEY)?.and_then(|value| sealed(SECRET_KEY, value)).and_then(two_numbers);
        let is_new = found.is_none();
        let environment = Environment {
            all,
            size,
            page,
            next: AtomicU64::new(0),
            responses: AtomicU64::new(if is_new { 0 } else { entries.responses }),
            secret: found.or(secret).unwrap_or_else(new_secret),
            env: env.clone(),
            files,
        };
        if is_new {
            all.clear(&mut txn)?;
            environment.found(&mut txn)?;
        }
        environment.next.store(environment.last_number(&txn)? + 1, Relaxed);
        txn.commit()?;
        environment.env.clear_stale_readers()?;
        environment.sync()?;
        Ok(environment)
    }

    /// What an empty environment begins with.
    fn found(&self, txn: &mut RwTxn<'_>) -> Result<(), Error> {
        let secret: Vec<u8> = self.secret.iter().flat_map(|half| half.to_le_bytes()).collect();
        self.all.put(txn, VERSION_KEY, &FORMAT.to_le_bytes())?;
        self.seal(txn, SECRET_KEY, &secret)
    }

    /// What the keys are made with.
    pub fn secret(&self) -> [u64; 2] {
        self.secret
    }

    /// Bytes of the file that are in use, and responses.
    pub fn used(&self) -> (u64, u64) {
        let bytes = self.reading().and_then(|txn| self.bytes(&txn)).unwrap_or(0);
        (bytes, self.responses.load(Relaxed))
    }

    fn bytes(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<u64, Error> {
        let stat = self.all.stat(txn)?;
        Ok((stat.branch_pages + stat.leaf_pages + stat.overflow_pages) as u64 * self.page)
    }

    /// Bytes that may be in use: LMDB writes anew what it changes, and frees the old pages a commit later.
    pub fn room(&self) -> u64 {
        self.size / 8 * 7
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.files.check()?;
        self.env.force_sync()
    }

    /// All reading begins here: what LMDB maps is there to be read.
    fn reading(&self) -> Result<RoTxn<'_, WithoutTls>, Error> {
        self.files.check()?;
        self.env.read_txn()
    }

    /// Does all of it or nothing.
    pub fn change<T>(&self, work: impl FnOnce(&mut RwTxn<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let responses = self.responses.load(Relaxed);
        let done = self.files.check().map_err(Error::Io).and_then(|()| self.env.write_txn()).and_then(|mut txn| {
            let done = work(&mut txn)?;
            // Pages written behind a new end would hide that there is one.
            self.files.check()?;
            txn.commit()?;
            self.files.check()?;
            Ok(done)
        });
        if done.is_err() {
            self.responses.store(responses, Relaxed);
        }
        done
    }

    pub fn read(&self, key: Key) -> Result<Read, Error> {
        let txn = self.reading()?;
        let Some(record) = self.all.get(&txn, &of(b'r', key))? else { return Ok(Read::Nothing) };
        let index = self.index(&txn, key)?;
        Ok(match index.and_then(|index| record::decode(key, record, index.expired)) {
            Some(kept) => Read::Found(kept),
            None => Read::Damaged,
        })
    }

    fn index(&self, txn: &RoTxn<'_, WithoutTls>, key: Key) -> Result<Option<Index>, Error> {
        let name = of(b'i', key);
        Ok(self.all.get(txn, &name)?.and_then(|value| Index::parse(sealed(&name, value)?)))
    }

    /// Writes a record, in the place of what had its key.
    pub fn put(&self, txn: &mut RwTxn<'_>, key: Key, kept: &Entry, record: &[u8]) -> Result<(), Error> {
        self.remove(txn, key)?;
        let number = self.next.fetch_add(1, Relaxed);
        let tags = kept.tags().iter().map(|tag| tag_hash(tag)).collect();
        let directory = matches!(kept, Entry::Directory(_));
        let index = Index { number, expired: false, directory, url: kept.url().as_bytes().to_vec(), tags };
        self.all.put(txn, &of(b'r', key), record)?;
        self.seal(txn, &of(b'i', key), &index.bytes())?;
        self.seal(txn, &ordered(number), &key.0.to_be_bytes())?;
        index.names(key).iter().try_for_each(|name| self.seal(txn, name, &[]))?;
        self.responses.fetch_add(u64::from(!directory), Relaxed);
        Ok(())
    }

    /// Drops a record. Whether there was one, of a response.
    pub fn remove(&self, txn: &mut RwTxn<'_>, key: Key) -> Result<bool, Error> {
        let Some(index) = self.index(txn, key)? else { return Ok(false) };
        self.all.delete(txn, &of(b'r', key))?;
        self.all.delete(txn, &of(b'i', key))?;
        self.all.delete(txn, &ordered(index.number))?;
        index.names(key).iter().try_for_each(|name| self.all.delete(txn, name).map(drop))?;
        self.responses.fetch_sub(u64::from(!index.directory), Relaxed);
        Ok(!index.directory)
    }

    fn expire(&self, txn: &mut RwTxn<'_>, key: Key) -> Result<bool, Error> {
        let Some(mut index) = self.index(txn, key)? else { return Ok(false) };
        index.expired = true;
        self.seal(txn, &of(b'i', key), &index.bytes())?;
        Ok(!index.directory)
    }

    /// Purges, in several transactions. How many responses.
    pub fn purge(&self, what: &Purge, how: How) -> Result<u64, Error> {
        let prefix = match what {
            Purge::Url(url) | Purge::Prefix(url) if url.len() > LONGEST_URL => return Ok(0),
            Purge::Url(url) => [b"u", url.as_bytes(), b"\0"].concat(),
            Purge::Prefix(url) => [b"u", url.as_bytes()].concat(),
            Purge::Tag(tag) => [&b"t"[..], &tag_hash(tag)].concat(),
            Purge::All if how == How::Drop => return self.clear(),
            Purge::All => b"i".to_vec(),
        };
        let (mut after, mut purged) = (prefix.clone(), 0);
        loop {
            let keys = self.under(&prefix, &mut after)?;
            if keys.is_empty() {
                return Ok(purged);
            }
            purged += self.change(|txn| {
                let mut found = 0;
                for key in &keys {
                    found += u64::from(match how {
                        How::Drop => self.remove(txn, *key)?,
                        How::Expire => self.expire(txn, *key)?,
                    });
                }
                Ok(found)
            })?;
        }
    }

    /// The next keys of those whose names begin so, from `after` on.
    fn under(&self, prefix: &[u8], after: &mut Vec<u8>) -> Result<Vec<Key>, Error> {
        let txn = self.reading()?;
        let from = (std::ops::Bound::Included(&after[..]), std::ops::Bound::Unbounded);
        let mut keys = Vec::new();
        let mut last = Vec::new();
        for entry in self.all.range(&txn, &from)? {
            let (name, _) = entry?;
            if keys.len() == SLICE || !name.starts_with(prefix) {
                break;
            }
            if let Some(key) = name.last_chunk::<16>() {
                keys.push(Key(u128::from_be_bytes(*key)));
            }
            last.clear();
            last.extend_from_slice(name);
        }
        if !last.is_empty() {
            // The least that is greater.
            last.push(0);
            *after = last;
        }
        Ok(keys)
    }

    /// The origins of all URLs. It looks at one URL of each.
    pub fn origins(&self) -> Result<HashSet<String>, Error> {
        let txn = self.reading()?;
        let (mut after, mut origins) = (b"u".to_vec(), HashSet::new());
        loop {
            let from = (std::ops::Bound::Included(&after[..]), std::ops::Bound::Unbounded);
            let Some(entry) = self.all.range(&txn, &from)?.next() else { return Ok(origins) };
            let (name, _) = entry?;
            let Some(url) = name.strip_prefix(b"u") else { return Ok(origins) };
            let url = String::from_utf8_lossy(url.split(|byte| *byte == 0).next().unwrap_or_default());
            let origin = groups::origin(&url);
            // The least that is greater than all of the origin: "0" comes after "/".
            let next = [b"u", origin.as_bytes(), b"0"].concat();
            after = if next > after { next } else { [name, b"\0"].concat() };
            origins.insert(origin.to_owned());
        }
    }

    /// Drops everything. How many responses that were.
    pub fn clear(&self) -> Result<u64, Error> {
        self.change(|txn| {
            self.all.clear(txn)?;
            self.found(txn)?;
            Ok(self.responses.swap(0, Relaxed))
        })
    }

    /// Drops the oldest records until `bytes` less are in use; those in use (`wanted`) come to the end of the line,
    /// some of them. How many were dropped.
    pub fn evict(&self, bytes: u64, wanted: &dyn Fn(Key) -> bool) -> Result<u64, Error> {
        self.change(|txn| {
            let goal = self.bytes(txn)?.saturating_sub(bytes);
            let (mut dropped, mut spared) = (0, 0);
            while self.bytes(txn)? > goal {
                let Some((name, key)) = self.oldest(txn)? else { break };
                if spared < MAX_SPARED && wanted(key) && self.spare(txn, key)? {
                    spared += 1;
                    continue;
                }
                self.remove(txn, key)?;
                self.all.delete(txn, &name)?;
                dropped += 1;
            }
            Ok(dropped)
        })
    }

    /// Puts a record at the end of the line.
    fn spare(&self, txn: &mut RwTxn<'_>, key: Key) -> Result<bool, Error> {
        let Some(mut index) = self.index(txn, key)? else { return Ok(false) };
        self.all.delete(txn, &ordered(index.number))?;
        index.number = self.next.fetch_add(1, Relaxed);
        self.seal(txn, &of(b'i', key), &index.bytes())?;
        self.seal(txn, &ordered(index.number), &key.0.to_be_bytes())?;
        Ok(true)
    }

    fn oldest(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<Option<(Vec<u8>, Key)>, Error> {
        let Some(entry) = self.all.prefix_iter(txn, b"o")?.next() else { return Ok(None) };
        let (name, value) = entry?;
        let key = sealed(name, value).and_then(|value| value.try_into().ok()).map(u128::from_be_bytes);
        Ok(Some((name.to_vec(), Key(key.unwrap_or(0)))))
    }

    fn last_number(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<u64, Error> {
        let Some(entry) = self.all.rev_prefix_iter(txn, b"o")?.next() else { return Ok(0) };
        Ok(entry?.0.last_chunk().map_or(0, |number| u64::from_be_bytes(*number)))
    }

    fn seal(&self, txn: &mut RwTxn<'_>, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let sealed = [&checksum(&[key, value]).to_le_bytes()[..], value].concat();
        self.all.put(txn, key, &sealed)
    }
}

impl Drop for Environment {
    /// Closing reads what LMDB maps, too: what is cut off stays open.
    fn drop(&mut self) {
        if self.files.check().is_err() {
            std::mem::forget(self.env.clone());
        }
    }
}

/// A secret of keys.
pub fn new_secret() -> [u64; 2] {
    uuid::Uuid::new_v4().as_u64_pair().into()
}

/// Whether another program cut off a part of the files.
pub fn is_cut_off(error: &Error) -> bool {
    matches!(error, Error::Io(error) if is_shortened(error))
}

/// Whether there was no room in the file.
pub fn is_full(error: &Error) -> bool {
    matches!(error, Error::Mdb(MdbError::MapFull))
}

fn sealed<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, value) = value.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(&[key, value])).then_some(value)
}

fn two_numbers(bytes: &[u8]) -> Option<[u64; 2]> {
    let (first, second) = bytes.split_first_chunk::<8>()?;
    Some([u64::from_le_bytes(*first), u64::from_le_bytes(second.try_into().ok()?)])
}

fn of(kind: u8, key: Key) -> [u8; 17] {
    let mut name = [kind; 17];
    name[1..].copy_from_slice(&key.0.to_be_bytes());
    name
}

fn ordered(number: u64) -> [u8; 9] {
    let mut name = [b'o'; 9];
    name[1..].copy_from_slice(&number.to_be_bytes());
    name
}

/// Two tags with one hash would be purged together, which does no harm.
fn tag_hash(tag: &str) -> [u8; 8] {
    checksum(&[tag.as_bytes()]).to_be_bytes()
}

impl Index {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.push(u8::from(self.expired) | u8::from(self.directory) << 1);
        bytes.extend((self.url.len() as u16).to_le_bytes());
        bytes.extend(&self.url);
        self.tags.iter().for_each(|tag| bytes.extend(tag));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Index> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (flags, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (url, tags) = rest.split_at_checked(u16::from_le_bytes(*length) as usize)?;
        Some(Index {
            number: u64::from_le_bytes(*number),
            expired: flags & 1 != 0,
            directory: flags & 2 != 0,
            url: url.to_vec(),
            tags: tags.chunks_exact(8).filter_map(|tag| tag.try_into().ok()).collect(),
        })
    }

    /// What purges find it by.
    fn names(&self, key: Key) -> Vec<Vec<u8>> {
        let key = key.0.to_be_bytes();
        let url = [b"u", &self.url[..], b"\0", &key].concat();
        std::iter::once(url).chain(self.tags.iter().map(|tag| [&b"t"[..], tag, &key].concat())).collect()
    }
}
