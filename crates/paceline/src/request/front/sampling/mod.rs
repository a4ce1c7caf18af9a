//! Looks at the sites once a second, and at the memory of their processes every ten, so that there is something to show
//! to whoever opens the dashboard. What it looks at are counts; it never touches a request.

mod crawlers;
mod shown;
mod status;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{interval, timeout, MissedTickBehavior},
};

use super::Front;
use crate::{
    apps::overview::Overview,
    observe::{
        dashboard::history::{Counts, History, Mark, MarkKind, Memories, Who},
        incidents::{Incident, Kind, Sample},
        memory_usage::Memory,
        metrics,
    },
    request::route::Site,
    support::clock,
};

const EACH: Duration = Duration::from_secs(1);
/// Looks after which memory is looked at.
const MEMORY: u64 = 10;
/// How long an app may take to tell how it stands.
const PATIENCE: Duration = Duration::from_secs(1);
/// Browsers that may watch at a time.
const WATCHERS: usize = 16;
/// Sites that have a history of their own.
const SITES: usize = 64;

/// What parts of the server say of a site on the dashboard, a line each.
const PANELS: &[fn(&Site) -> Option<String>] = &[crawlers::panel];

/// What was seen.
pub struct Samples {
    seen: Mutex<SampleStore>,
    watchers: Arc<Semaphore>,
    began: Instant,
}

#[derive(Default)]
struct SampleStore {
    all: History,
    sites: BTreeMap<String, History>,
    memories: Memories,
    overviews: HashMap<String, Overview>,
    /// The generation of each site that served at the last look.
    serving: HashMap<String, u64>,
    /// Private bytes of the front.
    front: Option<u64>,
    /// Unix seconds of the last incident that was marked.
    marked: f64,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { seen: Mutex::default(), watchers: Arc::new(Semaphore::new(WATCHERS)), began: Instant::now() }
    }
}

impl Samples {
    fn seen(&self) -> MutexGuard<'_, SampleStore> {
        self.seen.lock()
    }

    /// Looks at the applications now: something has changed, and is asked for before the next look.
    pub async fn look_at_apps(&self, front: &Front) {
        let overviews = overviews(front).await;
        self.seen().overviews = overviews;
    }

    /// A place for one that watches; None: there are too many.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.watchers.clone().try_acquire_owned().ok()
    }
}

/// Looks until the server ends.
pub async fn run(front: Arc<Front>) {
    let mut ticks = interval(EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    front.samples.seen().marked = clock::unix_seconds();
    loop {
        ticks.tick().await;
        look(&front).await;
        if looks % MEMORY == 0 {
            look_at_memory(&front).await;
        }
        looks += 1;
    }
}

/// How each application is; without those that don't tell it in time.
async fn overviews(front: &Front) -> HashMap<String, Overview> {
    let mut overviews = HashMap::new();
    for site in front.routes().all() {
        if let Some(app) = &site.app {
            if let Ok(overview) = timeout(PATIENCE, app.overview()).await {
                overviews.insert(site.config.name.clone(), overview);
            }
        }
    }
    overviews
}

async fn look(front: &Front) {
    let routes = front.routes();
    let overviews = overviews(front).await;
    let now = clock::unix_seconds();
    let mut all = Counts::default();
    let mut seen = front.samples.seen();
    for site in routes.all().iter().take(SITES) {
        let counts = counts_of(site, &front.metrics.site(&site.config.name));
        all.add(&counts);
        seen.sites.entry(site.config.name.clone()).or_default().look(now, &counts);
    }
    seen.all.look(now, &all);
    seen.sites.retain(|name, _| routes.all().iter().any(|site| site.config.name == *name));
    let began: Vec<Mark> = overviews.iter().filter_map(|(name, overview)| seen.began(name, overview, now)).collect();
    for (site, mark) in
        began.into_iter().map(|mark| (mark.what.split(": ").next().unwrap_or_default().to_owned(), mark))
    {
        seen.mark(&site, mark);
    }
    seen.overviews = overviews;
    let incidents = front.incidents.all();
    // The clock may have been set back.
    let from = if seen.marked > now { now - EACH.as_secs_f64() } else { seen.marked };
    seen.marked = from;
    for incident in incidents.iter().filter(|incident| incident.last > from) {
        let mark =
            Mark { at: incident.last, kind: MarkKind::Incident, label: label(incident), what: incident.what.clone() };
        seen.mark(&incident.site, mark);
        seen.marked = seen.marked.max(incident.last);
        let pid = incident.process.as_ref().map_or(0, |process| process.pid);
        let samples = seen
            .memories
            .of_process(pid)
            .map(|samples| samples.iter().map(|(at, bytes)| Sample { at: *at, bytes: *bytes }));
        if let Some(samples) = samples {
            front.incidents.measured(&incident.id, samples);
        }
    }
}

impl SampleStore {
    /// Another generation serves than at the last look.
    fn began(&mut self, site: &str, overview: &Overview, now: f64) -> Option<Mark> {
        let number = overview.current()?.number;
        let before = self.serving.insert(site.to_owned(), number);
        (before != Some(number)).then(|| Mark {
            at: now,
            kind: MarkKind::Generation,
            label: format!("g{number}"),
            what: format!("{site}: generation {number} took over"),
        })
    }

    fn mark(&mut self, site: &str, mark: Mark) {
        if let Some(history) = self.sites.get_mut(site) {
            history.mark(mark.clone());
        }
        self.all.mark(mark);
    }
}

/// The incident in a word, for which there is room beside a line.
fn label(incident: &Incident) -> String {
    let word = match incident.kind {
        Kind::WorkerDied | Kind::PreloaderDied => "crash",
        Kind::TimedOut => "time-out",
        Kind::MemoryLimit => "memory",
        Kind::WorkerFailed | Kind::StartFailed | Kind::RestartFailed => "failed start",
        Kind::RolledBack => "rolled back",
        Kind::Broken => "broken",
        Kind::ProcessDied => "process",
        Kind::PageDiffered => "page",
    };
    word.into()
}

fn counts_of(site: &Site, metrics: &metrics::Site) -> Counts {
    let snapshot = metrics.snapshot();
    let (mut hits, mut asked) = (0, 0);
    if let Some(cache) = &site.cache {
        let all = cache.counters.all();
        let count =
            |of: fn(&str) -> bool| -> u64 { all.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum() };
        hits = count(|name| name == "hit");
        asked = hits + count(|name| name.starts_with("fwd="));
    }
    let depth = site.app.as_ref().map(|app| app.queue.depth());
    let (waiting, busy, idle, streams) =
        depth.map_or((0, 0, 0, 0), |depth| (depth.waiting, depth.busy, depth.idle, depth.streams));
    let failed = snapshot.classes()[4];
    let (requests, total) = (snapshot.requests(), snapshot.total());
    Counts { requests, failed, total, app: snapshot.app, hits, asked, waiting, busy, idle, streams }
}

/// Reading what processes really use makes the kernel walk their pages: not on this thread.
async fn look_at_memory(server: &Front) {
    let processes: Vec<Who> = {
        let seen = server.samples.seen();
        let generations = seen
            .overviews
            .iter()
            .flat_map(|(site, overview)| overview.generations.iter().map(move |generation| (site, generation)));
        let each = generations.flat_map(|(site, generation)| {
            let who = |index, pid| Who { site: site.clone(), generation: generation.number, index, pid };
            let workers = generation.workers.iter().map(move |worker| who(worker.index, worker.pid));
            let who = |index, pid| Who { site: site.clone(), generation: generation.number, index, pid };
            generation.preloader.map(|pid| who(0, pid)).into_iter().chain(workers).collect::<Vec<_>>()
        });
        each.collect()
    };
    let looked = tokio::task::spawn_blocking(move || {
        let own = std::process::id() as i32;
        let front = Memory::of(own).map(|memory| memory.own());
        let processes: Vec<_> =
            processes.into_iter().filter_map(|who| Memory::of(who.pid).map(|memory| (who, memory.own()))).collect();
        (front, processes)
    });
    if let Ok((front, processes)) = looked.await {
        let mut seen = server.samples.seen();
        seen.front = front;
        seen.memories.look(clock::unix_seconds(), processes);
    }
}
