//! How busy the machine is, by what the kernel tells: whether there is time for work that nobody waits for.
//! It never waits.

use std::{fs, time::Instant};

/// Percent of the last ten seconds in which a process waited for a processor (/proc/pressure/cpu, "some"). A shadow has
/// the lowest priority and waits first, so that its own waiting is a sign, too.
const MAX_CPU: f64 = 25.0;
/// Percent of them in which a process waited for memory.
const MAX_MEMORY: f64 = 5.0;
/// Where the kernel tells no pressure: processes that run or want to, for each processor.
const MAX_LOAD: f64 = 1.2;

/// What keeps the machine busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    Cpu(f64),
    Memory(f64),
    Average(f64),
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Load::Cpu(percent) => write!(f, "processes waited for a processor in {percent:.0} % of the time"),
            Load::Memory(percent) => write!(f, "processes waited for memory in {percent:.0} % of the time"),
            Load::Average(load) => write!(f, "a load of {load:.1} for each processor"),
        }
    }
}

/// None: it is quiet.
pub fn busy() -> Option<Load> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |name: &str| fs::read_to_string(name).ok();
    judged(
        read("/proc/pressure/cpu").as_deref(),
        read("/proc/pressure/memory").as_deref(),
        read("/proc/loadavg").as_deref(),
        cores,
    )
}

/// The pressure from a moment on: the kernel's own averages are of the last ten seconds at least.
pub struct PressureWatch {
    /// Microseconds since the machine started in which some process waited for a processor. None: the kernel does not say.
    waited: Option<u64>,
    began: Instant,
}

impl PressureWatch {
    pub fn begin() -> PressureWatch {
        PressureWatch { waited: cpu_waited(), began: Instant::now() }
    }

    /// What kept the machine busy since. None: it was quiet.
    pub fn busy(&self) -> Option<Load> {
        let elapsed = self.began.elapsed().as_micros().max(1) as f64;
        let percent = |(before, after): (u64, u64)| after.saturating_sub(before) as f64 / elapsed * 100.0;
        let cpu = self.waited.zip(cpu_waited()).map(percent);
        let memory = fs::read_to_string("/proc/pressure/memory").ok().and_then(|text| pressure(&text, "avg10"));
        match (memory, cpu) {
            (Some(memory), _) if memory > MAX_MEMORY => Some(Load::Memory(memory)),
            (_, Some(cpu)) if cpu > MAX_CPU => Some(Load::Cpu(cpu)),
            _ => None,
        }
    }
}

fn cpu_waited() -> Option<u64> {
    total(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn total(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

fn judged(cpu: Option<&str>, memory: Option<&str>, load: Option<&str>, cores: usize) -> Option<Load> {
    let memory = memory.and_then(|text| pressure(text, "avg10")).filter(|percent| *percent > MAX_MEMORY);
    if let Some(percent) = memory {
        return Some(Load::Memory(percent));
    }
    match cpu.and_then(|text| pressure(text, "avg10")) {
        Some(percent) => (percent > MAX_CPU).then_some(Load::Cpu(percent)),
        None => {
            let load: f64 = load?.split(' ').next()?.parse().ok()?;
            let of_one = load / cores.max(1) as f64;
            (of_one > MAX_LOAD).then_some(Load::Average(of_one))
        }
    }
}

/// Percent, of the line `some avg10=1.23 avg60=...`.
pub fn pressure(text: &str, over: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|word| word.strip_prefix(over)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_what() {
        let quiet = "some avg10=3.20 avg60=2.00 avg300=1.00 total=1\nfull avg10=99.0 avg60=0.0 avg300=0.0 total=0\n";
        let loud = quiet.replace("3.20", "40.00");
        assert_eq!((pressure(quiet, "avg60"), total(quiet), total("")), (Some(2.0), Some(1), None));
        for (cpu, memory, load, judgement) in [
            (Some(quiet), Some(quiet), None, None),
            (Some(&*loud), Some(quiet), None, Some(Load::Cpu(40.0))),
            (Some(quiet), Some(&*loud), None, Some(Load::Memory(40.0))),
            (Some(quiet), None, Some("9.00 1.0 1.0 1/1 1"), None),
            (None, None, Some("9.00 1.0 1.0 1/1 1"), Some(Load::Average(4.5))),
            (None, None, Some("1.00 1.0 1.0 1/1 1"), None),
            (None, None, Some("?"), None),
            (None, None, None, None),
        ] {
            assert_eq!(judged(cpu, memory, load, 2), judgement, "{cpu:?} {memory:?} {load:?}");
        }
    }
}
