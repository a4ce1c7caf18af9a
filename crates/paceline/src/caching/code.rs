//! By what a load of an application's code is told apart from another one: its files of code, templates and configuration, its
//! bundle with gems that have a path, its environment, Ruby and libraries. Links are followed. It reads no data of the application,
//! and a bounded part. It takes a moment: call it where that may be.

use std::{
    collections::BTreeSet,
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
/// What is looked at in all folders, whether it counts or not.
const MAX_ENTRIES: usize = 200_000;
/// Folders whose files all count.
const CODE: [&str; 7] = ["app", "config", "engines", "lib", "plugins", "templates", "views"];
/// Elsewhere, endings that count, and names.
const ENDINGS: [&str; 22] = [
    "rb", "ru", "rake", "erb", "haml", "slim", "builder", "jbuilder", "rabl", "arb", "liquid", "mustache", "hbs",
    "html", "htm", "md", "yml", "yaml", "sql", "gemfile", "lock", "locked",
];
const NAMES: [&str; 3] = ["Gemfile", ".ruby-version", ".env"];
/// What a bundle has come to. It names gems that have a path.
const LOCKS: [&str; 2] = ["lock", "locked"];
/// Folders that change while the application runs, or are named by Gemfile.lock.
const SKIPPED: [&str; 9] = [".git", "bundle", "coverage", "files", "log", "node_modules", "public", "storage", "tmp"];
/// A time of a file is that of the last tick of the kernel's clock (s).
const TICK: f64 = 0.02;
/// How a load's name ends if each worker has loaded the code by itself (`preload = false`): maybe not the same.
const EACH_OWN: &str = "-own";

/// Why two loads of the code can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// A file, or the contents of a folder.
    #[error("{} may have changed since it was loaded", .0.display())]
    Changed(PathBuf),
    #[error("{} can't be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::ErrorKind),
    #[error("it has more than {} files, {} MB of them, or {} files of all kinds", MAX_FILES, MAX_BYTES >> 20, MAX_ENTRIES)]
    TooLarge,
}

/// Where a load of the code comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The real path.
    pub root: PathBuf,
    /// As "ruby 3.1.2, rack 2.2.6".
    pub versions: String,
    /// The digest of its environment.
    pub environment: String,
}

#[cfg(test)]
impl Load {
    pub fn for_tests() -> std::sync::Arc<Load> {
        std::sync::Arc::new(Load { root: "/app".into(), versions: String::new(), environment: String::new() })
    }
}

/// Each worker has loaded the code by itself.
pub fn is_each_own(release: &str) -> bool {
    release.ends_with(EACH_OWN)
}

/// `began`: when the load did (Unix seconds).
///
/// # Errors
/// The files are not those that were loaded, or too many, or can't be read.
pub fn digest(load: &Load, began: f64, run_as: &RunAs) -> Result<String, Unknown> {
    let mut files = Files { began, run_as, seen: BTreeSet::new(), entries: 0, found: Vec::new() };
    files.list(&load.root, "", false)?;
    let locks: Vec<_> = files.found.iter().filter(|(name, _)| LOCKS.contains(&ending(name))).cloned().collect();
    for (lock, path) in locks {
        let text = String::from_utf8_lossy(&files.content(&path)?).into_owned();
        for gem in gems_with_path(&text) {
            let folder = path.parent().unwrap_or(&path).join(gem);
            files.list(&folder, &format!("{lock} {gem}"), false)?;
        }
    }
    files.found.sort();
    let mut context = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    [env!("CARGO_PKG_VERSION"), &load.versions, &load.environment].iter().for_each(|text| add(text.as_bytes()));
    let mut left = MAX_BYTES;
    for (name, path) in &files.found {
        let content = files.content(path)?;
        left = left.checked_sub(content.len() as u64).ok_or(Unknown::TooLarge)?;
        add(name.as_bytes());
        add(&content);
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// When a load began (Unix seconds), by its name: the process and the milliseconds of CLOCK_MONOTONIC.
pub fn began(release: &str) -> Option<f64> {
    let millis: u64 = release.rsplit_once('-')?.1.parse().ok()?;
    let since = clock::now().checked_sub(millis.checked_mul(1000)?)?;
    Some(clock::unix_seconds() - since as f64 / 1e6)
}

/// Files that count.
struct Files<'a> {
    began: f64,
    run_as: &'a RunAs,
    /// Folders that were listed, by device and number, and whether all in them counts: links may lead to one again.
    seen: BTreeSet<(u64, u64, bool)>,
    entries: usize,
    /// How each is called wherever the application lies, and where it is.
    found: Vec<(String, PathBuf)>,
}

impl Files<'_> {
    /// `all`: whatever its name is, it counts.
    fn list(&mut self, folder: &Path, name: &str, all: bool) -> Result<(), Unknown> {
        let entries = match acting(self.run_as, || Ok((fs::metadata(folder)?, fs::read_dir(folder)?))) {
            // What the application can't read either is not its code.
            Err(why) if is_forbidden(&why) => return Ok(()),
            entries => entries,
        };
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |why: io::Error| Unknown::Unreadable(path, why.kind())
        };
        let (found, entries): (Metadata, fs::ReadDir) = entries.map_err(unreadable(folder))?;
        if !self.seen.insert((found.dev(), found.ino(), all)) {
            return Ok(());
        }
        // What was in it before is not known.
        if all && self.is_later(&found) {
            return Err(Unknown::Changed(folder.to_owned()));
        }
        for entry in entries {
            self.entries += 1;
            let entry = entry.map_err(unreadable(folder))?;
            let (path, own) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let name = format!("{name}/{own}");
            let kind = match acting(self.run_as, || fs::metadata(&path)) {
                Ok(found) => found.file_type(),
                Err(why) if is_forbidden(&why) || is_nowhere(&why) => continue,
                Err(why) => return Err(unreadable(&path)(why)),
            };
            if kind.is_dir() && !SKIPPED.contains(&&*own) {
                self.list(&path, &name, all || CODE.contains(&&*own))?;
            } else if kind.is_file() && (all || counts(&own)) {
                self.found.push((name, path));
            }
            if self.found.len() > MAX_FILES || self.entries > MAX_ENTRIES {
                return Err(Unknown::TooLarge);
            }
        }
        Ok(())
    }

    fn content(&self, path: &Path) -> Result<Vec<u8>, Unknown> {
        let unreadable = |why: io::Error| Unknown::Unreadable(path.to_owned(), why.kind());
        let found = acting(self.run_as, || Ok((fs::symlink_metadata(path)?, fs::metadata(path)?)));
        let (link, file): (Metadata, Metadata) = found.map_err(unreadable)?;
        if file.len() > MAX_BYTES {
            return Err(Unknown::TooLarge);
        }
        if self.is_later(&link) || self.is_later(&file) {
            return Err(Unknown::Changed(path.to_owned()));
        }
        match unix_user::read(self.run_as, path, file.len()) {
            // It is no code that the application has loaded.
            Err(why) if is_forbidden(&why) => Ok(Vec::new()),
            content => content.map_err(unreadable),
        }
    }

    /// Its content, name or rights may have been changed since the load began.
    fn is_later(&self, found: &Metadata) -> bool {
        found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9 + TICK > self.began
    }
}

fn is_forbidden(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::PermissionDenied
}

/// A link leads nowhere, or in a circle.
fn is_nowhere(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::NotFound || why.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn counts(name: &str) -> bool {
    NAMES.contains(&name) || ENDINGS.contains(&ending(name))
}

fn ending(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Where the bundle's gems are that have a path: code of the application, which changes without another version.
fn gems_with_path(lock: &str) -> impl Iterator<Item = &str> {
    let mut is_path = false;
    lock.lines().filter_map(move |line| {
        if !line.starts_with(' ') {
            is_path = line == "PATH";
        }
        line.strip_prefix("  remote: ").filter(|_| is_path).map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        os::unix::fs::{symlink, PermissionsExt},
    };

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
        let load = |versions: &str, environment: &str| Load {
            root: root.clone(),
            versions: versions.into(),
            environment: environment.into(),
        };
        let later = || clock::unix_seconds() + 1.0;
        let own = || digest(&load("ruby 3.1", ""), later(), &RunAs::own()).unwrap();
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
        let of =
            |versions: &str, environment: &str| digest(&load(versions, environment), later(), &RunAs::own()).unwrap();
        assert_ne!(of("ruby 3.2", ""), of("ruby 3.1", ""));
        assert_ne!(of("ruby 3.1", "A=1"), of("ruby 3.1", ""));
        let before = |began: f64| digest(&load("", ""), began, &RunAs::own());
        assert!(
            matches!(before(clock::unix_seconds() - 60.0), Err(Unknown::Changed(_))),
            "it was changed after the load"
        );
        fs::remove_dir_all(&root).unwrap();
        assert!(matches!(before(later()), Err(Unknown::Unreadable(..))));
    }

    #[test]
    fn what_lies_outside_counts_by_a_link_or_by_its_path() {
        let folder = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        let root = folder.join("release");
        for name in ["release/app", "release/tmp", "shared/lib", "tax/lib", "log"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        for (target, link) in [
            ("../../shared/shop.yml", "app/shop.yml"),
            ("../shared/lib", "lib"),
            ("..", "app/again"),
            ("../gone", "app/gone.rb"),
            ("../log", "log"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        write("shared/shop.yml", "one");
        write(
            "release/Gemfile.lock",
            "PATH\n  remote: ../tax\n  specs:\n    tax (1.0)\n\nGEM\n  remote: https://rubygems.org/\n",
        );
        let load = Load { root: root.clone(), versions: String::new(), environment: String::new() };
        let own = |since: f64| digest(&load, clock::unix_seconds() + since, &RunAs::own());
        let mut seen = vec![own(1.0).unwrap()];
        write("log/production.log", "more");
        assert_eq!(own(1.0).unwrap(), seen[0]);
        for (name, text) in [("shared/shop.yml", "two"), ("shared/lib/tax.txt", "20 %"), ("tax/lib/tax.rb", "20")] {
            write(name, text);
            let now = own(1.0).unwrap();
            assert!(!seen.contains(&now), "{name}");
            seen.push(now);
        }
        fs::remove_file(root.join("lib")).unwrap();
        fs::create_dir(root.join("lib")).unwrap();
        assert!(!seen.contains(&own(1.0).unwrap()));
        fs::remove_dir_all(folder.join("tax")).unwrap();
        assert!(own(1.0).is_err(), "a gem is not there");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_was_removed_since_the_load_is_no_part_of_it() {
        let root = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(root.join("app")).unwrap();
        fs::write(root.join("app/a.rb"), "").unwrap();
        let load = Load { root: root.clone(), versions: String::new(), environment: String::new() };
        let own = |began: f64| digest(&load, began, &RunAs::own());
        // Whatever the file system's clock is.
        let changed = fs::metadata(root.join("app")).unwrap();
        let began = changed.ctime() as f64 + changed.ctime_nsec() as f64 / 1e9 + 2.0 * TICK;
        assert!(own(began).is_ok());
        while fs::metadata(root.join("app")).unwrap().ctime_nsec() == changed.ctime_nsec()
            || clock::unix_seconds() < began
        {
            let _ = fs::remove_file(root.join("app/a.rb"));
            fs::write(root.join("app/b.rb"), "").unwrap();
            fs::remove_file(root.join("app/b.rb")).unwrap();
        }
        assert_eq!(own(began), Err(Unknown::Changed(root.join("app"))));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn links_in_a_circle_and_what_the_application_cannot_read_are_passed_over() {
        let root = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(root.join("views/parts")).unwrap();
        for (target, link) in
            [("two", "views/one"), ("one", "views/two"), ("..", "views/parts/up"), ("self.erb", "views/self.erb")]
        {
            symlink(target, root.join(link)).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(root.join("views/pipe.erb")).status().unwrap().success());
        fs::write(root.join("views/page.erb"), "one").unwrap();
        let load = Load { root: root.clone(), versions: String::new(), environment: String::new() };
        let own = || digest(&load, clock::unix_seconds() + 1.0, &RunAs::own());
        let first = own().unwrap();
        fs::write(root.join("views/page.erb"), "two").unwrap();
        assert_ne!(own().unwrap(), first);
        let views = root.join("views");
        let unreadable = fs::Permissions::from_mode(0o000);
        fs::set_permissions(&views, unreadable).unwrap();
        // Root reads it all the same.
        assert!(own().is_ok());
        fs::set_permissions(&views, fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn more_files_than_are_looked_at_make_no_digest() {
        let root = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        let load = Load { root: root.clone(), versions: String::new(), environment: String::new() };
        let own = || digest(&load, clock::unix_seconds() + 1.0, &RunAs::own());
        for folder in 0..31 {
            let folder = root.join(format!("app/views/{folder}"));
            fs::create_dir_all(&folder).unwrap();
            for file in 0..1000 {
                File::create(folder.join(format!("{file}.erb"))).unwrap();
            }
            if folder.ends_with("9") {
                assert!(own().is_ok(), "10,000 templates");
            }
        }
        assert_eq!(own(), Err(Unknown::TooLarge));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn gems_with_a_path_are_named_by_the_lock() {
        let lock = "GIT\n  remote: https://x\n\nPATH\n  remote: ../tax\n  specs:\n    tax (1)\n\nPATH\n  remote: .\nGEM\n  remote: y\n";
        assert_eq!(gems_with_path(lock).collect::<Vec<_>>(), ["../tax", "."]);
    }

    #[test]
    fn loads_of_each_worker_are_known_by_their_name() {
        assert!(is_each_own("7-5000-own") && !is_each_own("7-5000"));
        assert_eq!(began("7-5000-own"), None, "nothing is remembered of them");
    }
}
