//! Requests that are posted in the mailbox of a thread that is at work: it takes them without being woken, and answers
//! one after the other. Only short ones are, and each can be taken back until the thread claims it, so that the order
//! stays that of the queue but for noise. It never talks to workers.

use std::{cell::RefCell, collections::VecDeque, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use mailbox::{Mailbox, Posted};
use tokio::runtime::Handle;

use super::{
    line::Place,
    member::{InHand, Member},
    Inner, Lease, Waiter, WorkerId,
};
use crate::{
    origins::workers::{
        dispatch::expectations::ExpectedTime,
        protocol::{
            channel::{this_loop, Channel, WAKE},
            frame::RequestNumber,
        },
    },
    support::clock::Micros,
};

/// Microseconds of work that may lie with one thread: differences below this are noise (see `line.rs`).
pub const BUDGET: Micros = 2_000;
/// What each request is taken to cost at least: not more of them are posted than this allows.
const LEAST: Micros = 30;
/// One request whose turn it is may lie behind another while each takes at most this: so the thread need not be woken
/// between them. It is given to the first thread that is idle before.
const ONE_AHEAD: Micros = 10_000;
/// From this time on it pays to move a thread's socket to the event loop of the request that is the next.
const WORTH_A_MOVE: Micros = 200;
/// Up to this time a request is quick: the answer before it may wait with its own until the front looks by itself.
pub(super) const QUICK: Micros = 100;

/// A request that may be posted: whole, and of moderate size.
#[derive(Clone)]
pub struct Offer {
    pub number: RequestNumber,
    pub frame: Bytes,
    /// Where its task runs.
    pub(super) front_loop: u64,
    pub(super) abandon: Abandon,
}

/// How a request is brought to its end that nobody waits for any more, and that a thread has claimed.
pub type Abandon = fn(Lease, Offer) -> Pin<Box<dyn Future<Output = ()> + Send>>;

impl Offer {
    /// None: it is too long. To be made where the request's task runs.
    pub fn new(number: RequestNumber, frame: &Bytes, abandon: Abandon) -> Option<Offer> {
        let fits = frame.len() <= mailbox::MAX_REQUEST;
        fits.then(|| Offer { number, frame: frame.clone(), front_loop: this_loop(), abandon })
    }
}

thread_local! {
    /// Mailboxes of threads that are to be woken when this event loop has dealt with what it has at hand.
    static TO_WAKE: RefCell<Vec<Arc<Mailbox>>> = const { RefCell::new(Vec::new()) };
}

/// Posts a request. A thread that sleeps is woken when all that the event loop has read was posted: once for all.
pub(super) fn post(mailbox: &Arc<Mailbox>, offer: &Offer, quick: bool) -> Option<Posted> {
    let posted = mailbox.post(offer.number, &offer.frame, quick)?;
    if mailbox.sleeps() {
        let first = TO_WAKE.with_borrow_mut(|list| {
            let known = list.iter().any(|other| Arc::ptr_eq(other, mailbox));
            if !known {
                list.push(mailbox.clone());
            }
            list.len() == 1 && !known
        });
        if first {
            match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(async { wake_all() })),
                Err(_) => wake_all(),
            }
        }
    }
    Some(posted)
}

fn wake_all() {
    for mailbox in TO_WAKE.take() {
        mailbox.wake(&WAKE);
    }
}

pub(super) struct Follower {
    place: Place,
    waiter: Waiter,
    posted: Posted,
    cost: Micros,
    quick: bool,
}

/// What lies with one thread that is at work.
pub(super) struct Pipe {
    worker: WorkerId,
    /// Where its requests' tasks run: the socket stays with one event loop.
    front_loop: u64,
    /// Tells the channel: a thread that has given one away is at its next, while its last answers lie in the one before.
    mailbox: Arc<Mailbox>,
    followers: VecDeque<Follower>,
    /// Expected time of the request that the thread is at.
    first: Micros,
    /// That one is quick, so that the front looks for its answer.
    quick: bool,
    /// That of all.
    cost: Micros,
    /// False: its thread has been at one request for longer than was expected.
    open: bool,
}

impl Pipe {
    pub(super) fn is_of(&self, channel: Option<&Channel>) -> bool {
        channel.and_then(Channel::mailbox).is_some_and(|mailbox| Arc::ptr_eq(&mailbox, &self.mailbox))
    }
}

impl Inner {
    /// Requests that were posted and wait for their turn.
    pub(super) fn posted(&self) -> usize {
        self.pipes.iter().map(|pipe| pipe.followers.len()).sum()
    }

    /// From now on others may follow the request that was given this channel.
    pub(super) fn open_pipe(
        &mut self,
        worker: WorkerId,
        channel: &Channel,
        expected: ExpectedTime,
        front_loop: u64,
    ) -> bool {
        let Some(mailbox) = channel.mailbox().filter(|_| expected.mean <= ONE_AHEAD) else { return false };
        let cost = expected.mean.max(LEAST);
        self.pipes.retain(|pipe| !pipe.is_of(Some(channel)));
        let (followers, first, quick) = (VecDeque::new(), cost, cost <= QUICK);
        self.pipes.push(Pipe { worker, front_loop, mailbox, followers, first, quick, cost, open: true });
        true
    }

    /// Posts a request behind others, where all of them are short. Err: there is no room for it.
    pub(super) fn follow(&mut self, place: Place, waiter: Waiter, now: Micros) -> Result<(), Waiter> {
        self.post_where(place, waiter, now, |pipe, cost| pipe.cost + cost <= BUDGET)
    }

    /// Posts those whose turn it is, and for whom no thread is idle, each behind one request at least.
    pub(super) fn refill(&mut self, now: Micros) {
        while let Some((place, waiter)) = self.line.next_short() {
            if waiter.give.is_closed() {
                continue;
            }
            let posted = self.post_where(place, waiter, now, |pipe, cost| {
                pipe.cost + cost <= BUDGET || pipe.followers.is_empty() && cost.max(pipe.first) <= ONE_AHEAD
            });
            if let Err(waiter) = posted {
                return self.line.put_back(place, waiter);
            }
        }
    }

    fn post_where(
        &mut self,
        place: Place,
        waiter: Waiter,
        now: Micros,
        has_room: impl Fn(&Pipe, Micros) -> bool,
    ) -> Result<(), Waiter> {
        let Some(offer) = waiter.offer.as_ref().filter(|_| self.share.is_none()) else { return Err(waiter) };
        let cost = waiter.expected.mean.max(LEAST);
        let members = &self.members;
        let fits = |pipe: &&mut Pipe| {
            // Those that have more in hand than is good for them come to rest first.
            let serves = |member: &Member| !member.leaving && member.young(now) <= member.limit;
            let serves = members.get(&pipe.worker).is_some_and(serves);
            let near = pipe.front_loop == offer.front_loop || cost >= WORTH_A_MOVE;
            pipe.open && near && serves && has_room(pipe, cost)
        };
        let least = |pipe: &&mut Pipe| (pipe.front_loop != offer.front_loop, pipe.cost);
        let Some(pipe) = self.pipes.iter_mut().filter(fits).min_by_key(least) else { return Err(waiter) };
        // Behind one that is not quick nobody looks for the answer so soon.
        let quick = cost <= QUICK && pipe.followers.back().map_or(pipe.quick, |last| last.quick);
        let Some(posted) = post(&pipe.mailbox, offer, quick) else { return Err(waiter) };
        pipe.cost += cost;
        pipe.followers.push_back(Follower { place, waiter, posted, cost, quick });
        Ok(())
    }

    /// For a thread that is idle: takes back the next request that lies behind one that is not short.
    pub(super) fn steal(&mut self) -> Option<(Place, Waiter)> {
        let behind = self.pipes.iter_mut().filter(|pipe| pipe.first > BUDGET && !pipe.followers.is_empty());
        let pipe = behind.max_by_key(|pipe| pipe.first)?;
        let follower = pipe.followers.pop_front()?;
        if !pipe.mailbox.revoke(follower.posted) {
            pipe.followers.push_front(follower);
            return None;
        }
        pipe.cost = pipe.cost.saturating_sub(follower.cost);
        Some((follower.place, follower.waiter))
    }

    /// Nobody waits for this request any more. True: a thread has claimed it, so that its answer has to be taken.
    pub(super) fn withdraw(&mut self, place: Place) -> bool {
        for pipe in &mut self.pipes {
            let Some(at) = pipe.followers.iter().position(|follower| follower.place == place) else { continue };
            if !pipe.mailbox.revoke(pipe.followers[at].posted) {
                return true;
            }
            let cost = pipe.followers.remove(at).map_or(0, |follower| follower.cost);
            pipe.cost = pipe.cost.saturating_sub(cost);
            return false;
        }
        false
    }

    /// Takes back what the thread has not claimed: it waits in the line again, in its place.
    fn evict(&mut self, channel: &Channel) {
        let Some(at) = self.pipes.iter().position(|pipe| pipe.is_of(Some(channel))) else { return };
        let pipe = &mut self.pipes[at];
        pipe.open = false;
        for follower in std::mem::take(&mut pipe.followers) {
            if pipe.mailbox.revoke(follower.posted) {
                pipe.cost = pipe.cost.saturating_sub(follower.cost);
                self.line.put_back(follower.place, follower.waiter);
            } else {
                pipe.followers.push_back(follower)
            }
        }
    }
}

impl Lease {
    /// The request takes longer than was expected: those behind it are given to others.
    pub fn release_followers(&mut self) {
        if !std::mem::take(&mut self.piped) {
            return;
        }
        let queue = self.queue.clone();
        let mut inner = queue.lock();
        inner.evict(self.channel());
        queue.settle(&mut inner, None);
    }

    /// Takes back what lies behind this request. True: the thread has claimed nothing of it, and so is not past this
    /// request, as far as is known; and whatever it does next comes after what is sent to it now.
    pub fn release_all(&mut self) -> bool {
        self.release_followers();
        let queue = self.queue.clone();
        let (inner, channel) = (queue.lock(), self.channel());
        inner.pipes.iter().find(|pipe| pipe.is_of(Some(channel))).is_none_or(|pipe| pipe.followers.is_empty())
    }

    /// The thread takes nothing more from its mailbox.
    pub(super) fn evict_followers(&self, channel: &Channel) {
        let mut inner = self.queue.lock();
        inner.evict(channel);
        // What it had claimed is lost; a thread that is at one request claims no other.
        inner.pipes.retain(|pipe| !pipe.is_of(Some(channel)));
    }

    /// Gives the channel to the request that was posted next; None if there is one.
    pub(super) fn next_turn(&self, inner: &mut Inner, channel: Box<Channel>, now: Micros) -> Option<Box<Channel>> {
        let Some(at) = inner.pipes.iter().position(|pipe| pipe.is_of(Some(&channel))) else { return Some(channel) };
        let serves = inner.successor.is_none() && inner.members.get(&self.worker).is_some_and(|member| !member.leaving);
        if !serves {
            inner.evict(&channel);
        }
        let Some(follower) = inner.pipes[at].followers.pop_front() else {
            inner.pipes.swap_remove(at);
            return Some(channel);
        };
        let pipe = &mut inner.pipes[at];
        pipe.cost = pipe.cost.saturating_sub(pipe.first);
        (pipe.first, pipe.quick) = (follower.cost, follower.quick);
        // Its thread goes on, whatever the one before it had taken.
        pipe.open = serves;
        let route = follower.waiter.route;
        let request = InHand { since: now, long: false, alone: false, crawler: false, stream: false, route };
        if let Some(member) = inner.members.get_mut(&self.worker) {
            member.answered += 1;
            member.work.add(self.route, self.allocated);
            member.begin(request);
        }
        inner.expectations.begin(follower.waiter.route, now);
        let lease = Lease {
            channel: Some(channel),
            worker: self.worker,
            run_as: self.run_as.clone(),
            queue: self.queue.clone(),
            complaints: self.complaints.clone(),
            route: follower.waiter.route,
            posted: Some(follower.posted),
            roused: false,
            piped: serves,
            quick: follower.quick,
            request,
            accompanied: None,
            learned: false,
            app_time: None,
            allocated: 0,
            noted: None,
        };
        // Its task waits for it, or another one in its place: see QueuePlace.
        drop(follower.waiter.give.send(lease));
        None
    }
}

#[cfg(test)]
mod tests;
