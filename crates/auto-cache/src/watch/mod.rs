//! Watches what an automatic page cache would have done: for each answer, whether a page was there under the same key that no
//! write had touched, and whether it is equal. It keeps pages only to compare them, up to a bound, and gives them to nobody.
//! It reads no clock: moments (numbers of one sequence) and times are arguments.
//!
//! Reading order: `answered` and `intend` here, `made` (what a page was made of), `told` (writes, and what they unsettle),
//! `pages` (where pages are kept), `routes` (what is counted and shown).

mod made;
mod pages;
mod routes;
mod statements;
mod write_log;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use self::{
    made::{is_release, short, Made},
    pages::{Page, Pages},
    routes::Routes,
    statements::Statements,
    write_log::{Changes, WriteLog},
};
pub use self::{
    made::{shown, Reading, Refusal},
    pages::{FileMark, PageSummary, Written},
    routes::{Difference, Route, Varies},
};
use crate::{
    effects::Write,
    holes::{Template, Visitor},
    keys::{self, Held, Name},
    wire::{self, Malformed, What},
};

/// A larger page is not compared.
pub const MAX_BODY: usize = 1 << 20;
/// Milliseconds after which a file that was read is taken to be what it was when it was read.
const SETTLED: u64 = 5000;
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
    /// The first cookie that it sets.
    pub sets_cookie: Option<&'a str>,
    pub content_type: &'a str,
    /// Of its Content-Security-Policy.
    pub nonce: Option<&'a str>,
    pub body: &'a [u8],
}

/// What the surroundings of an answer are.
pub trait Around {
    /// What its request has of a name.
    fn held(&self, name: &Name) -> Held;
    /// What tells a file from itself after a change. None: it is not there.
    fn file(&self, path: &str) -> Option<FileMark>;
}

/// One site's.
#[derive(Debug, Default)]
pub struct Watch {
    statements: Statements,
    told: WriteLog,
    pages: Pages,
    routes: Routes,
    writes: u64,
}

impl Watch {
    /// A worker tells its database's schema.
    pub fn learn_schema(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        if self.statements.learn(payload)? {
            // What was kept was read by another understanding.
            self.pages.clear("the schema", 0);
        }
        Ok(())
    }

    /// A process is about to commit these statements, entries of a record: pages that they touch are dropped before this
    /// returns. Err: more writes are under way than an application can have.
    pub fn intend(&mut self, process: u64, id: &str, entries: &[u8], now: u64) -> Result<(), Malformed> {
        let (mut write, mut schema, mut words) = (Write::default(), false, String::new());
        for entry in wire::record(entries)? {
            let What::Statement { sql, bound, generated } = entry.what else { return Err(Malformed) };
            let ran = self.statements.run(&sql, &bound, generated.as_ref());
            if words.is_empty() {
                words = short(&sql);
            }
            schema |= ran.changes_schema;
            write.add(ran.write);
            if write.changes.len() > MAX_CHANGES {
                write = Write { everything: true, changes: Vec::new() };
            }
        }
        if schema {
            self.statements.forget();
            self.pages.clear(&words, now);
        }
        let changes = Changes::of_rows(write);
        self.pages.touched(&changes, &words, now);
        self.told.begin((process, id.to_owned()), changes).map_err(|()| Malformed)
    }

    /// The process has committed it, or does not know whether it has. `moment`: a new one.
    pub fn done(&mut self, process: u64, id: &str, moment: u64, now: u64) {
        self.writes += 1;
        if !self.told.end(&(process, id.to_owned()), moment) {
            // It was announced on a connection that has ended: nobody knows any more what it changed.
            let everything = Changes::of_rows(Write { everything: true, changes: Vec::new() });
            self.pages.touched(&everything, "a write that was announced before the connection ended", now);
            self.told.add(moment, everything);
        }
    }

    /// The process is gone: what it was about to commit may have happened.
    pub fn lost(&mut self, process: u64, moment: u64) {
        self.told.lost(process, moment);
    }

    /// Keys of Rails.cache were written; `*`: any.
    pub fn wrote_keys(&mut self, keys: impl IntoIterator<Item = String>, moment: u64, now: u64) {
        let keys: BTreeSet<String> = keys.into_iter().collect();
        let words = format!("Rails.cache {}", keys.first().map_or("", String::as_str));
        let changes = Changes::of_keys((!keys.contains("*")).then_some(keys));
        self.pages.touched(&changes, &short(&words), now);
        self.told.add(moment, changes);
    }

    /// The application has answered.
    pub fn answered(&mut self, answer: &Answer, around: &impl Around) {
        let counted = self.count(answer, around);
        let route = self.routes.of(answer.route);
        route.requests += 1;
        match counted {
            Err(refusal) => route.refuse(refusal),
            Ok(Compared { outcome, made, tokens, nonces }) => {
                route.saw(&made, |name| made.held(name, |name| around.held(name)), (tokens, nonces));
                match outcome {
                    Outcome::Equal => route.hits += 1,
                    Outcome::Differs(difference) => {
                        route.hits += 1;
                        route.differed += 1;
                        route.difference = Some(difference);
                    }
                    Outcome::Miss => {}
                }
            }
        }
    }

    fn count(&mut self, answer: &Answer, around: &impl Around) -> Result<Compared, Refusal> {
        if let Some(why) = answer.refused {
            return Err(Refusal::new(why));
        }
        let record = answer.record.ok_or_else(|| Refusal::new("the application has not said what it read"))?;
        let made = Made::of(record, &mut self.statements)?;
        if let Some(cookie) = answer.sets_cookie.filter(|_| !made.has_session()) {
            return Err(Refusal::new(format!("sets the cookie {cookie}")));
        }
        if answer.body.len() > MAX_BODY {
            return Err(Refusal::new("the page is larger than 1 MB"));
        }
        let template = cut(answer, &made)?;
        let (tokens, nonces) = (template.tokens(), template.nonces());
        let outcome = self.compare(answer, around, &made, template)?;
        Ok(Compared { outcome, made, tokens, nonces })
    }

    /// Compares it with the page that a cache would have had, and keeps it.
    fn compare(
        &mut self,
        answer: &Answer,
        around: &impl Around,
        made: &Made,
        template: Template,
    ) -> Result<Outcome, Refusal> {
        let held = |name: &Name| made.held(name, |name| around.held(name));
        let mut outcome = Outcome::Miss;
        if let Some(page) = self.pages.find(answer.url, held) {
            if page.kept > answer.began {
                // It was asked for before this page was there: a cache would have waited for it.
                return Ok(Outcome::Miss);
            }
            if page.files.iter().all(|(path, mark)| around.file(path) == *mark) {
                if page.template == template && *page.content_type == *answer.content_type {
                    return Ok(Outcome::Equal);
                }
                outcome = Outcome::Differs(Difference::between(answer.url, &page.template, &template, answer.now));
            }
        }
        if self.told.unsettles(answer.began, &made.read, &made.keys) {
            // A write came in between: nobody knows whether this is from before it.
            self.pages.drop_found(answer.url, held);
            return Ok(outcome);
        }
        let files: Vec<_> = made.files.iter().map(|path| (path.clone(), around.file(path))).collect();
        if files.iter().any(|(_, mark)| mark.is_some_and(|[changed, ..]| changed / 1_000_000 + SETTLED > answer.now)) {
            self.pages.drop_found(answer.url, held);
            return Ok(outcome);
        }
        let page = Page {
            url: answer.url.into(),
            template,
            content_type: answer.content_type.into(),
            read: Arc::new(made.read.clone()),
            keys: made.keys.clone(),
            files,
            readings: made.readings.clone(),
            kept: answer.ended,
            at: answer.now,
        };
        self.pages.keep(page, made.names.iter().cloned().collect(), held).map_err(|refusal| refused(&refusal))?;
        Ok(outcome)
    }

    /// What was counted, by route.
    pub fn routes(&self) -> impl Iterator<Item = (&str, &Route)> {
        self.routes.all()
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

struct Compared {
    outcome: Outcome,
    made: Made,
    tokens: usize,
    nonces: usize,
}

enum Outcome {
    Equal,
    Differs(Difference),
    Miss,
}

/// The page without what differs for each visitor.
fn cut(answer: &Answer, made: &Made) -> Result<Template, Refusal> {
    let nonce = answer.nonce.filter(|_| made.makes_nonce);
    if made.makes_nonce && nonce.is_none() {
        return Err(Refusal::new("makes a nonce that is not in its Content-Security-Policy"));
    }
    let template = Template::cut(answer.body, &Visitor { secret: made.secret.as_ref(), forms: &made.forms, nonce });
    if template.tokens() != made.tokens {
        let (minted, found) = (made.tokens, template.tokens());
        return Err(Refusal::new(format!("{minted} CSRF tokens were made for it, and {found} are found in it")));
    }
    Ok(template)
}

fn refused(refusal: &keys::Refusal) -> Refusal {
    Refusal::new(match refusal {
        keys::Refusal::TooManyNames => format!("depends on more than {} values of its request", keys::MAX_NAMES),
        keys::Refusal::TooManySets => "depends on other values of its request each time".to_owned(),
        keys::Refusal::ValuesTooLong => format!("depends on values of more than {} bytes", keys::MAX_VALUES),
        keys::Refusal::Unknown(name) => format!("depends on {}, whose value is not known", shown(name)),
    })
}
