//! Waiting for a moment to some ten microseconds: tokio's own timers are as coarse as a millisecond, which a latency
//! from the intended start would contain. Never keeps time itself.

use std::{io, time::Instant};

use rustix::{
    event::Timespec,
    time::{timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags},
};
use tokio::net::unix::pipe;

/// A timer of the kernel (timerfd_create(2)). To the event loop it is like a pipe from which eight bytes can be read when the
/// time has come.
pub struct Timer(pipe::Receiver);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Timer(pipe::Receiver::from_owned_fd_unchecked(file)?))
    }

    /// Returns at `moment`, at once if that is past.
    pub async fn wait_until(&self, moment: Instant) -> io::Result<()> {
        let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })?;
        let mut count = [0; 8];
        loop {
            self.0.readable().await?;
            match self.0.try_read(&mut count) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_moment_is_never_too_early() {
        let timer = Timer::new().unwrap();
        for micros in [0, 1, 300, 2500] {
            let moment = Instant::now() + Duration::from_micros(micros);
            timer.wait_until(moment).await.unwrap();
            assert!(Instant::now() >= moment);
        }
    }
}
