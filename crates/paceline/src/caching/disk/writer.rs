//! The thread that writes: what waits is taken in one go and committed together, in the order in which it came. When that fails for good,
//! it gives back the room that the file had, and later it begins again. It never keeps a purge waiting for records behind it.

use std::{
    collections::HashSet,
    os::unix::fs::MetadataExt as _,
    sync::{atomic::Ordering::Relaxed, Arc},
    time::{Duration, Instant},
};

use cache::{
    record,
    store::{How, Key, Object, Store},
    stored::Entry,
};
use heed::Error;

use rustix::{fs::statvfs, io::Errno};

use super::{
    environment::{is_full, Environment},
    folder::{begin_again, can_pass},
    recovery, Closing, Disk, Job,
};
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

/// Writes until the disk's part is ended and nothing waits. `begun`: what is to be done when it has begun again with an empty file.
pub fn write(disk: &Disk, store: &Store<Entry>, begun: &dyn Fn()) {
    while let Some(jobs) = next(disk) {
        if !disk.is_on() && jobs.iter().any(is_purge_of_all) {
            disk.recovery.lock().hurry(Instant::now());
        }
        work(disk, store, jobs);
        close_given_up(disk);
        if disk.recovery.lock().is_due(Instant::now()) && !disk.waiting().ended {
            try_again(disk, begun);
        }
    }
    if let Some(environment) = disk.files() {
        let _ = environment.sync();
    }
}

fn work(disk: &Disk, store: &Store<Entry>, jobs: Vec<Job>) {
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
}

/// What waits, once it is worth a commit; nothing, if there is something else to do.
fn next(disk: &Disk) -> Option<Vec<Job>> {
    let mut waiting = disk.waiting();
    while waiting.jobs.is_empty() {
        if waiting.closing.is_some() {
            return Some(Vec::new());
        }
        if waiting.ended {
            return None;
        }
        let due = disk.recovery.lock().due();
        match due {
            Some(due) if due <= Instant::now() => return Some(Vec::new()),
            Some(due) => drop(disk.wake.wait_until(&mut waiting, due)),
            None => disk.wake.wait(&mut waiting),
        }
    }
    let until = Instant::now() + GATHER;
    loop {
        let urgent = waiting.ended || waiting.jobs.len() >= MAX || waiting.jobs.iter().any(is_purge);
        let left = until.saturating_duration_since(Instant::now());
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

fn is_purge_of_all(job: &Job) -> bool {
    matches!(job, Job::Purge { what: Purge::All, .. })
}

/// A record for what is to be written; nothing, if it was purged since it was asked for.
fn step(disk: &Disk, store: &Store<Entry>, key: Key, kept: Arc<Entry>, moment: cache::store::Moment) -> Option<Step> {
    if store.purged_since(moment, kept.url(), kept.tags()) {
        return Some(Step::Remove(key));
    }
    let Some(room) = disk.files().map(|environment| environment.room()) else { return Some(Step::Remove(key)) };
    match record::encode(key, &kept).filter(|record| record.len() as u64 <= room / 8) {
        Some(record) => Some(Step::Put(key, kept, record)),
        None => {
            disk.counts.unwritten.fetch_add(1, Relaxed);
            Some(Step::Remove(key))
        }
    }
}

/// Writes records in transactions of a size that there is room for.
fn commit(disk: &Disk, store: &Store<Entry>, steps: Vec<Step>) -> Result<(), Error> {
    let Some(environment) = disk.files() else { return Ok(()) };
    let most = environment.room() / 8;
    let mut batch: Vec<Step> = Vec::new();
    let mut bytes = 0;
    for step in steps {
        if bytes + step.length() > most {
            attempt(disk, &environment, store, std::mem::take(&mut batch), bytes)?;
            bytes = 0;
        }
        bytes += step.length();
        batch.push(step);
    }
    if batch.is_empty() {
        Ok(())
    } else {
        attempt(disk, &environment, store, batch, bytes)
    }
}

/// Writes a batch, making room for it. What finds none after all is not written; what it would have replaced goes.
fn attempt(
    disk: &Disk,
    environment: &Environment,
    store: &Store<Entry>,
    batch: Vec<Step>,
    bytes: u64,
) -> Result<(), Error> {
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
        match environment.change(|txn| apply(environment, txn, &batch)) {
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

fn apply(environment: &Environment, txn: &mut heed::RwTxn<'_>, batch: &[Step]) -> Result<u64, Error> {
    let mut written = 0;
    for step in batch {
        match step {
            Step::Put(key, kept, record) => {
                environment.put(txn, *key, kept, record)?;
                written += 1;
            }
            Step::Remove(key) => drop(environment.remove(txn, *key)?),
        }
    }
    Ok(written)
}

fn purge(disk: &Disk, what: &Purge, how: How) -> Result<u64, Error> {
    let Some(environment) = disk.files() else { return Ok(0) };
    let purged = match environment.purge(what, how) {
        // Rather too much than too little.
        Err(error) if is_full(&error) => environment.clear(),
        other => other,
    }?;
    if purged > 0 {
        environment.sync()?;
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

/// What is on disk can't be kept true any more: it goes, and nothing is read or written until it begins again.
pub(super) fn give_up(disk: &Disk, error: &Error) {
    if disk.given_up.swap(true, Relaxed) {
        return;
    }
    // While it is open, and mapped, a deleted file takes as much of the disk as before.
    let opened = std::fs::File::options().write(true).open(&disk.path).ok();
    let taken = opened.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |found| found.blocks() * 512);
    let removed = std::fs::remove_file(&disk.path);
    let unless = match removed {
        Ok(()) => String::new(),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(why) => format!(" (delete {} before the next start: {why})", disk.path.display()),
    };
    let why = match error {
        Error::Io(error) => Errno::from_io_error(error),
        _ => None,
    };
    // LMDB's word for a write that was cut short.
    let full = if why == Some(Errno::IO) { ": is it full?" } else { "" };
    let next = if can_pass(error) {
        let needed = recovery::needed(taken, disk.size);
        let pause = disk.recovery.lock().off(Instant::now(), needed);
        let free = match why {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::IO) => "Free disk space. ",
            _ => "",
        };
        format!(
            "{free}It begins again, empty, when at least {} are free in {}: the server looks in {}, then at longer intervals, and \
             when you run `paceline purge --all`",
            units::bytes(needed),
            disk.folder().unwrap_or(&disk.path).display(),
            units::show_duration(pause)
        )
    } else {
        "It stays off until the next start".to_owned()
    };
    (disk.say)(format!("The cache's disk is off now: {error}{full}{unless}. {next}"));
    // The writing thread looks for it under this lock before it waits.
    disk.waiting().closing = Some(Closing { deleted: opened });
    disk.wake.notify_all();
}

/// Closes the files, whose room on the disk is free then. Nobody reads them any more.
fn close_given_up(disk: &Disk) {
    let Some(Closing { deleted }) = disk.waiting().closing.take() else { return };
    let mut environment = disk.environment.write();
    // What another program shortened stays mapped.
    *environment = None;
    if let Some(file) = deleted {
        let _ = file.set_len(0);
    }
}

/// Begins with an empty file, if the disk has the room. It says so when that went well; when not, that is tried again.
pub(super) fn try_again(disk: &Disk, begun: &dyn Fn()) {
    let Some(folder) = disk.folder() else { return };
    let needed = disk.recovery.lock().needed();
    // Where the folder is gone, it is made again.
    let disk_of_it = folder.ancestors().find_map(|place| statvfs(place).ok());
    let has_room = disk_of_it.is_some_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= needed);
    let opened = has_room.then(|| begin_again(folder, disk.size, disk.secret, &mut disk.lock.lock()));
    let Some(Ok(environment)) = opened else { return disk.recovery.lock().put_off(Instant::now()) };
    {
        let mut files = disk.environment.write();
        *files = Some(environment);
        disk.given_up.store(false, Relaxed);
    }
    disk.recovery.lock().on(Instant::now());
    begun();
    (disk.say)("The cache's disk is on again, with an empty file".to_owned());
}
