//! Sends the requests of a run: in a closed loop, where each client waits for its response before it sends again, or in
//! an open loop, at given moments however long the responses take. Never says what the figures mean.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet, time::sleep};

use crate::{
    parts::Part,
    recording::Recording,
    timer::Timer,
    wire::{Client, Fault, Prepared, SharedHttp2, Version, Way},
};

/// After a failure a client waits for this long, so that a server that refuses everybody is not asked without a pause.
const PAUSE: Duration = Duration::from_millis(10);
/// After so many failures and not a single answer the run ends.
const HOPELESS: u64 = 20;

/// When a closed loop ends: whichever comes first.
#[derive(Debug, Clone, Copy, Default)]
pub struct End {
    pub requests: Option<u64>,
    pub time: Option<Duration>,
}

/// A request of an open loop.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Since the run began.
    pub due: Duration,
    /// Which of the run's requests.
    pub request: usize,
}

/// One run, shared by its clients.
pub struct Run {
    pub recording: RefCell<Recording>,
    /// Requests under way, and those that are due and have no client.
    pub in_flight: Cell<usize>,
    pub waiting: RefCell<VecDeque<Job>>,
    requests: Rc<Vec<Prepared>>,
    began: Instant,
    stopped: Cell<bool>,
    /// What failed last.
    fault: RefCell<Option<Fault>>,
    more: Notify,
}

impl Run {
    /// A run that begins now.
    pub fn new(requests: Rc<Vec<Prepared>>) -> Rc<Run> {
        Rc::new(Run {
            recording: RefCell::default(),
            in_flight: Cell::default(),
            waiting: RefCell::default(),
            requests,
            began: Instant::now(),
            stopped: Cell::default(),
            fault: RefCell::default(),
            more: Notify::new(),
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Nothing more is sent. What is under way is waited for.
    pub fn stop(&self) {
        if !self.stopped.replace(true) {
            self.recording.borrow_mut().cut(self.now());
            self.more.notify_waiters();
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Why there is no answer at all.
    pub fn hopeless(&self) -> Option<Fault> {
        let recording = self.recording.borrow();
        (recording.answered() == 0 && recording.failed() > 0).then(|| self.fault.borrow().clone()).flatten()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A closed loop of these clients.
    pub async fn closed(self: &Rc<Run>, clients: Vec<Client>, end: End) {
        let until = end.time.map(|time| Instant::now() + time);
        if let Some(until) = until {
            self.recording.borrow_mut().end_at((until - self.began).as_micros() as u64);
        }
        let left = Rc::new(Cell::new(end.requests.unwrap_or(u64::MAX)));
        let mut tasks = JoinSet::new();
        for mut client in clients {
            let (run, left) = (self.clone(), left.clone());
            tasks.spawn_local(async move {
                while !run.is_stopped() && left.get() > 0 && until.is_none_or(|until| Instant::now() < until) {
                    left.set(left.get() - 1);
                    let due = run.now();
                    if !run.ask(&mut client, Job { due: Duration::from_micros(due), request: 0 }).await {
                        sleep(PAUSE).await;
                    }
                }
            });
        }
        tasks.join_all().await;
    }

    /// An open loop. `new`: makes one more client, up to `most` of them; requests that find none free are late.
    pub async fn open(
        self: &Rc<Run>,
        jobs: impl Iterator<Item = Job>,
        most: usize,
        mut new: impl FnMut() -> Client,
    ) -> io::Result<()> {
        let timer = Timer::new()?;
        let (mut count, idle, over) = (0, Rc::new(Cell::new(0usize)), Rc::new(Cell::new(false)));
        let mut tasks = JoinSet::new();
        for job in jobs {
            timer.wait_until(self.began + job.due).await?;
            if self.is_stopped() {
                break;
            }
            self.waiting.borrow_mut().push_back(job);
            if idle.get() == 0 && count < most {
                count += 1;
                tasks.spawn_local(self.clone().serve(new(), idle.clone(), over.clone()));
            } else if idle.get() > 0 {
                idle.set(idle.get() - 1);
                self.more.notify_one();
            }
        }
        over.set(true);
        self.more.notify_waiters();
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// A client of an open loop: takes the next request that is due.
    async fn serve(self: Rc<Run>, mut client: Client, idle: Rc<Cell<usize>>, over: Rc<Cell<bool>>) {
        loop {
            let job = self.waiting.borrow_mut().pop_front();
            match job {
                Some(_) if self.is_stopped() => return,
                Some(job) => drop(self.ask(&mut client, job).await),
                None if over.get() || self.is_stopped() => return,
                None => {
                    idle.set(idle.get() + 1);
                    self.more.notified().await;
                }
            }
        }
    }

    /// False: it failed.
    async fn ask(&self, client: &mut Client, job: Job) -> bool {
        let request = &self.requests[job.request];
        let due = job.due.as_micros() as u64;
        let late = self.now().saturating_sub(due);
        self.in_flight.set(self.in_flight.get() + 1);
        let asked = client.ask(request).await;
        self.in_flight.set(self.in_flight.get() - 1);
        let mut recording = self.recording.borrow_mut();
        recording.sent += request.size();
        match asked {
            Ok(mut sample) => {
                sample.due = due;
                sample.parts.set(Part::Late, u32::try_from(late).unwrap_or(u32::MAX));
                if recording.server.is_none() {
                    recording.server = client.server().map(str::to_owned);
                }
                recording.record(&sample);
                true
            }
            Err(fault) => {
                let now = self.now();
                recording.fail(now, fault.to_string());
                let over = recording.answered() == 0 && recording.failed() >= HOPELESS;
                drop(recording);
                self.fault.replace(Some(fault));
                if over {
                    self.stop();
                }
                false
            }
        }
    }
}

/// Makes clients. `streams`: so many of them share a connection of HTTP/2.
pub struct Clients {
    way: Rc<Way>,
    streams: usize,
    made: usize,
    shared: SharedHttp2,
}

impl Clients {
    pub fn new(way: Rc<Way>, streams: usize) -> Clients {
        Clients { way, streams: streams.max(1), made: 0, shared: SharedHttp2::default() }
    }

    pub fn make(&mut self) -> Client {
        if self.made % self.streams == 0 {
            self.shared = SharedHttp2::default();
        }
        self.made += 1;
        let shared = match self.way.version {
            Version::Http1 => SharedHttp2::default(),
            Version::Http2 => self.shared.clone(),
        };
        Client::new(self.way.clone(), shared)
    }
}

/// The requests of an open loop at a steady rate, for `time` or `requests` of them.
pub fn steady(rate: f64, end: End) -> impl Iterator<Item = Job> {
    let most = end.requests.unwrap_or(u64::MAX);
    let due = move |number: u64| Duration::from_secs_f64(number as f64 / rate);
    let within = move |job: &Job| end.time.is_none_or(|time| job.due < time);
    (0..most).map(move |number| Job { due: due(number), request: 0 }).take_while(within)
}
