//! Whether the machine has time for trials: beside live traffic they wait while others need the processors or the memory.
//! It never changes a priority; a shadow lowers its own.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::machine::available_memory;

/// Percent of the last ten seconds in which a process waited for a processor (/proc/pressure/cpu, "some"). A shadow has
/// the lowest priority and waits first, so that its own waiting is a sign, too.
const MAX_CPU: f64 = 25.0;
/// The same of memory.
const MAX_MEMORY: f64 = 5.0;
/// Where the kernel tells no pressure: processes that run or want to, for each processor.
const MAX_LOAD: f64 = 1.2;
/// Bytes that must be available before another copy of the application is made.
const MIN_MEMORY: u64 = 200 << 20;
/// For how long it is watched whether others need the processors, while no copy is at work.
const PAUSE: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_secs(1);
/// A wait of which the person at the terminal should know.
const LONG: Duration = Duration::from_secs(10);
/// A run waits so long in all; then the machine is never quiet.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why trials are not gone on with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BusyMachine {
    #[error("the machine was busy for {minutes} minutes in all ({load}); try again at a quieter time", minutes = PATIENCE.as_secs() / 60, load = .0)]
    Busy(Load),
    #[error("only {} MB of memory are available, and a copy of the application may need more", .0 >> 20)]
    Memory(u64),
}

/// What keeps trials waiting.
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

/// Waits for quiet moments.
pub struct Quiet {
    is_wanted: bool,
    waited: Duration,
}

impl Quiet {
    /// `is_wanted`: somebody is served on this machine who is not to be disturbed.
    pub fn new(is_wanted: bool) -> Quiet {
        Quiet { is_wanted, waited: Duration::ZERO }
    }

    /// Returns when the machine is quiet; `say` hears why, if that takes long.
    pub fn wait(&mut self, say: &dyn Fn(&str)) -> Result<(), BusyMachine> {
        if !self.is_wanted {
            return Ok(());
        }
        let (began, before) = (Instant::now(), self.waited);
        let mut said = false;
        while let Some(load) = busy() {
            if self.waited > PATIENCE {
                return Err(BusyMachine::Busy(load));
            }
            if !said && began.elapsed() > LONG {
                say(&format!("waiting for a quiet moment: {load}"));
                said = true;
            }
            std::thread::sleep(LOOK);
            self.waited = before + began.elapsed();
        }
        Ok(())
    }

    /// The same while no copy of ours is at work: only what happens during a pause counts, since they have just been.
    pub fn wait_at_rest(&mut self, say: &dyn Fn(&str)) -> Result<(), BusyMachine> {
        if !self.is_wanted {
            return Ok(());
        }
        let (began, before) = (Instant::now(), self.waited);
        let mut said = false;
        while let Some(load) = busy_during(PAUSE) {
            if self.waited > PATIENCE {
                return Err(BusyMachine::Busy(load));
            }
            if !said && began.elapsed() > LONG {
                say(&format!("waiting for a quiet moment: {load}"));
                said = true;
            }
            self.waited = before + began.elapsed();
        }
        Ok(())
    }

    /// How long it has been waited in all.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether there is memory for another copy.
    pub fn has_memory(&self) -> Result<(), BusyMachine> {
        match available_memory() {
            Some(bytes) if bytes < MIN_MEMORY => Err(BusyMachine::Memory(bytes)),
            _ => Ok(()),
        }
    }
}

fn busy() -> Option<Load> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |name: &str| fs::read_to_string(name).ok();
    judged(
        read("/proc/pressure/cpu").as_deref(),
        read("/proc/pressure/memory").as_deref(),
        read("/proc/loadavg").as_deref(),
        cores,
    )
}

fn busy_during(pause: Duration) -> Option<Load> {
    let read = |name: &str| fs::read_to_string(name).ok();
    let total = || total(&read("/proc/pressure/cpu")?);
    let (before, began) = (total(), Instant::now());
    std::thread::sleep(pause);
    let percent = |before: u64, after: u64| {
        after.saturating_sub(before) as f64 / began.elapsed().as_micros().max(1) as f64 * 100.0
    };
    let cpu = before.zip(total()).map(|(before, after)| percent(before, after));
    let memory = read("/proc/pressure/memory").and_then(|text| pressure(&text, "avg10"));
    match (memory, cpu) {
        (Some(memory), _) if memory > MAX_MEMORY => Some(Load::Memory(memory)),
        (_, Some(cpu)) if cpu > MAX_CPU => Some(Load::Cpu(cpu)),
        _ => None,
    }
}

/// Microseconds since the machine started in which some process waited.
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

    #[test]
    fn offline_nobody_is_waited_for() {
        assert_eq!(Quiet::new(false).wait(&|_| panic!("not to be said")), Ok(()));
    }
}
