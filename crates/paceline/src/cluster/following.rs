//! The journal is read and obeyed, and the server hears again and again that this front is there; its answer has what is
//! closed on all fronts, and what this one is told to restart. It never writes into the journal.

use std::{
    mem,
    sync::{
        atomic::Ordering::{Relaxed, SeqCst},
        Arc,
    },
    time::{Duration, Instant},
};

use ::cluster::{Doubt, Entry, Millis, Position, Question};
use cache::store::How;
use tokio::time::{sleep, timeout};

use super::{error::LinkError, link::Reader, now, Cluster};
use crate::{caching::Purge, observe::log::Name};

/// Between two tries to reach the server.
const RETRY: Duration = Duration::from_millis(100);
/// The server hears of news not more often than this.
const SPACE: Duration = Duration::from_millis(10);
/// A journal that can't be read for so long, though its server answers, is spoken of.
const UNREAD: Duration = Duration::from_secs(5);
/// How often the position is kept.
const SAVE: Duration = Duration::from_secs(1);

impl Cluster {
    /// Says that this front is there, and hears where the journal ends: a fifth of `partition_ttl` apart, and after each
    /// purge that others may wait for.
    pub(super) async fn beat(self: Arc<Self>) {
        let interval = (self.settings.partition_ttl / 5).min(Duration::from_secs(1));
        let ttl = self.settings.partition_ttl.as_millis() as u64;
        loop {
            let (asked, beat) = (now(), self.begun.fetch_add(1, SeqCst) + 1);
            let question = self.follower.lock().ask(asked);
            match self.link.beat(asked, |since| self.myself(since), ttl, &self.closed_text()).await {
                Ok(answer) => {
                    self.heard(question, answer.end);
                    if self.follower.lock().applied_since(answer.since) > answer.applied {
                        // It is known only now that this is the journal that was read.
                        self.news.notify_one();
                    }
                    self.heard_closed(&answer.closed, &answer.closed_sites).await;
                    self.heard_order(&answer.order, asked, answer.order_left);
                    self.reached();
                    self.told.send_replace(beat);
                    sleep(SPACE).await;
                    let _ = timeout(interval, self.news.notified()).await;
                }
                Err(why) => {
                    self.lost(&why);
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Where the journal ends.
    fn heard(&self, question: Question, end: Position) {
        let doubt = self.follower.lock().end_is(question, end, now());
        self.settle(doubt);
    }

    /// Reads the journal.
    pub(super) async fn read(self: Arc<Self>) {
        let (mut since, mut is_said) = (None, false);
        loop {
            let why = match self.link.reader().await {
                Ok(mut reader) => loop {
                    match self.read_on(&mut reader).await {
                        Ok(()) => self.is_read(&mut since, &mut is_said),
                        Err(why) => break why,
                    }
                },
                Err(why) => why,
            };
            // Why the server does not answer is said by the beat, which notices it, too.
            since = self.is_reached().then(|| since.unwrap_or_else(Instant::now));
            if !is_said && since.is_some_and(|since| since.elapsed() >= UNREAD) {
                is_said = true;
                self.cannot_read_journal(&why);
            }
            sleep(RETRY).await;
        }
    }

    fn is_read(&self, since: &mut Option<Instant>, is_said: &mut bool) {
        *since = None;
        if mem::take(is_said) {
            self.log.event(Name::Cluster, format!("Cluster {}: purges are read again", self.settings.name));
        }
    }

    /// A user without a right, or a proxy that does not know the command.
    fn cannot_read_journal(&self, why: &LinkError) {
        let text = format!(
            "Cluster {}: purges can't be read from {}, though it answers: {why}. From the next purge on each page is asked from the \
             application",
            self.settings.name,
            self.link.place()
        );
        self.log.event(Name::Cluster, text);
    }

    async fn read_on(&self, reader: &mut Reader) -> Result<(), LinkError> {
        let at = self.follower.lock().at().map(|at| at.number);
        let Some(number) = at else {
            // The beat says where it begins.
            sleep(SPACE).await;
            return Ok(());
        };
        let began = now();
        let entries = self.link.read(reader, number).await?;
        if self.found(entries, began) {
            // Perhaps it is not the Valkey any more that is asked where the journal ends.
            Err(LinkError::MissingEntries)
        } else {
            Ok(())
        }
    }

    /// What a look at the journal that began at `began` has found. True: entries should have been there, and none was.
    fn found(&self, entries: Vec<Entry>, began: Millis) -> bool {
        let (mut doubt, mut orders) = (None, Vec::new());
        let mut follower = self.follower.lock();
        if entries.is_empty() {
            doubt = follower.found_nothing(began);
        }
        let is_missing = doubt.is_some();
        for entry in entries {
            match follower.read(entry) {
                Ok(order) => orders.extend(order),
                Err(why) => doubt = Some(why),
            }
        }
        self.read_back(&follower);
        // A purge of many pages takes long, and requests that miss ask how far the journal was read.
        drop(follower);
        orders.into_iter().for_each(|order| self.apply_purge(order));
        self.settle(doubt);
        self.news.notify_one();
        is_missing
    }

    /// Own purges up to where the journal was read are known by that.
    fn read_back(&self, follower: &::cluster::Follower) {
        let at = follower.at().map_or(0, |at| at.number);
        let mut numbered = self.numbered.lock();
        self.cache.has_number(numbered.take_up_to(at));
    }

    /// The journal has taken own purges; this is the last of them. Perhaps they were read before.
    pub(super) fn wrote(&self, last: Position) {
        let mut follower = self.follower.lock();
        let doubt = follower.wrote(last);
        self.read_back(&follower);
        drop(follower);
        if doubt.is_some() {
            self.settle(doubt);
        }
    }

    /// Up to where this front has read the journal that the server has now. 0: that is not known.
    pub(super) fn read_back_to(&self) -> u64 {
        let Some(since) = self.link.asked_since() else {
            // The next beat does that.
            self.news.notify_one();
            return 0;
        };
        self.follower.lock().applied_since(since)
    }

    /// Obeys a doubt; only then pages are shown.
    fn settle(&self, doubt: Option<Doubt>) {
        if let Some(doubt) = &doubt {
            self.cache.purge_as_told(&Purge::All, How::Drop);
            if *doubt != Doubt::Joined {
                let name = &self.settings.name;
                self.log.event(Name::Cluster, format!("Cluster {name}: all cached pages are dropped: {doubt}"));
            }
        }
        // Fronts that had not read the entries that are missing can't know of them, and perhaps the one that has written them has
        // ended. Others may stand where they were. And of pages that are shared nobody knows whether one of the entries was
        // for them.
        if doubt == Some(Doubt::Replaced) {
            self.replaced.fetch_add(1, Relaxed);
            self.cache.publish_all();
            // Their numbers are another journal's.
            let numbered = self.numbered.lock().take();
            self.cache.has_number(numbered);
        }
        let lease = {
            let mut follower = self.follower.lock();
            follower.applied();
            follower.lease()
        };
        self.cache.show_until(lease);
        if doubt.is_some() {
            self.news.notify_one();
        }
    }

    /// Keeps the position from time to time.
    pub(super) async fn save(self: Arc<Self>) {
        loop {
            sleep(SAVE).await;
            if self.keeps_position.load(Relaxed) {
                self.keep_position(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use ::cluster::{ClosedSites, Order, RestartOrder, Status, What};
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        caching::Cache,
        cluster::{Address, OwnFront, Settings},
        observe::log::{Log, LogConfig},
    };

    /// Up to where the journal is read and applied while an order is obeyed. None: somebody keeps that from the requests.
    type Seen = Option<(Option<u64>, Option<u64>)>;

    struct Own {
        cluster: Weak<Cluster>,
        seen: Arc<Mutex<Vec<Seen>>>,
    }

    impl OwnFront for Own {
        /// The first that is asked for when a URL is purged.
        fn aliases(&self, _: &str) -> Vec<String> {
            let cluster = self.cluster.upgrade().unwrap();
            let number = |at: Option<&Position>| at.map(|at| at.number);
            let follower = cluster.follower.try_lock();
            let seen = follower.map(|follower| (number(follower.at()), number(follower.applied_at())));
            self.seen.lock().push(seen);
            Vec::new()
        }

        fn close(&self, _: &ClosedSites) {}

        fn restart(&self, _: RestartOrder) {}

        fn status(&self) -> Status {
            Status::default()
        }
    }

    #[test]
    fn no_request_waits_while_a_purge_is_applied() {
        let settings = Settings {
            url: Address::parse("unix:///nowhere").unwrap(),
            password_file: None,
            sentinel_password_file: None,
            ca_file: None,
            name: "shop".into(),
            partition_ttl: Duration::from_secs(5),
            shared_cache: None,
            shared_rate_limits: None,
        };
        let log = Log::open(&LogConfig::nowhere()).unwrap();
        let cluster = Cluster::open(&settings, Arc::new(Cache::new(1 << 20)), None, None, Some("shop 3-m3"), log);
        let seen = Arc::new(Mutex::default());
        let _ = cluster.own.set(Box::new(Own { cluster: Arc::downgrade(&cluster), seen: seen.clone() }));
        let entry = Entry {
            at: Position::new(4, "m4"),
            previous: "m3".into(),
            from: "another".into(),
            order: Order { what: What::Url("http://shop.test/".into()), soft: false },
        };
        assert!(!cluster.found(vec![entry], now()));
        assert_eq!(*seen.lock(), [Some((Some(4), Some(3)))]);
        assert_eq!(cluster.place().as_deref(), Some("shop 4-m4"));
    }
}
