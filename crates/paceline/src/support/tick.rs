//! A tick each millisecond, one for all tasks of an event loop that want it. A timer of tokio that is the next one to end
//! wakes its own loop when it is set (a system call, and an empty turn of the loop): too much for each request.

use std::{cell::RefCell, future::poll_fn, task::Poll, task::Waker, time::Duration};

/// Time between two ticks.
pub const TICK: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Ticker {
    runs: bool,
    /// Ticks so far.
    count: u64,
    /// Tasks that wait for the next one, or did.
    waiting: Vec<Waker>,
}

thread_local! {
    static TICKER: RefCell<Ticker> = RefCell::default();
}

/// One task's wait for ticks, within one event loop.
#[derive(Default)]
pub struct Tick {
    /// The tick that the ticker knows of it for.
    registered: Option<u64>,
}

impl Tick {
    /// Waits for the next tick: at most TICK and what the event loop is late. Cancel-safe.
    pub async fn next(&mut self) {
        let due = *self.registered.get_or_insert_with(register);
        poll_fn(|cx| {
            TICKER.with_borrow_mut(|ticker| {
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
fn register() -> u64 {
    let (starts, due) = TICKER.with_borrow_mut(|ticker| (!std::mem::replace(&mut ticker.runs, true), ticker.count + 1));
    if starts {
        tokio::spawn(async {
            loop {
                tokio::time::sleep(TICK).await;
                let waiting = TICKER.with_borrow_mut(|ticker| {
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

    #[tokio::test(start_paused = true)]
    async fn ticks_come_while_they_are_waited_for_and_for_all_at_once() {
        let began = Instant::now();
        let tasks = [0, 1].map(|_| {
            tokio::spawn(async {
                let mut tick = Tick::default();
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
        let idle = TICKER.with_borrow(|ticker| (ticker.runs, ticker.count));
        tokio::time::sleep(TICK * 5).await;
        assert_eq!(TICKER.with_borrow(|ticker| (ticker.runs, ticker.count)), (false, idle.1));
        // And again.
        Tick::default().next().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_and_taken_up_again_is_for_the_same_tick() {
        let mut tick = Tick::default();
        for _ in 0..3 {
            let _ = tokio::time::timeout(Duration::ZERO, tick.next()).await;
        }
        let registered = tick.registered;
        assert!(registered.is_some());
        tick.next().await;
        assert_eq!(tick.registered, None);
    }
}
