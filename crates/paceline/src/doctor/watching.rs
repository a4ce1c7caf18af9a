//! Watches the requests that a running server answers, and takes the sample.
//! It never writes it anywhere.

use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::{
    machine::{processes, Faults},
    progress::{left, Progress},
    source::Server,
};
use crate::server::control::client::Failed;

/// How often it is asked; the server ends a watch of which it hears nothing for 15 s.
const OFTEN: Duration = Duration::from_secs(3);

/// Before it is asked for what was seen so far: visitors come in this time to the pages that are asked for most.
const FIRST: Duration = Duration::from_secs(4);

/// What was watched.
pub struct WatchResult {
    /// As `/doctor/samples` answers.
    pub answered: Value,
    /// The application's processes.
    pub pids: Vec<i32>,
    /// Major faults of theirs, a second.
    pub fault_rate: Option<f64>,
    /// Private memory of the largest worker, bytes.
    pub worker_memory: Option<u64>,
}

/// Watches for so long. `look` gets what was seen in the first seconds, as `/doctor/samples` answers, and has the time while more is watched.
pub fn watch(
    server: &Server,
    time: Duration,
    progress: &Progress,
    look: impl FnOnce(&Value),
) -> Result<WatchResult, Failed> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    if time < FIRST * 2 {
        return watch_as(&id, server, time, progress);
    }
    let (id, progress) = (id.as_str(), progress.clone());
    std::thread::scope(|scope| {
        let watching = scope.spawn(move || watch_as(id, server, time, &progress));
        std::thread::sleep(FIRST);
        let wish = json!({ "site": server.site, "id": id, "so_far": true });
        if let Ok(seen) = server.ask("POST", "/doctor/samples", Some(&wish)) {
            look(&seen);
        }
        watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn watch_as(id: &str, server: &Server, time: Duration, progress: &Progress) -> Result<WatchResult, Failed> {
    let wish = json!({ "site": server.site, "id": id });
    let ask = |target: &str| server.ask("POST", target, Some(&wish));
    let began = Instant::now();
    ask("/doctor/watch")?;
    if !time.is_zero() {
        progress.say(&format!("watching requests{}", left(time)));
    }
    let memory = || server.ask("GET", "/memory", None).unwrap_or_default();
    let (before, _) = processes(&memory(), &server.site);
    let faults = Faults::begin(&before);
    loop {
        let elapsed = began.elapsed();
        let seen = ask("/doctor/watch")?;
        if elapsed >= time {
            break;
        }
        progress.tell(|| {
            let (requests, routes) = (&seen["requests"], &seen["routes"]);
            format!("watching: {requests} GETs of {routes} routes{}", left(time - elapsed))
        });
        std::thread::sleep(OFTEN.min(time - elapsed));
    }
    let answered = ask("/doctor/samples")?;
    let (pids, worker_memory) = processes(&memory(), &server.site);
    let fault_rate = faults.rate(&before, began.elapsed().as_secs_f64());
    Ok(WatchResult { answered, pids, fault_rate, worker_memory })
}
