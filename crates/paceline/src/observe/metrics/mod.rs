//! What each site answered, counted: by status and by who answered, in bytes and in time. Counts only grow; whoever
//! wants a rate looks twice. It never waits, and a request adds to memory that no other thread writes to.
//!
//! Reading order: `snapshot` (what is counted), `histogram`, `shard`, `recent`, `processes`.

mod histogram;
mod processes;
mod recent;
mod shard;
mod snapshot;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};

use self::shard::Shard;
pub use self::{
    histogram::Histogram,
    processes::{Processes, Restart},
    recent::LastMinute,
    snapshot::{CrawlerOutcome, Kind, OfKind, RequestOutcome, Snapshot},
};
use crate::support::sharded::{here, STRIPES};

/// The counters of one site.
#[derive(Default)]
pub struct Site {
    pub name: String,
    pub processes: Processes,
    recent: recent::Recent,
    shards: [OnceLock<Box<Shard>>; STRIPES],
}

impl Site {
    pub fn new(name: &str) -> Site {
        Site { name: name.to_owned(), ..Site::default() }
    }

    pub fn count(&self, answered: &RequestOutcome) {
        self.shards[here()].get_or_init(Box::default).count(answered);
    }

    /// The counts at this moment. Those of one request may be in it in part.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.shards.iter().filter_map(OnceLock::get).for_each(|shard| shard.add_to(&mut snapshot));
        snapshot
    }

    /// What was counted during the last minute, of these counts of this moment.
    pub fn lately(&self, now: Instant, counts: &Snapshot) -> LastMinute {
        self.recent.lately(now, counts)
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "metrics of {}", self.name)
    }
}

/// The counters of all sites there have been: one that comes back goes on counting where it was.
#[derive(Default)]
pub struct Metrics {
    sites: Mutex<HashMap<String, Arc<Site>>>,
    /// Requests that no site answered.
    pub elsewhere: Arc<Site>,
}

impl Metrics {
    fn sites(&self) -> MutexGuard<'_, HashMap<String, Arc<Site>>> {
        self.sites.lock()
    }

    pub fn site(&self, name: &str) -> Arc<Site> {
        let begin = || {
            let site = Arc::new(Site::new(name));
            site.recent.look(Instant::now(), Snapshot::default);
            site
        };
        self.sites().entry(name.to_owned()).or_insert_with(begin).clone()
    }

    /// To be called now and then, so that it is known what happened lately.
    pub fn look(&self) {
        let now = Instant::now();
        self.sites().values().for_each(|site| site.recent.look(now, || site.snapshot()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{hint::black_box, time::Instant};

    fn answered(kind: Kind, status: u16) -> RequestOutcome {
        RequestOutcome { kind, status, bytes: 100, total: 2000, queue: None, app: None, aborted: false, crawler: None }
    }

    #[test]
    fn threads_add_up() {
        let metrics = Metrics::default();
        std::thread::scope(|scope| {
            for thread in 0..20 {
                let site = metrics.site("shop");
                scope.spawn(move || {
                    site.count(&answered(Kind::Cache, 200));
                    let dispatched = RequestOutcome { queue: Some(100), app: Some(1500), ..answered(Kind::App, 500) };
                    site.count(&RequestOutcome { aborted: thread == 0, ..dispatched });
                });
            }
        });
        let first = metrics.site("shop").snapshot();
        assert_eq!((first.requests(), first.bytes(), first.aborted), (40, 4000, 1));
        assert_eq!((first.of(Kind::App).classes, first.classes()), ([0, 0, 0, 0, 20], [0, 20, 0, 0, 20]));
        assert_eq!((first.queue.count(), first.app.sum(), first.total().count()), (20, 30_000, 40));

        metrics.site("shop").count(&answered(Kind::Static, 304));
        let since = metrics.site("shop").snapshot().since(&first);
        assert_eq!((since.requests(), since.of(Kind::Static).classes[2], since.app.count()), (1, 1, 0));
        assert_eq!(metrics.site("other").snapshot(), Snapshot::default());
    }

    #[test]
    fn crawlers_are_among_the_requests_and_their_times_are_not() {
        let site = Site::new("shop");
        site.count(&answered(Kind::App, 200));
        for outcome in [CrawlerOutcome::Refused, CrawlerOutcome::Stale, CrawlerOutcome::Stale] {
            site.count(&RequestOutcome { crawler: Some(outcome), queue: Some(7), ..answered(Kind::App, 200) });
        }
        let counts = site.snapshot();
        assert_eq!((counts.requests(), counts.crawlers(), counts.of_crawlers(CrawlerOutcome::Stale)), (4, 3, 2));
        assert_eq!((counts.total().count(), counts.queue.count(), counts.crawlers_queue.count()), (1, 0, 3));
        assert_eq!(site.snapshot().since(&counts).crawlers(), 0);
    }

    #[test]
    fn a_status_without_a_class_is_counted_all_the_same() {
        let site = Site::new("shop");
        [0, 99, 600, 999].into_iter().for_each(|status| site.count(&answered(Kind::Front, status)));
        assert_eq!(site.snapshot().classes(), [2, 0, 0, 0, 2]);
    }

    /// `cargo test -p paceline --release --lib metrics::tests::cost -- --ignored --nocapture`
    #[test]
    #[ignore = "prints a figure"]
    fn cost() {
        const TIMES: u32 = 5_000_000;
        let site = Site::new("shop");
        let begin = Instant::now();
        for n in 0..TIMES {
            site.count(black_box(&RequestOutcome { total: u64::from(n % 1000), ..answered(Kind::Cache, 200) }));
        }
        println!("{:.1} ns to count a cache hit", begin.elapsed().as_nanos() as f64 / f64::from(TIMES));
    }
}
