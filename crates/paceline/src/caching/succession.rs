//! A cache that goes on in another process: what memory holds as records, purges that come meanwhile, and the disk's
//! part, which only one server may have open. It never speaks with that process itself.

use std::{
    io,
    sync::{mpsc::Sender, Arc},
    time::{Duration, Instant},
};

use cache::{
    record,
    store::{How, Key, Moment},
};

use super::{disk, Cache, Disk, Purge};

/// How long looks at the disk that are under way are waited for.
const LAST_LOOKS: Duration = Duration::from_secs(10);

/// A purge that another process has to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayedPurge(pub Purge, pub How);

/// Where it is told.
pub type Relay = Sender<RelayedPurge>;

impl Cache {
    /// An empty one whose keys are those of another process.
    pub fn succeeding(budget: u64, secret: [u64; 2]) -> Cache {
        Cache::over(budget, secret)
    }

    /// What keys are made with.
    pub fn secret(&self) -> [u64; 2] {
        self.secret
    }

    /// All purges from now on are told to `relay`, too.
    pub fn relay(&self, relay: Option<Relay>) {
        *self.relay.lock() = relay;
    }

    pub(super) fn relayed(&self, what: impl FnOnce() -> RelayedPurge) {
        if let Some(relay) = &*self.relay.lock() {
            // Nobody takes over any more.
            let _ = relay.send(what());
        }
    }

    /// Gives each response (and what leads to it) that is for more than this process, with its key.
    pub fn records(&self, mut give: impl FnMut(Key, &[u8])) {
        self.store.each(|key, kept| {
            if let Some(record) = record::encode(key, kept) {
                give(key, &record);
            }
        });
    }

    /// Keeps what another process has given. `moment`: before it began to. Whether it was kept.
    pub fn take_record(&self, key: Key, record: &[u8], moment: Moment) -> bool {
        let kept = record::decode(key, record, false);
        kept.is_some_and(|kept| self.store.insert_since(key, Arc::new(kept), moment) == cache::store::Insertion::Stored)
    }

    /// Nothing of what is kept here is given any more.
    pub fn forget_all(&self) {
        self.store.purge_all(How::Drop);
    }

    /// Goes on with a disk. False: its keys are made with another secret, so that nothing would be found. Err: its
    /// thread could not be started.
    pub fn attach(&self, disk: Disk) -> io::Result<bool> {
        if disk.secret() != self.secret {
            return Ok(false);
        }
        self.attach_any(disk).map(|()| true)
    }

    pub(super) fn attach_any(&self, disk: Disk) -> io::Result<()> {
        let disk = Arc::new(disk);
        let thread = std::thread::Builder::new().name("cache-disk".into()).spawn({
            let (disk, store, begun) = (disk.clone(), self.store.clone(), self.codes_writer(&disk));
            move || disk::write(&disk, &store, &begun)
        })?;
        *self.writing.lock() = Some(thread);
        *self.disk.write() = Some(disk);
        Ok(())
    }

    /// Goes on with a disk that was given away for nothing. What was purged meanwhile is not known there: then all is.
    pub fn attach_again(&self, disk: Disk, detached: Moment) -> io::Result<()> {
        let purged = detached != self.store.moment();
        self.attach(disk)?;
        // The other process may have said otherwise.
        self.write_codes();
        if purged {
            // Also in memory: a page may have been recalled from there before its disk has heard of it.
            drop(self.purge_here(&Purge::All, How::Drop));
        }
        Ok(())
    }

    /// Writes what waits for the disk and closes its files, so that another process can open them. It waits: call it
    /// where that may be. None: there is no disk, or it is still in use. Else the moment since when purges do not
    /// reach it.
    pub fn detach(&self) -> Option<Moment> {
        let moment = self.store.moment();
        let disk = self.disk.write().take()?;
        disk.end();
        self.join_writer();
        let began = Instant::now();
        let mut shared = disk;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(disk) => {
                    drop(disk);
                    return Some(moment);
                }
                Err(still) if began.elapsed() < LAST_LOOKS => shared = still,
                Err(_) => return None,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_are_told_to_who_takes_over() {
        let cache = Cache::new(1 << 20);
        let (relay, told) = std::sync::mpsc::channel();
        cache.purge(&Purge::All, How::Drop);
        cache.relay(Some(relay));
        cache.purge(&Purge::Tag("a".into()), How::Expire);
        cache.relay(None);
        cache.purge(&Purge::All, How::Drop);
        assert_eq!(told.iter().collect::<Vec<_>>(), [RelayedPurge(Purge::Tag("a".into()), How::Expire)]);
    }

    #[test]
    fn a_disk_goes_from_one_cache_to_the_next() {
        let folder = std::env::temp_dir().join(format!("paceline-succession-{}", std::process::id()));
        let open = || Disk::open(&folder, 1 << 20, Arc::new(|line| panic!("{line}"))).unwrap();
        let old = Cache::with_disk(1 << 20, open()).unwrap();
        let new = Arc::new(Cache::succeeding(1 << 20, old.secret()));
        assert!(old.detach().is_some() && old.disk().is_none());
        assert!(new.attach(open()).unwrap() && new.disk().is_some());
        // Back again, as if nobody had taken over.
        let detached = new.detach().unwrap();
        new.purge(&Purge::All, How::Drop);
        new.attach_again(open(), detached).unwrap();
        let stranger = Arc::new(Cache::new(1 << 20));
        new.close();
        assert!(new.detach().is_some() && !stranger.attach(open()).unwrap());
        // The file was deleted, as that of a disk that was full.
        std::fs::remove_dir_all(&folder).unwrap();
        let open = || Disk::open_with(&folder, 1 << 20, Some(new.secret()), Arc::new(|line| panic!("{line}"))).unwrap();
        assert!(new.attach(open()).unwrap() && new.detach().is_some());
        assert!(!stranger.attach(open()).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
