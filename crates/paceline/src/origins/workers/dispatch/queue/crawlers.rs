//! Crawlers' requests in the queue: they get threads that nobody else wants, few at a time, and rest between two of them
//! while visitors come. It never decides whose request is a crawler's.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::oneshot, time::sleep};

use super::{
    checkout::Entry, lease::QueuePlace, Again, ExpectedTime, Inner, Lease, Member, Queue, Refused, RequestLine, Route,
    Waiter,
};
use crate::support::clock::Micros;

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    #[default]
    Visitor,
    /// `is_patient`: it is refused no sooner than a visitor's, though it waits behind those.
    Crawler { is_patient: bool },
}

/// Workers for each crawler's request that may be in hand; one may be in any case.
const WORKERS: usize = 4;
/// While visitors come crawlers rest for so many times as long as their last request took ...
const REST: Micros = 3;
/// ... and no longer than this.
const LONGEST_REST: Micros = 5_000_000;
/// So long after the last visitor they count as coming.
const VISITORS_STAY: Micros = 1_000_000;
/// So long a request waits for a worker that has no young ones in hand. Then any thread is good enough that is idle.
const PICKY: Micros = 1_000_000;
/// One in so many places of the queue is for crawlers, and they come in only while no more visitors wait.
const PLACES: usize = 10;
/// They wait for one in so many parts of the time that visitors may wait.
const PATIENCE: u32 = 3;

/// When crawlers are to have a thread again.
#[derive(Debug, Default)]
pub(super) struct Rest {
    until: Micros,
    /// When the last visitor came.
    visitor: Option<Micros>,
    /// When the queue is looked at because of it.
    alarm: Micros,
}

impl Rest {
    pub(super) fn visitor_comes(&mut self, now: Micros) {
        self.visitor = Some(now);
    }

    /// A crawler's request has held its thread for so long. `at_once`: so many may do that beside each other. A night of
    /// crawling does not add up: nobody rested then, since no visitor came.
    fn begin(&mut self, held: Micros, at_once: usize, now: Micros) {
        let time = held.saturating_mul(REST).min(LONGEST_REST) / at_once as Micros;
        let latest = now.saturating_add(LONGEST_REST);
        self.until = self.until.max(now).saturating_add(time).min(latest);
    }

    /// The time that is left of it.
    fn left(&self, now: Micros) -> Option<Micros> {
        let is_visited = self.visitor.is_some_and(|visitor| now < visitor + VISITORS_STAY);
        (is_visited && now < self.until).then(|| self.until - now)
    }
}

impl Class {
    /// How long a request may wait, if a visitor's may do so for `patience`. One whose worker has died (`again`) waits
    /// among those of visitors, and as long as they do.
    pub fn patience(self, patience: Duration, again: Option<Again>) -> Duration {
        match (self, again) {
            (Class::Crawler { is_patient: false }, None) => patience / PATIENCE,
            _ => patience,
        }
    }
}

impl Queue {
    /// Crawlers' requests that wait, and that are with workers.
    pub fn crawlers(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.line.last_len(), inner.crawlers_in_hand())
    }

    pub(super) fn join_crawlers(
        self: &Arc<Self>,
        request: RequestLine<'_>,
        is_patient: bool,
    ) -> Result<Entry, Refused> {
        let now = self.now();
        let mut inner = self.lock();
        let route = inner.expectations.know(request);
        let expected = inner.expectations.expected(route, now);
        if inner.line.last_len() == 0 {
            if let Some(lease) = self.crawlers_channel(&mut inner, route, expected, now, now) {
                return Ok(Entry::Leased(Box::new(lease)));
            }
        }
        let places = if is_patient { self.max } else { self.max.div_ceil(PLACES) };
        if inner.line.last_len() >= places || inner.line.len() + inner.posted() >= places {
            return Err(Refused::CrawlersFull);
        }
        let (give, receive) = oneshot::channel();
        let waiter = Waiter { route, expected, again: None, since: now, offer: None, give };
        let place = inner.line.join_last(now, waiter);
        self.wake_after_rest(&mut inner, now);
        Ok(Entry::Waiting(QueuePlace { queue: self.clone(), offer: None, place, receive }))
    }

    /// Gives idle channels to crawlers, if nobody else wants them.
    pub(super) fn settle_crawlers(self: &Arc<Self>, inner: &mut Inner, now: Micros) {
        while let Some((place, waiter)) = inner.line.next_last() {
            if waiter.give.is_closed() {
                continue;
            }
            let Some(lease) = self.crawlers_channel(inner, waiter.route, waiter.expected, waiter.since, now) else {
                inner.line.put_back(place, waiter);
                return self.wake_after_rest(inner, now);
            };
            // It may have left in this very moment.
            if let Err(mut lease) = waiter.give.send(lease) {
                inner.end(&lease, None, now);
                if let (Some(channel), Some(member)) = (lease.channel.take(), inner.members.get_mut(&lease.worker)) {
                    member.idle.push(channel);
                }
            }
        }
    }

    /// A channel for a crawler's request that waits since `since`. It is never the last one that is idle, unless there is
    /// only one.
    fn crawlers_channel(
        self: &Arc<Self>,
        inner: &mut Inner,
        route: Route,
        expected: ExpectedTime,
        since: Micros,
        now: Micros,
    ) -> Option<Lease> {
        if !inner.may_take_crawler(expected.long, now - since, now) {
            return None;
        }
        let mut lease = self.idle_channel(inner, route, expected, None, None, now)?;
        lease.request.crawler = true;
        let member = inner.members.get_mut(&lease.worker);
        if let Some(request) = member.and_then(|member| member.in_hand.last_mut()) {
            request.crawler = true;
        }
        Some(lease)
    }

    /// Looks again when the crawlers' rest is over.
    fn wake_after_rest(self: &Arc<Self>, inner: &mut Inner, now: Micros) {
        let Some(left) = inner.rest.left(now) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        if inner.rest.alarm > now {
            return;
        }
        inner.rest.alarm = now + left;
        let queue = Arc::downgrade(self);
        runtime.spawn(async move {
            sleep(Duration::from_micros(left)).await;
            if let Some(queue) = queue.upgrade() {
                queue.settle_crawlers(&mut queue.lock(), queue.now());
            }
        });
    }
}

impl Inner {
    fn crawlers_in_hand(&self) -> usize {
        self.members.values().flat_map(|member| &member.in_hand).filter(|request| request.crawler).count()
    }

    fn serving(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| !member.leaving)
    }

    fn crawlers_at_once(&self) -> usize {
        (self.serving().count() / WORKERS).max(1)
    }

    fn may_take_crawler(&self, long: bool, waited: Micros, now: Micros) -> bool {
        if self.line.len() > 0 || self.posted() > 0 || self.rest.left(now).is_some() {
            return false;
        }
        let count = |sum: (usize, usize), member: &Member| {
            (sum.0 + member.idle.len(), sum.1 + member.idle.len() + member.in_hand.len())
        };
        let (idle, threads) = self.serving().fold((0, 0), count);
        if idle < threads.min(2) || self.crawlers_in_hand() >= self.crawlers_at_once() {
            return false;
        }
        let is_undisturbed = |member: &Member| member.has_thread(long, now) && member.young(now) == 0;
        waited >= PICKY || self.serving().any(is_undisturbed)
    }

    /// A crawler's request is over, which was answered after `held`.
    pub(super) fn rest_crawlers(&mut self, held: Micros, now: Micros) {
        let at_once = self.crawlers_at_once();
        self.rest.begin(held, at_once, now);
    }
}

#[cfg(test)]
mod tests;
