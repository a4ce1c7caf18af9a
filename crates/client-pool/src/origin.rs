//! The connections to one upstream, and the calls (requests) that wait for one. A call takes an open connection, or has one
//! opened, or waits until there is a place. It never looks at a message.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{timeout_at, Instant},
};

use super::{
    breaker::Breaker,
    connection::{Connection, Protocol, RequestBody, Stream},
    failure::Failure,
    figures::Figures,
    opening::Connect,
};

/// A request that must not be repeated gets none that has been idle for longer: many servers close theirs after 5 s,
/// and the request might meet that.
const SURE: Duration = Duration::from_secs(4);
/// How often a connection of HTTP/2 that is in use is looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Calls that wait for one upstream.
const MAX_WAITING: usize = 1024;

/// What is allowed for each upstream.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Failures to connect in a row after which it is left alone for a while; 0: never.
    pub breaker: u32,
    /// Of HTTP/1.1, those that are kept without a request.
    pub idle: usize,
    /// How long a connection of HTTP/1.1 is kept without a request; an upstream that says less in its Keep-Alive field is
    /// believed.
    pub keep: Duration,
    /// How long one of HTTP/2 is kept without a request. Its upstream can say that it closes.
    pub keep_http2: Duration,
    /// Whether a task of the pool closes what is too old; otherwise its owner calls `sweep`.
    pub sweeps: bool,
}

/// One upstream, as calls that want the same see it.
pub struct Origin<B> {
    opening: Connect,
    limits: Limits,
    state: Mutex<State<B>>,
    /// A connection or a place may be there.
    changed: Notify,
    pub figures: Figures,
}

struct State<B> {
    /// The oldest first.
    idle: Vec<Connection<B>>,
    /// Of HTTP/2, those in use among them.
    shared: Vec<Connection<B>>,
    /// Of HTTP/1.1, those in use.
    busy: usize,
    /// Being opened now.
    opening: usize,
    waiting: usize,
    /// What it spoke when last asked: whether calls that want a connection at the same time need one each.
    http2: Option<bool>,
    /// How many have been opened, or not.
    attempts: u64,
    /// Which of them was the last to fail, and why.
    failed: Option<(u64, Failure)>,
    breaker: Breaker,
    /// A task is there that closes what is too old.
    swept: bool,
}

/// A connection that one call has. It goes back when it is told to.
pub struct Lease<B> {
    pub connection: Connection<B>,
    pub waited: Duration,
    origin: Arc<Origin<B>>,
    /// None: HTTP/1.1.
    _stream: Option<Stream>,
    /// None: HTTP/2.
    place: Option<Place<B>>,
}

/// A place among the busy ones.
struct Place<B>(Arc<Origin<B>>);

impl<B> Drop for Place<B> {
    fn drop(&mut self) {
        self.0.state.lock().busy -= 1;
        self.0.changed.notify_one();
    }
}

/// What a call that wants a connection is to do.
enum Next<B> {
    /// It is counted as busy, if it is one of HTTP/1.1.
    Take(Connection<B>),
    Open,
    Wait(WaitGuard<B>),
}

/// A call that is counted among those that wait.
struct WaitGuard<B>(Arc<Origin<B>>);

impl<B> Drop for WaitGuard<B> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

impl<B: RequestBody> Lease<B> {
    /// It has failed: nobody is to have it any more.
    pub fn discard(self) {
        if let Protocol::Http2(failed) = &self.connection.speaks {
            let is_other = |one: &Connection<B>| match &one.speaks {
                Protocol::Http2(shared) => !Arc::ptr_eq(&shared.streams, &failed.streams),
                Protocol::Http1(_) => true,
            };
            self.origin.lock().shared.retain(is_other);
        }
    }

    /// The call is done with it, and its response complete. `keep`: for how long the upstream says that it keeps it, if
    /// it does.
    pub fn give_back(mut self, keep: Option<Duration>) {
        let Some(place) = self.place.take() else { return };
        if self.connection.is_closed() || keep.is_some_and(|keep| keep.is_zero()) {
            return;
        }
        self.connection.since = Instant::now();
        self.connection.reused = true;
        let mut state = self.origin.lock();
        let longest = self.origin.limits.keep;
        if let Some(keep) = keep.filter(|keep| *keep < longest) {
            // As if it had lain there for the rest.
            self.connection.since = self.connection.since.checked_sub(longest - keep).unwrap_or(self.connection.since);
        }
        let is_wanted = self.origin.opening.places.as_ref().is_some_and(|places| places.are_wanted());
        if state.idle.len() < self.origin.limits.idle && !is_wanted {
            state.idle.push(self.connection);
            self.origin.start_sweeping(&mut state);
        }
        drop(state);
        drop(place);
    }
}

impl<B: RequestBody> Origin<B> {
    pub fn new(opening: Connect, limits: Limits) -> Arc<Origin<B>> {
        // HTTP/2 is agreed on within TLS: what can't be shared is not waited for.
        let http2 = (!opening.https || opening.way.only_http1).then_some(false);
        Arc::new(Origin {
            opening,
            limits,
            state: Mutex::new(State {
                idle: Vec::new(),
                shared: Vec::new(),
                busy: 0,
                opening: 0,
                waiting: 0,
                http2,
                attempts: 0,
                failed: None,
                breaker: Breaker::default(),
                swept: false,
            }),
            changed: Notify::new(),
            figures: Figures::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock()
    }

    /// A connection for a call. `fresh`: none that has been used. `sure`: none that might be about to be closed.
    pub async fn lease(self: &Arc<Self>, fresh: bool, sure: bool, until: Instant) -> Result<Lease<B>, Failure> {
        let began = Instant::now();
        // Of the attempts after this one a failure is told to us, too.
        let mut since = None;
        let mut opened = None;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.next(&mut opened, fresh, sure, &mut since)? {
                Next::Take(connection) => return Ok(self.leased(connection, began)),
                Next::Open => opened = self.open(until).await?,
                Next::Wait(_waiting) => timeout_at(until, changed).await.map_err(|_| Failure::OpenTimeout(None))?,
            }
        }
    }

    /// What a call that wants a connection is to do now.
    fn next(
        self: &Arc<Self>,
        opened: &mut Option<Connection<B>>,
        fresh: bool,
        sure: bool,
        since: &mut Option<u64>,
    ) -> Result<Next<B>, Failure> {
        let mut state = self.lock();
        state.drop_old(&self.limits);
        let taken = match opened.take() {
            Some(own) => {
                state.busy += 1;
                Some(own)
            }
            None => state.take(fresh, sure),
        };
        if let Some(connection) = taken {
            return Ok(Next::Take(connection));
        }
        if let (Some(since), Some((attempt, failure))) = (*since, &state.failed) {
            if *attempt > since {
                return Err(failure.clone());
            }
        }
        if self.may_open(&mut state) {
            state.breaker.check(Instant::now())?;
            state.opening += 1;
            return Ok(Next::Open);
        }
        if state.waiting >= MAX_WAITING {
            return Err(Failure::Full(format!("{MAX_WAITING} calls wait for {}", self.opening)));
        }
        since.get_or_insert(state.attempts);
        state.waiting += 1;
        Ok(Next::Wait(WaitGuard(self.clone())))
    }

    /// Whether one more connection is to be opened now.
    fn may_open(&self, state: &mut State<B>) -> bool {
        if state.busy + state.idle.len() + state.shared.len() + state.opening >= self.limits.connections {
            // One that nobody may use as things are makes room.
            if !state.idle.is_empty() {
                state.idle.remove(0);
            }
        }
        let all = state.busy + state.idle.len() + state.shared.len() + state.opening;
        // Until it is known to speak HTTP/1.1 only, one is opened at a time: the others may be able to share it.
        all < self.limits.connections && (state.opening == 0 || state.http2 == Some(false))
    }

    /// Opens one, whoever gets it: it goes on when the call that wanted it is gone. None: it is for all.
    async fn open(self: &Arc<Self>, until: Instant) -> Result<Option<Connection<B>>, Failure> {
        let origin = self.clone();
        let opened = tokio::spawn(async move {
            let opened = origin.opening.open(until).await;
            let mut state = origin.lock();
            state.opening -= 1;
            state.attempts += 1;
            let now = Instant::now();
            origin.figures.opened(&opened);
            let opened = match opened {
                Ok(connection) => {
                    state.breaker.succeeded();
                    state.http2 = Some(matches!(connection.speaks, Protocol::Http2(_)));
                    match connection.speaks {
                        Protocol::Http1(_) => Ok(Some(connection)),
                        Protocol::Http2(_) => {
                            // Whoever takes it first has opened it.
                            state.shared.push(connection);
                            origin.start_sweeping(&mut state);
                            Ok(None)
                        }
                    }
                }
                Err(failure) => {
                    match failure {
                        // It was reached, and the process that asked may well call it.
                        Failure::Unsupported(_) => state.breaker.succeeded(),
                        _ => state.breaker.failed(origin.limits.breaker, now),
                    }
                    state.failed = Some((state.attempts, failure.clone()));
                    Err(failure)
                }
            };
            drop(state);
            origin.changed.notify_waiters();
            opened
        });
        opened.await.unwrap_or_else(|_| Err(Failure::Protocol("a mistake in Paceline; please report it".into())))
    }

    fn leased(self: &Arc<Self>, connection: Connection<B>, began: Instant) -> Lease<B> {
        let stream = match &connection.speaks {
            Protocol::Http2(shared) => Some(shared.begin()),
            Protocol::Http1(_) => None,
        };
        let place = stream.is_none().then(|| Place(self.clone()));
        Lease { connection, waited: began.elapsed(), origin: self.clone(), _stream: stream, place }
    }

    /// Has a task of this event loop close what is too old, if nobody else does.
    fn start_sweeping(self: &Arc<Self>, state: &mut State<B>) {
        if self.limits.sweeps && !state.swept {
            state.swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes what is too old; when the next will be.
    fn drop_old(&self) -> Option<Instant> {
        let mut state = self.lock();
        state.drop_old(&self.limits);
        let idle = state.idle.iter().map(|one| one.since + self.limits.keep).min();
        let shared = state.shared.iter().map(|one| one.since + self.limits.keep_http2).min();
        let next = idle.into_iter().chain(shared).min();
        state.swept = next.is_some();
        next
    }

    /// Closes what nobody has used for long. Whether anything is left.
    pub fn sweep(&self) -> bool {
        let mut state = self.lock();
        state.drop_old(&self.limits);
        state.busy + state.idle.len() + state.shared.len() + state.opening + state.waiting > 0
    }
}

impl<B: RequestBody> Origin<B> {
    /// Closes what nobody uses now. Whether anything is left.
    pub fn close_unused(&self) -> bool {
        let mut state = self.lock();
        state.idle.clear();
        // One that has just been opened is about to be taken.
        state.shared.retain(|one| one.is_in_use() || one.since.elapsed() < LOOK_AGAIN);
        state.busy + state.shared.len() + state.opening + state.waiting > 0
    }
}

/// Closes what an event loop keeps too long, until it keeps nothing.
async fn sweep<B: RequestBody>(origin: Weak<Origin<B>>) {
    loop {
        let Some(next) = origin.upgrade().and_then(|origin| origin.drop_old()) else { return };
        // One that is in use is looked at again and again, but not at once.
        tokio::time::sleep_until(next.max(Instant::now() + LOOK_AGAIN)).await;
    }
}

impl<B: RequestBody> State<B> {
    fn drop_old(&mut self, limits: &Limits) {
        let now = Instant::now();
        self.idle.retain(|one| !one.is_closed() && now - one.since < limits.keep);
        self.shared.retain(|one| !(one.is_closed() || !one.is_in_use() && now - one.since > limits.keep_http2));
    }

    /// One that is open, as far as is known; of HTTP/1.1 the one used last, and none if it is to be `fresh`: one of
    /// HTTP/2 that failed is not here any more.
    fn take(&mut self, fresh: bool, sure: bool) -> Option<Connection<B>> {
        let now = Instant::now();
        if let Some(shared) = self.shared.iter_mut().find(|one| one.is_ready()) {
            shared.since = now;
            let mut taken = shared.share()?;
            taken.reused = shared.reused;
            shared.reused = true;
            return Some(taken);
        }
        if fresh {
            return None;
        }
        // One that is not ready is still being sent a body that its answer did not wait for.
        let index = self.idle.iter().rposition(|one| one.is_ready() && !(sure && now - one.since > SURE))?;
        self.busy += 1;
        Some(self.idle.remove(index))
    }
}
