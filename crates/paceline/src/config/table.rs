//! Settings that are tables of TOML, such as `[[rule]]`: how the settings' reader and their sources see one. What may stand in
//! a table its part says, by implementing [`TableSetting`]. It knows no setting by name.

use std::{
    any::Any,
    fmt::{Debug, Display},
    ops::Range,
    path::Path,
};

use toml_edit::{Item, TableLike};

/// The value of a setting that is a table. `Vec` of a [`TableItem`] is that of a setting that is several.
pub trait TableSetting: Any + Clone + Debug + PartialEq + Send + Sync {
    /// What the setting must be. Its words go behind "must be".
    const WORDS: &'static str;
    /// A value in TOML that is not the default, for tests.
    const EXAMPLE: &'static str;
    /// What `--help` shows behind the flag, if the setting has one.
    const PLACEHOLDER: &'static str;
    /// A flag may be given several times: each adds to the ones before.
    const REPEATS: bool = false;

    /// Reads the value of a paceline.toml. None: it is of another type.
    fn from_toml(item: &Item) -> Option<Result<Self, TableProblem>>;

    /// Reads a flag, a variable or a line of config/puma.rb. None: the setting can't be given as text.
    fn from_text(_: &str) -> Option<Result<Self, TableProblem>> {
        None
    }

    /// Takes in what a second flag says: it replaces the first, unless the setting `REPEATS`.
    fn append(&mut self, more: Self) {
        *self = more;
    }

    /// Makes relative paths absolute that are meant relative to `base`.
    fn anchor(&mut self, _base: &Path) {}
}

/// One of the tables of a setting that may have several.
pub trait TableItem: Any + Clone + Debug + PartialEq + Send + Sync {
    /// As [`TableSetting::WORDS`].
    const WORDS: &'static str;
    /// As [`TableSetting::EXAMPLE`].
    const EXAMPLE: &'static str;
    /// As [`TableSetting::PLACEHOLDER`].
    const PLACEHOLDER: &'static str = "TABLES";
    /// Why a table can't be used. Its words go behind the setting's name.
    type Error: Display;

    fn read(table: &dyn TableLike) -> Result<Self, Self::Error>;

    /// None: it can't be given as text.
    fn parse(_: &str) -> Option<Result<Self, Self::Error>> {
        None
    }

    /// What is wrong with all of them together.
    fn check(_: &[Self]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// As [`TableSetting::anchor`].
    fn anchor(&mut self, _base: &Path) {}

    /// The key that is wrong, if it is one.
    fn wrong_key(_: &Self::Error) -> Option<&str> {
        None
    }
}

impl<T: TableItem> TableSetting for Vec<T> {
    const WORDS: &'static str = T::WORDS;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;
    const REPEATS: bool = true;

    fn from_toml(item: &Item) -> Option<Result<Vec<T>, TableProblem>> {
        let read = |table: &Table<'_>| {
            T::read(table.fields).map_err(|error| {
                let key = T::wrong_key(&error).and_then(|key| table.fields.key(key)?.span());
                TableProblem { at: key.or_else(|| table.span.clone()).map(|span| span.start), why: error.to_string() }
            })
        };
        let read: Result<Vec<T>, _> = tables_of(item)?.iter().map(read).collect();
        Some(read.and_then(|all| T::check(&all).map(|()| all).map_err(TableProblem::new)))
    }

    fn from_text(text: &str) -> Option<Result<Vec<T>, TableProblem>> {
        Some(T::parse(text)?.map(|one| vec![one]).map_err(TableProblem::new))
    }

    fn append(&mut self, more: Vec<T>) {
        self.extend(more);
    }

    fn anchor(&mut self, base: &Path) {
        self.iter_mut().for_each(|one| one.anchor(base));
    }
}

/// A table of several, and where it is.
struct Table<'a> {
    fields: &'a dyn TableLike,
    span: Option<Range<usize>>,
}

/// The tables of `[[name]]`, or of a list of inline ones. None: it is neither.
fn tables_of(item: &Item) -> Option<Vec<Table<'_>>> {
    match (item.as_array_of_tables(), item.as_array()) {
        (Some(tables), _) => Some(tables.iter().map(|table| Table { fields: table, span: table.span() }).collect()),
        (None, Some(array)) => {
            array.iter().map(|one| Some(Table { fields: one.as_inline_table()?, span: one.span() })).collect()
        }
        _ => None,
    }
}

/// How a setting that is a table is read: a [`TableSetting`] whose type is not known any more.
pub struct TableKind {
    pub words: &'static str,
    pub example: &'static str,
    pub placeholder: &'static str,
    pub repeats: bool,
    /// As [`TableSetting::from_toml`].
    pub from_toml: fn(&Item) -> Option<Result<TableValue, TableProblem>>,
    /// As [`TableSetting::from_text`].
    pub from_text: fn(&str) -> Option<Result<TableValue, TableProblem>>,
}

/// What is wrong with a table. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TableProblem {
    why: String,
    /// Bytes from the beginning of the file. None: where the setting begins.
    pub at: Option<usize>,
}

impl TableProblem {
    pub fn new(why: impl Display) -> TableProblem {
        TableProblem { why: why.to_string(), at: None }
    }
}

impl TableKind {
    pub const fn of<T: TableSetting>() -> &'static TableKind {
        const {
            &TableKind {
                words: T::WORDS,
                example: T::EXAMPLE,
                placeholder: T::PLACEHOLDER,
                repeats: T::REPEATS,
                from_toml: |item| T::from_toml(item).map(|read| read.map(TableValue::new)),
                from_text: |text| T::from_text(text).map(|read| read.map(TableValue::new)),
            }
        }
    }
}

/// What a table says: a [`TableSetting`] of some type.
#[derive(Debug)]
pub struct TableValue(Box<dyn AnyTable>);

impl TableValue {
    pub fn new<T: TableSetting>(value: T) -> TableValue {
        TableValue(Box::new(value))
    }

    /// None: it is of another type.
    pub fn get<T: TableSetting>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    pub fn anchor(&mut self, base: &Path) {
        self.0.anchor(base);
    }

    pub fn append(&mut self, more: TableValue) {
        self.0.append(more);
    }
}

impl Clone for TableValue {
    fn clone(&self) -> TableValue {
        self.0.clone_boxed()
    }
}

impl PartialEq for TableValue {
    fn eq(&self, other: &TableValue) -> bool {
        self.0.equals(other)
    }
}

impl Eq for TableValue {}

/// What is done with a [`TableSetting`] of whatever type.
trait AnyTable: Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn clone_boxed(&self) -> TableValue;
    fn equals(&self, other: &TableValue) -> bool;
    fn anchor(&mut self, base: &Path);
    fn append(&mut self, more: TableValue);
}

impl<T: TableSetting> AnyTable for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn clone_boxed(&self) -> TableValue {
        TableValue::new(self.clone())
    }

    fn equals(&self, other: &TableValue) -> bool {
        other.get::<T>() == Some(self)
    }

    fn anchor(&mut self, base: &Path) {
        TableSetting::anchor(self, base);
    }

    fn append(&mut self, more: TableValue) {
        if let Ok(more) = more.0.into_any().downcast::<T>() {
            TableSetting::append(self, *more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parts::{processes::ProcessConfig, sign_on::SignOn};

    /// The rest of the file from where the problem is said to be.
    fn from<T: TableSetting>(text: &str, key: &str) -> String {
        let document = toml_edit::Document::parse(text).unwrap();
        let at = T::from_toml(&document.as_table()[key]).unwrap().unwrap_err().at;
        text[at.unwrap()..].to_owned()
    }

    #[test]
    fn a_mistake_has_the_place_of_its_table_or_key() {
        let processes = "[[process]]\ncommand = \"a\"\n\n[[process]]\nname = \"b\"\n";
        assert_eq!(from::<Vec<ProcessConfig>>(processes, "process"), "[[process]]\nname = \"b\"\n");
        let areas = "[[sso]]\nkerberos = { keytab = \"k\" }\n[[sso]]\nkerberoz = 1\n";
        assert_eq!(from::<Vec<SignOn>>(areas, "sso"), "kerberoz = 1\n");
        let inline = "process = [{ command = \"a\" }, { command = 1 }]";
        assert_eq!(from::<Vec<ProcessConfig>>(inline, "process"), "{ command = 1 }]");
    }
}
