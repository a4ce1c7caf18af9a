//! Waiting for a time of day, by a thread of its own. The time of day may be set while it waits: the kernel says so, and
//! what was waited for is looked at again. It never decides what is to be done.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags},
    io::{read, write, Errno},
    time::{timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec},
};

/// Wakes the thread that waits, from any other.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Once is enough, however often this is called before the thread has woken.
    pub fn wake(&self) {
        // It fails only if nobody has woken for 2^64 calls.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// What a thread polls that waits for more than this.
    pub fn waiting(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)
    }

    /// Forgets that it was woken.
    pub fn take(&self) {
        let mut count = [0; 8];
        let _ = read(&self.0, &mut count);
    }
}

/// A timer on CLOCK_REALTIME.
pub struct WallTimer(OwnedFd);

impl WallTimer {
    pub fn new() -> io::Result<WallTimer> {
        Ok(WallTimer(timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Returns at this time of day (Unix milliseconds), when the time of day is set, or when it is woken. None: only then.
    pub fn wait(&self, until: Option<u64>, wake: &Wake) -> io::Result<()> {
        // A timer of 0 would be off. One that is far away tells as well that the clock was set.
        let until = until.unwrap_or(u64::MAX / 2_000_000).max(1);
        let at = Timespec { tv_sec: (until / 1000) as i64, tv_nsec: (until % 1000) as i64 * 1_000_000 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&self.0, flags, &Itimerspec { it_interval: never, it_value: at }) {
            Ok(_) => {}
            Err(Errno::CANCELED) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut waiting = [PollFd::new(&self.0, PollFlags::IN), wake.waiting()];
        match poll(&mut waiting, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // ECANCELED: the clock was set. The caller looks at it in any case.
        let mut expired = [0; 8];
        let _ = read(&self.0, &mut expired);
        wake.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;
    use crate::support::clock::unix_millis;

    #[test]
    fn it_waits_for_a_time_or_for_somebody() {
        let (timer, wake) = (WallTimer::new().unwrap(), Arc::new(Wake::new().unwrap()));
        let at = unix_millis() + 30;
        timer.wait(Some(at), &wake).unwrap();
        assert!(unix_millis() >= at);
        timer.wait(Some(1), &wake).unwrap();
        let other = wake.clone();
        let waking = thread::spawn(move || other.wake());
        timer.wait(None, &wake).unwrap();
        waking.join().unwrap();
    }
}
