//! What is known of visitors' sessions: the digests of their values and the secret of their CSRF tokens, as the application told
//! them. Only of sessions that their cookie holds, so that the same cookie is always the same session. It keeps no cookie (its hash
//! is enough), has a bound, and reads no clock.

use std::collections::{BTreeMap, HashMap};

use ring::digest::{digest, SHA256};

use super::{cookie, made::Made, Around, Watch};
use crate::{holes::Secret, keys::Held, wire::Keeps};

/// Sessions of each of two halves: when one is full, the older one is forgotten.
const MAX_HALF: usize = 20_000;
/// Values of one session.
const MAX_VALUES: usize = 64;
/// What frameworks write into a session by themselves.
const OWN: [&str; 2] = ["session_id", "_csrf_token"];

/// A cookie that an answer sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetCookie<'a> {
    pub name: &'a str,
    pub value: &'a [u8],
    /// Unix milliseconds when it ends. None: with the browser.
    pub until: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Session {
    /// By name; of one that is absent the digest is empty.
    values: BTreeMap<String, String>,
    /// Others are absent.
    is_complete: bool,
    secret: Option<Secret>,
    /// Unix milliseconds. None: without an end.
    until: Option<u64>,
}

type Hash = [u8; 32];

#[derive(Debug, Default)]
pub struct Sessions {
    /// Of the session's cookie, as it was told last.
    cookie: Option<(String, Keeps)>,
    young: HashMap<Hash, Session>,
    old: HashMap<Hash, Session>,
}

/// A visitor's session, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct KnownSession<'a>(Option<&'a Session>);

/// Without a cookie there is no session.
static NONE: Session = Session { values: BTreeMap::new(), is_complete: true, secret: None, until: None };

impl KnownSession<'_> {
    pub fn held(&self, name: &str) -> Held {
        let Some(session) = self.0 else { return Held::Unknown };
        match session.values.get(name).map(String::as_str) {
            Some("") => Held::Absent,
            Some(digest) => Held::Present(digest.into()),
            None if session.is_complete && !OWN.contains(&name) => Held::Absent,
            None => Held::Unknown,
        }
    }

    pub fn secret(&self) -> Option<&Secret> {
        self.0?.secret.as_ref()
    }
}

impl Sessions {
    /// The name of the session's cookie.
    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_ref().map(|(name, _)| name.as_str())
    }

    /// Of the visitor who has this value of that cookie.
    pub fn of(&self, value: &Held, now: u64) -> KnownSession<'_> {
        match value {
            Held::Absent => KnownSession(Some(&NONE)),
            Held::Present(value) => {
                let hash = hash(value);
                let found = self.young.get(&hash).or_else(|| self.old.get(&hash));
                KnownSession(found.filter(|session| session.until.is_none_or(|until| now < until)))
            }
            Held::Unknown => KnownSession(None),
        }
    }

    pub fn forget(&mut self) {
        *self = Sessions::default();
    }

    /// An answer was made with this session, and did not change it but for its CSRF token. `asked`: what its request has of the
    /// cookie.
    pub fn learn(&mut self, made: &Made, asked: impl Fn(&str) -> Held, cookies: &[SetCookie], now: u64) {
        let Some((name, keeps)) = &made.session else { return };
        if self.cookie.as_ref().is_none_or(|known| *known != (name.clone(), *keeps)) {
            *self = Sessions { cookie: Some((name.clone(), *keeps)), ..Sessions::default() };
        }
        if *keeps == Keeps::Name {
            return;
        }
        let value = asked(name);
        let KnownSession(known) = self.of(&value, now);
        let mut session = known.cloned().unwrap_or_default();
        for (name, digest) in made.session_values() {
            if session.values.len() < MAX_VALUES {
                session.values.insert(name.to_owned(), digest.to_owned());
            }
        }
        let set = cookies.iter().rfind(|cookie| cookie.name == name);
        if let Held::Present(value) = &value {
            // The end of a session that has one stands in its cookie alone.
            let is_known =
                known.is_some() || *keeps == Keeps::Session && set.is_none_or(|cookie| cookie.until.is_none());
            if is_known {
                self.keep(hash(value), session.clone());
            }
        }
        let Some(set) = set.filter(|set| !set.value.is_empty()) else { return };
        if *keeps == Keeps::SessionUntil && set.until.is_none() {
            return;
        }
        // A token that was made for this answer is in the session from now on.
        session.secret = made.secret.or(session.secret);
        session.until = set.until;
        self.keep(hash(set.value), session);
    }

    fn keep(&mut self, hash: Hash, session: Session) {
        if self.young.len() >= MAX_HALF && !self.young.contains_key(&hash) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, session);
    }
}

/// What the record of an answer says of its request's session, which the application has not changed but for its CSRF token.
pub struct UnchangedSession(Made);

impl UnchangedSession {
    /// Whatever else the request did. It looks through all of the record: no lock need be held. None: nobody knows what the application has made of the session.
    pub fn of(record: &[u8]) -> Option<UnchangedSession> {
        Made::of_session(record).map(UnchangedSession)
    }
}

impl Watch {
    /// An answer of which no page is kept sets these cookies. Most frameworks give a session another cookie with each answer that has read it.
    pub fn learn_session(&mut self, session: &UnchangedSession, cookies: &[SetCookie], now: u64, around: &impl Around) {
        self.follow_session(&session.0, cookies, now, around);
    }

    pub(super) fn follow_session(&mut self, made: &Made, cookies: &[SetCookie], now: u64, around: &impl Around) {
        self.sessions.learn(made, |name| around.held(&cookie(name)), cookies, now);
        // One that is taken away is nobody's any more.
        for set in cookies.iter().filter(|set| made.is_of_session(set.name) && !set.value.is_empty()) {
            if let Held::Present(old) = around.held(&cookie(set.name)) {
                self.unnamed.was_renewed(set.name, &old, set.value);
            }
        }
    }
}

fn hash(value: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest(&SHA256, value).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::statements::Statements;

    fn made(fields: &[&str]) -> Made {
        let record: Vec<u8> = fields.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
        Made::of(&record, &mut Statements::default()).unwrap()
    }

    fn present(value: &str) -> Held {
        Held::Present(value.into())
    }

    fn user(keeps: &str, digest: &str) -> Made {
        made(&["C", "", "_s", keeps, "V", "", "session", "user_id", digest])
    }

    fn set(value: &'static str, until: Option<u64>) -> [SetCookie<'static>; 1] {
        [SetCookie { name: "_s", value: value.as_bytes(), until }]
    }

    #[test]
    fn a_cookie_is_known_by_what_was_read_of_it() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.of(&Held::Absent, 0).held("user_id"), Held::Absent);
        sessions.learn(&user("browser", "7"), |_| present("a"), &[], 0);
        assert_eq!(sessions.cookie(), Some("_s"));
        let ann = sessions.of(&present("a"), 0);
        assert_eq!((ann.held("user_id"), ann.held("theme"), ann.secret()), (present("7"), Held::Unknown, None));
        assert_eq!(sessions.of(&present("b"), 0).held("user_id"), Held::Unknown, "somebody else's");
        assert_eq!(sessions.of(&Held::Unknown, 0).held("user_id"), Held::Unknown);
        sessions.learn(&user("browser", "7"), |_| present("a"), &set("a2", None), 0);
        assert_eq!(sessions.of(&present("a2"), 0).held("user_id"), present("7"), "the same session by another name");
    }

    #[test]
    fn a_secret_belongs_to_the_cookie_that_was_set_with_it() {
        let mut sessions = Sessions::default();
        let page =
            made(&["C", "", "_s", "browser", "P", "", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=", "T", "", "", ""]);
        sessions.learn(&page, |_| Held::Absent, &set("a", None), 0);
        let visitor = sessions.of(&present("a"), 0);
        assert_eq!((visitor.secret(), visitor.held("user_id")), (Some(&[7; 32]), Held::Absent));
        assert_eq!(visitor.held("session_id"), Held::Unknown, "Rails has written it");
        // Whether the request's own cookie has it already is not known.
        sessions.learn(&page, |_| present("b"), &set("c", None), 0);
        assert_eq!(
            (sessions.of(&present("b"), 0).secret(), sessions.of(&present("c"), 0).secret()),
            (None, Some(&[7; 32]))
        );
        assert_eq!(sessions.of(&present("c"), 0).held("user_id"), Held::Unknown);
    }

    #[test]
    fn a_session_with_an_end_is_known_until_then() {
        let mut sessions = Sessions::default();
        sessions.learn(&user("expires", "7"), |_| present("a"), &set("b", Some(100)), 50);
        assert_eq!(sessions.of(&present("a"), 50).held("user_id"), Held::Unknown, "its end is not known");
        assert_eq!(sessions.of(&present("b"), 99).held("user_id"), present("7"));
        assert_eq!(sessions.of(&present("b"), 100).held("user_id"), Held::Unknown);
        sessions.learn(&user("expires", "7"), |_| present("b"), &[], 50);
        assert_eq!(sessions.of(&present("b"), 100).held("user_id"), Held::Unknown, "it has the end that it had");
    }

    #[test]
    fn a_session_that_the_application_keeps_is_not_known() {
        let mut sessions = Sessions::default();
        sessions.learn(&user("server", "7"), |_| present("a"), &set("a", None), 0);
        assert_eq!(sessions.of(&present("a"), 0).held("user_id"), Held::Unknown);
        assert_eq!(sessions.of(&Held::Absent, 0).held("user_id"), Held::Absent);
        // It moves into its cookie.
        sessions.learn(&user("browser", "7"), |_| present("a"), &[], 0);
        assert_eq!(sessions.of(&present("a"), 0).held("user_id"), present("7"));
    }

    #[test]
    fn there_is_a_bound() {
        let mut sessions = Sessions::default();
        for nth in 0..3 * MAX_HALF {
            sessions.learn(&user("browser", "7"), |_| present(&nth.to_string()), &[], 0);
        }
        assert!(sessions.young.len() + sessions.old.len() <= 2 * MAX_HALF);
        assert_eq!(sessions.of(&present("0"), 0).held("user_id"), Held::Unknown);
    }
}
