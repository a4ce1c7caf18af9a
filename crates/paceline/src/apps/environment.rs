//! A change of the environment that an application's Ruby is started in, beside what the server and its settings say. It
//! starts nothing.

use std::{collections::BTreeMap, ffi::OsString, fmt};

use serde::{Deserialize, Serialize};

/// Tells a preloader that visitors are served on this machine: it gives way to every other process
/// (gem/lib/paceline/server/background.rb).
const BACKGROUND: &str = "PACELINE_BACKGROUND";

/// Another environment than the server would give.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub set: BTreeMap<String, String>,
    pub unset: Vec<String>,
    /// Words for RUBYOPT, beside those it has.
    pub ruby_options: Vec<String>,
}

impl Environment {
    pub fn is_empty(&self) -> bool {
        *self == Environment::default()
    }

    /// The same for a process that gives way to all others.
    pub fn in_background(&self) -> Environment {
        let mut changed = self.clone();
        changed.set.insert(BACKGROUND.into(), "1".into());
        changed
    }

    /// This one, and then `change`, whose words win.
    pub fn changed_by(&self, change: &Environment) -> Environment {
        let Environment { mut set, mut unset, mut ruby_options } = self.clone();
        set.retain(|name, _| !change.unset.contains(name));
        unset.retain(|name| !change.set.contains_key(name) && !change.unset.contains(name));
        ruby_options.retain(|word| !change.ruby_options.contains(word));
        set.extend(change.set.clone());
        unset.extend(change.unset.clone());
        ruby_options.extend(change.ruby_options.clone());
        Environment { set, unset, ruby_options }
    }

    pub fn apply(&self, env: &mut BTreeMap<OsString, OsString>) {
        for name in &self.unset {
            env.remove(&OsString::from(name));
        }
        env.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        if !self.ruby_options.is_empty() {
            let options = env.entry("RUBYOPT".into()).or_default();
            if !options.is_empty() {
                options.push(" ");
            }
            options.push(self.ruby_options.join(" "));
        }
    }

    /// It holds nothing but what may be tuned: one that comes from a file decides over no other code that is run.
    pub fn is_tuning(&self) -> bool {
        let is_name = |name: &String| name.starts_with("RUBY_GC_") || name == "MALLOC_ARENA_MAX";
        let is_number =
            |value: &String| value.len() <= 20 && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_option = |word: &String| word == "--yjit";
        self.set.iter().all(|(name, value)| is_name(name) && is_number(value))
            && self.unset.iter().all(is_name)
            && self.ruby_options.iter().all(is_option)
    }
}

impl fmt::Display for Environment {
    /// As `RUBYOPT=--yjit, without RUBY_GC_HEAP_GROWTH_FACTOR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.ruby_options.join(" ");
        let options = (!options.is_empty()).then(|| format!("RUBYOPT={options}"));
        let set = self.set.iter().map(|(name, value)| format!("{name}={value}"));
        let unset = self.unset.iter().map(|name| format!("without {name}"));
        let words: Vec<String> = options.into_iter().chain(set).chain(unset).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_application_is_started_with() {
        let change = Environment {
            set: BTreeMap::from([("RUBY_GC_HEAP_FREE_SLOTS".into(), "200000".into())]),
            unset: vec!["RUBY_GC_HEAP_GROWTH_FACTOR".into()],
            ruby_options: vec!["--yjit".into()],
        };
        let mut env: BTreeMap<OsString, OsString> = [("RUBYOPT", "-W0"), ("RUBY_GC_HEAP_GROWTH_FACTOR", "1.1")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        change.apply(&mut env);
        let shown: Vec<_> = env.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        assert_eq!(shown, ["RUBYOPT=-W0 --yjit", "RUBY_GC_HEAP_FREE_SLOTS=200000"]);
        assert_eq!(
            change.to_string(),
            "RUBYOPT=--yjit, RUBY_GC_HEAP_FREE_SLOTS=200000, without RUBY_GC_HEAP_GROWTH_FACTOR"
        );
        let mut background = BTreeMap::new();
        Environment::default().in_background().apply(&mut background);
        assert_eq!(background, BTreeMap::from([(BACKGROUND.into(), "1".into())]));
        assert!(change.is_tuning() && Environment::default().is_tuning() && Environment::default().is_empty());
    }

    #[test]
    fn of_two_changes_the_second_wins() {
        let set = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let (slots, factor) = ("RUBY_GC_HEAP_FREE_SLOTS", "RUBY_GC_HEAP_GROWTH_FACTOR");
        let yjit = vec!["--yjit".to_owned()];
        let first = Environment { set: set(slots, "1"), unset: vec![factor.into()], ruby_options: yjit.clone() };
        let second = Environment { set: set(factor, "1.1"), unset: vec![slots.into()], ruby_options: yjit };
        assert_eq!(first.changed_by(&second), second);
        let both = first.changed_by(&Environment { set: set("MALLOC_ARENA_MAX", "2"), ..Environment::default() });
        let expected =
            "RUBYOPT=--yjit, MALLOC_ARENA_MAX=2, RUBY_GC_HEAP_FREE_SLOTS=1, without RUBY_GC_HEAP_GROWTH_FACTOR";
        assert_eq!(both.to_string(), expected);
    }

    #[test]
    fn a_file_decides_over_no_code() {
        let set = |name: &str, value: &str| Environment {
            set: BTreeMap::from([(name.into(), value.into())]),
            ..Environment::default()
        };
        let option = Environment { ruby_options: vec!["-r/tmp/x".into()], ..Environment::default() };
        let unset = Environment { unset: vec!["RAILS_ENV".into()], ..Environment::default() };
        for change in [set("LD_PRELOAD", "1"), set("RUBY_GC_HEAP_FREE_SLOTS", "/tmp/x"), option, unset] {
            assert!(!change.is_tuning(), "{change}");
        }
    }
}
