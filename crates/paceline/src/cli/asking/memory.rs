//! `paceline memory`: what each process of the running server really costs, and what made a worker grow.
//! It never shows what stands in a route as a command to the terminal.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::Value;
use units::grouped;

use super::{
    print_answer, switch,
    text::{number, printable},
    where_it_is, Asker,
};
use crate::server::control::client::Failed;

const AFTER: &str = "\
private  memory that only this process uses (private dirty pages); it is free again when the process ends
PSS      private memory, plus the process's part of each shared page
RSS      every page the process uses, shared ones in full: a sum of RSS counts shared pages once for each process
shared   the part of RSS that other processes use, too: of a worker, what it still shares with its preloader
grown    private memory that a worker has gained since its fork
See docs/memory.md.";

pub fn memory() -> Command {
    Command::new("memory")
        .bin_name("paceline memory")
        .about("The real memory cost of each process of the running server")
        .after_help(AFTER)
        .arg(switch("json").help("Print JSON, in bytes"))
}

pub fn command() -> Command {
    where_it_is(memory())
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let answer = server.ask("GET", "/memory", None)?;
    print_answer(&answer, matches, rendered)
}

fn rendered(answer: &Value) -> String {
    let mut text = String::new();
    for (name, site) in answer["sites"].as_object().into_iter().flatten() {
        text.push_str(&sentence(&printable(name), site));
    }
    let mut rows = vec![process("front", &answer["front"])];
    let mut heaps = Vec::new();
    let several = answer["sites"].as_object().is_some_and(|sites| sites.len() > 1);
    for (name, site) in answer["sites"].as_object().into_iter().flatten() {
        for generation in list(&site["generations"]) {
            let role = match generation["role"].as_str() {
                Some("current") | None => String::new(),
                Some(role) => format!(", {role}"),
            };
            let of_site = if several { format!(" of {}", printable(name)) } else { String::new() };
            rows.push(vec![format!("generation {}{of_site}{role}", number(&generation["number"]))]);
            let workers = list(&generation["workers"]);
            let named = workers.iter().map(|worker| {
                let leaving = if worker["leaving"].as_bool() == Some(true) { ", leaving" } else { "" };
                (format!("  worker {}{leaving}", number(&worker["index"])), worker)
            });
            let preloader = Some(&generation["preloader"]).filter(|one| !one.is_null());
            for (name, one) in preloader.map(|one| ("  preloader".to_string(), one)).into_iter().chain(named) {
                rows.push(process(&name, one));
                heaps.extend(heap(&name, &one["heap"]));
            }
            if workers.len() > 1 {
                rows.push(process("  all workers", &generation["of_workers"]));
            }
        }
    }
    rows.push(process("all", &answer["all"]));
    let heads = ["MB", "pid", "private", "PSS", "RSS", "virtual", "swap", "shared", "grown"];
    text.push_str(&format!("\n{}", table(&heads, &rows)));
    if !heaps.is_empty() {
        let heads = ["Ruby's heap", "slots", "live", "free", "GC time", "malloc", "live/slots by size"];
        text.push_str(&format!("\n{}", table(&heads, &heaps)));
    }
    text + "\n" + &of_front(&answer["front"]) + &of_machine(&answer["machine"])
}

/// What it means, and the route that made a worker grow most.
fn sentence(name: &str, site: &Value) -> String {
    let workers = number(&site["workers"]);
    let current = list(&site["generations"]).iter().find(|one| one["role"] == "current").unwrap_or(&Value::Null);
    if workers == 0 {
        return format!("{name}: no worker runs ({})\n", site["state"].as_str().unwrap_or("stopped"));
    }
    let of = &site["of_workers"];
    let plural = if workers == 1 { "" } else { "s" };
    let adds = if workers == 1 { "its RSS says" } else { "their RSS adds up to" };
    let really = if workers == 1 { "costs" } else { "cost" };
    let mut text = format!(
        "{name}: {workers} worker{plural} really {really} {}, not the {} that {adds}.",
        units::bytes(number(&of["private_dirty"])),
        units::bytes(number(&of["rss"]))
    );
    if let Some(bytes) = current["preloader"]["pss"].as_u64() {
        text.push_str(&format!(" The preloader, which shares the rest, has {}.", units::bytes(bytes)));
    }
    if let Some(swapped) = Some(number(&site["of_all"]["swap"])).filter(|swapped| *swapped > 0) {
        text.push_str(&format!(" {} of it is swapped out, which makes pages take seconds.", units::bytes(swapped)));
    }
    text.push('\n');
    let grown = |worker: &&Value| number(&worker["growth"]["routes"][0]["bytes"]);
    let most = list(&site["generations"]).iter().flat_map(|one| list(&one["workers"])).max_by_key(grown);
    if let Some(worker) = most.filter(|worker| grown(worker) > 0) {
        let (growth, route) = (&worker["growth"], &worker["growth"]["routes"][0]);
        let requests = number(&route["requests"]);
        text.push_str(&format!(
            "{name}: worker {} grew by {} since it was forked, most with {} ({} in {} request{}).\n",
            number(&worker["index"]),
            units::bytes(number(&growth["now"]).saturating_sub(number(&growth["born"]))),
            printable(route["route"].as_str().unwrap_or("")),
            units::bytes(grown(&worker)),
            grouped(requests),
            if requests == 1 { "" } else { "s" }
        ));
    }
    text
}

fn process(name: &str, one: &Value) -> Vec<String> {
    let pid = one["pid"].as_u64().map_or_else(String::new, |pid| pid.to_string());
    let share = one["shared_share"].as_f64().filter(|_| !pid.is_empty());
    let grown = match (one["growth"]["born"].as_u64(), one["growth"]["now"].as_u64()) {
        (Some(born), Some(now)) => megabytes(now.saturating_sub(born)),
        _ => String::new(),
    };
    let size = |key: &str| one[key].as_u64().map_or_else(String::new, megabytes);
    vec![
        name.into(),
        pid,
        size("private_dirty"),
        size("pss"),
        size("rss"),
        size("virtual"),
        size("swap"),
        share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
        grown,
    ]
}

fn heap(name: &str, heap: &Value) -> Option<Vec<String>> {
    if heap.is_null() {
        return None;
    }
    let count = |key: &str| grouped(number(&heap[key]));
    let thousands = |slots: u64| match slots {
        0..1000 => slots.to_string(),
        more => format!("{}k", more / 1000),
    };
    let pools = list(&heap["pools"]).iter().map(|pool| {
        let live = pool["live"].as_u64().map_or_else(String::new, |live| format!("{}/", thousands(live)));
        format!("{} B {live}{}", number(&pool["size"]), thousands(number(&pool["slots"])))
    });
    let collecting = format!("{:.1} %", heap["gc_share"].as_f64().unwrap_or(0.0) * 100.0);
    let malloc = units::bytes(number(&heap["oldmalloc_increase"]));
    let pools = pools.collect::<Vec<_>>().join("  ");
    Some(vec![name.into(), count("slots"), count("live"), count("free"), collecting, malloc, pools])
}

fn of_front(front: &Value) -> String {
    let cache = &front["cache"];
    format!(
        "The front's private memory includes {} of page cache (limit {}) and {} of waiting bodies.\n",
        units::bytes(number(&cache["bytes"])),
        units::bytes(number(&cache["budget"])),
        units::bytes(number(&front["buffered"]))
    )
}

fn of_machine(machine: &Value) -> String {
    if machine.is_null() {
        return String::new();
    }
    let of = |key: &str| units::bytes(number(&machine[key]));
    let swap = match number(&machine["swap_total"]) {
        0 => "no swap".to_string(),
        total => format!("{} of {} swap free", of("swap_free"), units::bytes(total)),
    };
    let group = match machine["cgroup"]["limit"].as_u64() {
        Some(limit) => format!("; its control group's limit is {}", units::bytes(limit)),
        None => String::new(),
    };
    format!("The machine has {}, {} of it available, {swap}{group}.\n", of("total"), of("available"))
}

/// The first column to the left, and the last if it is text; numbers to the right. A row of one cell is a heading.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |column: usize| rows.iter().filter(|row| row.len() > 1).map(move |row| row[column].chars().count());
    let wide: Vec<usize> =
        heads.iter().enumerate().map(|(column, head)| cells(column).max().unwrap_or(0).max(head.len())).collect();
    let line = |row: &[&str]| {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<width$}", width = wide[0]),
            // Text of unlike length.
            6 if heads.len() == 7 => (*cell).to_string(),
            _ => format!("{cell:>width$}", width = wide[column]),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let all = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    line(heads) + &all.collect::<String>()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn memory(private: u64, pss: u64, rss: u64) -> Value {
        let mb = |number: u64| number << 20;
        json!({ "virtual": mb(900), "rss": mb(rss), "pss": mb(pss), "private_dirty": mb(private), "private_clean": 0,
            "shared": mb(rss - private), "swap": 0, "swap_pss": 0, "shared_share": (rss - private) as f64 / rss as f64 })
    }

    fn with(mut base: Value, more: Value) -> Value {
        more.as_object().unwrap().iter().for_each(|(key, value)| base[key] = value.clone());
        base
    }

    fn answer() -> Value {
        let heap = json!({ "slots": 421_657, "live": 317_100, "free": 104_557, "gc_share": 0.0137, "oldmalloc_increase": 9 << 20,
            "pools": [{ "size": 40, "slots": 318_000, "live": 240_100 }, { "size": 80, "slots": 610, "live": null }] });
        let growth = json!({ "born": 10 << 20, "now": 95 << 20, "routes": [{ "route": "GET /reports/*\u{1b}", "bytes": 80 << 20, "requests": 1234 }] });
        let worker = |index: u64, growth: Value| {
            with(
                memory(95, 110, 200),
                json!({ "pid": 100 + index, "index": index, "leaving": index == 3, "heap": heap, "growth": growth }),
            )
        };
        let generation = json!({ "number": 2, "role": "current", "preloader": with(memory(20, 60, 150), json!({ "pid": 100, "heap": null })),
            "workers": [worker(1, Value::Null), worker(2, growth), worker(3, Value::Null)], "of_workers": memory(285, 330, 600) });
        json!({
            "front": with(memory(12, 13, 20), json!({ "pid": 99, "cache": { "bytes": 1 << 20, "budget": 64 << 20 }, "buffered": 0 })),
            "sites": { "shop": { "state": "ready", "workers": 3, "of_workers": memory(285, 330, 600), "of_all": memory(305, 390, 750), "generations": [generation] } },
            "all": memory(317, 403, 770),
            "machine": { "total": 4_u64 << 30, "available": 1_u64 << 30, "swap_total": 0, "swap_free": 0, "cgroup": { "limit": 512 << 20 } },
        })
    }

    #[test]
    fn accounts_read_well() {
        let wanted = "\
shop: 3 workers really cost 285 MB, not the 600 MB that their RSS adds up to. The preloader, which shares the rest, has 60.0 MB.
shop: worker 2 grew by 85.0 MB since it was forked, most with GET /reports/*\u{fffd} (80.0 MB in 1,234 requests).

MB                   pid  private    PSS    RSS  virtual  swap  shared  grown
front                 99     12.0   13.0   20.0    900.0   0.0    40 %
generation 2
  preloader          100     20.0   60.0  150.0    900.0   0.0    87 %
  worker 1           101     95.0  110.0  200.0    900.0   0.0    52 %
  worker 2           102     95.0  110.0  200.0    900.0   0.0    52 %   85.0
  worker 3, leaving  103     95.0  110.0  200.0    900.0   0.0    52 %
  all workers               285.0  330.0  600.0    900.0   0.0
all                         317.0  403.0  770.0    900.0   0.0

Ruby's heap            slots     live     free  GC time  malloc  live/slots by size
  worker 1           421,657  317,100  104,557    1.4 %  9.0 MB  40 B 240k/318k  80 B 610
  worker 2           421,657  317,100  104,557    1.4 %  9.0 MB  40 B 240k/318k  80 B 610
  worker 3, leaving  421,657  317,100  104,557    1.4 %  9.0 MB  40 B 240k/318k  80 B 610

The front's private memory includes 1.0 MB of page cache (limit 64.0 MB) and 0 bytes of waiting bodies.
The machine has 4.0 GB, 1.0 GB of it available, no swap; its control group's limit is 512 MB.
";
        assert_eq!(rendered(&answer()), wanted);
    }

    #[test]
    fn one_worker_none_and_one_that_is_swapped_out() {
        let site = json!({ "state": "ready", "workers": 1, "of_workers": memory(30, 40, 50), "of_all": { "swap": 3 << 20 }, "generations": [] });
        let text = sentence("a", &site);
        assert!(text.starts_with("a: 1 worker really costs 30.0 MB, not the 50.0 MB that its RSS says."), "{text}");
        assert!(text.contains("3.0 MB of it is swapped out"), "{text}");
        assert_eq!(sentence("a", &json!({ "state": "failed", "workers": 0 })), "a: no worker runs (failed)\n");
    }
}
