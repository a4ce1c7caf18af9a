//! The requests under way, and where the Ruby thread is that has one of them.
//! It never changes anything; it asks a worker nothing but where it is.

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::{json, Value};

use super::{
    answer::{ControlRequest, JsonResult, Refusal},
    observed,
};
use crate::{
    observe::in_flight::{Client, Entry, Step, EXCHANGES},
    request::front::Front,
    support::clock::{self, Micros},
};

/// How long a worker may take to tell where it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// GET /requests: the oldest first.
pub async fn all(front: Arc<Front>) -> JsonResult {
    let entries = EXCHANGES.all();
    let workers =
        if entries.iter().any(|entry| entry.held().is_some()) { workers(&front).await } else { HashMap::new() };
    let now = clock::now();
    let requests: Vec<_> = entries.iter().map(|entry| entry_json(entry, &front, &workers, now)).collect();
    Ok(json!({ "requests": requests }))
}

/// GET /requests/NUMBER/backtrace.
pub async fn backtrace(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let named = asked.head.uri.path().split('/').nth(2).unwrap_or_default();
    let gone = || refused(StatusCode::NOT_FOUND, format!("no request {named} is in progress: it may have ended"));
    let number = named.parse().map_err(|_| Refusal::bad(format!("{named} is not the number of a request")))?;
    let entry = EXCHANGES.find(number).ok_or_else(gone)?;
    let step = entry.step().0.as_str();
    let not_in_ruby = || {
        let why = format!("no Ruby thread has request {named}: it is at the step \"{step}\"");
        refused(StatusCode::CONFLICT, why)
    };
    let (worker, thread) = entry.held().ok_or_else(not_in_ruby)?;
    let name = entry.site.as_ref().map_or("", |site| &site.name);
    let routes = front.routes();
    let app = routes.all().iter().find(|site| site.config.name == name).and_then(|site| site.app.clone());
    let app = app.ok_or_else(gone)?;
    let silent = |_| {
        let why =
            format!("the worker did not answer within {} s: a thread of it holds Ruby's lock", PATIENCE.as_secs());
        refused(StatusCode::GATEWAY_TIMEOUT, why)
    };
    let lines = tokio::time::timeout(PATIENCE, app.backtrace(worker, thread)).await.map_err(silent)?;
    // The thread may have gone on to another request meanwhile.
    let lines = lines.filter(|_| entry.held() == Some((worker, thread))).ok_or_else(gone)?;
    let mut answer = entry_json(&entry, &front, &workers(&front).await, clock::now());
    answer["backtrace"] = lines.lines().collect::<Vec<_>>().into();
    Ok(answer)
}

fn refused(status: StatusCode, why: String) -> Refusal {
    Refusal { status, why }
}

/// A worker as people know it.
#[derive(Debug, Clone, Copy)]
struct Worker {
    index: usize,
    pid: i32,
    generation: u64,
}

/// By site and the worker's number, which is of its site.
type Workers = HashMap<(String, u64), Worker>;

async fn workers(front: &Front) -> Workers {
    let mut workers = HashMap::new();
    for one in observed::sites(front).await {
        for generation in one.overview.iter().flat_map(|overview| &overview.generations) {
            for worker in &generation.workers {
                let known = Worker { index: worker.index, pid: worker.pid, generation: generation.number };
                workers.insert((one.site.config.name.clone(), worker.id), known);
            }
        }
    }
    workers
}

fn entry_json(entry: &Entry, front: &Front, workers: &Workers, now: Micros) -> Value {
    let site = entry.site.as_ref().map(|site| site.name.clone());
    let (step, stepped) = entry.step();
    // Who has a connection of his own has had an answer.
    let client = if step == Step::Upgraded { Client::Waits } else { entry.client_is() };
    let worker = entry.held().map(|(id, thread)| {
        let known = site.clone().and_then(|site| workers.get(&(site, id)));
        json!({
            "index": known.map(|worker| worker.index),
            "pid": known.map(|worker| worker.pid),
            "generation": known.map(|worker| worker.generation),
            "thread": thread,
        })
    });
    let routes = front.routes();
    let app = routes.all().iter().find(|one| Some(&one.config.name) == site.as_ref()).and_then(|one| one.app.as_ref());
    let seconds = |since: Micros| now.saturating_sub(since) as f64 / 1e6;
    json!({
        "number": entry.number,
        "id": entry.id,
        "age": seconds(entry.since),
        "step": step.as_str(),
        "step_age": seconds(stepped),
        "site": site,
        "method": entry.method.as_str(),
        "target": entry.uri.path_and_query().map_or("/", |target| target.as_str()),
        "route": app.map(|app| app.route(entry.method.as_str(), entry.uri.path())),
        "client": entry.client.map(|client| client.to_string()),
        "client_is": client.as_str(),
        "user": entry.user(),
        "worker": worker,
    })
}
