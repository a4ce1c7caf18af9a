//! Streams leave the count of a worker's threads: another thread takes the place of the one that has a stream, as long as
//! the stream lasts. The threads of a worker are as many as are wanted when no one more than that is kept: so one ends
//! by itself after the end of a stream. It never talks to workers: the supervisor asks for a thread.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{
    member::{InHand, Member},
    Complaint, Lease, Queue, WorkerId,
};
use crate::{origins::workers::protocol::channel::Channel, support::clock::Micros};

/// How long the thread of a hijack may stay in the app until that counts as a stream. Most come back at once, since the
/// app has a thread of its own for its connections.
const HIJACK: Duration = Duration::from_millis(20);

/// A thread that was asked for and has not come after this time is not expected any more: it could not be made.
const COMES: Micros = 1_000_000;

/// How many threads a worker has, and how many more for its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamThreads {
    pub threads: usize,
    pub spare: usize,
}

impl Default for StreamThreads {
    /// No stream leaves the count, and every thread that comes is kept.
    fn default() -> StreamThreads {
        StreamThreads { threads: usize::MAX, spare: 0 }
    }
}

impl Member {
    /// Keeps the channel of an idle thread; or closes it, which ends the thread, if there is one too many.
    pub(super) fn rest(&mut self, channel: Box<Channel>) {
        if self.hang_ups.len() > self.threads.threads.saturating_add(self.streams) {
            self.hang_ups.remove(&channel.thread);
        } else {
            self.idle.push(channel);
        }
    }

    /// Closes the channels of idle threads, which end.
    pub(super) fn close_idle(&mut self) {
        for channel in self.idle.drain(..) {
            self.hang_ups.remove(&channel.thread);
        }
    }

    /// One more stream. It leaves the count if it may, and otherwise keeps its place in it. What the supervisor is to
    /// hear of that.
    fn begin_stream(&mut self, place: InHand, now: Micros) -> Option<Complaint> {
        if self.streams >= self.threads.spare {
            self.in_hand.push(InHand { stream: true, long: true, ..place });
            return Some(Complaint::NoSpare);
        }
        self.streams += 1;
        if self.leaving {
            // Nobody waits for its place, unless the worker stays.
            self.begun_leaving += 1;
            return None;
        }
        self.asked.retain(|at| now.saturating_sub(*at) < COMES);
        if self.hang_ups.len() + self.asked.len() >= self.threads.threads.saturating_add(self.streams) {
            return None;
        }
        self.asked.push(now);
        Some(Complaint::Spare)
    }

    /// It serves again. How many threads are to be asked for.
    pub(super) fn stay(&mut self, now: Micros) -> usize {
        self.leaving = false;
        let missing = std::mem::take(&mut self.begun_leaving).min(self.streams);
        self.asked.extend(std::iter::repeat_n(now, missing));
        missing
    }

    /// The thread of this channel opens it: it is one that was asked for, if it had none before.
    pub(super) fn open(&mut self, channel: &Channel) {
        if self.hang_ups.insert(channel.thread, channel.hang_up()).is_none() && !self.asked.is_empty() {
            self.asked.remove(0);
        }
    }

    /// One stream less. Streams are alike: if one had to keep its place in the count, it leaves it now.
    pub(super) fn end_stream(&mut self) {
        match self.in_hand.iter().position(|request| request.stream) {
            Some(at) => drop(self.in_hand.swap_remove(at)),
            None => self.streams = self.streams.saturating_sub(1),
        }
    }

    /// This thread has a channel again, if it had given its own away.
    pub(super) fn is_back(&mut self, thread: usize) {
        let Some(place) = self.away.remove(&thread) else { return };
        self.work.end(place.route);
        if place.stream {
            return self.end_stream();
        }
        self.take_place(place);
    }

    /// Removes a request from those in hand. Two that are alike stand for each other.
    pub(super) fn take_place(&mut self, place: InHand) -> Option<InHand> {
        let at = self.in_hand.iter().position(|request| *request == place)?;
        if place.alone {
            // What its worker is given after this is no company.
            self.accompanied = None;
        }
        Some(self.in_hand.swap_remove(at))
    }

    fn tell(&self, worker: WorkerId, complaint: Option<Complaint>) {
        if let Some(complaint) = complaint {
            let _ = self.complaints.send((worker, complaint));
        }
    }
}

impl Queue {
    /// A thread that has given its channel away for this request is still in the app: what it does there is a stream.
    fn stays_away(self: &Arc<Self>, worker: WorkerId, thread: usize, request: InHand) {
        let mut inner = self.lock();
        let Some(member) = inner.members.get_mut(&worker).filter(|member| member.threads.spare > 0) else { return };
        if member.away.get(&thread) != Some(&request) {
            return;
        }
        if request.crawler {
            return; // it keeps its place, by which crawlers are bounded
        }
        let Some(place) = member.take_place(request) else { return };
        member.away.insert(thread, InHand { stream: true, ..place });
        let complaint = member.begin_stream(place, self.now());
        member.tell(worker, complaint);
        self.settle(&mut inner, None);
    }
}

impl Lease {
    /// The request has become a stream, or what follows its answer takes long: its thread leaves the count of threads,
    /// and another one takes its place. As many as may have left it, or it is a crawler's: all remains as it is.
    pub fn step_aside(&mut self) {
        let queue = self.queue.clone();
        if self.request.stream || self.request.crawler {
            return;
        }
        let now = queue.now();
        let mut inner = queue.lock();
        if inner.successor.is_some() {
            return;
        }
        let Some(member) = inner.members.get_mut(&self.worker).filter(|member| member.threads.spare > 0) else {
            return;
        };
        let Some(place) = member.take_place(self.request) else { return };
        self.request.stream = true;
        let complaint = member.begin_stream(place, now);
        let stays = complaint == Some(Complaint::NoSpare);
        member.tell(self.worker, complaint);
        if stays {
            return;
        }
        // Its route is known by how long it held a thread that others could have had.
        let held = self.app_time.unwrap_or(now.saturating_sub(self.request.since));
        inner.learn(self, Some(held), now);
        self.learned = true;
        queue.settle(&mut inner, None);
    }

    /// Its thread has given the channel away, and has the request in hand until it comes with another one.
    pub(super) fn await_return(&self, channel: &Channel) {
        let (thread, request, worker) = (channel.thread, self.request, self.worker);
        let queue = self.queue.clone();
        let mut inner = queue.lock();
        // The next one may have come before what the front has read here, and even been closed as one too many.
        let last = inner.members.get(&worker).and_then(|member| member.hang_ups.get(&thread));
        let is_last = last.is_some_and(|last| last.is(&channel.hang_up()));
        let member = inner.members.get_mut(&worker).filter(|_| is_last && !request.stream);
        let Some(member) = member else { return queue.end_in(&mut inner, self) };
        member.away.insert(thread, request);
        inner.learn(self, None, queue.now());
        drop(inner);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(HIJACK).await;
            queue.stays_away(worker, thread, request);
        });
    }
}

#[cfg(test)]
mod tests;
