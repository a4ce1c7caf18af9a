//! Tells from a folder's files what kind of application it holds.
//! It never runs any of it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use super::AppKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    pub kind: AppKind,
    /// Rails and Rack: the rackup file (for Rails it may not exist; config/environment.rb does then).
    /// Sinatra: its Ruby file. Files: the folder to serve.
    pub entry: PathBuf,
}

#[derive(Debug)]
pub enum DetectError {
    Unreadable { root: PathBuf, cause: io::Error },
    NotAFolder { root: PathBuf },
    Empty { root: PathBuf },
}

impl fmt::Display for DetectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DetectError::Unreadable { root, cause } => write!(out, "{}: cannot be read: {cause}", root.display()),
            DetectError::NotAFolder { root } => {
                write!(out, "{}: is no directory; name the application's folder", root.display())
            }
            DetectError::Empty { root } => write!(
                out,
                "{}: is empty; put a config.ru there (or an index.html), or make an application with: rails new {}",
                root.display(),
                root.display()
            ),
        }
    }
}

impl std::error::Error for DetectError {}

pub fn detect(root: &Path) -> Result<Detected, DetectError> {
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
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    // app.rb is the usual name; other files come in the order of the alphabet.
    names.sort_by_key(|name| (name != "app.rb", name.clone()));
    let mut ruby_files =
        names.iter().map(|name| root.join(name)).filter(|path| path.extension().is_some_and(|end| end == "rb"));
    if let Some(file) = ruby_files.find(|path| requires_sinatra(path)) {
        return found(AppKind::Sinatra, file);
    }
    if names.is_empty() {
        return Err(DetectError::Empty { root: root.to_path_buf() });
    }
    let public = root.join("public");
    let folder = if !has("index.html") && public.join("index.html").is_file() { public } else { root.to_path_buf() };
    found(AppKind::Files, folder)
}

/// A line `require "sinatra"` (not sinatra/base: its classes are started by a config.ru).
fn requires_sinatra(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else { return false };
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
            (&[("hello.rb", "require 'sinatra/base'\n# require 'sinatra'")], AppKind::Files, ""),
            (&[("index.html", ""), ("public/index.html", "")], AppKind::Files, ""),
            (&[("public/index.html", ""), ("README", "")], AppKind::Files, "public"),
            (&[("notes.txt", "")], AppKind::Files, ""),
        ] {
            let folder = Folder::with(files);
            let found = detect(&folder.0).expect("detected");
            assert_eq!((found.kind, found.entry), (kind, folder.0.join(entry)), "{files:?}");
        }
    }

    #[test]
    fn nothing_to_serve() {
        let folder = Folder::with(&[(".hidden", "")]);
        assert!(detect(&folder.0).is_err_and(|why| why.to_string().contains("is empty; put a config.ru there")));
        assert!(matches!(detect(&folder.0.join("none")), Err(DetectError::Unreadable { .. })));
        assert!(matches!(detect(&folder.0.join(".hidden")), Err(DetectError::NotAFolder { .. })));
    }
}
