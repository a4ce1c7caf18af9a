//! Holds the rules of the house: the size of files, that each says what it is, and that each dependency is used.
//! The walls between rooms are in `walls.rs`, those between crates in `crates.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Lines of a source file before its unit tests.
const LONGEST: usize = 500;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn each_source(check: impl Fn(&str, &str) -> Option<String>) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        if src.is_dir() {
            sources(&src, &mut found);
        }
    }
    assert!(found.len() > 300, "the sources are not where this test looks");
    let complaints: Vec<_> = found
        .iter()
        .filter_map(|path| {
            let name = path.strip_prefix(&crates).unwrap().display().to_string();
            check(&name, &fs::read_to_string(path).unwrap()).map(|complaint| format!("{name}: {complaint}"))
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_module_opens_with_what_it_does() {
    each_source(|_, text| (!text.starts_with("//! ")).then(|| "does not open with `//!`".into()));
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    each_source(|name, text| {
        let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        (lines > LONGEST && !name.ends_with("/tests.rs")).then(|| format!("{lines} lines before its tests"))
    });
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    each_source(|_, text| {
        let lines: Vec<_> = text.lines().collect();
        let bare = lines.iter().enumerate().find(|(number, line)| {
            line.contains("unsafe {")
                && !lines[number.saturating_sub(4)..*number].iter().any(|line| line.contains("SAFETY:"))
        });
        bare.map(|(number, _)| format!("line {}: unsafe without SAFETY", number + 1))
    });
}

/// A crate that nothing uses still has to be downloaded, compiled and trusted.
#[test]
fn every_dependency_is_used() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut unused = Vec::new();
    let mut seen = 0;
    let mut folders: Vec<_> = fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()).collect();
    let fuzz = crates.join("../fuzz");
    assert!(fuzz.join("Cargo.toml").is_file(), "the fuzz targets are not where this test looks");
    folders.push(fuzz);
    for dir in folders {
        let Ok(manifest) = fs::read_to_string(dir.join("Cargo.toml")) else { continue };
        let mut files = Vec::new();
        // `damage` compiles the fuzz targets once more.
        let folders = if dir.ends_with("damage") {
            ["src", "tests", "../../fuzz/src", "../../fuzz/fuzz_targets"]
        } else {
            ["src", "tests", "benches", "fuzz_targets"]
        };
        for folder in folders.map(|name| dir.join(name)).iter().filter(|folder| folder.is_dir()) {
            sources(folder, &mut files);
        }
        let code: Vec<_> = files.iter().map(|path| without_comments(&fs::read_to_string(path).unwrap())).collect();
        for name in dependencies(&manifest) {
            seen += 1;
            let named = library_of(&name);
            if !code.iter().any(|text| has_path(text, &named)) {
                unused.push(format!("{}/Cargo.toml: nothing uses \"{name}\": remove it", dir.display()));
            }
        }
    }
    assert!(seen > 30, "the manifests are not where this test looks");
    assert!(unused.is_empty(), "{}", unused.join("\n"));
}

/// A benchmark's result is committed for the page that names it. `stories.html` is made of those of the stories.
#[test]
fn every_committed_result_is_named_by_a_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = |what: &str| {
        let output = Command::new("git").args(["ls-files", what]).current_dir(&root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect::<Vec<_>>()
    };
    let results = committed("bench/results");
    let pages = committed("*.md").into_iter().filter(|page| !results.contains(page));
    let text: String = pages.filter_map(|page| fs::read_to_string(root.join(page)).ok()).collect();
    assert!(results.len() > 20 && text.len() > 100_000, "the results and the pages are not where this test looks");
    let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let unnamed: Vec<_> = results
        .iter()
        .map(name)
        .filter(|name| !name.starts_with("story-") && name != ".gitkeep" && !text.contains(name.as_str()))
        .collect();
    assert!(unnamed.is_empty(), "no page names these of bench/results: {}", unnamed.join(", "));
}

fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml_edit::DocumentMut = manifest.parse().unwrap();
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"].map(|name| manifest.get(name));
    let tables = tables.into_iter().flatten().filter_map(|item| item.as_table_like());
    tables.flat_map(|table| table.iter().map(|(name, _)| name.to_owned())).collect()
}

/// What code calls the crate.
fn library_of(name: &str) -> String {
    match name {
        "rustls-webpki" => "webpki".into(),
        _ => name.replace('-', "_"),
    }
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether a path begins with this crate: `name::...`, but not `crate::name::...`, or `use name`.
fn has_path(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        let own = before.ends_with("crate::") || before.ends_with("self::") || before.ends_with("super::");
        let begins = !before.ends_with(is_word) && (!before.ends_with("::") || before.ends_with(" ::")) && !own;
        begins && (after.starts_with("::") || before.ends_with("use ") && !after.starts_with(is_word))
    })
}
