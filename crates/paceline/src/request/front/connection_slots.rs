//! How many connections there is room for: each needs a descriptor, and so does what serves them.
//! It never closes a connection.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
    time::Duration,
};

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::Config,
    observe::log::{Log, Name},
    origins::upstream::KEPT_CONNECTIONS,
};

/// Kept for listeners, logs, event loops, and for files that are being read or spooled.
const OWN: usize = 64;
/// How often it is said that there is no room.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// Places for connections.
pub struct ConnectionSlots {
    places: Arc<Semaphore>,
    limit: usize,
    said: AtomicBool,
}

impl ConnectionSlots {
    /// Takes what the machine allows (the hard limit), less what the front and its workers' channels need.
    pub fn new(config: &Config) -> ConnectionSlots {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
        let allowed = if raised { maximum } else { current };
        let allowed = allowed.map_or(usize::MAX, |allowed| usize::try_from(allowed).unwrap_or(usize::MAX));
        let room = allowed.min(1 << 24);
        // A request to an upstream has a connection of its own there.
        let each = if config.sites.iter().any(|site| site.upstream.is_some()) { 2 } else { 1 };
        ConnectionSlots::within(room / each, reserve(config) / each)
    }

    /// Of a few descriptors half go to connections, whatever is to be kept.
    fn within(allowed: usize, reserve: usize) -> ConnectionSlots {
        let limit = allowed.saturating_sub(reserve).max(allowed / 2).max(1);
        ConnectionSlots { places: Arc::new(Semaphore::new(limit)), limit, said: AtomicBool::new(false) }
    }

    /// A place for one connection; waits for one, and says so.
    pub async fn place(&self, log: &Log) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        if !self.said.swap(true, Relaxed) {
            let limit = self.limit;
            log.event(
                Name::Full,
                format!(
                "All {limit} connections are in use: new ones wait. More need a higher limit of open files (ulimit -n)"
            ),
            );
        }
        let waited = tokio::time::Instant::now();
        let place = self.places.clone().acquire_owned().await.ok();
        if waited.elapsed() > SAY_AGAIN {
            self.said.store(false, Relaxed);
        }
        place
    }

    /// A place if there is one now.
    pub fn free_place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Connections that are open, and those there is room for. (Each accepting loop holds a place ahead.)
    pub fn taken(&self) -> (usize, usize) {
        (self.limit - self.places.available_permits(), self.limit)
    }
}

/// Channels, control sockets and output pipes of all workers, twice over for a restart; channels of streams once.
fn reserve(config: &Config) -> usize {
    let of_sites = config.sites.iter().map(|site| match &site.upstream {
        Some(targets) => KEPT_CONNECTIONS * config.front_threads * targets.all().len(),
        None => 2 * (4 + site.workers * (2 * site.threads + 4)) + site.workers * site.stream_threads,
    });
    OWN + 4 * config.front_threads + of_sites.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::log::LogConfig;

    #[test]
    fn a_full_house_waits_until_somebody_leaves() {
        let log = Log::open(&LogConfig::nowhere()).unwrap();
        assert_eq!(ConnectionSlots::within(1000, 100).taken(), (0, 900));
        assert_eq!(ConnectionSlots::within(100, 90).taken(), (0, 50));
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let room = Arc::new(ConnectionSlots::within(2, 0));
            let (first, second) = (room.place(&log).await, room.place(&log).await);
            let third = tokio::spawn({
                let (room, log) = (room.clone(), log.clone());
                async move { room.place(&log).await.is_some() }
            });
            tokio::task::yield_now().await;
            assert!(!third.is_finished() && room.taken() == (2, 2));
            drop(first);
            assert!(third.await.unwrap());
            drop(second);
        });
    }
}
