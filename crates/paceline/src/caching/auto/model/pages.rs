//! The pages of the model's application: what each shows of the database, of Rails.cache and of its visitor, and the record that a
//! worker makes of it. The same code shows what a page has to be at some moment. It knows nothing of what the front keeps.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use base64::{
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    Engine,
};
use ring::hmac;

use super::{
    chance::Chance,
    database::{fields, Dialect, Read, State, PARTS, ROWS},
};

/// Keys of Rails.cache.
pub const KEYS: i64 = 2;
/// The session's cookie.
pub const COOKIE: &str = "_s";
/// Where tokens and the nonce are, as the oracle shows them.
const TOKEN: &str = "[token]";
const FORM: &str = "[form]";
const NONCE: &str = "[nonce]";
/// What the tokens are signed for.
const OF_ALL_FORMS: &str = "!real_csrf_token";
const OF_ONE_FORM: &str = "/rows#post";

pub type Secret = [u8; 32];

/// What a visitor's session holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    pub user: Option<i64>,
    pub theme: Option<i64>,
    pub secret: Option<Secret>,
}

/// How the application keeps sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    Browser,
    Expires,
    Server,
}

impl Keeps {
    fn as_str(self) -> &'static str {
        match self {
            Keeps::Browser => "browser",
            Keeps::Expires => "expires",
            Keeps::Server => "server",
        }
    }
}

/// What a page shows of its visitor, and of the code that answers.
#[derive(Debug, Clone)]
pub struct Facts {
    pub release: String,
    pub session: Session,
    pub locale: Option<&'static str>,
    pub tenant: Option<&'static str>,
    pub address: Ipv4Addr,
}

/// What is read for a page, one after the other.
#[derive(Debug, Clone, Copy)]
enum Part {
    Rows(Read),
    /// The row whose number is the value of the row before.
    Next,
    /// The user who has signed in.
    User,
    Theme,
    CacheKey(i64),
    Locale,
    Tenant,
    Address,
    Token,
    Form,
    Nonce,
    /// Something that keeps the page out, and changes nothing of the session.
    Moment,
    /// Somebody signs in, by a link.
    SignsIn,
}

const NAMES: [&str; 17] = [
    "row", "all", "part", "count", "parts", "chain", "pair", "me", "form", "locale", "nonce", "cached", "address",
    "tenant", "theme", "moment", "link",
];
/// Of these the last ones can't be kept, and give a session another cookie. They are asked for where that matters.
const KEPT: usize = 15;

/// As the front calls the route of all pages: together they have soon proved to be right.
pub const ROUTE: &str = "GET /pages/*";

/// The routes, where each kind of page has its own.
pub fn own_routes() -> impl Iterator<Item = String> {
    NAMES[..KEPT].iter().map(|name| format!("GET /{name}/*"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    kind: usize,
    id: i64,
}

/// What an application is at some moment, for one request.
pub struct Sight<'a> {
    pub state: &'a State,
    pub cache: &'a BTreeMap<i64, i64>,
    pub facts: &'a Facts,
}

/// A page that is being made.
#[derive(Debug, Default)]
pub struct Making {
    at: usize,
    last: i64,
    text: String,
    pub record: Vec<u8>,
    forgets: Forgets,
}

/// What a worker leaves out of what a page was made of: a defect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forgets {
    #[default]
    Nothing,
    Session,
    Cookies,
    Tokens,
    SessionWrites,
}

impl Page {
    pub fn by_chance(chance: &mut Chance) -> Page {
        let kind = chance.below(KEPT);
        let id = match NAMES[kind] {
            "all" | "parts" | "me" | "nonce" | "theme" | "address" => 1,
            "part" | "count" => chance.id(PARTS),
            "cached" => chance.id(KEYS),
            "row" | "chain" => chance.id(ROWS),
            _ => chance.id(2),
        };
        Page { kind, id }
    }

    /// One that two visitors may be shown: for all, by the session, by a cookie, with tokens.
    pub fn of_visitors(chance: &mut Chance) -> Page {
        let name = chance.pick(&["row", "me", "form", "locale", "nonce", "tenant", "theme", "address"]);
        let kind = NAMES.iter().position(|own| *own == name).unwrap();
        Page { kind, id: 1 }
    }

    /// One that gives a session another cookie, and is never kept.
    pub fn that_renews(chance: &mut Chance) -> Page {
        Page { kind: KEPT + chance.below(NAMES.len() - KEPT), id: 1 }
    }

    pub fn renews(self) -> bool {
        self.kind >= KEPT
    }

    pub fn signs_in(self) -> bool {
        NAMES[self.kind] == "link"
    }

    /// `own_route`: each kind has a route of its own.
    pub fn path(self, own_route: bool) -> String {
        if own_route {
            format!("/{}/{}", NAMES[self.kind], self.id)
        } else {
            format!("/pages/{}", self.kind * 10 + usize::try_from(self.id).unwrap())
        }
    }

    /// For people.
    pub fn name(self) -> String {
        format!("{} {}", NAMES[self.kind], self.id)
    }

    pub fn varies_by_tenant(self) -> bool {
        NAMES[self.kind] == "tenant"
    }

    fn parts(self) -> Vec<Part> {
        let id = self.id;
        let row = Part::Rows(Read::Row(id));
        match NAMES[self.kind] {
            "row" => vec![row],
            "all" => vec![Part::Rows(Read::All)],
            "part" => vec![Part::Rows(Read::Part(id - 1))],
            "count" => vec![Part::Rows(Read::Count(id - 1))],
            "parts" => vec![Part::Rows(Read::Parts)],
            "chain" => vec![row, Part::Next, Part::Next],
            "pair" => vec![Part::Rows(Read::Pair(id, id + 3)), Part::Rows(Read::Count(0))],
            "me" => vec![Part::User, row],
            "form" => vec![row, Part::Token, Part::Form],
            "locale" => vec![Part::Locale, row],
            "nonce" => vec![Part::Nonce, row],
            "cached" => vec![Part::CacheKey(id), row],
            "address" => vec![Part::Address, Part::Rows(Read::Count(1))],
            "tenant" => vec![Part::Tenant, row],
            "moment" => vec![Part::User, Part::Moment],
            "link" => vec![Part::User, Part::SignsIn],
            _ => vec![Part::Theme, Part::Token, Part::Rows(Read::Parts)],
        }
    }

    pub fn has_tokens(self) -> bool {
        self.parts().iter().any(|part| matches!(part, Part::Token | Part::Form))
    }

    pub fn has_nonce(self) -> bool {
        self.parts().iter().any(|part| matches!(part, Part::Nonce))
    }

    /// It differs between visitors.
    pub fn is_private(self) -> bool {
        self.reads_session() || ["locale", "nonce", "address"].contains(&NAMES[self.kind])
    }

    pub fn reads_session(self) -> bool {
        self.has_tokens() || self.parts().iter().any(|part| matches!(part, Part::User | Part::Theme))
    }

    /// What it has to be at this moment, with marks where its tokens are.
    pub fn expected(self, sight: &Sight) -> String {
        let mut making = Making::begin(sight.facts, Forgets::Nothing);
        while making.go_on(self, sight, Dialect::Sqlite, Keeps::Browser) {}
        making.text
    }
}

impl Making {
    pub fn begin(facts: &Facts, forgets: Forgets) -> Making {
        Making {
            forgets,
            text: format!("{}:", facts.release),
            record: fields(&["V", "", "request", "release", &facts.release]),
            ..Making::default()
        }
    }

    /// Reads the next part. False: there is none.
    pub fn go_on(&mut self, page: Page, sight: &Sight, dialect: Dialect, keeps: Keeps) -> bool {
        let Some(part) = page.parts().get(self.at).copied() else { return false };
        self.at += 1;
        let facts = sight.facts;
        let shown = match part {
            Part::Rows(read) => self.rows(read, sight.state, dialect),
            Part::Next => self.rows(Read::Row(1 + self.last.rem_euclid(ROWS)), sight.state, dialect),
            Part::User => {
                let user = self.session("user_id", facts.session.user, keeps);
                let name = facts.session.user.map(|user| self.rows(Read::User(user), sight.state, dialect));
                format!("{user} {}", name.unwrap_or_default())
            }
            Part::Theme => self.session("theme", facts.session.theme, keeps),
            Part::CacheKey(key) => {
                self.record.extend(fields(&["K", "", &format!("key{key}")]));
                format!("{:?}", sight.cache.get(&key))
            }
            Part::Locale => {
                self.value("cookie", "locale");
                format!("{:?}", facts.locale)
            }
            // Its Vary says so.
            Part::Tenant => format!("{:?}", facts.tenant),
            Part::Address => {
                self.value("request", "address");
                facts.address.to_string()
            }
            Part::Token => {
                self.token("", "", keeps);
                format!("\"{TOKEN}\"")
            }
            Part::Form => {
                self.token("/rows", "post", keeps);
                format!("\"{FORM}\"")
            }
            Part::Nonce => {
                self.record.extend(fields(&["M", "config/initializers/content_security_policy.rb:7", "SecureRandom"]));
                format!("\"{NONCE}\"")
            }
            Part::Moment => {
                self.record.extend(fields(&["M", "app/views/pages/moment.rb:7", "Time.now"]));
                String::new()
            }
            Part::SignsIn => {
                if self.forgets != Forgets::SessionWrites {
                    self.record.extend(fields(&["U", "", "writes the session"]));
                }
                // Otherwise it could be kept.
                self.record.extend(fields(&["M", "app/controllers/links.rb:7", "Time.now"]));
                String::new()
            }
        };
        self.text.push_str(&shown);
        self.text.push(';');
        true
    }

    fn rows(&mut self, read: Read, state: &State, dialect: Dialect) -> String {
        self.record.extend(read.entry(dialect));
        let (shown, last) = read.result(state);
        self.last = last;
        shown
    }

    fn value(&mut self, source: &str, name: &str) {
        if self.forgets != Forgets::Cookies || source != "cookie" {
            self.record.extend(fields(&["V", "", source, name, ""]));
        }
    }

    fn token(&mut self, path: &str, method: &str, keeps: Keeps) {
        if self.tells_tokens() {
            self.record.extend(fields(&["C", "", COOKIE, keeps.as_str(), "T", "", path, method]));
        }
    }

    pub fn tells_tokens(&self) -> bool {
        self.forgets != Forgets::Tokens
    }

    fn session(&mut self, name: &str, value: Option<i64>, keeps: Keeps) -> String {
        let digest = value.map_or_else(String::new, |value| format!("digest-{value}"));
        if self.forgets != Forgets::Session {
            self.record.extend(fields(&["C", "", COOKIE, keeps.as_str(), "V", "", "session", name, &digest]));
        }
        format!("{value:?}")
    }

    /// The page as the application sends it. `secret`: of the session in which it was made.
    pub fn body(&self, secret: Option<&Secret>, nonce: &str, chance: &mut Chance) -> String {
        let mut body = self.text.replace(NONCE, nonce);
        for (mark, message) in [(TOKEN, OF_ALL_FORMS), (FORM, OF_ONE_FORM)] {
            if let Some(secret) = secret.filter(|_| body.contains(mark)) {
                body = body.replace(mark, &masked(secret, message, chance));
            }
        }
        body
    }
}

/// A session's token, as Rails writes it.
fn masked(secret: &Secret, message: &str, chance: &mut Chance) -> String {
    let pad = chance.bytes();
    let token = sign(secret, message);
    let both: Vec<u8> = pad.iter().copied().chain(pad.iter().zip(token).map(|(pad, byte)| pad ^ byte)).collect();
    URL_SAFE_NO_PAD.encode(both)
}

fn sign(secret: &Secret, message: &str) -> Secret {
    let mut token = Secret::default();
    token.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes()).as_ref());
    token
}

pub fn nonce(chance: &mut Chance) -> String {
    STANDARD.encode(&chance.bytes()[..16])
}

/// A body with marks in place of this session's tokens and this nonce. Tokens of another session stay.
pub fn marked(body: &str, secret: Option<&Secret>, nonce: Option<&str>) -> String {
    let pieces = body.split('"').map(|piece| match (kind_of(piece, secret), nonce) {
        (Some(mark), _) => mark,
        (None, Some(nonce)) if piece == nonce => NONCE,
        _ => piece,
    });
    pieces.collect::<Vec<_>>().join("\"")
}

fn kind_of(token: &str, secret: Option<&Secret>) -> Option<&'static str> {
    let both = URL_SAFE_NO_PAD.decode(token).ok().filter(|both| both.len() == 64)?;
    let own: Vec<u8> = both[..32].iter().zip(&both[32..]).map(|(pad, byte)| pad ^ byte).collect();
    let is_of = |message: &str| secret.is_some_and(|secret| own == sign(secret, message));
    [(TOKEN, OF_ALL_FORMS), (FORM, OF_ONE_FORM)].into_iter().find(|(_, message)| is_of(message)).map(|(mark, _)| mark)
}

/// A browser of the model.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The value of the session's cookie.
    pub cookie: Option<String>,
    pub locale: Option<&'static str>,
    pub tenant: Option<&'static str>,
    pub address: Ipv4Addr,
}

impl Visitor {
    pub fn new(number: u8) -> Visitor {
        // Two of them come from one address.
        Visitor { cookie: None, locale: None, tenant: None, address: Ipv4Addr::new(192, 0, 2, number / 2 + 1) }
    }

    pub fn ip(&self) -> IpAddr {
        IpAddr::V4(self.address)
    }

    /// Its Cookie field.
    pub fn cookies(&self) -> Option<String> {
        let session = self.cookie.as_ref().map(|value| format!("{COOKIE}={value}"));
        let locale = self.locale.map(|locale| format!("locale={locale}"));
        let pairs: Vec<String> = session.into_iter().chain(locale).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// All sessions, by the value of their cookie.
#[derive(Debug, Default)]
pub struct Sessions {
    kept: BTreeMap<String, Session>,
}

impl Sessions {
    pub fn of(&self, cookie: Option<&String>) -> Session {
        cookie.and_then(|cookie| self.kept.get(cookie)).cloned().unwrap_or_default()
    }

    /// Under a new cookie.
    pub fn keep(&mut self, session: Session) -> String {
        let cookie = format!("s{}", self.kept.len());
        self.kept.insert(cookie.clone(), session);
        cookie
    }

    /// Under the cookie that it has: what a store on the server does.
    pub fn change(&mut self, cookie: &str, session: Session) {
        self.kept.insert(cookie.to_owned(), session);
    }
}
