//! The fair queue of one app: a free worker thread takes the oldest request, and nothing waits while a thread is idle.
//! It never talks to workers: it hands out their channels.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use crate::{account::Account, worker::channel::Channel};

/// Numbers a worker process uniquely within the front's life.
pub type WorkerId = u64;

/// Why a request got no worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// As many requests wait as may.
    Full,
    /// It waited as long as it may.
    TooOld,
}

/// What a conversation has to say to the supervisor about a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// A request has been in the app for a long time: its backtrace is wanted.
    Slow { thread: usize, request: String },
    /// A request has been in the app for too long, or the channel is broken: replace the worker.
    Replace { thread: usize, reason: String },
}

struct Member {
    idle: Vec<Channel>,
    busy: usize,
    /// No request is given to it any more.
    leaving: bool,
    account: Option<Arc<Account>>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
}

struct Waiter {
    ticket: u64,
    avoid: Option<WorkerId>,
    give: oneshot::Sender<Lease>,
}

#[derive(Default)]
struct Inner {
    members: HashMap<WorkerId, Member>,
    waiting: VecDeque<Waiter>,
    next_ticket: u64,
}

/// The queue of one app.
pub struct Queue {
    inner: Mutex<Inner>,
    max: usize,
}

/// A channel on loan. Dropped without `give_back` or `take`, its worker is reported as broken.
pub struct Lease {
    channel: Option<Channel>,
    pub worker: WorkerId,
    /// Who the worker runs as; None: as we do.
    pub account: Option<Arc<Account>>,
    queue: Arc<Queue>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
}

/// Counts for status and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    pub waiting: usize,
    pub idle: usize,
    pub busy: usize,
}

impl Queue {
    /// A queue in which `max` requests may wait.
    pub fn new(max: usize) -> Arc<Queue> {
        Arc::new(Queue { inner: Mutex::default(), max })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes a worker known, which runs as `account`; complaints about it go to `complaints`.
    pub fn join(
        &self,
        worker: WorkerId,
        account: Option<Arc<Account>>,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) {
        let member = Member { idle: Vec::new(), busy: 0, leaving: false, account, complaints };
        self.lock().members.insert(worker, member);
    }

    /// Adds a thread's channel: to the oldest waiting request, or to the idle ones.
    pub fn add(self: &Arc<Self>, worker: WorkerId, channel: Channel) {
        let mut inner = self.lock();
        self.offer(&mut inner, worker, channel);
    }

    /// Gives the worker no more requests; its idle channels are closed. True when none of its threads is busy.
    pub fn leave(&self, worker: WorkerId) -> bool {
        let mut inner = self.lock();
        let Some(member) = inner.members.get_mut(&worker) else { return true };
        member.leaving = true;
        member.idle.clear();
        member.busy == 0
    }

    /// Forgets a worker that has gone.
    pub fn remove(&self, worker: WorkerId) {
        self.lock().members.remove(&worker);
    }

    pub fn depth(&self) -> Depth {
        let inner = self.lock();
        Depth {
            waiting: inner.waiting.iter().filter(|waiter| !waiter.give.is_closed()).count(),
            idle: inner.members.values().map(|member| member.idle.len()).sum(),
            busy: inner.members.values().map(|member| member.busy).sum(),
        }
    }

    /// Waits for a worker thread, oldest first. A request that was handed over before, and whose worker died, names that
    /// worker: it goes to the head, and takes none of the channels that worker left behind. Dropping the future leaves
    /// the queue.
    pub async fn checkout(self: &Arc<Self>, patience: Duration, avoid: Option<WorkerId>) -> Result<Lease, Refused> {
        let receive = {
            let mut inner = self.lock();
            if let Some(lease) = self.idle_channel(&mut inner, avoid) {
                return Ok(lease);
            }
            if inner.waiting.len() >= self.max && avoid.is_none() {
                return Err(Refused::Full);
            }
            let (give, receive) = oneshot::channel();
            let ticket = inner.next_ticket;
            inner.next_ticket += 1;
            let waiter = Waiter { ticket, avoid, give };
            if avoid.is_some() {
                inner.waiting.push_front(waiter);
            } else {
                inner.waiting.push_back(waiter);
            }
            Waiting { queue: self.clone(), ticket, receive }
        };
        receive.lease(patience).await
    }

    /// An idle channel of the worker with the fewest busy threads: threads of one worker share one Ruby lock.
    fn idle_channel(self: &Arc<Self>, inner: &mut Inner, avoid: Option<WorkerId>) -> Option<Lease> {
        let candidates = inner
            .members
            .iter_mut()
            .filter(|(id, member)| !member.leaving && !member.idle.is_empty() && Some(**id) != avoid);
        let (&worker, member) = candidates.min_by_key(|(id, member)| (member.busy, **id))?;
        let channel = member.idle.pop()?;
        member.busy += 1;
        let (account, complaints) = (member.account.clone(), member.complaints.clone());
        Some(Lease { channel: Some(channel), worker, account, queue: self.clone(), complaints })
    }

    fn offer(self: &Arc<Self>, inner: &mut Inner, worker: WorkerId, channel: Channel) {
        let Some(member) = inner.members.get_mut(&worker) else { return };
        if member.leaving {
            return;
        }
        member.idle.push(channel);
        while let Some(waiter) = inner.waiting.pop_front() {
            if waiter.give.is_closed() {
                continue;
            }
            // A worker that offers a channel is alive.
            let avoid = waiter.avoid.filter(|avoided| *avoided != worker);
            let Some(lease) = self.idle_channel(inner, avoid) else {
                inner.waiting.push_front(waiter);
                return;
            };
            match waiter.give.send(lease) {
                Ok(()) => {}
                // The request left in this very moment: the channel is idle again, and the next one gets it.
                Err(mut lease) => {
                    if let (Some(channel), Some(member)) = (lease.channel.take(), inner.members.get_mut(&lease.worker))
                    {
                        member.busy -= 1;
                        member.idle.push(channel);
                    }
                }
            }
            if inner.members.values().all(|member| member.idle.is_empty() || member.leaving) {
                return;
            }
        }
    }

    fn end(&self, worker: WorkerId) {
        if let Some(member) = self.lock().members.get_mut(&worker) {
            member.busy = member.busy.saturating_sub(1);
        }
    }
}

/// A place in the queue; dropped, it is given up.
struct Waiting {
    queue: Arc<Queue>,
    ticket: u64,
    receive: oneshot::Receiver<Lease>,
}

impl Waiting {
    async fn lease(mut self, patience: Duration) -> Result<Lease, Refused> {
        match tokio::time::timeout(patience, &mut self.receive).await {
            Ok(Ok(lease)) => Ok(lease),
            // The sender lives in the queue, which lives as long as this.
            Ok(Err(_)) | Err(_) => Err(Refused::TooOld),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        {
            let mut inner = self.queue.lock();
            if let Some(position) = inner.waiting.iter().position(|waiter| waiter.ticket == self.ticket) {
                inner.waiting.remove(position);
            }
        }
        // A lease that was given at the last moment goes back unused.
        self.receive.close();
        if let Ok(lease) = self.receive.try_recv() {
            lease.give_back();
        }
    }
}

impl Lease {
    /// The channel on loan.
    pub fn channel(&mut self) -> &mut Channel {
        self.channel.as_mut().expect("a lease holds its channel until it is given up")
    }

    /// The thread is idle: its channel takes the next request.
    pub fn give_back(mut self) {
        if let Some(channel) = self.channel.take() {
            let mut inner = self.queue.lock();
            if let Some(member) = inner.members.get_mut(&self.worker) {
                member.busy = member.busy.saturating_sub(1);
            }
            self.queue.clone().offer(&mut inner, self.worker, channel);
        }
    }

    /// Keeps the channel (a hijack): the worker thread opens a new one.
    pub fn take(mut self) -> Channel {
        let channel = self.channel.take().expect("a lease holds its channel until it is given up");
        self.queue.end(self.worker);
        channel
    }

    /// Tells the supervisor something about this worker.
    pub fn complain(&self, complaint: Complaint) {
        let _ = self.complaints.send((self.worker, complaint));
    }

    /// Gives the lease up without a report: the supervisor already knows that the worker is gone.
    pub fn disarm(&mut self) {
        if self.channel.take().is_some() {
            self.queue.end(self.worker);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.complain(Complaint::Replace { thread: channel.thread, reason: "its channel is broken".into() });
            self.queue.end(self.worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{fd::OwnedFd, unix::net::UnixStream};

    const LONG: Duration = Duration::from_secs(60);

    fn channel(thread: usize) -> Channel {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::mem::forget(theirs);
        Channel::new(OwnedFd::from(ours), thread).unwrap()
    }

    fn queue(
        max: usize,
        workers: &[(WorkerId, usize)],
    ) -> (Arc<Queue>, mpsc::UnboundedReceiver<(WorkerId, Complaint)>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Queue::new(max);
        for &(worker, threads) in workers {
            queue.join(worker, None, sender.clone());
            (1..=threads).for_each(|thread| queue.add(worker, channel(thread)));
        }
        (queue, receiver)
    }

    fn run(test: impl std::future::Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
    }

    #[test]
    fn requests_go_to_the_worker_with_the_fewest_busy_threads() {
        run(async {
            let (queue, _complaints) = queue(10, &[(1, 2), (2, 2)]);
            let mut leases = Vec::new();
            for _ in 0..4 {
                leases.push(queue.checkout(LONG, None).await.unwrap());
            }
            assert_eq!(leases.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 2, 1, 2]);
            leases.into_iter().for_each(Lease::give_back);
        });
    }

    #[test]
    fn a_freed_thread_takes_the_oldest_request_and_skips_those_that_left() {
        run(async {
            let (queue, _complaints) = queue(10, &[(1, 1)]);
            let lease = queue.checkout(LONG, None).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for name in ["first", "second", "third"] {
                let (queue, order) = (queue.clone(), order.clone());
                tasks.push(tokio::spawn(async move {
                    let lease = queue.checkout(LONG, None).await.unwrap();
                    order.lock().unwrap().push(name);
                    lease.give_back();
                }));
                tokio::task::yield_now().await;
            }
            tasks[1].abort();
            tokio::task::yield_now().await;
            assert_eq!(queue.depth(), Depth { waiting: 2, idle: 0, busy: 1 });
            lease.give_back();
            for (index, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.is_ok(), index != 1);
            }
            assert_eq!(*order.lock().unwrap(), ["first", "third"]);
            assert_eq!(queue.depth(), Depth { waiting: 0, idle: 1, busy: 0 });
        });
    }

    #[test]
    fn a_retried_request_goes_to_the_head() {
        run(async {
            let (queue, _complaints) = queue(1, &[(1, 1)]);
            let lease = queue.checkout(LONG, None).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for (name, avoid) in [("new", None), ("retried", Some(9))] {
                let (queue, order) = (queue.clone(), order.clone());
                tasks.push(tokio::spawn(async move {
                    let lease = queue.checkout(LONG, avoid).await.unwrap();
                    order.lock().unwrap().push(name);
                    lease.give_back();
                }));
                tokio::task::yield_now().await;
            }
            lease.give_back();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*order.lock().unwrap(), ["retried", "new"]);
        });
    }

    #[test]
    fn a_retried_request_takes_no_channel_that_its_dead_worker_left() {
        run(async {
            let (queue, _complaints) = queue(1, &[(1, 2)]);
            let mut lease = queue.checkout(LONG, None).await.unwrap();
            lease.disarm();
            let retried = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(LONG, Some(1)).await.unwrap().worker }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.depth(), Depth { waiting: 1, idle: 1, busy: 0 });
            let (sender, _receiver) = mpsc::unbounded_channel();
            queue.join(2, None, sender);
            queue.add(2, channel(1));
            assert_eq!(retried.await.unwrap(), 2);
        });
    }

    #[test]
    fn the_queue_is_bounded_by_count_and_by_age() {
        run(async {
            let (queue, _complaints) = queue(1, &[(1, 1)]);
            let lease = queue.checkout(LONG, None).await.unwrap();
            let waiting = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(Duration::from_millis(50), None).await.err() }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.checkout(LONG, None).await.err(), Some(Refused::Full));
            assert_eq!(waiting.await.unwrap(), Some(Refused::TooOld));
            assert_eq!(queue.depth().waiting, 0);
            lease.give_back();
        });
    }

    #[test]
    fn a_lease_that_is_lost_is_reported_and_a_leaving_worker_gets_nothing() {
        run(async {
            let (queue, mut complaints) = queue(1, &[(1, 2)]);
            drop(queue.checkout(LONG, None).await.unwrap());
            assert!(matches!(complaints.recv().await, Some((1, Complaint::Replace { .. }))));
            let lease = queue.checkout(LONG, None).await.unwrap();
            assert!(!queue.leave(1));
            lease.give_back();
            assert!(queue.leave(1));
            assert_eq!(queue.depth(), Depth { waiting: 0, idle: 0, busy: 0 });
        });
    }
}
