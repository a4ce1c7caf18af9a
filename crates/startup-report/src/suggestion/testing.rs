//! A machine made of a list, for the rules' tables.
//! It never looks at the real one.

use super::{suggest_with, Suggestion, Surroundings};
use crate::{Failure, StartupReport};
use std::path::Path;

/// Files that exist (below /srv/app if they are not absolute), or programs as `$name`.
pub struct Machine(pub &'static [&'static str]);

impl Surroundings for Machine {
    fn exists(&self, path: &Path) -> bool {
        self.0.iter().any(|file| Path::new("/srv/app").join(file) == path)
    }

    fn owner(&self, _: &Path) -> Option<String> {
        Some("root".into())
    }

    fn user(&self) -> String {
        "deploy".into()
    }

    fn program(&self, name: &str) -> bool {
        self.0.iter().any(|file| file.strip_prefix('$') == Some(name))
    }

    fn port_holder(&self, port: u16) -> Option<String> {
        (port == 3000).then(|| "puma (pid 4711)".into())
    }

    fn first_line(&self, path: &Path) -> Option<String> {
        path.ends_with(".ruby-version").then(|| "3.3.0".into())
    }
}

pub const RAILS: Machine = Machine(&["bin/rails", "config/application.rb", "Gemfile", "config/database.yml"]);
pub const RACK: Machine = Machine(&["config.ru"]);
pub const BUNDLED: Machine = Machine(&["config.ru", "Gemfile", "Rakefile"]);
pub const DEBIAN: Machine = Machine(&["config.ru", "Gemfile", "/usr/share/rubygems-integration"]);

pub fn report(environment: &str, failure: Failure) -> StartupReport {
    let mut report = StartupReport::new("app", "/srv/app", environment);
    report.versions = "ruby 3.1.2".into();
    report.fail(failure);
    report
}

pub fn exception(class: &str, message: &str) -> Failure {
    Failure::Exception {
        class: class.into(),
        message: message.into(),
        file: Some("/srv/app/config/x.rb".into()),
        line: Some(7),
        backtrace: vec![],
        cause: None,
        detail: None,
    }
}

/// An exception with a cause, as `KeyError: key not found`.
pub fn exception_of(class: &str, message: &str, told: &str) -> Failure {
    let mut failure = exception(class, message);
    if let Failure::Exception { cause, .. } = &mut failure {
        *cause = Some(told.into());
    }
    failure
}

/// One row of a table: the class and message must lead to this text and command (`-`: no command).
pub fn row(machine: &Machine, class: &str, message: &str, text: &str, command: &str) {
    let found = suggest_with(&report("production", exception(class, message)), machine);
    check(found, text, command, message);
}

pub fn check(found: Option<Suggestion>, text: &str, command: &str, what: &str) {
    let Some(found) = found else { panic!("no suggestion for {what}") };
    assert!(found.text.contains(text), "{what}: {:?} lacks {text:?}", found.text);
    assert_eq!(found.command.as_deref().unwrap_or("-"), command, "{what}: {:?}", found.text);
}
