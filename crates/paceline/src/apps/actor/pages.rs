//! When another load of the code serves, the pages that the one before has made go, if its settings say so. Those who wait for the
//! restart are told when they are gone. It compares and purges nothing itself, and never lets the actor wait.

use std::sync::atomic::Ordering::Relaxed;

use super::Actor;
use crate::{
    apps::{
        attempts::Outcome,
        events::{ActorEvent, Event},
        pages::{renew, Loaded, Purged, Settled},
    },
    caching::OnRestart,
    observe::log::Name,
};

impl Actor {
    /// The generation that serves now has been given all requests; the one before gets no more.
    pub(super) fn renew_pages(&mut self, outcome: Outcome) {
        self.context.loads.fetch_add(1, Relaxed);
        let (site, current) = (&self.context.site, self.current.as_ref());
        let Some((settings, current)) = site.parts.cache.as_ref().zip(current) else {
            return self.attempts.end(&outcome);
        };
        let on_restart = settings.on_restart;
        let load = current.load();
        let (began, run_as, known) = (current.began_at, current.run_as.clone(), current.digest.clone());
        let (loaded, number) = (Loaded { load, began, run_as, known }, current.number);
        if on_restart == OnRestart::Off {
            self.attempts.end(&outcome);
        }
        let settled = Box::new(Settled { outcome, attempts: self.attempts.settle() });
        let (pages, events, before) = (self.context.pages.clone(), self.events.clone(), self.renewing.take());
        self.renewing = Some(tokio::spawn(async move {
            // What is kept is of the code that took over last, in the order in which it was.
            if let Some(before) = before {
                let _ = before.await;
            }
            let purged = renew(pages, on_restart, loaded).await;
            let happened = ActorEvent::PagesRenewed(purged, settled);
            let _ = events.send(Event { generation: number, worker: None, happened });
        }));
    }

    pub(super) fn pages_renewed(&mut self, number: u64, Purged { digest, text }: Purged, settled: Settled) {
        if let Some(generation) = self.generation(number) {
            generation.digest = Some(digest);
        }
        let Settled { mut outcome, attempts } = settled;
        if let Some(purged) = text {
            self.context.log.event(Name::Cache, format!("{}: {purged}", self.context.site.name));
            if let Outcome::Serves { text, .. } = &mut outcome {
                text.push_str("; ");
                text.push_str(&purged);
            }
        }
        attempts.iter().for_each(|number| self.attempts.end_one(*number, &outcome));
    }
}
