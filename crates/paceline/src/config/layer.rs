//! Settings of one source, and the view through several of them in order of precedence, down to the defaults.
//! It never reads a source itself.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    option::{Named, Opt, Preset},
    table::TableSetting,
    value::Value,
};

/// What one source says, by the keys of the options table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer(BTreeMap<&'static str, Value>);

impl Layer {
    pub fn set(&mut self, key: &'static str, value: Value) {
        self.0.insert(key, value);
    }

    /// Adds to a list or to tables that the layer has; replaces any other value.
    pub fn add(&mut self, key: &'static str, value: Value) {
        match (self.0.get_mut(key), value) {
            (Some(Value::List(list)), Value::List(mut more)) => list.append(&mut more),
            (Some(Value::Table(tables)), Value::Table(more)) => tables.append(more),
            (_, value) => self.set(key, value),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn table<T: TableSetting>(&self, key: &str) -> Option<&T> {
        match self.get(key)? {
            Value::Table(table) => table.get(),
            _ => None,
        }
    }

    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    pub fn keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut Value)> {
        self.0.iter_mut().map(|(key, value)| (*key, value))
    }
}

/// Several layers, the strongest first, and below them the defaults.
pub struct View<'a> {
    pub layers: Vec<&'a Layer>,
    pub cores: usize,
    named: Named,
    environment: String,
}

impl<'a> View<'a> {
    /// `named` knows the defaults.
    pub fn new(named: Named, layers: Vec<&'a Layer>, cores: usize) -> View<'a> {
        let mut view = View { layers, cores, named, environment: "development".into() };
        view.environment = view.text("environment").unwrap_or_default();
        view
    }

    pub fn environment(&self) -> &str {
        &self.environment
    }

    pub fn given(&self, key: &str) -> Option<&'a Value> {
        debug_assert!((self.named)(key).is_some(), "{key} is in the options table");
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.given(key).cloned().or_else(|| preset((self.named)(key)?, &self.environment, self.cores))
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

    /// That of the strongest layer that has one, or the default.
    pub fn table<T: TableSetting>(&self, key: &str) -> Option<T> {
        match self.value(key)? {
            Value::Table(table) => table.get().cloned(),
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
