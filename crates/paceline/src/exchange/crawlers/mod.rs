//! Which requests are crawlers': by what they say of themselves, and by what an address does. It never says what is done
//! with them, and refuses nothing.
//!
//! Reading order: `Crawlers` (all that is known of a site's), `names` (the user agent), `conduct` (what an address does),
//! `verification` and `resolver` (whether an address belongs to those it says).

mod conduct;
pub mod names;
mod resolver;
mod verification;

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::Arc,
};

use http::{header, request::Parts, HeaderMap, Method};

use self::{conduct::Conduct, resolver::SystemNames, verification::Verification};

/// Seconds since any fixed moment.
type Seconds = u64;

/// How a site recognizes crawlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// An address that asks for more different pages in a minute is a crawler's. None: whatever it does.
    pub pages: Option<u32>,
    /// Crawlers whose address has a name in one of these domains count as visitors.
    pub verified: Vec<String>,
}

/// Why a request counts as a crawler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It says so.
    Name,
    Behaviour,
}

impl Sign {
    pub fn as_str(self) -> &'static str {
        match self {
            Sign::Name => "name",
            Sign::Behaviour => "behaviour",
        }
    }
}

/// A crawler's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crawler {
    pub sign: Sign,
    /// It asks for a list of pages (a sitemap, a feed), which spares many other requests: it is not to be refused soon.
    pub is_patient: bool,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// None: a visitor's.
    pub crawler: Option<Crawler>,
    /// What it asks for, if that is to be noted when it is answered.
    pub page: Option<u64>,
}

/// The crawlers of a site.
pub struct Crawlers {
    conduct: Option<Conduct>,
    verification: Option<Verification>,
    hashes: RandomState,
}

impl Crawlers {
    pub fn new(settings: &Settings) -> Crawlers {
        let verified = &settings.verified;
        Crawlers {
            conduct: settings.pages.map(Conduct::new),
            verification: (!verified.is_empty()).then(|| Verification::new(verified, Arc::new(SystemNames))),
            hashes: RandomState::new(),
        }
    }

    /// Whose request it is, as far as is known now.
    pub fn judge(&self, address: Option<IpAddr>, head: &Parts, now: Seconds) -> Verdict {
        let path = head.uri.path();
        // Who writes to the site (a web hook) is no crawler; and a crawler that gets no robots.txt asks for anything, or nothing.
        if ![Method::GET, Method::HEAD].contains(&head.method) || is_for_crawlers(path) {
            return Verdict::default();
        }
        let is_patient = is_list(path);
        let crawler = |sign| Some(Crawler { sign, is_patient });
        let signs = PersonalSigns::of(&head.headers);
        let says = || head.headers.get(header::USER_AGENT).is_some_and(|agent| names::is_crawler(agent.as_bytes()));
        if !signs.are_certain() && says() {
            let is_verified = self
                .verification
                .as_ref()
                .zip(address)
                .is_some_and(|(verification, address)| verification.is_verified(address, now));
            return Verdict { crawler: crawler(Sign::Name).filter(|_| !is_verified), page: None };
        }
        let Some((conduct, address)) = self.conduct.as_ref().zip(address) else { return Verdict::default() };
        if signs.are_any() {
            conduct.person(address, now);
            return Verdict::default();
        }
        let page = Some(self.hashes.hash_one(&head.uri));
        let sign = conduct.is_crawler(address, now).then_some(Sign::Behaviour);
        Verdict { crawler: sign.and_then(crawler), page }
    }

    /// A request for this page was answered, by a response with these fields.
    pub fn note(&self, address: Option<IpAddr>, verdict: Verdict, fields: &HeaderMap, now: Seconds) {
        let (Some(conduct), Some(address), Some(page)) = (&self.conduct, address, verdict.page) else { return };
        match content_of(fields) {
            Content::Asset => conduct.person(address, now),
            Content::Page => conduct.page(address, page, now),
            // What is refused goes on counting, whatever it gets.
            Content::Other if verdict.crawler.is_some() => conduct.page(address, page, now),
            Content::Other => {}
        }
    }
}

/// Fields of a request by which browsers and programs with an account are known.
#[derive(Debug, Clone, Copy)]
struct PersonalSigns {
    cookie: bool,
    /// Browsers send these over https; a script that names itself does not.
    fetch_metadata: bool,
    authorization: bool,
}

impl PersonalSigns {
    fn of(fields: &HeaderMap) -> PersonalSigns {
        PersonalSigns {
            cookie: fields.contains_key(header::COOKIE),
            fetch_metadata: fields.contains_key("sec-fetch-mode"),
            authorization: fields.contains_key(header::AUTHORIZATION),
        }
    }

    /// Enough that a user agent which sounds like a crawler's is none.
    fn are_certain(self) -> bool {
        self.authorization || self.cookie && self.fetch_metadata
    }

    fn are_any(self) -> bool {
        self.authorization || self.cookie || self.fetch_metadata
    }
}

enum Content {
    Page,
    /// What browsers fetch beside a page.
    Asset,
    Other,
}

fn content_of(fields: &HeaderMap) -> Content {
    let value = fields.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let begins = |word: &str| value.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()));
    const ASSETS: [&str; 6] =
        ["text/css", "text/javascript", "application/javascript", "image/", "font/", "application/font"];
    if ASSETS.into_iter().any(begins) {
        Content::Asset
    } else if begins("text/html") || begins("application/xhtml") {
        Content::Page
    } else {
        Content::Other
    }
}

/// What is there for crawlers alone, and keeps them from other pages.
fn is_for_crawlers(path: &str) -> bool {
    path == "/robots.txt" || path.starts_with("/.well-known/")
}

/// A sitemap or a feed: a list of what has changed.
fn is_list(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let (stem, extension) = plain.rsplit_once('.').unwrap_or((plain, ""));
    match extension {
        "rss" | "atom" => true,
        "xml" | "txt" => stem.starts_with("sitemap") || ["feed", "rss", "atom"].contains(&stem),
        "" => ["feed", "rss", "atom"].contains(&stem),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
