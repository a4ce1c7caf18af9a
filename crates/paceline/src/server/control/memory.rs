//! What memory the front, the preloaders and the workers use, as JSON: the kernel's figures, Ruby's own, and with which
//! routes workers have grown. Read away from the event loops. It never changes anything.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{json, Map, Value};

use super::answer::{aside, JsonResult};
use crate::{
    apps::{
        memory::{GrowthView, HeapAnswers, RubyHeap},
        overview::{GenerationView, Overview},
    },
    observe::memory_usage::{Machine, Memory},
    request::front::Front,
    support::buffer_memory::BODIES,
};

/// How long processes may take to tell of their heaps.
const PATIENCE: Duration = Duration::from_secs(1);
/// Routes that are told of each worker.
const MAX_ROUTES: usize = 5;

/// The kernel's figures by pid.
type Read = HashMap<i32, Memory>;

/// GET /memory.
pub async fn all(server: Arc<Front>) -> JsonResult {
    let asking: Vec<_> = server
        .routes()
        .all()
        .iter()
        .filter_map(|site| {
            let (name, app) = (site.config.name.clone(), site.app.clone()?);
            Some(tokio::spawn(async move { (name, app.overview().await, app.memory(PATIENCE).await) }))
        })
        .collect();
    let mut apps = Vec::new();
    for asked in asking {
        apps.extend(asked.await);
    }
    let cache = server.cache.store().usage();
    let pids: Vec<i32> = apps.iter().flat_map(|(_, overview, _)| pids(overview)).collect();
    let own = std::process::id() as i32;
    let (mut read, machine) = aside(move || {
        let read: Read = pids.into_iter().chain([own]).filter_map(|pid| Some((pid, Memory::of(pid)?))).collect();
        (read, Machine::now())
    })
    .await?;
    let front = read.remove(&own).unwrap_or_default();
    let all: Memory = read.values().copied().chain([front]).sum();
    let mut front = of_process(own, &front);
    front.insert("cache".into(), json!({ "bytes": cache.bytes, "budget": cache.budget }));
    front.insert("buffered".into(), BODIES.used().into());
    let sites: Map<_, _> =
        apps.iter().map(|(name, overview, told)| (name.clone(), of_app(overview, told, &read))).collect();
    Ok(json!({ "front": front, "sites": sites, "all": figures(&all), "machine": machine.as_ref().map(of_machine) }))
}

fn pids(overview: &Overview) -> Vec<i32> {
    let of_generation = |generation: &GenerationView| {
        generation.preloader.into_iter().chain(generation.workers.iter().map(|worker| worker.pid)).collect::<Vec<_>>()
    };
    overview.generations.iter().flat_map(of_generation).collect()
}

fn of_app(overview: &Overview, told: &HeapAnswers, read: &Read) -> Value {
    let workers = || overview.generations.iter().flat_map(|generation| &generation.workers);
    let of_workers: Memory = workers().filter_map(|worker| read.get(&worker.pid)).copied().sum();
    let of_all: Memory = pids(overview).iter().filter_map(|pid| read.get(pid)).copied().sum();
    json!({
        "state": overview.state.as_str(),
        "workers": workers().count(),
        "of_workers": figures(&of_workers),
        "of_all": figures(&of_all),
        "generations": overview.generations.iter().map(|one| of_generation(one, told, read)).collect::<Vec<_>>(),
    })
}

fn of_generation(generation: &GenerationView, told: &HeapAnswers, read: &Read) -> Value {
    let process = |pid: i32| {
        let mut process = of_process(pid, read.get(&pid)?);
        let (heap, growth) = told.get(&pid).map_or((None, None), |(heap, growth)| (heap.as_ref(), growth.as_ref()));
        process.insert("heap".into(), heap.map_or(Value::Null, of_heap));
        process.insert("growth".into(), growth.map_or(Value::Null, of_growth));
        Some(process)
    };
    let workers = generation.workers.iter().filter_map(|worker| {
        let mut one = process(worker.pid)?;
        one.insert("id".into(), worker.id.into());
        one.insert("index".into(), worker.index.into());
        one.insert("answered".into(), worker.answered.into());
        one.insert("leaving".into(), worker.leaving.into());
        Some(one)
    });
    let of_workers: Memory = generation.workers.iter().filter_map(|worker| read.get(&worker.pid)).copied().sum();
    let of_preloader = generation.preloader.and_then(|pid| read.get(&pid)).copied();
    json!({
        "number": generation.number,
        "role": generation.role.as_str(),
        "preloader": generation.preloader.and_then(process),
        "workers": workers.collect::<Vec<_>>(),
        "of_workers": figures(&of_workers),
        "of_all": figures(&of_preloader.into_iter().chain([of_workers]).sum()),
    })
}

fn of_process(pid: i32, memory: &Memory) -> Map<String, Value> {
    let mut process = figures(memory);
    process.insert("pid".into(), pid.into());
    process
}

/// Bytes; `shared_share` is of RSS.
fn figures(memory: &Memory) -> Map<String, Value> {
    let bytes = [
        ("virtual", memory.virt),
        ("rss", memory.rss),
        ("pss", memory.pss),
        ("private_dirty", memory.private_dirty),
        ("private_clean", memory.private_clean),
        ("shared", memory.shared),
        ("swap", memory.swap),
        ("swap_pss", memory.swap_pss),
    ];
    let mut map: Map<_, _> = bytes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect();
    map.insert("shared_share".into(), share(memory.shared, memory.rss));
    map
}

fn share(part: u64, whole: u64) -> Value {
    json!((part as f64 / whole.max(1) as f64 * 1e4).round() / 1e4)
}

fn of_heap(heap: &RubyHeap) -> Value {
    let pools = heap.pools.iter().map(|pool| json!({ "size": pool.size, "slots": pool.slots, "live": pool.live }));
    json!({
        "slots": heap.slots,
        "live": heap.live,
        "free": heap.free,
        "old_objects": heap.old_objects,
        "bytes": heap.bytes(),
        "pools": pools.collect::<Vec<_>>(),
        "malloc_increase": heap.malloc,
        "oldmalloc_increase": heap.old_malloc,
        "allocated_objects": heap.allocated,
        "minor_collections": heap.minor_collections,
        "major_collections": heap.major_collections,
        "gc_share": (heap.collecting_share() * 1e5).round() / 1e5,
        "yjit": heap.yjit,
    })
}

fn of_growth(growth: &GrowthView) -> Value {
    let routes = growth.routes.iter().take(MAX_ROUTES);
    let routes = routes.map(|one| json!({ "route": *one.label, "bytes": one.bytes, "requests": one.requests }));
    json!({ "born": growth.born, "now": growth.now, "routes": routes.collect::<Vec<_>>() })
}

fn of_machine(machine: &Machine) -> Value {
    let cgroup = machine.cgroup.as_ref();
    json!({
        "total": machine.total,
        "available": machine.available,
        "swap_total": machine.swap_total,
        "swap_free": machine.swap_free,
        "limit": machine.limit(),
        "left": machine.left(),
        "bound_by": machine.bound_by(),
        "cgroup": cgroup.map(|one| json!({ "folder": one.folder.display().to_string(), "limit": one.limit, "used": one.used })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::growth::RouteGrowth;

    #[test]
    fn figures_of_a_process_its_heap_and_its_growth() {
        let memory = Memory { rss: 3000, shared: 1000, private_dirty: 1500, ..Memory::default() };
        let process = of_process(7, &memory);
        assert_eq!((&process["pid"], &process["shared_share"]), (&json!(7), &json!(0.3333)));
        let heap = of_heap(&RubyHeap { slots: 5, collecting: 1, life: 3, ..RubyHeap::default() });
        assert_eq!((&heap["slots"], &heap["gc_share"], &heap["yjit"]), (&json!(5), &json!(0.33333), &Value::Null));
        let route = RouteGrowth { label: "GET /".into(), bytes: 4, requests: 2 };
        let growth = of_growth(&GrowthView { born: 1, now: 5, routes: vec![route; 9] });
        assert_eq!(growth["routes"].as_array().map(Vec::len), Some(MAX_ROUTES));
        assert_eq!(growth["routes"][0], json!({ "route": "GET /", "bytes": 4, "requests": 2 }));
    }
}
