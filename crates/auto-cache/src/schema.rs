//! What a database has: tables with their columns, and what one statement changes beyond the table that it names. It is
//! told by a worker. Without it, nothing narrower than the whole database is known.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::{
    scan::Scan,
    token::{tokens, Dialect},
    value::{Class, Value},
};

#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: BTreeMap<String, Column>,
    /// Some of its columns are computed from others.
    generated: bool,
    triggered: Effects,
    cascades: Vec<Cascade>,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) class: Class,
    /// What an INSERT without the column stores, if that is known.
    pub(crate) default: Option<Value>,
}

/// Tables that a view reads, or that a trigger may write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) tables: BTreeSet<String>,
    pub(crate) everything: bool,
    pub(crate) volatile: bool,
    /// There is such a trigger.
    pub(crate) some: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Cascade {
    pub(crate) child: String,
    /// Also if the parent's key is updated.
    pub(crate) on_update: bool,
}

/// Names are kept in lower case and without their schema: two tables that differ in that alone count as one.
#[derive(Debug, Clone)]
pub struct Schema {
    dialect: Dialect,
    tables: BTreeMap<String, Table>,
    views: BTreeMap<String, Effects>,
}

impl Schema {
    pub fn new(dialect: Dialect) -> Self {
        Schema { dialect, tables: BTreeMap::new(), views: BTreeMap::new() }
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Begins the table. What it has already is kept: a table of the same name in another schema adds to it.
    pub fn table(&mut self, name: &str) -> &mut Table {
        self.tables.entry(name.to_ascii_lowercase()).or_default()
    }

    /// A view, or a table that others inherit from, with the SQL of what it reads. Its tables must be there already.
    pub fn view(&mut self, name: &str, sql: &str) {
        let effects = self.effects(sql);
        let known = self.views.entry(name.to_ascii_lowercase()).or_default();
        known.add(effects);
    }

    /// A trigger on the table, with all SQL that it may run. The tables and views must be there already.
    pub fn trigger(&mut self, table: &str, sql: &str) {
        let effects = self.effects(sql);
        let known = &mut self.table(table).triggered;
        known.add(effects);
        known.some = true;
    }

    /// A row of `parent` that is deleted (or whose key is updated) changes rows of `child`.
    pub fn cascade(&mut self, parent: &str, child: &str, on_update: bool) {
        let child = child.to_ascii_lowercase();
        self.table(parent).cascades.push(Cascade { child, on_update });
    }

    /// All that the SQL may read and write, by the names in it.
    fn effects(&self, sql: &str) -> Effects {
        let everything = Effects { everything: true, volatile: true, ..Effects::default() };
        let Ok(tokens) = tokens(sql, self.dialect) else { return everything };
        let scan = Scan::of(&tokens, self);
        // EXECUTE runs SQL that is made at the moment.
        let made = tokens.iter().any(|token| token.is_word("execute"));
        Effects {
            tables: scan.tables,
            everything: scan.unknown.is_some() || made,
            volatile: scan.volatile.is_some(),
            some: false,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    pub(crate) fn view_effects(&self, name: &str) -> Option<&Effects> {
        self.views.get(name)
    }

    /// The tables that a write to this one may change besides it, by triggers and foreign keys. None: any.
    pub(crate) fn changed_besides(&self, table: &str, key_kept: bool) -> Option<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![(table.to_owned(), key_kept)];
        while let Some((name, key_kept)) = waiting.pop() {
            let Some(table) = self.tables.get(&name) else { continue };
            if table.triggered.everything {
                return None;
            }
            let cascades = table.cascades.iter().filter(|cascade| !key_kept || cascade.on_update);
            for child in cascades.map(|cascade| &cascade.child).chain(&table.triggered.tables) {
                if found.insert(child.clone()) {
                    waiting.push((child.clone(), false));
                }
            }
        }
        Some(found)
    }
}

impl Effects {
    fn add(&mut self, other: Effects) {
        self.tables.extend(other.tables);
        self.everything |= other.everything;
        self.volatile |= other.volatile;
    }
}

impl Table {
    pub fn column(&mut self, name: &str, class: Class) -> &mut Self {
        self.add(name, class, None)
    }

    /// A column of which it is known what an INSERT without it stores: NULL, or a constant.
    pub fn column_with_default(&mut self, name: &str, class: Class, default: Value) -> &mut Self {
        self.add(name, class, Some(default))
    }

    fn add(&mut self, name: &str, class: Class, default: Option<Value>) -> &mut Self {
        let name = name.to_ascii_lowercase();
        let same = self.columns.get(&name).is_none_or(|known| known.class == class && known.default == default);
        let column = if same { Column { class, default } } else { Column { class: Class::Other, default: None } };
        self.columns.insert(name, column);
        self
    }

    /// It has columns that are computed from others.
    pub fn generated(&mut self) -> &mut Self {
        self.generated = true;
        self
    }

    pub(crate) fn get(&self, column: &str) -> Option<&Column> {
        self.columns.get(column)
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = (&String, &Column)> {
        self.columns.iter()
    }

    /// What it stores may differ from what a statement says.
    pub(crate) fn has_triggers(&self) -> bool {
        self.triggered.some
    }

    pub(crate) fn has_generated(&self) -> bool {
        self.generated
    }
}
