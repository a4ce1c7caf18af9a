//! A generation on trial: it has a share of the requests beside the one that serves, until it takes over or is taken
//! back. It never judges: `supervisor::canary` does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use doctor::live::{compare, ExpectedGain, LiveTimes};

use super::Actor;
use crate::{
    apps::{
        attempts::Outcome,
        canary::{judge, Expectation, LastLook, Plan, Verdict},
        events::{ActorEvent, Event, Rehearsal},
        generation::{Generation, Phase},
    },
    observe::{log::Name, memory_usage::Memory},
    origins::workers::dispatch::{comparison::Comparison, queue::Queue},
};

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What settled workers of both took for the routes of the expectation.
fn live_times(expectation: &Expectation, queue: &Queue, comparison: &Comparison) -> Vec<LiveTimes> {
    let of = |gain: &ExpectedGain| {
        let [old_us, new_us] = comparison
            .settled(queue.route_of(&gain.route))
            .map(|times| times.into_iter().map(|took| took as f64).collect());
        LiveTimes { route: gain.route.clone(), old_us, new_us }
    };
    expectation.gains.iter().map(of).collect()
}

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
        let gains = plan.expectation.iter().flat_map(|expectation| &expectation.gains);
        let comparison = Comparison::awaiting(gains.map(|gain| self.context.queue.route_of(&gain.route)));
        let comparison = Arc::new(comparison);
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
        let (run_as, threads, queue) = (generation.run_as.clone(), generation.threads(), self.context.queue.clone());
        let rehearsed = generation.rehearsal.take();
        for (id, worker) in generation.workers.iter_mut().filter(|(_, worker)| !worker.stage.is_draining()) {
            match &rehearsed {
                Some(rehearsed) => rehearsed.hand_over(*id, &queue, threads),
                None => queue.join_with(*id, threads, run_as.clone(), self.complaints.clone()),
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
        // Memory takes a moment for large processes, and so do intervals; they count at the end alone.
        let is_end = canary.began.elapsed() >= canary.plan.time;
        let both = both.filter(|_| is_end);
        let (expectation, comparison) = (canary.plan.expectation.clone().filter(|_| is_end), canary.comparison.clone());
        let queue = self.context.queue.clone();
        let events = self.events.clone();
        tokio::task::spawn_blocking(move || {
            let mean = |pids: &Vec<i32>| {
                let own: Vec<u64> = pids.iter().filter_map(|pid| Some(Memory::of(*pid)?.own())).collect();
                (!own.is_empty()).then(|| own.iter().sum::<u64>() / own.len() as u64)
            };
            let memory = both.and_then(|[old, new]| Some([mean(&old)?, mean(&new)?]));
            let gain =
                expectation.map(|expected| compare(&expected.gains, &live_times(&expected, &queue, &comparison)));
            let happened = ActorEvent::LookedAt(LastLook { memory, gain });
            let _ = events.send(Event { generation: number, worker: None, happened });
        });
    }

    pub(super) async fn judge_canary(&mut self, number: u64, look: LastLook) {
        let Some(canary) = self.canary.as_ref().filter(|canary| canary.generation.number == number) else { return };
        match judge(&canary.plan, canary.began.elapsed(), &canary.comparison.sides(), &look) {
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
        let files = match canary.plan.expectation.as_ref().map(|expectation| &expectation.files[..]) {
            None | Some([]) => String::new(),
            Some(files) => format!("; the next start uses the change, as long as it is in {}", files.join(" ")),
        };
        self.context
            .log
            .event(Name::RolledBack, format!("{name}: the canary, generation {number}, is rolled back: {why}{files}"));
        self.tell_taken_back(number, why);
        self.retire(canary.generation, self.context.site.drain_timeout).await;
        self.attempts.end(&Outcome::RolledBack(why.to_owned()));
        self.once_more().await;
    }
}
