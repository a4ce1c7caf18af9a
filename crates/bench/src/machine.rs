//! What else could explain a figure: the machine's load, time that a hypervisor took, and the generator's own CPU.
//! Never judges a server.

use std::{fs, time::Instant};

/// The counters of /proc at one moment.
pub struct MachineReading {
    at: Instant,
    /// Of this thread, seconds.
    own: f64,
    /// Taken by other virtual machines: clock ticks.
    steal: u64,
    all: u64,
    load: f64,
}

/// Between two readings, or zero where the system does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineUse {
    /// The generator's part of one core, 0 to 1.
    pub generator: f64,
    /// Of the generator, in seconds.
    pub generator_seconds: f64,
    /// Part of all cores' time that other virtual machines took.
    pub steal: f64,
    /// The load average of the minute before the run.
    pub load_before: f64,
}

impl MachineReading {
    pub fn take() -> MachineReading {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal (proc(5))
        let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).take(8).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
        let all = ticks.iter().sum();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        MachineReading { at: Instant::now(), own: own_cpu(), steal: at(7), all, load }
    }

    pub fn since(&self) -> MachineUse {
        let now = MachineReading::take();
        let seconds = (now.at - self.at).as_secs_f64().max(1e-6);
        let ticks = (now.all - self.all).max(1) as f64;
        MachineUse {
            generator: (now.own - self.own) / seconds,
            generator_seconds: now.own - self.own,
            steal: (now.steal.saturating_sub(self.steal)) as f64 / ticks,
            load_before: self.load,
        }
    }
}

/// Seconds of CPU that this thread has had.
fn own_cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
