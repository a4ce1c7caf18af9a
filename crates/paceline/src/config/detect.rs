//! Tells from a folder's files what kind of application it holds.
//! It never runs any of it.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use super::{AppKind, SiteConfig};
use unix_user::{self, AccountRequest};

/// What an application's root has and a folder of plain files has not; also every name that ends in one of `ENDINGS`, and a
/// folder `config`. Source, keys and the database lie beside these.
const MARKS: [&str; 8] = ["Gemfile", "gems.rb", "Rakefile", "Procfile", "Capfile", ".git", ".svn", ".bundle"];
const ENDINGS: [&str; 6] = [".ru", ".rb", ".rake", ".gemspec", ".sqlite3", ".key"];
/// Settings with secrets: `.env`, `.env.production`.
const SECRETS: &str = ".env";

/// Bytes of a Ruby file that are looked at: what it requires stands above all else.
const LOOKED_AT: u64 = 64 << 10;
/// Ruby files that are looked at, and it is done twice a second: the folder may be an account's, which others would pay for.
const RUBY_FILES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    pub kind: AppKind,
    /// Rails and Rack: the rackup file (for Rails it may not exist; config/environment.rb does then).
    /// Sinatra: its Ruby file. Files: the folder to serve.
    pub entry: PathBuf,
}

#[derive(Debug)]
pub enum DetectError {
    Unreadable {
        root: PathBuf,
        cause: io::Error,
    },
    NotAFolder {
        root: PathBuf,
    },
    Empty {
        root: PathBuf,
    },
    /// Nothing of an application, and nothing that asks to be published.
    NoIndex {
        root: PathBuf,
    },
    /// It looks like an application, and nothing in it says how to start one.
    NoEntry {
        root: PathBuf,
        /// What makes it look like one.
        mark: String,
    },
}

impl fmt::Display for DetectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DetectError::Unreadable { root, cause } => write!(out, "{}: cannot be read: {cause}", root.display()),
            DetectError::NotAFolder { root } => {
                write!(out, "{}: is not a directory; name the application's folder", root.display())
            }
            DetectError::Empty { root } => write!(
                out,
                "{}: is empty; put a config.ru there (or an index.html), or create an application with: rails new {}",
                root.display(),
                root.display()
            ),
            DetectError::NoIndex { root } => write!(
                out,
                "{}: has no config.ru, no config/environment.rb and no file that requires Sinatra, and no index.html; put one of them there, or \
                 set `kind = \"files\"` to publish every file of this folder",
                root.display()
            ),
            DetectError::NoEntry { root, mark } => write!(
                out,
                "{}: has {mark}, but no config.ru, no config/environment.rb and no file that requires Sinatra; name its rackup file \
                 (`paceline my.ru`, or `rackup = \"my.ru\"`), or set `kind = \"files\"` to publish every file of this folder",
                root.display()
            ),
        }
    }
}

impl std::error::Error for DetectError {}

/// What a site's root holds, where the site's settings leave that open. A rackup file that they name is an
/// application's, wherever it lies.
pub fn detect_site(site: &SiteConfig, root: &Path) -> Result<Detected, DetectError> {
    let detected = detect(root);
    match (site.kind, &site.rackup) {
        (Some(AppKind::Files), _) => {
            Ok(Detected { kind: AppKind::Files, entry: files_of(root, detected, &site.public) })
        }
        (Some(kind), rackup) => match detected {
            Ok(detected) if detected.kind == kind => Ok(detected),
            _ => Ok(Detected { kind, entry: rackup.clone().unwrap_or_else(|| root.join("config.ru")) }),
        },
        (None, Some(rackup)) => match detected {
            Ok(detected) if matches!(detected.kind, AppKind::Rails | AppKind::Rack) => Ok(detected),
            Err(error @ (DetectError::Unreadable { .. } | DetectError::NotAFolder { .. })) => Err(error),
            _ if requires_sinatra(root, rackup) => Ok(Detected { kind: AppKind::Sinatra, entry: rackup.clone() }),
            _ => Ok(Detected { kind: AppKind::Rack, entry: rackup.clone() }),
        },
        (None, None) => detected,
    }
}

/// What a folder holds, by its files alone.
fn detect(root: &Path) -> Result<Detected, DetectError> {
    let unreadable = |cause| DetectError::Unreadable { root: root.to_path_buf(), cause };
    if !fs::metadata(root).map_err(unreadable)?.is_dir() {
        return Err(DetectError::NotAFolder { root: root.to_path_buf() });
    }
    let has = |path: &str| root.join(path).is_file();
    let found = |kind, entry: PathBuf| Ok(Detected { kind, entry });
    if has("config/environment.rb") || has("config.ru") && has("config/application.rb") {
        return found(AppKind::Rails, root.join("config.ru"));
    }
    if has("config.ru") {
        return found(AppKind::Rack, root.join("config.ru"));
    }
    let mut names: Vec<_> = fs::read_dir(root)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>())
        .map_err(unreadable)?;
    let all = names.clone();
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    // app.rb is the usual name; other files come in the order of the alphabet.
    names.sort_by_key(|name| (name != "app.rb", name.clone()));
    let ruby_files = names.iter().map(|name| root.join(name));
    let mut ruby_files = ruby_files.filter(|path| path.extension().is_some_and(|end| end == "rb")).take(RUBY_FILES);
    if let Some(file) = ruby_files.find(|path| requires_sinatra(root, path)) {
        return found(AppKind::Sinatra, file);
    }
    if names.is_empty() {
        return Err(DetectError::Empty { root: root.to_path_buf() });
    }
    let entry = folder_with_index(root);
    // A folder `public` has nothing of what lies hidden beside it.
    let marks = if entry == root { &all } else { &names };
    if let Some(mark) = mark_of_application(marks, has_folder(root, "config")) {
        return Err(DetectError::NoEntry { root: root.to_path_buf(), mark });
    }
    if entry.join("index.html").is_file() {
        found(AppKind::Files, entry)
    } else {
        Err(DetectError::NoIndex { root: root.to_path_buf() })
    }
}

/// The files of a root that is to be a folder of files whatever it holds. Of an application those that it publishes
/// anyway.
fn files_of(root: &Path, detected: Result<Detected, DetectError>, public: &Path) -> PathBuf {
    match detected {
        Ok(Detected { kind: AppKind::Files, entry }) => entry,
        Err(DetectError::NoEntry { .. } | DetectError::NoIndex { .. } | DetectError::Empty { .. }) => {
            folder_with_index(root)
        }
        _ => root.join(public),
    }
}

fn folder_with_index(root: &Path) -> PathBuf {
    let public = root.join("public");
    if !root.join("index.html").is_file() && public.join("index.html").is_file() {
        public
    } else {
        root.to_path_buf()
    }
}

fn has_folder(root: &Path, name: &str) -> bool {
    fs::metadata(root.join(name)).is_ok_and(|found| found.is_dir())
}

fn mark_of_application(names: &[OsString], has_config: bool) -> Option<String> {
    let is_mark = |name: &str| {
        MARKS.contains(&name) || name.starts_with(SECRETS) || ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let named = names.iter().filter_map(|name| name.to_str()).find(|name| is_mark(name)).map(str::to_owned);
    named.or_else(|| has_config.then(|| "config/".to_owned()))
}

/// A line `require "sinatra"` (not sinatra/base: its classes are started by a config.ru).
fn requires_sinatra(root: &Path, path: &Path) -> bool {
    let beginning = || {
        let run_as = unix_user::of_files(&AccountRequest::default(), root).ok()?;
        unix_user::beginning(&run_as, path, LOOKED_AT).ok()
    };
    let Some(text) = beginning() else { return false };
    String::from_utf8_lossy(&text).lines().any(|line| {
        let mut words = line.split(|c: char| c.is_whitespace() || "\"'();".contains(c)).filter(|word| !word.is_empty());
        words.next() == Some("require") && words.next() == Some("sinatra")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn kinds() {
        for (files, kind, entry) in [
            (&[("config.ru", ""), ("config/application.rb", "")][..], AppKind::Rails, "config.ru"),
            (&[("config/environment.rb", "")], AppKind::Rails, "config.ru"),
            (&[("config.ru", ""), ("app.rb", "require 'sinatra'")], AppKind::Rack, "config.ru"),
            (&[("app.rb", "# hi\nrequire \"sinatra\"\n")], AppKind::Sinatra, "app.rb"),
            (&[("a.rb", "require 'sinatra'"), ("app.rb", "require('sinatra');")], AppKind::Sinatra, "app.rb"),
            (&[("hello.rb", "require 'sinatra'"), ("z.rb", "")], AppKind::Sinatra, "hello.rb"),
            (&[("index.html", ""), ("public/index.html", "")], AppKind::Files, ""),
            (&[("public/index.html", ""), ("README", "")], AppKind::Files, "public"),
            (&[("public/index.html", ""), (".env", ""), (".git/config", "")], AppKind::Files, "public"),
        ] {
            let folder = Folder::with(files);
            let found = detect(&folder.0).expect("detected");
            assert_eq!((found.kind, found.entry), (kind, folder.0.join(entry)), "{files:?}");
        }
    }

    #[test]
    fn no_more_ruby_files_are_looked_at_than_may_be() {
        let folder = Folder::with(&[("app.rb", "")]);
        (1..RUBY_FILES).for_each(|number| fs::write(folder.0.join(format!("a{number}.rb")), "").unwrap());
        fs::write(folder.0.join("z.rb"), "require 'sinatra'").unwrap();
        assert!(matches!(detect(&folder.0), Err(DetectError::NoEntry { .. })));
        fs::remove_file(folder.0.join("a1.rb")).unwrap();
        assert_eq!(detect(&folder.0).expect("detected").entry, folder.0.join("z.rb"));
    }

    #[test]
    fn an_application_without_an_entry_is_no_folder_of_files() {
        for (files, mark) in [
            (&[("Gemfile", ""), ("index.html", "")][..], "Gemfile"),
            (&[("gems.rb", "")], "gems.rb"),
            (&[("config/database.yml", ""), ("public/index.html", "")], "config/"),
            (&[("app.ru", ""), ("data.sqlite3", "")], "app.ru"),
            (&[("app.rb", "puts 1")], "app.rb"),
            (&[("Rakefile", ""), ("index.html", "")], "Rakefile"),
            (&[("hello.rb", "require 'sinatra/base'\n# require 'sinatra'")], "hello.rb"),
            (&[("index.html", ""), (".env.production", "A=1")], ".env.production"),
            (&[("index.html", ""), (".git/config", "")], ".git"),
            (&[("index.html", ""), ("shop.gemspec", "")], "shop.gemspec"),
        ] {
            let folder = Folder::with(files);
            let why = detect(&folder.0).unwrap_err().to_string();
            assert!(why.contains(&format!("has {mark}, but no config.ru")), "{why}");
            let mut site = SiteConfig::with_defaults(&folder.0, "production");
            site.kind = Some(AppKind::Files);
            assert_eq!(detect_site(&site, &folder.0).expect("said so").kind, AppKind::Files);
        }
        let folder = Folder::with(&[("config", "a file"), ("index.html", "")]);
        assert_eq!(detect(&folder.0).expect("files").kind, AppKind::Files);
    }

    #[test]
    fn a_folder_without_an_index_is_published_by_nobody_s_guess() {
        for files in [&[("notes.txt", "")][..], &[("public/notes.txt", ""), ("page.html", "")]] {
            let folder = Folder::with(files);
            let why = detect(&folder.0).unwrap_err().to_string();
            assert!(why.contains("and no index.html") && why.contains("kind = \"files\""), "{why}");
            let mut site = SiteConfig::with_defaults(&folder.0, "production");
            site.kind = Some(AppKind::Files);
            assert_eq!(detect_site(&site, &folder.0).expect("said so").entry, folder.0);
        }
    }

    #[test]
    fn a_rackup_file_that_is_named_is_an_application() {
        let folder = Folder::with(&[("app.ru", ""), ("guide.rb", "require 'sinatra'"), ("index.html", "")]);
        let kind = |rackup: &str| {
            let mut site = SiteConfig::with_defaults(&folder.0, "production");
            site.rackup = Some(folder.0.join(rackup));
            detect_site(&site, &folder.0).expect("an application").kind
        };
        assert_eq!(kind("app.ru"), AppKind::Rack);
        assert_eq!(kind("missing.ru"), AppKind::Rack);
        std::fs::remove_file(folder.0.join("guide.rb")).unwrap();
        assert_eq!(kind("app.ru"), AppKind::Rack);
        let rails = Folder::with(&[("config/environment.rb", ""), ("other.ru", "")]);
        let mut site = SiteConfig::with_defaults(&rails.0, "production");
        site.rackup = Some(rails.0.join("other.ru"));
        assert_eq!(detect_site(&site, &rails.0).expect("an application").kind, AppKind::Rails);
    }

    #[test]
    fn files_of_an_application_are_those_in_public() {
        let app = Folder::with(&[("config.ru", ""), ("public/a.html", "")]);
        let mut site = SiteConfig::with_defaults(&app.0, "production");
        site.kind = Some(AppKind::Files);
        assert_eq!(detect_site(&site, &app.0).expect("files").entry, app.0.join("public"));
    }

    #[test]
    fn nothing_to_serve() {
        let folder = Folder::with(&[(".hidden", "")]);
        assert!(detect(&folder.0).is_err_and(|why| why.to_string().contains("is empty; put a config.ru there")));
        assert!(matches!(detect(&folder.0.join("none")), Err(DetectError::Unreadable { .. })));
        assert!(matches!(detect(&folder.0.join(".hidden")), Err(DetectError::NotAFolder { .. })));
    }
}
