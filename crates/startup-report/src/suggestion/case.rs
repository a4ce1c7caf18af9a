//! The failed start as the rules see it: symptoms (a class and a message each) and the app around them.
//! It never decides anything.

use super::Surroundings;
use crate::{phrases, place::Root, Failure, StartupReport};
use std::path::Path;

/// One thing that was said to be wrong: the exception, its cause, or one the app printed before it ended.
#[derive(Debug, Clone, Default)]
pub struct Symptom {
    pub class: String,
    /// Message and detail.
    pub message: String,
    pub file: Option<std::path::PathBuf>,
    pub line: Option<u32>,
}

impl Symptom {
    pub fn is(&self, classes: &[&str]) -> bool {
        classes.contains(&self.class.as_str())
    }

    pub fn says(&self, needle: &str) -> bool {
        self.message.contains(needle)
    }

    pub fn says_any(&self, needles: &[&str]) -> bool {
        needles.iter().any(|needle| self.says(needle))
    }

    /// What follows `start` in the message up to the first of `ends` (or the end of the line).
    pub fn after(&self, start: &str, ends: &[char]) -> Option<&str> {
        let at = self.message.find(start)? + start.len();
        let rest = self.message.get(at..)?.lines().next()?;
        let found = rest.split(ends).next().unwrap_or(rest).trim();
        (!found.is_empty()).then_some(found)
    }

    /// `config/routes.rb:12`, when it is the app's.
    pub fn place(&self, case: &Case) -> Option<String> {
        let file = case.root.below(self.file.as_deref()?)?.display().to_string();
        Some(self.line.map_or(file.clone(), |line| format!("{file}:{line}")))
    }
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    Start,
    Request,
}

pub struct Case<'a> {
    pub report: &'a StartupReport,
    pub seen: &'a dyn Surroundings,
    pub root: Root,
    pub occasion: Occasion,
}

impl Case<'_> {
    /// Is there such a file in the app (or anywhere, when absolute)?
    pub fn has(&self, path: &str) -> bool {
        self.seen.exists(&self.report.root.join(path))
    }

    pub fn is_rails(&self) -> bool {
        self.has("bin/rails") || self.has("config/application.rb")
    }

    pub fn below_root(&self, path: &Path) -> String {
        self.root.short(path)
    }

    /// The app runs where its developers work on it.
    pub fn is_development(&self) -> bool {
        matches!(self.report.environment.as_str(), "development" | "")
    }

    /// What to check of a file that is missing.
    pub fn name_of_file(&self) -> &'static str {
        if self.is_development() {
            "its name"
        } else {
            "its name, and that it was deployed"
        }
    }

    /// Where a gem that the Gemfile seems to lack may be.
    pub fn or_group(&self) -> String {
        if self.is_development() {
            String::new()
        } else {
            format!(", or has it only in a group that {} does not load", self.report.environment)
        }
    }

    /// What the exception was raised because of, in its words.
    pub fn cause(&self) -> Option<&str> {
        let Some(Failure::Exception { cause, .. }) = &self.report.failure else { return None };
        cause.as_deref().filter(|cause| !cause.is_empty())
    }

    /// The exception came through code of this file, whose name is enough.
    pub fn came_through(&self, file: &str) -> bool {
        let Some(Failure::Exception { backtrace, .. }) = &self.report.failure else { return false };
        backtrace.iter().any(|frame| frame.contains(file))
    }

    /// `RAILS_ENV=production bin/rails db:migrate`. None: the app has no tasks.
    pub fn rails(&self, task: &str) -> Option<String> {
        if !self.is_rails() && !self.has("Rakefile") {
            return None;
        }
        let variable = if self.is_rails() { "RAILS_ENV" } else { "RACK_ENV" };
        let program = match () {
            () if self.has("bin/rails") => "bin/rails",
            () if self.is_rails() && self.has("Gemfile") => "bundle exec rails",
            () if self.is_rails() => "rails",
            () if self.has("Gemfile") => "bundle exec rake",
            () => "rake",
        };
        // Plain Rack apps with ActiveRecord or Sequel have tasks of their own, by custom of this name.
        let task = if !self.is_rails() && task == "db:prepare" { "db:migrate" } else { task };
        Some(format!("{}{program} {task}", self.environment(variable)))
    }

    /// `RAILS_ENV=production ` or, in development, nothing.
    pub fn environment(&self, variable: &str) -> String {
        if self.is_development() {
            String::new()
        } else {
            format!("{variable}={} ", shell(&self.report.environment))
        }
    }

    pub fn exception_symptoms(&self) -> Vec<Symptom> {
        let Some(Failure::Exception { class, message, file, line, cause, detail, .. }) = &self.report.failure else {
            return Vec::new();
        };
        let message = match detail {
            Some(detail) if !detail.is_empty() => format!("{message}\n{detail}"),
            _ => message.clone(),
        };
        let told = Symptom { class: class.clone(), message, file: file.clone(), line: *line };
        let exits = class == "SystemExit";
        let mut symptoms = if exits { Vec::new() } else { vec![told.clone()] };
        let causes = phrases::causes(cause.as_deref()).filter_map(|cause| cause.split_once(": "));
        symptoms.extend(causes.map(|(class, message)| Symptom {
            class: class.into(),
            message: message.into(),
            file: None,
            line: None,
        }));
        // A process that exits has printed its reason, or there is none to read.
        if exits {
            symptoms.extend(self.printed_symptoms());
            symptoms.push(told);
        }
        symptoms
    }

    /// Exceptions that Ruby printed on its way out, `path:12:in 'x': message (Class)`, and what Bundler says without
    /// one.
    pub fn printed_symptoms(&self) -> Vec<Symptom> {
        let output = &self.report.output;
        let mut symptoms: Vec<Symptom> = output.iter().rev().filter_map(|line| printed(line)).collect();
        for line in output.iter().rev() {
            let class = match line.trim() {
                line if line.starts_with("Could not find gem")
                    || line.contains("in locally installed gems")
                    || line.ends_with(".gem for installation") =>
                {
                    "Bundler::GemNotFound"
                }
                line if line.starts_with("Your Ruby version is") => "Bundler::RubyVersionMismatch",
                line if line.contains("There was an error parsing `") => "Bundler::Dsl::DSLError",
                line if line.starts_with("Missing `secret_key_base`") => "ArgumentError",
                line if line.contains("Migrations are pending") => "ActiveRecord::PendingMigrationError",
                _ => continue,
            };
            symptoms.push(Symptom { class: class.into(), message: line.trim().into(), file: None, line: None });
        }
        symptoms
    }
}

fn printed(line: &str) -> Option<Symptom> {
    let (rest, class) = line.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    let named = class.chars().next().is_some_and(|c| c.is_ascii_uppercase())
        && class.chars().all(|c| c.is_alphanumeric() || c == ':' || c == '_');
    if !named {
        return None;
    }
    let (place, message) = match rest.split_once(":in ") {
        Some((place, said)) => (place, said.split_once(": ").map_or(said, |(_, message)| message)),
        None => rest.split_once(": ").unwrap_or(("", rest)),
    };
    let (file, number) = place.rsplit_once(':').unwrap_or((place, ""));
    let file = (!file.is_empty()).then(|| file.trim().into());
    Some(Symptom { class: class.into(), message: message.into(), file, line: number.parse().ok() })
}

/// Quoted for a shell where it must be.
pub fn shell(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-/:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn printed_exceptions_are_read() {
        for (line, class, message, file, number) in [
            ("/srv/app/x.rb:3:in `<main>': no way (RuntimeError)", "RuntimeError", "no way", "/srv/app/x.rb", Some(3)),
            ("/a/b.rb:9:in 'Kernel#require': cannot load such file -- x (LoadError)", "LoadError", "cannot load such file -- x", "/a/b.rb", Some(9)),
            ("config.ru:1: syntax error, unexpected end (SyntaxError)", "SyntaxError", "syntax error, unexpected end", "config.ru", Some(1)),
        ] {
            let symptom = printed(line).unwrap();
            assert_eq!((symptom.class.as_str(), symptom.message.as_str()), (class, message));
            assert_eq!((symptom.file.unwrap().to_str().unwrap(), symptom.line), (file, number));
        }
        for line in ["", "hello (world)", "listening (3 threads)", "=> Booting Puma", "()"] {
            assert!(printed(line).is_none(), "{line}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn shell_words_are_quoted_where_needed() {
        for (word, quoted) in [("production", "production"), ("a b", "'a b'"), ("", "''"), ("it's; rm", r"'it'\''s; rm'"), ("$(x)", "'$(x)'")] {
            assert_eq!(shell(word), quoted);
        }
    }
}
