//! This front's own purges: they are written into the journal, as soon as that is possible, and those who wait hear when
//! the other fronts have applied them. It never purges anything.

use std::{
    collections::VecDeque,
    mem,
    sync::{atomic::Ordering::Relaxed, Arc},
    time::Duration,
};

use ::cluster::{Millis, Order, Outcome, Roll, What};
use cache::store::How;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc::UnboundedReceiver, oneshot, Notify},
    time::{sleep, timeout},
};

use super::{now, Cluster};
use crate::{
    caching::{Publication, Purge},
    observe::log::Name,
};

/// Purges that wait to be sent; with more, everything is purged.
const MAX_UNSENT: usize = 10_000;
/// Purges that are in the journal and were not read back yet; with more, they count as one of everything.
const MAX_NUMBERED: usize = 10_000;
/// Purges that are sent at once.
const BATCH: usize = 64;
/// Between two tries.
const RETRY: Duration = Duration::from_millis(200);
/// Between two looks at who has confirmed: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// While nobody waits, it is looked once in each `partition_ttl` who is there, but not more and not less often than this: it
/// must be known before the journal is lost.
const ROLL_CALL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Who fell silent so long ago is no news to anybody.
const FORGOTTEN: Millis = 60_000;

/// The number that a purge got means another one now.
const REPLACED: &str = "the journal was emptied, or is an older one; all servers are told to drop everything";

/// A purge that is not in the journal yet.
struct Unsent {
    /// As the cache has announced it.
    announced: u64,
    order: Order,
    outcome: Option<oneshot::Sender<Outcome>>,
}

/// A purge that is in the journal, and somebody waits for.
struct Unconfirmed {
    number: u64,
    /// The journal in which it has that number: `Cluster::replaced`.
    journal: u64,
    since: Millis,
    outcome: oneshot::Sender<Outcome>,
}

/// Own purges that are in the journal and were not read back yet: the last one's number there, and theirs here.
#[derive(Default)]
pub(super) struct Numbered(Vec<(u64, Vec<u64>)>);

impl Numbered {
    /// The journal has these. The numbers here of those that count as one of everything from now on: it has the first one's.
    fn push(&mut self, last: u64, announced: Vec<u64>) -> Vec<u64> {
        self.0.push((last, announced));
        let count: usize = self.0.iter().map(|(_, announced)| announced.len()).sum();
        if count <= MAX_NUMBERED {
            return Vec::new();
        }
        let all = self.take();
        self.0.push((last, all.first().copied().into_iter().collect()));
        all
    }

    /// The numbers here of those up to where the journal was read.
    pub(super) fn take_up_to(&mut self, at: u64) -> Vec<u64> {
        let (read, left) = mem::take(&mut self.0).into_iter().partition(|(last, _)| *last <= at);
        self.0 = left;
        Numbered(read).take()
    }

    /// Those of all.
    pub(super) fn take(&mut self) -> Vec<u64> {
        self.0.drain(..).flat_map(|(_, announced)| announced).collect()
    }
}

#[derive(Default)]
struct Confirming {
    all: Mutex<Vec<Unconfirmed>>,
    more: Notify,
}

/// Sends what comes, for ever.
pub async fn run(cluster: Arc<Cluster>, mut publications: UnboundedReceiver<Publication>) {
    let confirming = Arc::new(Confirming::default());
    let confirmer = tokio::spawn(confirm(cluster.clone(), confirming.clone()));
    cluster.tasks.lock().push(confirmer.abort_handle());
    let mut unsent: VecDeque<Unsent> = VecDeque::new();
    let mut trouble: Option<String> = None;
    loop {
        if unsent.is_empty() {
            let Some(first) = publications.recv().await else { return };
            unsent.push_back(first.into());
        }
        while let Ok(more) = publications.try_recv() {
            unsent.push_back(more.into());
        }
        cluster.cache.announce_all_for(&bound(&mut unsent));
        cluster.unsent.store(unsent.len() as u64, Relaxed);
        // Nobody waits for what is known to take long.
        if let Some(why) = &trouble {
            refuse(&mut unsent, why);
            tokio::select! {
                () = sleep(RETRY) => {}
                () = cluster.back.notified() => {}
                more = publications.recv() => {
                    unsent.extend(more.map(Unsent::from));
                    if cluster.trouble().is_some() {
                        continue;
                    }
                }
            }
        }
        let (since, journal) = (now(), cluster.replaced.load(Relaxed));
        let orders: Vec<_> = unsent.iter().take(BATCH).map(|one| one.order.clone()).collect();
        match cluster.link.publish(&cluster.me.id, &orders).await {
            Ok(last) => {
                trouble = None;
                let number = last.number;
                let announced = unsent.iter().take(orders.len()).map(|one| one.announced).collect();
                number_them(&cluster, number, announced);
                cluster.wrote(last);
                let waited_for = unsent.drain(..orders.len()).filter_map(|one| one.outcome);
                let waited_for = waited_for.filter(|outcome| !outcome.is_closed());
                confirming.all.lock().extend(waited_for.map(|outcome| Unconfirmed { number, journal, since, outcome }));
                confirming.more.notify_one();
            }
            Err(why) => {
                let why = why.to_string();
                refuse(&mut unsent, &why);
                if trouble.is_none() {
                    let place = cluster.link.place();
                    let text = format!(
                        "Cluster: a purge can't be sent to {place}: {why}. It is sent as soon as that is possible"
                    );
                    cluster.log.event(Name::Cluster, text);
                }
                trouble = Some(why);
            }
        }
        cluster.unsent.store(unsent.len() as u64, Relaxed);
    }
}

/// The journal has own purges; `last` is the number of the last one there.
fn number_them(cluster: &Cluster, last: u64, announced: Vec<u64>) {
    // Under the lock: they may be read back at any moment.
    let mut numbered = cluster.numbered.lock();
    cluster.cache.announce_all_for(&numbered.push(last, announced));
}

/// Says to all who wait that it takes longer.
fn refuse(unsent: &mut VecDeque<Unsent>, why: &str) {
    for outcome in unsent.iter_mut().filter_map(|one| one.outcome.take()) {
        let _ = outcome.send(Outcome::Unsent(why.to_owned()));
    }
}

/// Too many become one that purges everything: it has the first one's number, and theirs are returned.
fn bound(unsent: &mut VecDeque<Unsent>) -> Vec<u64> {
    if unsent.len() <= MAX_UNSENT {
        return Vec::new();
    }
    refuse(unsent, "too many purges wait");
    let announced: Vec<_> = unsent.drain(..).map(|one| one.announced).collect();
    let first = announced.first().copied().unwrap_or(0);
    unsent.push_back(Unsent { announced: first, order: Order::ALL, outcome: None });
    announced
}

/// Looks who has confirmed, while somebody waits.
async fn confirm(cluster: Arc<Cluster>, confirming: Arc<Confirming>) {
    let mut roll = Roll::default();
    let (mut pause, mut idle) = (FIRST_LOOK, FIRST_LOOK);
    let mut connection = cluster.link.connections();
    loop {
        confirming.all.lock().retain(|one| !one.outcome.is_closed());
        let count = confirming.all.lock().len();
        cluster.unconfirmed.store(count as u64, Relaxed);
        if count == 0 {
            pause = FIRST_LOOK;
            if timeout(idle, confirming.more.notified()).await.is_ok() {
                continue;
            }
            idle = cluster.settings.partition_ttl.clamp(ROLL_CALL.0, ROLL_CALL.1);
        }
        let asked = now();
        // Not after the answer: a server that joins meanwhile is not in it, and has read none of what is sent by then.
        let waiting = mem::take(&mut *confirming.all.lock());
        let connections = cluster.link.connections();
        match cluster.link.members().await {
            // The answer may be of the connection before: that Valkey is no primary any more.
            Ok(_) if connections != cluster.link.connections() => confirming.all.lock().extend(waiting),
            Ok(members) => {
                if connection != connections {
                    connection = connections;
                    roll.start_again(now() + cluster.settings.partition_ttl.as_millis() as Millis);
                }
                roll.called(&members, &cluster.me.id, now());
                let read_back = cluster.read_back_to();
                let journal = cluster.replaced.load(Relaxed);
                for one in waiting {
                    // A front may have joined since the purge was sent: then it has dropped everything.
                    let now = now();
                    if one.journal != journal {
                        let _ = one.outcome.send(Outcome::Unconfirmed(REPLACED.into()));
                    } else if one.number > read_back || roll.is_waiting(one.number, now) {
                        confirming.all.lock().push(one);
                    } else {
                        let _ = one.outcome.send(roll.outcome(one.number, one.since, now));
                    }
                }
                roll.forget(asked.saturating_sub(FORGOTTEN));
            }
            Err(why) => {
                for one in waiting {
                    let _ = one.outcome.send(Outcome::Unconfirmed(why.to_string()));
                }
            }
        }
        pause = match timeout(pause, confirming.more.notified()).await {
            // Another one waits: it may be confirmed as soon as the first was.
            Ok(()) => {
                sleep(FIRST_LOOK).await;
                FIRST_LOOK
            }
            Err(_) => (pause * 2).min(LONGEST_LOOK),
        };
    }
}

impl From<Publication> for Unsent {
    fn from(publication: Publication) -> Unsent {
        let what = match publication.what {
            Purge::Url(url) => What::Url(url),
            Purge::Tag(tag) => What::Tag(tag),
            Purge::Prefix(prefix) => What::Prefix(prefix),
            Purge::All => What::All,
        };
        let order = Order { what, soft: publication.how == How::Expire };
        Unsent { announced: publication.number, order, outcome: Some(publication.outcome) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_purges_become_one() {
        let mut unsent: VecDeque<_> = (0..MAX_UNSENT)
            .map(|number| Unsent {
                announced: number as u64,
                order: Order { what: What::Tag(number.to_string()), soft: true },
                outcome: None,
            })
            .collect();
        assert!(bound(&mut unsent).is_empty());
        assert_eq!(unsent.len(), MAX_UNSENT);
        let (outcome, mut heard) = oneshot::channel();
        unsent.push_back(Unsent { announced: 70_000, order: Order::ALL, outcome: Some(outcome) });
        assert_eq!(bound(&mut unsent).len(), MAX_UNSENT + 1);
        assert_eq!(unsent[0].announced, 0);
        assert_eq!(unsent.iter().map(|one| &one.order).collect::<Vec<_>>(), [&Order::ALL]);
        assert!(matches!(heard.try_recv(), Ok(Outcome::Unsent(_))));
    }

    /// Nobody may be allowed to read the journal, though all may write there.
    #[test]
    fn purges_that_are_never_read_back_become_one() {
        let mut numbered = Numbered::default();
        for number in 1..=MAX_NUMBERED as u64 {
            assert!(numbered.push(number, vec![number + 70_000]).is_empty());
        }
        assert_eq!(numbered.take_up_to(2), [70_001, 70_002]);
        assert!(numbered.push(10_002, vec![80_001, 80_002]).is_empty());
        let merged = numbered.push(10_003, vec![80_003]);
        assert_eq!((merged.len(), merged[0]), (MAX_NUMBERED + 1, 70_003));
        assert_eq!(numbered.take_up_to(10_002), [0_u64; 0]);
        assert_eq!(numbered.take_up_to(10_003), [70_003]);
        assert_eq!(numbered.take(), [0_u64; 0]);
    }
}
