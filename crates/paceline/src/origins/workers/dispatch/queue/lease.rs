//! A worker thread's channel on loan, and the wait for one. It never decides who gets which.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use mailbox::Posted;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    line::Place,
    member::{Accompanied, InHand},
    pipe::Offer,
    share::OutcomeSlot,
    Complaint, Inner, Queue, Refused, Route, WorkerId,
};
use crate::{
    origins::workers::protocol::{
        channel::{Channel, WAKE},
        frame::RequestNumber,
        hijacked::{Hijacked, HijackedConnections},
    },
    support::{
        clock::Micros,
        stall::{GRACE, STALL},
    },
};
use unix_user::RunAs;

/// How often a crawler that waits looks by itself. It is told at once when there is a thread for it.
pub(super) const CRAWLER_LOOK: Duration = Duration::from_millis(250);

/// How long a thread may take to open a channel in the place of one that has ended or was given away. It does so at
/// once, when it has Ruby's lock.
const NEXT_CHANNEL: Duration = Duration::from_secs(5);

/// A channel on loan. Dropped without `give_back` or `take`, its worker is reported as broken.
pub struct Lease {
    pub(super) channel: Option<Box<Channel>>,
    pub worker: WorkerId,
    /// Who the worker runs as.
    pub run_as: RunAs,
    pub(super) queue: Arc<Queue>,
    pub(super) complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    pub(super) route: Route,
    /// The request lies in the mailbox already, and its answer is what comes next.
    pub posted: Option<Posted>,
    /// The thread sleeps, and nothing but this request wakes it.
    pub(super) roused: bool,
    /// Other requests may be posted behind this one.
    pub piped: bool,
    /// It is expected to take so little time that the worker may not tell of its answer at once.
    pub quick: bool,
    pub(super) request: InHand,
    /// None: it was not to have the worker to itself.
    pub accompanied: Option<Accompanied>,
    /// Its route has been told how long it took.
    pub(super) learned: bool,
    /// Microseconds that the app took, as the worker measured.
    pub app_time: Option<Micros>,
    /// Objects that the process allocated while the request ran, as the worker counted.
    pub allocated: u32,
    /// Where its end is noted, while generations are compared.
    pub noted: Option<OutcomeSlot>,
}

/// A place in the queue; dropped, it is given up.
pub(super) struct QueuePlace {
    pub(super) queue: Arc<Queue>,
    pub(super) offer: Option<Offer>,
    pub(super) place: Place,
    pub(super) receive: oneshot::Receiver<Lease>,
}

impl QueuePlace {
    pub(super) async fn lease(mut self, patience: Duration) -> Result<Lease, Refused> {
        let mut end = Instant::now() + patience;
        loop {
            let wait = if self.place.is_last() { CRAWLER_LOOK } else { self.queue.next_look() };
            let look = end.min(Instant::now() + wait);
            let received = tokio::time::timeout_at(look, &mut self.receive).await;
            // While the front did not run nobody could be given anything.
            let late = Instant::now().saturating_duration_since(look);
            if late >= STALL {
                end += late + GRACE;
            }
            match received {
                Ok(Ok(lease)) => return Ok(lease),
                Err(_) if Instant::now() < end => self.queue.settle(&mut self.queue.lock(), None),
                // The sender lives in the queue, which lives as long as this.
                Ok(Err(_)) | Err(_) if self.place.is_last() => return Err(Refused::CrawlerTooOld),
                Ok(Err(_)) | Err(_) => return Err(Refused::TooOld),
            }
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let claimed = {
            let mut inner = self.queue.lock();
            inner.line.leave(self.place);
            inner.withdraw(self.place)
        };
        if claimed {
            // Its turn comes yet.
            let receive = std::mem::replace(&mut self.receive, oneshot::channel().1);
            let (Some(offer), Ok(runtime)) = (self.offer.take(), Handle::try_current()) else { return };
            runtime.spawn(async move {
                if let Ok(lease) = receive.await {
                    (offer.abandon)(lease, offer).await;
                }
            });
            return;
        }
        // A lease that was given at the last moment goes back unused.
        self.receive.close();
        if let Ok(mut lease) = self.receive.try_recv() {
            let claimed = lease.posted.is_some_and(|posted| !lease.channel().revoke(posted));
            match self.offer.take().filter(|_| claimed) {
                Some(offer) => lease.spawn_abandoned(offer),
                None => lease.give_back(),
            }
        }
    }
}

impl Lease {
    /// The thread has the request, and nobody waits for it: its answer is taken, and thrown away.
    pub(super) fn spawn_abandoned(self, offer: Offer) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn((offer.abandon)(self, offer));
        }
    }

    /// The channel on loan.
    pub fn channel(&mut self) -> &mut Channel {
        self.channel.as_mut().expect("a lease holds its channel until it is given up")
    }

    /// The request is about to be sent through the socket.
    pub fn send(&mut self, number: RequestNumber, frame: Bytes) {
        self.roused = false;
        let soon = self.quick;
        self.channel().request(number, frame, soon);
    }

    /// The thread that was to have this request sleeps on, but the next one is not known to be the one that wakes it.
    pub(super) fn wake_unused(&mut self) {
        if let (true, Some(mailbox)) = (std::mem::take(&mut self.roused), self.channel().mailbox()) {
            mailbox.ring(&WAKE);
        }
    }

    /// The thread is idle: its channel takes the next request.
    pub fn give_back(mut self) {
        self.wake_unused();
        if let Some(channel) = self.channel.take() {
            let now = self.queue.now();
            let mut inner = self.queue.lock();
            inner.end(&self, Some(self.app_time.unwrap_or(now - self.request.since)), now);
            let Some(channel) = self.next_turn(&mut inner, channel, now) else {
                return self.queue.settle_line(&mut inner);
            };
            let successor = inner.successor.clone();
            if let Some(member) = inner.members.get_mut(&self.worker) {
                member.answered += 1;
                member.work.add(self.route, self.allocated);
                match successor {
                    Some(successor) => {
                        drop(inner);
                        return successor.add(self.worker, channel);
                    }
                    None if !member.leaving => member.rest(channel),
                    None => drop(member.hang_ups.remove(&channel.thread)),
                }
            }
            self.queue.clone().settle(&mut inner, Some(self.worker));
        }
    }

    /// Keeps the channel (a hijack): the worker thread opens a new one when it is free. What counts the connection is to be
    /// kept as long as that is open.
    pub fn take(mut self) -> (Box<Channel>, Hijacked) {
        let channel = self.channel.take().expect("a lease holds its channel until it is given up");
        let counted = self.queue.lock().members.get(&self.worker).map(|member| member.hijacked.open());
        // Of a worker that has gone nobody counts any.
        let hijacked = counted.unwrap_or_else(|| HijackedConnections::default().open());
        self.evict_followers(&channel);
        self.await_return(&channel);
        (channel, hijacked)
    }

    /// Tells the supervisor something about this worker.
    pub fn complain(&self, complaint: Complaint) {
        let _ = self.complaints.send((self.worker, complaint));
    }

    /// Gives the lease up without a report: the supervisor learns by itself that the worker is gone, or knows what is
    /// wrong with it.
    pub fn disarm(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.evict_followers(&channel);
            self.await_another(&channel);
            self.queue.end(self);
        }
    }

    /// Gives the lease up, and reports the worker as one to be replaced. In this order: the supervisor ends it at once
    /// only if no thread of it is busy.
    pub fn give_up(&mut self, reason: String) {
        if let Some(thread) = self.channel.as_ref().map(|channel| channel.thread) {
            self.disarm();
            self.complain(Complaint::Replace { thread, reason });
        }
    }

    /// Reports a worker that lives on without this thread: it has lost its sockets, and would get no request for ever.
    fn await_another(&self, channel: &Channel) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (queue, worker, complaints) = (self.queue.clone(), self.worker, self.complaints.clone());
        let (thread, ended) = (channel.thread, channel.hang_up());
        runtime.spawn(async move {
            tokio::time::sleep(NEXT_CHANNEL).await;
            if queue.lacks(worker, thread, &ended) {
                let reason = "its channel has ended, and it opens no other".into();
                let _ = complaints.send((worker, Complaint::Replace { thread, reason }));
            }
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.channel.is_some() {
            self.give_up("its channel is broken".into());
        }
    }
}

impl Inner {
    /// The request that the lease was for is over. `held`: how long it took; None: it was not answered.
    pub(super) fn end(&mut self, lease: &Lease, held: Option<Micros>, now: Micros) {
        if let Some(held) = held.filter(|_| lease.request.crawler) {
            self.rest_crawlers(held, now);
        }
        if !lease.learned {
            self.learn(lease, held, now);
        }
        if let Some(member) = self.members.get_mut(&lease.worker) {
            member.work.end(lease.route);
            if lease.request.stream {
                return member.end_stream();
            }
            member.take_place(lease.request);
        }
    }
    /// How long requests of this route hold a thread.
    pub(super) fn learn(&mut self, lease: &Lease, held: Option<Micros>, now: Micros) {
        self.expectations.end(lease.route, held, now);
    }
}
