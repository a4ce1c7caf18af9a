//! A timer that is near, in an event loop that takes connections: so theirs, which are farther away, are not the loop's
//! next one. Of tokio's timers the one that becomes the next wakes its own loop when it is set (a system call, and an
//! empty turn of the loop).

use std::{cell::Cell, time::Duration};

/// Less than any time-out of a connection.
const NEAR: Duration = Duration::from_millis(50);

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
    static WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps one for a while in the calling thread's event loop. Without connections none is left.
pub fn keep() {
    WANTED.set(true);
    if !RUNS.replace(true) {
        tokio::spawn(async {
            while WANTED.replace(false) {
                tokio::time::sleep(NEAR).await;
            }
            RUNS.set(false);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{sleep, Instant};

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_it_is_not_wanted_any_more() {
        let began = Instant::now();
        for _ in 0..10 {
            keep();
            sleep(NEAR / 5).await;
        }
        assert!(RUNS.get());
        while RUNS.get() {
            sleep(NEAR / 5).await;
        }
        assert!(began.elapsed() < NEAR * 5);
        keep();
        assert!(RUNS.get(), "and again");
    }
}
