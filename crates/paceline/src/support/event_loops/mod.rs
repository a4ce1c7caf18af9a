//! The front's event loops. One takes connections as long as it has time: its code and data stay in the processor's caches, and no second one is woken
//! beside it (docs/decisions/0016-event-loops-by-load.md). When it has none left, another one opens and takes a part of the connections over. It never
//! reads or writes what clients send.

mod plan;
mod stream;

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};

use self::plan::{departure, Departure, Plan};
pub use self::stream::ClientSocket;

/// How often a loop that has something to do looks how busy it was. Less than any time-out of a connection: of tokio's timers the one that becomes the
/// loop's next one wakes that when it is set (a system call, and an empty turn of the loop), so none of theirs should.
const LOOK: Duration = Duration::from_millis(50);
/// What a loop has run counts for so much while workers answer: only one that has a processor for itself needs another one beside it.
const WHILE_WORKERS_ANSWER: f64 = 0.85;
/// A loop that has not looked for so long has had nothing to do.
const AT_REST: Duration = Duration::from_millis(200);

/// What a loop has said of itself.
struct Report {
    share: f64,
    at: Instant,
}

/// All loops that take connections.
pub struct EventLoops {
    /// How many are open: those with the lowest numbers.
    open: watch::Sender<usize>,
    plan: Mutex<(Plan, Instant)>,
    reports: Mutex<Vec<Report>>,
    handles: Vec<OnceLock<Handle>>,
}

/// The calling thread's loop.
struct Here {
    loops: Arc<EventLoops>,
    number: usize,
    connections: usize,
    departure: Option<Departure>,
    /// It looks again, and something was done since it last did.
    looks: bool,
    worked: bool,
    /// Exchanges since then, and those of them that were given to a worker.
    exchanges: u64,
    given: u64,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    static MAY_MOVE: Cell<bool> = const { Cell::new(false) };
}

/// The number of the calling thread's loop among those that take connections.
fn number() -> Option<usize> {
    NUMBER.get()
}

/// Says of the connection that is being polled whether another loop may go on with it: whether it is between two exchanges.
pub fn may_move(may: bool) {
    MAY_MOVE.set(may);
}

/// Counts an exchange with a client of the calling thread's loop.
pub fn note_exchange() {
    here(|here| here.exchanges += 1);
}

/// Counts one that a worker is to answer.
pub fn note_given() {
    here(|here| here.given += 1);
}

fn here<T>(work: impl FnOnce(&mut Here) -> T) -> Option<T> {
    HERE.try_with(|here| here.borrow_mut().as_mut().map(work)).ok().flatten()
}

impl EventLoops {
    pub fn new(loops: usize) -> Arc<EventLoops> {
        let now = Instant::now();
        Arc::new(EventLoops {
            open: watch::Sender::new(1),
            plan: Mutex::new((Plan::new(loops), now)),
            reports: Mutex::new((0..loops).map(|_| Report { share: 0.0, at: now }).collect()),
            handles: (0..loops).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The calling thread runs the loop of this number.
    pub fn enter(self: &Arc<Self>, number: usize, event_loop: &Handle) {
        let _ = self.handles[number].set(event_loop.clone());
        NUMBER.set(Some(number));
        let (loops, connections) = (self.clone(), 0);
        let (departure, looks, worked, exchanges, given) = (None, false, false, 0, 0);
        let here = Here { loops, number, connections, departure, looks, worked, exchanges, given };
        HERE.with(|own| *own.borrow_mut() = Some(here));
    }

    /// Waits until loop `number` is to take connections.
    pub async fn opened(&self, number: usize) {
        let _ = self.open.subscribe().wait_for(|open| *open > number).await;
    }

    /// Waits until it is to take none.
    pub async fn closed(&self, number: usize) {
        let _ = self.open.subscribe().wait_for(|open| *open <= number).await;
    }

    /// Takes down how busy loop `number` was, and decides. What it is to give away.
    fn look(&self, number: usize, share: f64, connections: usize) -> Option<Departure> {
        let now = Instant::now();
        let shares: Vec<f64> = {
            let mut reports = self.reports.lock();
            reports[number] = Report { share, at: now };
            reports.iter().map(|report| if now - report.at < AT_REST { report.share } else { 0.0 }).collect()
        };
        let (plan, looked) = &mut *self.plan.lock();
        // One look for all of them.
        if now - *looked >= LOOK * 4 / 5 {
            *looked = now;
            let open = plan.look(&shares);
            self.open.send_if_modified(|before| std::mem::replace(before, open) != open);
        }
        departure(number, connections, *self.open.borrow(), &shares)
    }
}

/// Serves a connection on the calling thread's loop, and on others later.
pub fn serve(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(ConnectionTask { connection: Some(Box::pin(connection)), counted: None });
}

/// A connection's task. It goes to another loop when its own one has too much to do.
struct ConnectionTask {
    /// None: another loop goes on with it.
    connection: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    counted: Option<Counted>,
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.counted.get_or_insert_with(Counted::begin);
        note_work();
        MAY_MOVE.set(false);
        let Some(connection) = &mut self.connection else { return Poll::Ready(()) };
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let target = if MAY_MOVE.get() { here(Here::next_departure).flatten() } else { None };
        let Some(target) = target else { return Poll::Pending };
        drop(target.spawn(ConnectionTask { connection: self.connection.take(), counted: None }));
        Poll::Ready(())
    }
}

/// A connection of the calling thread's loop.
struct Counted;

impl Counted {
    fn begin() -> Counted {
        here(|here| here.connections += 1);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        here(|here| here.connections = here.connections.saturating_sub(1));
    }
}

impl Here {
    /// Where the next connection goes that may.
    fn next_departure(&mut self) -> Option<Handle> {
        let departure = self.departure.as_mut().filter(|departure| departure.connections > 0)?;
        departure.connections -= 1;
        self.loops.handles[departure.to].get().cloned()
    }
}

/// The loop has something to do: it looks, for as long as it has.
fn note_work() {
    let begins = here(|here| {
        here.worked = true;
        !std::mem::replace(&mut here.looks, true)
    });
    if begins == Some(true) {
        tokio::spawn(async {
            let mut before = Times::now();
            while here(|here| std::mem::take(&mut here.worked)) == Some(true) {
                tokio::time::sleep(LOOK).await;
                let now = Times::now();
                here(|here| {
                    let (exchanges, given) = (std::mem::take(&mut here.exchanges), std::mem::take(&mut here.given));
                    let share = now.share_since(&before, given * 2 > exchanges);
                    here.departure = here.loops.look(here.number, share, here.connections);
                });
                before = now;
            }
            here(|here| (here.looks, here.departure) = (false, None));
        });
    }
}

/// What the calling thread has had of a processor, and how long it has waited for one.
struct Times {
    at: Instant,
    ran: Duration,
    waited: Duration,
}

impl Times {
    fn now() -> Times {
        // "running waiting slices", the first two in nanoseconds. Where the kernel doesn't say, no other loop opens.
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut times = text.split_whitespace().map_while(|word| word.parse().ok()).map(Duration::from_nanos);
        let mut next = || times.next().unwrap_or_default();
        Times { at: Instant::now(), ran: next(), waited: next() }
    }

    /// The share of a processor that the loop has taken, or would have. While its answers come from workers, another loop would mostly take the processor
    /// from them: then what it waited does not count.
    fn share_since(&self, before: &Times, workers_answer: bool) -> f64 {
        let elapsed = (self.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let ran = self.ran.saturating_sub(before.ran).as_secs_f64();
        if workers_answer {
            return WHILE_WORKERS_ANSWER * ran / elapsed;
        }
        (ran + self.waited.saturating_sub(before.waited).as_secs_f64()) / elapsed
    }
}

#[cfg(test)]
mod tests;
