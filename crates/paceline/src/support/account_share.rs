//! What the processes of one account may have this server hold through its sockets and in its page caches, of all sites together that run as it: an account may have
//! any number of sites. It holds nothing itself.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use auto_cache::watch::Room;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use unix_user::RunAs;

use super::buffer_memory::Budget;

/// Connections to the sockets for outbound calls and announcements. The server's own account has the bounds of its sites alone.
const CONNECTIONS: usize = 1024;
/// Bytes of announcements that have come in part.
const ANNOUNCED: usize = 64 << 20;
/// Bytes of workers' frames that have come in part.
const FRAMES: usize = 256 << 20;
/// Connections of outbound calls to others.
const UPSTREAMS: usize = 1024;
/// Bytes of the heads of outbound calls, but for the first 16 KB of each.
const HEADS: usize = 16 << 20;

/// Bytes of pages that the automatic page caches keep.
const PAGES: usize = 256 << 20;

/// One account's.
pub struct AccountShare {
    pub connections: Arc<Semaphore>,
    pub announced: Arc<Semaphore>,
    pub frames: Budget,
    pub upstreams: Arc<Semaphore>,
    pub heads: Arc<Semaphore>,
    pub pages: Arc<Room>,
}

impl AccountShare {
    /// The share of who runs as this. There are as many as accounts that have a site, and they stay.
    pub fn of(run_as: &RunAs) -> &'static AccountShare {
        static ALL: LazyLock<Mutex<BTreeMap<Option<u32>, &'static AccountShare>>> = LazyLock::new(Mutex::default);
        let uid = run_as.account().map(|account| account.uid);
        let mut all = ALL.lock();
        let share: &mut &'static AccountShare = all.entry(uid).or_insert_with(|| {
            let of = |most| if uid.is_some() { most } else { Semaphore::MAX_PERMITS };
            let share = AccountShare::new(of(CONNECTIONS), ANNOUNCED, FRAMES);
            let upstreams = Arc::new(Semaphore::new(of(UPSTREAMS)));
            let pages = Arc::new(Room::new(if uid.is_some() { PAGES } else { usize::MAX }));
            Box::leak(Box::new(AccountShare { upstreams, pages, ..share }))
        });
        share
    }

    pub fn new(connections: usize, announced: usize, frames: usize) -> AccountShare {
        AccountShare {
            connections: Arc::new(Semaphore::new(connections)),
            announced: Arc::new(Semaphore::new(announced)),
            frames: Budget::new(frames),
            upstreams: Arc::new(Semaphore::new(UPSTREAMS)),
            heads: Arc::new(Semaphore::new(HEADS)),
            pages: Arc::new(Room::new(PAGES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use unix_user::Account;

    use super::*;

    fn account(uid: u32) -> RunAs {
        RunAs::Account(Arc::new(Account { uid, gid: uid, groups: Vec::new(), name: None, home: "/".into() }))
    }

    #[test]
    fn sites_of_one_account_share_and_others_have_their_own() {
        let [one, other] = [account(4001), account(4002)].map(|run_as| AccountShare::of(&run_as));
        assert!(std::ptr::eq(one, AccountShare::of(&account(4001))));
        let all = one.frames.take(FRAMES).unwrap();
        assert!(one.frames.take(1).is_none() && other.frames.take(1).is_some());
        let _places = one.connections.try_acquire_many(CONNECTIONS as u32).unwrap();
        assert!(one.connections.try_acquire().is_err() && other.connections.try_acquire().is_ok());
        assert!(AccountShare::of(&RunAs::Ourselves).connections.available_permits() > CONNECTIONS);
        drop(all);
        assert_eq!(one.frames.used(), 0);
    }
}
