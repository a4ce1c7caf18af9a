//! How long a write waits for a client that takes nothing: one rule for HTTP/1.1, HTTP/2 and the control socket. It counts
//! only the time in which bytes wait and none of them is taken, never the time of the whole.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{ready, Context, Poll},
    time::Duration,
};

use tokio::time::{sleep_until, Instant, Sleep};

/// A timer that is made when it is needed and then kept: most waits are over early, and to move it each time costs.
#[derive(Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ready at `at` or later.
    pub fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        while at > Instant::now() {
            let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
            // One that would end early is not moved before it has ended: then the rest is waited for.
            if sleep.is_elapsed() || sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            ready!(sleep.as_mut().poll(cx));
        }
        Poll::Ready(())
    }
}

/// Fails a write with `TimedOut` when the other side has taken nothing for a while.
#[derive(Default)]
pub struct WriteTimeout {
    /// Since when the other side has taken nothing of what waits to be written.
    blocked: Option<Instant>,
    timer: Timer,
}

impl WriteTimeout {
    /// `written`: what came of a write, a flush or a shutdown that was just tried. `limit`: how long it may wait.
    pub fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        limit: Duration,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let since = *self.blocked.get_or_insert_with(Instant::now);
        self.timer.poll(cx, since + limit).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether something waits to be written.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_which_nothing_is_taken_counts() {
        const LIMIT: Duration = Duration::from_secs(30);
        let mut writing = WriteTimeout::default();
        let pending = |writing: &mut WriteTimeout, cx: &mut Context<'_>| writing.judge::<()>(cx, Poll::Pending, LIMIT);
        let almost = LIMIT - Duration::from_secs(1);
        assert!(timeout(almost, poll_fn(|cx| pending(&mut writing, cx))).await.is_err());
        assert!(writing.is_blocked());
        let taken = poll_fn(|cx| writing.judge(cx, Poll::Ready(Ok(4)), LIMIT)).await;
        assert_eq!((taken.unwrap(), writing.is_blocked()), (4, false));
        advance(LIMIT).await;
        assert!(
            timeout(almost, poll_fn(|cx| pending(&mut writing, cx))).await.is_err(),
            "each wait has the whole time"
        );
        let late = poll_fn(|cx| pending(&mut writing, cx)).await;
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
