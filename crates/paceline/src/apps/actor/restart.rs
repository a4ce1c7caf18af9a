//! What is done when a restart is asked for: at once, after the one that is under way, or with a pause after failures.
//! It never boots anything itself.

use std::time::{Duration, Instant};

use super::{Actor, LONGEST_PAUSE};
use crate::{
    apps::{
        attempts::{Cause, Outcome, REPLACED},
        generation::Phase,
        orders::{State, Wish},
    },
    observe::log::Name,
};

/// So long after a failure the pages that are open ask, since they were told.
const JUST_FAILED: Duration = Duration::from_secs(1);

impl Actor {
    /// Boots anew beside what serves.
    pub(super) async fn restart(&mut self, Wish { cause, canary, begun, done }: Wish) {
        let number = self.attempts.open(done);
        if let Some(begun) = begun {
            let _ = begun.send(number);
        }
        // An app that waits for its first request has nothing old about it.
        if matches!(*self.context.state.borrow(), State::Stopped) {
            let text = format!("{} is not running; its next request starts the new code", self.context.site.name);
            return self.attempts.end_one(number, &Outcome::Serves { generation: 0, text });
        }
        let pause = self.automatic_pause(Instant::now()).filter(|_| cause.is_automatic());
        let is_by_request = matches!(cause, Cause::Always | Cause::Outdated);
        if is_by_request {
            if self.next.as_ref().is_some_and(|next| next.mold.is_none()) {
                return self.attempts.join(number);
            }
            let is_known = pause.is_some() || cause == Cause::Outdated && self.has_just_failed();
            if let (true, Some(told)) = (is_known, self.told.clone()) {
                return self.attempts.end_one(number, &Outcome::Failed(told.into()));
            }
        }
        // A canary is compared with what served before, which no change of a file ends.
        if matches!(cause, Cause::Changed(_)) && (self.canary.is_some() || self.plan.is_some()) {
            return self.attempts.end_one(number, &Outcome::Refused("a canary is under way".into()));
        }
        // The deployment that this belongs to has been heard already, unless its start has failed.
        if cause == (Cause::RestartTxt { with_release: true }) {
            if self.next.as_ref().is_some_and(|next| next.mold.is_none() && next.phase != Phase::Failing) {
                return self.attempts.join(number);
            }
            let leads_to = self.context.site.root.canonicalize().ok();
            let of_it = self.current.as_ref().filter(|current| leads_to.as_ref() == Some(&current.release));
            if let (Some(current), true) = (of_it, self.told.is_none()) {
                let text = format!("generation {} already runs this release", current.number);
                return self.attempts.end_one(number, &Outcome::Serves { generation: current.number, text });
            }
        }
        let when = pause
            .map(|pause| format!(", after {} failed starts in {:.0} s", self.failures, pause.as_secs_f64().ceil()));
        self.context.log.event(
            Name::RestartAsked,
            format!("{}: {}{}", self.context.site.name, self.shown(&cause), when.unwrap_or_default()),
        );
        self.pinned = None;
        self.give_up_canary(REPLACED).await;
        match (&self.next, pause) {
            // Somebody who waits for it outdoes what happens by itself.
            (Some(_), _) if self.once_more.is_none() || !cause.is_automatic() => self.once_more = Some((cause, canary)),
            (Some(_), _) => {}
            (None, pause) => {
                self.plan = canary;
                match pause {
                    Some(pause) => self.start_at = Some(Instant::now() + pause),
                    None => self.start().await,
                }
            }
        }
    }

    fn shown(&self, cause: &Cause) -> String {
        match cause {
            Cause::Told(by) => format!("restart asked for by {by}"),
            Cause::RestartTxt { .. } => "tmp/restart.txt was touched".into(),
            Cause::Release => {
                let root = self.context.site.root.canonicalize().unwrap_or_default();
                format!("the release is {} now", root.display())
            }
            Cause::Always => "a request came, and tmp/always_restart.txt is there".into(),
            Cause::Changed(file) => format!("{} has changed", file.display()),
            Cause::Outdated => "a request came, and the code that changed last did not start".into(),
        }
    }

    /// What is left of the pause before a start that nobody waits for is tried again: after the second failure, ever
    /// longer.
    fn automatic_pause(&self, now: Instant) -> Option<Duration> {
        let failed_at = self.failed_at.filter(|_| self.failures > 1)?;
        let left = (failed_at + self.pause_after_failure()).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// A request that comes now is from a page that was told of the failure.
    fn has_just_failed(&self) -> bool {
        self.failed_at.is_some_and(|at| at.elapsed() < JUST_FAILED)
    }

    /// In development a reload is an attempt; in production the attempts of many visitors are spread out.
    pub(super) fn pause_after_failure(&self) -> Duration {
        match self.context.site.environment.as_str() {
            "production" => Duration::from_secs(1 << self.failures.min(5)).min(LONGEST_PAUSE),
            _ => Duration::from_millis(300),
        }
    }

    /// What was asked for while a generation booted is done now, or with a pause if that one failed. False: nothing
    /// was.
    pub(super) async fn once_more(&mut self) -> bool {
        let Some((cause, plan)) = self.once_more.take() else { return false };
        self.plan = plan;
        match self.automatic_pause(Instant::now()).filter(|_| cause.is_automatic()) {
            Some(pause) => self.start_at = Some(Instant::now() + pause),
            None => Box::pin(self.start()).await,
        }
        true
    }
}
