//! Places for the connections to several upstreams together: each of them takes a descriptor and buffers. It closes none itself.

use std::sync::{
    atomic::{AtomicUsize, Ordering::Relaxed},
    Arc,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;

/// Places, and how to have one when none is free.
pub struct Places {
    all: Arc<Semaphore>,
    /// Closes connections that nobody uses.
    make_room: Box<dyn Fn() + Send + Sync>,
    waiting: AtomicUsize,
}

/// Somebody who is counted among those that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Places {
    /// `all` may be shared with other such places.
    pub fn new(all: Arc<Semaphore>, make_room: Box<dyn Fn() + Send + Sync>) -> Places {
        Places { all, make_room, waiting: AtomicUsize::new(0) }
    }

    /// A place, as soon as there is one.
    ///
    /// # Errors
    /// There never will be one.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(free) = self.all.clone().try_acquire_owned() {
            return Ok(free);
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        (self.make_room)();
        let place = self.all.clone().acquire_owned().await;
        place.map_err(|_| Failure::Full("no connection may be opened".into()))
    }

    /// Somebody waits: what is not in use is not kept.
    pub fn are_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_none_has_room_made_and_waits() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let make_room = || {
            MADE.fetch_add(1, Relaxed);
        };
        let places = Arc::new(Places::new(Arc::new(Semaphore::new(1)), Box::new(make_room)));
        let first = places.take().await.unwrap();
        assert_eq!((MADE.load(Relaxed), places.are_wanted()), (0, false));
        let second = tokio::spawn({
            let places = places.clone();
            async move { places.take().await.is_ok() }
        });
        while !places.are_wanted() {
            tokio::task::yield_now().await;
        }
        assert!(MADE.load(Relaxed) == 1 && !second.is_finished());
        drop(first);
        assert!(second.await.unwrap() && !places.are_wanted());
        // Who does not wait any longer is not waited for.
        let _held = places.take().await.unwrap();
        let given_up = tokio::time::timeout(std::time::Duration::ZERO, places.take()).await;
        assert!(given_up.is_err() && !places.are_wanted());
    }
}
