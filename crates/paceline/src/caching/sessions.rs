//! Visitors under an owner's rules: whose pages are whose, and that everybody sees what he has changed himself.
//! It never keeps a cookie's value, only hashes of it.

use std::{
    collections::{HashMap, HashSet},
    sync::{atomic::Ordering::Relaxed, Arc},
};

use cache::{
    store::How,
    stored::{Entry, UNSETTLED},
    stubborn::Rule,
};
use http::{request, response, HeaderMap};
use parking_lot::Mutex;

use super::{Cache, SiteCache};
use crate::{
    observe::log::Name,
    support::clock::{self, Micros},
};

/// Bytes of a cookie's name in a warning, and warnings of a rule: names are what visitors send.
const MAX_NAME: usize = 128;
const MAX_WARNINGS: usize = 8;

/// Of which cookies a warning was given, by the path of the rule.
#[derive(Default)]
pub struct Warned(Mutex<HashMap<String, HashSet<String>>>);

impl Warned {
    /// Whether it is the first time, and there is room for one more.
    fn is_first(&self, rule: &Rule, name: &str) -> bool {
        let mut warned = self.0.lock();
        let names = warned.entry(rule.path.clone()).or_default();
        names.len() < MAX_WARNINGS && names.insert(name.to_owned())
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

    /// Says, once for each of the first cookies, that the rule says nothing of one, so that nobody who has it is answered.
    pub(super) fn warn_of_unnamed(&self, rule: &Rule, request: &HeaderMap) {
        for name in rule.unknown_cookies(request) {
            let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
            if self.warned.is_first(rule, &name) {
                self.log.event(
                    Name::Cache,
                    format!(
                        "Warning: [[cache]] path = {:?} does not name the cookie {name:?}: requests that send it bypass the rule. If these \
                         pages differ by it, add it to cookies; if no page depends on it, to ignore_cookies.",
                        rule.path
                    ),
                );
            }
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
