//! Visitors under an owner's rules: whose pages are whose, and that everybody sees what he has changed himself.
//! It never keeps a cookie's value, only hashes of it.

use std::{
    collections::HashSet,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use cache::{
    cookies::{cookies, CookieKnowledge, MAX_NAMES},
    store::How,
    stored::{Entry, UNSETTLED},
    stubborn::Rule,
};
use http::{request, response, HeaderMap};
use parking_lot::Mutex;

use super::{
    advice,
    learned::{from_response, SiteCookies},
    Cache, SiteCache,
};
use crate::{
    observe::log::Name,
    support::clock::{self, Micros},
};

/// What is known of a site's cookies, and what was said of them.
pub struct Sessions {
    pub cookies: Arc<SiteCookies>,
    /// Paths of rules and names of cookies of which a warning was given.
    said: Mutex<HashSet<(String, String)>>,
}

impl Sessions {
    pub fn new(cookies: Arc<SiteCookies>) -> Sessions {
        Sessions { cookies, said: Mutex::default() }
    }
}

/// A visitor by a rule's cookies. Those whose session was only renewed since are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor(pub Option<u128>);

impl Visitor {
    /// What parts the keys of visitors.
    pub fn partition(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        if let Visitor(Some(lineage)) = self {
            bytes[0] = 1;
            bytes[1..].copy_from_slice(&lineage.to_be_bytes());
        }
        bytes
    }

    /// The tag of all that is kept for the visitor.
    pub fn tag(self) -> Option<Arc<str>> {
        self.0.map(|lineage| format!("\u{1}session {lineage:032x}").into())
    }
}

impl Cache {
    /// Who asks, by the rule's cookies.
    pub fn visitor(&self, rule: &Rule, request: &HeaderMap) -> Visitor {
        let said = rule.visitor(request);
        if said.is_empty() {
            return Visitor(None);
        }
        let key = self.keys.visitor(&said);
        match self.store.get(key).as_deref() {
            Some(Entry::Session { lineage, .. }) => Visitor(Some(*lineage)),
            _ => Visitor(Some(key.0)),
        }
    }

    fn remember(&self, said: &[u8], lineage: u128, changed: Micros, settled: Micros) {
        let kept = Entry::Session { url: self.no_url.clone(), lineage, changed, settled: settled.into() };
        // One that finds no room is a visitor of its own: fewer hits, and nothing wrong.
        let _ = self.store.insert(self.keys.visitor(said), Arc::new(kept));
    }
}

impl SiteCache {
    /// The rule for a path.
    pub fn rule(&self, path: &str) -> Option<&Rule> {
        self.settings.rules.get(self.patterns.first(path.as_bytes())?)
    }

    /// What was learned of the site's cookies.
    pub fn learned(&self) -> Arc<CookieKnowledge> {
        self.sessions.cookies.learned()
    }

    /// What the owner should know of the site's cookies.
    pub fn warnings(&self) -> Vec<String> {
        advice::warnings(&self.settings.rules, &self.learned())
    }

    /// Learns from a response.
    pub(super) fn learn(&self, response: &HeaderMap) {
        self.learn_more(from_response(response));
    }

    /// Learns that a page was stored for everybody with the cookies that it sets.
    pub(super) fn learn_stored(&self, response: &HeaderMap, path: &str) {
        self.learn_more(|known| known.after_storing(response, path));
    }

    fn learn_more(&self, more: impl Fn(&CookieKnowledge) -> Option<CookieKnowledge>) {
        let before = self.learned();
        if let Some(now) = self.cache.learn(&self.sessions.cookies, more) {
            let said = advice::warnings(&self.settings.rules, &before);
            for warning in advice::warnings(&self.settings.rules, &now).iter().filter(|line| !said.contains(line)) {
                self.log.event(Name::Cache, format!("Warning: {warning}."));
            }
        }
    }

    /// Says aloud, once, that a rule does not name the cookie by which the app knows its visitors, or may know them.
    pub(super) fn warn_of_unnamed(&self, rule: &Rule, request: &HeaderMap) {
        let learned = self.learned();
        let mut said = self.sessions.said.lock();
        let mut say_once = |name: &str, text: String| {
            // Names that visitors make up are not remembered.
            if said.len() < MAX_NAMES * 2 && said.insert((rule.path.clone(), name.to_owned())) {
                self.log.event(Name::Cache, format!("Warning: [[cache]] path = {:?} {text}", rule.path));
            }
        };
        let sent = |name: &&String| cookies(request).any(|(sent, _)| sent == name.as_bytes());
        for name in learned.http_only.iter().filter(|name| !rule.settles(name.as_bytes())).filter(sent) {
            let text = format!(
                "does not name the cookie {name:?}, which the app keeps from scripts as one keeps a session. Who has it is not \
                 answered by the rule. If these pages differ from visitor to visitor, add it to cookies; if no page depends on it, to \
                 ignore_cookies."
            );
            say_once(name, text);
        }
        let is_learned = |name: &[u8]| learned.http_only.iter().any(|known| known.as_bytes() == name);
        let unknown = rule.unknown_cookies(request).find(|name| !is_learned(name));
        if let Some(name) = unknown.filter(|_| rule.cookies.is_empty()) {
            let name = String::from_utf8_lossy(&name[..name.len().min(cache::cookies::MAX_NAME)]);
            let text = format!(
                "names no cookies, so visitors with a cookie that it does not know, like {name:?}, are not answered by it. If these \
                 pages differ by it, add it to cookies; if no page depends on it, to ignore_cookies."
            );
            say_once("", text);
        }
    }

    /// A page was read: the session's new cookie stands for the same visitor.
    pub fn renewed(&self, rule: &Rule, visitor: Visitor, request: &HeaderMap, response: &HeaderMap) {
        if let (Some(lineage), Some(said)) = (visitor.0, rule.renewed_visitor(request, response)) {
            self.cache.remember(&said, lineage, 0, 0);
        }
    }

    /// Something was changed: what is kept for who changed it goes at once, and what is shown next is not kept.
    pub fn changed(&self, request: &request::Parts, response: &HeaderMap) {
        let now = clock::now();
        for rule in &self.settings.rules {
            let visitor = self.cache.visitor(rule, &request.headers);
            if let Some(tag) = visitor.tag() {
                self.cache.store.purge_tag(&tag, How::Drop);
            }
            match (rule.visitor_after(&request.headers, response), visitor.0) {
                // Another session from now on, perhaps somebody else's (a login).
                (Some(said), _) => self.cache.remember(&said, self.cache.keys.visitor(&said).0, now, UNSETTLED),
                (None, Some(lineage)) => {
                    self.cache.remember(&rule.visitor(&request.headers), lineage, now, UNSETTLED);
                }
                (None, None) => {}
            }
        }
    }

    /// Whether the visitor has changed something and this is the first that he is shown since, which may be a notice
    /// that is shown once; or was asked for before that, and may be that in its place. `began`: when it was asked
    /// for.
    pub(super) fn may_be_shown_once(
        &self,
        rule: &Rule,
        request: &HeaderMap,
        response: &response::Parts,
        began: Micros,
    ) -> bool {
        let kept = self.cache.store.get(self.cache.keys.visitor(&rule.visitor(request)));
        let Some(Entry::Session { changed, settled, .. }) = kept.as_deref() else { return false };
        if began <= *changed {
            return true;
        }
        if matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308) && settled.load(Relaxed) == UNSETTLED {
            // The notice is shown where it leads to.
            if let Some(said) = rule.visitor_after(request, &response.headers) {
                self.cache.remember(&said, self.cache.keys.visitor(&said).0, *changed, UNSETTLED);
            }
            return true;
        }
        match settled.compare_exchange(UNSETTLED, clock::now(), Relaxed, Relaxed) {
            Ok(_) => true,
            Err(at) => began <= at,
        }
    }
}
