//! The thread that writes: what waits is taken in one go and committed together, in the order in which it came. When that fails for good,
//! it gives back the room that the file had. It never keeps a purge waiting for records behind it.

use std::{
    collections::HashSet,
    sync::{atomic::Ordering::Relaxed, Arc},
    time::Duration,
};

use cache::{
    record,
    store::{How, Key, Object, Store},
    stored::Entry,
};
use heed::Error;

use super::{environment::is_full, Disk, Job};
use crate::caching::Purge;

/// Records in one transaction.
const MAX: usize = 64;
/// Until so many wait, or for so long, they are gathered.
const GATHER: Duration = Duration::from_millis(50);
/// How often room is made for one batch.
const TRIES: usize = 4;

/// One record to be changed.
enum Step {
    Put(Key, Arc<Entry>, Vec<u8>),
    Remove(Key),
}

impl Step {
    fn key(&self) -> Key {
        match self {
            Step::Put(key, ..) | Step::Remove(key) => *key,
        }
    }

    fn length(&self) -> u64 {
        match self {
            Step::Put(_, _, record) => record.len() as u64,
            Step::Remove(_) => 0,
        }
    }
}

/// Writes until the disk's part is ended and nothing waits.
pub fn write(disk: &Disk, store: &Store<Entry>) {
    while let Some(jobs) = next(disk) {
        let mut steps = Vec::new();
        let mut failed = None;
        let mut changed = Vec::new();
        for job in jobs {
            match job {
                Job::Write { key, kept, moment, weight } => {
                    disk.waiting().bytes -= weight;
                    changed.push(key);
                    steps.extend(step(disk, store, key, kept, moment));
                }
                Job::Remove(key) => {
                    changed.push(key);
                    steps.push(Step::Remove(key));
                }
                Job::Purge { number, what, how, done } => {
                    let done_before = commit(disk, store, std::mem::take(&mut steps));
                    match done_before.and_then(|()| purge(disk, &what, how)) {
                        Ok(count) => {
                            settle(disk, &mut changed, Some(number));
                            let _ = done.send(count);
                        }
                        Err(error) => {
                            give_up(disk, &error);
                            failed = Some(());
                            settle(disk, &mut changed, Some(number));
                            let _ = done.send(0);
                        }
                    }
                }
            }
            if failed.is_some() {
                steps.clear();
            }
        }
        if let Err(error) = commit(disk, store, steps) {
            give_up(disk, &error);
        }
        settle(disk, &mut changed, None);
        give_room_back(disk);
    }
    if !disk.given_up.load(Relaxed) {
        let _ = disk.environment.sync();
    }
}

/// What waits, once it is worth a commit.
fn next(disk: &Disk) -> Option<Vec<Job>> {
    let mut waiting = disk.waiting();
    while waiting.jobs.is_empty() {
        if disk.deleted.lock().is_some() {
            return Some(Vec::new());
        }
        if waiting.ended {
            return None;
        }
        disk.wake.wait(&mut waiting);
    }
    let until = std::time::Instant::now() + GATHER;
    loop {
        let urgent = waiting.ended || waiting.jobs.len() >= MAX || waiting.jobs.iter().any(is_purge);
        let left = until.saturating_duration_since(std::time::Instant::now());
        if urgent || left.is_zero() {
            break;
        }
        disk.wake.wait_for(&mut waiting, left);
    }
    let count = waiting.jobs.len().min(MAX);
    Some(waiting.jobs.drain(..count).collect())
}

fn is_purge(job: &Job) -> bool {
    matches!(job, Job::Purge { .. })
}

/// A record for what is to be written; nothing, if it was purged since it was asked for.
fn step(disk: &Disk, store: &Store<Entry>, key: Key, kept: Arc<Entry>, moment: cache::store::Moment) -> Option<Step> {
    if store.purged_since(moment, kept.url(), kept.tags()) {
        return Some(Step::Remove(key));
    }
    match record::encode(key, &kept).filter(|record| record.len() as u64 <= disk.environment.room() / 8) {
        Some(record) => Some(Step::Put(key, kept, record)),
        None => {
            disk.counts.unwritten.fetch_add(1, Relaxed);
            Some(Step::Remove(key))
        }
    }
}

/// Writes records in transactions of a size that there is room for.
fn commit(disk: &Disk, store: &Store<Entry>, steps: Vec<Step>) -> Result<(), Error> {
    if disk.given_up.load(Relaxed) {
        return Ok(());
    }
    let most = disk.environment.room() / 8;
    let mut batch: Vec<Step> = Vec::new();
    let mut bytes = 0;
    for step in steps {
        if bytes + step.length() > most {
            attempt(disk, store, std::mem::take(&mut batch), bytes)?;
            bytes = 0;
        }
        bytes += step.length();
        batch.push(step);
    }
    if batch.is_empty() {
        Ok(())
    } else {
        attempt(disk, store, batch, bytes)
    }
}

/// Writes a batch, making room for it. What finds none after all is not written; what it would have replaced goes.
fn attempt(disk: &Disk, store: &Store<Entry>, batch: Vec<Step>, bytes: u64) -> Result<(), Error> {
    let environment = &disk.environment;
    let wanted = |key| store.peek(key).is_some();
    // Each record has its entries beside it, and takes whole pages.
    let needed = bytes + batch.len() as u64 * 8192;
    for nth in 0..TRIES {
        let (used, _) = environment.used();
        let room = environment.room();
        let over = (used + needed).saturating_sub(room).max(if nth > 0 { room / 8 } else { 0 });
        if over > 0 {
            // With some to spare, so that not each batch has to.
            let evicted = environment.evict(over + room / 64, &wanted);
            match evicted {
                Ok(count) => drop(disk.counts.evicted.fetch_add(count, Relaxed)),
                Err(error) if is_full(&error) => drop(environment.clear()?),
                Err(error) => return Err(error),
            }
        }
        match environment.change(|txn| apply(disk, txn, &batch)) {
            Ok(written) => {
                disk.counts.written.fetch_add(written, Relaxed);
                return Ok(());
            }
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let puts = batch.iter().filter(|step| matches!(step, Step::Put(..))).count();
    disk.counts.unwritten.fetch_add(puts as u64, Relaxed);
    let keys: HashSet<Key> = batch.iter().map(Step::key).collect();
    let removed = environment.change(|txn| keys.iter().try_for_each(|key| environment.remove(txn, *key).map(drop)));
    match removed {
        Err(error) if is_full(&error) => environment.clear().map(drop),
        other => other,
    }
}

fn apply(disk: &Disk, txn: &mut heed::RwTxn<'_>, batch: &[Step]) -> Result<u64, Error> {
    let mut written = 0;
    for step in batch {
        match step {
            Step::Put(key, kept, record) => {
                disk.environment.put(txn, *key, kept, record)?;
                written += 1;
            }
            Step::Remove(key) => drop(disk.environment.remove(txn, *key)?),
        }
    }
    Ok(written)
}

fn purge(disk: &Disk, what: &Purge, how: How) -> Result<u64, Error> {
    if disk.given_up.load(Relaxed) {
        return Ok(0);
    }
    let purged = match disk.environment.purge(what, how) {
        // Rather too much than too little.
        Err(error) if is_full(&error) => disk.environment.clear(),
        other => other,
    }?;
    if purged > 0 {
        disk.environment.sync()?;
    }
    Ok(purged)
}

/// These keys, and this purge, are on disk as they are in memory.
fn settle(disk: &Disk, keys: &mut Vec<Key>, purge: Option<u64>) {
    let mut waiting = disk.waiting();
    keys.drain(..).for_each(|key| waiting.changed(key));
    if let Some(number) = purge {
        waiting.purging.remove(&number);
        waiting.anew = waiting.anew.filter(|anew| *anew != number);
    }
}

/// What is on disk can't be kept true any more: it goes, and nothing is read or written from now on.
pub(super) fn give_up(disk: &Disk, error: &Error) {
    if !disk.given_up.swap(true, Relaxed) {
        // While it is open, and it is mapped until the server ends, a deleted file takes as much of the disk as before.
        let opened = std::fs::File::options().write(true).open(&disk.path);
        let removed = std::fs::remove_file(&disk.path);
        let unless = match removed {
            Ok(()) => String::new(),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(why) => format!(" (delete {} before the next start: {why})", disk.path.display()),
        };
        // LMDB's word for a write that was cut short.
        let full = match error {
            Error::Io(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => ": is it full?",
            _ => "",
        };
        (disk.say)(format!("The cache's disk is off now: {error}{full}{unless}"));
        {
            // The writing thread looks for it under this lock before it waits.
            let _waiting = disk.waiting();
            *disk.deleted.lock() = opened.ok();
        }
        disk.wake.notify_all();
    }
}

/// Takes the room on the disk from the file that was deleted. Nobody reads what is mapped of it any more.
fn give_room_back(disk: &Disk) {
    let Some(file) = disk.deleted.lock().take() else { return };
    let _all = disk.access.write();
    let _ = file.set_len(0);
}
