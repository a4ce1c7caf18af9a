//! By what a load of an application's code is told apart from another one: its files of code, templates and configuration, its
//! bundle, Ruby and libraries. It reads no data of the application, follows no link, and reads a bounded part.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use ring::digest::{Context, SHA256};
use unix_user::{acting, RunAs};

use crate::support::clock;

/// Files, and bytes of them. Of an application with more nothing is known.
const MAX_FILES: usize = 30_000;
const MAX_BYTES: u64 = 256 << 20;
/// Folders whose files all count.
const CODE: [&str; 5] = ["app", "config", "engines", "lib", "plugins"];
/// Elsewhere, endings that count, and names.
const ENDINGS: [&str; 14] =
    ["rb", "ru", "rake", "erb", "haml", "slim", "builder", "jbuilder", "rabl", "arb", "liquid", "md", "yml", "sql"];
const NAMES: [&str; 4] = ["Gemfile", "Gemfile.lock", ".ruby-version", ".env"];
/// Folders that change while the application runs, or are named by Gemfile.lock.
const SKIPPED: [&str; 9] = [".git", "bundle", "coverage", "files", "log", "node_modules", "public", "storage", "tmp"];
/// A time of a file is that of the last tick of the kernel's clock (s).
const TICK: f64 = 0.02;

/// Where a load of the code comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The real path.
    pub root: PathBuf,
    /// As "ruby 3.1.2, rack 2.2.6".
    pub versions: String,
}

#[cfg(test)]
impl Load {
    pub fn for_tests() -> std::sync::Arc<Load> {
        std::sync::Arc::new(Load { root: "/app".into(), versions: String::new() })
    }
}

/// None: it can't be told, or a file may have been changed since the load began (Unix seconds). `more`: counts as well.
pub fn digest(load: &Load, began: f64, more: &str, run_as: &RunAs) -> Option<String> {
    let mut paths = Vec::new();
    acting(run_as, || list(&load.root, false, &mut paths))?;
    paths.sort();
    let mut context = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    [env!("CARGO_PKG_VERSION"), &load.versions, more].iter().for_each(|text| add(text.as_bytes()));
    let mut left = MAX_BYTES;
    for path in paths {
        let found = acting(run_as, || fs::symlink_metadata(&path)).ok()?;
        left = left.checked_sub(found.len())?;
        if !found.is_file() || changed(&found) + TICK > began {
            return None;
        }
        add(path.strip_prefix(&load.root).ok()?.as_os_str().as_encoded_bytes());
        add(&unix_user::read(run_as, &path, found.len()).ok()?);
    }
    Some(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// When a load began (Unix seconds), by its name: the process and the milliseconds of CLOCK_MONOTONIC.
pub fn began(release: &str) -> Option<f64> {
    let millis: u64 = release.rsplit_once('-')?.1.parse().ok()?;
    let since = clock::now().checked_sub(millis.checked_mul(1000)?)?;
    Some(clock::unix_seconds() - since as f64 / 1e6)
}

/// When its content, name or rights were changed last (Unix seconds).
fn changed(found: &Metadata) -> f64 {
    found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9
}

/// None: there are too many, or one is gone.
fn list(folder: &Path, all: bool, paths: &mut Vec<PathBuf>) -> Option<()> {
    let entries = match fs::read_dir(folder) {
        // What the application can't read either is not its code.
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return Some(()),
        entries => entries.ok()?,
    };
    for entry in entries {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().ok()?;
        if kind.is_dir() && !SKIPPED.contains(&&*name) {
            list(&entry.path(), all || CODE.contains(&&*name), paths)?;
        } else if kind.is_file() && (all || counts(&name)) {
            paths.push(entry.path());
        }
        if paths.len() > MAX_FILES {
            return None;
        }
    }
    Some(())
}

fn counts(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    NAMES.contains(&name) || ENDINGS.contains(&ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_says_when_it_began() {
        let release = format!("7-{}", clock::now() / 1000 - 5000);
        assert!((clock::unix_seconds() - 5.0 - began(&release).unwrap()).abs() < 1.0);
        assert_eq!(["7-x", "7", "7-99999999999999"].map(began), [None; 3]);
    }

    #[test]
    fn another_code_has_another_digest() {
        let root = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        for folder in ["app/views", "tmp", "data"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        let load = |versions: &str| Load { root: root.clone(), versions: versions.into() };
        let later = || clock::unix_seconds() + 1.0;
        let own = || digest(&load("ruby 3.1"), later(), "", &RunAs::own()).unwrap();
        write("config.ru", "run App");
        write("app/views/a.weird", "one");
        let first = own();
        for ignored in ["tmp/a.rb", "data/shop.sqlite3"] {
            write(ignored, "more");
            assert_eq!(own(), first, "{ignored}");
        }
        let mut seen = vec![first];
        for (name, text) in
            [("config.ru", "run Other"), ("app/views/a.weird", "two"), ("app/b", ""), ("Gemfile.lock", "GEM")]
        {
            write(name, text);
            let now = own();
            assert!(!seen.contains(&now), "{name}");
            seen.push(now);
        }
        let of = |versions: &str, more: &str| digest(&load(versions), later(), more, &RunAs::own()).unwrap();
        assert_ne!(of("ruby 3.2", ""), of("ruby 3.1", ""));
        assert_ne!(of("ruby 3.1", "A=1"), of("ruby 3.1", ""));
        assert_eq!(
            digest(&load(""), clock::unix_seconds() - 60.0, "", &RunAs::own()),
            None,
            "it was changed after the load"
        );
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(digest(&load(""), later(), "", &RunAs::own()), None);
    }
}
