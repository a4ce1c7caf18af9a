//! A preloader that was asked for a worker and does not answer: it is stopped, or hangs in a hook of the application.
//! It never waits for it.

use std::time::{Duration, Instant};

use units::show_duration;

use super::{leave::kill, Actor};
use crate::observe::{log::Name, metrics::Restart};

/// When it is looked at again while others serve: a start that was tried meanwhile may have failed.
const NEXT_LOOK: Duration = Duration::from_secs(30);

impl Actor {
    /// Replaces the preloader of the generation that serves. Its workers go on until another generation is ready; where
    /// there are none, it is killed, and requests wait for its successor.
    pub(super) async fn fork_overdue(&mut self) {
        let serves = self.serves();
        let busy = self.next.is_some() || self.canary.is_some() || self.stopping.is_some();
        let Some(current) = &mut self.current else { return };
        current.fork_due = Some(Instant::now() + NEXT_LOOK);
        // One that is not our child is the process that started us.
        let Some(pid) = current.pid.filter(|_| !busy) else { return };
        let (release, time) = (current.release.clone(), show_duration(current.fork_time));
        let then = if serves { "starting another beside it" } else { "killing it" };
        let what = format!("the preloader (pid {pid}) has not forked a worker within {time}; {then}");
        self.context.log.event(Name::PreloaderStuck, format!("{}: {what}", self.context.site.name));
        self.context.metrics.processes.restarted(Restart::Broken);
        self.tell_preloader_stuck(&what);
        if serves {
            self.pinned = Some(release);
            self.start().await;
        } else {
            kill(pid);
        }
    }
}
