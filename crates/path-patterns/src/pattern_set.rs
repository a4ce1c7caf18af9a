//! Many patterns, all compared with a path at once. In a pattern `*` stands for any bytes, slashes included; nothing else is special.
//!
//! What a path is compared with is found by the beginning of the pattern, in a table: so only patterns that begin as the path does cost
//! anything, and each of them costs at most one search of the path for what is between its stars. An automaton of a general library
//! (globset, regex-automata) knows no such bound: its states are sets of positions, and somebody who chooses both the patterns
//! and the path makes it visit all of them for each byte.

use std::collections::HashMap;

use memchr::memmem::{self, Finder};

/// Patterns by number, from 0 in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub struct PatternSet {
    /// Those without a star.
    whole: HashMap<Box<[u8]>, Vec<usize>>,
    /// The others, by what is before their first star.
    starred: HashMap<Box<[u8]>, Vec<Starred>>,
    /// Of what is before first stars, each once, ascending.
    lengths: Vec<usize>,
}

/// What is behind the first star of a pattern.
#[derive(Debug, Clone)]
struct Starred {
    number: usize,
    /// Between its stars.
    inner: Vec<Finder<'static>>,
    /// Behind the last one.
    tail: Box<[u8]>,
}

impl PatternSet {
    pub fn new<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>) -> PatternSet {
        let mut set = PatternSet::default();
        for (number, pattern) in patterns.into_iter().enumerate() {
            let mut parts = pattern.as_ref().split(|byte| *byte == b'*');
            let head: Box<[u8]> = parts.next().unwrap_or_default().into();
            let Some(tail) = parts.next_back() else {
                set.whole.entry(head).or_default().push(number);
                continue;
            };
            let inner = parts.filter(|part| !part.is_empty()).map(|part| Finder::new(part).into_owned()).collect();
            set.lengths.push(head.len());
            set.starred.entry(head).or_default().push(Starred { number, inner, tail: tail.into() });
        }
        set.lengths.sort_unstable();
        set.lengths.dedup();
        set
    }

    /// The numbers of the patterns that match, ascending.
    pub fn matching(&self, text: &[u8]) -> Vec<usize> {
        let mut found: Vec<usize> = self.found(text).collect();
        found.sort_unstable();
        found
    }

    /// The first pattern that matches.
    pub fn first(&self, text: &[u8]) -> Option<usize> {
        self.found(text).min()
    }

    /// Whether one of them matches.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.found(text).next().is_some()
    }

    fn found<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let whole = self.whole.get(text).into_iter().flatten().copied();
        let lengths = self.lengths.iter().take_while(|length| **length <= text.len());
        let starred = lengths.filter_map(|length| {
            let (head, rest) = text.split_at(*length);
            Some((self.starred.get(head)?, rest))
        });
        let matching = starred.flat_map(|(all, rest)| all.iter().filter(move |one| one.matches(rest)));
        whole.chain(matching.map(|one| one.number))
    }
}

impl Starred {
    fn matches(&self, rest: &[u8]) -> bool {
        let Some(mut left) = rest.strip_suffix(&*self.tail) else { return false };
        // The first place is as good as any: what is left behind it is the longest.
        self.inner.iter().all(|part| {
            let found = part.find(left);
            left = found.map_or(left, |at| &left[at + part.needle().len()..]);
            found.is_some()
        })
    }
}

/// Whether a single pattern matches.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(tail) = parts.next_back() else { return rest.is_empty() };
    let Some(mut left) = rest.strip_suffix(tail) else { return false };
    parts.all(|part| {
        let found = memmem::find(left, part);
        left = found.map_or(left, |at| &left[at + part.len()..]);
        found.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, as the words of the documentation say it.
    fn by_the_letter(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some((b'*', rest)), _) => {
                by_the_letter(rest, text) || text.split_first().is_some_and(|(_, text)| by_the_letter(pattern, text))
            }
            (Some((byte, rest)), Some((own, text))) => byte == own && by_the_letter(rest, text),
            (Some(_), None) => false,
        }
    }

    #[test]
    fn stars_match_anything() {
        for (pattern, text, does) in [
            ("/*", "/", true),
            ("/*", "/a/b", true),
            ("/a*z", "/az", true),
            ("/a*z", "/abz/", false),
            ("*/x/*", "/a/x/b", true),
            ("/a", "/a/", false),
            ("/a*b*c", "/a-b-b-c", true),
            ("/a*b*c", "/a-c", false),
            ("/ab*bc", "/abc", false),
            ("*", "", true),
            ("", "", true),
            ("", "/", false),
        ] {
            assert_eq!(matches(pattern, text), does, "{pattern} {text}");
            assert_eq!(PatternSet::new([pattern]).is_match(text.as_bytes()), does, "{pattern} {text}");
        }
    }

    #[test]
    fn all_of_a_set_are_found_and_no_other() {
        let mut seed = 11_u64;
        let mut chance = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut found = 0;
        for _ in 0..2000 {
            let mut word = |letters: &[u8], most: u64| -> Vec<u8> {
                (0..chance(most)).map(|_| letters[chance(letters.len() as u64) as usize]).collect()
            };
            let patterns: Vec<Vec<u8>> = (0..12).map(|_| word(b"/ab**", 8)).collect();
            let set = PatternSet::new(&patterns);
            for _ in 0..12 {
                let text = word(b"/ab", 10);
                let right: Vec<usize> = (0..patterns.len()).filter(|at| by_the_letter(&patterns[*at], &text)).collect();
                assert_eq!(set.matching(&text), right, "{patterns:?} {text:?}");
                assert_eq!((set.first(&text), set.is_match(&text)), (right.first().copied(), !right.is_empty()));
                for (at, pattern) in patterns.iter().enumerate() {
                    let (pattern, text) = (std::str::from_utf8(pattern).unwrap(), std::str::from_utf8(&text).unwrap());
                    assert_eq!(matches(pattern, text), right.contains(&at), "{pattern} {text}");
                }
                found += right.len();
            }
        }
        assert!(found > 10_000, "{found}: too few to say anything");
    }
}
