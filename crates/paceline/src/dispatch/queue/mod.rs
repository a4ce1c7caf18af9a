//! The queue of one app: a free worker thread takes the request that is expected to be done soonest, within the bounds of
//! `line.rs`, and long ones don't hold the last threads. It never talks to workers: it hands out their channels.

mod line;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use self::line::{Line, Place};
use super::expectations::{Expectations, Expected, Route};
use crate::{account::Account, clock::Micros, worker::channel::Channel};

/// Ruby gives a thread that computes its lock for 100 ms before it lets another one have it. So a request that is younger holds
/// back one that would come beside it; an older one must not.
const YOUNG: Micros = 100_000;
/// How often a request that waits looks whether those in hand have grown old.
const LOOK: Duration = Duration::from_millis(20);
/// One thread in so many, and at least one of several, is kept from long requests.
const KEPT: usize = 5;

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
    /// Of those the ones with long requests.
    long: usize,
    /// When the requests in hand that are not long were handed over.
    begun: Vec<Micros>,
    /// Of those, how many may be young at once.
    limit: usize,
    /// No request is given to it any more.
    leaving: bool,
    account: Option<Arc<Account>>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
}

impl Member {
    /// Most long requests wait for something else than Ruby: they neither hold back others nor are held back.
    fn has_thread(&self, long: bool, now: Micros) -> bool {
        !self.leaving && !self.idle.is_empty() && (long || self.young(now) < self.limit)
    }

    fn young(&self, now: Micros) -> usize {
        self.begun.iter().filter(|begun| now.saturating_sub(**begun) < YOUNG).count()
    }
}

struct Waiter {
    route: Route,
    expected: Expected,
    avoid: Option<WorkerId>,
    give: oneshot::Sender<Lease>,
}

#[derive(Default)]
struct Inner {
    members: HashMap<WorkerId, Member>,
    line: Line<Waiter>,
    expectations: Expectations,
}

/// The queue of one app.
pub struct Queue {
    inner: Mutex<Inner>,
    max: usize,
    epoch: Instant,
}

/// A channel on loan. Dropped without `give_back` or `take`, its worker is reported as broken.
pub struct Lease {
    channel: Option<Channel>,
    pub worker: WorkerId,
    /// Who the worker runs as; None: as we do.
    pub account: Option<Arc<Account>>,
    queue: Arc<Queue>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    route: Route,
    long: bool,
    since: Micros,
}

/// Counts for status and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    pub waiting: usize,
    pub idle: usize,
    pub busy: usize,
}

/// What one worker has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied {
    pub id: WorkerId,
    pub limit: usize,
    pub young: usize,
}

impl Queue {
    /// A queue in which `max` requests may wait.
    pub fn new(max: usize) -> Arc<Queue> {
        Arc::new(Queue { inner: Mutex::default(), max, epoch: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn now(&self) -> Micros {
        self.epoch.elapsed().as_micros() as Micros
    }

    /// Makes a worker known, which runs as `account`; complaints about it go to `complaints`. `limit`: see there.
    pub fn join(
        &self,
        worker: WorkerId,
        limit: usize,
        account: Option<Arc<Account>>,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) {
        let member = Member {
            idle: Vec::new(),
            busy: 0,
            long: 0,
            begun: Vec::new(),
            limit,
            leaving: false,
            account,
            complaints,
        };
        self.lock().members.insert(worker, member);
    }

    /// Adds a thread's channel: to a waiting request, or to the idle ones.
    pub fn add(self: &Arc<Self>, worker: WorkerId, channel: Channel) {
        let mut inner = self.lock();
        if let Some(member) = inner.members.get_mut(&worker).filter(|member| !member.leaving) {
            member.idle.push(channel);
            self.settle(&mut inner, Some(worker));
        }
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
    pub fn remove(self: &Arc<Self>, worker: WorkerId) {
        let mut inner = self.lock();
        inner.members.remove(&worker);
        self.settle(&mut inner, None);
    }

    /// How many young requests each worker may have, and has.
    pub fn occupied(&self) -> Vec<Occupied> {
        let now = self.now();
        let inner = self.lock();
        let serving = inner.members.iter().filter(|(_, member)| !member.leaving);
        serving.map(|(id, member)| Occupied { id: *id, limit: member.limit, young: member.young(now) }).collect()
    }

    /// From now on this worker gets no request while it has `limit` of them in hand that are younger than YOUNG.
    pub fn limit(self: &Arc<Self>, worker: WorkerId, limit: usize) {
        let mut inner = self.lock();
        if let Some(member) = inner.members.get_mut(&worker) {
            member.limit = limit;
            self.settle(&mut inner, None);
        }
    }

    pub fn depth(&self) -> Depth {
        let inner = self.lock();
        Depth {
            waiting: inner.line.iter().filter(|waiter| !waiter.give.is_closed()).count(),
            idle: inner.members.values().map(|member| member.idle.len()).sum(),
            busy: inner.members.values().map(|member| member.busy).sum(),
        }
    }

    /// Waits for a worker thread for a request of `method` and `path`. A request that was handed over before, and whose worker
    /// died, names that worker: it goes to the head, and takes none of the channels that worker left behind. Dropping the
    /// future leaves the queue.
    pub async fn checkout(
        self: &Arc<Self>,
        (method, path): (&str, &str),
        patience: Duration,
        avoid: Option<WorkerId>,
    ) -> Result<Lease, Refused> {
        let receive = {
            let now = self.now();
            let mut inner = self.lock();
            let route = inner.expectations.route(method, path);
            let expected = inner.expectations.expected(route, now);
            if inner.line.is_free(expected.long) {
                if let Some(lease) = self.idle_channel(&mut inner, route, expected, avoid) {
                    return Ok(lease);
                }
            }
            if inner.line.len() >= self.max && avoid.is_none() {
                return Err(Refused::Full);
            }
            let (give, receive) = oneshot::channel();
            let waiter = Waiter { route, expected, avoid, give };
            let place = match avoid {
                Some(_) => inner.line.rejoin(waiter),
                None => inner.line.join(expected, now, waiter),
            };
            Waiting { queue: self.clone(), place, receive }
        };
        receive.lease(patience).await
    }

    /// An idle channel of the worker with the least work in hand. Threads of one worker share one Ruby lock, which most long
    /// requests do not hold for most of their time: they wait for something else.
    fn idle_channel(
        self: &Arc<Self>,
        inner: &mut Inner,
        route: Route,
        expected: Expected,
        avoid: Option<WorkerId>,
    ) -> Option<Lease> {
        if expected.long && !inner.may_take_long() {
            return None;
        }
        let now = self.now();
        let candidates = inner
            .members
            .iter_mut()
            .filter(|(id, member)| member.has_thread(expected.long, now) && Some(**id) != avoid);
        let (&worker, member) = candidates.min_by_key(|(id, member)| {
            let alike = if expected.long { member.long } else { member.busy - member.long };
            (alike, member.busy, **id)
        })?;
        let channel = member.idle.pop()?;
        member.busy += 1;
        member.long += usize::from(expected.long);
        let (account, complaints) = (member.account.clone(), member.complaints.clone());
        if !expected.long {
            member.begun.push(now);
        }
        inner.expectations.begin(route, now);
        let queue = self.clone();
        Some(Lease {
            channel: Some(channel),
            worker,
            account,
            queue,
            complaints,
            route,
            long: expected.long,
            since: now,
        })
    }

    /// Gives idle channels to those who wait. `alive`: a worker that has just shown that it lives.
    fn settle(self: &Arc<Self>, inner: &mut Inner, alive: Option<WorkerId>) {
        let now = self.now();
        loop {
            let has_thread = |long| inner.members.values().any(|member| member.has_thread(long, now));
            let (short, long) = (has_thread(false), has_thread(true) && inner.may_take_long());
            let Some((place, waiter)) = inner.line.next(short, long) else { return };
            if waiter.give.is_closed() {
                continue;
            }
            let avoid = waiter.avoid.filter(|avoided| Some(*avoided) != alive);
            let Some(lease) = self.idle_channel(inner, waiter.route, waiter.expected, avoid) else {
                return inner.line.put_back(place, waiter);
            };
            // The request may have left in this very moment: then the channel is idle again, and the next one gets it.
            if let Err(mut lease) = waiter.give.send(lease) {
                inner.end(&lease, None, 0);
                if let (Some(channel), Some(member)) = (lease.channel.take(), inner.members.get_mut(&lease.worker)) {
                    member.idle.push(channel);
                }
            }
        }
    }

    fn end(self: &Arc<Self>, lease: &Lease) {
        let mut inner = self.lock();
        inner.end(lease, None, self.now());
        self.settle(&mut inner, None);
    }
}

impl Inner {
    /// Whether one more long request may have a thread.
    fn may_take_long(&self) -> bool {
        let serving = self.members.values().filter(|member| !member.leaving);
        let (threads, long) = serving
            .map(|member| (member.idle.len() + member.busy, member.long))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let kept = if threads > 1 { (threads / KEPT).max(1) } else { 0 };
        long + kept < threads
    }

    fn end(&mut self, lease: &Lease, held: Option<Micros>, now: Micros) {
        self.expectations.end(lease.route, held, now);
        if let Some(member) = self.members.get_mut(&lease.worker) {
            member.busy = member.busy.saturating_sub(1);
            member.long = member.long.saturating_sub(usize::from(lease.long));
            if lease.long {
                return;
            }
            if let Some(at) = member.begun.iter().position(|begun| *begun == lease.since) {
                member.begun.swap_remove(at);
            }
        }
    }
}

/// A place in the queue; dropped, it is given up.
struct Waiting {
    queue: Arc<Queue>,
    place: Place,
    receive: oneshot::Receiver<Lease>,
}

impl Waiting {
    async fn lease(mut self, patience: Duration) -> Result<Lease, Refused> {
        let end = Instant::now() + patience;
        loop {
            match tokio::time::timeout_at(end.min(Instant::now() + LOOK), &mut self.receive).await {
                Ok(Ok(lease)) => return Ok(lease),
                Err(_) if Instant::now() < end => self.queue.settle(&mut self.queue.lock(), None),
                // The sender lives in the queue, which lives as long as this.
                Ok(Err(_)) | Err(_) => return Err(Refused::TooOld),
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.lock().line.leave(self.place);
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
            let now = self.queue.now();
            let mut inner = self.queue.lock();
            inner.end(&self, Some(now - self.since), now);
            if let Some(member) = inner.members.get_mut(&self.worker).filter(|member| !member.leaving) {
                member.idle.push(channel);
            }
            self.queue.clone().settle(&mut inner, Some(self.worker));
        }
    }

    /// Keeps the channel (a hijack): the worker thread opens a new one.
    pub fn take(mut self) -> Channel {
        let channel = self.channel.take().expect("a lease holds its channel until it is given up");
        self.queue.end(&self);
        channel
    }

    /// Tells the supervisor something about this worker.
    pub fn complain(&self, complaint: Complaint) {
        let _ = self.complaints.send((self.worker, complaint));
    }

    /// Gives the lease up without a report: the supervisor already knows that the worker is gone.
    pub fn disarm(&mut self) {
        if self.channel.take().is_some() {
            self.queue.end(self);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.complain(Complaint::Replace { thread: channel.thread, reason: "its channel is broken".into() });
            self.queue.end(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{fd::OwnedFd, unix::net::UnixStream};

    const PAGE: (&str, &str) = ("GET", "/page");
    const REPORT: (&str, &str) = ("GET", "/report");
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
            queue.join(worker, threads, None, sender.clone());
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
                leases.push(queue.checkout(PAGE, LONG, None).await.unwrap());
            }
            assert_eq!(leases.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 2, 1, 2]);
            leases.into_iter().for_each(Lease::give_back);
        });
    }

    #[test]
    fn a_freed_thread_takes_the_oldest_request_and_skips_those_that_left() {
        run(async {
            let (queue, _complaints) = queue(10, &[(1, 1)]);
            let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for name in ["first", "second", "third"] {
                let (queue, order) = (queue.clone(), order.clone());
                tasks.push(tokio::spawn(async move {
                    let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
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
            let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for (name, avoid) in [("new", None), ("retried", Some(9))] {
                let (queue, order) = (queue.clone(), order.clone());
                tasks.push(tokio::spawn(async move {
                    let lease = queue.checkout(PAGE, LONG, avoid).await.unwrap();
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
            let mut lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            lease.disarm();
            let retried = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(PAGE, LONG, Some(1)).await.unwrap().worker }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.depth(), Depth { waiting: 1, idle: 1, busy: 0 });
            let (sender, _receiver) = mpsc::unbounded_channel();
            queue.join(2, 1, None, sender);
            queue.add(2, channel(1));
            assert_eq!(retried.await.unwrap(), 2);
        });
    }

    #[test]
    fn the_queue_is_bounded_by_count_and_by_age() {
        run(async {
            let (queue, _complaints) = queue(1, &[(1, 1)]);
            let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            let waiting = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(PAGE, Duration::from_millis(50), None).await.err() }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.checkout(PAGE, LONG, None).await.err(), Some(Refused::Full));
            assert_eq!(waiting.await.unwrap(), Some(Refused::TooOld));
            assert_eq!(queue.depth().waiting, 0);
            lease.give_back();
        });
    }

    #[test]
    fn a_lease_that_is_lost_is_reported_and_a_leaving_worker_gets_nothing() {
        run(async {
            let (queue, mut complaints) = queue(1, &[(1, 2)]);
            drop(queue.checkout(PAGE, LONG, None).await.unwrap());
            assert!(matches!(complaints.recv().await, Some((1, Complaint::Replace { .. }))));
            let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            assert!(!queue.leave(1));
            lease.give_back();
            assert!(queue.leave(1));
            assert_eq!(queue.depth(), Depth { waiting: 0, idle: 0, busy: 0 });
        });
    }

    /// A queue that knows a page as short and a report as long.
    async fn learned(workers: &[(WorkerId, usize)]) -> (Arc<Queue>, mpsc::UnboundedReceiver<(WorkerId, Complaint)>) {
        let (queue, complaints) = queue(100, workers);
        for _ in 0..30 {
            for (request, time, times) in [(PAGE, 5, 9), (REPORT, 200, 1)] {
                for _ in 0..times {
                    let lease = queue.checkout(request, LONG, None).await.unwrap();
                    tokio::time::advance(Duration::from_millis(time)).await;
                    lease.give_back();
                }
            }
        }
        (queue, complaints)
    }

    #[test]
    fn long_requests_leave_threads_to_others_and_are_spread() {
        run(async {
            let (queue, _complaints) = learned(&[(1, 5), (2, 5)]).await;
            let mut reports = Vec::new();
            for _ in 0..8 {
                reports.push(queue.checkout(REPORT, LONG, None).await.unwrap());
            }
            assert_eq!(reports.iter().filter(|lease| lease.worker == 1).count(), 4);
            let waiting = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(REPORT, LONG, None).await.unwrap().give_back() }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.depth(), Depth { waiting: 1, idle: 2, busy: 8 });
            // Both threads that are left are for pages, each on a worker of its own.
            let pages =
                [queue.checkout(PAGE, LONG, None).await.unwrap(), queue.checkout(PAGE, LONG, None).await.unwrap()];
            assert_eq!(pages.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 2]);
            pages.into_iter().for_each(Lease::give_back);
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            // One whose worker dies makes room as well.
            reports.pop().unwrap().disarm();
            waiting.await.unwrap();
            reports.into_iter().for_each(Lease::give_back);
        });
    }

    #[test]
    fn a_long_request_is_served_under_an_endless_stream_of_short_ones() {
        run(async {
            let (queue, _complaints) = learned(&[(1, 2)]).await;
            let busy =
                [queue.checkout(PAGE, LONG, None).await.unwrap(), queue.checkout(PAGE, LONG, None).await.unwrap()];
            let came = Instant::now();
            let report = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(REPORT, LONG, None).await.map(|lease| (came.elapsed(), lease)).unwrap() }
            });
            tokio::task::yield_now().await;
            // Whenever a page is done two more have come.
            for lease in busy {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut lease = lease;
                    loop {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        lease.give_back();
                        lease = queue.checkout(PAGE, LONG, None).await.unwrap();
                    }
                });
            }
            for _ in 0..4 {
                let queue = queue.clone();
                tokio::spawn(async move {
                    loop {
                        let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        lease.give_back();
                    }
                });
            }
            let (waited, lease) = report.await.unwrap();
            let bound = Duration::from_micros(line::LONGEST_PATIENCE) + Duration::from_millis(20);
            assert!(waited > Duration::from_millis(300) && waited < bound, "{waited:?}");
            drop(lease);
        });
    }

    #[test]
    fn an_old_request_holds_nobody_back() {
        run(async {
            let (queue, _complaints) = queue(10, &[(1, 3)]);
            queue.limit(1, 1);
            let came = Instant::now();
            let mut leases = Vec::new();
            for path in ["/a", "/b", "/c"] {
                leases.push(queue.checkout(("GET", path), LONG, None).await.unwrap());
            }
            let waited = came.elapsed().as_micros() as Micros;
            assert!((2 * YOUNG..2 * YOUNG + 50_000).contains(&waited), "{waited}");
            leases.into_iter().for_each(Lease::give_back);
        });
    }

    #[test]
    fn no_more_requests_of_a_worker_are_young_than_may_be() {
        run(async {
            let (queue, _complaints) = queue(10, &[(1, 4)]);
            queue.limit(1, 1);
            let lease = queue.checkout(PAGE, LONG, None).await.unwrap();
            let waiting = tokio::spawn({
                let queue = queue.clone();
                async move { queue.checkout(PAGE, LONG, None).await.unwrap() }
            });
            tokio::task::yield_now().await;
            assert_eq!(queue.occupied(), [Occupied { id: 1, limit: 1, young: 1 }]);
            assert_eq!(queue.depth(), Depth { waiting: 1, idle: 3, busy: 1 });
            queue.limit(1, 2);
            let second = waiting.await.unwrap();
            assert_eq!(queue.depth(), Depth { waiting: 0, idle: 2, busy: 2 });
            lease.give_back();
            second.give_back();
        });
    }
}
