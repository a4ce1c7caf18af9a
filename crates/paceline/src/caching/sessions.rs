//! Visitors under an owner's rules: whose pages are whose, and that everybody sees what he has changed himself.
//! It never keeps a cookie's value, only hashes of it.

use std::{
    collections::HashSet,
    sync::{atomic::Ordering::Relaxed, Arc, Mutex, RwLock},
};

use cache::{
    store::How,
    stored::{Kept, UNSETTLED},
    stubborn::{cookies, sessions_set, Rule},
};
use http::{request, response, HeaderMap};

use super::{Cache, SiteCache};
use crate::{
    observe::log::Name,
    support::clock::{self, Micros},
};

/// Names of cookies by which the app has been seen to tell visitors apart: it keeps them from scripts.
#[derive(Default)]
pub struct Sessions {
    names: RwLock<Arc<Vec<String>>>,
    /// Paths of rules and names of cookies of which a warning was given.
    said: Mutex<HashSet<(String, String)>>,
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

    fn remember(&self, said: &[u8], lineage: u128, changed: Micros, settled: Micros) {
        let kept = Kept::Session { url: self.no_url.clone(), lineage, changed, settled: settled.into() };
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

    /// Says aloud, once, that a rule does not name the cookie by which the app knows its visitors.
    pub(super) fn warn_of_unnamed(&self, rule: &Rule, request: &HeaderMap) {
        let names = self.sessions.names();
        let unnamed =
            |name: &&String| !rule.cookies.contains(name) && cookies(request).any(|(sent, _)| sent == name.as_bytes());
        let mut said = self.sessions.said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for name in names.iter().filter(unnamed) {
            if said.insert((rule.path.clone(), name.clone())) {
                self.log.event(Name::Cache, format!(
                    "Warning: [[cache]] path = {:?} does not name the cookie {name:?}, which the app keeps from scripts as one keeps a \
                    session. Who has it is not answered by the rule. If these pages differ from visitor to visitor, add it to \
                    cookies.",
                    rule.path
                ));
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

    /// Whether the visitor has changed something and this is the first that he is shown since, which may be a notice that is shown
    /// once; or was asked for before that, and may be that in its place. `began`: when it was asked for.
    pub(super) fn may_be_shown_once(
        &self,
        rule: &Rule,
        request: &HeaderMap,
        response: &response::Parts,
        began: Micros,
    ) -> bool {
        let kept = self.cache.store.get(self.cache.keys.visitor(&rule.visitor(request)));
        let Some(Kept::Session { changed, settled, .. }) = kept.as_deref() else { return false };
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
