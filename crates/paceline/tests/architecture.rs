//! Holds the maps to the land: each file and folder that ARCHITECTURE.md, CONTRIBUTING.md and the pages on the inside
//! name is there.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Pages that name files of this checkout.
const MAPS: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/life-of-a-request.md", "docs/internals.md"];

/// Files of users and of processes, which no checkout has.
const OF_OTHERS: [&str; 4] = ["paceline.toml", "config/puma.rb", "tmp/restart.txt", "tmp/always_restart.txt"];

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

/// All paths below the checkout, from its root, folders with a slash at their end.
fn paths(dir: &Path, name: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("readable").flatten() {
        let own = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let apart = [".git", "node_modules", "tmp"].contains(&own.as_str()) || own.starts_with("target");
        if apart && is_dir {
            continue;
        }
        let path = format!("{name}{own}");
        if is_dir {
            all.push(format!("{path}/"));
            paths(&entry.path(), &format!("{path}/"), all);
        } else {
            all.push(path);
        }
    }
}

fn is_path(word: &str) -> bool {
    let named =
        [".rs", ".rb", ".c", ".md", ".mjs", ".bash"].iter().any(|end| word.ends_with(end)) || word.ends_with('/');
    named && !word.starts_with('/') && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
}

#[test]
fn every_path_on_the_map_is_there() {
    let mut all = Vec::new();
    paths(&checkout(), "", &mut all);
    let is_there = |word: &str| all.iter().any(|path| path == word || path.ends_with(&format!("/{word}")));
    let mut missing = Vec::new();
    for page in MAPS {
        let text = fs::read_to_string(checkout().join(page)).expect(page);
        for (number, line) in text.lines().enumerate() {
            // Every second piece is between backquotes.
            let quoted = line.split('`').skip(1).step_by(2).flat_map(|code| code.split([' ', ',']));
            let gone = quoted.filter(|word| is_path(word) && !OF_OTHERS.contains(word) && !is_there(word));
            missing.extend(gone.map(|word| format!("{page}:{}: {word} is not there", number + 1)));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
