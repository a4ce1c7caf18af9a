//! The moment at which a generation that is ready takes over: it gets every new request; the one before finishes what
//! it has. It never waits for anything.

use super::{refork::Refork, Actor};
use crate::{
    apps::{
        attempts::{Outcome, REPLACED},
        events::Rehearsal,
        generation::{Generation, Phase},
        orders::State,
        processes::Release,
    },
    observe::log::Name,
};

impl Actor {
    /// `rehearsal`: how it answered before; None: it was not asked.
    pub(super) async fn switch(&mut self, number: u64, rehearsal: Option<Rehearsal>) {
        let Some(mut generation) = self.next.take_if(|next| next.number == number) else { return };
        let tried = self.current.is_some() && generation.mold.is_none() && !generation.rollback;
        if let Some(plan) = self.plan.take().filter(|_| tried) {
            self.begin_canary(generation, plan, rehearsal);
            if self.once_more.is_some() {
                self.give_up_canary(REPLACED).await;
            }
            return;
        }
        self.enlist(&mut generation);
        self.take_over(generation, rehearsal, "").await;
    }

    /// Every new request goes to it. `more`: what else is told of it.
    pub(super) async fn take_over(&mut self, mut generation: Generation, rehearsal: Option<Rehearsal>, more: &str) {
        let number = generation.number;
        generation.phase = Phase::Ready;
        self.adopt_settings(&generation.settings);
        self.failures = 0;
        self.recovering = None;
        self.pinned = None;
        self.told = None;
        self.context.metrics.processes.started(true);
        self.refork = Refork::after(&generation);
        self.measuring.soon();
        self.succession = None;
        self.restraint.generation();
        let (rollback, reforked) = (generation.rollback, generation.mold.is_some());
        if !reforked {
            generation.booted().await;
        }
        let text = format!("{}{}{more}", self.told_ready(&generation), rehearsal.map(shown).unwrap_or_default());
        self.context.log.event(if rollback { Name::RolledBack } else { Name::Ready }, &text);
        // The pool may have grown or shrunk while this generation booted.
        let threads = self.context.site.threads;
        for index in generation.fresh().count() + 1..=self.workers {
            generation.fork(index, threads).await;
        }
        // A mold has loaded nothing anew.
        let run_as = generation.run_as.clone();
        let release = (!reforked).then(|| Release { root: generation.release.clone(), run_as });
        if reforked {
            generation.digest = self.current.as_ref().and_then(|old| old.digest.clone());
        }
        let old = self.current.replace(generation);
        self.context.state.send_replace(State::Ready);
        release.iter().for_each(|release| self.context.processes.took_over(release));
        if let Some(old) = old {
            self.succeeded(old, rollback, reforked).await;
        }
        // Only now nothing more is given to the old one.
        let outcome = Outcome::Serves { generation: number, text };
        if reforked {
            self.attempts.end(&outcome);
        } else {
            self.renew_pages(outcome);
        }
        self.drain_surplus().await;
        self.once_more().await;
    }

    fn told_ready(&self, generation: &Generation) -> String {
        let report = &generation.report;
        let how = match (generation.mold, generation.rollback) {
            (Some(mold), _) => format!(
                "reforked from worker {} (pid {}) after {} requests",
                mold.index,
                generation.pid.unwrap_or_default(),
                mold.requests
            ),
            (None, true) => format!("back on generation {} ({})", generation.number, generation.release.display()),
            (None, false) => "ready".into(),
        };
        format!(
            "{} is {how}: {}, {} x {} threads, {} ({:.1} s)",
            self.context.site.name,
            report.environment,
            generation.fresh().count(),
            self.context.site.threads,
            generation.facts.line(),
            generation.elapsed().as_secs_f64()
        )
    }
}

fn shown(Rehearsal { asked, warmed }: Rehearsal) -> String {
    let asked = asked.map(|(path, status)| format!("; GET {path} answered {status}")).unwrap_or_default();
    let warmed = match warmed {
        0 => String::new(),
        1 => "; warmed with 1 page".into(),
        pages => format!("; warmed with {pages} pages"),
    };
    format!("{asked}{warmed}")
}
