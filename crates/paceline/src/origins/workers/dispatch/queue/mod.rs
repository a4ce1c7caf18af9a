//! The queue of one app: a free worker thread takes the request that is expected to be done soonest, within the bounds
//! of `line.rs`, and long ones don't hold the last threads. It never talks to workers: it hands out their channels.

mod checkout;
mod crawlers;
mod figures;
mod lease;
mod line;
mod member;
mod pipe;
mod share;
mod streams;
mod work;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

pub use self::{
    crawlers::Class,
    figures::{Depth, Tally, WorkerLoad},
    lease::Lease,
    member::Accompanied,
    pipe::{Offer, BUDGET},
    share::OutcomeSlot,
    streams::StreamThreads,
    work::RouteWork,
};
use self::{
    crawlers::Rest,
    line::Line,
    member::{InHand, Member},
    pipe::{post, Pipe, QUICK},
    share::Share,
};
use super::expectations::{Expectations, ExpectedTime, RequestLine, Route};
use crate::{
    origins::workers::protocol::{channel::Channel, hang_up::HangUp},
    support::clock::Micros,
};
use unix_user::RunAs;

/// Ruby gives a thread that computes its lock for 100 ms before it lets another one have it. So a request that is
/// younger holds back one that would come beside it; an older one must not.
pub const YOUNG: Micros = 100_000;
/// How often at most a request that waits looks whether those in hand have grown old.
const LOOK: Duration = Duration::from_millis(20);
/// One thread in so many, and at least one of several, is kept from long requests.
const KEPT: usize = 5;

/// A request that is to be alone is so for this time: what kills a worker mostly does it at once, and others must not
/// wait for one that is only slow.
const ALONE: Micros = 1_000_000;
/// How long it waits for a worker that has nothing else in hand; then it takes any.
const LONGEST_WAIT: Micros = 5_000_000;

/// Numbers a worker process uniquely within the front's life.
pub type WorkerId = u64;

/// Why a request got no worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// As many requests wait as may.
    Full,
    /// It waited as long as it may.
    TooOld,
    /// It is a crawler's, and as many wait as may of those, or too many others do.
    CrawlersFull,
    /// It is a crawler's, and waited as long as such a one may.
    CrawlerTooOld,
}

/// What a conversation has to say to the supervisor about a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// A request has been in the app for a long time: its backtrace is wanted.
    Slow { thread: usize, request: String },
    /// A request has been in the app for too long, or the channel is broken: replace the worker.
    Replace { thread: usize, reason: String },
    /// A stream has left the count of threads: another thread is to take its place.
    Spare,
    /// A stream would leave it, and as many as may have: it keeps its place.
    NoSpare,
}

/// A request that was handed over before.
#[derive(Debug, Clone, Copy)]
pub struct Again {
    /// The worker that had it, and died.
    pub worker: WorkerId,
    /// It may be what that one died of: nothing else is to be in its next worker's hands.
    pub alone: bool,
}

struct Waiter {
    route: Route,
    expected: ExpectedTime,
    again: Option<Again>,
    since: Micros,
    offer: Option<Offer>,
    give: oneshot::Sender<Lease>,
}

#[derive(Default)]
struct Inner {
    members: BTreeMap<WorkerId, Member>,
    line: Line<Waiter>,
    pipes: Vec<Pipe>,
    /// When crawlers are to have a thread again.
    rest: Rest,
    expectations: Expectations,
    /// None: all workers are alike.
    share: Option<Share>,
    /// Channels that are given back go there.
    successor: Option<Arc<Queue>>,
}

/// The queue of one app.
pub struct Queue {
    inner: Mutex<Inner>,
    max: usize,
    threads: StreamThreads,
    epoch: Instant,
}

impl Queue {
    /// A queue in which `max` requests may wait.
    pub fn new(max: usize) -> Arc<Queue> {
        Queue::with_streams(max, StreamThreads::default())
    }

    /// A queue of an app whose streams leave the count of `threads`.
    pub fn with_streams(max: usize, threads: StreamThreads) -> Arc<Queue> {
        Arc::new(Queue { inner: Mutex::default(), max, threads, epoch: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn now(&self) -> Micros {
        self.epoch.elapsed().as_micros() as Micros
    }

    /// Makes a worker known, which runs as `run_as`; complaints about it go to `complaints`. `limit`: see there. It has as
    /// many threads as the queue was made for.
    pub fn join(
        &self,
        worker: WorkerId,
        limit: usize,
        run_as: RunAs,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) {
        let member = Member::new(limit, self.threads, run_as, complaints);
        self.lock().members.insert(worker, member);
    }

    /// Makes a worker known with so many threads, all of which it may use.
    pub fn join_with(
        &self,
        worker: WorkerId,
        threads: StreamThreads,
        run_as: RunAs,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) {
        let member = Member::new(threads.threads, threads, run_as, complaints);
        self.lock().members.insert(worker, member);
    }

    /// Adds a thread's channel: to a waiting request, or to the idle ones.
    pub fn add(self: &Arc<Self>, worker: WorkerId, channel: Box<Channel>) {
        let mut inner = self.lock();
        let Some(member) = inner.members.get_mut(&worker) else { return };
        member.is_back(channel.thread);
        if !member.leaving {
            member.open(&channel);
            // A thread has one: what it may have opened before is not listened to any more.
            member.idle.retain(|idle| idle.thread != channel.thread);
            member.rest(channel);
            self.settle(&mut inner, Some(worker));
        }
    }

    /// Whether a thread of a worker that serves has opened no channel since the one that `ended` belongs to.
    fn lacks(&self, worker: WorkerId, thread: usize, ended: &HangUp) -> bool {
        let inner = self.lock();
        if let Some(successor) = &inner.successor {
            return successor.lacks(worker, thread, ended);
        }
        let member = inner.members.get(&worker).filter(|member| !member.leaving);
        member.and_then(|member| member.hang_ups.get(&thread)).is_some_and(|last| last.is(ended))
    }

    /// Moves the worker to another queue, where it has so many threads, with its channels: those that are busy follow when
    /// they are given back.
    pub fn hand_over(&self, worker: WorkerId, to: &Arc<Queue>, threads: StreamThreads) {
        let mut inner = self.lock();
        inner.successor = Some(to.clone());
        let Some(member) = inner.members.get_mut(&worker) else { return };
        let (run_as, complaints) = (member.run_as.clone(), member.complaints.clone());
        let idle: Vec<_> = member.idle.drain(..).collect();
        let (hang_ups, hijacked) = (member.hang_ups.clone(), member.hijacked.clone());
        let mut moved = Member::new(member.limit, threads, run_as, complaints);
        (moved.hang_ups, moved.hijacked) = (hang_ups, hijacked);
        drop(inner);
        to.lock().members.insert(worker, moved);
        idle.into_iter().for_each(|channel| to.add(worker, channel));
    }

    /// Gives the worker no more requests; its idle channels are closed. True when none of its threads is busy.
    pub fn leave(&self, worker: WorkerId) -> bool {
        let mut inner = self.lock();
        let Some(member) = inner.members.get_mut(&worker) else { return true };
        member.leaving = true;
        member.close_idle();
        member.in_hand.is_empty() && member.streams == 0
    }

    /// Gives requests again to a worker that was to leave. Its idle channels are closed; it opens new ones. How many more
    /// threads it needs, for streams that have begun meanwhile.
    pub fn stay(&self, worker: WorkerId) -> usize {
        let mut inner = self.lock();
        inner.members.get_mut(&worker).map_or(0, |member| member.stay(self.now()))
    }

    /// From now on these workers, and no others, get no request that another worker has died with, as long as it may
    /// wait: they may be ended before they have answered it.
    pub fn spare(&self, workers: &HashSet<WorkerId>) {
        self.lock().members.iter_mut().for_each(|(id, member)| member.spared = workers.contains(id));
    }

    /// What the workers have done since this was last asked.
    pub fn work(&self) -> Vec<(WorkerId, Vec<RouteWork>)> {
        self.lock().members.iter_mut().map(|(id, member)| (*id, member.work.take())).collect()
    }

    /// The routes that take longest, with the means of their times.
    pub fn slowest(&self, most: usize) -> Vec<(Arc<str>, Micros)> {
        self.lock().expectations.slowest(most)
    }

    /// A route in words, as `GET /orders/*`. None: it has been forgotten.
    pub fn label(&self, route: Route) -> Option<Arc<str>> {
        self.lock().expectations.label(route)
    }

    /// Forgets a worker that has gone. Its channels are at their end, though a process that it has forked may hold them
    /// open. True if it had served, so that its end says nothing against the next one: it had answered, or was
    /// given what another had died with.
    pub fn remove(self: &Arc<Self>, worker: WorkerId) -> bool {
        let mut inner = self.lock();
        let gone = inner.members.remove(&worker);
        gone.iter().flat_map(|member| member.hang_ups.values()).for_each(HangUp::hang_up);
        self.settle(&mut inner, None);
        gone.is_some_and(|member| member.answered > 0 || member.tested)
    }

    /// How many young requests each worker may have, and has.
    pub fn occupied(&self) -> Vec<WorkerLoad> {
        let now = self.now();
        let inner = self.lock();
        let serving = inner.members.iter().filter(|(_, member)| !member.leaving);
        serving.map(|(id, member)| WorkerLoad { id: *id, limit: member.limit, young: member.young(now) }).collect()
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
            waiting: inner.line.iter().filter(|waiter| !waiter.give.is_closed()).count() + inner.posted(),
            idle: inner.members.values().map(|member| member.idle.len()).sum(),
            busy: inner.members.values().map(|member| member.in_hand.len()).sum(),
            streams: inner.members.values().map(|member| member.streams).sum(),
        }
    }

    /// An idle channel of the worker with the least work in hand; of several, of the one with the fewest open connections of
    /// its own, since a WebSocket stays where it was opened. Threads of one worker share one Ruby lock, which most
    /// long requests do not hold for most of their time: they wait for something else.
    fn idle_channel(
        self: &Arc<Self>,
        inner: &mut Inner,
        route: Route,
        expected: ExpectedTime,
        again: Option<Again>,
        offer: Option<&Offer>,
        now: Micros,
    ) -> Option<Lease> {
        let turn = inner.turn(again.is_some(), now);
        let may_have = |of_canary| turn.allows(of_canary) && (!expected.long || inner.may_take_long(of_canary));
        let [may_old, may_canary] = [may_have(false), inner.share.is_some() && may_have(true)];
        let share = inner.share.as_ref();
        let is_canary = |id| share.is_some_and(|share| share.is_canary(id));
        let candidates = inner.members.iter_mut().filter(|(id, member)| {
            let barred = again
                .is_some_and(|again| **id == again.worker || again.alone && (member.spared || !member.is_free(now)));
            let may = if is_canary(**id) { may_canary } else { may_old };
            may && member.has_thread(expected.long, now) && !barred
        });
        let (&worker, member) = candidates.min_by_key(|(id, member)| {
            let alike = member.in_hand.iter().filter(|request| request.long == expected.long).count();
            (!turn.prefers(is_canary(**id)), alike, member.in_hand.len(), member.streams, member.hijacked.count(), **id)
        })?;
        let channel = member.idle.pop()?;
        let alone = again.is_some_and(|again| again.alone);
        let request = InHand { since: now, long: expected.long, alone, crawler: false, stream: false, route };
        member.tested |= alone;
        let accompanied = member.begin(request);
        let (run_as, complaints) = (member.run_as.clone(), member.complaints.clone());
        inner.expectations.begin(route, now);
        let noted = inner.share.as_mut().map(|share| share.given(worker, again.is_none(), route, now));
        let (queue, channel, allocated) = (self.clone(), Some(channel), 0);
        let mailbox = channel.as_ref().and_then(|channel| channel.mailbox());
        let (mut posted, mut roused, mut piped) = (None, false, false);
        if let (Some(offer), Some(channel), Some(mailbox)) = (offer, &channel, mailbox) {
            // One that wakes the thread goes by the socket: that is one system call less for each side.
            roused = mailbox.rouse();
            posted = if roused { None } else { post(&mailbox, offer, false) };
            if (roused || posted.is_some()) && noted.is_none() {
                piped = inner.open_pipe(worker, channel, expected, offer.front_loop);
            }
        }
        let app_time = None;
        Some(Lease {
            channel,
            worker,
            run_as,
            queue,
            complaints,
            route,
            posted,
            roused,
            piped,
            quick: expected.mean <= QUICK,
            request,
            accompanied,
            learned: false,
            app_time,
            allocated,
            noted,
        })
    }

    /// Gives idle channels to those who wait. `alive`: a worker that has just shown that it lives.
    fn settle(self: &Arc<Self>, inner: &mut Inner, alive: Option<WorkerId>) {
        let now = self.now();
        let mut held = Vec::new();
        loop {
            let (short, long) = (inner.has_thread(false, now), inner.has_thread(true, now));
            let stolen = if short { inner.steal() } else { None };
            let Some((place, waiter)) = stolen.or_else(|| inner.line.next(short, long)) else { break };
            if waiter.give.is_closed() {
                continue;
            }
            let alone = |again: Again| again.alone && now.saturating_sub(waiter.since) < LONGEST_WAIT;
            let again = waiter.again.filter(|again| Some(again.worker) != alive || again.alone);
            let again = again.map(|again| Again { alone: alone(again), ..again });
            let Some(lease) =
                self.idle_channel(inner, waiter.route, waiter.expected, again, waiter.offer.as_ref(), now)
            else {
                held.push((place, waiter));
                // The next ones don't ask for as much.
                if again.is_some_and(|again| again.alone) {
                    continue;
                }
                break;
            };
            // The request may have left in this very moment: then the channel is idle again, and the next one gets it.
            if let Err(mut lease) = waiter.give.send(lease) {
                // The thread has it already: somebody has to take its answer.
                if let (Some(true), Some(offer)) =
                    (lease.posted.map(|posted| !lease.channel().revoke(posted)), &waiter.offer)
                {
                    lease.spawn_abandoned(offer.clone());
                    continue;
                }
                lease.wake_unused();
                inner.end(&lease, None, now);
                inner.pipes.retain(|pipe| !pipe.is_of(lease.channel.as_deref()));
                if let (Some(channel), Some(member)) = (lease.channel.take(), inner.members.get_mut(&lease.worker)) {
                    member.idle.push(channel);
                }
            }
        }
        held.into_iter().rev().for_each(|(place, waiter)| inner.line.put_back(place, waiter));
        inner.refill(now);
        self.settle_crawlers(inner, now);
    }

    /// Gives idle channels to those who wait, where no thread has become idle.
    fn settle_line(self: &Arc<Self>, inner: &mut Inner) {
        if inner.line.len() > 0 {
            self.settle(inner, None);
        }
    }

    /// When a request that waits is to look next whether those in hand have grown old.
    fn next_look(&self) -> Duration {
        let (now, inner) = (self.now(), self.lock());
        let in_hand = inner.members.values().flat_map(|member| &member.in_hand).filter(|request| !request.long);
        let old = in_hand.map(|request| request.since + YOUNG).filter(|at| *at > now).min();
        let wait =
            old.filter(|_| !inner.line.has_retried()).map_or(Duration::ZERO, |at| Duration::from_micros(at - now));
        wait.max(LOOK)
    }

    fn end(self: &Arc<Self>, lease: &Lease) {
        self.end_in(&mut self.lock(), lease);
    }

    fn end_in(self: &Arc<Self>, inner: &mut Inner, lease: &Lease) {
        inner.end(lease, None, self.now());
        self.settle(inner, None);
    }
}

impl Inner {
    /// Whether some worker has nothing in hand.
    fn has_resting_worker(&self) -> bool {
        self.members.values().any(|member| !member.leaving && !member.idle.is_empty() && member.in_hand.is_empty())
    }

    /// Whether a worker that may have the next request has a thread for it.
    fn has_thread(&self, long: bool, now: Micros) -> bool {
        let turn = self.turn(false, now);
        let has = |of_canary| {
            let is_free = turn.allows(of_canary) && self.side(of_canary).any(|member| member.has_thread(long, now));
            is_free && (!long || self.may_take_long(of_canary))
        };
        has(false) || self.share.is_some() && has(true)
    }

    /// Whether one more long request may have a thread of this side.
    fn may_take_long(&self, of_canary: bool) -> bool {
        let (threads, long) = self
            .side(of_canary)
            .map(|member| (member.idle.len() + member.in_hand.len(), member.long()))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let kept = if threads > 1 { (threads / KEPT).max(1) } else { 0 };
        long + kept < threads
    }
}

#[cfg(test)]
mod tests;
