//! Whether the machine has time for trials: beside live traffic they wait while others need the processors or the memory.
//! It never changes a priority; a shadow lowers its own.

use std::time::{Duration, Instant};

use super::machine::available_memory;
use crate::support::pressure::{busy, Load, PressureWatch};

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

/// The same of a pause alone.
fn busy_during(pause: Duration) -> Option<Load> {
    let watch = PressureWatch::begin();
    std::thread::sleep(pause);
    watch.busy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_nobody_is_waited_for() {
        assert_eq!(Quiet::new(false).wait(&|_| panic!("not to be said")), Ok(()));
    }
}
