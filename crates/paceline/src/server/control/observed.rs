//! All sites as they stand at one moment: what status, statistics and metrics are made of.
//! It never changes anything, and an app whose actor does not answer holds nobody up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    apps::overview::Overview,
    observe::{
        in_flight::{Entry, EXCHANGES},
        metrics::{LastMinute, Snapshot},
    },
    request::{front::Front, route::Site},
};

/// How long an app's actor may take to tell how it stands.
const PATIENCE: Duration = Duration::from_secs(2);

/// One site.
pub struct SiteObservation {
    pub site: Arc<Site>,
    /// None: no app, or one that is busy with something else.
    pub overview: Option<Overview>,
    /// None: no app.
    pub threads: Option<Threads>,
    pub counts: Snapshot,
    pub lately: LastMinute,
    /// Exchanges under way.
    pub in_hand: usize,
}

/// The worker threads of all generations that serve, and who waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    pub waiting: usize,
    pub idle: usize,
    pub busy: usize,
    /// Of those that wait, and of those that are busy: crawlers'. They are not among `waiting`.
    pub crawlers: (usize, usize),
    /// Threads beside these, which have streams.
    pub streams: usize,
}

/// All sites, in the order of the configuration.
pub async fn sites(front: &Front) -> Vec<SiteObservation> {
    let routes = front.routes();
    let telling: Vec<_> = routes
        .all()
        .iter()
        .map(|site| {
            let app = site.app.clone();
            let overview = async move { tokio::time::timeout(PATIENCE, app?.overview()).await.ok() };
            (site.clone(), tokio::spawn(overview))
        })
        .collect();
    let under_way = EXCHANGES.all();
    let mut sites = Vec::new();
    for (site, overview) in telling {
        let overview = overview.await.ok().flatten();
        sites.push(observe(site, overview, &under_way));
    }
    sites
}

fn observe(site: Arc<Site>, overview: Option<Overview>, under_way: &[Arc<Entry>]) -> SiteObservation {
    let threads = site.app.as_ref().map(|app| {
        let depth = app.queue.depth();
        let crawlers = app.queue.crawlers();
        Threads { waiting: depth.waiting, idle: depth.idle, busy: depth.busy, crawlers, streams: depth.streams }
    });
    let counts = site.metrics.snapshot();
    let lately = site.metrics.lately(Instant::now(), &counts);
    let its_own = |entry: &&Arc<Entry>| entry.site.as_ref().is_some_and(|of| Arc::ptr_eq(of, &site.metrics));
    let in_hand = under_way.iter().filter(its_own).count();
    SiteObservation { site, overview, threads, counts, lately, in_hand }
}
