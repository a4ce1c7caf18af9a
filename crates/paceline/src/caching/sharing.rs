//! The cache of one front among several: its purges are told to the others, and theirs are obeyed here; and until when
//! pages may be shown without asking the application. It never speaks with another front itself.

use std::{
    collections::HashMap,
    sync::{
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
        Arc, OnceLock,
    },
    time::Duration,
};

use ::cluster::Outcome;
use cache::{store::How, Millis};
use parking_lot::Mutex;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use super::{Cache, Purge, Purging};

/// How long those who do not want to wait for the other fronts wait for them.
pub const SHARING_TIME: Duration = Duration::from_millis(50);

/// A purge that the other fronts have to hear of.
#[derive(Debug)]
pub struct Publication {
    /// Its number here, until the journal gives it one (`Cache::has_number`).
    pub number: u64,
    pub what: Purge,
    pub how: How,
    /// Its outcome, for those who want to know.
    pub outcome: oneshot::Sender<Outcome>,
}

/// Tells the outcome of a purge on the other fronts.
pub type PurgeShared = oneshot::Receiver<Outcome>;

/// What a cache has of other fronts. Without any it shows pages for ever.
pub(super) struct Sharing {
    publish: OnceLock<UnboundedSender<Publication>>,
    shown_until: AtomicU64,
    /// Own purges that the journal does not have yet, as far as it was read here. Nothing that they purge is taken from
    /// another front.
    announced: Mutex<HashMap<u64, Purge>>,
    count: AtomicU64,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing {
            publish: OnceLock::new(),
            shown_until: AtomicU64::new(Millis::MAX),
            announced: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }
}

/// Waits until what was purged is so on disk, and on the other fronts unless that takes long.
pub(super) async fn purged(purging: Vec<Purging>) {
    let (on_disk, shared): (Vec<_>, Vec<_>) = purging.into_iter().map(|one| (one.on_disk, one.shared)).unzip();
    for purged in on_disk.into_iter().flatten() {
        // A thread that is gone purges nothing; it has said why.
        let _ = purged.await;
    }
    let shared: Vec<_> = shared.into_iter().flatten().collect();
    if !shared.is_empty() {
        let all = async {
            for shared in shared {
                // The outcome is in the log.
                let _ = shared.await;
            }
        };
        let _ = tokio::time::timeout(SHARING_TIME, all).await;
    }
}

impl Cache {
    /// From now on purges are told to `publish`, too, and no page is shown without asking the application until
    /// `show_until` allows it.
    pub fn share(&self, publish: UnboundedSender<Publication>) {
        self.sharing.shown_until.store(0, Relaxed);
        let _ = self.sharing.publish.set(publish);
    }

    /// Until when pages may be shown without asking the application, by the clock of ages.
    pub fn show_until(&self, until: Millis) {
        // What was purged before is not found by those who read this.
        self.sharing.shown_until.store(until, Release);
    }

    /// Whether pages may be shown without asking the application.
    pub fn may_show(&self, now: Millis) -> bool {
        now < self.sharing.shown_until.load(Acquire)
    }

    /// A purge of another front. Nothing of it is given any more; it is told to nobody.
    pub fn purge_as_told(&self, what: &Purge, how: How) {
        drop(self.purge_here(what, how));
    }

    /// Whether all purges so far have reached the disk, if there is one.
    pub fn is_purged_on_disk(&self) -> bool {
        self.disk().is_none_or(|disk| !disk.is_purging())
    }

    /// Before an own purge is done: from now on nothing of it is taken from another front. The number to publish it with;
    /// None: there are no others.
    pub(super) fn announce(&self, what: &Purge) -> Option<u64> {
        self.sharing.publish.get()?;
        let number = self.sharing.count.fetch_add(1, Relaxed);
        self.sharing.announced.lock().insert(number, what.clone());
        Some(number)
    }

    /// Tells a purge to the other fronts. None: there are none.
    pub(super) fn publish(&self, number: u64, what: &Purge, how: How) -> Option<PurgeShared> {
        let publish = self.sharing.publish.get()?;
        let (outcome, shared) = oneshot::channel();
        publish.send(Publication { number, what: what.clone(), how, outcome }).ok()?;
        Some(shared)
    }

    /// Everything is to be dropped on the other fronts, as it is here.
    pub fn publish_all(&self) {
        let announced = self.announce(&Purge::All);
        drop(announced.and_then(|number| self.publish(number, &Purge::All, How::Drop)));
    }

    /// The journal has these own purges, and was read here up to them.
    pub fn has_number(&self, published: impl IntoIterator<Item = u64>) {
        let mut announced = self.sharing.announced.lock();
        published.into_iter().for_each(|number| drop(announced.remove(&number)));
    }

    /// These own purges have become one of everything.
    pub fn announce_all_for(&self, published: &[u64]) {
        let mut announced = self.sharing.announced.lock();
        published.iter().for_each(|number| drop(announced.remove(number)));
        announced.extend(published.first().map(|number| (*number, Purge::All)));
    }

    /// Whether an own purge that the other fronts may not have heard of yet is for a page.
    pub fn is_announced(&self, url: &str, tags: &[Arc<str>]) -> bool {
        self.sharing.announced.lock().values().any(|purge| purge.covers(url, tags))
    }

    /// Whether such a purge may be for a page whose tags nobody knows yet.
    pub(super) fn may_be_announced(&self, url: &str) -> bool {
        let may_cover = |purge: &Purge| matches!(purge, Purge::Tag(_)) || purge.covers(url, &[]);
        self.sharing.announced.lock().values().any(may_cover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn purges_are_told_to_other_fronts_and_theirs_are_not() {
        let cache = Cache::new(1 << 20);
        assert!(cache.may_show(Millis::MAX - 1) && cache.purge_everywhere(&Purge::All, How::Drop).1.is_none());
        let (publish, mut published) = mpsc::unbounded_channel();
        cache.share(publish);
        assert!(!cache.may_show(0));
        cache.show_until(5);
        assert!(cache.may_show(4) && !cache.may_show(5));
        let (_, shared) = cache.purge_everywhere(&Purge::Tag("a".into()), How::Expire);
        cache.purge_as_told(&Purge::Tag("b".into()), How::Drop);
        let told = published.try_recv().unwrap();
        assert_eq!((told.what, told.how), (Purge::Tag("a".into()), How::Expire));
        let tags: [Arc<str>; 1] = ["a".into()];
        assert!(cache.is_announced("http://h/", &tags) && !cache.is_announced("http://h/", &[]));
        cache.announce_all_for(&[told.number]);
        assert!(cache.is_announced("http://h/", &[]));
        cache.has_number([told.number]);
        assert!(!cache.is_announced("http://h/", &tags));
        told.outcome.send(Outcome::Unsent("no".into())).unwrap();
        assert_eq!(shared.unwrap().try_recv(), Ok(Outcome::Unsent("no".into())));
        assert!(published.try_recv().is_err());
    }
}
