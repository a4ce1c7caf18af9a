//! Where an exception points: the app's root under both its names, and the file and line worth showing.
//! It finds no file by itself.

use super::{
    backtrace,
    excerpt::{self, SourceLine},
    Failure,
};
use std::path::{Path, PathBuf};
use unix_user::RunAs;

/// The app's directory as it was named and, when that is a symlink (Capistrano's `current`), as Ruby sees it.
#[derive(Debug, Clone)]
pub struct Root {
    named: PathBuf,
    real: Option<PathBuf>,
    read_as: Option<RunAs>,
}

impl Root {
    pub fn of(root: &Path) -> Root {
        let real = std::fs::canonicalize(root).ok().filter(|real| real != root);
        Root { named: root.to_path_buf(), real, read_as: RunAs::unless_root() }
    }

    /// This root, of which source is read with these rights. None: none is.
    pub fn read_as(self, read_as: Option<RunAs>) -> Root {
        Root { read_as, ..self }
    }

    /// The lines around a place. Empty where there are none, or where they may not be read.
    pub fn excerpt(&self, place: &Place) -> Vec<SourceLine> {
        let lines = |run_as| excerpt::read(run_as, &self.full(&place.file), place.line.unwrap_or(0), 5);
        self.read_as.as_ref().map_or_else(Vec::new, lines)
    }

    /// The path below the root; None for what is elsewhere. Relative paths are below it: Ruby runs there.
    pub fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        if path.is_relative() {
            return Some(path.strip_prefix(".").unwrap_or(path)).filter(|path| !path.as_os_str().is_empty());
        }
        let real = || path.strip_prefix(self.real.as_deref()?).ok();
        path.strip_prefix(&self.named).ok().or_else(real)
    }

    pub fn full(&self, path: &Path) -> PathBuf {
        self.named.join(path)
    }

    /// Below the root without it, elsewhere whole.
    pub fn short(&self, path: &Path) -> String {
        self.below(path).unwrap_or(path).display().to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    pub line: Option<u32>,
    /// Of the app (its source is worth showing) or of a gem.
    pub of_app: bool,
}

impl Place {
    /// `config/routes.rb`, or of a gem `railties-6.1.7 lib/rails.rb`.
    pub fn shown(&self, root: &Root) -> String {
        if self.of_app {
            return root.short(&self.file);
        }
        backtrace::frame(&self.file.to_string_lossy(), root).to_string()
    }
}

/// The most telling place: the file that can't be read when the message names one, else where the app's code was.
pub fn place(failure: &Failure, root: &Root) -> Option<Place> {
    let Failure::Exception { class, message, file, line, cause, .. } = failure else { return None };
    let cause = cause.as_deref().unwrap_or_default();
    if class == "Psych::SyntaxError" || message.contains("YAML syntax error") {
        if let Some(place) = yaml(message, root) {
            return Some(place);
        }
    }
    if let Some(file) = message.strip_prefix("expected file ").and_then(|text| text.split(" to define ").next()) {
        return Some(Place { of_app: root.below(file.as_ref()).is_some(), file: file.into(), line: Some(1) });
    }
    let told = file.as_ref().map(|file| Place { file: file.clone(), line: *line, of_app: root.below(file).is_some() });
    match told {
        Some(place) if place.of_app => Some(place),
        told => named(cause, root).or_else(|| named(message, root)).or(told),
    }
}

/// `(config/x.yml): did not find ... at line 5 column 1`, `parsing /srv/app/config/database.yml. Please ...`
fn yaml(message: &str, root: &Root) -> Option<Place> {
    let between = |start: &str, end: &str| message.split_once(start)?.1.split_once(end).map(|(found, _)| found);
    let file = between("occurred while parsing ", ". Please")
        .or_else(|| between("(", ")").filter(|file| file.contains('.')))?;
    let line = between("at line ", " ").and_then(|line| line.parse().ok());
    Some(Place { file: file.into(), line, of_app: root.below(file.as_ref()).is_some() })
}

/// The first `/srv/app/Gemfile:4` in a text.
fn named(text: &str, root: &Root) -> Option<Place> {
    let words = text.split([' ', '\n', '`', '\'', '"', '(', ')']);
    words.filter(|word| word.starts_with('/')).find_map(|word| {
        let mut parts = word.split(':');
        let file = Path::new(parts.next()?);
        let line = parts.next()?.parse().ok()?;
        root.below(file).map(|_| Place { file: file.to_path_buf(), line: Some(line), of_app: true })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn the_telling_place_is_found() {
        let gem = "/g/gems/bundler-2.3/lib/bundler/dsl.rb";
        for (class, message, cause, file, expected) in [
            ("NameError", "x", "", "/srv/app/config/routes.rb", ("/srv/app/config/routes.rb", 9, true)),
            ("Bundler::Dsl::DSLError", "[!] There was an error\n #  from /srv/app/Gemfile:4\n", "", gem, ("/srv/app/Gemfile", 4, true)),
            ("Bundler::Dsl::DSLError", "[!] There was an error", "SyntaxError: /srv/app/Gemfile:2: unterminated", gem, ("/srv/app/Gemfile", 2, true)),
            ("Psych::SyntaxError", "(config/x.yml): no key at line 5 column 1", "", "/srv/app/app.rb", ("config/x.yml", 5, true)),
            ("Psych::SyntaxError", "(<unknown>): no key at line 5 column 1", "", "/srv/app/app.rb", ("/srv/app/app.rb", 9, true)),
            ("RuntimeError", "Cannot load:\nYAML syntax error occurred while parsing /srv/app/config/database.yml. Please note. Error: (<unknown>): x at line 3 column 2", "", gem, ("/srv/app/config/database.yml", 3, true)),
            ("Zeitwerk::NameError", "expected file /srv/app/app/models/a.rb to define constant A, but didn't", "", gem, ("/srv/app/app/models/a.rb", 1, true)),
            ("RuntimeError", "boom", "", gem, (gem, 9, false)),
        ] {
            let failure = Failure::Exception {
                class: class.into(), message: message.into(), file: Some(file.into()), line: Some(9),
                backtrace: vec![], cause: Some(cause.into()), detail: None,
            };
            let (file, line, of_app) = expected;
            assert_eq!(place(&failure, &Root::of("/srv/app".as_ref())), Some(Place { file: file.into(), line: Some(line), of_app }), "{message}");
        }
    }

    #[test]
    fn a_linked_root_is_known_under_both_names() {
        let base = std::env::temp_dir().join(format!("paceline-root-{}", std::process::id()));
        std::fs::create_dir_all(base.join("releases/1")).unwrap();
        std::os::unix::fs::symlink(base.join("releases/1"), base.join("current")).unwrap();
        let root = Root::of(&base.join("current"));
        assert_eq!(root.short(&base.join("releases/1/app.rb")), "app.rb");
        assert_eq!(root.short(&base.join("current/app.rb")), "app.rb");
        assert_eq!(root.below(&base.join("releases/2/app.rb")), None);
        assert_eq!(root.short("./config.ru".as_ref()), "config.ru");
        std::fs::remove_dir_all(base).unwrap();
    }
}
