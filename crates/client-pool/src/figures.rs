//! What is counted of an upstream's calls. It never decides anything.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::{connection::Connection, failure::Failure};

/// Since the front began. Durations in microseconds.
#[derive(Default)]
pub struct Figures {
    calls: AtomicU64,
    connections: AtomicU64,
    repeated: AtomicU64,
    dns: AtomicU64,
    connect: AtomicU64,
    tls: AtomicU64,
    waited: AtomicU64,
    first: AtomicU64,
    total: AtomicU64,
    /// By their kind.
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

/// Figures of one moment: counts, and sums of durations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFigures {
    pub calls: u64,
    pub connections: u64,
    /// Calls that were sent a second time.
    pub repeated: u64,
    pub dns: Duration,
    pub connect: Duration,
    pub tls: Duration,
    pub waited: Duration,
    pub first: Duration,
    pub total: Duration,
    pub failures: BTreeMap<&'static str, u64>,
}

impl CallFigures {
    pub fn add(&mut self, other: &CallFigures) {
        self.calls += other.calls;
        self.connections += other.connections;
        self.repeated += other.repeated;
        self.dns += other.dns;
        self.connect += other.connect;
        self.tls += other.tls;
        self.waited += other.waited;
        self.first += other.first;
        self.total += other.total;
        other.failures.iter().for_each(|(kind, count)| *self.failures.entry(kind).or_default() += count);
    }
}

fn add(sum: &AtomicU64, time: Duration) {
    sum.fetch_add(time.as_micros() as u64, Relaxed);
}

impl Figures {
    /// A connection was tried.
    pub fn opened<B>(&self, opened: &Result<Connection<B>, Failure>) {
        if let Ok(connection) = opened {
            self.connections.fetch_add(1, Relaxed);
            add(&self.dns, connection.opened.dns);
            add(&self.connect, connection.opened.connect);
            add(&self.tls, connection.opened.tls);
        }
    }

    pub fn repeated(&self) {
        self.repeated.fetch_add(1, Relaxed);
    }

    /// The head of a response is there.
    pub fn answered(&self, waited: Duration, first: Duration) {
        add(&self.waited, waited);
        add(&self.first, first);
    }

    /// A call is over.
    pub fn ended(&self, total: Duration) {
        self.calls.fetch_add(1, Relaxed);
        add(&self.total, total);
    }

    pub fn failed(&self, kind: &'static str) {
        *self.failures.lock().entry(kind).or_default() += 1;
    }

    pub fn told(&self) -> CallFigures {
        let count = |count: &AtomicU64| count.load(Relaxed);
        let time = |sum: &AtomicU64| Duration::from_micros(sum.load(Relaxed));
        CallFigures {
            calls: count(&self.calls),
            connections: count(&self.connections),
            repeated: count(&self.repeated),
            dns: time(&self.dns),
            connect: time(&self.connect),
            tls: time(&self.tls),
            waited: time(&self.waited),
            first: time(&self.first),
            total: time(&self.total),
            failures: self.failures.lock().clone(),
        }
    }
}
