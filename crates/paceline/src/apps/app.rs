//! One app as the pipeline sees it: is it up, and a worker thread for a request, please.
//! It never starts anything itself; it tells the actor to.

use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    actor,
    attempts::{Cause, Outcome},
    generation::NotForked,
    memory::{self, HeapAnswers},
    orders::{Order, SharedSettings, State, Wish},
    overview::{Overview, Standing},
    pages::Pages,
    processes::Processes,
    reaper::Reaper,
};
use crate::{
    config::{RubyProcess, SiteConfig},
    observe::{
        incidents::{InHand, Incidents},
        log::Log,
        metrics,
        reservoir::Reservoir,
    },
    origins::workers::dispatch::{
        expectations::{label, RequestLine},
        origin::{Limits, Origin, Unavailable},
        queue::{Again, Class, Lease, Offer, Queue, Refused, StreamThreads, WorkerId},
        suspects::Suspects,
    },
};
use startup_report::{Failure, StartupReport, Step};

/// A handle to one app.
pub struct App {
    /// As it was configured when the server started.
    pub site: SiteConfig,
    settings: SharedSettings,
    pub queue: Arc<Queue>,
    /// Where it is told what went wrong with its processes.
    pub incidents: Arc<Incidents>,
    /// What its workers died with.
    pub suspects: Suspects,
    /// What runs beside its workers.
    pub processes: Arc<Processes>,
    /// Requests that reach it, while a doctor watches.
    pub reservoir: Arc<Reservoir>,
    state: watch::Receiver<State>,
    /// How often a load of the code has taken over.
    loads: Arc<AtomicU64>,
    orders: mpsc::UnboundedSender<Order>,
    /// tmp/always_restart.txt is there.
    always: AtomicBool,
    /// What serves is older than the files, which do not start (live reload).
    outdated: AtomicBool,
}

impl App {
    /// Makes the app known and its actor ready for orders. Must be called on the front's main thread, within its event
    /// loop.
    pub fn new(
        site: SiteConfig,
        reader: Option<RubyProcess>,
        reaper: Reaper,
        log: Log,
        metrics: Arc<metrics::Site>,
        incidents: Arc<Incidents>,
        pages: Pages,
    ) -> Arc<App> {
        let threads = StreamThreads { threads: site.threads, spare: site.stream_threads };
        // One that has started this server holds the application already.
        let (adopted, reader) = match reader {
            Some(RubyProcess { control, child: None }) => (Some(control), None),
            reader => (None, reader),
        };
        let (queue, log) = (Queue::with_streams(site.queue_max, threads), log.of(&site.name));
        let (state_sender, state) = watch::channel(State::Stopped);
        let (orders, receiver) = mpsc::unbounded_channel();
        let processes = Arc::new(Processes::new(&site, &reaper, &log, &incidents));
        let (settings, loads) = (shared(&site), Arc::<AtomicU64>::default());
        let app = App {
            site: site.clone(),
            settings: settings.clone(),
            queue: queue.clone(),
            incidents: incidents.clone(),
            suspects: Suspects::new(site.workers, site.workers.saturating_mul(site.threads)),
            processes: processes.clone(),
            reservoir: Arc::default(),
            state,
            loads: loads.clone(),
            orders,
            always: AtomicBool::new(false),
            outdated: AtomicBool::new(false),
        };
        let state = state_sender;
        let context = actor::Context {
            site,
            settings,
            queue,
            processes,
            state,
            adopted,
            reader,
            reaper,
            log,
            metrics,
            incidents,
            pages,
            loads,
        };
        tokio::spawn(actor::run(context, receiver));
        Arc::new(app)
    }

    /// An app that can't be started, whatever is tried, until its site is made anew.
    pub fn broken(site: SiteConfig, doing: &str, why: &str) -> Arc<App> {
        let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
        report.begin(Step::Found, Duration::ZERO);
        report.fail(Failure::System { doing: doing.into(), error: why.into() });
        let (_, state) = watch::channel(State::Failed { report: Arc::new(report), retry_at: None });
        let (orders, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move { while receiver.recv().await.is_some() {} });
        let (queue, incidents, always) = (Queue::new(site.queue_max), Incidents::forgetful(), AtomicBool::new(false));
        Arc::new(App {
            settings: shared(&site),
            site,
            queue,
            incidents,
            suspects: Suspects::new(0, 0),
            processes: Arc::default(),
            reservoir: Arc::default(),
            state,
            loads: Arc::default(),
            orders,
            always,
            outdated: AtomicBool::new(false),
        })
    }

    /// What serves was started with these: `site`, unless others have been tried and were better.
    pub fn settings(&self) -> Arc<SiteConfig> {
        self.settings.read().clone()
    }

    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// How everything stands at this moment: generations, workers, the last failure.
    pub async fn overview(&self) -> Overview {
        let (answer, told) = oneshot::channel();
        self.order(Order::Tell(answer));
        // An app that can't be started has no actor, nor one that is over.
        told.await.unwrap_or_else(|_| match self.state() {
            State::Failed { report, .. } => Overview::empty(Standing::Failed, Some(report)),
            _ => Overview::empty(Standing::Stopped, None),
        })
    }

    /// What the processes tell of Ruby's heap and have grown with. Waits up to `patience` for their answers.
    pub async fn memory(&self, patience: Duration) -> HeapAnswers {
        let (answer, asked) = oneshot::channel();
        self.order(Order::AskMemory(answer));
        memory::answers(asked.await.unwrap_or_default(), patience).await
    }

    /// Has a copy of the application forked that connects to the Unix socket at `path`. Err: there will be none.
    pub async fn shadow(&self, path: PathBuf) -> Result<(), NotForked> {
        let (answer, asked) = oneshot::channel();
        self.order(Order::Shadow(path, answer));
        asked.await.unwrap_or(Err(NotForked::NotRunning))
    }

    /// How often a load of the code has taken over: what was copied before may be of other code.
    pub fn loads(&self) -> u64 {
        self.loads.load(Relaxed)
    }

    /// Where a worker's thread (from 1) is at this moment, in lines. None: there is no such worker, or it has ended.
    /// One in which a thread holds Ruby's lock answers when it is let go.
    pub async fn backtrace(&self, worker: WorkerId, thread: usize) -> Option<String> {
        let (answer, told) = oneshot::channel();
        self.order(Order::AskBacktrace { worker, thread, answer });
        told.await.ok()
    }

    /// The route that a request is taken for, as `GET /orders/*`.
    pub fn route(&self, method: &str, path: &str) -> String {
        label(method, path)
    }

    /// Resolves when the app is ready (true) or has failed to start (false).
    pub async fn started(&self) -> bool {
        let mut state = self.state.clone();
        let reached = state.wait_for(|state| matches!(state, State::Ready | State::Failed { .. })).await;
        reached.is_ok_and(|state| matches!(*state, State::Ready))
    }

    /// From now on the code is loaded anew before each request, or not any more.
    pub fn load_always(&self, always: bool) {
        self.always.store(always, Relaxed);
    }

    pub fn loads_always(&self) -> bool {
        self.always.load(Relaxed)
    }

    /// From now on a request waits for the code as it is now, and is shown why it does not start; or not any more.
    pub fn set_outdated(&self, outdated: bool) {
        self.outdated.store(outdated, Relaxed);
    }

    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Relaxed)
    }

    /// Waits for a generation that boots now. Where a start-up page is for everybody to see, it takes the request's
    /// answer; in production the old generation has it.
    async fn restart(&self, cause: Cause) -> Result<(), Unavailable> {
        let (done, ended) = oneshot::channel();
        self.order(Order::Restart(Wish { done: Some(done), ..Wish::by(cause) }));
        match ended.await {
            Ok(Outcome::Serves { .. }) => {
                self.set_outdated(false);
                Ok(())
            }
            Ok(Outcome::Failed(report)) if self.site.environment != "production" => Err(Unavailable::Failed(report)),
            _ => Ok(()),
        }
    }
}

fn shared(site: &SiteConfig) -> SharedSettings {
    Arc::new(RwLock::new(Arc::new(site.clone())))
}

impl Origin for App {
    fn limits(&self) -> Limits {
        let site = &self.site;
        Limits {
            early_hints: site.early_hints,
            soft_timeout: site.app_soft_timeout,
            hard_timeout: site.app_hard_timeout,
            after_reply: site.after_reply_hold.filter(|_| site.stream_threads > 0),
            response_memory: site.response_memory,
            response_spool: site.response_spool,
        }
    }

    fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// A worker thread for this request: at once if one is idle for it, else in its turn. An app
    /// that is not up is started; one that failed to start is tried again, so that a reload in the browser is all
    /// it takes after mending it. `again`: of a request whose worker has died.
    async fn lease(
        &self,
        class: Class,
        request: RequestLine<'_>,
        again: Option<Again>,
        offer: Option<Offer>,
    ) -> Result<Lease, Unavailable> {
        let mut state = self.state.clone();
        // The start of the app is nobody's fault: a crawler waits for it as long as a visitor does.
        let mut patience = class.patience(self.site.queue_timeout, again);
        let now = state.borrow_and_update().clone();
        match now {
            State::Ready if again.is_none() && self.always.load(Relaxed) => self.restart(Cause::Always).await?,
            State::Ready if again.is_none() && self.outdated.load(Relaxed) => self.restart(Cause::Outdated).await?,
            State::Ready => {}
            State::Starting => patience = patience.max(self.site.start_timeout + Duration::from_secs(1)),
            State::Failed { report, retry_at } if retry_at.is_none_or(|at| Instant::now() < at) => {
                return Err(Unavailable::Failed(report))
            }
            State::Stopped | State::Failed { .. } => {
                patience = patience.max(self.site.start_timeout + Duration::from_secs(1));
                self.order(Order::Start);
                // The actor answers every Start with a change of state.
                if state.changed().await.is_err() {
                    return Err(Unavailable::Refused(Refused::TooOld));
                }
            }
        }
        tokio::select! {
            biased;
            lease = self.queue.checkout_as(class, request, patience, again, offer) => lease.map_err(Unavailable::Refused),
            failed = state.wait_for(|state| matches!(state, State::Failed { .. } | State::Stopped)) => match failed.as_deref() {
                Ok(State::Failed { report, .. }) => Err(Unavailable::Failed(report.clone())),
                _ => Err(Unavailable::Refused(Refused::TooOld)),
            },
        }
    }

    fn lost(&self, worker: WorkerId, request: InHand) {
        self.incidents.lost(&self.site.name, worker, request);
    }
}
