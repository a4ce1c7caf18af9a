//! Typed values of a table's keys, and what is said if they are something else. It never names a key by itself.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use toml_edit::{Item, TableLike};
use units::parse_duration;

/// What is wrong with a table. Its words go behind the name of the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("has in {table} {}, not {key:?}{}", keys.join(", "), hint.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default())]
    UnknownKey { table: String, key: String, keys: &'static [&'static str], hint: Option<&'static str> },
    #[error("must have {expected} as {key} in {table}, not {found}")]
    Mismatch { table: String, key: &'static str, expected: &'static str, found: String },
    #[error("needs {key} in {table}: add {example}")]
    Missing { table: String, key: &'static str, example: &'static str },
    #[error("must not have {key} in {table}: {why}")]
    Refused { table: String, key: String, why: &'static str },
    #[error("{0}")]
    Other(String),
}

impl TableError {
    /// The key that is wrong.
    pub fn key(&self) -> Option<&str> {
        match self {
            TableError::UnknownKey { key, .. } | TableError::Refused { key, .. } => Some(key),
            TableError::Mismatch { key, .. } => Some(key),
            TableError::Missing { .. } | TableError::Other(_) => None,
        }
    }
}

/// A table, its name for messages, and what has been wrong with it.
pub struct Table<'a> {
    pub table: &'a dyn TableLike,
    /// `kerberos` of `[[sso]] path = "/*"`.
    pub name: String,
}

impl<'a> Table<'a> {
    /// Refuses keys that are none of these.
    pub fn check(&self, keys: &'static [&'static str]) -> Result<(), TableError> {
        let Some((key, _)) = self.table.iter().find(|(key, _)| !keys.contains(key)) else { return Ok(()) };
        let near = keys.iter().map(|known| (strsim::damerau_levenshtein(key, known), *known)).min();
        let hint = near.filter(|(distance, known)| *distance <= 1 + known.len() / 4).map(|(_, known)| known);
        Err(TableError::UnknownKey { table: self.name.clone(), key: key.to_owned(), keys, hint })
    }

    pub fn item(&self, key: &str) -> Option<&'a Item> {
        self.table.get(key)
    }

    pub fn wrong(&self, key: &'static str, expected: &'static str, found: impl std::fmt::Debug) -> TableError {
        TableError::Mismatch { table: self.name.clone(), key, expected, found: format!("{found:?}") }
    }

    pub fn missing(&self, key: &'static str, example: &'static str) -> TableError {
        TableError::Missing { table: self.name.clone(), key, example }
    }

    pub fn refused(&self, key: &str, why: &'static str) -> TableError {
        TableError::Refused { table: self.name.clone(), key: key.to_owned(), why }
    }

    pub fn mismatch(&self, key: &'static str, expected: &'static str, item: &Item) -> TableError {
        let found = match item.as_value() {
            Some(value) => value.clone().decorated("", "").to_string(),
            None => format!("a TOML {}", item.type_name()),
        };
        TableError::Mismatch { table: self.name.clone(), key, expected, found }
    }

    pub fn text(&self, key: &'static str) -> Result<Option<String>, TableError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        match item.as_str() {
            Some(text) if !text.is_empty() && !text.chars().any(char::is_control) => Ok(Some(text.to_owned())),
            _ => Err(self.mismatch(key, "a string", item)),
        }
    }

    pub fn path(&self, key: &'static str) -> Result<Option<PathBuf>, TableError> {
        Ok(self.text(key)?.map(PathBuf::from))
    }

    pub fn bool(&self, key: &'static str) -> Result<bool, TableError> {
        let Some(item) = self.item(key) else { return Ok(false) };
        item.as_bool().ok_or_else(|| self.mismatch(key, "true or false", item))
    }

    /// One string or a list of them. None: the key is not there.
    pub fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>, TableError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let texts: Option<Vec<String>> = match (item.as_str(), item.as_array()) {
            (Some(text), _) => Some(vec![text.to_owned()]),
            (None, Some(array)) => array.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let is_fine = |text: &String| !text.is_empty() && !text.chars().any(char::is_control);
        match texts.filter(|texts| texts.iter().all(is_fine)) {
            Some(texts) => Ok(Some(texts)),
            None => Err(self.mismatch(key, "a string or a list of strings", item)),
        }
    }

    /// Patterns of paths. None: the key is not there.
    pub fn patterns(&self, key: &'static str) -> Result<Option<Vec<String>>, TableError> {
        let patterns = self.texts(key)?;
        let is_path = |pattern: &&String| {
            pattern.starts_with('/')
                && pattern.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?#\\".contains(&byte))
                && !pattern.contains("//")
                && !pattern.split('/').any(|segment| segment == "." || segment == "..")
        };
        match patterns.iter().flatten().find(|pattern| !is_path(pattern)) {
            Some(wrong) => Err(self.wrong(key, "plain paths like \"/admin/*\", without %, ? and ..", wrong)),
            None => Ok(patterns),
        }
    }

    /// One of these words, or the first of them.
    pub fn word<T: Copy>(
        &self,
        key: &'static str,
        expected: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, TableError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let found = item.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| Some(*value)).ok_or_else(|| self.mismatch(key, expected, item))
    }

    /// A time between these.
    pub fn time(
        &self,
        key: &'static str,
        expected: &'static str,
        bounds: RangeInclusive<Duration>,
    ) -> Result<Option<Duration>, TableError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let time = item.as_str().and_then(parse_duration).filter(|time| bounds.contains(time));
        time.map(Some).ok_or_else(|| self.mismatch(key, expected, item))
    }

    /// A table within this one.
    pub fn table(&self, key: &'static str) -> Result<Option<Table<'a>>, TableError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let table = item.as_table_like().ok_or_else(|| self.mismatch(key, "a table", item))?;
        Ok(Some(Table { table, name: format!("{key} of {}", self.name) }))
    }
}
