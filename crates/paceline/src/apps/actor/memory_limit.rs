//! Holds workers to their limits of memory and requests: who is over one is replaced, softly or at once, and the log
//! says with which route it grew. Which one it is `apps/limits.rs` decides. It never measures.

use std::time::{Duration, Instant};

use units::{bytes, show_bytes};

use super::{incident, leave::kill, Actor};
use crate::{
    apps::{
        growth::WorkerGrowth,
        limits::{self, Verdict, Why, WorkerMemory},
        worker_process::WorkerStage,
    },
    observe::{
        incidents::{Incident, Kind},
        log::Name,
        metrics::Restart,
    },
    origins::workers::dispatch::queue::WorkerId,
    support::clock,
};

/// A worker that reaches a limit sooner than this after its fork shows that the limit is too low.
const SHORT_LIFE: Duration = Duration::from_secs(60);
/// After so many of them, one after another, the log says so.
const TOO_MANY: u32 = 3;
/// Pause after the first such worker before the next is replaced; it doubles with each.
const PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What is remembered between two looks.
#[derive(Default)]
pub struct Restraint {
    /// Workers one after another that reached a limit soon after their fork.
    short_lives: u32,
    not_before: Option<Instant>,
    /// The limit that was said to be too low for this generation.
    told: Option<&'static str>,
}

impl Restraint {
    /// A new generation may need more, or less.
    pub fn generation(&mut self) {
        *self = Restraint::default();
    }
}

impl Actor {
    pub(super) fn has_limits(&self) -> bool {
        self.context.site.limits != Default::default()
    }

    /// Looks who is over a limit by the last reading, and has it replaced.
    pub(super) async fn keep_limits(&mut self) {
        if !self.has_limits() || self.stopping.is_some() {
            return;
        }
        let limits = self.context.site.limits;
        let seen = self.seen();
        if let Some((name, limit, born)) =
            limits::hopeless(&limits, &seen).filter(|(name, ..)| self.restraint.told != Some(name))
        {
            self.restraint.told = Some(name);
            let whose = if name.starts_with("site") { "its new workers use" } else { "a new worker uses" };
            let text = format!(
                "{}: {whose} {}, more than {name} = {} allows, so the limit is not applied; set {name} to more than {}",
                self.context.site.name,
                bytes(born),
                show_bytes(limit),
                bytes(born * 2),
            );
            self.context.log.event(Name::MemoryLimit, text);
        }
        self.context.queue.spare(&limits::nearly_ended(&limits, &seen));
        let mut verdict = limits::judge(&limits, &seen);
        // All that are over a hard one go at once.
        for _ in 0..seen.len() {
            let Some(Verdict::End(id, why)) = verdict else { break };
            self.end_at_once(id, why);
            verdict = limits::judge(&limits, &self.seen());
        }
        match verdict {
            Some(Verdict::Retire(id, why)) if self.may_replace_worker() => self.retire_worker(id, why).await,
            _ => {}
        }
    }

    fn seen(&self) -> Vec<WorkerMemory> {
        let Some(current) = &self.current else { return Vec::new() };
        let tallies = self.context.queue.tallies();
        let workers = current
            .workers
            .iter()
            .filter(|(_, worker)| worker.is_ready() && worker.is_reachable() && !worker.condemned);
        let seen = workers.map(|(id, worker)| {
            let grown = self.measuring.growth.of(*id);
            let tally = tallies.iter().find(|tally| tally.id == *id);
            WorkerMemory {
                id: *id,
                own: grown.map(|grown| grown.now),
                born: grown.map_or(0, |grown| grown.born),
                answered: tally.map_or(0, |tally| tally.answered),
                quota: worker.quota,
                leaving: worker.stage != WorkerStage::Serving,
            }
        });
        seen.collect()
    }

    async fn retire_worker(&mut self, id: WorkerId, why: Why) {
        let Some((name, restart, setting)) = self.current.as_ref().map(|_| named(why, false)) else { return };
        let now = Instant::now();
        let life =
            self.current.as_ref().and_then(|current| current.workers.get(&id)).map(|worker| worker.forked.elapsed());
        if name == Name::MemoryLimit {
            if self.restraint.not_before.is_some_and(|at| now < at) {
                return;
            }
            let short = life.is_some_and(|life| life < SHORT_LIFE);
            self.restraint.short_lives = if short { self.restraint.short_lives + 1 } else { 0 };
            let pause = (PAUSE * (1 << self.restraint.short_lives.min(10))).min(LONGEST_PAUSE);
            self.restraint.not_before = short.then(|| now + pause);
        }
        if let Some(text) = self.log_line(id, why, "another takes its place, and it finishes its requests") {
            self.context.log.event(name, text);
        }
        if self.restraint.short_lives == TOO_MANY && name == Name::MemoryLimit {
            let needed = self.measuring.growth.of(id).map_or(0, |grown| grown.now);
            let text = format!(
                "{}: {TOO_MANY} workers one after another have reached {setting} within a minute of their fork; they are replaced ever more rarely. \
                 If that is what the application needs, raise it (the last one had {})",
                self.context.site.name,
                bytes(needed)
            );
            self.context.log.event(Name::MemoryLimit, text);
        }
        self.context.metrics.processes.restarted(restart);
        self.replace_worker(id).await;
    }

    /// What it has in hand is cut off; another is forked when it is gone (`bury`).
    fn end_at_once(&mut self, id: WorkerId, why: Why) {
        let Some(text) = self.log_line(id, why, "it is ended at once, and another is forked") else { return };
        let (name, restart, _) = named(why, true);
        let curve: Vec<_> = self.measuring.growth.of(id).map(WorkerGrowth::curve).unwrap_or_default();
        let Some(current) = &mut self.current else { return };
        let number = current.number;
        let Some(worker) = current.workers.get_mut(&id) else { return };
        self.context.log.event(name, &text);
        let incident = Incident::new(Kind::MemoryLimit, &self.context.site.name, text, clock::unix_seconds());
        let incident = incident.of(incident::process(number, id, worker)).with_memory(curve);
        self.context.incidents.record(incident);
        self.context.metrics.processes.restarted(restart);
        worker.condemned = true;
        self.context.queue.leave(id);
        kill(worker.pid);
    }

    /// The line for the log.
    fn log_line(&self, id: WorkerId, why: Why, then: &str) -> Option<String> {
        let worker = self.current.as_ref()?.workers.get(&id)?;
        let who = format!("{}.{} (pid {})", self.context.site.name, worker.index, worker.pid);
        let hard = worker_is_ended(then);
        Some(line(&who, why, named(why, hard).2, self.measuring.growth.of(id), then))
    }
}

fn worker_is_ended(then: &str) -> bool {
    then.starts_with("it is ended")
}

/// The event, the count, and the setting.
fn named(why: Why, hard: bool) -> (Name, Restart, &'static str) {
    match (why, hard) {
        (Why::Worker(_), false) => (Name::MemoryLimit, Restart::Memory, "worker_memory"),
        (Why::Worker(_), true) => (Name::MemoryLimit, Restart::Memory, "worker_memory_hard"),
        (Why::Site { .. }, false) => (Name::MemoryLimit, Restart::Memory, "site_memory"),
        (Why::Site { .. }, true) => (Name::MemoryLimit, Restart::Memory, "site_memory_hard"),
        (Why::Requests(_), _) => (Name::WorkerRetired, Restart::MaxRequests, "max_requests"),
    }
}

fn line(who: &str, why: Why, setting: &str, grown: Option<&WorkerGrowth>, then: &str) -> String {
    let own = grown.map_or(0, |grown| grown.now);
    let what = match why {
        Why::Worker(limit) => {
            format!("uses {} of private memory, more than {setting} = {}", bytes(own), show_bytes(limit))
        }
        Why::Site { limit, sum } => format!(
            "uses {} of private memory, the most of the workers' {}, more than {setting} = {}",
            bytes(own),
            bytes(sum),
            show_bytes(limit)
        ),
        Why::Requests(quota) => format!("has answered {quota} requests ({setting})"),
    };
    let grew = grown.and_then(|grown| Some((grown.bytes(), grown.most()?))).map(|(grown, most)| {
        let plural = if most.requests == 1 { "" } else { "s" };
        format!(
            "; it grew by {}, most with {} ({} in {} request{plural})",
            bytes(grown),
            most.label,
            bytes(most.bytes),
            most.requests
        )
    });
    format!("{who} {what}{}; {then}", grew.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{apps::growth::Growth, origins::workers::dispatch::queue::RouteWork};

    #[test]
    fn a_line_says_how_much_and_with_which_route() {
        let mut growth = Growth::default();
        growth.read(1, 10 << 20, []);
        let done = RouteWork { route: None, requests: 12, running: 0, allocated: 5 };
        growth.read(1, 110 << 20, [(Some("GET /leak".into()), done)]);
        let grown = growth.of(1);
        let told = |why, hard| line("shop.2 (pid 7)", why, named(why, hard).2, grown, "it goes");
        assert_eq!(
            told(Why::Worker(100 << 20), false),
            "shop.2 (pid 7) uses 110 MB of private memory, more than worker_memory = 100MB; \
             it grew by 100 MB, most with GET /leak (100 MB in 12 requests); it goes"
        );
        let site = told(Why::Site { limit: 300 << 20, sum: 320 << 20 }, true);
        assert!(
            site.contains(
                "uses 110 MB of private memory, the most of the workers' 320 MB, more than site_memory_hard = 300MB"
            ),
            "{site}"
        );
        let retired = line("a.1 (pid 7)", Why::Requests(1003), "max_requests", None, "it goes");
        assert_eq!(retired, "a.1 (pid 7) has answered 1003 requests (max_requests); it goes");
    }
}
