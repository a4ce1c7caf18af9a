//! By what a load of an application's code is told apart from another one: its files of code, templates and configuration, its
//! bundle with gems that have a path, its environment, Ruby and libraries. Links are followed. It reads no data of the application,
//! and a bounded part. It takes a moment: call it where that may be.

mod files;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    time::Instant,
};

use ring::digest::{Context, SHA256};
use unix_user::{acting, RunAs};

use files::Files;
pub use files::{Unknown, PATIENCE};

use crate::support::clock;

/// How a load's name ends if each worker has loaded the code by itself (`preload = false`): maybe not the same.
const EACH_OWN: &str = "-own";

/// Where a load of the code comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The real path.
    pub root: PathBuf,
    /// What was there before it began, if it is known.
    pub folder: Option<FolderId>,
    /// Of its bundle.
    pub gemfile: Option<PathBuf>,
    /// As "ruby 3.1.2, rack 2.2.6".
    pub versions: String,
    /// The digest of its environment.
    pub environment: String,
}

#[cfg(test)]
impl Load {
    pub fn for_tests() -> std::sync::Arc<Load> {
        std::sync::Arc::new(Load {
            root: "/app".into(),
            folder: None,
            gemfile: None,
            versions: String::new(),
            environment: String::new(),
        })
    }
}

/// Each worker has loaded the code by itself.
pub fn is_each_own(release: &str) -> bool {
    release.ends_with(EACH_OWN)
}

/// Which folder a path leads to: its device and number.
pub type FolderId = (u64, u64);

/// None: it is not there.
pub fn folder_id(path: &Path) -> Option<FolderId> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// `began`: when the load did (Unix seconds).
///
/// # Errors
/// The files are not those that were loaded, or too many, or can't be read.
pub fn digest(load: &Load, began: f64, run_as: &RunAs) -> Result<String, Unknown> {
    digest_within(load, began, run_as, Instant::now() + PATIENCE)
}

fn digest_within(load: &Load, began: f64, run_as: &RunAs, until: Instant) -> Result<String, Unknown> {
    let mut files = Files::new(began, run_as, until);
    files.list(&load.root, "")?;
    // One elsewhere, as of several applications.
    let is_inside = |path: &Path| {
        let below = path.strip_prefix(&load.root);
        below.is_ok_and(|below| !below.components().any(|part| part == Component::ParentDir))
    };
    if let Some(gemfile) = load.gemfile.as_ref().filter(|gemfile| !is_inside(gemfile)) {
        files.add(gemfile, "Gemfile")?;
        files.add(&lock_of(gemfile), "Gemfile.lock")?;
    }
    for (lock, path, text) in files.locks()? {
        for gem in gems_with_path(&text) {
            files.list_from(path.parent().unwrap_or(&path), gem, &format!("{lock} {gem}"))?;
        }
    }
    let mut context = Context::new(&SHA256);
    for text in [env!("CARGO_PKG_VERSION"), &load.versions, &load.environment] {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    files.give(|bytes| context.update(bytes))?;
    // Another folder may have come into its place, whose files are all older.
    if load.folder.is_some() && acting(run_as, || folder_id(&load.root)) != load.folder {
        return Err(Unknown::Changed(load.root.clone()));
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the bundle of a Gemfile has come to.
fn lock_of(gemfile: &Path) -> PathBuf {
    if gemfile.file_name().is_some_and(|name| name == "gems.rb") {
        return gemfile.with_extension("locked");
    }
    let mut name = gemfile.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// When a load began (Unix seconds), by its name: the process and the milliseconds of CLOCK_MONOTONIC.
pub fn began(release: &str) -> Option<f64> {
    let millis: u64 = release.rsplit_once('-')?.1.parse().ok()?;
    let since = clock::now().checked_sub(millis.checked_mul(1000)?)?;
    Some(clock::unix_seconds() - since as f64 / 1e6)
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

    fn load_at(root: &Path) -> Load {
        Load { root: root.to_owned(), folder: None, gemfile: None, versions: String::new(), environment: String::new() }
    }

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
            versions: versions.into(),
            environment: environment.into(),
            ..load_at(&root)
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
        let load = load_at(&root);
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
        let load = load_at(&root);
        let own = |began: f64| digest(&load, began, &RunAs::own());
        // Whatever the file system's clock is.
        let changed = fs::metadata(root.join("app")).unwrap();
        let began = changed.ctime() as f64 + changed.ctime_nsec() as f64 / 1e9 + 0.04;
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
        let load = load_at(&root);
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

    /// A folder for a test.
    struct Root(PathBuf);

    impl Root {
        fn with(files: &[(&str, &str)]) -> Root {
            let root = Root(std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple())));
            fs::create_dir_all(&root.0).unwrap();
            files.iter().for_each(|(name, text)| root.write(name, text));
            root
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
            fs::write(self.0.join(name), text).unwrap();
        }

        fn link(&self, target: &str, name: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            symlink(target, path).unwrap();
        }

        fn load(&self, name: &str) -> Load {
            let root = self.0.join(name);
            let folder = folder_id(&root);
            Load { folder, ..load_at(&root) }
        }

        /// As after all that was written.
        fn digest(&self) -> String {
            digest(&self.load(""), clock::unix_seconds() + 1.0, &RunAs::own()).unwrap()
        }

        /// When a load begins that comes after all that was written.
        fn begin(&self) -> f64 {
            std::thread::sleep(std::time::Duration::from_millis(60));
            clock::unix_seconds()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_a_link_leads_to_is_what_was_loaded_or_nothing_is_known() {
        let root = Root::with(&[
            ("v1/views/a.erb", "one"),
            ("v2/views/a.erb", "two"),
            ("v1/tax/lib/tax.rb", "10"),
            ("v2/tax/lib/tax.rb", "20"),
            ("shop/Gemfile.lock", "PATH\n  remote: ../current/tax\n"),
        ]);
        for (target, name) in [("../v1/views", "direct/views"), ("../current/views", "shop/views"), ("v1", "current")] {
            root.link(target, name);
        }
        let own = |name: &str, began: f64| digest(&root.load(name), began, &RunAs::own());
        let later = clock::unix_seconds() + 60.0;
        assert!(own("direct", later).is_ok() && own("shop", later).is_ok());
        let began = root.begin();
        assert!(own("direct", began).is_ok() && own("shop", began).is_ok(), "all of it is older");
        root.link("../v2/views", "direct/views");
        root.link("v2", "current");
        assert_eq!(own("direct", began), Err(Unknown::Changed(root.0.join("direct/views"))));
        let current = root.0.canonicalize().unwrap().join("current");
        assert_eq!(own("shop", began), Err(Unknown::Changed(current)), "a link on the way");
    }

    #[test]
    fn another_folder_in_the_place_of_the_root_is_not_what_was_loaded() {
        let root = Root::with(&[("one/views/a.erb", "one"), ("two/views/a.erb", "two")]);
        let load = root.load("one");
        let began = root.begin();
        let own = || digest(&load, began, &RunAs::own());
        assert!(own().is_ok());
        fs::rename(root.0.join("one"), root.0.join("old")).unwrap();
        fs::rename(root.0.join("two"), root.0.join("one")).unwrap();
        assert_eq!(own(), Err(Unknown::Changed(root.0.join("one"))));
    }

    #[test]
    fn a_bundle_that_lies_elsewhere_counts() {
        let root = Root::with(&[
            ("shop/config.ru", ""),
            ("shared/Gemfile", ""),
            ("shared/Gemfile.lock", "one"),
            ("tax/t.rb", "1"),
        ]);
        let own = || {
            let load = Load { gemfile: Some(root.0.join("shop/../shared/Gemfile")), ..root.load("shop") };
            digest(&load, clock::unix_seconds() + 1.0, &RunAs::own()).unwrap()
        };
        let mut seen = vec![own()];
        for (name, text) in
            [("shared/Gemfile.lock", "PATH\n  remote: ../tax\n"), ("tax/t.rb", "2"), ("shared/Gemfile", "gem 'a'")]
        {
            root.write(name, text);
            let now = own();
            assert!(!seen.contains(&now), "{name}");
            seen.push(now);
        }
        assert_eq!(lock_of(Path::new("/a/gems.rb")), Path::new("/a/gems.locked"));
    }

    #[test]
    fn a_link_makes_no_data_code_and_counts_where_it_stands() {
        let root = Root::with(&[("app/a.rb", ""), ("data/shop.sqlite3", "one"), ("parts/a.erb", "one")]);
        root.link("..", "app/again");
        root.link("../parts", "app/one");
        root.link("../parts", "app/two");
        let first = root.digest();
        root.write("data/shop.sqlite3", "two");
        assert_eq!(root.digest(), first, "the root is no part of itself");
        fs::remove_file(root.0.join("app/two")).unwrap();
        assert_ne!(root.digest(), first, "parts has another name less");
    }

    #[test]
    fn no_order_of_names_counts() {
        let digest_of = |names: [&str; 4]| {
            let root = Root::with(&[("parts/a.erb", "one")]);
            names.iter().for_each(|name| root.link("../parts", &format!("app/{name}")));
            names.iter().for_each(|name| root.write(&format!("lib/{name}.rb"), name));
            root.digest()
        };
        assert_eq!(digest_of(["one", "two", "three", "four"]), digest_of(["four", "three", "two", "one"]));
    }

    #[test]
    fn files_of_editors_are_no_code_and_those_for_dotenv_are() {
        let root = Root::with(&[("app/a.rb", "")]);
        let first = root.digest();
        for name in ["app/.a.rb.swp", "app/a.rb~", "app/#a.rb#", "app/.DS_Store", "b.rb~"] {
            root.write(name, "");
            assert_eq!(root.digest(), first, "{name}");
        }
        root.write(".env.production", "SHOP=1");
        assert_ne!(root.digest(), first);
    }

    #[test]
    fn neither_deep_folders_nor_long_files_nor_slow_disks_cost_more_than_they_may() {
        let root = Root::with(&[]);
        // As deep as paths go.
        let deep = root.0.join(["d"; 1900].join("/"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("a.rb"), "").unwrap();
        let load = root.load("");
        let read = move || digest(&load, clock::unix_seconds() + 1.0, &RunAs::own()).is_ok();
        let on_a_small_stack = std::thread::Builder::new().stack_size(256 << 10).spawn(read).unwrap();
        assert!(on_a_small_stack.join().unwrap());

        let at_once = std::time::Instant::now();
        assert_eq!(
            digest_within(&root.load(""), clock::unix_seconds() + 1.0, &RunAs::own(), at_once),
            Err(Unknown::TooSlow)
        );
        File::create(root.0.join("Gemfile.lock")).unwrap().set_len(2 << 20).unwrap();
        assert_eq!(digest(&root.load(""), clock::unix_seconds() + 1.0, &RunAs::own()), Err(Unknown::TooLarge));
    }

    #[test]
    fn more_files_than_are_looked_at_make_no_digest() {
        let root = std::env::temp_dir().join(format!("paceline-code-{}", uuid::Uuid::new_v4().simple()));
        let load = load_at(&root);
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
