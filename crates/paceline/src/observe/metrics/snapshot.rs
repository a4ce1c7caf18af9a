//! What is counted of a request, and the counts of all of them at one moment.
//! It never counts itself.

use super::histogram::Histogram;
use crate::support::clock::Micros;

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// The front itself: a redirect, a refusal, a page about what it could not find.
    #[default]
    Front,
    /// A file.
    Static,
    /// The page cache, or an answer that another request had asked for.
    Cache,
    App,
    Upstream,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Front, Kind::Static, Kind::Cache, Kind::App, Kind::Upstream];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Front => "front",
            Kind::Static => "static",
            Kind::Cache => "cache",
            Kind::App => "app",
            Kind::Upstream => "upstream",
        }
    }
}

/// What a crawler got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlerOutcome {
    Answered,
    /// A page that was stale, in place of a new one.
    Stale,
    /// 503, because it is a crawler.
    Refused,
}

impl CrawlerOutcome {
    pub const ALL: [CrawlerOutcome; 3] = [CrawlerOutcome::Answered, CrawlerOutcome::Stale, CrawlerOutcome::Refused];

    pub fn as_str(self) -> &'static str {
        match self {
            CrawlerOutcome::Answered => "answered",
            CrawlerOutcome::Stale => "stale",
            CrawlerOutcome::Refused => "refused",
        }
    }
}

/// A request that has been answered, or whose client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestOutcome {
    pub kind: Kind,
    /// 499: the client left before there was an answer.
    pub status: u16,
    /// Body bytes handed to the connection.
    pub bytes: u64,
    /// From the request's head to the last byte.
    pub total: Micros,
    pub queue: Option<Micros>,
    pub app: Option<Micros>,
    /// The client left before it had the whole answer.
    pub aborted: bool,
    /// What it was, if a crawler asked, and crawlers come last. Its times are not among those of visitors.
    pub crawler: Option<CrawlerOutcome>,
}

/// The counts of a site since the server began; they never fall.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// In the order of `Kind::ALL`.
    pub by_kind: [OfKind; Kind::ALL.len()],
    /// Requests of crawlers, in the order of `CrawlerOutcome::ALL`.
    pub crawlers: [u64; CrawlerOutcome::ALL.len()],
    /// Crawlers' waiting for a worker thread.
    pub crawlers_queue: Histogram,
    /// Visitors' waiting for a worker thread.
    pub queue: Histogram,
    /// In the app, as its workers measured it, or at the upstream.
    pub app: Histogram,
    /// Clients that left before they had the whole answer.
    pub aborted: u64,
}

/// The counts of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfKind {
    /// Requests by class of the status: 1xx to 5xx.
    pub classes: [u64; 5],
    /// Body bytes handed to connections.
    pub bytes: u64,
    /// From the request's head to the last byte, without crawlers.
    pub total: Histogram,
}

impl OfKind {
    pub fn requests(&self) -> u64 {
        self.classes.iter().sum()
    }
}

impl Snapshot {
    pub fn of(&self, kind: Kind) -> &OfKind {
        &self.by_kind[kind as usize]
    }

    pub fn requests(&self) -> u64 {
        self.by_kind.iter().map(OfKind::requests).sum()
    }

    /// Requests by class of the status, 1xx to 5xx, whoever answered.
    pub fn classes(&self) -> [u64; 5] {
        std::array::from_fn(|class| self.by_kind.iter().map(|of_kind| of_kind.classes[class]).sum())
    }

    pub fn of_crawlers(&self, outcome: CrawlerOutcome) -> u64 {
        self.crawlers[outcome as usize]
    }

    /// Those of crawlers, whatever they got.
    pub fn crawlers(&self) -> u64 {
        self.crawlers.iter().sum()
    }

    pub fn bytes(&self) -> u64 {
        self.by_kind.iter().map(|of_kind| of_kind.bytes).sum()
    }

    /// From head to last byte, whoever answered.
    pub fn total(&self) -> Histogram {
        let mut total = Histogram::default();
        self.by_kind.iter().for_each(|of_kind| total.merge(&of_kind.total));
        total
    }

    /// What was counted since an earlier look.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let by_kind = std::array::from_fn(|kind| {
            let (now, then) = (&self.by_kind[kind], &earlier.by_kind[kind]);
            OfKind {
                classes: std::array::from_fn(|class| now.classes[class].saturating_sub(then.classes[class])),
                bytes: now.bytes.saturating_sub(then.bytes),
                total: now.total.since(&then.total),
            }
        });
        Snapshot {
            by_kind,
            crawlers: std::array::from_fn(|one| self.crawlers[one].saturating_sub(earlier.crawlers[one])),
            crawlers_queue: self.crawlers_queue.since(&earlier.crawlers_queue),
            queue: self.queue.since(&earlier.queue),
            app: self.app.since(&earlier.app),
            aborted: self.aborted.saturating_sub(earlier.aborted),
        }
    }
}
