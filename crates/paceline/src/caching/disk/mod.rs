//! What the cache keeps on disk beside memory, so that it is there after a restart or a crash: whatever is stored is
//! written behind, by one thread; what memory does not have is looked for before the origin is asked.
//!
//! # What holds at any time
//!
//! - What was dropped or replaced is not found any more: a change of a key is announced (`change`) before memory
//!   changes, and what was read of that key meanwhile is thrown away.
//! - What was purged is not found any more, from the moment at which memory refuses it (`cache::store::Moment`); the
//!   purge is done when it is on disk. What was under way to the disk before it is not written after it.
//! - When the process dies, what was written stays, and so do all purges that were done. When the machine dies, the
//!   last commits may be missing, but no purge is: it is synced.
//!
//! It never stops the server, as long as its files are not shortened in the midst of an access (`mapped_files`): what
//! goes wrong is said in one line, and the server goes on without. A file that could hold what a purge was for is
//! deleted then, and its room on the disk is given back at once. Later it begins again with an empty file (`recovery`).

mod environment;
mod folder;
mod mapped_files;
mod recovery;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fs::File,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use cache::{
    store::{How, Insertion, Key, Moment, Object, Store},
    stored::Entry,
};
use parking_lot::{Condvar, MappedRwLockReadGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio::sync::{oneshot, Semaphore};

use self::{
    environment::{is_cut_off, Environment, Read, LONGEST_URL},
    recovery::Recovery,
    writer::give_up,
};
use super::Purge;
pub use writer::write;

/// Bytes in memory that may wait to be written; what comes then is not written.
const MAX_BYTES: usize = 16 << 20;
/// Changes that may wait; what comes then makes the disk's part begin anew.
const MAX_JOBS: usize = 1 << 16;
/// Looks at the same time.
const MAX_READERS: usize = 8;
/// Keys whose changes are told apart; two that are not throw away a look more.
const EPOCHS: usize = 4096;

/// What is said of the disk's part, in the log.
pub type Say = Arc<dyn Fn(String) + Send + Sync>;

/// The disk's part of the cache.
pub struct Disk {
    /// None: it was given up. Each reader of the files holds it; the writing thread takes it from all to close and to replace them.
    environment: RwLock<Option<Environment>>,
    path: PathBuf,
    /// Bytes that the file may have.
    size: u64,
    /// What keys are made with.
    secret: [u64; 2],
    waiting: Mutex<PendingWrites>,
    wake: Condvar,
    readers: Arc<Semaphore>,
    given_up: AtomicBool,
    recovery: Mutex<Recovery>,
    say: Say,
    counts: Counts,
    /// Held as long as the files are ours.
    lock: Mutex<folder::Lock>,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    written: AtomicU64,
    evicted: AtomicU64,
    unwritten: AtomicU64,
    damaged: AtomicU64,
}

/// Figures of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Bytes in use within the file.
    pub bytes: u64,
    /// Bytes that the file may have.
    pub budget: u64,
    pub responses: u64,
    /// Looks that found something, since the server began.
    pub hits: u64,
    pub misses: u64,
    /// Records written so far.
    pub written: u64,
    /// Records that made room for others so far.
    pub evicted: u64,
    /// Records that were not written, since too many waited already or they were too large, so far.
    pub unwritten: u64,
    /// Records that were thrown away since their checksum did not match, so far.
    pub damaged: u64,
    /// Something went wrong, and it is not used.
    pub given_up: bool,
    /// When it is tried again, if it is.
    pub again_in: Option<Duration>,
}

/// What the writing thread has yet to do.
struct PendingWrites {
    jobs: VecDeque<Job>,
    /// Of what is to be written.
    bytes: usize,
    /// Keys that are being changed, by how many.
    changing: HashMap<Key, u32>,
    /// Go up with each change of a key.
    epochs: Box<[u32]>,
    /// Purges that are not on disk yet: the moments before them, by number.
    purging: BTreeMap<u64, Moment>,
    purges: u64,
    /// The purge that drops all since there was too much to follow: until it is done nothing is found.
    anew: Option<u64>,
    /// The files are to be closed.
    closing: Option<Closing>,
    ended: bool,
}

/// Files that were given up.
struct Closing {
    /// The one that was deleted.
    deleted: Option<File>,
}

enum Job {
    Write { key: Key, kept: Arc<Entry>, moment: Moment, weight: usize },
    Remove(Key),
    Purge { number: u64, what: Purge, how: How, done: oneshot::Sender<u64> },
}

/// A purge that has begun.
pub struct PurgeMark {
    number: u64,
}

/// Tells when a purge is on disk, and how many responses it met.
pub type PurgeDone = oneshot::Receiver<u64>;

impl Disk {
    /// Opens the files in `folder`, at most `size` bytes. `say` is told, in one line each, of what is worth knowing.
    /// None: there is no disk tier, and `say` was told why.
    pub fn open(folder: &Path, size: u64, say: Say) -> Option<Disk> {
        Disk::open_with(folder, size, None, say)
    }

    /// Opens them for a cache whose keys are made with `secret`, as far as they are not there yet.
    pub fn open_with(folder: &Path, size: u64, secret: Option<[u64; 2]>, say: Say) -> Option<Disk> {
        let opened = folder::open(folder, size, secret, &say);
        let (environment, lock) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                say(format!("The cache's disk is off: {}: {why}", folder.display()));
                return None;
            }
        };
        let (environment, failed) = match environment {
            Ok(environment) => (Some(environment), None),
            Err(error) => (None, Some(error)),
        };
        let opened = environment.as_ref().map(Environment::secret);
        let disk = Disk {
            environment: RwLock::new(environment),
            path: folder.join(environment::FILE),
            size,
            secret: opened.or(secret).unwrap_or_else(environment::new_secret),
            waiting: Mutex::new(PendingWrites {
                jobs: VecDeque::new(),
                bytes: 0,
                changing: HashMap::new(),
                epochs: vec![0; EPOCHS].into(),
                purging: BTreeMap::new(),
                purges: 0,
                anew: None,
                closing: None,
                ended: false,
            }),
            wake: Condvar::new(),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            given_up: AtomicBool::new(false),
            recovery: Mutex::default(),
            say,
            counts: Counts::default(),
            lock: Mutex::new(lock),
        };
        if let Some(error) = failed {
            give_up(&disk, &error);
        }
        Some(disk)
    }

    /// Where its files are.
    pub fn folder(&self) -> Option<&Path> {
        self.path.parent()
    }

    /// What keys are made with, so that they are the same as before.
    pub fn secret(&self) -> [u64; 2] {
        self.secret
    }

    /// Reads the file's own figures: call it where that may wait.
    pub fn usage(&self) -> DiskUsage {
        let files = self.files();
        let (bytes, responses) = files.as_ref().map_or((0, 0), |files| files.used());
        let due = self.recovery.lock().due();
        let count = |count: &AtomicU64| count.load(Relaxed);
        DiskUsage {
            bytes,
            budget: self.size,
            responses,
            hits: count(&self.counts.hits),
            misses: count(&self.counts.misses),
            written: count(&self.counts.written),
            evicted: count(&self.counts.evicted),
            unwritten: count(&self.counts.unwritten),
            damaged: count(&self.counts.damaged),
            given_up: files.is_none(),
            again_in: due.map(|due| due.saturating_duration_since(Instant::now())),
        }
    }

    /// The files, unless they were given up. They stay open for as long as this is held.
    fn files(&self) -> Option<MappedRwLockReadGuard<'_, Environment>> {
        let files = RwLockReadGuard::try_map(self.environment.read(), Option::as_ref).ok()?;
        self.is_on().then_some(files)
    }

    /// Whether anything is read or written.
    pub fn is_on(&self) -> bool {
        !self.given_up.load(Relaxed)
    }

    /// A turn for a look: not too many at a time.
    pub fn readers(&self) -> &Arc<Semaphore> {
        &self.readers
    }

    /// Announces that what lies under the key is about to change in memory. To be followed by what became of it.
    pub fn change(&self, key: Key) -> Change<'_> {
        let mut waiting = self.waiting();
        waiting.touch(key);
        *waiting.changing.entry(key).or_default() += 1;
        Change { disk: self, key: Some(key) }
    }

    /// Announces a purge. To be called before memory is purged.
    pub fn begin_purge(&self, store: &Store<Entry>) -> PurgeMark {
        let mut waiting = self.waiting();
        waiting.purges += 1;
        let number = waiting.purges;
        waiting.purging.insert(number, store.moment());
        PurgeMark { number }
    }

    /// Whether a purge is not on disk yet.
    pub fn is_purging(&self) -> bool {
        !self.waiting().purging.is_empty()
    }

    /// Purges, now that memory has been.
    pub fn purge(&self, purging: PurgeMark, what: Purge, how: How) -> PurgeDone {
        let (done, purged) = oneshot::channel();
        self.push(Job::Purge { number: purging.number, what, how, done });
        purged
    }

    /// Looks for a key, and puts what is there into memory. It reads from the disk: call it where that may wait.
    pub fn recall(&self, store: &Store<Entry>, key: Key) -> Option<Arc<Entry>> {
        let files = self.files()?;
        let (epoch, moment) = {
            let waiting = self.waiting();
            if waiting.changing.contains_key(&key) || waiting.anew.is_some() {
                return None;
            }
            let moment = waiting.purging.values().min().copied().unwrap_or_else(|| store.moment());
            (waiting.epoch(key), moment)
        };
        let kept = match files.read(key) {
            Ok(Read::Found(kept)) => Arc::new(kept),
            Ok(Read::Damaged) => {
                self.counts.damaged.fetch_add(1, Relaxed);
                self.change(key).remove();
                return None;
            }
            Err(error) if is_cut_off(&error) => {
                give_up(self, &error);
                return None;
            }
            Ok(Read::Nothing) | Err(_) => {
                self.counts.misses.fetch_add(1, Relaxed);
                return None;
            }
        };
        let waiting = self.waiting();
        let meanwhile = waiting.changing.contains_key(&key) || waiting.epoch(key) != epoch || waiting.anew.is_some();
        if meanwhile || !self.is_on() {
            return None;
        }
        let inserted = store.insert_since(key, kept.clone(), moment);
        drop(waiting);
        let found = inserted == Insertion::Stored;
        (if found { &self.counts.hits } else { &self.counts.misses }).fetch_add(1, Relaxed);
        found.then_some(kept)
    }

    /// The origins ("https://host") of which there is something. It reads from the disk: call it where that may wait.
    pub fn origins(&self) -> HashSet<String> {
        let Some(files) = self.files() else { return HashSet::new() };
        files.origins().unwrap_or_else(|error| {
            if is_cut_off(&error) {
                give_up(self, &error);
            }
            HashSet::new()
        })
    }

    /// Lets the writing thread end when it has done what waits.
    pub fn end(&self) {
        self.waiting().ended = true;
        self.wake.notify_all();
    }

    fn push(&self, job: Job) {
        let mut waiting = self.waiting();
        waiting.jobs.push_back(job);
        if waiting.jobs.len() > MAX_JOBS {
            waiting.begin_anew();
        }
        drop(waiting);
        self.wake.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, PendingWrites> {
        self.waiting.lock()
    }
}

impl PendingWrites {
    fn touch(&mut self, key: Key) {
        let epoch = &mut self.epochs[key.0 as usize % EPOCHS];
        *epoch = epoch.wrapping_add(1);
    }

    fn epoch(&self, key: Key) -> u32 {
        self.epochs[key.0 as usize % EPOCHS]
    }

    fn changed(&mut self, key: Key) {
        if let Some(changes) = self.changing.get_mut(&key) {
            *changes -= 1;
            if *changes == 0 {
                self.changing.remove(&key);
            }
        }
    }

    /// All is dropped in place of the single changes, which the disk can't follow.
    fn begin_anew(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        self.bytes = 0;
        self.purges += 1;
        let number = self.purges;
        let (done, _) = oneshot::channel();
        self.anew = Some(number);
        for job in jobs {
            match job {
                Job::Write { key, .. } | Job::Remove(key) => self.changed(key),
                purge @ Job::Purge { .. } => self.jobs.push_back(purge),
            }
        }
        self.jobs.push_front(Job::Purge { number, what: Purge::All, how: How::Drop, done });
    }
}

/// A change of a key that has been announced. Dropped without more: nothing has changed.
pub struct Change<'a> {
    disk: &'a Disk,
    key: Option<Key>,
}

impl Change<'_> {
    /// This lies there now; it was asked for at `moment`.
    pub fn write(mut self, kept: Arc<Entry>, moment: Moment) {
        let Some(key) = self.key.take() else { return };
        let weight = kept.weight();
        let mut waiting = self.disk.waiting();
        if kept.url().len() > LONGEST_URL || waiting.bytes + weight > MAX_BYTES {
            drop(waiting);
            self.disk.counts.unwritten.fetch_add(1, Relaxed);
            return self.disk.push(Job::Remove(key));
        }
        waiting.bytes += weight;
        drop(waiting);
        self.disk.push(Job::Write { key, kept, moment, weight });
    }

    /// Nothing lies there any more, or nothing that is for the disk.
    pub fn remove(mut self) {
        if let Some(key) = self.key.take() {
            self.disk.push(Job::Remove(key));
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.disk.waiting().changed(key);
        }
    }
}
