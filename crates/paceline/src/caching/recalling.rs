//! What outlives the process: which responses go to disk when they are stored, and how they come back into memory.
//! It never lets an event loop wait for the disk.

use std::sync::Arc;

use cache::{
    store::{Insertion, Key, Moment},
    stored::Entry,
};
use http::HeaderMap;

use super::{Cache, CacheRequest, SiteCache};

impl Cache {
    /// Stores what was asked for at `moment`. `own`: it is one visitor's, by an owner's rule, and stays in memory.
    pub(super) fn put(&self, key: Key, kept: Arc<Entry>, moment: Moment, own: bool) -> Insertion {
        let Some(disk) = self.disk().filter(|_| !own) else {
            return self.store.insert_since(key, kept, moment);
        };
        let change = disk.change(key);
        let inserted = self.store.insert_since(key, kept.clone(), moment);
        match inserted {
            Insertion::Stored if outlives(&kept) => change.write(kept, moment),
            Insertion::Stored | Insertion::TooLarge => change.remove(),
            Insertion::Purged => {}
        }
        inserted
    }

    /// Writes to disk once more what is in memory already.
    pub(super) fn put_again(&self, key: Key, kept: Arc<Entry>) {
        if let Some(disk) = self.disk() {
            disk.change(key).write(kept, self.store.moment());
        }
    }

    /// Takes a key out.
    pub(super) fn take(&self, key: Key, own: bool) {
        let disk = self.disk().filter(|_| !own);
        let change = disk.as_ref().map(|disk| disk.change(key));
        self.store.remove(key);
        if let Some(change) = change {
            change.remove();
        }
    }

    /// Whether the disk may have what memory has not.
    pub(super) fn may_recall(&self) -> bool {
        self.disk().is_some_and(|disk| disk.is_on())
    }

    /// Puts into memory what the disk has for a target and the request's nominated fields.
    fn recall(&self, primary: Key, request: &HeaderMap) {
        let Some(disk) = self.disk() else { return };
        let find = |key| self.store.peek(key).or_else(|| disk.recall(&self.store, key));
        if let Some(Entry::Directory(directory)) = find(primary).as_deref() {
            for nominated in &directory.nominations {
                find(self.keys.variant(primary, nominated, request));
            }
        }
    }
}

impl SiteCache {
    /// Looks on disk for what is absent (`Lookup::DiskLookup`). After that, look again.
    pub async fn recall(&self, absent: &CacheRequest, request: &HeaderMap) {
        let primary = absent.primary;
        let Some(disk) = self.cache.disk() else { return };
        let Ok(turn) = disk.readers().clone().acquire_owned().await else { return };
        let (cache, request) = (self.cache.clone(), request.clone());
        let looking = tokio::task::spawn_blocking(move || {
            cache.recall(primary, &request);
            drop(turn);
        });
        // What went wrong there is a miss here.
        let _ = looking.await;
    }
}

/// What a purge could not find after a restart stays in memory: which parameters of a URL do not matter
/// (No-Vary-Search) is learnt anew by each process.
fn outlives(kept: &Entry) -> bool {
    match kept {
        Entry::Response(stored) => !stored.headers.contains_key("no-vary-search"),
        Entry::Directory(_) => true,
        Entry::Derived { .. } | Entry::Session { .. } => false,
    }
}
