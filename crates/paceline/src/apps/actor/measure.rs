//! Has the memory of the workers that serve read from time to time, away from the main thread, and keeps what came of
//! it. It never decides what follows.

use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId, Timespec};
use tokio::sync::watch;

use super::Actor;
use crate::{
    apps::{
        events::{ActorEvent, Event, MemoryReading},
        growth::Growth,
        memory::{GrowthView, HeapQuery},
    },
    observe::memory_usage::{Machine, Memory},
    origins::workers::protocol::{
        control::ControlWriter,
        frame::{encode, kind},
        ruby_heap::RubyHeap,
    },
};

/// How often memory is read ...
const INTERVAL: Duration = Duration::from_secs(2);
/// ... and where workers are held to limits.
const WATCHFUL: Duration = Duration::from_millis(500);
/// Not more rarely than this, however long it takes, where they are.
const RAREST: Duration = Duration::from_secs(10);
/// Reading may take one part in so many of the time: the kernel walks through all pages of a process.
const SPARING: u32 = 200;

/// When memory is read, and what was read.
pub struct MemorySchedule {
    /// None: a reading is under way, or nothing serves.
    next: Option<Instant>,
    /// Whether anything was asked of the workers or not.
    at_any_rate: bool,
    /// Requests answered by all workers at the last reading.
    answered: u64,
    pub growth: Growth,
}

impl MemorySchedule {
    pub fn new() -> MemorySchedule {
        MemorySchedule { next: None, at_any_rate: false, answered: 0, growth: Growth::default() }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Looks at once: a worker is new.
    pub fn soon(&mut self) {
        self.next = Some(Instant::now());
    }

    /// Looks at once, and reads whatever it sees: a worker has grown, be it by itself.
    pub fn at_once(&mut self) {
        self.at_any_rate = true;
        self.soon();
    }
}

impl Actor {
    /// It is time to look.
    pub(super) async fn measure(&mut self) {
        self.measuring.next = None;
        self.keep_limits().await;
        let Some(current) = &self.current else { return };
        let processes: Vec<_> = current
            .workers
            .iter()
            .filter(|(_, worker)| worker.is_ready())
            .map(|(id, worker)| (*id, worker.pid))
            .collect();
        let tallies = self.context.queue.tallies();
        let answered = tallies.iter().map(|tally| tally.answered).sum();
        let at_any_rate = std::mem::take(&mut self.measuring.at_any_rate);
        let idle = !at_any_rate
            && answered == self.measuring.answered
            && tallies.iter().all(|tally| tally.busy + tally.streams == 0)
            && processes.iter().all(|(id, _)| self.measuring.growth.of(*id).is_some());
        // What nobody asks anything does not grow.
        if idle || processes.is_empty() {
            self.measuring.next = Some(Instant::now() + self.interval(Duration::ZERO));
            return;
        }
        self.measuring.answered = answered;
        let (events, generation, preloader) = (self.events.clone(), current.number, current.pid);
        tokio::task::spawn_blocking(move || {
            let began = clock_gettime(ClockId::ThreadCPUTime);
            let workers = processes.into_iter().filter_map(|(id, pid)| Some((id, Memory::of(pid)?))).collect();
            let preloader = preloader.and_then(Memory::of);
            let front = Memory::of(std::process::id() as i32).unwrap_or_default();
            let machine = Machine::now();
            let reading = MemoryReading { workers, preloader, front, machine, took: since(began) };
            let _ = events.send(Event { generation, worker: None, happened: ActorEvent::Measured(reading) });
        });
    }

    /// How long after a reading that took so long the next one comes.
    fn interval(&self, took: Duration) -> Duration {
        if self.has_limits() {
            WATCHFUL.max(took * SPARING).min(RAREST)
        } else {
            INTERVAL.max(took * SPARING)
        }
    }

    pub(super) async fn measured(&mut self, number: u64, reading: &MemoryReading) {
        let next = Instant::now() + self.interval(reading.took);
        self.measuring.next.get_or_insert(next);
        self.note_sizes(reading);
        let queue = &self.context.queue;
        let mut work: std::collections::HashMap<_, _> = queue.work().into_iter().collect();
        for (id, memory) in &reading.workers {
            let done = work.remove(id).unwrap_or_default();
            let labelled = done.into_iter().map(|done| (done.route.and_then(|route| queue.label(route)), done));
            self.measuring.growth.read(*id, memory.own(), labelled);
        }
        if let Some(current) = self.current.as_ref().filter(|current| current.number == number) {
            self.measuring.growth.keep(|id| current.workers.contains_key(&id));
            self.keep_limits().await;
            self.look_at_room(reading).await;
        }
    }

    /// Asks every process that can answer what its heap holds.
    pub(super) async fn ask_memory(&mut self) -> Vec<HeapQuery> {
        let mut asked = Vec::new();
        let growth = std::mem::take(&mut self.measuring.growth);
        for generation in self.generations() {
            if let (Some(pid), Some(control)) = (generation.pid, &mut generation.control) {
                asked.push(ask(pid, &generation.heap, control, None).await);
            }
            for (id, worker) in generation.workers.iter_mut().filter(|(_, worker)| worker.is_ready()) {
                let grown =
                    growth.of(*id).map(|grown| GrowthView { born: grown.born, now: grown.now, routes: grown.routes() });
                asked.push(ask(worker.pid, &worker.heap, &mut worker.control, grown).await);
            }
        }
        self.measuring.growth = growth;
        asked
    }
}

/// Processor time of this thread.
fn since(began: Timespec) -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = (now.tv_sec - began.tv_sec) * 1_000_000_000 + (now.tv_nsec - began.tv_nsec);
    Duration::from_nanos(nanoseconds.max(0) as u64)
}

async fn ask(
    pid: i32,
    heap: &watch::Sender<Option<RubyHeap>>,
    control: &mut ControlWriter,
    growth: Option<GrowthView>,
) -> HeapQuery {
    let heap = heap.subscribe();
    // One that is gone is noticed by the EOF on its socket.
    let _ = control.send(&encode(kind::ASK_MEMORY, |_| {})).await;
    HeapQuery { pid, heap, growth }
}
