//! What an entry of the journal says: a purge, as one front tells it to the others.
//! It never fails to read one: an order that this version does not know purges everything.

use std::sync::Arc;

use serde_json::{json, Value};

use crate::Position;

/// What is purged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// All variants of one URL.
    Url(String),
    Tag(String),
    /// All whose URL begins so.
    Prefix(String),
    All,
}

/// A purge.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    pub what: What,
    /// Pages become stale, and stay.
    pub soft: bool,
}

impl Order {
    /// What is always enough.
    pub const ALL: Order = Order { what: What::All, soft: false };

    pub fn to_json(&self) -> String {
        let (what, which) = match &self.what {
            What::Url(url) => ("url", url.as_str()),
            What::Tag(tag) => ("tag", tag.as_str()),
            What::Prefix(prefix) => ("prefix", prefix.as_str()),
            What::All => ("all", ""),
        };
        json!({ "what": what, "which": which, "soft": self.soft }).to_string()
    }

    /// Whether it purges a page of this URL with these tags.
    pub fn covers(&self, url: &str, tags: &[Arc<str>]) -> bool {
        match &self.what {
            What::Url(purged) => purged == url,
            What::Tag(purged) => tags.iter().any(|tag| **tag == **purged),
            What::Prefix(prefix) => url.starts_with(&**prefix),
            What::All => true,
        }
    }

    /// Reads an order of any version. One that can't be read, or has a key that this version does not know, may mean
    /// anything: it purges everything.
    pub fn from_json(text: &str) -> Order {
        Order::read(text).unwrap_or(Order::ALL)
    }

    fn read(text: &str) -> Option<Order> {
        let Value::Object(said) = serde_json::from_str(text).ok()? else { return None };
        if said.keys().any(|key| !["what", "which", "soft"].contains(&key.as_str())) {
            return None;
        }
        let which = || said.get("which")?.as_str().map(str::to_owned);
        let what = match said.get("what")?.as_str()? {
            "url" => What::Url(which()?),
            "tag" => What::Tag(which()?),
            "prefix" => What::Prefix(which()?),
            "all" => What::All,
            _ => return None,
        };
        Some(Order { what, soft: said.get("soft")?.as_bool()? })
    }
}

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The position after it.
    pub at: Position,
    /// The mark of the entry before it.
    pub previous: String,
    /// The front that wrote it.
    pub from: String,
    pub order: Order,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let tricky = "https://shop.test/käse?a=\"b\"\n\u{1}";
        for what in [What::Url(tricky.into()), What::Tag(tricky.into()), What::Prefix(tricky.into()), What::All] {
            for soft in [false, true] {
                let order = Order { what: what.clone(), soft };
                assert_eq!(Order::from_json(&order.to_json()), order);
            }
        }
    }

    #[test]
    fn an_order_covers_what_it_purges() {
        let tags: [Arc<str>; 2] = ["http://h a".into(), "http://h b".into()];
        for (what, covers) in [
            (What::Url("http://h/a?b".into()), true),
            (What::Url("http://h/a".into()), false),
            (What::Tag("http://h b".into()), true),
            (What::Tag("http://h".into()), false),
            (What::Tag("http://h/a?b".into()), false),
            (What::Prefix("http://h/a".into()), true),
            (What::Prefix("http://h/a?b&".into()), false),
            (What::All, true),
        ] {
            let order = Order { what, soft: false };
            assert_eq!(order.covers("http://h/a?b", &tags), covers, "{order:?}");
        }
    }

    #[test]
    fn an_order_that_is_not_known_purges_everything() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"what": "url", "soft": false}"#,
            r#"{"what": "url", "which": 5, "soft": false}"#,
            r#"{"what": "url", "which": "http://a/"}"#,
            r#"{"what": "visitor", "which": "1", "soft": false}"#,
            r#"{"what": "url", "which": "http://a/", "soft": true, "also": "http://b/"}"#,
        ] {
            assert_eq!(Order::from_json(text), Order::ALL, "{text}");
        }
    }
}
