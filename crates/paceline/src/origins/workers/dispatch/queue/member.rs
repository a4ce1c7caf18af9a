//! A worker as the queue knows it: its threads' channels, and what they have in hand. It never decides who gets a thread.

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
};

use tokio::sync::mpsc;

use super::{work::Work, Complaint, StreamThreads, WorkerId, ALONE, YOUNG};
use crate::{
    origins::workers::{
        dispatch::expectations::Route,
        protocol::{channel::Channel, hang_up::HangUp, hijacked::HijackedConnections},
    },
    support::clock::Micros,
};
use unix_user::RunAs;

/// A worker.
pub(super) struct Member {
    // A channel is on the heap wherever it is.
    #[allow(clippy::vec_box)]
    pub(super) idle: Vec<Box<Channel>>,
    /// The ends of its threads' channels, idle or not: one for each thread that it has.
    pub(super) hang_ups: HashMap<usize, HangUp>,
    /// The requests of its busy threads.
    pub(super) in_hand: Vec<InHand>,
    /// Whether another was given to it beside the one in hand that was to be alone. None: there is none.
    pub(super) accompanied: Option<Accompanied>,
    /// How many threads it has, and how many more for its streams.
    pub(super) threads: StreamThreads,
    /// Streams that have left the count of threads.
    pub(super) streams: usize,
    /// Connections that the app has taken over.
    pub(super) hijacked: HijackedConnections,
    /// When threads were asked for in the places of streams that have not come yet.
    pub(super) asked: Vec<Micros>,
    /// Threads that have given their channels away and are still in the app, with what they have in hand.
    pub(super) away: HashMap<usize, InHand>,
    /// Of those that are not long, how many may be young at once.
    pub(super) limit: usize,
    /// No request is given to it any more.
    pub(super) leaving: bool,
    /// Streams that have begun since then: no thread has taken their places.
    pub(super) begun_leaving: usize,
    /// Requests it has answered.
    pub(super) answered: u64,
    /// It was given a request that another worker had died with.
    pub(super) tested: bool,
    /// It may be ended soon: it gets no request that another worker has died with.
    pub(super) spared: bool,
    pub(super) work: Work,
    pub(super) run_as: RunAs,
    pub(super) complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
}

/// Whether a worker had others in hand beside the request that was to be alone: then they may be what it died of.
#[derive(Clone, Default)]
pub struct Accompanied(Arc<AtomicBool>);

impl Accompanied {
    fn note(&self) {
        self.0.store(true, Relaxed);
    }

    /// So far.
    pub fn is_so(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A request of a busy thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct InHand {
    pub(super) since: Micros,
    pub(super) long: bool,
    pub(super) alone: bool,
    pub(super) crawler: bool,
    /// A stream that keeps a place in the count of threads, because as many as may have left it.
    pub(super) stream: bool,
    pub(super) route: Route,
}

impl Member {
    pub(super) fn new(
        limit: usize,
        threads: StreamThreads,
        run_as: RunAs,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) -> Member {
        Member {
            idle: Vec::new(),
            hang_ups: HashMap::new(),
            in_hand: Vec::new(),
            accompanied: None,
            threads,
            streams: 0,
            hijacked: HijackedConnections::default(),
            asked: Vec::new(),
            away: HashMap::new(),
            limit,
            leaving: false,
            begun_leaving: 0,
            answered: 0,
            tested: false,
            spared: false,
            work: Work::default(),
            run_as,
            complaints,
        }
    }

    /// One more request. What comes of its being alone, if it was to be.
    pub(super) fn begin(&mut self, request: InHand) -> Option<Accompanied> {
        if let Some(accompanied) = &self.accompanied {
            accompanied.note();
        }
        let beside_others = !self.in_hand.is_empty() || self.streams > 0;
        self.in_hand.push(request);
        self.work.begin(request.route);
        if !request.alone {
            return None;
        }
        let accompanied = Accompanied::default();
        if beside_others {
            accompanied.note();
        }
        self.accompanied = Some(accompanied.clone());
        Some(accompanied)
    }

    pub(super) fn long(&self) -> usize {
        self.in_hand.iter().filter(|request| request.long).count()
    }

    /// Most long requests wait for something else than Ruby: they neither hold back others nor are held back.
    pub(super) fn has_thread(&self, long: bool, now: Micros) -> bool {
        let held = self.in_hand.iter().any(|request| request.alone && now.saturating_sub(request.since) < ALONE);
        !self.leaving && !held && !self.idle.is_empty() && (long || self.young(now) < self.limit)
    }

    /// Whether one that is to be alone would be, but for what has been there for long.
    pub(super) fn is_free(&self, now: Micros) -> bool {
        self.in_hand.iter().all(|request| now.saturating_sub(request.since) >= ALONE)
    }

    pub(super) fn young(&self, now: Micros) -> usize {
        self.in_hand.iter().filter(|request| !request.long && now.saturating_sub(request.since) < YOUNG).count()
    }
}
