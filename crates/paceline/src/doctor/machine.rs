//! The machine and the settings, as far as findings are about them: processors, memory, swap, and how the server runs the
//! application. Reads /proc and what the running server has answered; it never changes anything.

use std::{collections::BTreeMap, fs};

use doctor::observation::{Machine, Queue, Settings};
use serde_json::Value;

use crate::{
    apps::tuning::jemalloc,
    config::SiteConfig,
    observe::memory_usage::{self, Memory},
    support::pressure::pressure,
};

/// Bytes that a new process may have.
pub fn available_memory() -> Option<u64> {
    memory_usage::Machine::now().map(|machine| machine.left())
}

/// Major page faults of the application's processes, counted from a moment on.
pub struct Faults {
    before: u64,
}

impl Faults {
    pub fn begin(pids: &[i32]) -> Faults {
        Faults { before: faults(pids) }
    }

    /// A second.
    pub fn rate(&self, pids: &[i32], seconds: f64) -> Option<f64> {
        let now = faults(pids);
        (seconds > 0.0 && now >= self.before).then(|| (now - self.before) as f64 / seconds)
    }
}

fn faults(pids: &[i32]) -> u64 {
    pids.iter().filter_map(|pid| major_faults(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).sum()
}

/// The twelfth field of /proc/PID/stat (proc(5)); the second one may have any bytes in it.
fn major_faults(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(9)?.parse().ok()
}

/// `pids`: the application's processes. `fault_rate`: major faults a second.
pub fn machine(pids: &[i32], fault_rate: Option<f64>) -> Machine {
    let memory = memory_usage::Machine::now();
    let read = |name: &str| fs::read_to_string(name).ok();
    let swapped: u64 = pids.iter().filter_map(|pid| Some(Memory::of(*pid)?.swap_pss)).sum();
    Machine {
        cores: std::thread::available_parallelism().ok().map(|cores| cores.get() as u32),
        memory_total: memory.as_ref().map(memory_usage::Machine::limit),
        memory_available: memory.as_ref().map(memory_usage::Machine::left),
        swapped: (!pids.is_empty()).then_some(swapped),
        major_faults: fault_rate,
        memory_pressure: read("/proc/pressure/memory").and_then(|text| pressure(&text, "avg60")),
        cpu_pressure: read("/proc/pressure/cpu").and_then(|text| pressure(&text, "avg60")),
    }
}

/// What was read of a process of the application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Variables that set up Ruby or its allocator. Others are nobody's business: they may be secrets.
    pub env: BTreeMap<String, String>,
    /// Private memory, bytes.
    pub memory: Option<u64>,
    /// As `glibc`. None: another one than those that are known.
    pub allocator: Option<&'static str>,
}

impl Process {
    pub fn of(pid: i32) -> Process {
        let memory = Memory::of(pid).map(|memory| memory.own());
        Process { env: environment(pid), memory, allocator: allocator(pid) }
    }
}

/// How the server runs the application, as it has answered to `/doctor/samples`. `worker_memory`: bytes.
/// `puma_config`: as `puma_config` finds it.
pub fn settings(
    answered: &Value,
    process: &Process,
    worker_memory: Option<u64>,
    puma_config: Option<String>,
) -> Settings {
    let settings = &answered["settings"];
    let number = |name: &str| settings[name].as_u64().and_then(|number| u32::try_from(number).ok());
    Settings {
        workers: number("workers"),
        threads: number("threads"),
        preload: settings["preload"].as_bool(),
        compress: settings["compress"].as_bool(),
        page_cache: settings["page_cache"].as_bool(),
        worker_memory: worker_memory.or(process.memory),
        puma_config,
        threads_min: number("threads_min"),
        ..of_process(process)
    }
}

fn of_process(process: &Process) -> Settings {
    Settings {
        env: process.env.clone(),
        allocator: process.allocator.map(str::to_owned),
        jemalloc: jemalloc().map(|path| path.display().to_string()),
        worker_memory: process.memory,
        ..Settings::default()
    }
}

/// Settings of an application that the doctor has started. How another server runs it is known only from its
/// config/puma.rb.
pub fn settings_of(site: &SiteConfig, is_ours: bool, process: &Process) -> Settings {
    let known = Settings { puma_config: puma_config(site), ..of_process(process) };
    let (workers, threads) = (u32::try_from(site.workers).ok(), u32::try_from(site.threads).ok());
    if !is_ours {
        return if site.puma_config.is_some() { Settings { workers, threads, ..known } } else { known };
    }
    Settings {
        workers,
        threads,
        threads_min: u32::try_from(site.threads_min).ok(),
        preload: Some(site.preload),
        compress: Some(site.compress.is_some()),
        page_cache: Some(site.parts.cache.is_some()),
        ..known
    }
}

/// The file of Puma's that its settings are read from, below its folder. None: there is none, or a paceline.toml, which
/// wins over it.
pub fn puma_config(site: &SiteConfig) -> Option<String> {
    let file = site.puma_config.as_ref()?.strip_prefix(&site.root).ok()?;
    (!site.root.join("paceline.toml").exists()).then(|| file.to_str().map(str::to_owned))?
}

fn environment(pid: i32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let texts = bytes.split(|byte| *byte == 0).map(|pair| String::from_utf8_lossy(pair).into_owned());
    let pairs = texts.filter_map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
    pairs.filter(|(name, _)| is_of_ruby(name)).collect()
}

fn is_of_ruby(name: &str) -> bool {
    name.starts_with("RUBY") || name.starts_with("MALLOC") || ["LD_PRELOAD", "GLIBC_TUNABLES"].contains(&name)
}

/// The allocator that a process has loaded, by the files that it has mapped. One that stands before the C library wins.
pub fn allocator(pid: i32) -> Option<&'static str> {
    of_maps(&fs::read_to_string(format!("/proc/{pid}/maps")).ok()?)
}

fn of_maps(maps: &str) -> Option<&'static str> {
    // A C library's own one has another name in its files.
    const NAMES: [(&str, &str); 6] = [
        ("jemalloc", "jemalloc"),
        ("tcmalloc", "tcmalloc"),
        ("mimalloc", "mimalloc"),
        ("ld-musl", "musl"),
        ("libc.so.6", "glibc"),
        ("libc-2.", "glibc"),
    ];
    let files = || maps.lines().filter_map(|line| line.split_once('/')?.1.rsplit('/').next());
    NAMES.iter().find(|(part, _)| files().any(|file| file.contains(part))).map(|(_, name)| *name)
}

/// How live requests waited, by what the server answered. None: there were none.
pub fn queue(answered: &Value) -> Option<Queue> {
    let mut waits: Vec<f64> = answered["waits_us"].as_array()?.iter().filter_map(Value::as_f64).collect();
    waits.sort_by(f64::total_cmp);
    let at = |part: f64| waits.get((part * waits.len().saturating_sub(1) as f64).round() as usize).copied();
    let requests = answered["routes"].as_array()?.iter().filter_map(|route| route["requests"].as_u64()).sum::<u64>()
        + answered["of_other_routes"].as_u64().unwrap_or(0)
        + answered["other_methods"].as_u64().unwrap_or(0);
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let mean_us = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
    let of_one = |name: &str| number(&answered[name]) / requests.max(1) as f64;
    let (app_us, gc_us) = (of_one("app_us"), of_one("gc_us"));
    let settings = &answered["settings"];
    let threads = number(&settings["workers"]) * number(&settings["threads"]);
    let time = number(&answered["seconds"]) * 1e6 * threads;
    let busy = if time > 0.0 { (number(&answered["app_us"]) / time).min(1.0) } else { 0.0 };
    Some(Queue { requests, median_us: at(0.5)?, mean_us, p95_us: at(0.95)?, app_us, gc_us, busy })
}

/// The processes of a site by `/memory`, and the largest private memory of a worker.
pub fn processes(memory: &Value, site: &str) -> (Vec<i32>, Option<u64>) {
    let generations = memory["sites"][site]["generations"].as_array().into_iter().flatten();
    let all: Vec<&Value> = generations
        .flat_map(|one| one["workers"].as_array().into_iter().flatten().chain([&one["preloader"]]))
        .collect();
    let pids = all.iter().filter_map(|one| i32::try_from(one["pid"].as_i64()?).ok()).collect();
    let private = all.iter().filter(|one| one["index"].is_u64()).filter_map(|one| one["private_dirty"].as_u64()).max();
    (pids, private)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_of_a_process_with_a_strange_name() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 100 0 7 0 1 2 3";
        assert_eq!(major_faults(stat), Some(7));
        assert_eq!(major_faults("12 (a) S 1"), None);
        let own = std::process::id() as i32;
        assert!(Faults::begin(&[own]).rate(&[own], 1.0).is_some());
    }

    #[test]
    fn how_requests_waited() {
        let answered = json!({
            "waits_us": [5, 1, 9, 3], "seconds": 2.0, "app_us": 1_000_000, "gc_us": 400_000, "other_methods": 1, "of_other_routes": 0,
            "routes": [{ "requests": 3 }], "settings": { "workers": 2, "threads": 1 },
        });
        let found = queue(&answered).unwrap();
        assert_eq!((found.requests, found.median_us, found.p95_us, found.busy), (4, 5.0, 9.0, 0.25));
        assert_eq!((found.mean_us, found.app_us, found.gc_us), (4.5, 250_000.0, 100_000.0));
        assert_eq!(queue(&json!({ "waits_us": [], "routes": [] })), None);
        assert_eq!(queue(&json!({})), None);
    }

    #[test]
    fn only_rubys_own_variables_are_read() {
        let names: Vec<_> = environment(std::process::id() as i32).into_keys().collect();
        assert!(names.iter().all(|name| is_of_ruby(name)), "{names:?}");
        assert!(is_of_ruby("LD_PRELOAD") && !is_of_ruby("LD_LIBRARY_PATH") && !is_of_ruby("SECRET_KEY_BASE"));
    }

    #[test]
    fn which_allocator_is_loaded() {
        let map = |path: &str| format!("7f0000000000-7f0000001000 r-xp 00000000 fe:00 12 {path}\n");
        let glibc = map("/usr/bin/ruby3.1") + &map("/usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(of_maps(&glibc), Some("glibc"));
        assert_eq!(of_maps(&(glibc + &map("/usr/lib/libjemalloc.so.2"))), Some("jemalloc"));
        assert_eq!(of_maps(&map("/lib/ld-musl-x86_64.so.1")), Some("musl"));
        assert_eq!(of_maps(&(map("/srv/jemalloc/app") + "7f-7f rw-p 00000000 00:00 0 [heap]\n")), None);
        assert!(allocator(std::process::id() as i32).is_some());
    }

    #[test]
    fn whose_processes_they_are() {
        let process = |pid: i32, index: Value| json!({ "pid": pid, "private_dirty": 100 * pid, "index": index });
        let workers = [process(2, 1.into()), process(3, 2.into())];
        let memory = json!({ "sites": { "shop": { "generations": [{ "preloader": process(9, Value::Null), "workers": workers }] } } });
        assert_eq!(processes(&memory, "shop"), (vec![2, 3, 9], Some(300)));
        assert_eq!(processes(&memory, "other"), (vec![], None));
    }
}
