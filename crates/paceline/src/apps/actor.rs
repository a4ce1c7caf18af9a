//! Decides over one app's processes: what is started, switched to, replaced, drained and killed, and when. The rooms
//! below hold one decision each. It never touches a request.

mod backtrace;
mod canary;
mod fork_overdue;
mod frames;
mod incident;
mod leave;
mod living;
mod look;
mod measure;
mod memory_limit;
mod pages;
mod ready_check;
mod recovery;
mod refork;
mod replace;
pub mod restart;
mod rollback;
mod scale;
mod shadow;
mod size_watch;
mod stall;
mod start;
mod streams;
mod succession;
mod switch;

use std::{
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{atomic::AtomicU64, Arc},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{interval, sleep_until, MissedTickBehavior},
};

use self::{canary::Canary, measure::MemorySchedule, refork::Refork, size_watch::SizeWatch, succession::Succession};
use super::{
    attempts::{Attempts, Cause},
    canary::Plan,
    concurrency::{self, Concurrency},
    generation::{Generation, Phase},
    orders::{Order, SharedSettings, State},
    pages::Pages,
    pool,
    processes::Processes,
    reaper::{Exit, Reaper},
    worker_process::Worker,
};
use crate::{
    apps::{
        actor::{memory_limit::Restraint, scale::Size},
        events::{ActorEvent, Event},
    },
    caching::auto::Reporter,
    config::{RubyProcess, SiteConfig},
    observe::{incidents::Incidents, log::Log, metrics},
    origins::workers::dispatch::queue::{Complaint, Queue, WorkerId},
};
use startup_report::StartupReport;

/// What an actor works with.
pub struct Context {
    pub site: SiteConfig,
    /// The settings, for those who look at them from outside.
    pub settings: SharedSettings,
    pub queue: Arc<Queue>,
    pub processes: Arc<Processes>,
    pub state: watch::Sender<State>,
    /// Control socket of a preloader that was there before the front (`rackup -s paceline`).
    pub adopted: Option<UnixStream>,
    /// The process that has read config/puma.rb, for the first start.
    pub reader: Option<RubyProcess>,
    pub reaper: Reaper,
    pub log: Log,
    pub metrics: Arc<metrics::Site>,
    pub incidents: Arc<Incidents>,
    pub pages: Pages,
    /// How often a load of the code has taken over.
    pub loads: Arc<AtomicU64>,
}

/// A process that lived shorter than this is replaced after a pause.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// How long a worker with a stuck thread gets to say where it is.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a preloader gets to end by itself.
const PRELOADER_END: Duration = Duration::from_secs(2);
/// What a preloader whose workers have served gets to end: after_stopped of config/puma.rb runs in it.
const SERVED_END: Duration = Duration::from_secs(30);
/// Longest pause between two attempts to start.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

struct Actor {
    context: Context,
    events: mpsc::UnboundedSender<Event>,
    complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    /// Serves requests.
    current: Option<Generation>,
    /// Boots.
    next: Option<Generation>,
    /// Finish their last requests.
    leaving: Vec<Generation>,
    /// Has a share of the requests.
    canary: Option<Canary>,
    /// What the generation that boots is to be given first.
    plan: Option<Plan>,
    /// Its preloader is kept for a rollback, until this moment.
    previous: Option<(Generation, Instant)>,
    /// The release that served before this one.
    before: Option<PathBuf>,
    /// What is started next is this release, wherever the root leads to.
    pinned: Option<PathBuf>,
    attempts: Attempts,
    next_generation: u64,
    next_worker: WorkerId,
    workers: usize,
    /// A restart was asked for while a generation was booting, which may have read the files already.
    once_more: Option<(Cause, Option<Plan>)>,
    /// A preloader that died is started again at this moment.
    start_at: Option<Instant>,
    /// Starts that failed one after another.
    failures: u32,
    failed_at: Option<Instant>,
    /// The failure that was told last.
    told: Option<StartupReport>,
    /// It was told that a worker has as many streams as it may have.
    told_no_spare: bool,
    /// It was said that this Ruby has no YJIT.
    told_of_yjit: bool,
    /// Short-lived processes one after another.
    crashes: u32,
    /// While nothing serves any more: since when, and how many starts were killed. None: something serves, or nothing
    /// ever did.
    recovering: Option<(Instant, u32)>,
    refork: Refork,
    measuring: MemorySchedule,
    size_watch: SizeWatch,
    succession: Option<Succession>,
    restraint: Restraint,
    size: Size,
    stopping: Option<Vec<oneshot::Sender<()>>>,
    /// Has the kept pages of the code before purged.
    renewing: Option<JoinHandle<()>>,
    /// When it was seen to run last.
    beat: Instant,
    /// None: each worker has one thread, or is to use all it has.
    concurrency: Option<Concurrency>,
    /// None: nobody wants to know which processes live.
    reporter: Option<Reporter>,
}

/// Runs until the app is stopped or its handle is dropped.
pub async fn run(context: Context, mut orders: mpsc::UnboundedReceiver<Order>) {
    let (events, mut happenings) = mpsc::unbounded_channel();
    let (complaints, mut complaining) = mpsc::unbounded_channel();
    let mut actor = Actor::new(context, events, complaints);
    let mut counting = interval(refork::INTERVAL);
    counting.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut adapt_at = Instant::now();
    let mut pooling = interval(pool::INTERVAL);
    pooling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut beats = interval(stall::BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_handle = true;
    loop {
        actor.notice_stall(Instant::now());
        let deadline = actor.next_deadline();
        tokio::select! {
            order = orders.recv(), if has_handle => match order {
                Some(order) => actor.carry_out(order).await,
                None => {
                    has_handle = false;
                    actor.stop(Duration::ZERO.into(), None).await;
                }
            },
            Some(event) = happenings.recv() => actor.handle(event).await,
            Some((worker, complaint)) = complaining.recv() => actor.handle_complaint(worker, complaint).await,
            _ = sleep_until(adapt_at.into()), if actor.is_adaptive() => adapt_at = Instant::now() + actor.adapt(),
            _ = pooling.tick(), if actor.is_elastic() => actor.look_at_load().await,
            _ = counting.tick(), if actor.awaits_mold() => actor.look_for_mold().await,
            _ = beats.tick() => {}
            _ = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => actor.time_passed(Instant::now()).await,
        }
        actor.report();
        if actor.is_over() {
            return actor.over();
        }
    }
}

impl Actor {
    /// Of an application that has not been started.
    fn new(
        context: Context,
        events: mpsc::UnboundedSender<Event>,
        complaints: mpsc::UnboundedSender<(WorkerId, Complaint)>,
    ) -> Actor {
        let (size, workers) = Size::of(&context.site);
        let concurrency = Concurrency::new(context.site.threads_min, context.site.threads);
        Actor {
            context,
            events,
            complaints,
            current: None,
            next: None,
            leaving: Vec::new(),
            canary: None,
            plan: None,
            previous: None,
            before: None,
            pinned: None,
            attempts: Attempts::default(),
            next_generation: 1,
            next_worker: 1,
            workers,
            once_more: None,
            start_at: None,
            failures: 0,
            failed_at: None,
            told: None,
            told_no_spare: false,
            told_of_yjit: false,
            crashes: 0,
            recovering: None,
            refork: Refork::default(),
            measuring: MemorySchedule::new(),
            size_watch: SizeWatch::default(),
            succession: None,
            restraint: Restraint::default(),
            size,
            stopping: None,
            renewing: None,
            beat: Instant::now(),
            concurrency,
            reporter: None,
        }
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Stop { grace, done } => self.stop(grace, Some(done)).await,
            Order::AskMemory(answer) => drop(answer.send(self.ask_memory().await)),
            Order::Outcome(number, answer) => drop(answer.send(self.attempts.outcome(number))),
            Order::AskBacktrace { worker, thread, answer } => self.ask_backtrace(worker, thread, answer).await,
            Order::Tell(answer) => drop(answer.send(self.overview())),
            Order::Shadow(socket, answer) => drop(answer.send(self.shadow(&socket).await)),
            Order::Report(reporter) => self.reporter = Some(reporter),
            _ if self.stopping.is_some() => {}
            Order::Start if self.current.is_none() && self.next.is_none() && self.start_at.is_none() => {
                self.start().await
            }
            Order::Start => {
                // Whoever asked waits for a change of state.
                self.context.state.send_modify(|_| {});
            }
            Order::Restart(wish) => self.restart(wish).await,
            Order::Rollback(answer) => drop(answer.send(self.roll_back().await)),
            Order::Grow => self.grow_as_told().await,
            Order::Shrink => self.shrink_as_told().await,
        }
    }

    fn is_adaptive(&self) -> bool {
        self.concurrency.is_some() && self.current.is_some()
    }

    /// Lets workers have more requests beside each other, or fewer. The time until it is to be asked again.
    fn adapt(&mut self) -> Duration {
        let queue = &self.context.queue;
        let depth = queue.depth();
        let next = if depth.waiting + depth.busy > 0 { concurrency::INTERVAL } else { concurrency::IDLE_INTERVAL };
        let (Some(concurrency), Some(current)) = (&mut self.concurrency, &self.current) else { return next };
        let (waiting, occupied) = (depth.waiting, queue.occupied());
        if concurrency.is_at_rest(waiting, &occupied) {
            return next;
        }
        let pid = |id| current.workers.get(&id).map(|worker| worker.pid);
        for (worker, limit) in concurrency.look(waiting, &occupied, pid) {
            queue.limit(worker, limit);
        }
        next
    }

    async fn handle(&mut self, event: Event) {
        let number = event.generation;
        match (event.worker, event.happened) {
            (_, ActorEvent::Printed(who, line)) => {
                self.context.log.output(&who, &line);
                if let Some(next) = self.next.as_mut().filter(|next| next.number == number) {
                    next.report.push_output(&line);
                }
            }
            (_, ActorEvent::PrintedAll) => self.printed_all(number).await,
            (_, ActorEvent::LookedAt(look)) => self.judge_canary(number, look).await,
            (_, ActorEvent::Rehearsed(result)) => self.rehearsed(number, result).await,
            (_, ActorEvent::PagesRenewed(purged, settled)) => self.pages_renewed(number, purged, *settled),
            (None, ActorEvent::Frame(frame, fd)) => self.preloader_says(number, frame, fd).await,
            (None, ActorEvent::Closed) => {
                if let Some(generation) = self.generation(number) {
                    generation.control = None;
                    // An adopted preloader is not our child: its EOF is all we learn.
                    let adopted = generation.pid.is_none().then_some(Exit::Status(0));
                    if let Some(exit) = generation.exit.or(adopted) {
                        self.preloader_gone(number, exit).await;
                    } else if generation.mold.is_some() {
                        generation.gone_at = Some(Instant::now() + refork::EXIT_TOLD);
                    }
                }
            }
            (None, ActorEvent::Exited(exit)) => {
                if let Some(generation) = self.generation(number) {
                    // The exit may overtake the frames on the socket: FAILED says more than a status. A child of the
                    // app that holds the socket open must not keep us waiting.
                    let overtook = generation.control.is_some() && generation.exit.is_none();
                    generation.exit = Some(exit);
                    if overtook {
                        generation.gone_at = Some(Instant::now() + Duration::from_millis(500));
                    } else {
                        self.preloader_gone(number, exit).await;
                    }
                }
            }
            (_, ActorEvent::Refork(index)) => {
                let threads = self.context.site.threads;
                let wanted = index <= self.workers && self.stopping.is_none();
                if let Some(current) = self.current.as_mut().filter(|current| wanted && current.number == number) {
                    // Another may have taken its place during the pause.
                    let taken = |worker: &Worker| worker.index == index && !worker.stage.is_leaving();
                    if !current.workers.values().any(taken) {
                        current.fork(index, threads).await;
                    }
                }
            }
            (Some(worker), ActorEvent::Frame(frame, fd)) => self.worker_says(number, worker, frame, fd).await,
            (Some(worker), ActorEvent::Closed) => self.worker_gone(number, worker).await,
            (_, ActorEvent::Measured(reading)) => self.measured(number, &reading).await,
            (Some(_), ActorEvent::Exited(_)) => {}
        }
    }

    fn generations(&mut self) -> impl Iterator<Item = &mut Generation> {
        let previous = self.previous.iter_mut().map(|(previous, _)| previous);
        let canary = self.canary.iter_mut().map(|canary| &mut canary.generation);
        self.current.iter_mut().chain(self.next.iter_mut()).chain(canary).chain(self.leaving.iter_mut()).chain(previous)
    }

    fn generation(&mut self, number: u64) -> Option<&mut Generation> {
        self.generations().find(|generation| generation.number == number)
    }

    /// Buries the workers whose end is told by one sign, when the other has not come in time.
    async fn wait_for_exits_no_longer(&mut self, now: Instant) {
        let over = |(id, worker): (&WorkerId, &Worker)| worker.end_due().filter(|at| *at <= now).map(|_| *id);
        let gone: Vec<_> = self
            .generations()
            .flat_map(|one| one.workers.iter().filter_map(over).map(|id| (one.number, id)).collect::<Vec<_>>())
            .collect();
        for (number, id) in gone {
            self.wait_no_longer(number, id).await;
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let previous = || self.previous.iter().map(|(previous, _)| previous);
        let others = || previous().chain(self.canary.iter().map(|canary| &canary.generation));
        let generations = || self.current.iter().chain(self.next.iter()).chain(self.leaving.iter()).chain(others());
        let kills = generations()
            .flat_map(|generation| generation.workers.values().filter_map(|worker| worker.stage.kill_at()));
        let workers_gone = generations().flat_map(|generation| generation.workers.values().filter_map(Worker::end_due));
        let gone = generations().filter_map(|generation| generation.gone_at).chain(workers_gone);
        let forks = self.current.iter().filter_map(|current| current.fork_due);
        let starts = self.next.iter().map(|next| next.deadline);
        let kept = self.previous.iter().map(|(_, until)| *until);
        let looks = self.canary.iter().map(|canary| canary.look_at);
        let others =
            self.start_at.into_iter().chain(looks).chain(self.measuring.deadline()).chain(self.size_watch.deadline());
        kills.chain(gone).chain(forks).chain(starts).chain(kept).chain(others).min()
    }

    /// Time has passed: kill what did not end, give up what did not start, start what was to wait.
    async fn time_passed(&mut self, now: Instant) {
        if self.notice_stall(now) {
            return;
        }
        if let Some(next) = self.next.as_ref().filter(|next| next.deadline <= now) {
            match next.phase {
                Phase::Failing => self.tell_failure().await,
                _ => self.start_timed_out().await,
            }
        }
        let gone: Vec<_> = self
            .generations()
            .filter(|generation| generation.gone_at.is_some_and(|at| at <= now))
            .map(|generation| (generation.number, generation.exit.unwrap_or(Exit::Status(0))))
            .collect();
        for (number, exit) in gone {
            self.preloader_gone(number, exit).await;
        }
        self.wait_for_exits_no_longer(now).await;
        if self.current.as_ref().is_some_and(|current| current.fork_due.is_some_and(|due| due <= now)) {
            self.fork_overdue().await;
        }
        for generation in self.generations() {
            for worker in
                generation.workers.values_mut().filter_map(|worker| worker.stage.is_overdue(now).then_some(worker))
            {
                leave::kill(worker.pid);
            }
        }
        if self.size_watch.deadline().is_some_and(|at| at <= now) {
            self.check_sizes();
        }
        if self.measuring.deadline().is_some_and(|at| at <= now) {
            self.measure().await;
        }
        if self.canary.as_ref().is_some_and(|canary| canary.look_at <= now) {
            self.look_at_canary();
        }
        if self.previous.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.forget_previous();
        }
        if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            if self.next.is_none() {
                self.start().await;
            }
        }
    }
}
