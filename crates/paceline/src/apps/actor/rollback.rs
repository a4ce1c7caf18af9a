//! The way back to the release before: its preloader, which is kept for a while, forks workers once more.
//! It never decides that a release is bad.

use std::time::{Duration, Instant};

use super::{leave::end_preloader, Actor};
use crate::{
    apps::{
        attempts::Outcome,
        generation::Generation,
        orders::{RollbackRefused, State},
    },
    observe::log::Name,
};
use startup_report::{StartupReport, Step};

impl Actor {
    /// Keeps the preloader of a generation whose workers are gone, if that is wanted; otherwise it is given back.
    pub(super) async fn keep(&mut self, mut generation: Generation) -> Option<Generation> {
        let Some(time) = generation.keep.take().filter(|_| generation.exit.is_none() && generation.control.is_some())
        else {
            return Some(generation);
        };
        self.forget_previous();
        generation.stopped().await;
        self.previous = Some((generation, Instant::now() + time));
        None
    }

    /// The kept preloader ends.
    pub(super) fn forget_previous(&mut self) {
        if let Some((mut previous, _)) = self.previous.take() {
            end_preloader(&mut previous);
            if previous.pid.is_some() {
                self.leaving.push(previous);
            }
        }
    }

    /// What served until now makes way for its successor; for a while it can be gone back to.
    pub(super) async fn succeeded(&mut self, mut old: Generation, rollback: bool, reforked: bool) {
        if !reforked {
            // There is one release to go back to.
            self.forget_previous();
            self.leaving.iter_mut().for_each(|generation| generation.keep = None);
            old.keep = self.context.site.keep_previous.filter(|_| !rollback && old.pid.is_some());
            self.before = (!rollback).then(|| old.release.clone());
        }
        self.retire(old, self.context.site.drain_timeout).await;
    }

    /// Goes back to the release that served before. Ok: the number of the attempt.
    pub(super) async fn roll_back(&mut self) -> Result<u64, RollbackRefused> {
        let name = self.context.site.name.clone();
        if self.stopping.is_some() || matches!(*self.context.state.borrow(), State::Stopped) {
            return Err(RollbackRefused::NotRunning(name));
        }
        if let (Some(canary), Some(current)) = (&self.canary, &self.current) {
            let (number, generation) = (self.attempts.open(None), current.number);
            let text = format!("{name}: the canary, generation {}, is rolled back", canary.generation.number);
            self.give_up_canary("paceline rollback").await;
            self.attempts.end_one(number, &Outcome::Serves { generation, text });
            return Ok(number);
        }
        if self.next.is_some() {
            return Err(RollbackRefused::Starting(name));
        }
        let Some(current) = &self.current else {
            return Err(RollbackRefused::NothingServes(name));
        };
        let (from, now) = (current.number, current.release.clone());
        let still = self.leaving.iter().position(|left| left.keep.is_some() && left.control.is_some());
        let kept = match self.previous.take() {
            Some((previous, _)) => Some(previous),
            None => still.map(|at| self.leaving.swap_remove(at)),
        };
        if let Some(mut kept) = kept {
            let number = self.open_rollback(from, &format!("generation {} ({})", kept.number, kept.release.display()));
            let site = self.context.site.clone();
            let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
            report.begin(Step::Fork, Duration::ZERO);
            kept.revive(report, site.start_timeout);
            let (workers, threads) = (self.workers_of(&kept.settings), kept.settings.threads);
            for index in 1..=workers {
                kept.fork(index, threads).await;
            }
            self.next = Some(kept);
            return Ok(number);
        }
        // In the same folder there is only the new code.
        let Some(release) = self.before.clone().filter(|before| *before != now && before.is_dir()) else {
            let why = match (&self.before, self.context.site.keep_previous) {
                (None, _) => "no restart since the server started, or it is already rolled back",
                (Some(_), None) => "keep_previous is off, and the previous release is not in a folder of its own",
                (Some(_), Some(_)) => {
                    "the time of keep_previous is over, and the previous release is not in a folder of its own"
                }
            };
            return Err(RollbackRefused::NothingBefore { site: name, why });
        };
        let number = self.open_rollback(from, &format!("{}, which boots again", release.display()));
        self.pinned = Some(release);
        self.start().await;
        if let Some(next) = &mut self.next {
            next.rollback = true;
        }
        Ok(number)
    }

    fn open_rollback(&mut self, from: u64, to: &str) -> u64 {
        let number = self.attempts.open(None);
        self.attempts.begin();
        self.start_at = None;
        let name = &self.context.site.name;
        self.context.log.event(Name::RollbackAsked, format!("{name}: going back from generation {from} to {to}"));
        number
    }
}
