//! What generations of each site there are, and their workers, as JSON.
//! It never changes anything.

use std::sync::Arc;

use serde_json::{json, Map, Value};

use super::answer::JsonResult;
use crate::{
    apps::{
        overview::{GenerationView, Overview, WorkerView},
        processes::ProcessView,
    },
    request::front::Front,
};

/// GET /generations.
pub async fn all(server: Arc<Front>) -> JsonResult {
    let mut sites = Map::new();
    for site in server.routes().all() {
        if let Some(app) = &site.app {
            sites.insert(site.config.name.clone(), of_app(&app.overview().await));
        }
    }
    Ok(json!({ "sites": sites }))
}

pub(super) fn of_app(overview: &Overview) -> Value {
    json!({
        "state": overview.state.as_str(),
        "failure": overview.failure.as_ref().map(|report| report.summary()),
        "workers_wanted": overview.workers_wanted,
        "restarts_under_way": overview.restarts,
        "generations": overview.generations.iter().map(of_generation).collect::<Vec<_>>(),
        "processes": overview.processes.iter().map(of_process).collect::<Vec<_>>(),
    })
}

/// Ages in seconds.
fn of_generation(generation: &GenerationView) -> Value {
    json!({
        "role": generation.role.as_str(),
        "number": generation.number,
        "phase": generation.phase.as_str(),
        "began": generation.began_at,
        "age": generation.began.elapsed().as_secs(),
        "release": generation.release.display().to_string(),
        "versions": generation.versions,
        "reforked": generation.reforked,
        "preloader_pid": generation.preloader,
        "workers": generation.workers.iter().map(of_worker).collect::<Vec<_>>(),
    })
}

fn of_process(process: &ProcessView) -> Value {
    json!({
        "name": process.name,
        "who": process.who,
        "state": process.standing.as_str(),
        "since": process.since,
        "pid": process.pid,
        "starts": process.starts,
        "last_exit": process.last_exit,
    })
}

fn of_worker(worker: &WorkerView) -> Value {
    json!({
        "id": worker.id,
        "index": worker.index,
        "pid": worker.pid,
        "age": worker.forked.elapsed().as_secs(),
        "ready": worker.ready,
        "leaving": worker.leaving,
        "answered": worker.answered,
        "busy": worker.busy,
        "streams": worker.streams,
        "hijacked": worker.hijacked,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::apps::{
        generation::Phase,
        overview::{Role, Standing},
    };

    #[test]
    fn an_app_with_one_generation() {
        let now = Instant::now();
        let generation = GenerationView {
            role: Role::Current,
            number: 3,
            phase: Phase::Ready,
            began: now,
            began_at: 1.5,
            release: "/srv/shop/releases/2".into(),
            versions: "ruby 3.1.2".into(),
            reforked: false,
            preloader: Some(41),
            workers: vec![WorkerView::sample()],
        };
        let overview = Overview {
            state: Standing::Ready,
            failure: None,
            workers_wanted: 1,
            restarts: 0,
            generations: vec![generation],
            processes: Vec::new(),
        };
        let told = of_app(&overview);
        assert_eq!((&told["state"], &told["failure"]), (&json!("ready"), &Value::Null));
        let generation = &told["generations"][0];
        assert_eq!((&generation["role"], &generation["release"]), (&json!("current"), &json!("/srv/shop/releases/2")));
        assert_eq!((&generation["workers"][0]["busy"], &generation["workers"][0]["streams"]), (&json!(2), &json!(1)));
        assert_eq!(overview.current().map(|current| current.number), Some(3));
    }
}
