//! The front of the model, which is the real code: what it reads of its sockets, when its thread is late, answers that it looks at,
//! and what the application's actor says about processes. A connection is read in its order; any of them may be read before another.

use std::sync::atomic::Ordering::Relaxed;

use http::{request::Parts, Request, Response};

use super::{
    pages::{own_routes, ROUTE},
    process::{Frame, Process, Serving},
    world::{Asking, Broken, Event, World},
};
use crate::{
    caching::auto::{
        journal::{ended, obey, INTENT},
        Living, Stage,
    },
    content::body::ResponseBody,
    exchange::Exchange,
    support::clock,
};

/// Workers of the application.
const WORKERS: usize = 4;
/// So late (µs) is its thread, when it is.
const LATE: u64 = 600_000;

impl World {
    /// What is read of a socket that has something.
    pub async fn read(&mut self) {
        let waiting: Vec<u64> =
            self.links.iter().filter(|(_, link)| !link.frames.is_empty()).map(|(id, _)| *id).collect();
        if !waiting.is_empty() {
            let link = self.chance.pick(&waiting);
            self.read_frame(link).await;
        }
    }

    /// All that was written to sockets up to this place.
    pub async fn read_until(&mut self, place: u64) {
        let links: Vec<u64> = self.links.keys().copied().collect();
        for id in links {
            while self.links.get(&id).and_then(|link| link.frames.front()).is_some_and(|(at, _)| *at <= place) {
                self.read_frame(id).await;
            }
        }
    }

    async fn read_frame(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some((_, frame)) = link.frames.pop_front() else { return };
        let number = link.number;
        match frame {
            Frame::Connect => {
                link.number = self.auto.next_process();
                self.auto.processes.fetch_add(1, Relaxed);
                self.auto.trust.came(link.number, link.pid);
            }
            Frame::Say(INTENT, payload) if self.broken == Some(Broken::IntentIsNotObeyed) => {
                let end = payload.iter().position(|byte| *byte == 0).unwrap_or(0);
                self.answered(id, &payload[..=end]);
            }
            Frame::Say(kind, payload) => {
                match obey(kind, &payload, number, &self.auto) {
                    Ok(Some(answer)) => {
                        let answer = answer.to_vec();
                        self.answered(id, &answer);
                    }
                    Ok(None) => {}
                    Err(_) => self.fails("a process has announced what is malformed".into()),
                }
                tokio::task::yield_now().await;
            }
            Frame::End => {
                self.links.remove(&id);
                self.has_ended(number).await;
            }
        }
        self.trust_routes();
    }

    async fn has_ended(&mut self, number: u64) {
        if self.broken == Some(Broken::EndIsNotSeen) {
            return;
        }
        if self.broken == Some(Broken::EndedWritesCountAsDone) {
            self.auto.change(|watch| watch.lost(number, self.auto.next()));
        }
        let auto = self.auto.clone();
        tokio::spawn(async move { ended(number, &auto).await });
        tokio::task::yield_now().await;
    }

    /// The process reads an answer.
    fn answered(&mut self, link: u64, answer: &[u8]) {
        let reads = |process: &&mut Process| process.journal.link == Some(link) && process.journal.awaited == answer;
        if let Some(process) = self.processes.iter_mut().find(reads) {
            process.journal.is_answered = true;
        }
    }

    /// Its routes were proven before, so that a new load of the code is soon shown.
    fn trust_routes(&self) {
        self.auto.change(|watch| {
            if let Some(release) = watch.release().map(str::to_owned) {
                let own: Vec<String> = own_routes().filter(|_| self.has_own_routes).collect();
                watch.remember(&release, own.iter().map(String::as_str).chain([ROUTE]));
            }
        });
    }

    /// The thread that reads does not, or goes on.
    pub async fn stall(&mut self) {
        self.is_late = !self.is_late;
        let is_late = self.is_late;
        self.note(|| if is_late { "the front is late".into() } else { "the front reads again".into() });
        if is_late {
            self.counts.late += 1;
            self.auto.trust.beat(clock::now() - LATE);
        } else {
            self.read_until(self.written).await;
        }
        self.beat();
    }

    /// It shows that it reads.
    pub fn beat(&self) {
        if !self.is_late || self.broken == Some(Broken::LateFrontIsTrusted) {
            self.auto.trust.beat(clock::now());
        }
    }

    /// Time passes.
    pub async fn pass(&mut self, millis: u64) {
        let until = self.time + millis;
        while let Some(due) = self.database.next_commit().filter(|due| *due <= until) {
            self.advance(due).await;
            self.database.do_next_commit();
            self.note(|| "the database commits what it was sent".into());
        }
        self.advance(until).await;
    }

    async fn advance(&mut self, until: u64) {
        tokio::time::advance(std::time::Duration::from_millis(until.saturating_sub(self.time))).await;
        self.time = until;
        tokio::task::yield_now().await;
    }

    /// What the application's actor learns next, and tells.
    pub fn act(&mut self) {
        match self.events.pop_front() {
            Some(Event::HasEnded(serial)) => {
                self.living.retain(|(own, ..)| *own != serial);
                self.forking += 1;
                self.to_fork += 1;
            }
            Some(Event::WasForked(serial, pid)) => {
                self.living.push((serial, self.process(pid, self.first_stage())));
                self.forking -= 1;
            }
            Some(Event::IsReady(serial)) => {
                if let Some((_, process)) = self.living.iter_mut().find(|(own, _)| *own == serial) {
                    process.stage = Stage::Ready;
                }
                if let Some(process) = self.processes.iter_mut().find(|process| process.serial == serial) {
                    process.is_ready = true;
                }
            }
            None => self.retire(),
        }
        let processes = self.living.iter().map(|(_, process)| process.clone()).collect();
        self.reporter.tell(Living { processes, forking: self.forking });
    }

    /// `preload = false`: workers load the code themselves.
    fn first_stage(&self) -> Stage {
        if self.release_ends.is_empty() {
            Stage::Booting
        } else {
            Stage::Loading
        }
    }

    /// One worker after the other gives way to one with the new load of the code.
    fn retire(&mut self) {
        let is_whole = self.forking == 0 && self.processes.iter().all(|process| process.is_ready);
        let Some(at) = self.processes.iter().position(|process| process.retires && process.is_idle()) else { return };
        if is_whole {
            self.end(at);
        }
    }

    pub fn fork(&mut self) {
        if self.to_fork > 0 {
            self.to_fork -= 1;
            let process = self.new_process(Some(self.release()));
            self.events.push_back(Event::WasForked(process.serial, process.life.pid));
            self.processes.push(process);
        }
    }

    /// Another load of the code is to answer.
    pub fn restart(&mut self) {
        self.releases += 1;
        self.counts.restarts += 1;
        self.note(|| "a restart begins".into());
        self.processes.iter_mut().filter(|process| process.is_worker()).for_each(|process| process.retires = true);
    }

    /// The application begins.
    pub async fn boot(&mut self) {
        self.open_console();
        self.to_fork = WORKERS;
        self.forking = WORKERS;
        self.act();
        while self.processes.iter().any(|process| !process.is_ready) || self.processes.len() <= WORKERS {
            self.fork();
            self.join();
            self.read().await;
            self.act();
        }
    }

    /// What a visitor sends.
    pub fn request(&self, visitor: usize, path: &str) -> (Parts, Exchange) {
        let own = &self.visitors[visitor];
        let mut request = Request::get(format!("http://shop.test{path}"));
        if let Some(cookies) = own.cookies() {
            request = request.header("cookie", cookies);
        }
        if let Some(tenant) = own.tenant {
            request = request.header("x-tenant", tenant);
        }
        let head = request.header("user-agent", "model").body(()).unwrap().into_parts().0;
        let mut exchange = Exchange::begin(std::sync::Arc::default(), None, None, None);
        exchange.client.address = Some(own.ip());
        (head, exchange)
    }

    /// A request that a visitor sends: it is answered with a page, or handed to the application.
    pub fn ask(&mut self, asking: Asking) {
        let Asking { visitor, page } = asking;
        let (head, mut exchange) = self.request(visitor, &page.path(self.has_own_routes));
        self.counts.requests += 1;
        self.beat();
        if !self.chance.one_in(6) {
            self.auto.is_trusted();
            if let Ok(response) = self.auto.answer(&head, &exchange) {
                self.counts.hits += 1;
                self.check(asking, &response);
                return;
            }
        }
        if self.waiting.len() < 8 {
            let watched = self.auto.begin(&head, &mut exchange);
            let asked = self.asked(asking, head, exchange, watched);
            self.waiting.push_back(asked);
        }
    }

    /// The application has answered.
    pub fn observe(&mut self, serving: &mut Serving, response: Response<ResponseBody>) {
        let asked = &mut serving.asked;
        if self.broken == Some(Broken::BeginsWhenAnswered) {
            let record = asked.exchange.worker.record.take();
            asked.watched = self.auto.begin(&asked.head, &mut asked.exchange);
            if let (Some(slot), Some(record)) = (&asked.exchange.worker.record, record) {
                let record = record.lock().take();
                *slot.lock() = record;
            }
        }
        let Some(watched) = asked.watched.take() else { return };
        drop(self.auto.observe(watched, &asked.head, &asked.exchange, response));
        while let Ok(observed) = self.answers.try_recv() {
            self.observed.push_back((self.written, observed));
        }
    }

    /// An answer is looked at, after all that was written to sockets before it was whole.
    pub async fn look(&mut self) {
        // One whose record comes later waits for that.
        let nth = usize::from(self.observed.len() > 1 && self.chance.one_in(8));
        let Some((place, observed)) = self.observed.remove(nth) else { return };
        self.read_until(place).await;
        self.beat();
        self.auto.look_at(&observed);
        self.counts.answers += 1;
        let told = self.told.lock().take();
        if let Some(told) = told {
            self.fails(told);
        }
    }
}
