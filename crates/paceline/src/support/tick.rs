//! Ticks, each for all tasks of an event loop that want it. A timer of tokio that is the next one to end wakes its own
//! loop when it is set (a system call, and an empty turn of the loop): too much for each request.

use std::{cell::RefCell, future::poll_fn, task::Poll, task::Waker, time::Duration};

/// How often there is a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Each millisecond.
    Fast,
    /// Each 5 ms.
    Slow,
}

impl Pace {
    /// Time between two ticks.
    pub const fn time(self) -> Duration {
        match self {
            Pace::Fast => Duration::from_millis(1),
            Pace::Slow => Duration::from_millis(5),
        }
    }
}

#[derive(Default)]
struct Ticker {
    runs: bool,
    /// Ticks so far.
    count: u64,
    /// Tasks that wait for the next one, or did.
    waiting: Vec<Waker>,
}

thread_local! {
    static TICKERS: [RefCell<Ticker>; 2] = Default::default();
}

fn ticker<T>(pace: Pace, work: impl FnOnce(&mut Ticker) -> T) -> T {
    TICKERS.with(|tickers| work(&mut tickers[pace as usize].borrow_mut()))
}

/// One task's wait for ticks, within one event loop.
pub struct Tick {
    pace: Pace,
    /// The tick that the ticker knows of it for.
    registered: Option<u64>,
}

impl Tick {
    pub fn new(pace: Pace) -> Tick {
        Tick { pace, registered: None }
    }

    /// Waits for the next tick: at most its time and what the event loop is late. Cancel-safe.
    pub async fn next(&mut self) {
        let pace = self.pace;
        let due = *self.registered.get_or_insert_with(|| register(pace));
        poll_fn(|cx| {
            ticker(pace, |ticker| {
                if ticker.count >= due {
                    return Poll::Ready(());
                }
                if !ticker.waiting.iter().any(|other| other.will_wake(cx.waker())) {
                    ticker.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            })
        })
        .await;
        self.registered = None;
    }
}

/// The number of the next tick; from now on there are ticks.
fn register(pace: Pace) -> u64 {
    let (starts, due) = ticker(pace, |ticker| (!std::mem::replace(&mut ticker.runs, true), ticker.count + 1));
    if starts {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pace.time()).await;
                let waiting = ticker(pace, |ticker| {
                    ticker.count += 1;
                    ticker.runs = !ticker.waiting.is_empty();
                    std::mem::take(&mut ticker.waiting)
                });
                if waiting.is_empty() {
                    break;
                }
                waiting.into_iter().for_each(Waker::wake);
            }
        });
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    const TICK: Duration = Pace::Fast.time();

    #[tokio::test(start_paused = true)]
    async fn ticks_come_while_they_are_waited_for_and_for_all_at_once() {
        let began = Instant::now();
        let tasks = [0, 1].map(|_| {
            tokio::spawn(async move {
                let mut tick = Tick::new(Pace::Fast);
                for _ in 0..10 {
                    tick.next().await;
                }
                Instant::now()
            })
        });
        for task in tasks {
            let took = task.await.unwrap() - began;
            assert!((TICK * 10..=TICK * 21).contains(&took), "{took:?}");
        }
        tokio::time::sleep(TICK * 5).await;
        let idle = ticker(Pace::Fast, |ticker| (ticker.runs, ticker.count));
        tokio::time::sleep(TICK * 5).await;
        assert_eq!(ticker(Pace::Fast, |ticker| (ticker.runs, ticker.count)), (false, idle.1));
        // And again.
        Tick::new(Pace::Fast).next().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_and_taken_up_again_is_for_the_same_tick() {
        let mut tick = Tick::new(Pace::Fast);
        for _ in 0..3 {
            let _ = tokio::time::timeout(Duration::ZERO, tick.next()).await;
        }
        let registered = tick.registered;
        assert!(registered.is_some());
        tick.next().await;
        assert_eq!(tick.registered, None);
    }
}
