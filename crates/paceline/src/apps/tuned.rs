//! What an application is started with beside its settings, once self-tuning has proved it. It decides and starts nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use crate::config::TunedSettings;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    pub environment: Environment,
    /// A file of an older server has none.
    #[serde(default)]
    pub settings: TunedSettings,
}

impl Tuned {
    pub fn is_empty(&self) -> bool {
        *self == Tuned::default()
    }

    /// It holds nothing but what may be tuned: one that comes from a file decides over no other code that is run.
    pub fn is_tuning(&self) -> bool {
        self.environment.is_tuning() && self.settings.is_valid()
    }
}

impl fmt::Display for Tuned {
    /// As `RUBYOPT=--yjit`, or `threads = 9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [self.environment.to_string(), self.settings.to_string()];
        let words: Vec<String> = words.into_iter().filter(|text| !text.is_empty()).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_told_and_checked() {
        let environment = Environment { ruby_options: vec!["--yjit".into()], ..Environment::default() };
        let settings = TunedSettings { threads: Some((1, 9)), jemalloc: true };
        let both = Tuned { environment: environment.clone(), settings: settings.clone() };
        assert_eq!(both.to_string(), "RUBYOPT=--yjit, threads = 9, allocator = \"jemalloc\"");
        assert!(both.is_tuning() && !both.is_empty() && Tuned::default().is_empty());
        assert_eq!(Tuned { environment, ..Tuned::default() }.to_string(), "RUBYOPT=--yjit");
        let too_many = TunedSettings { threads: Some((1, 4000)), ..settings };
        assert!(!Tuned { settings: too_many, ..Tuned::default() }.is_tuning());
    }

    #[test]
    fn what_an_older_server_has_kept() {
        let kept = "{\"environment\":{\"set\":{},\"unset\":[],\"ruby_options\":[\"--yjit\"]}}";
        let tuned: Tuned = serde_json::from_str(kept).unwrap();
        assert_eq!((tuned.to_string().as_str(), tuned.settings.is_empty()), ("RUBYOPT=--yjit", true));
    }
}
