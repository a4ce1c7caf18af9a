//! Holds SECURITY.md to what is there: each promise of its tables names tests, and each test that the page names
//! exists.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths, and what lies there, of all files that may hold tests.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for root in ["test", "gem/test", "crates"] {
        look(&checkout().join(root), &mut found);
    }
    found
}

fn look(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("node_modules") && !path.is_symlink() {
            look(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rb" || ending == "rs") {
            found.push((path.to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}

/// What stands between backquotes.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The tests that `FILE: NAME, NAME` names.
fn named(code: &str) -> Option<(&str, Vec<&str>)> {
    let (file, names) = code.split_once(": ")?;
    (file.ends_with(".rb") || file.ends_with(".rs")).then(|| (file, names.split(", ").collect()))
}

/// Whether a test of this name is written there: in Ruby, in Rust, or once for each store of sessions.
fn has_test(text: &str, name: &str) -> bool {
    let begins =
        [format!("def {name}"), format!("fn {name}("), format!("async fn {name}("), format!("on_each(\"{name}\")")];
    text.lines().any(|line| {
        let line = line.trim_start();
        begins.iter().any(|begin| {
            line.strip_prefix(begin.as_str())
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        })
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = fs::read_to_string(checkout().join("SECURITY.md")).unwrap();
    let sources = sources();
    let (mut wrong, mut promises, mut held) = (Vec::new(), 0, false);
    for line in page.lines() {
        if line.ends_with("| held by |") {
            held = true;
            continue;
        }
        held &= line.starts_with('|');
        let tests: Vec<_> = code(line).filter_map(named).collect();
        if held && !line.starts_with("| ---") {
            promises += 1;
            if tests.is_empty() {
                wrong.push(format!("names no test as `FILE: NAME`: {line}"));
            }
        }
        for (file, names) in tests {
            let ending = format!("/{file}");
            for name in names {
                if !sources.iter().any(|(path, text)| path.ends_with(&ending) && has_test(text, name)) {
                    wrong.push(format!("there is no {name} in a file {file}"));
                }
            }
        }
        // Tests that are named alone.
        for name in
            code(line).filter(|code| code.starts_with("test_") && code.chars().all(|c| c.is_alphanumeric() || c == '_'))
        {
            if !sources.iter().any(|(_, text)| has_test(text, name)) {
                wrong.push(format!("there is no test {name}"));
            }
        }
    }
    assert!(promises > 20, "the tables are not where this test looks");
    assert!(wrong.is_empty(), "SECURITY.md:\n{}", wrong.join("\n"));
}
