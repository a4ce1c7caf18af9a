//! How many workers there is memory for: what they have by measure, against what is left of the machine's or the
//! control group's. Pure: figures are arguments. It never reads them and never ends anything.

use crate::observe::memory_usage::Machine;

/// One part in so many of the limit is kept free: for the kernel's own needs, and for what grows before the next look.
const KEPT: u64 = 16;
/// A worker that has hardly answered anything says nothing about what it will need.
const SMALLEST: u64 = 8 << 20;

/// The figures of one moment, in bytes of private memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headroom {
    /// Of each worker that serves.
    pub workers: Vec<u64>,
    /// What is left for more of anything.
    pub left: u64,
    /// What there is in all.
    pub limit: u64,
    /// `this machine` or `this control group`.
    pub bound_by: &'static str,
    /// Of the preloader and of the server itself, for the message.
    pub preloader: u64,
    pub front: u64,
    /// What of all these is swapped out.
    pub swapped: u64,
}

impl Headroom {
    pub fn new(workers: Vec<u64>, preloader: u64, front: u64, swapped: u64, machine: &Machine) -> Headroom {
        let (left, limit, bound_by) = (machine.left(), machine.limit(), machine.bound_by());
        Headroom { workers, left, limit, bound_by, preloader, front, swapped }
    }

    /// What a worker comes to have: as much as the largest of them.
    pub fn worker(&self) -> u64 {
        self.workers.iter().copied().max().unwrap_or(0).max(SMALLEST)
    }

    /// So many workers fit if each becomes as large as the largest is now.
    pub fn fits(&self) -> usize {
        let have: u64 = self.workers.iter().sum();
        let room = (self.left + have).saturating_sub(self.limit / KEPT);
        usize::try_from(room / self.worker()).unwrap_or(usize::MAX)
    }

    /// Why `wanted` workers are too many, and the number to set. None: they fit.
    pub fn shortage(&self, wanted: usize) -> Option<String> {
        let fits = self.fits();
        if fits >= wanted {
            return None;
        }
        let megabytes = |bytes: u64| format!("{} MB", bytes >> 20);
        let need = self.worker() * wanted as u64;
        let plural = if wanted == 1 { "" } else { "s" };
        let advice = match fits {
            0 => "not even one fits: add memory, or limit the workers with `worker_memory`".into(),
            fits => format!("set workers = {fits} (WEB_CONCURRENCY={fits})"),
        };
        Some(format!(
            "{wanted} worker{plural} of up to {} each need {}, besides {} of the preloader and {} of the server, and {} has {} left of {}: {advice}",
            megabytes(self.worker()),
            megabytes(need),
            megabytes(self.preloader),
            megabytes(self.front),
            self.bound_by,
            megabytes(self.left),
            megabytes(self.limit)
        ))
    }
}

/// How many workers to begin with, where nothing has been measured: one for each core, as long as each may become as
/// large as one was at the last start; if nobody knows, as a usual Rails application's.
pub fn first_guess(cores: usize, learned: Option<u64>, machine: Option<&Machine>) -> usize {
    let Some(machine) = machine else { return cores.max(1) };
    let worker = learned.unwrap_or(USUAL).max(SMALLEST);
    // The preloader takes about as much as a worker.
    let room = machine.left().saturating_sub(machine.limit() / KEPT).saturating_sub(worker);
    cores.min(usize::try_from(room / worker).unwrap_or(usize::MAX)).max(1)
}

/// What a worker of a usual Rails application comes to have for itself.
const USUAL: u64 = 150 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn headroom(workers: &[u64], left: u64) -> Headroom {
        let workers = workers.iter().map(|own| own * MB).collect();
        let machine = Machine { total: 512 * MB, available: left * MB, ..Machine::default() };
        Headroom::new(workers, 60 * MB, 20 * MB, 0, &machine)
    }

    #[test]
    fn each_may_become_as_large_as_the_largest() {
        // 32 MB of 512 are kept.
        assert_eq!(headroom(&[90, 30, 30], 200).fits(), 3);
        assert_eq!(headroom(&[90, 90, 90], 200).fits(), 4);
        assert_eq!(headroom(&[90], 20).fits(), 0);
        assert_eq!(headroom(&[1, 1], 400).fits(), (402 - 32) / 8, "one that was just forked says little");
        assert_eq!(headroom(&[], 32).fits(), 0);
    }

    #[test]
    fn the_message_names_the_number_to_set() {
        let headroom = headroom(&[90, 30], 110);
        assert_eq!(headroom.shortage(2), None);
        assert_eq!(
            headroom.shortage(4).unwrap(),
            "4 workers of up to 90 MB each need 360 MB, besides 60 MB of the preloader and 20 MB of the server, \
             and this machine has 110 MB left of 512 MB: set workers = 2 (WEB_CONCURRENCY=2)"
        );
        assert!(super::tests::headroom(&[90], 10).shortage(1).unwrap().contains("not even one"));
    }

    #[test]
    fn a_first_guess() {
        let machine = |left: u64| Machine { total: 1024 * MB, available: left * MB, ..Machine::default() };
        assert_eq!(first_guess(8, None, Some(&machine(900))), 4);
        assert_eq!(first_guess(2, None, Some(&machine(900))), 2);
        assert_eq!(first_guess(8, Some(300 * MB), Some(&machine(900))), 1);
        assert_eq!(first_guess(8, Some(30 * MB), Some(&machine(900))), 8);
        assert_eq!((first_guess(8, None, None), first_guess(0, None, None)), (8, 1));
        assert_eq!(first_guess(8, None, Some(&machine(10))), 1);
    }
}
