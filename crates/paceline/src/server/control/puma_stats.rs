//! The statistics under Puma's names (`pumactl stats` of a cluster), for the programs that read them.
//! It never says anything that Puma has no name for, but whose site a worker is.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use serde_json::{json, Map, Value};

use super::{
    answer::JsonResult,
    observed::{self, SiteObservation},
};
use crate::{
    apps::overview::{GenerationView, Role, WorkerView},
    request::front::Front,
};

/// GET /stats.
pub async fn of_server(server: Arc<Front>) -> JsonResult {
    let sites = observed::sites(&server).await;
    Ok(Value::Object(cluster(server.began, &sites)))
}

/// Puma's statistics of a cluster. All sites' workers stand beside each other.
pub fn cluster(began: SystemTime, sites: &[SiteObservation]) -> Map<String, Value> {
    let workers: Vec<_> = sites.iter().flat_map(of_site).collect();
    let count = |is: fn(&WorkerStatus) -> bool| workers.iter().filter(|worker| is(worker)).count();
    let current = sites.iter().filter_map(|site| site.overview.as_ref()?.current());
    let stats = json!({
        "started_at": iso8601(began),
        "workers": workers.len(),
        "phase": current.map(|generation| generation.number).max().unwrap_or(0),
        "booted_workers": count(|worker| worker.booted),
        "old_workers": count(|worker| worker.old),
        "worker_status": workers.iter().map(|worker| worker.status.clone()).collect::<Vec<_>>(),
        "versions": { "paceline": env!("CARGO_PKG_VERSION") },
    });
    match stats {
        Value::Object(stats) => stats,
        _ => Map::new(),
    }
}

struct WorkerStatus {
    booted: bool,
    old: bool,
    status: Value,
}

fn of_site(observed: &SiteObservation) -> Vec<WorkerStatus> {
    let (Some(overview), Some(app)) = (&observed.overview, &observed.site.app) else { return Vec::new() };
    let serving = overview.current().map_or(0, |current| current.workers.len());
    let waiting = observed.threads.map_or(0, |threads| threads.waiting);
    let mut told = Vec::new();
    for generation in &overview.generations {
        for (nth, worker) in generation.workers.iter().enumerate() {
            let backlog = if generation.role == Role::Current { share(waiting, nth, serving) } else { 0 };
            let status = worker_status(&app.site.name, generation, worker, app.settings().threads, backlog);
            told.push(WorkerStatus { booted: worker.ready, old: generation.role == Role::Leaving, status });
        }
    }
    told
}

/// One queue is before all workers; who adds up their backlogs, as one does of Puma, is to find its length.
fn share(waiting: usize, nth: usize, workers: usize) -> usize {
    waiting / workers.max(1) + usize::from(nth < waiting % workers.max(1))
}

fn worker_status(
    site: &str,
    generation: &GenerationView,
    worker: &WorkerView,
    threads: usize,
    backlog: usize,
) -> Value {
    let takes_requests = worker.ready && !worker.leaving;
    json!({
        "started_at": iso8601(SystemTime::now() - worker.forked.elapsed()),
        "pid": worker.pid,
        "index": worker.index,
        "phase": generation.number,
        "booted": worker.ready,
        // Its control socket is open at this moment: nothing has to call.
        "last_checkin": iso8601(SystemTime::now()),
        "last_status": {
            "backlog": backlog,
            "running": if worker.ready { threads } else { 0 },
            "pool_capacity": if takes_requests { threads.saturating_sub(worker.busy) } else { 0 },
            "busy_threads": worker.busy,
            "max_threads": threads,
            "requests_count": worker.answered,
        },
        "site": site,
    })
}

/// UTC, to the second, as Ruby's Time#iso8601 has it.
pub fn iso8601(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::generation::Phase;
    use std::time::{Duration, Instant};

    #[test]
    fn shares_add_up_to_the_queue() {
        for (waiting, workers) in [(0, 2), (1, 2), (7, 3), (3, 7)] {
            assert_eq!((0..workers).map(|nth| share(waiting, nth, workers)).sum::<usize>(), waiting);
        }
        assert_eq!(share(3, 0, 0), 3);
    }

    #[test]
    fn a_worker_under_pumas_names() {
        let now = Instant::now();
        let worker = WorkerView::sample();
        let generation = GenerationView {
            role: Role::Current,
            number: 3,
            phase: Phase::Ready,
            began: now,
            began_at: 1.5,
            release: "/srv/shop".into(),
            versions: String::new(),
            reforked: false,
            preloader: Some(41),
            workers: Vec::new(),
        };
        let status = worker_status("shop", &generation, &worker, 5, 1);
        // puma-5.6.5 lib/puma/cluster.rb and lib/puma/server.rb, and busy_threads of 6.
        for name in ["started_at", "pid", "index", "phase", "booted", "last_checkin", "last_status"] {
            assert!(status.get(name).is_some(), "{name}");
        }
        let wanted = json!({ "backlog": 1, "running": 5, "pool_capacity": 3, "busy_threads": 2, "max_threads": 5, "requests_count": 5 });
        assert_eq!(status["last_status"], wanted);
        assert_eq!(iso8601(UNIX_EPOCH + Duration::from_secs(1_700_000_000)), "2023-11-14T22:13:20Z");
        let leaving = worker_status("shop", &generation, &WorkerView { leaving: true, ..worker }, 5, 0);
        assert_eq!(leaving["last_status"]["pool_capacity"], 0);
    }
}
