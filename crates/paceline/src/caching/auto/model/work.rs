//! What the threads of the model's processes do, step by step: they serve pages, and run programs of writes that are announced as
//! gem/lib/paceline/auto_cache/transactions.rb announces them. Here processes are killed, and what the database makes of it.

use std::mem;

use base64::{engine::general_purpose::STANDARD, Engine};
use bytes::Bytes;
use http::Response;

use super::{
    announcing::Progress,
    chance::Chance,
    database::{fields, Changes, Executed, Owner, Statement, USERS},
    pages::{self, Forgets, Keeps, Making, Session, Sight, COOKIE},
    process::{Action, Announcing, Call, Calling, Effect, Process, Serving, Task, Writing, JOINER, THREADS},
    world::{Broken, Event, World},
};
use crate::content::body::ResponseBody;

/// Values that a program of writes may use.
const LONGEST: i64 = 8;
/// Milliseconds in which the database does what was sent to it by a process that is gone or did not wait.
const AFTERMATH: usize = 4900;

/// When (ms) a process tells the schema of which it does not know whether it has changed it.
const TELLING: u64 = 6000;

fn changes_schema(effect: Effect, pending: &[(Statement, Option<i64>)]) -> bool {
    let changes = |statement: Statement| statement == Statement::ToggleTrigger;
    match effect {
        Effect::Alone(statement) | Effect::Sent(statement) => changes(statement),
        Effect::Commit => pending.iter().any(|(statement, _)| changes(*statement)),
        Effect::CacheKey(..) => false,
    }
}

impl World {
    /// A step of some thread.
    pub fn work(&mut self) {
        let may = |process: &Process, task: &Task| match task {
            Task::Idle => process.is_worker() && process.is_ready && !self.waiting.is_empty(),
            Task::Serving(_) | Task::Writing(_) => true,
        };
        let all: Vec<(usize, usize)> = (0..self.processes.len())
            .flat_map(|at| (0..THREADS).map(move |thread| (at, thread)))
            .filter(|(at, thread)| may(&self.processes[*at], &self.processes[*at].tasks[*thread]))
            .collect();
        if all.is_empty() {
            return;
        }
        let (at, thread) = self.chance.pick(&all);
        let mut task = mem::take(&mut self.processes[at].tasks[thread]);
        let goes_on = match &mut task {
            Task::Idle => {
                if let Some(asked) = self.waiting.pop_front() {
                    task = Task::Serving(Box::new(Serving { asked, making: None, is_recorded: false }));
                }
                true
            }
            Task::Serving(serving) => self.serve(at, serving),
            Task::Writing(writing) => self.write(at, thread, writing),
        };
        if goes_on {
            self.processes[at].tasks[thread] = task;
        }
    }

    /// A step of a thread that connects its process, and tells the schema.
    pub fn join(&mut self) {
        let all: Vec<usize> = (0..self.processes.len()).filter(|at| self.has_to_join(*at)).collect();
        if all.is_empty() {
            return;
        }
        let at = self.chance.pick(&all);
        if self.processes[at].joining.is_none() {
            if self.processes[at].telling.is_some() {
                return self.tell(at);
            }
            if self.is_to_tell(at) {
                self.processes[at].tells_at = None;
                return self.begin_telling(at);
            }
        }
        let again = || (Calling::new(Call::Join), false);
        let (mut calling, boots) = self.processes[at].joining.take().unwrap_or_else(again);
        if self.call(at, JOINER, &mut calling) == Progress::Waits {
            self.processes[at].joining = Some((calling, boots));
            return;
        }
        self.begin_telling(at);
        if boots {
            self.events.push_back(Event::IsReady(self.processes[at].serial));
            if self.chance.one_in(3) {
                // An initializer writes.
                self.processes[at].tasks[0] = self.writing();
            }
        }
    }

    pub fn has_to_join(&self, at: usize) -> bool {
        let process = &self.processes[at];
        let without = process.is_worker() && process.journal.link.is_none();
        process.joining.is_some() || process.telling.is_some() || without || self.is_to_tell(at)
    }

    fn is_to_tell(&self, at: usize) -> bool {
        self.processes[at].tells_at.is_some_and(|due| due <= self.time)
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        let is_read = self.links.values().all(|link| link.frames.is_empty());
        let rests = |at: usize| self.processes[at].is_idle() && !self.has_to_join(at);
        self.waiting.is_empty() && self.observed.is_empty() && is_read && (0..self.processes.len()).all(rests)
    }

    /// Some thread begins to write.
    pub fn begin_writing(&mut self) {
        let at = self.chance.below(self.processes.len());
        let thread = self.chance.below(THREADS);
        let process = &self.processes[at];
        if process.is_ready && matches!(process.tasks[thread], Task::Idle) {
            self.processes[at].tasks[thread] = self.writing();
        }
    }

    fn writing(&mut self) -> Task {
        self.last_owner += 1;
        // No program has more.
        let (habits, first) = (self.habits, self.last_value + 1);
        self.last_value += LONGEST;
        let mut values = first..;
        let next = |chance: &mut Chance| habits.statement(chance, values.next().unwrap_or(first));
        let key = |chance: &mut Chance| Effect::CacheKey(chance.id(pages::KEYS), first);
        let actions = habits.program(&mut self.chance, next, key);
        Task::Writing(Box::new(Writing {
            owner: self.last_owner,
            actions,
            own: Changes::new(),
            pending: Vec::new(),
            savepoints: Vec::new(),
            announcing: None,
        }))
    }

    /// False: it is done.
    fn write(&mut self, at: usize, thread: usize, writing: &mut Writing) -> bool {
        if let Some((announcing, effect, id)) = writing.announcing.take() {
            return self.announce(at, thread, writing, (announcing, effect, id));
        }
        let Some(action) = writing.actions.pop() else { return false };
        match action {
            Action::Run(statement) => match self.database.execute(writing.owner, &mut writing.own, statement) {
                Executed::Done(generated) => writing.pending.push((statement, generated)),
                // Of two that wait for each other, one is ended by the database.
                Executed::Waits if !self.chance.one_in(20) => writing.actions.push(action),
                Executed::Waits | Executed::Refused => {
                    self.database.roll_back(writing.owner);
                    return false;
                }
            },
            Action::Savepoint => writing.savepoints.push((writing.own.clone(), writing.pending.len())),
            Action::BackToSavepoint => {
                if let Some((own, kept)) = writing.savepoints.pop() {
                    writing.own = own;
                    writing.pending.truncate(kept);
                }
            }
            Action::RollBack => {
                self.counts.rolled_back += 1;
                self.database.roll_back(writing.owner);
            }
            Action::Announced(effect) => {
                let process = &mut self.processes[at];
                process.announced += 1;
                let id = format!("{}-{}", process.serial, process.announced);
                let entries = self.entries(effect, &writing.pending);
                let calling = Calling::new(Call::Intend(fields(&[&id]), entries));
                writing.announcing = Some((Announcing::Intends(calling), effect, id));
            }
        }
        true
    }

    fn entries(&self, effect: Effect, pending: &[(Statement, Option<i64>)]) -> Vec<u8> {
        match effect {
            Effect::Commit => {
                pending.iter().flat_map(|(statement, generated)| statement.entry(*generated, self.dialect)).collect()
            }
            Effect::Alone(statement) | Effect::Sent(statement) => statement.entry(None, self.dialect),
            Effect::CacheKey(key, _) => fields(&["K", "", &format!("key{key}")]),
        }
    }

    fn announce(
        &mut self,
        at: usize,
        thread: usize,
        writing: &mut Writing,
        (announcing, effect, id): (Announcing, Effect, String),
    ) -> bool {
        let next = match announcing {
            Announcing::Intends(mut calling) => match self.call(at, thread, &mut calling) {
                Progress::Waits => Announcing::Intends(calling),
                Progress::Over => Announcing::Happens,
                Progress::Raised => {
                    self.database.roll_back(writing.owner);
                    return false;
                }
            },
            Announcing::Happens => match self.happens(writing, effect) {
                None => Announcing::Happens,
                Some(is_known) => {
                    if !is_known && changes_schema(effect, &writing.pending) && self.processes[at].is_worker() {
                        self.processes[at].tells_at = Some(self.time + TELLING);
                    }
                    let outcome =
                        if is_known || self.broken == Some(Broken::UnknownCountsAsDone) { "commit" } else { "unknown" };
                    Announcing::Done(Calling::new(Call::Done(fields(&[&id, outcome]))))
                }
            },
            Announcing::Done(mut calling) => {
                if self.call(at, thread, &mut calling) == Progress::Waits {
                    Announcing::Done(calling)
                } else {
                    if changes_schema(effect, &writing.pending) && self.processes[at].tells_at.is_none() {
                        self.begin_telling(at);
                    }
                    return !writing.actions.is_empty();
                }
            }
        };
        writing.announcing = Some((next, effect, id));
        true
    }

    /// The write itself. None: it waits for another one. False: the process does not learn whether it happened.
    fn happens(&mut self, writing: &mut Writing, effect: Effect) -> Option<bool> {
        let is_lost = self.chance.one_in(60);
        match effect {
            Effect::CacheKey(key, value) => drop(self.cache.insert(key, value)),
            Effect::Commit if is_lost => {
                self.decide_fate(writing.owner, mem::take(&mut writing.own));
                return Some(false);
            }
            Effect::Commit => self.commit(writing.owner, &writing.own),
            Effect::Alone(statement) | Effect::Sent(statement) => {
                match self.database.execute(writing.owner, &mut writing.own, statement) {
                    // It has waited for too long.
                    Executed::Waits if self.habits.is_still && self.chance.one_in(8) => return Some(false),
                    Executed::Waits => return None,
                    Executed::Refused => return Some(false),
                    Executed::Done(_) if is_lost || matches!(effect, Effect::Sent(_)) => {
                        self.decide_fate(writing.owner, mem::take(&mut writing.own));
                        return Some(false);
                    }
                    Executed::Done(_) => self.commit(writing.owner, &writing.own),
                }
            }
        }
        Some(true)
    }

    fn commit(&mut self, owner: Owner, own: &Changes) {
        self.counts.commits += 1;
        self.database.commit(owner, own);
        self.note(|| format!("commit of {own:?}"));
    }

    /// The database has got it, and nobody learns what it makes of it: it does it now, later or never.
    fn decide_fate(&mut self, owner: Owner, own: Changes) {
        match self.chance.below(4) {
            0 => self.database.roll_back(owner),
            1 => self.commit(owner, &own),
            _ => {
                let due = self.time + self.chance.below(AFTERMATH) as u64;
                self.note(|| format!("at {due} ms the database commits {own:?}"));
                self.counts.commits += 1;
                self.database.commit_later(due, owner, own);
            }
        }
    }

    /// Ends some process at once, whatever it is doing.
    pub fn kill(&mut self) {
        let at = self.chance.below(self.processes.len());
        self.note(|| format!("process at {at} is killed"));
        self.counts.kills += 1;
        self.end(at);
    }

    /// Ends a process that is about to commit, if there is one.
    pub fn strike(&mut self) {
        let commits = |task: &Task| match task {
            Task::Writing(writing) => matches!(writing.announcing, Some((Announcing::Happens, ..))),
            Task::Idle | Task::Serving(_) => false,
        };
        let about = |at: &usize| self.processes[*at].tasks.iter().any(commits);
        let all: Vec<usize> = (0..self.processes.len()).filter(about).collect();
        if !all.is_empty() {
            let at = self.chance.pick(&all);
            self.note(|| format!("process at {at} is killed while it commits"));
            self.counts.kills += 1;
            self.end(at);
        }
    }

    /// The process is no more.
    pub fn end(&mut self, at: usize) {
        for thread in 0..THREADS {
            let Task::Writing(writing) = mem::take(&mut self.processes[at].tasks[thread]) else { continue };
            let mut writing = *writing;
            match writing.announcing {
                Some((Announcing::Happens, Effect::Commit, _)) => self.decide_fate(writing.owner, writing.own),
                Some((Announcing::Happens, Effect::Alone(statement) | Effect::Sent(statement), _)) => {
                    match self.database.execute(writing.owner, &mut writing.own, statement) {
                        Executed::Done(_) => self.decide_fate(writing.owner, writing.own),
                        Executed::Waits | Executed::Refused => self.database.roll_back(writing.owner),
                    }
                }
                Some((Announcing::Done(_), ..)) => {}
                _ => self.database.roll_back(writing.owner),
            }
        }
        let process = self.processes.remove(at);
        let (serial, is_worker, journal) = (process.serial, process.is_worker(), process.journal.link);
        drop(process);
        // What it has written lies in the socket yet.
        if let Some(link) = journal.and_then(|link| self.links.get_mut(&link)) {
            self.written += 1;
            link.frames.push_back((self.written, super::process::Frame::End));
        }
        if is_worker {
            self.events.push_back(Event::HasEnded(serial))
        } else {
            self.open_console()
        }
    }

    /// A step of a thread that makes a page. False: it is done.
    fn serve(&mut self, at: usize, serving: &mut Serving) -> bool {
        let (page, asked) = (serving.asked.page, &mut serving.asked);
        let Some(making) = &mut serving.making else {
            let process = &self.processes[at];
            asked.facts.release = process.release.clone().unwrap_or_default();
            asked.facts.session = self.sessions.of(asked.cookie.as_ref());
            serving.is_recorded = process.journal.link.is_some();
            let forgets = self.broken.map_or(Forgets::Nothing, Broken::forgets);
            serving.making = Some(Making::begin(&asked.facts, forgets));
            return true;
        };
        let sight = Sight { state: &self.database.committed, cache: &self.cache, facts: &asked.facts };
        if making.go_on(page, &sight, self.dialect, self.keeps) {
            return true;
        }
        self.answer_with(serving);
        false
    }

    /// The page is whole.
    fn answer_with(&mut self, serving: &mut Serving) {
        let Some(mut making) = serving.making.take() else { return };
        let (page, asked) = (serving.asked.page, &mut serving.asked);
        let mut session = asked.facts.session.clone();
        let is_new = page.has_tokens() && session.secret.is_none();
        if is_new {
            session.secret = Some(self.chance.bytes());
        }
        if let Some(secret) = session.secret.filter(|_| page.has_tokens() && making.tells_tokens()) {
            making.record.extend(fields(&["P", "", &STANDARD.encode(secret)]));
        }
        let nonce = pages::nonce(&mut self.chance);
        let body = making.body(session.secret.as_ref(), &nonce, &mut self.chance);
        let mut response = Response::builder().header("content-type", "text/html; charset=utf-8");
        if page.has_nonce() {
            response = response.header("content-security-policy", format!("script-src 'nonce-{nonce}'"));
        }
        if page.varies_by_tenant() {
            response = response.header("vary", "X-Tenant");
        }
        if page.signs_in() {
            session = Session { user: Some(self.chance.id(USERS)), ..Session::default() };
        }
        let has_read = page.reads_session() && session != Session::default();
        let sets = is_new || has_read && (page.renews() || self.chance.one_in(3));
        let cookie = if sets { self.keep_session(asked.cookie.clone(), session) } else { None };
        if let Some(cookie) = &cookie {
            let more = if self.keeps == Keeps::Expires { "; max-age=3600" } else { "" };
            response = response.header("set-cookie", format!("{COOKIE}={cookie}; path=/; httponly{more}"));
            self.visitors[asked.visitor].cookie = Some(cookie.clone());
            self.counts.renewed += u64::from(page.renews());
        }
        if page.renews() && self.chance.one_in(2) {
            response = response.status(302);
        }
        if let Some(slot) = asked.exchange.worker.record.as_ref().filter(|_| serving.is_recorded) {
            *slot.lock() = Some(Bytes::from(making.record));
        }
        let response = response.body(ResponseBody::Whole(Bytes::from(body))).unwrap();
        self.observe(serving, response);
    }

    /// Keeps what the application has made of a session. Some: under a new cookie.
    pub fn keep_session(&mut self, cookie: Option<String>, session: Session) -> Option<String> {
        match cookie {
            Some(cookie) if self.keeps == Keeps::Server => {
                self.sessions.change(&cookie, session);
                None
            }
            _ => Some(self.sessions.keep(session)),
        }
    }
}
