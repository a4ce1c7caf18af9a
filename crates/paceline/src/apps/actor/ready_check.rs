//! Between the last worker that is ready and the first visitor: a generation that is to take over from another one is
//! asked for a page, and for those that visitors ask for most. It never lets the old one go.

use std::{sync::Arc, time::Duration};

use super::Actor;
use crate::{
    apps::{
        events::{ActorEvent, Event, Rehearsal},
        generation::Phase,
        ready_check,
    },
    observe::log::Name,
    origins::workers::dispatch::queue::Queue,
};
use startup_report::{text, Failure, Step};

/// Beyond what its parts may take.
const MARGIN: Duration = Duration::from_secs(60);

impl Actor {
    /// All workers of the generation that boots are ready.
    pub(super) async fn rehearse(&mut self, number: u64) {
        let site = self.context.site.clone();
        let (first, complaints) = (self.current.is_none(), self.complaints.clone());
        let Some(next) = self.next.as_mut().filter(|next| next.number == number) else { return };
        next.step("ready", "done");
        // What was forked from a worker that serves has shown that it does, and is warm.
        let asks = (!site.ready_paths.is_empty() || site.warm_requests > 0) && next.mold.is_none();
        if first || !asks {
            self.switch(number, None).await;
            if first && asks {
                self.ask_first();
            }
            return;
        }
        next.step("check", "begin");
        next.phase = Phase::Checking;
        next.deadline = std::time::Instant::now() + site.start_timeout + MARGIN;
        let queue = Queue::new(1);
        let (run_as, threads) = (next.run_as.clone(), next.settings.threads);
        for (id, worker) in next.workers.iter_mut().filter(|(_, worker)| !worker.stage.is_draining()) {
            queue.join(*id, threads, run_as.clone(), complaints.clone());
            worker.early.drain(..).for_each(|channel| queue.add(*id, channel));
        }
        next.rehearsal = Some(queue.clone());
        let (events, kept) = (self.events.clone(), self.context.pages.clone());
        tokio::spawn(async move {
            let checked = ready_check::check(&queue, &site).await;
            let result = match checked {
                Ok(asked) => {
                    let most = site.warm_requests;
                    let pages =
                        tokio::task::spawn_blocking(move || if most == 0 { Vec::new() } else { kept.popular(most) });
                    let warmed = ready_check::warm(&queue, &pages.await.unwrap_or_default()).await;
                    Ok(Rehearsal { asked: asked.map(|(path, status)| (path, status.as_u16())), warmed })
                }
                Err(failure) => Err(failure),
            };
            let _ = events.send(Event { generation: number, worker: None, happened: ActorEvent::Rehearsed(result) });
        });
    }

    pub(super) async fn rehearsed(&mut self, number: u64, result: Result<Rehearsal, Failure>) {
        let Some(next) = self.next.as_mut().filter(|next| next.number == number) else { return };
        if next.phase != Phase::Checking {
            return;
        }
        match result {
            Ok(rehearsal) => {
                next.step("check", "done");
                self.switch(number, Some(rehearsal)).await;
            }
            // What it was to take over from is gone meanwhile: there is nothing better.
            Err(_) if self.current.is_none() => self.switch(number, None).await,
            Err(failure) => self.generation_failed(number, Some(Step::Check), failure).await,
        }
    }

    /// A generation that had none before it serves at once: other pages may be fine. How it answers is told all the
    /// same.
    fn ask_first(&self) {
        let run_as = self.current.as_ref().map(|current| current.run_as.clone());
        let (site, log) = (self.context.site.clone(), self.context.log.clone());
        let queue: Arc<Queue> = self.context.queue.clone();
        tokio::spawn(async move {
            let Err(failure) = ready_check::check(&queue, &site).await else { return };
            let told = failure.headline(&startup_report::place::Root::of(&site.root));
            let found = startup_report::suggest_for_request(&failure, &site.root, &site.environment, run_as.as_ref());
            let advice = found.map(|found| format!("\n{}", text::what_to_do(&found).trim_end())).unwrap_or_default();
            log.event(Name::NotReady, format!("{} serves, but its ready_path fails: {told}{advice}", site.name));
        });
    }
}
