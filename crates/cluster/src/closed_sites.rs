//! The sites that are closed for maintenance on all fronts. What visitors are told is the front's own: here it is JSON
//! that nobody looks into. It never says whether a front has a site of that name.

use std::collections::BTreeMap;

use serde_json::{json, Value};

/// Bytes of JSON, at most: each front reads all of it when something has changed.
const MAX_BYTES: usize = 256 << 10;

/// Which sites are closed, with what visitors are told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClosedSites {
    /// All that have no entry of their own.
    all: Option<Value>,
    /// None: open although all are closed.
    named: BTreeMap<String, Option<Value>>,
}

impl ClosedSites {
    /// What visitors of this site are told. None: it is open.
    pub fn notice(&self, site: &str) -> Option<&Value> {
        match self.named.get(site) {
            Some(own) => own.as_ref(),
            None => self.all.as_ref(),
        }
    }

    /// Nothing is closed.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.named.is_empty()
    }

    /// Closes a site, or all of them, or opens it: `notice` is None. What is done to all counts for each, whatever was done
    /// to it before.
    pub fn turn(&mut self, site: Option<&str>, notice: Option<Value>) {
        match (site, notice) {
            (None, notice) => {
                self.named.clear();
                self.all = notice;
            }
            (Some(site), None) if self.all.is_none() => {
                self.named.remove(site);
            }
            (Some(site), notice) => {
                self.named.insert(site.to_owned(), notice);
            }
        }
    }

    /// For people: whether all are closed, and those that are closed, or open although all are closed, by name.
    pub fn shown(&self) -> Value {
        let named = |is_closed: bool| -> Vec<&String> {
            self.named.iter().filter(|(_, notice)| notice.is_some() == is_closed).map(|(site, _)| site).collect()
        };
        json!({ "all": self.all.is_some(), "sites": named(true), "open": named(false) })
    }

    /// It is too large to be shared.
    pub fn is_too_large(&self) -> bool {
        self.to_json().len() > MAX_BYTES
    }

    pub fn to_json(&self) -> String {
        json!({ "all": self.all, "sites": self.named }).to_string()
    }

    /// None: another version has written it, and nobody here knows what it says.
    pub fn from_json(text: &str) -> Option<ClosedSites> {
        let Value::Object(said) = serde_json::from_str(text).ok()? else { return None };
        if said.keys().any(|key| !["all", "sites"].contains(&key.as_str())) {
            return None;
        }
        let notice = |value: &Value| match value {
            Value::Null => Some(None),
            Value::Object(_) => Some(Some(value.clone())),
            _ => None,
        };
        let named = said.get("sites")?.as_object()?.iter();
        let named = named.map(|(site, value)| Some((site.clone(), notice(value)?)));
        Some(ClosedSites { all: notice(said.get("all")?)?, named: named.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(page: &str) -> Option<Value> {
        Some(json!({ "page": page }))
    }

    fn shown(closed: &ClosedSites, site: &str) -> Option<Value> {
        closed.notice(site).cloned()
    }

    #[test]
    fn one_site_or_all_are_closed() {
        let mut closed = ClosedSites::default();
        closed.turn(Some("shop"), notice("a"));
        assert_eq!((shown(&closed, "shop"), shown(&closed, "blog")), (notice("a"), None));
        closed.turn(None, notice("b"));
        assert_eq!((shown(&closed, "shop"), shown(&closed, "blog")), (notice("b"), notice("b")));
        closed.turn(Some("shop"), None);
        assert_eq!((shown(&closed, "shop"), shown(&closed, "blog")), (None, notice("b")));
        assert_eq!(closed.shown(), json!({ "all": true, "sites": [], "open": ["shop"] }));
        closed.turn(Some("shop"), notice("c"));
        assert_eq!((shown(&closed, "shop"), shown(&closed, "blog")), (notice("c"), notice("b")));
        closed.turn(None, None);
        assert!(closed.is_empty());
        closed.turn(Some("shop"), notice("a"));
        closed.turn(Some("shop"), None);
        assert!(closed.is_empty());
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let mut closed = ClosedSites::default();
        assert_eq!(ClosedSites::from_json(&closed.to_json()), Some(closed.clone()));
        closed.turn(None, notice("käse\n\u{1}\""));
        closed.turn(Some("shop \"1\""), None);
        closed.turn(Some("blog"), notice("x"));
        assert_eq!(ClosedSites::from_json(&closed.to_json()), Some(closed.clone()));
        for text in [
            "",
            "[]",
            "{}",
            r#"{"all": null}"#,
            r#"{"all": 1, "sites": {}}"#,
            r#"{"all": null, "sites": {"a": true}}"#,
            r#"{"all": null, "sites": {}, "hosts": {}}"#,
        ] {
            assert_eq!(ClosedSites::from_json(text), None, "{text}");
        }
        assert!(!closed.is_too_large());
        closed.turn(None, notice(&"x".repeat(MAX_BYTES)));
        assert!(closed.is_too_large());
    }
}
