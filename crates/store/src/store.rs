//! The open file. Each record is kept with the CRC-32 of its key and value in front of its value, and what does not
//! match is an error, never handed out.

use std::{
    ops::Bound,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
    },
    time::Duration,
};

use heed::{types::Bytes, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, MdbError, RoTxn, WithoutTls};

use crate::{
    opening::{self, InUse},
    Error, Kind,
};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of address space to begin with, or less if there is less. It doubles whenever the store has filled it,
    /// for which this process has to stop reading: it costs nothing, so better take enough.
    pub map_size: usize,
    /// Threads of all processes that can read at the same time.
    pub max_readers: u32,
    /// A file of up to so many bytes is looked at whole whenever it is opened and nobody else has it open. A larger
    /// one is the first time since the machine was started; after that only its head and length are.
    pub verify_up_to: u64,
    /// Bytes that the file may grow to, be there room on the disk or not: a commit that needs more fails as if the
    /// disk were full.
    pub most: Option<u64>,
}

/// 64 GiB of address space, where there is.
const MAX_MAPPED: usize = 1 << 36;
/// With less than 1 GiB of address space nothing goes.
const MIN_MAPPED: usize = 1 << 30;

impl Default for Options {
    fn default() -> Options {
        Options { map_size: MAX_MAPPED, max_readers: 1024, verify_up_to: 64 << 20, most: None }
    }
}

/// A record to be written, or to be gone (`value` none).
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// A record as somebody has read it (`value` none: there was none).
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// An open store. All of it may be called by several threads at once.
pub struct Store {
    env: Env<WithoutTls>,
    records: Database<Bytes, Bytes>,
    writing: Mutex<WriterState>,
    readers: Arc<Readers>,
    /// Bytes of address space that are never exceeded.
    most: Option<usize>,
}

/// What the one who writes knows.
struct WriterState {
    /// Whether commits of this process reach the disk before they return.
    synced: bool,
    /// Pages that the file had when dead readers were last looked for.
    pages: usize,
}

/// So many pages that the file has grown by are worth a look for dead readers: 4 MiB.
const PAGES_BETWEEN_LOOKS: usize = 1024;

/// The snapshots of this process. While there are any the file cannot be mapped anew.
struct Readers {
    count: Mutex<Count>,
    changed: Condvar,
    /// The number for those who must not wait.
    begun: AtomicUsize,
    /// Outlives the last of them.
    in_use: InUse,
}

impl Readers {
    fn new(in_use: InUse) -> Arc<Readers> {
        Arc::new(Readers { count: Mutex::default(), changed: Condvar::new(), begun: AtomicUsize::new(0), in_use })
    }
}

#[derive(Default)]
struct Count {
    snapshots: usize,
    /// Threads that want to be told that there are none. To tell nobody is a system call, too.
    waiting: usize,
}

/// Bytes of a page of the file.
const PAGE: usize = 4096;

/// How long a commit that needs more address space waits for this process's snapshots to end.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The store as it was at one moment, for as long as this lives. Meanwhile pages that writers free are not used again.
pub struct Snapshot {
    // Ends before it is counted as ended.
    txn: RoTxn<'static, WithoutTls>,
    records: Database<Bytes, Bytes>,
    _counted: SnapshotGuard,
}

/// One of the snapshots that [`Readers`] counts.
struct SnapshotGuard(Arc<Readers>);

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        count.snapshots -= 1;
        self.0.begun.fetch_sub(1, Relaxed);
        if count.snapshots == 0 && count.waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// LMDB's view of a file that was looked at.
#[allow(unsafe_code)]
fn environment(
    path: &Path,
    options: &Options,
    in_use: &InUse,
) -> Result<(Env<WithoutTls>, Database<Bytes, Bytes>), Error> {
    let length = in_use.file().metadata()?.len() as usize;
    let (needed, mut map_size) = match whole_pages(options.most) {
        Some(most) => (most.max(length), most.max(length)),
        None => {
            let needed = length.next_power_of_two().saturating_mul(2);
            (needed, options.map_size.max(needed))
        }
    };
    let mut settings = EnvOpenOptions::new().read_txn_without_tls();
    settings.max_readers(options.max_readers);
    let flags = if in_use.read_only { EnvFlags::READ_ONLY | EnvFlags::NO_LOCK } else { EnvFlags::NO_SYNC };
    // SAFETY: a single file, as its name says; and without the sync of each commit (`commit` sees to that) a file that
    // was whole stays whole whatever process dies. After a power failure it is looked at again. Where there are no
    // locks nobody writes.
    unsafe { settings.flags(flags | EnvFlags::NO_SUB_DIR | EnvFlags::NO_READ_AHEAD) };
    let env = loop {
        settings.map_size(map_size);
        // SAFETY: LMDB believes what it maps: that is why it was looked at, and nobody but LMDB writes to it.
        match unsafe { settings.open(path) } {
            Err(heed::Error::Io(error))
                if error.raw_os_error() == Some(libc::ENOMEM) && map_size / 4 >= needed.max(MIN_MAPPED) =>
            {
                map_size /= 4;
            }
            // Snapshots of this process still have it, or the file that was here before: their threads are let go on.
            Err(heed::Error::EnvAlreadyOpened) if closed(path) => {}
            env => break env?,
        }
    };
    if in_use.read_only {
        let txn = env.read_txn()?;
        let records = env.open_database(&txn, None)?.ok_or_else(|| Error::new(Kind::Foreign, "not a store"))?;
        drop(txn);
        return Ok((env, records));
    }
    env.clear_stale_readers()?;
    let mut txn = env.write_txn()?;
    let records = env.create_database(&mut txn, None)?;
    txn.commit()?;
    Ok((env, records))
}

fn whole_pages(bytes: Option<u64>) -> Option<usize> {
    bytes.map(|bytes| bytes as usize / PAGE * PAGE)
}

/// Waits until this process has closed what it has open there. False if that takes too long.
fn closed(path: &Path) -> bool {
    path.canonicalize()
        .is_ok_and(|path| heed::env_closing_event(path).is_none_or(|event| event.wait_timeout(LONGEST_WAIT)))
}

impl Store {
    /// Opens the file at `path`, or makes an empty store there. Waits for others that are just opening it, never for
    /// those who use it.
    pub fn open(path: &Path, options: &Options) -> Result<Store, Error> {
        let ((env, records), in_use) = opening::open(path, options, |in_use| environment(path, options, in_use))?;
        let pages = env.info().last_page_number;
        let writing = Mutex::new(WriterState { synced: false, pages });
        Ok(Store { env, records, writing, readers: Readers::new(in_use), most: whole_pages(options.most) })
    }

    /// In a process that was forked since: gives back what it has of the store, and leaves alone what it shares with
    /// its parent.
    #[allow(unsafe_code)]
    pub fn abandon(self) {
        // The snapshots of the parent are never dropped here, so that what they hold is let go in their place.
        for _ in 0..self.readers.begun.load(Relaxed) {
            // SAFETY: each of these snapshots has one reference of either, and nothing uses it any more.
            unsafe {
                drop(std::ptr::read(&self.env));
                drop(std::ptr::read(&self.readers));
            }
        }
    }

    /// Looks at the whole structure of the file, however large it is. Whoever writes waits meanwhile.
    pub fn verify(&self) -> Result<(), Error> {
        let alone = if self.readers.in_use.read_only { None } else { Some(self.env.write_txn()?) };
        let looked_at = opening::check(self.readers.in_use.file(), u64::MAX);
        drop(alone);
        looked_at
    }

    /// Device and number of the file that is open.
    pub fn identity(&self) -> Result<(u64, u64), Error> {
        let file = self.readers.in_use.file().metadata()?;
        Ok((file.dev(), file.ino()))
    }

    /// The store as it is now. It may have grown too large for what this process has mapped: that is an error of the
    /// kind `Grown`, unless it can `wait` for the snapshots of this process to end.
    pub fn snapshot(&self, wait: bool) -> Result<Snapshot, Error> {
        loop {
            let mut count = lock(&self.readers.count);
            let error = match self.env.clone().static_read_txn() {
                Ok(txn) => {
                    count.snapshots += 1;
                    self.readers.begun.fetch_add(1, Relaxed);
                    return Ok(Snapshot { txn, records: self.records, _counted: SnapshotGuard(self.readers.clone()) });
                }
                Err(error) => error,
            };
            drop(count);
            match error {
                // Processes that died left their places.
                heed::Error::Mdb(MdbError::ReadersFull) if self.env.clear_stale_readers()? > 0 => {}
                heed::Error::Mdb(MdbError::MapResized) if wait => self.map(None)?,
                // LMDB knows processes by their numbers.
                heed::Error::Io(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                    let why = "a process of the same number uses it: in another container, with numbers of its own";
                    return Err(Error::new(Kind::Readers, why));
                }
                error => return Err(error.into()),
            }
        }
    }

    /// Maps the file anew, in so many bytes or in as many as another process has taken, once no snapshot is left.
    #[allow(unsafe_code)]
    fn map(&self, size: Option<usize>) -> Result<(), Error> {
        let mut count = lock(&self.readers.count);
        count.waiting += 1;
        let (mut count, waited) = self
            .readers
            .changed
            .wait_timeout_while(count, LONGEST_WAIT, |count| count.snapshots > 0)
            .unwrap_or_else(PoisonError::into_inner);
        count.waiting -= 1;
        if waited.timed_out() {
            return Err(Error::new(
                Kind::Full,
                "the store has to grow, but a transaction of this process has been reading it for 10 seconds",
            ));
        }
        // SAFETY: there is no snapshot, and as long as `count` is held none begins. What is written meanwhile is
        // written by who calls this, or LMDB refuses.
        unsafe { self.env.resize(size.unwrap_or(0)) }?;
        drop(count);
        Ok(())
    }

    /// Writes all of `changes` or none. With `sync` they are on the disk when it returns, and so is all that was
    /// written before; without, they outlive this process, not the machine.
    pub fn commit(&self, changes: &[Change<'_>], sync: bool) -> Result<(), Error> {
        self.commit_if(&[], changes, sync).map(|_| ())
    }

    /// Commits if all records of `expected` are still so. Otherwise nothing is written, and it returns false. So no
    /// lock is needed between reading and writing what depends on it.
    pub fn commit_if(&self, expected: &[Expected<'_>], changes: &[Change<'_>], sync: bool) -> Result<bool, Error> {
        if self.readers.in_use.read_only {
            return Err(std::io::Error::from_raw_os_error(libc::EROFS).into());
        }
        let mut writing = lock(&self.writing);
        self.set_sync(&mut writing, sync)?;
        let mut room_was_made = false;
        loop {
            match self.write(expected, changes) {
                // What a process that was killed was reading is kept for nobody: perhaps that is room enough.
                Err(heed::Error::Mdb(MdbError::MapFull)) if self.env.clear_stale_readers()? > 0 => {}
                Err(heed::Error::Mdb(MdbError::MapFull)) => {
                    let map_size = self.env.info().map_size;
                    if self.most.is_some_and(|most| map_size >= most) {
                        return Err(Error::new(Kind::Full, "the file has the size that it may have"));
                    }
                    self.map(Some(map_size.saturating_mul(2)))?
                }
                Err(heed::Error::Mdb(MdbError::MapResized)) => self.map(None)?,
                // What LMDB says when less was written than it asked for.
                Err(heed::Error::Io(error)) if error.raw_os_error() == Some(libc::EIO) && !room_was_made => {
                    self.make_room(changes)?;
                    room_was_made = true;
                }
                done => {
                    let written = done?;
                    self.look_at_readers(&mut writing);
                    return Ok(written);
                }
            }
        }
    }

    /// Takes room on the disk for these behind the end of the file, so that where there is none that is said.
    #[allow(unsafe_code)]
    fn make_room(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        let file = self.readers.in_use.file();
        let bytes: usize = changes.iter().map(|change| change.value.map_or(0, <[u8]>::len) + 4096).sum();
        let (from, bytes) = (file.metadata()?.len(), bytes as u64 + (256 << 10));
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is writable.
        if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0 && from + bytes > limit.rlim_cur {
            return Err(std::io::Error::from_raw_os_error(libc::EFBIG).into());
        }
        // SAFETY: the file is open.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from as _, bytes as _) };
        match std::io::Error::last_os_error() {
            error if done != 0 && matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Processes that died while they were reading keep pages from being used again: where the file grows they are
    /// looked for.
    fn look_at_readers(&self, writing: &mut WriterState) {
        let pages = self.env.info().last_page_number;
        if pages > writing.pages + PAGES_BETWEEN_LOOKS {
            writing.pages = pages;
            // It is written: whatever this fails with is no failure of that.
            let _ = self.env.clear_stale_readers();
        }
    }

    #[allow(unsafe_code)]
    fn set_sync(&self, writing: &mut WriterState, sync: bool) -> Result<(), Error> {
        if writing.synced != sync {
            let mode = if sync { FlagSetMode::Disable } else { FlagSetMode::Enable };
            // SAFETY: no other thread of this process changes flags or writes, for it would hold `writing`.
            unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode) }?;
            writing.synced = sync;
        }
        Ok(())
    }

    /// False, and nothing was written, if something of `expected` has changed.
    fn write(&self, expected: &[Expected<'_>], changes: &[Change<'_>]) -> Result<bool, heed::Error> {
        let mut txn = self.env.write_txn()?;
        for Expected { key, value } in expected {
            if self.records.get(&txn, key)?.and_then(|sealed| sealed.get(4..)) != *value {
                return Ok(false);
            }
        }
        for Change { key, value } in changes {
            match value {
                Some(value) => {
                    self.records.put_reserved(&mut txn, key, value.len() + 4, |space| {
                        use std::io::Write;
                        space.write_all(&checksum(key, value).to_le_bytes())?;
                        space.write_all(value)
                    })?;
                }
                None => {
                    self.records.delete(&mut txn, key)?;
                }
            }
        }
        txn.commit()?;
        Ok(true)
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.env.force_sync()?)
    }

    /// Bytes of the file that are in use.
    pub fn size(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * PAGE as u64
    }
}

impl Snapshot {
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        // No record has such a key, so nothing is there.
        if key.is_empty() || key.len() > 511 {
            return Ok(None);
        }
        self.records.get(&self.txn, key)?.map(|sealed| unsealed(key, sealed)).transpose()
    }

    /// Shows each record from `from` on, by the order of their keys, until `each` says false.
    pub fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error> {
        // There is no key of no bytes, so none to begin at either.
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        for record in self.records.range(&self.txn, &(from, Bound::Unbounded))? {
            let (key, sealed) = record?;
            if !each(key, unsealed(key, sealed)?) {
                break;
            }
        }
        Ok(())
    }

    /// How many records there are.
    pub fn len(&self) -> Result<u64, Error> {
        Ok(self.records.len(&self.txn)?)
    }

    /// Bytes of the pages that the records fill.
    pub fn used(&self) -> Result<u64, Error> {
        let stat = self.records.stat(&self.txn)?;
        Ok((stat.branch_pages + stat.leaf_pages + stat.overflow_pages) as u64 * u64::from(stat.page_size))
    }

    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(key.len() as u32).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

fn unsealed<'a>(key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], Error> {
    match sealed.split_first_chunk::<4>() {
        Some((sum, value)) if u32::from_le_bytes(*sum) == checksum(key, value) => Ok(value),
        _ => Err(Error::new(Kind::Damaged, "damaged: the checksum of a record does not match")),
    }
}

#[cfg(test)]
mod tests;
