//! All that the path of a request may mean: applications, file systems and servers between them differ in how they read one.

use std::collections::BTreeSet;

use percent_encoding::percent_decode;

/// How often a path is decoded: an application behind another server may decode what that has decoded already.
const DECODINGS: usize = 3;

/// All that a path may mean. To find that out for a long one costs more than to compare it: once for all rules.
pub struct Readings<'a> {
    written: &'a str,
    /// Empty: everybody reads it as it is written.
    others: BTreeSet<Vec<u8>>,
}

impl<'a> Readings<'a> {
    pub fn of(path: &'a str) -> Readings<'a> {
        let others = if is_plain(path) { BTreeSet::new() } else { readings(path) };
        Readings { written: path, others }
    }

    /// Each of them, first as it is written.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        let others = self.others.iter().map(Vec::as_slice);
        std::iter::once(self.written.as_bytes()).chain(others.filter(|other| *other != self.written.as_bytes()))
    }
}

/// Whether everybody reads the path in the same way.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_graphic() && !b"%;\\".contains(byte);
    bytes.first() == Some(&b'/')
        && bytes.iter().all(is_letter)
        && !bytes.windows(2).any(|two| two == b"//" || two == b"/.")
}

/// What a path may mean: as it is and decoded, with and without dots resolved, parameters and doubled slashes.
fn readings(path: &str) -> BTreeSet<Vec<u8>> {
    let mut decoded = vec![path.as_bytes().to_vec()];
    for _ in 0..DECODINGS {
        let last = &decoded[decoded.len() - 1];
        let next: Vec<u8> = percent_decode(last).collect();
        if next == *last {
            break;
        }
        decoded.push(next);
    }
    let mut all = BTreeSet::new();
    for one in decoded {
        let slashes = one.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect::<Vec<u8>>();
        // A NUL ends a name for programs in C.
        let short = one.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        for reading in [one, slashes, short] {
            let bare = without_parameters(&reading);
            for reading in [reading, bare] {
                all.insert(resolved(&reading));
                all.insert(squeezed(&reading));
                all.insert(reading);
            }
        }
    }
    all
}

/// Without `;name=value` at the end of segments, which some servers take for parameters.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let bare: Vec<&[u8]> =
        segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default()).collect();
    bare.join(&b'/')
}

/// One slash in the place of several.
fn squeezed(path: &[u8]) -> Vec<u8> {
    let mut kept = path.to_vec();
    kept.dedup_by(|later, earlier| *later == b'/' && *earlier == b'/');
    kept
}

/// `.`, `..` and empty segments resolved (RFC 3986 section 5.2.4).
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_folder = false;
    for segment in path.split(|byte| *byte == b'/') {
        is_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut whole = vec![b'/'];
    whole.extend(kept.join(&b'/'));
    if is_folder && whole.len() > 1 {
        whole.push(b'/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_has_one_reading() {
        for (path, plain) in
            [("/", true), ("/a/b.c", true), ("/a//b", false), ("/a/./b", false), ("/a%20", false), ("/\\a", false)]
        {
            assert_eq!(Readings::of(path).all().count() == 1, plain, "{path}");
        }
    }

    #[test]
    fn each_reading_is_there_once() {
        let all: Vec<Vec<u8>> = Readings::of("/x/..%2flogin").all().map(<[u8]>::to_vec).collect();
        assert!(all.contains(&b"/login".to_vec()) && all.contains(&b"/x/../login".to_vec()));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
