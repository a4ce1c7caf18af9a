//! Visitors under an owner's rules: whose pages are whose, and that everybody sees what he has changed himself.
//! It never keeps a cookie's value, only hashes of it.

use std::sync::{atomic::Ordering::Relaxed, Arc, RwLock};

use cache::{
    store::How,
    stored::Kept,
    stubborn::{cookies, sessions_set, Rule},
};
use http::{request, HeaderMap};

use super::{Cache, SiteCache};

/// Names of cookies by which the app has been seen to tell visitors apart: it keeps them from scripts.
#[derive(Default)]
pub struct Sessions {
    names: RwLock<Arc<Vec<String>>>,
}

/// More names than any app has.
const MOST_NAMES: usize = 64;

impl Sessions {
    pub fn names(&self) -> Arc<Vec<String>> {
        self.names.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Learns from a response.
    pub fn learn(&self, response: &HeaderMap) {
        let known = self.names();
        let new = |name: &&str| !known.iter().any(|known| known == name);
        if known.len() < MOST_NAMES && sessions_set(response).any(|name| new(&name)) {
            let mut names = self.names.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            let mut all = names.to_vec();
            all.extend(sessions_set(response).filter(new).map(str::to_owned));
            all.sort();
            all.dedup();
            *names = all.into();
        }
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
            Some(Kept::Session { lineage, .. }) => Visitor(Some(*lineage)),
            _ => Visitor(Some(key.0)),
        }
    }

    /// Whether the visitor has just changed something: what is shown to him next may be shown once (a notice), and is not to be
    /// kept. Says so once.
    pub fn settles(&self, rule: &Rule, request: &HeaderMap) -> bool {
        let kept = self.store.get(self.keys.visitor(&rule.visitor(request)));
        matches!(kept.as_deref(), Some(Kept::Session { settled, .. }) if !settled.swap(true, Relaxed))
    }

    fn remember(&self, said: &[u8], lineage: u128, settled: bool) {
        let kept = Kept::Session { url: self.no_url.clone(), lineage, settled: settled.into() };
        // One that finds no room is a visitor of its own: fewer hits, and nothing wrong.
        let _ = self.store.insert(self.keys.visitor(said), Arc::new(kept));
    }
}

impl SiteCache {
    /// The rule for a path.
    pub fn rule(&self, path: &str) -> Option<&Rule> {
        self.settings.rules.iter().find(|rule| rule.covers(path))
    }

    /// Whether the request brings a session's cookie that the rule does not name: then it is somebody's own.
    pub fn brings_unnamed_session(&self, rule: &Rule, request: &HeaderMap) -> bool {
        let names = self.sessions.names();
        !names.is_empty()
            && cookies(request).any(|(sent, _)| {
                names.iter().any(|name| name.as_bytes() == sent)
                    && !rule.cookies.iter().any(|named| named.as_bytes() == sent)
            })
    }

    /// A page was read: the session's new cookie stands for the same visitor.
    pub fn renewed(&self, rule: &Rule, visitor: Visitor, request: &HeaderMap, response: &HeaderMap) {
        if let (Some(lineage), Some(said)) = (visitor.0, rule.renewed_visitor(request, response)) {
            self.cache.remember(&said, lineage, true);
        }
    }

    /// Something was changed: what is kept for who changed it goes at once, and what is shown next is not kept.
    pub fn changed(&self, request: &request::Parts, response: &HeaderMap) {
        for rule in &self.settings.rules {
            let visitor = self.cache.visitor(rule, &request.headers);
            let Some(tag) = visitor.tag() else { continue };
            self.cache.store.purge_tag(&tag, How::Drop);
            match rule.renewed_visitor(&request.headers, response) {
                // Another session from now on, perhaps somebody else's (a login).
                Some(said) => self.cache.remember(&said, self.cache.keys.visitor(&said).0, false),
                None => self.cache.remember(&rule.visitor(&request.headers), visitor.0.unwrap_or_default(), false),
            }
        }
    }
}
