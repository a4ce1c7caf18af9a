//! An ordered index from a name (a URL, a tag) to the keys of the objects that have it: a purge walks over what it
//! drops and over nothing else. It holds names and keys, never objects.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use super::Key;

/// Bytes that one name of one object takes in the tree's nodes: eleven places of 32 bytes in a leaf of 384, between six
/// (names that come in order) and eight (at random) of them used, and the inner nodes.
pub(super) const NAME: u64 = 64;

type Entry = (Arc<str>, Key);

#[derive(Default)]
pub(super) struct Names(BTreeSet<Entry>);

/// What a walk looks for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Match {
    Exact,
    Prefix,
}

impl Names {
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64 * NAME
    }

    pub fn add(&mut self, name: &Arc<str>, key: Key) {
        self.0.insert((name.clone(), key));
    }

    pub fn remove(&mut self, name: &Arc<str>, key: Key) {
        self.0.remove(&(name.clone(), key));
    }

    /// Up to `most` entries that match, in order, from the one after `last` on.
    pub fn slice(&self, name: &Arc<str>, how: Match, last: Option<&Entry>, most: usize) -> Vec<Entry> {
        let start = match last {
            Some(last) => Bound::Excluded(last.clone()),
            None => Bound::Included((name.clone(), Key(0))),
        };
        let matches = |found: &&Entry| match how {
            Match::Exact => found.0 == *name,
            Match::Prefix => found.0.starts_with(&**name),
        };
        self.0.range((start, Bound::Unbounded)).take_while(matches).take(most).cloned().collect()
    }

    #[cfg(test)]
    pub fn has(&self, name: &Arc<str>, key: Key) -> bool {
        self.0.contains(&(name.clone(), key))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_exactly_and_by_prefix_in_slices() {
        let mut names = Names::default();
        let all = ["/a", "/a", "/a/b", "/a?x", "/ab", "/b"];
        for (n, name) in all.iter().enumerate() {
            names.add(&Arc::from(*name), Key(n as u128));
        }
        let walk = |names: &Names, name: &str, how| {
            let (name, mut found) = (Arc::from(name), Vec::<Entry>::new());
            loop {
                let slice = names.slice(&name, how, found.last(), 2);
                if slice.is_empty() {
                    break found.iter().map(|(_, key)| key.0).collect::<Vec<_>>();
                }
                found.extend(slice);
            }
        };
        assert_eq!(walk(&names, "/a", Match::Exact), [0, 1]);
        assert_eq!(walk(&names, "/a", Match::Prefix), [0, 1, 2, 3, 4]);
        assert_eq!(walk(&names, "/a/", Match::Prefix), [2]);
        assert_eq!(walk(&names, "", Match::Prefix).len(), 6);
        assert_eq!(walk(&names, "/", Match::Exact), []);
        names.remove(&Arc::from("/a"), Key(0));
        assert_eq!(walk(&names, "/a", Match::Exact), [1]);
        assert_eq!(names.bytes(), 5 * NAME);
    }
}
