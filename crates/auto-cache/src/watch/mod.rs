//! Watches what an automatic page cache would have done: for each answer, whether a page was there under the same key that no
//! write had touched, and whether it is equal. In mode serve it gives the pages of routes that have proved to be right. It reads no
//! clock: moments (numbers of one sequence) and times are arguments.
//!
//! Reading order: `answered` and `intend` here, `made` (what a page was made of), `write_log` (writes, and what they unsettle),
//! `pages` (where pages are kept), `routes` (what is counted and shown), `life` (how far a route has come), `serving` (the page for
//! a request), `sessions` (what is known of a visitor's session), `unnamed` (between which values of what no record names a page may pass),
//! `schema_readings` (whether what a process says of the schema holds), `blockers` (which lines keep pages out).

mod blockers;
mod cut;
mod life;
mod made;
mod pages;
mod routes;
mod schema_readings;
mod serving;
mod sessions;
mod statements;
mod unnamed;
mod write_log;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

pub use self::{
    blockers::{Blocker, Blockers},
    cut::Cut,
    life::{Life, Mode, Policy, Stage, PROVEN, PROVEN_AGAIN, VISITORS},
    made::{shown, Made, Reading, Refusal, Refusals},
    pages::{FileMark, Page, PageSummary, Room, Written},
    routes::{Difference, Route, Varies},
    serving::{Hit, OtherAnswer, PageRequest},
    sessions::{SetCookie, UnchangedSession},
    unnamed::{Field, Kind},
};
use self::{
    made::{is_release, short},
    pages::Pages,
    routes::Routes,
    schema_readings::SchemaReadings,
    sessions::Sessions,
    statements::Statements,
    unnamed::{Brought, Unnamed},
    write_log::{Changes, WriteLog},
};
use crate::{
    effects::Write,
    keys::{self, Held, Name, Source},
    sql::literals::without_literals,
    wire::{self, Keeps, Malformed, What},
};

/// A larger page is not compared.
pub const MAX_BODY: usize = 1 << 20;
/// Milliseconds after which a file that was read is taken to be what it was when it was read.
const SETTLED: u64 = 5000;
/// Milliseconds that a page is good for, where nothing else is said.
const MAX_TTL: u64 = 3_600_000;
/// Stands for all keys of Rails.cache.
const ANY_KEY: &str = "*";
/// Changes of one transaction that are told apart. One with more changes anything.
const MAX_CHANGES: usize = 1000;

/// An answer of the application to a GET, with status 200.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    /// Scheme, host, path and query.
    pub url: &'a str,
    pub route: &'a str,
    /// The moment when its request was handed to the application.
    pub began: u64,
    /// The moment when it was whole: requests that begin from then on could have had it.
    pub ended: u64,
    /// Unix milliseconds.
    pub now: u64,
    /// None: the application has sent none.
    pub record: Option<&'a [u8]>,
    /// Why its head does not let it be kept.
    pub refused: Option<&'a str>,
    /// The cookies that it sets.
    pub cookies: &'a [SetCookie<'a>],
    /// Lines of its head that the next answer has as well, each with its end: `content-type: text/html` and so on.
    pub head: &'a [u8],
    pub etag: Option<&'a str>,
    /// Fields of the request that its Vary names.
    pub vary: &'a [Name],
    /// A number for the visitor: the same for what may be the same one.
    pub visitor: u64,
    /// Of its Content-Security-Policy.
    pub nonce: Option<&'a str>,
    pub body: &'a [u8],
}

/// What the surroundings of an answer are.
pub trait Around {
    /// What its request has of a name.
    fn held(&self, name: &Name) -> Held;
    /// Calls it for each field of the request that an application may read.
    fn each_field(&self, see: &mut dyn FnMut(Field));
    /// What tells a file from itself after a change. None: it is not there.
    fn file(&self, path: &str) -> Option<FileMark>;
}

/// One site's.
#[derive(Debug, Default)]
pub struct Watch {
    statements: Statements,
    schema_readings: SchemaReadings,
    told: WriteLog,
    pages: Pages,
    routes: Routes,
    blockers: Blockers,
    sessions: Sessions,
    unnamed: Unnamed,
    policy: Policy,
    /// Which load of the code answers.
    release: Option<String>,
    /// Since it was asked last.
    newly_proven: Vec<String>,
    writes: u64,
}

/// A page that would have been shown, or was, and the application's answer to the same request is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    pub route: String,
    pub difference: Difference,
    /// Pages of the route were shown.
    pub was_serving: bool,
}

impl Watch {
    pub fn new(policy: Policy) -> Watch {
        Watch { policy, ..Watch::default() }
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// From `moment` on: nobody knows what was written before it.
    pub fn distrust(&mut self, moment: u64) {
        self.pages.clear("the server, which begins with no pages", 0);
        self.sessions.forget();
        self.told.forget(moment);
    }

    /// Another load of the code answers from `moment` on.
    pub fn begin_release(&mut self, release: &str, moment: u64) {
        self.distrust(moment);
        if self.release.as_deref() != Some(release) {
            self.release = Some(release.to_owned());
            self.routes.restart();
            self.unnamed.forget();
            self.newly_proven.clear();
        }
    }

    /// What the load of this name has come to is not known any more: its routes begin from nothing.
    pub fn end_release(&mut self) {
        self.release = None;
    }

    /// These routes were proven with the code of this load before.
    pub fn remember<'a>(&mut self, release: &str, routes: impl Iterator<Item = &'a str>) {
        if self.release.as_deref() == Some(release) {
            for label in routes {
                if let Some(route) = self.routes.own(label) {
                    route.life.remember();
                }
            }
        }
    }

    /// Which load of the code answers.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Routes that have been proven since this was called last.
    pub fn newly_proven(&mut self) -> Vec<String> {
        std::mem::take(&mut self.newly_proven)
    }

    /// Pages are dropped by people.
    pub fn purge(&mut self, moment: u64, now: u64) {
        self.pages.clear("a purge", now);
        self.told.forget(moment);
    }

    /// From `moment` on: another program has written to the database, and nobody knows what.
    pub fn was_written_to(&mut self, moment: u64, now: u64) {
        self.pages.clear("another program, which wrote to the database", now);
        self.told.forget(moment);
    }

    /// Its pages are shown no more, until `turn_on`.
    pub fn turn_off(&mut self, route: &str, why: &str) {
        self.pages.drop_route(route);
        self.routes.of(route).life.turn_off(why);
    }

    /// It begins to learn once more.
    pub fn turn_on(&mut self, route: &str) {
        self.pages.drop_route(route);
        self.routes.of(route).life.turn_on();
    }

    /// A process is about to read its database's schema. `id`: its own number for that.
    pub fn begin_schema(&mut self, process: u64, id: &str) {
        self.schema_readings.begin(process, id);
    }

    /// It tells what it has read. If the schema may have been changed since it began, that counts for nothing.
    pub fn learn_schema(&mut self, process: u64, id: &str, payload: &[u8]) -> Result<(), Malformed> {
        if self.schema_readings.end(process, id) && self.statements.learn(payload)? {
            // What was kept was read by another understanding.
            self.pages.clear("the schema", 0);
        }
        Ok(())
    }

    /// Otherwise any write touches any page.
    pub fn knows_schema(&self) -> bool {
        self.statements.know_schema()
    }

    /// A process is about to commit these statements, or to write these keys of Rails.cache, entries of a record: pages that they touch are dropped before this
    /// returns. Err: more writes are under way than an application can have.
    pub fn intend(&mut self, process: u64, id: &str, entries: &[u8], now: u64) -> Result<(), Malformed> {
        let (mut write, mut schema, mut words) = (Write::default(), false, String::new());
        let mut keys = Some(BTreeSet::new());
        for entry in wire::record(entries)? {
            let (sql, bound, generated) = match entry.what {
                What::Statement { sql, bound, generated } => (sql, bound, generated),
                What::CacheKey(key) => {
                    words = short(&format!("Rails.cache {key}"));
                    match &mut keys {
                        Some(keys) if key != ANY_KEY => {
                            keys.insert(key);
                        }
                        _ => keys = None,
                    }
                    continue;
                }
                _ => return Err(Malformed),
            };
            let ran = self.statements.run(&sql, &bound, generated.as_ref());
            if words.is_empty() {
                words = short(&without_literals(&sql));
            }
            schema |= ran.changes_schema;
            write.add(ran.write);
            if write.changes.len() > MAX_CHANGES {
                write = Write { everything: true, changes: Vec::new() };
            }
        }
        if schema {
            self.statements.forget();
            self.schema_readings.begin_change((process, id.to_owned()));
            self.told.widen();
            self.pages.clear(&words, now);
        }
        let changes = Changes { write, keys, bytes: entries.len() };
        self.pages.touched(&changes, &words, now);
        self.told.begin((process, id.to_owned()), changes).map_err(|()| Malformed)
    }

    /// The process has committed it, or does not know whether it has. `moment`: a new one.
    pub fn done(&mut self, process: u64, id: &str, moment: u64, now: u64) {
        self.writes += 1;
        let id = (process, id.to_owned());
        self.schema_readings.end_change(&id);
        if !self.told.end(&id, moment) {
            // It was announced on a connection that has ended: nobody knows any more what it changed.
            let everything = Changes::of_rows(Write { everything: true, changes: Vec::new() });
            self.pages.touched(&everything, "a write that was announced before the connection ended", now);
            self.told.add(moment, everything);
        }
    }

    /// The process is about to commit something.
    pub fn has_begun(&self, process: u64) -> bool {
        self.told.has_begun(process)
    }

    /// Somebody is about to commit something.
    pub fn is_written_to(&self) -> bool {
        self.told.is_open()
    }

    /// The process is gone: what it was about to commit may have happened.
    pub fn lost(&mut self, process: u64, moment: u64) {
        self.schema_readings.end_changes(process);
        self.told.lost(process, moment);
    }

    /// The connection of this process is closed. True: it was about to commit something.
    pub fn left(&mut self, process: u64) -> bool {
        self.schema_readings.left(process);
        self.has_begun(process)
    }

    /// Somebody has asked the application to change something: what he brings was equal before, and may not be any more.
    pub fn has_acted(&mut self, around: &impl Around) {
        let brought = self.brought(around);
        self.unnamed.has_acted(&brought);
    }

    fn brought(&self, around: &impl Around) -> Brought {
        self.unnamed.brought(|see| around.each_field(see))
    }

    /// The application has answered. Some: its route has just been turned off.
    pub fn answered(&mut self, answer: &Answer, around: &impl Around) -> Option<Alarm> {
        let counted = self.understand(answer).and_then(|made| Ok(Cut::of(answer, made)?));
        if let (Err(_), Some(session)) = (&counted, answer.record.and_then(UnchangedSession::of)) {
            self.learn_session(&session, answer.cookies, answer.now, around);
        }
        self.compare(answer, around, counted)
    }

    /// Compares it with the page that a cache would have had, and keeps it. Some: its route has just been turned off.
    pub fn compare(&mut self, answer: &Answer, around: &impl Around, counted: Result<Cut, Refusals>) -> Option<Alarm> {
        let counted = counted.and_then(|cut| Ok((self.decide(answer, around, &cut)?, cut)));
        let is_own = self.routes.find(answer.route).is_some();
        let route = self.routes.of(answer.route);
        route.requests += 1;
        let (outcome, cut) = match counted {
            Err(refusals) => {
                self.blockers.count(&refusals);
                route.refuse(refusals.into_first());
                return None;
            }
            Ok(counted) => counted,
        };
        let made = &cut.made;
        route.saw(&cut, |name| made.held(name, |name| around.held(name)));
        self.follow_session(made, answer.cookies, answer.now, around);
        match outcome {
            Outcome::Equal => {
                let route = self.routes.of(answer.route);
                route.hits += 1;
                if route.life.was_equal(answer.visitor) && is_own {
                    self.newly_proven.push(answer.route.to_owned());
                }
                None
            }
            Outcome::Differs(difference) => self.differs(answer.route, difference),
            Outcome::Miss => None,
        }
    }

    /// Of what would have been shown.
    fn differs(&mut self, label: &str, difference: Difference) -> Option<Alarm> {
        let mode = self.policy.mode;
        let route = self.routes.of(label);
        route.hits += 1;
        route.differed += 1;
        route.difference = Some(difference.clone());
        if mode == Mode::Watch || route.life.is_off() {
            return None;
        }
        let was_serving = route.life.stage(mode) == Stage::Serving;
        self.turn_off(label, "a page differed from the application's");
        Some(Alarm { route: label.to_owned(), difference, was_serving })
    }

    fn decide(&mut self, answer: &Answer, around: &impl Around, cut: &Cut) -> Result<Outcome, Refusal> {
        let made = &cut.made;
        let held = |name: &Name| made.held(name, |name| around.held(name));
        let brought = self.brought(around);
        let mut outcome = Outcome::Miss;
        if let Some(page) = self.pages.find(answer.url, held).cloned() {
            if page.kept > answer.began {
                // It was asked for before this page was there: a cache would have waited for it.
                return Ok(Outcome::Miss);
            }
            // The application has looked at its clock before now.
            if page.left(answer.now, self.policy.max_ttl) > 0 && page.has_its_files(around) {
                let is_equal = page.template == cut.body && page.head == cut.head;
                if is_equal {
                    page.confirm();
                    let across = &mut self.routes.of(&page.route).life.across;
                    self.unnamed.was_equal(across, &page.makers, &brought, answer.visitor);
                    // One that is nobody's can be shown to more; and none is shown for longer than the last answer says.
                    let ends_first = page.ends() <= made.good_until.unwrap_or(u64::MAX);
                    let is_as_personal = !page.makers.are_personal() || brought.is_personal(&page.makers);
                    if ends_first && is_as_personal && !page.makers.were_before(&brought, answer.visitor) {
                        return Ok(Outcome::Equal);
                    }
                }
                let (kept, own) =
                    if page.template == cut.body { (&page.head, &cut.head) } else { (&page.template, &cut.body) };
                outcome = if is_equal {
                    Outcome::Equal
                } else {
                    Outcome::Differs(Difference::between(answer.url, kept, own, answer.now))
                };
            }
        }
        if self.told.unsettles(answer.began, &made.read, &made.keys) {
            // A write came in between: nobody knows whether this is from before it.
            self.pages.drop_found(answer.url, held);
            return Ok(outcome);
        }
        if made.good_until.is_some_and(|time| time <= answer.now) {
            self.pages.drop_found(answer.url, held);
            return Ok(outcome);
        }
        let files: Vec<_> = made.files.iter().map(|path| (path.clone(), around.file(path))).collect();
        if files.iter().any(|(_, mark)| mark.is_some_and(|[changed, ..]| changed / 1_000_000 + SETTLED > answer.now)) {
            self.pages.drop_found(answer.url, held);
            return Ok(outcome);
        }
        // Random texts are nobody's.
        let has_holes = cut.tokens() + cut.nonces() > 0;
        let session = made.session.as_ref().filter(|(_, keeps)| *keeps != Keeps::Name).map(|(name, _)| name.as_str());
        let makers = self.unnamed.makers(made.names.iter(), session, &brought, answer.visitor);
        let page = Page {
            url: answer.url.into(),
            route: answer.route.into(),
            head: cut.head.clone(),
            template: cut.body.clone(),
            etag: answer.etag.filter(|_| !has_holes && cut.texts() == 0).map(Into::into),
            is_private: has_holes || makers.are_personal() || made.names.iter().any(is_of_visitor),
            read: Arc::new(made.read.clone()),
            keys: made.keys.clone(),
            files,
            readings: made.readings.clone(),
            makers,
            place: Default::default(),
            prepared: Default::default(),
            is_confirmed: matches!(outcome, Outcome::Equal).into(),
            kept: answer.ended,
            at: answer.now,
            good_until: made.good_until,
        };
        self.pages.keep(page, &made.names, held).map_err(|refusal| refused(&refusal))?;
        Ok(outcome)
    }

    /// What was counted, by route.
    pub fn routes(&self) -> impl Iterator<Item = (&str, &Route)> {
        self.routes.all()
    }

    /// The lines that keep pages out, over all routes.
    pub fn blockers(&self) -> &Blockers {
        &self.blockers
    }

    /// The pages of this URL that a cache would have now, and the last write that dropped one.
    pub fn seen(&self, url: &str) -> (Vec<PageSummary>, Option<&Written>) {
        self.pages.seen(url)
    }

    /// Writes that were announced and are done.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Pages, and bytes of them.
    pub fn size(&self) -> (usize, usize) {
        self.pages.size()
    }
}

enum Outcome {
    Equal,
    Differs(Difference),
    Miss,
}

fn cookie(name: &str) -> Name {
    Name { source: Source::Cookie, name: name.to_owned() }
}

/// Visitors differ in it.
fn is_of_visitor(name: &Name) -> bool {
    match name.source {
        Source::Cookie | Source::Session => true,
        Source::Request => name.name == "address",
        Source::Header | Source::Parameter | Source::Query => false,
    }
}

fn refused(refusal: &keys::Refusal) -> Refusal {
    Refusal::new(match refusal {
        keys::Refusal::TooManyNames => format!("depends on more than {} values of its request", keys::MAX_NAMES),
        keys::Refusal::TooManySets => "depends on other values of its request each time".to_owned(),
        keys::Refusal::ValuesTooLong => format!("depends on values of more than {} bytes", keys::MAX_VALUES),
        keys::Refusal::Unknown(name) => format!("depends on {}, whose value is not known", shown(name)),
    })
}
