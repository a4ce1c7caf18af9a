//! What was read, what was changed, and whether one touches the other. Never a false no: if a read would find something else
//! after a write, the write touches it.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::value::Known;

/// What statements have read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Read {
    /// Any change of the database touches it.
    pub everything: bool,
    /// What else the result depends on: the moment, chance, the connection.
    pub volatile: Option<String>,
    pub rows: Vec<Rows>,
}

/// Rows of a table: those in which each of these columns has one of these values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rows {
    pub table: String,
    pub conditions: Vec<(String, Vec<Known>)>,
    /// None: all columns. What is in others does not matter, unless a row comes or goes.
    pub columns: Option<BTreeSet<String>>,
}

/// What is known of a row: the values that a column may have. A column that is not here may have any.
pub type Image = BTreeMap<String, Vec<Known>>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Write {
    pub everything: bool,
    pub changes: Vec<Change>,
}

/// Each row that came, went or was changed fits one of the images, before or after.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub table: String,
    pub images: Vec<Image>,
    /// None: all columns, or rows came or went.
    pub columns: Option<BTreeSet<String>>,
}

impl Write {
    pub fn is_empty(&self) -> bool {
        !self.everything && self.changes.is_empty()
    }

    /// What a transaction has changed so far, with this.
    pub fn add(&mut self, other: Write) {
        self.everything |= other.everything;
        for change in other.changes {
            if !self.changes.contains(&change) {
                self.changes.push(change);
            }
        }
    }

    pub fn touches(&self, read: &Read) -> bool {
        if self.is_empty() {
            return false;
        }
        read.everything
            || self.everything && !read.rows.is_empty()
            || self.changes.iter().any(|change| read.rows.iter().any(|rows| change.touches(rows)))
    }
}

impl Change {
    pub fn touches(&self, rows: &Rows) -> bool {
        self.table == rows.table && self.touches_columns(rows) && self.images.iter().any(|image| fits(image, rows))
    }

    fn touches_columns(&self, rows: &Rows) -> bool {
        match (&self.columns, &rows.columns) {
            (Some(changed), Some(read)) => !changed.is_disjoint(read),
            _ => true,
        }
    }
}

fn fits(image: &Image, rows: &Rows) -> bool {
    rows.conditions.iter().all(|(column, values)| match image.get(column) {
        Some(known) => known.iter().any(|value| values.contains(value)),
        None => true,
    })
}
