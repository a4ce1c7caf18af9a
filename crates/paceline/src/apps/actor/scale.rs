//! How many workers are wanted, as load and memory change: grown, shrunk, or not grown because there is no memory for
//! one more. What the rules are `apps/pool.rs` and `apps/headroom.rs` say. It never measures.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Actor;
use crate::{
    apps::{
        concurrency::Concurrency,
        events::MemoryReading,
        headroom::{self, Headroom},
        pool::{Change, Load, Pool},
        tuning,
        worker_process::WorkerStage,
    },
    config::SiteConfig,
    observe::{log::Name, memory_usage::Machine},
};

/// Readings one after another by which there is no room, before workers are taken away.
const SURE: u32 = 2;
/// With `auto` one more is tried when there has been room for it this long.
const ROOM_FOR: Duration = Duration::from_secs(60);
/// Less that is swapped out is not worth a line.
const SWAPPED: u64 = 16 << 20;

/// How many there are to be, and what is known of the room for them.
pub struct Size {
    pub pool: Pool,
    /// By the last reading.
    headroom: Option<Headroom>,
    /// Readings one after another by which there is no room.
    short: u32,
    /// There is room for one more since then.
    room_since: Option<Instant>,
    /// The number that was told last.
    told: Option<usize>,
    told_swap: bool,
    /// What a worker had, as it was kept for the next start.
    kept: u64,
}

impl Size {
    /// And how many workers there are at first.
    pub fn of(site: &SiteConfig) -> (Size, usize) {
        let kept = tuning::worker_size(site);
        let first = if site.workers_auto {
            headroom::first_guess(site.workers, kept, Machine::now().as_ref())
        } else {
            site.workers
        };
        let pool = Pool::new(site.workers, site.workers_max, site.workers_idle);
        let size = Size {
            pool,
            headroom: None,
            short: 0,
            room_since: None,
            told: None,
            told_swap: false,
            kept: kept.unwrap_or(0),
        };
        (size, first)
    }
}

/// How many workers there are to be.
fn numbers(site: &SiteConfig) -> (usize, usize, bool) {
    (site.workers, site.workers_max, site.workers_auto)
}

impl Actor {
    /// How many workers a generation begins with that was started with these settings.
    pub(super) fn workers_of(&self, settings: &SiteConfig) -> usize {
        if numbers(settings) == numbers(&self.context.site) {
            self.workers
        } else {
            Size::of(settings).1
        }
    }

    /// What is to serve from now on may have been started with other settings.
    pub(super) fn adopt_settings(&mut self, settings: &Arc<SiteConfig>) {
        if **settings == self.context.site {
            return;
        }
        if numbers(settings) != numbers(&self.context.site) {
            (self.size, self.workers) = Size::of(settings);
        }
        self.concurrency = Concurrency::new(settings.threads_min, settings.threads);
        self.context.site = (**settings).clone();
        *self.context.settings.write() = settings.clone();
    }

    pub(super) fn is_elastic(&self) -> bool {
        self.size.pool.is_elastic() && self.current.is_some() && self.stopping.is_none()
    }

    /// Looks whether requests wait, or workers have nothing to do.
    pub(super) async fn look_at_load(&mut self) {
        let Some(current) = &self.current else { return };
        let depth = self.context.queue.depth();
        let serving = current.workers.values().filter(|worker| worker.stage == WorkerStage::Serving).count();
        let load = Load {
            waiting: depth.waiting,
            busy: depth.busy,
            threads: self.context.site.threads,
            workers: self.workers,
            settled: current.forking == 0 && serving == self.workers && self.next.is_none(),
        };
        match self.size.pool.look(Instant::now(), load) {
            Some(Change::Grow) if self.has_room() => {
                let why = match load.waiting {
                    1 => "1 request waits".to_string(),
                    more => format!("{more} requests wait"),
                };
                self.grow(&why).await;
            }
            Some(Change::Shrink) => self.shrink("the others can do without one").await,
            _ => {}
        }
    }

    /// Somebody wants one more.
    pub(super) async fn grow_as_told(&mut self) {
        // Whoever asked gets an answer.
        self.size.told = None;
        if self.has_room() {
            self.grow("").await;
            self.size.pool.set_workers(self.workers);
        }
    }

    pub(super) async fn shrink_as_told(&mut self) {
        match self.workers {
            0 | 1 => self.say_workers(""),
            _ => self.shrink("").await,
        }
        self.size.pool.set_workers(self.workers);
    }

    async fn grow(&mut self, why: &str) {
        self.workers += 1;
        self.say_workers(why);
        let (workers, threads) = (self.workers, self.context.site.threads);
        if let Some(current) = &mut self.current {
            current.fork(workers, threads).await;
        }
    }

    async fn shrink(&mut self, why: &str) {
        self.workers -= 1;
        self.say_workers(why);
        self.drain_surplus().await;
    }

    fn say_workers(&self, why: &str) {
        let plural = if self.workers == 1 { "" } else { "s" };
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let text = format!("{}: {} worker{plural} wanted now{why}", self.context.site.name, self.workers);
        self.context.log.event(Name::Pool, text);
    }

    /// Whether one more worker fits; if not, the log says why.
    fn has_room(&mut self) -> bool {
        let Some(why) = self.size.headroom.as_ref().and_then(|headroom| headroom.shortage(self.workers + 1)) else {
            return true;
        };
        let fits = self.size.headroom.as_ref().map_or(0, Headroom::fits);
        if self.size.told != Some(fits) {
            self.size.told = Some(fits);
            let text = format!("{}: no more workers are started. {why}", self.context.site.name);
            self.context.log.event(Name::MemoryShort, text);
        }
        false
    }

    /// Looks whether what is wanted fits, by a reading.
    pub(super) async fn look_at_room(&mut self, reading: &MemoryReading) {
        let (Some(machine), Some(current)) = (&reading.machine, &self.current) else { return };
        // While two generations are there, or one worker more, figures are of a moment that passes.
        if self.next.is_some() || !self.leaving.is_empty() || current.workers.len() > self.workers {
            return;
        }
        let own: Vec<u64> = reading.workers.iter().map(|(_, memory)| memory.own()).collect();
        let others = [Some(reading.front), reading.preloader];
        let swapped = reading.workers.iter().map(|(_, memory)| memory.swap_pss).sum::<u64>()
            + others.iter().flatten().map(|memory| memory.swap_pss).sum::<u64>();
        let preloader = reading.preloader.map_or(0, |memory| memory.own());
        let headroom = Headroom::new(own, preloader, reading.front.own(), swapped, machine);
        self.learn(headroom.worker());
        self.tell_swap(&headroom);
        let (fits, wanted) = (headroom.fits(), self.workers);
        let shortage = headroom.shortage(wanted);
        self.size.headroom = Some(headroom);
        let Some(why) = shortage else {
            self.size.short = 0;
            if fits > wanted {
                self.size.told = None;
                self.try_one_more(wanted).await;
            }
            return;
        };
        self.size.room_since = None;
        self.size.short += 1;
        if self.size.short < SURE {
            return;
        }
        if self.size.told.is_none_or(|told| fits < told) {
            self.size.told = Some(fits);
            let text = format!("{}: not enough memory. {why}", self.context.site.name);
            self.context.log.event(Name::MemoryShort, text);
        }
        let least = if self.context.site.workers_auto { 1 } else { self.size.pool.least };
        let elastic = self.context.site.workers_auto || self.size.pool.is_elastic();
        if elastic && self.workers > least.max(fits) {
            self.size.short = 0;
            self.shrink("there is no memory for more").await;
        }
    }

    /// With `auto`: the first guess may have been too careful.
    async fn try_one_more(&mut self, wanted: usize) {
        if !self.context.site.workers_auto || wanted >= self.context.site.workers {
            return;
        }
        let since = *self.size.room_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= ROOM_FOR {
            self.size.room_since = None;
            self.grow("there is memory for one more").await;
        }
    }

    /// Keeps what a worker comes to have for the next start.
    fn learn(&mut self, worker: u64) {
        if worker > self.size.kept + self.size.kept / 4 {
            self.size.kept = worker;
            tuning::keep_worker_size(&self.context.site, worker);
        }
    }

    fn tell_swap(&mut self, headroom: &Headroom) {
        if headroom.swapped < SWAPPED {
            self.size.told_swap = false;
        } else if !self.size.told_swap {
            self.size.told_swap = true;
            let fewer = headroom.workers.len().saturating_sub(1).max(1);
            let text = format!(
                "{}: {} MB of its processes are swapped out, which makes pages take seconds: set workers = {fewer}, or hold them by `worker_memory`",
                self.context.site.name,
                headroom.swapped >> 20
            );
            self.context.log.event(Name::MemoryShort, text);
        }
    }
}
