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
    #[error("the machine was busy for {minutes} minutes in all ({load}); try again at a quieter time, or with --busy", minutes = PATIENCE.as_secs() / 60, load = .0)]
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
        let began = Instant::now();
        let mut pause = Duration::ZERO;
        let look = || {
            std::thread::sleep(std::mem::replace(&mut pause, LOOK));
            (began.elapsed(), busy())
        };
        self.wait_while(look, say)
    }

    /// Waits while no copy of ours is at work: only what happens during a pause counts, since they have just been.
    pub fn wait_at_rest(&mut self, say: &dyn Fn(&str)) -> Result<(), BusyMachine> {
        let began = Instant::now();
        self.wait_while(|| (began.elapsed(), busy_during(PAUSE)), say)
    }

    /// `look` returns when it was begun, counted from the first look, and what keeps the machine busy.
    fn wait_while(
        &mut self,
        mut look: impl FnMut() -> (Duration, Option<Load>),
        say: &dyn Fn(&str),
    ) -> Result<(), BusyMachine> {
        if !self.is_wanted {
            return Ok(());
        }
        let before = self.waited;
        let mut said = false;
        loop {
            let (elapsed, load) = look();
            self.waited = before + elapsed;
            let Some(load) = load else {
                return Ok(());
            };
            if self.waited > PATIENCE {
                return Err(BusyMachine::Busy(load));
            }
            if !said && elapsed > LONG {
                let minutes = PATIENCE.as_secs() / 60;
                say(&format!(
                    "waiting for a quiet moment, {minutes} min at most in all ({load}); --busy does not wait"
                ));
                said = true;
            }
        }
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

/// How busy the machine was during a pause.
fn busy_during(pause: Duration) -> Option<Load> {
    let watch = PressureWatch::begin();
    std::thread::sleep(pause);
    watch.busy()
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, iter};

    use super::*;

    /// A machine that is looked at once a second, and is busy in so many looks.
    fn busy_for(looks: u64) -> impl FnMut() -> (Duration, Option<Load>) {
        let mut second = 0..;
        move || {
            let now = second.next().unwrap_or_default();
            (Duration::from_secs(now), (now < looks).then_some(Load::Cpu(40.0)))
        }
    }

    #[test]
    fn offline_nobody_is_waited_for() {
        assert_eq!(Quiet::new(false).wait(&|_| panic!("not to be said")), Ok(()));
        let mut quiet = Quiet::new(false);
        assert_eq!(quiet.wait_while(|| panic!("not to be looked at"), &|_| panic!("not to be said")), Ok(()));
    }

    #[test]
    fn a_busy_machine_is_waited_for() {
        let said = RefCell::new(Vec::new());
        let say = |why: &str| said.borrow_mut().push(why.to_string());
        let mut quiet = Quiet::new(true);
        assert_eq!(quiet.wait_while(busy_for(0), &say), Ok(()));
        assert_eq!(quiet.waited(), Duration::ZERO);
        assert_eq!(quiet.wait_while(busy_for(5), &say), Ok(()));
        assert_eq!((quiet.waited(), said.borrow().len()), (Duration::from_secs(5), 0));
        // It ends when the machine is quiet, and not before; of a long wait the terminal says once why.
        assert_eq!(quiet.wait_while(busy_for(30), &say), Ok(()));
        assert_eq!(quiet.waited(), Duration::from_secs(35));
        let load = "processes waited for a processor in 40 % of the time";
        let why = format!("waiting for a quiet moment, 10 min at most in all ({load}); --busy does not wait");
        assert_eq!(*said.borrow(), [why]);
    }

    #[test]
    fn a_machine_that_is_never_quiet_ends_the_run() {
        let mut quiet = Quiet::new(true);
        let waits = iter::repeat_with(|| quiet.wait_while(busy_for(250), &|_| {}));
        // Their times add up.
        assert_eq!(waits.take(3).collect::<Vec<_>>(), [Ok(()), Ok(()), Err(BusyMachine::Busy(Load::Cpu(40.0)))]);
        assert_eq!(quiet.waited(), PATIENCE + Duration::from_secs(1));
    }
}
