//! Sessions that were found a moment ago, so that a browser that sends many requests costs one look into the store. It
//! is bounded, forgets at once what a logout of this process ends, and never keeps what was read before such a logout.

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicU64, Ordering::SeqCst},
        Arc,
    },
};

use parking_lot::Mutex;

use crate::{Key, Session, UnixMillis};

/// Parts that are locked apart from each other.
const SHARDS: usize = 16;

/// A session in memory.
#[derive(Debug, Clone)]
pub struct CachedSession {
    pub session: Arc<Session>,
    /// When the store lets it go, unless it is touched before.
    pub expires: UnixMillis,
    /// Until then the store is not asked.
    pub fresh_until: UnixMillis,
}

/// Sessions in memory, by their keys.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes that each half of a shard has at most, but for its last session.
    max: usize,
    /// How many logouts there have been.
    logouts: AtomicU64,
}

/// The sessions used last, and those before them: when the first half is full the second one is dropped.
#[derive(Default)]
struct Shard {
    recent: HashMap<Key, CachedSession>,
    /// Bytes of them.
    weight: usize,
    older: HashMap<Key, CachedSession>,
}

/// When a look into the store began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

impl Cache {
    /// A cache of about `max` bytes.
    pub fn new(max: usize) -> Cache {
        Cache { shards: Default::default(), max: max.div_ceil(2 * SHARDS).max(1), logouts: AtomicU64::new(0) }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.0[0] as usize % SHARDS]
    }

    /// The session, if it may be used without asking the store.
    pub fn get(&self, key: &Key, now: UnixMillis) -> Option<CachedSession> {
        let mut shard = self.shard(key).lock();
        let found = match shard.recent.get(key) {
            Some(found) => found.clone(),
            None => {
                let found = shard.older.remove(key)?;
                shard.keep(*key, found.clone(), self.max);
                found
            }
        };
        if now < found.fresh_until && now < found.expires && now < found.session.expires {
            return Some(found);
        }
        shard.remove(key);
        None
    }

    /// Call it before the store is asked.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.logouts.load(SeqCst))
    }

    /// Keeps what was read from the store since `epoch`, unless a session has been ended meanwhile: it may be this one.
    pub fn insert(&self, key: Key, found: CachedSession, epoch: Epoch) {
        let mut shard = self.shard(&key).lock();
        if self.epoch() == epoch {
            shard.keep(key, found, self.max);
        }
    }

    /// These sessions are ended. Call it after the store has removed them.
    pub fn remove(&self, keys: &[Key]) {
        // First, so that who has read before this does not insert after it.
        self.logouts.fetch_add(1, SeqCst);
        for key in keys {
            self.shard(key).lock().remove(key);
        }
    }
}

/// Bytes of a session with its place in the table.
fn weight(found: &CachedSession) -> usize {
    found.session.weight() + 2 * size_of::<(Key, CachedSession)>()
}

impl Shard {
    fn keep(&mut self, key: Key, found: CachedSession, max: usize) {
        if self.weight >= max && !self.recent.contains_key(&key) {
            self.older = std::mem::take(&mut self.recent);
            self.weight = 0;
        }
        self.older.remove(&key);
        self.weight += weight(&found);
        if let Some(before) = self.recent.insert(key, found) {
            self.weight -= weight(&before);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(found) = self.recent.remove(key) {
            self.weight -= weight(&found);
        }
        self.older.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Limits, Mechanism, NewSession};

    fn session() -> CachedSession {
        let proof = NewSession {
            identity: Identity::default(),
            mechanism: Mechanism::Basic,
            provider: None,
            proved_until: Some(900),
            refresh_token: None,
            id_token: None,
        };
        let session = Arc::new(Session::new(proof, &Limits::DEFAULT, 0));
        CachedSession { session, expires: 1_000, fresh_until: 2_000 }
    }

    fn key(number: u32) -> Key {
        Key::of(&[&number.to_be_bytes()])
    }

    #[test]
    fn a_session_is_found_until_the_first_of_its_ends() {
        let cache = Cache::new(1 << 20);
        for (found, last) in [
            (session(), 899),
            (CachedSession { expires: 500, ..session() }, 499),
            (CachedSession { fresh_until: 300, ..session() }, 299),
        ] {
            cache.insert(key(1), found.clone(), cache.epoch());
            assert!(cache.get(&key(1), last).is_some(), "{last}");
            assert!(cache.get(&key(1), last + 1).is_none(), "{last}");
        }
        assert!(cache.get(&key(2), 0).is_none());
    }

    #[test]
    fn what_was_read_before_a_logout_is_not_kept() {
        let cache = Cache::new(1 << 20);
        let epoch = cache.epoch();
        cache.remove(&[key(1)]);
        cache.insert(key(1), session(), epoch);
        assert!(cache.get(&key(1), 0).is_none());
        cache.insert(key(1), session(), cache.epoch());
        assert!(cache.get(&key(1), 0).is_some());
        cache.remove(&[key(1)]);
        assert!(cache.get(&key(1), 0).is_none());
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let cache = Cache::new(1_000 * weight(&session()));
        cache.insert(key(0), session(), cache.epoch());
        for number in 1..20_000 {
            cache.insert(key(number), session(), cache.epoch());
            assert!(cache.get(&key(0), 0).is_some(), "after {number} others");
        }
        let in_shard = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.recent.len() + shard.older.len()
        };
        let held: usize = cache.shards.iter().map(in_shard).sum();
        assert!((500..=1_100).contains(&held), "{held}");
    }
}
