//! A generation on trial: it has a share of the requests beside the one that serves, until it takes over or is taken
//! back. It never judges: `supervisor::canary` does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Actor, ActorEvent, Event};
use crate::{
    apps::{
        actor::ready_check::Rehearsal,
        attempts::Outcome,
        canary::{judge, Plan, Verdict},
        generation::{Generation, Phase},
        memory_usage::Memory,
    },
    observe::log::Name,
    workers::dispatch::comparison::Comparison,
};

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A generation on trial.
pub struct Canary {
    pub generation: Generation,
    plan: Plan,
    began: Instant,
    comparison: Arc<Comparison>,
    /// When it is looked at next.
    pub look_at: Instant,
    rehearsal: Option<Rehearsal>,
}

impl Actor {
    /// The generation that is ready gets its share, and the old one goes on.
    pub(super) fn begin_canary(&mut self, mut generation: Generation, plan: Plan, rehearsal: Option<Rehearsal>) {
        generation.phase = Phase::Ready;
        self.enlist(&mut generation);
        let comparison = Arc::new(Comparison::default());
        let workers = generation.fresh().map(|(id, _)| *id).collect();
        self.context.queue.share(workers, plan.part, comparison.clone());
        let percent = f64::from(plan.part) / 100.0;
        let text = format!(
            "{}: generation {} has {percent} % of the requests for {:.0} s and {} requests at least",
            self.context.site.name,
            generation.number,
            plan.time.as_secs_f64(),
            plan.requests
        );
        self.context.log.event(Name::Canary, text);
        let began = Instant::now();
        self.canary = Some(Canary { generation, plan, began, comparison, look_at: began + LOOK, rehearsal });
    }

    /// Its workers get requests, of whichever share.
    pub(super) fn enlist(&mut self, generation: &mut Generation) {
        let (run_as, queue) = (generation.run_as.clone(), self.context.queue.clone());
        let rehearsed = generation.rehearsal.take();
        for (id, worker) in generation.workers.iter_mut().filter(|(_, worker)| !worker.stage.is_draining()) {
            match &rehearsed {
                Some(rehearsed) => rehearsed.hand_over(*id, &queue),
                None => queue.join(*id, self.context.site.threads, run_as.clone(), self.complaints.clone()),
            }
            worker.early.drain(..).for_each(|channel| queue.add(*id, channel));
        }
    }

    pub(super) fn is_canary(&self, number: u64) -> bool {
        self.canary.as_ref().is_some_and(|canary| canary.generation.number == number)
    }

    /// Looks how it does: its memory is read aside first.
    pub(super) fn look_at_canary(&mut self) {
        let Some(canary) = &mut self.canary else { return };
        canary.look_at = Instant::now() + LOOK;
        let number = canary.generation.number;
        let pids = |generation: &Generation| generation.fresh().map(|(_, worker)| worker.pid).collect::<Vec<_>>();
        let both = self.current.as_ref().map(|current| [pids(current), pids(&canary.generation)]);
        // It takes a moment for large processes, and counts at the end alone.
        let both = both.filter(|_| canary.began.elapsed() >= canary.plan.time);
        let events = self.events.clone();
        tokio::task::spawn_blocking(move || {
            let mean = |pids: &Vec<i32>| {
                let own: Vec<u64> = pids.iter().filter_map(|pid| Some(Memory::of(*pid)?.own())).collect();
                (!own.is_empty()).then(|| own.iter().sum::<u64>() / own.len() as u64)
            };
            let memory = both.and_then(|[old, new]| Some([mean(&old)?, mean(&new)?]));
            let _ = events.send(Event { generation: number, worker: None, happened: ActorEvent::Weighed(memory) });
        });
    }

    pub(super) async fn weighed(&mut self, number: u64, memory: Option<[u64; 2]>) {
        let Some(canary) = self.canary.as_ref().filter(|canary| canary.generation.number == number) else { return };
        match judge(&canary.plan, canary.began.elapsed(), &canary.comparison.sides(), memory) {
            Verdict::Wait => {}
            Verdict::Promote(figures) => self.promote_canary(&figures).await,
            Verdict::RollBack(why) => self.give_up_canary(&why).await,
        }
    }

    /// The canary takes over.
    pub(super) async fn promote_canary(&mut self, figures: &str) {
        let Some(canary) = self.canary.take() else { return };
        self.context.queue.share_no_more();
        let name = &self.context.site.name;
        self.context
            .log
            .event(Name::Canary, format!("{name}: generation {} goes on: {figures}", canary.generation.number));
        self.take_over(canary.generation, canary.rehearsal, &format!("; as a canary {figures}")).await;
    }

    /// The old generation goes on alone.
    pub(super) async fn give_up_canary(&mut self, why: &str) {
        let Some(canary) = self.canary.take() else { return };
        self.context.queue.share_no_more();
        let (name, number) = (&self.context.site.name, canary.generation.number);
        self.context
            .log
            .event(Name::RolledBack, format!("{name}: the canary, generation {number}, is rolled back: {why}"));
        self.tell_taken_back(number, why);
        self.retire(canary.generation, self.context.site.drain_timeout).await;
        self.attempts.end(&Outcome::RolledBack(why.to_owned()));
        self.once_more().await;
    }
}
