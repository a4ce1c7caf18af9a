//! A change of the environment that an application's Ruby is started in, beside what the server and its settings say. It
//! starts nothing.

use std::{collections::BTreeMap, ffi::OsString, fmt};

/// Tells a preloader that visitors are served on this machine: it gives way to every other process
/// (gem/lib/paceline/server/background.rb).
const BACKGROUND: &str = "PACELINE_BACKGROUND";

/// Another environment than the server would give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub set: BTreeMap<String, String>,
    pub unset: Vec<String>,
    /// Words for RUBYOPT, beside those it has.
    pub ruby_options: Vec<String>,
}

impl Environment {
    /// This environment for a process that gives way to all others.
    pub fn in_background(&self) -> Environment {
        let mut changed = self.clone();
        changed.set.insert(BACKGROUND.into(), "1".into());
        changed
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
    }
}
