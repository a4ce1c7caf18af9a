//! Settings of one source, and the view through several of them in order of precedence, down to the defaults.
//! It never reads a source itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    cluster_table,
    options::{named, Opt, Preset},
    process::ProcessConfig,
    rule::Rule,
    sign_on::SignOn,
    value::{From, Kind, Value},
};
use crate::cluster;

/// What one source says, by the keys of the options table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer(BTreeMap<&'static str, Value>);

impl Layer {
    pub fn set(&mut self, key: &'static str, value: Value) {
        debug_assert!(named(key).is_some(), "{key} is in the options table");
        self.0.insert(key, value);
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        debug_assert!(named(key).is_some(), "{key} is in the options table");
        self.0.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether it names a file of passwords that the server reads with its own rights.
    pub fn has_passwords(&self) -> bool {
        matches!(self.get("rule"), Some(Value::Rules(rules)) if rules.iter().any(|rule| rule.basic_auth.is_some()))
    }

    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    pub fn keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Makes relative paths absolute that are meant relative to `base`.
    pub fn anchor(&mut self, base: &Path) {
        for (key, value) in &mut self.0 {
            let (option, path) = match (named(key), value) {
                (Some(option), Value::Path(path)) => (option, path),
                (_, Value::SignOn(all)) => {
                    all.iter_mut().for_each(|one| one.anchor(base));
                    continue;
                }
                (_, Value::Rules(rules)) => {
                    rules.iter_mut().for_each(|rule| rule.anchor(base));
                    continue;
                }
                (_, Value::Cluster(settings)) => {
                    cluster_table::anchor(settings, base);
                    continue;
                }
                _ => continue,
            };
            match option.kind {
                Kind::Path { from: From::Settings, .. } => *path = base.join(&*path),
                Kind::Path { from: From::Search, .. } if path.components().count() > 1 => *path = base.join(&*path),
                _ => {}
            }
        }
    }
}

/// Several layers, the strongest first, and below them the defaults.
pub struct View<'a> {
    pub layers: Vec<&'a Layer>,
    pub cores: usize,
    environment: String,
}

impl<'a> View<'a> {
    pub fn new(layers: Vec<&'a Layer>, cores: usize) -> View<'a> {
        let mut view = View { layers, cores, environment: "development".into() };
        view.environment = view.text("environment").unwrap_or_default();
        view
    }

    pub fn environment(&self) -> &str {
        &self.environment
    }

    pub fn given(&self, key: &str) -> Option<&'a Value> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.given(key).cloned().or_else(|| preset(named(key)?, &self.environment, self.cores))
    }

    pub fn bool(&self, key: &str) -> bool {
        self.value(key) == Some(Value::Bool(true))
    }

    /// A number, a count (`auto` is the number of cores) or a size.
    pub fn number(&self, key: &str) -> u64 {
        self.number_or_off(key).unwrap_or(0)
    }

    pub fn number_or_off(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::Int(number) => Some(number),
            Value::Auto => Some(self.cores.max(1) as u64),
            _ => None,
        }
    }

    /// The least and the most of a number that may be given as two.
    pub fn between(&self, key: &str) -> (usize, usize) {
        match self.value(key) {
            Some(Value::Between(least, most)) => (least as usize, most as usize),
            _ => (self.count(key), self.count(key)),
        }
    }

    /// The least of a number that is given as two.
    pub fn least(&self, key: &str) -> Option<usize> {
        match self.value(key)? {
            Value::Between(least, _) => Some(least as usize),
            _ => None,
        }
    }

    pub fn is_auto(&self, key: &str) -> bool {
        self.value(key) == Some(Value::Auto)
    }

    pub fn count(&self, key: &str) -> usize {
        usize::try_from(self.number(key)).unwrap_or(usize::MAX)
    }

    pub fn time(&self, key: &str) -> Duration {
        self.time_or_off(key).unwrap_or_default()
    }

    pub fn time_or_off(&self, key: &str) -> Option<Duration> {
        match self.value(key)? {
            Value::Duration(time) => Some(time),
            _ => None,
        }
    }

    pub fn path(&self, key: &str) -> Option<PathBuf> {
        match self.value(key)? {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }

    pub fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Some(Value::List(list)) => list,
            _ => Vec::new(),
        }
    }

    /// Those of the strongest layer that has any.
    pub fn processes(&self, key: &str) -> Vec<ProcessConfig> {
        match self.given(key) {
            Some(Value::Processes(processes)) => processes.clone(),
            _ => Vec::new(),
        }
    }

    /// Those of the strongest layer that has any.
    pub fn rules(&self, key: &str) -> Vec<Rule> {
        match self.given(key) {
            Some(Value::Rules(rules)) => rules.clone(),
            _ => Vec::new(),
        }
    }

    /// Those of the strongest layer that has any.
    pub fn sign_on(&self, key: &str) -> Vec<SignOn> {
        match self.given(key) {
            Some(Value::SignOn(all)) => all.clone(),
            _ => Vec::new(),
        }
    }

    pub fn cluster(&self, key: &str) -> Option<cluster::Settings> {
        match self.given(key)? {
            Value::Cluster(settings) => Some((**settings).clone()),
            _ => None,
        }
    }

    /// All layers' tables in one; the strongest wins a name.
    pub fn map(&self, key: &str) -> BTreeMap<String, String> {
        let maps = self.layers.iter().rev().filter_map(|layer| match layer.get(key) {
            Some(Value::Map(map)) => Some(map.clone()),
            _ => None,
        });
        maps.flatten().collect()
    }
}

/// Environments in which somebody sits before the screen.
pub fn is_development(environment: &str) -> bool {
    matches!(environment, "development" | "test")
}

pub fn preset(option: &Opt, environment: &str, cores: usize) -> Option<Value> {
    let development = is_development(environment);
    let text = match option.preset {
        Preset::Unset(_) => return None,
        Preset::Fixed(text) => text,
        Preset::ByEnvironment { development: text, .. } if development => text,
        Preset::ByEnvironment { other, .. } => other,
        Preset::CoresUpTo(_) if development => "1",
        Preset::CoresUpTo(most) => return Some(Value::Int((cores as u64).clamp(1, most))),
    };
    option.kind.parse(text).ok()
}
