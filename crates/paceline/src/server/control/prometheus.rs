//! All that is counted, for Prometheus; what parts count is in `parts`. docs/monitoring.md has a row for each name, which a test holds it to.
//! It never counts itself; memory is read away from the event loop.

use std::{sync::Arc, time::UNIX_EPOCH};

use http::Response;

use super::{
    answer::{aside, whole, Body, Refusal},
    exposition::{Exposition, Type, CONTENT_TYPE},
    observed::{self, SiteObservation},
    parts::PARTS,
};
use crate::{
    apps::overview::{Overview, Role, Standing},
    observe::{
        in_flight::{Entry, EXCHANGES},
        memory_usage::Memory,
        metrics::{Kind, Restart, Snapshot},
    },
    request::front::{drain::Readiness, Front},
    support::buffer_memory::BODIES,
};

/// The site of requests that none answered.
const NOWHERE: &str = "";

/// GET /metrics.
pub async fn of_server(front: Arc<Front>) -> Result<Response<Body>, Refusal> {
    let sites = observed::sites(&front).await;
    let processes = processes(&sites);
    let processes = aside(move || measured(processes)).await?;
    let mut text = Exposition::default();
    server_itself(&mut text, &front);
    traces(&mut text, &front);
    requests(&mut text, &front, &sites);
    queue(&mut text, &sites, &EXCHANGES.all());
    workers(&mut text, &sites);
    cache(&mut text, &front, &sites);
    maintenance(&mut text, &front);
    PARTS.iter().for_each(|part| (part.metrics)(&mut text, &front, &sites));
    memory(&mut text, &processes);
    Ok(whole(CONTENT_TYPE, text.text()))
}

fn server_itself(text: &mut Exposition, server: &Front) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.family("paceline_build_info", Type::Gauge, "Always 1; the label is the version.").sample(&version, 1);
    let began = server.began.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    text.family("process_start_time_seconds", Type::Gauge, "When the server started, Unix time.").sample(&[], began);
    let ready = u8::from(server.readiness() == Readiness::Ready);
    text.family("paceline_ready", Type::Gauge, "1 when the server should get requests.").sample(&[], ready);
    let (accepted, refused) = server.connections.counted();
    let open = server.connections.open();
    text.family("paceline_connections", Type::Gauge, "Open connections of clients.").sample(&[], open);
    text.family("paceline_connections_accepted_total", Type::Counter, "Accepted connections.").sample(&[], accepted);
    text.family(
        "paceline_connections_refused_total",
        Type::Counter,
        "Connections refused because there were too many.",
    )
    .sample(&[], refused);
    text.family(
        "paceline_body_buffer_bytes",
        Type::Gauge,
        "Bytes of bodies in the front's memory that wait for a client or a worker.",
    )
    .sample(&[], BODIES.used());
    text.family("paceline_incidents_total", Type::Counter, "Crashes, time-outs, failed starts and the like.")
        .sample(&[], server.incidents.count());
}

fn traces(text: &mut Exposition, front: &Front) {
    if let Some(tracer) = &front.tracer {
        text.family("paceline_trace_spans_dropped_total", Type::Counter, "Spans dropped because the buffer was full.")
            .sample(&[], tracer.dropped());
    }
}

fn requests(text: &mut Exposition, front: &Front, sites: &[SiteObservation]) {
    let elsewhere = front.metrics.elsewhere.snapshot();
    let of_sites = sites.iter().map(|one| (one.site.config.name.as_str(), &one.counts));
    let all: Vec<(&str, &Snapshot)> = of_sites.chain([(NOWHERE, &elsewhere)]).collect();

    let help = "Requests, by status class and by the part that answered.";
    let mut family = text.family("paceline_requests_total", Type::Counter, help);
    each_kind(&all, |site, kind, counts| {
        for (class, requests) in (1..).zip(counts.of(kind).classes).filter(|(_, requests)| *requests > 0) {
            let class = format!("{class}xx");
            family.sample(&[("site", site), ("kind", kind.as_str()), ("code_class", &class)], requests);
        }
    });
    let mut family =
        text.family("paceline_response_body_bytes_total", Type::Counter, "Body bytes handed to connections.");
    each_kind(&all, |site, kind, counts| {
        family.sample(&[("site", site), ("kind", kind.as_str())], counts.of(kind).bytes);
    });
    let help = "From the request's head to the last byte of the answer.";
    let mut family = text.family("paceline_request_duration_seconds", Type::Histogram, help);
    each_kind(&all, |site, kind, counts| {
        family.histogram(&[("site", site), ("kind", kind.as_str())], &counts.of(kind).total);
    });
    let help = "Clients that left before they had the whole answer.";
    let mut family = text.family("paceline_client_aborts_total", Type::Counter, help);
    all.iter().for_each(|(site, counts)| family.sample(&[("site", site)], counts.aborted));
}

/// Each kind that has answered something.
fn each_kind(all: &[(&str, &Snapshot)], mut tell: impl FnMut(&str, Kind, &Snapshot)) {
    for (site, counts) in all {
        for kind in Kind::ALL.into_iter().filter(|kind| counts.of(*kind).requests() > 0) {
            tell(site, kind, counts);
        }
    }
}

fn queue(text: &mut Exposition, sites: &[SiteObservation], under_way: &[Arc<Entry>]) {
    let name = |one: &SiteObservation| one.site.config.name.clone();
    let help = "Requests in progress, except those that the cache answers at once.";
    let mut family = text.family("paceline_requests_in_flight", Type::Gauge, help);
    sites.iter().for_each(|one| family.sample(&[("site", &name(one))], one.in_hand));
    let nowhere = under_way.iter().filter(|entry| entry.site.is_none()).count();
    family.sample(&[("site", NOWHERE)], nowhere);

    let apps = || sites.iter().filter_map(|one| Some((one.site.config.name.as_str(), one.threads?, &one.counts)));
    let mut family = text.family("paceline_queue_depth", Type::Gauge, "Requests that wait for a worker thread.");
    apps().for_each(|(site, threads, _)| family.sample(&[("site", site)], threads.waiting));
    let mut family = text.family("paceline_worker_threads", Type::Gauge, "Worker threads, by state.");
    for (site, threads, _) in apps() {
        family.sample(&[("site", site), ("state", "busy")], threads.busy);
        family.sample(&[("site", site), ("state", "idle")], threads.idle);
        family.sample(&[("site", site), ("state", "stream")], threads.streams);
    }
    let help = "How long requests waited for a worker thread.";
    let mut family = text.family("paceline_queue_duration_seconds", Type::Histogram, help);
    apps().for_each(|(site, _, counts)| family.histogram(&[("site", site)], &counts.queue));
    let help = "How long requests were in the application, or at the upstream.";
    let mut family = text.family("paceline_app_duration_seconds", Type::Histogram, help);
    for one in sites.iter().filter(|one| one.site.app.is_some() || one.site.upstream.is_some()) {
        family.histogram(&[("site", &name(one))], &one.counts.app);
    }
}

/// Of sites where crawlers come last.
fn workers(text: &mut Exposition, sites: &[SiteObservation]) {
    let apps = || {
        let told =
            |one: &'_ SiteObservation| one.overview.clone().map(|overview| (one.site.config.name.clone(), overview));
        sites.iter().filter_map(told)
    };
    let mut family = text.family("paceline_app_ready", Type::Gauge, "1 when a generation of the application serves.");
    apps().for_each(|(site, app)| family.sample(&[("site", &site)], u8::from(app.state == Standing::Ready)));
    let mut family = text.family("paceline_generation", Type::Gauge, "Number of the serving generation.");
    for (site, app) in apps() {
        app.current().iter().for_each(|current| family.sample(&[("site", &site)], current.number));
    }
    let mut family = text.family("paceline_workers", Type::Gauge, "Worker processes, by state.");
    for (site, app) in apps() {
        let count = |wanted| workers_of(&app).filter(|state| *state == wanted).count();
        for state in ["ready", "booting", "leaving"] {
            family.sample(&[("site", &site), ("state", state)], count(state));
        }
    }
    let mut family = text.family("paceline_workers_wanted", Type::Gauge, "Intended number of workers.");
    apps().for_each(|(site, app)| family.sample(&[("site", &site)], app.workers_wanted));

    let processes = || {
        sites
            .iter()
            .filter(|one| one.site.app.is_some())
            .map(|one| (&*one.site.config.name, &one.site.metrics.processes))
    };
    let mut family = text.family("paceline_worker_restarts_total", Type::Counter, "Replaced workers, by reason.");
    for (site, counts) in processes() {
        for why in Restart::ALL {
            family.sample(&[("site", site), ("reason", why.as_str())], counts.restarts(why));
        }
    }
    let help = "Started generations, by result.";
    let mut family = text.family("paceline_generations_total", Type::Counter, help);
    for (site, counts) in processes() {
        let (ready, failed) = counts.generations();
        family.sample(&[("site", site), ("result", "ready")], ready);
        family.sample(&[("site", site), ("result", "failed")], failed);
    }
}

fn workers_of(app: &Overview) -> impl Iterator<Item = &'static str> + '_ {
    app.generations.iter().flat_map(|generation| {
        generation.workers.iter().map(|worker| match (worker.ready, generation.role) {
            (_, Role::Leaving) => "leaving",
            _ if worker.leaving => "leaving",
            (false, _) => "booting",
            (true, _) => "ready",
        })
    })
}

fn cache(text: &mut Exposition, front: &Front, sites: &[SiteObservation]) {
    let used = front.cache.store().usage();
    for (name, help, value) in [
        ("paceline_cache_bytes", "Size of the page cache in memory.", used.bytes),
        ("paceline_cache_budget_bytes", "Size limit of the page cache in memory.", used.budget),
        ("paceline_cache_objects", "Responses and directories in the page cache.", used.objects),
    ] {
        text.family(name, Type::Gauge, help).sample(&[], value);
    }
    text.family("paceline_cache_evicted_total", Type::Counter, "Evicted entries.").sample(&[], used.evicted);
    if let Some(disk) = front.cache.disk().map(|disk| disk.usage()) {
        text.family("paceline_cache_disk_bytes", Type::Gauge, "Size of the page cache on disk.")
            .sample(&[], disk.bytes);
        text.family("paceline_cache_disk_off", Type::Gauge, "1 while the page cache on disk is off after an error.")
            .sample(&[], u64::from(disk.given_up));
    }
    let counted = |one: &SiteObservation| Some((one.site.config.name.clone(), one.site.cache.as_ref()?.counters.all()));
    let counters: Vec<_> = sites.iter().filter_map(counted).collect();
    let help = "Requests answered by the page cache.";
    let mut family = text.family("paceline_cache_hits_total", Type::Counter, help);
    for (site, counts) in &counters {
        let hits = counts.iter().find(|(name, _)| name == "hit").map_or(0, |(_, count)| *count);
        family.sample(&[("site", site)], hits);
    }
    let help = "Requests that the page cache passed on, by RFC 9211's reason.";
    let mut family = text.family("paceline_cache_forwards_total", Type::Counter, help);
    for (site, counts) in &counters {
        for (name, count) in counts {
            if let Some(reason) = name.strip_prefix("fwd=") {
                family.sample(&[("site", site), ("reason", reason)], count);
            }
        }
    }
    let mut family = text.family("paceline_cache_stored_total", Type::Counter, "Responses that were stored.");
    for (site, counts) in &counters {
        let stored = counts.iter().find(|(name, _)| name == "stored").map_or(0, |(_, count)| *count);
        family.sample(&[("site", site)], stored);
    }
}

fn maintenance(text: &mut Exposition, front: &Front) {
    let help = "1 while a site is closed for maintenance, by this server or by all of its cluster.";
    let mut family = text.family("paceline_maintenance", Type::Gauge, help);
    for site in front.routes().all() {
        family.sample(&[("site", &site.config.name)], u8::from(site.maintenance.closed().is_some()));
    }
}

/// A process of ours.
struct Process {
    site: String,
    process: &'static str,
    worker: String,
    generation: String,
    pid: i32,
}

fn processes(sites: &[SiteObservation]) -> Vec<Process> {
    let of = |site: &str, process, worker, generation, pid| Process {
        site: site.to_owned(),
        process,
        worker,
        generation,
        pid,
    };
    let mut all = vec![of(NOWHERE, "front", String::new(), String::new(), std::process::id() as i32)];
    for one in sites {
        let site = &one.site.config.name;
        for generation in one.overview.iter().flat_map(|overview| &overview.generations) {
            let number = generation.number.to_string();
            let preloader = generation.preloader.map(|pid| of(site, "preloader", String::new(), number.clone(), pid));
            all.extend(preloader);
            let worker = |index: usize, pid| of(site, "worker", index.to_string(), number.clone(), pid);
            all.extend(generation.workers.iter().map(|one| worker(one.index, one.pid)));
        }
    }
    all
}

fn measured(processes: Vec<Process>) -> Vec<(Process, Memory)> {
    processes.into_iter().filter_map(|process| Memory::of(process.pid).map(|memory| (process, memory))).collect()
}

fn memory(text: &mut Exposition, processes: &[(Process, Memory)]) {
    type Bytes = fn(&Memory) -> u64;
    let families: [(&'static str, &str, Bytes); 4] = [
        (
            "paceline_memory_private_bytes",
            "Memory that only this process uses; it is freed when the process ends.",
            |m| m.private_dirty,
        ),
        (
            "paceline_memory_proportional_bytes",
            "PSS: shared pages are divided by the number of processes that share them.",
            |m| m.pss,
        ),
        ("paceline_memory_resident_bytes", "RSS: shared pages count in full.", |m| m.rss),
        ("paceline_memory_swap_bytes", "Swapped-out memory of the process.", |m| m.swap),
    ];
    for (name, help, bytes) in families {
        let mut family = text.family(name, Type::Gauge, help);
        for (Process { site, process, worker, generation, pid }, memory) in processes {
            let pid = pid.to_string();
            let labels = [
                ("site", &**site),
                ("process", process),
                ("generation", generation),
                ("worker", worker),
                ("pid", &pid),
            ];
            family.sample(&labels, bytes(memory));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_name_is_documented() {
        let docs = include_str!("../../../../../docs/monitoring.md");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/control");
        let parts = std::fs::read_dir(folder.join("parts")).unwrap().map(|file| file.unwrap().path());
        let files = parts.chain([folder.join("prometheus.rs")]);
        let sources: Vec<_> = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let names: std::collections::BTreeSet<_> = sources
            .iter()
            .flat_map(|source| source.split('"'))
            .filter(|text| text.starts_with("paceline_") && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
            .collect();
        assert!(names.len() > 45, "{names:?}");
        let missing: Vec<_> =
            names.iter().filter(|name| **name != "paceline_" && !docs.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/monitoring.md lacks {missing:?}");
    }
}
