//! Remembers the last purges, so that a response that was fetched before a purge is not stored after it. It drops
//! nothing.

use std::{collections::VecDeque, mem::size_of, sync::Arc};

use super::allocated;

/// So many purges are remembered; who was under way for longer counts as purged.
const REMEMBERED: usize = 512;
/// Names longer than this are remembered as "everything".
const LONGEST: usize = 300;

/// A moment between two purges. Take it with [`Store::moment`](super::Store::moment) before a response is asked for,
/// and hand it in with the response.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct Moment(pub(super) u64);

impl Moment {
    /// Of a response that is never to be stored, whatever it says.
    pub const NEVER: Moment = Moment(u64::MAX);
}

/// What a purge is for.
#[derive(Clone, Debug)]
pub(super) enum What {
    Url(Arc<str>),
    Tag(Arc<str>),
    Prefix(Arc<str>),
    All,
}

impl What {
    fn name(&self) -> &str {
        match self {
            What::Url(name) | What::Tag(name) | What::Prefix(name) => name,
            What::All => "",
        }
    }

    fn means(&self, url: &str, tags: &[Arc<str>]) -> bool {
        match self {
            What::Url(name) => **name == *url,
            What::Tag(name) => tags.contains(name),
            What::Prefix(name) => url.starts_with(&**name),
            What::All => true,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            What::All => 0,
            _ => allocated(16 + self.name().len()) as u64,
        }
    }
}

#[derive(Default)]
pub(super) struct Purges {
    /// Oldest first; the last has number `count`.
    recent: VecDeque<What>,
    count: u64,
    names: u64,
}

impl Purges {
    pub fn bytes(&self) -> u64 {
        (self.recent.capacity() * size_of::<What>()) as u64 + self.names
    }

    /// The moment after this purge.
    pub fn note(&mut self, what: &What) -> Moment {
        let what = if what.name().len() > LONGEST { What::All } else { what.clone() };
        self.names += what.bytes();
        self.recent.push_back(what);
        if self.recent.len() > REMEMBERED {
            self.names -= self.recent.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        self.count += 1;
        Moment(self.count)
    }

    /// Whether something of this URL with these tags was purged after the moment, or may have been.
    pub fn purged_since(&self, moment: Moment, url: &str, tags: &[Arc<str>]) -> bool {
        if moment == Moment::NEVER {
            return true;
        }
        let since = self.count.saturating_sub(moment.0) as usize;
        since > self.recent.len() || self.recent.iter().rev().take(since).any(|what| what.means(url, tags))
    }

    /// Whether what may have any tags but those of other visitors may have been purged since.
    pub fn may_be_purged_since(&self, moment: Moment, url: &str, own: Option<&str>) -> bool {
        let since = self.count.saturating_sub(moment.0) as usize;
        let means = |what: &What| match what {
            What::Tag(tag) => !tag.starts_with('\u{1}') || own == Some(&**tag),
            what => what.means(url, &[]),
        };
        since > self.recent.len() || self.recent.iter().rev().take(since).any(means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_to_be_stored_counts_as_purged() {
        let mut purges = Purges::default();
        assert!(purges.purged_since(Moment::NEVER, "/a", &[]) && !purges.purged_since(Moment(0), "/a", &[]));
        purges.note(&What::Url("/b".into()));
        assert!(purges.purged_since(Moment::NEVER, "/a", &[]));
    }

    #[test]
    fn only_what_came_after_the_moment_counts() {
        let mut purges = Purges::default();
        let tags: [Arc<str>; 2] = ["issue-1".into(), "issue-2".into()];
        let purged = |purges: &Purges, since| purges.purged_since(since, "https://h/a?b", &tags);
        let cases = [
            (What::Url("https://h/a?b".into()), true),
            (What::Url("https://h/a".into()), false),
            (What::Tag("issue-2".into()), true),
            (What::Tag("issue".into()), false),
            (What::Tag("https://h/a?b".into()), false),
            (What::Prefix("https://h/a".into()), true),
            (What::Prefix("https://h/b".into()), false),
            (What::All, true),
            (What::Prefix("x".repeat(LONGEST + 1).into()), true),
        ];
        let mut before = Moment(0);
        for (what, meant) in cases {
            assert!(!purged(&purges, before));
            let after = purges.note(&what);
            assert_eq!(purged(&purges, before), meant, "{what:?}");
            assert!(!purged(&purges, after));
            before = after;
        }
    }

    #[test]
    fn what_may_have_any_tags() {
        let mut purges = Purges::default();
        let mut since = |what: &str, own| {
            let before = Moment(purges.count);
            purges.note(&What::Tag(what.into()));
            purges.may_be_purged_since(before, "https://h/a", own)
        };
        assert!(since("issue-1", None));
        assert!(!since("\u{1}session 1", None) && !since("\u{1}session 1", Some("\u{1}session 2")));
        assert!(since("\u{1}session 1", Some("\u{1}session 1")));
    }

    #[test]
    fn what_is_forgotten_counts_as_purged() {
        let mut purges = Purges::default();
        for n in 0..REMEMBERED {
            purges.note(&What::Url(format!("/{n}").into()));
        }
        assert!(!purges.purged_since(Moment(0), "/other", &[]));
        let bytes = purges.bytes();
        purges.note(&What::Url("/512".into()));
        assert!(purges.purged_since(Moment(0), "/other", &[]));
        assert!(!purges.purged_since(Moment(1), "/other", &[]));
        assert!(purges.bytes() <= bytes + 2 * allocated(REMEMBERED * size_of::<What>()) as u64);
    }
}
