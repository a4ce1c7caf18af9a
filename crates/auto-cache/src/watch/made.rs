//! What one page was made of, by the record of its request; or why it can't be kept. It never looks at the page.

use std::collections::{BTreeMap, BTreeSet};

use base64::{engine::general_purpose::STANDARD, Engine};

use super::statements::Statements;
use crate::{
    effects::{Read, Rows},
    holes::Secret,
    keys::{Held, Name, Source},
    random_text::{RandomText, MAX_TEXTS},
    sql::literals::without_literals,
    wire::{self, Keeps, What},
};

/// Files that one page may have read: each is looked at when the page is shown.
const MAX_FILES: usize = 64;
/// Different things that one page has read, as people are shown them.
const MAX_READINGS: usize = 64;
/// Bytes of what people are shown of one.
const MAX_WORDS: usize = 200;

/// Something that a page has read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// `beers#id`, `cookie locale`.
    pub what: String,
    /// The line that read it, or empty.
    pub at: String,
}

/// Why a page can't be kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    pub why: String,
    /// The line of the application, or empty.
    pub at: String,
}

impl Refusal {
    pub fn new(why: impl Into<String>) -> Refusal {
        Refusal::at(why, "")
    }

    pub(super) fn at(why: impl Into<String>, at: &str) -> Refusal {
        Refusal { why: short(&why.into()), at: short(at) }
    }
}

/// Reasons that are told apart of one page.
const MAX_REFUSALS: usize = 16;

/// All that keeps one page out, up to a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    first: Refusal,
    more: Vec<Refusal>,
}

impl Refusals {
    /// None: there is none.
    pub fn of(refusals: impl IntoIterator<Item = Refusal>) -> Option<Refusals> {
        let mut refusals = refusals.into_iter();
        let mut all = Refusals::from(refusals.next()?);
        refusals.for_each(|refusal| all.add(refusal));
        Some(all)
    }

    fn add(&mut self, refusal: Refusal) {
        if self.more.len() + 1 < MAX_REFUSALS && self.all().all(|known| *known != refusal) {
            self.more.push(refusal);
        }
    }

    /// The one that came first.
    pub fn into_first(self) -> Refusal {
        self.first
    }

    pub fn all(&self) -> impl Iterator<Item = &Refusal> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl From<Refusal> for Refusals {
    fn from(first: Refusal) -> Refusals {
        Refusals { first, more: Vec::new() }
    }
}

#[derive(Debug, Default)]
pub struct Made {
    pub read: Read,
    /// What it varies by.
    pub names: BTreeSet<Name>,
    /// Of the values that the front can't see, their digests.
    digests: BTreeMap<Name, String>,
    /// Of Rails.cache.
    pub keys: BTreeSet<String>,
    pub files: BTreeSet<String>,
    pub forms: Vec<(String, String)>,
    /// CSRF tokens that were minted.
    pub tokens: usize,
    pub secret: Option<Secret>,
    /// The session's cookie, and what it is.
    pub session: Option<(String, Keeps)>,
    /// A Content-Security-Policy has made a nonce.
    pub makes_nonce: bool,
    /// Random texts, and the lines that made them.
    pub texts: Vec<(RandomText, String)>,
    pub readings: Vec<Reading>,
    /// Unix milliseconds: it looked at the clock, and what it saw is the same until then.
    pub good_until: Option<u64>,
}

impl Made {
    pub fn of(record: &[u8], statements: &mut Statements) -> Result<Made, Refusals> {
        let entries = wire::record(record).map_err(|_| Refusal::new("its record can't be read"))?;
        let mut made = Made::default();
        let add = |entry: &wire::Entry| made.add(&entry.what, &entry.place, statements).err();
        match Refusals::of(entries.iter().filter_map(add)) {
            Some(refusals) => Err(refusals),
            None => Ok(made),
        }
    }

    fn add(&mut self, what: &What, at: &str, statements: &mut Statements) -> Result<(), Refusal> {
        match what {
            What::Statement { sql, bound, generated } => {
                let ran = statements.run(sql, bound, generated.as_ref());
                if ran.writes {
                    return Err(Refusal::at(format!("writes: {}", without_literals(sql)), at));
                }
                if let Some(why) = ran.read.volatile {
                    return Err(Refusal::at(format!("reads {why} in SQL"), at));
                }
                if ran.read.everything {
                    self.read.everything = true;
                    self.note("the whole database", at);
                }
                for rows in ran.read.rows {
                    self.note(&words(&rows), at);
                    self.read.rows.push(rows);
                }
            }
            What::Value { name, digest } => self.value(name, digest, at)?,
            What::CacheKey(key) => {
                self.note(&format!("Rails.cache {key}"), at);
                self.keys.insert(key.clone());
            }
            What::File(path) => {
                self.note(&format!("file {path}"), at);
                self.files.insert(path.clone());
                if self.files.len() > MAX_FILES {
                    return Err(Refusal::at(format!("reads more than {MAX_FILES} files"), at));
                }
            }
            What::Outbound(url) => return Err(Refusal::at(format!("asks another server: {url}"), at)),
            // Rails' nonce is made by the application's initializer.
            What::Moment(_) | What::Random(_) if at.contains("content_security_policy") => self.makes_nonce = true,
            What::Random(text) => {
                self.texts.push((text.clone(), at.to_owned()));
                if self.texts.len() > MAX_TEXTS {
                    return Err(Refusal::at(format!("makes more than {MAX_TEXTS} random texts"), at));
                }
            }
            What::GoodUntil(time) => {
                self.note("the clock", at);
                self.good_until = Some(self.good_until.map_or(*time, |known| known.min(*time)));
            }
            What::Moment(what) => return Err(Refusal::at(format!("reads {what}"), at)),
            What::Token { path, method } => {
                self.tokens += 1;
                if !path.is_empty() {
                    self.forms.push((path.clone(), method.clone()));
                }
            }
            What::Secret(secret) => self.add_secret(secret)?,
            What::SessionCookie { name, keeps } => self.add_session(name, *keeps, at)?,
            What::Untracked(why) => return Err(Refusal::at(why.clone(), at)),
        }
        Ok(())
    }

    /// Of its session alone, whatever else keeps the page out. None: the application may have changed the session.
    pub fn of_session(record: &[u8]) -> Option<Made> {
        let mut made = Made::default();
        for entry in wire::record(record).ok()? {
            match &entry.what {
                // It may be that the session is written.
                What::Untracked(_) => return None,
                What::Value { name, digest } if name.source == Source::Session => made.value(name, digest, "").ok()?,
                What::Secret(secret) => made.add_secret(secret).ok()?,
                What::SessionCookie { name, keeps } => made.add_session(name, *keeps, "").ok()?,
                _ => {}
            }
        }
        made.session.is_some().then_some(made)
    }

    fn add_secret(&mut self, secret: &str) -> Result<(), Refusal> {
        let decoded = STANDARD.decode(secret).ok().and_then(|bytes| bytes.try_into().ok());
        self.secret = Some(decoded.ok_or_else(|| Refusal::new("the session's CSRF secret has another form"))?);
        Ok(())
    }

    fn add_session(&mut self, cookie: &str, keeps: Keeps, at: &str) -> Result<(), Refusal> {
        match &self.session {
            Some((known, kept)) if known != cookie || *kept != keeps => Err(Refusal::at("reads two sessions", at)),
            _ => {
                self.session = Some((cookie.to_owned(), keeps));
                Ok(())
            }
        }
    }

    fn value(&mut self, name: &Name, digest: &str, at: &str) -> Result<(), Refusal> {
        if is_hidden(name) {
            let known = self.digests.entry(name.clone()).or_insert_with(|| digest.to_owned());
            if known != digest {
                return Err(Refusal::at(format!("{} changes while the page is made", shown(name)), at));
            }
        }
        if !is_release(name) {
            self.note(&shown(name), at);
        }
        self.names.insert(name.clone());
        Ok(())
    }

    fn note(&mut self, what: &str, at: &str) {
        let what = short(what);
        if self.readings.len() < MAX_READINGS && !self.readings.iter().any(|known| known.what == what) {
            self.readings.push(Reading { what, at: short(at) });
        }
    }

    /// What its request has of a name: `seen` says so for what the front sees.
    pub fn held(&self, name: &Name, seen: impl Fn(&Name) -> Held) -> Held {
        if !is_hidden(name) {
            return seen(name);
        }
        match self.digests.get(name).map(String::as_str) {
            None => Held::Unknown,
            Some("") => Held::Absent,
            Some(digest) => Held::Present(digest.into()),
        }
    }

    /// Whether this cookie is the one by which its session is known.
    pub fn is_of_session(&self, cookie: &str) -> bool {
        self.session.as_ref().is_some_and(|(name, _)| name == cookie)
    }

    /// Rails has taken the format of the page from the request.
    pub fn reads_format(&self) -> bool {
        self.names.iter().any(|name| name.source == Source::Request && name.name == "accept")
    }

    /// Values of the session, by their digests.
    pub fn session_values(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.digests.iter().filter(|(name, _)| name.source == Source::Session);
        own.map(|(name, digest)| (name.name.as_str(), digest.as_str()))
    }
}

/// The worker alone knows its value: the session's, and which load of the code has answered.
fn is_hidden(name: &Name) -> bool {
    name.source == Source::Session || is_release(name)
}

/// Which load of the code it was. Every page depends on it, so nobody is told.
pub fn is_release(name: &Name) -> bool {
    name.source == Source::Request && name.name == "release"
}

/// A name for people: `cookie locale`.
pub fn shown(name: &Name) -> String {
    let source = match name.source {
        Source::Cookie => "cookie ",
        Source::Header => "header ",
        Source::Parameter => "parameter ",
        Source::Query => "query ",
        Source::Session => "session.",
        Source::Request => "request.",
    };
    format!("{source}{}", name.name)
}

/// `beers#id`, or `beers` if any of its rows count.
fn words(rows: &Rows) -> String {
    let columns: Vec<_> = rows.conditions.iter().map(|(column, _)| column.as_str()).collect();
    if columns.is_empty() {
        rows.table.clone()
    } else {
        format!("{}#{}", rows.table, columns.join("+"))
    }
}

pub fn short(text: &str) -> String {
    let text: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX_WORDS + 1).collect();
    if text.chars().count() > MAX_WORDS {
        text.chars().take(MAX_WORDS - 1).chain(['…']).collect()
    } else {
        text
    }
}
