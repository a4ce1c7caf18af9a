//! Which of several certificates a name gets (RFC 6066 section 3; wildcards as RFC 6125 section 6.4.3 has them).
//! It never refuses a name: the first certificate is for all others.

use std::collections::HashMap;

/// Things by host name; the first is the default.
#[derive(Debug)]
pub struct Names<T> {
    exact: HashMap<String, T>,
    /// `*.example.org` as `example.org`.
    wildcard: HashMap<String, T>,
    first: Option<T>,
}

impl<T: Clone> Names<T> {
    /// Of two that claim the same name the earlier has it.
    pub fn new(all: impl IntoIterator<Item = (Vec<String>, T)>) -> Names<T> {
        let mut names = Names { exact: HashMap::new(), wildcard: HashMap::new(), first: None };
        for (claimed, thing) in all {
            names.first.get_or_insert_with(|| thing.clone());
            for name in claimed {
                match name.strip_prefix("*.") {
                    Some(parent) => names.wildcard.entry(parent.to_owned()).or_insert_with(|| thing.clone()),
                    None => names.exact.entry(name).or_insert_with(|| thing.clone()),
                };
            }
        }
        names
    }

    /// For the name a client asks for, if it says any.
    pub fn find(&self, name: Option<&str>) -> Option<&T> {
        name.and_then(|name| self.named(name)).or(self.first.as_ref())
    }

    /// What claims this name, without the default.
    pub fn named(&self, name: &str) -> Option<&T> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let parent = || name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        self.exact.get(&name).or_else(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_their_certificates() {
        let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let names = Names::new([
            (list(&["a.test", "*.shop.test"]), 1),
            (list(&["www.shop.test", "a.test"]), 2),
            (list(&["*.test"]), 3),
        ]);
        for (asked, given) in [
            (Some("a.test"), 1),
            (Some("A.TEST."), 1),
            (Some("x.shop.test"), 1),
            (Some("www.shop.test"), 2),
            (Some("shop.test"), 3),
            (Some("x.y.shop.test"), 1),
            (Some("elsewhere.example"), 1),
            (Some(""), 1),
            (None, 1),
        ] {
            assert_eq!(names.find(asked), Some(&given), "{asked:?}");
        }
        assert_eq!(Names::<u8>::new([]).find(None), None);
        // One label only.
        assert_eq!(Names::new([(list(&["x"]), 1), (list(&["*.b.test"]), 2)]).find(Some("y.a.b.test")), Some(&1));
    }
}
