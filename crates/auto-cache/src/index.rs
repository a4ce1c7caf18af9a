//! Which pages a write touches, without a look at each page. It answers what `Write::touches` would for each of them, and
//! holds nothing but their numbers and what they read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{
    effects::{Change, Read, Rows, Write},
    sql::value::Known,
};

/// Reads of a page that are told apart. A page that has more of one table counts as one that read the whole table.
pub const MAX_ROWS: usize = 256;

#[derive(Debug, Default)]
pub struct Index {
    pages: HashMap<u64, Read>,
    everything: BTreeSet<u64>,
    tables: HashMap<String, Readers>,
}

#[derive(Debug, Default)]
struct Readers {
    /// Without a condition.
    whole: BTreeSet<u64>,
    /// By the first condition: column, value, pages.
    by_column: BTreeMap<String, HashMap<Known, BTreeSet<u64>>>,
}

impl Index {
    /// Keeps what this page read, in place of what it read before.
    pub fn insert(&mut self, page: u64, mut read: Read) {
        self.remove(page);
        fold(&mut read);
        if read.everything {
            self.everything.insert(page);
        }
        for rows in &read.rows {
            let readers = self.tables.entry(rows.table.clone()).or_default();
            match rows.conditions.first() {
                None => drop(readers.whole.insert(page)),
                Some((column, values)) => {
                    let known = readers.by_column.entry(column.clone()).or_default();
                    for value in values {
                        known.entry(value.clone()).or_default().insert(page);
                    }
                }
            }
        }
        self.pages.insert(page, read);
    }

    pub fn remove(&mut self, page: u64) {
        let Some(read) = self.pages.remove(&page) else { return };
        self.everything.remove(&page);
        for rows in &read.rows {
            if let Some(readers) = self.tables.get_mut(&rows.table) {
                readers.remove(page, rows);
                if readers.whole.is_empty() && readers.by_column.is_empty() {
                    self.tables.remove(&rows.table);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub fn read(&self, page: u64) -> Option<&Read> {
        self.pages.get(&page)
    }

    pub fn touched(&self, write: &Write) -> BTreeSet<u64> {
        if write.is_empty() {
            return BTreeSet::new();
        }
        if write.everything {
            let reads = |(page, read): (&u64, &Read)| write.touches(read).then_some(*page);
            return self.pages.iter().filter_map(reads).collect();
        }
        let mut found = self.everything.clone();
        for change in &write.changes {
            let Some(readers) = self.tables.get(&change.table) else { continue };
            for page in readers.candidates(change) {
                let touches = |read: &Read| read.rows.iter().any(|rows| change.touches(rows));
                if !found.contains(&page) && self.pages.get(&page).is_some_and(touches) {
                    found.insert(page);
                }
            }
        }
        found
    }
}

impl Readers {
    fn candidates(&self, change: &Change) -> HashSet<u64> {
        let mut found: HashSet<u64> = self.whole.iter().copied().collect();
        for (column, by_value) in &self.by_column {
            for image in &change.images {
                match image.get(column) {
                    Some(values) => found.extend(values.iter().filter_map(|value| by_value.get(value)).flatten()),
                    None => found.extend(by_value.values().flatten()),
                }
            }
        }
        found
    }

    fn remove(&mut self, page: u64, rows: &Rows) {
        let Some((column, values)) = rows.conditions.first() else {
            self.whole.remove(&page);
            return;
        };
        let Some(by_value) = self.by_column.get_mut(column) else { return };
        for value in values {
            if let Some(pages) = by_value.get_mut(value) {
                pages.remove(&page);
                if pages.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.by_column.remove(column);
        }
    }
}

/// Bounds what is kept of one page.
fn fold(read: &mut Read) {
    read.rows.sort();
    read.rows.dedup();
    let size = |rows: &Rows| 1 + rows.conditions.iter().map(|(_, values)| values.len()).sum::<usize>();
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for rows in &read.rows {
        *sizes.entry(&rows.table).or_default() += size(rows);
    }
    let folded: BTreeSet<String> =
        sizes.into_iter().filter(|(_, size)| *size > MAX_ROWS).map(|(table, _)| table.to_owned()).collect();
    read.rows.retain(|rows| !folded.contains(&rows.table));
    let whole = |table| Rows { table, conditions: Vec::new(), columns: None };
    read.rows.extend(folded.into_iter().map(whole));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: &str, conditions: &[(&str, i64)]) -> Rows {
        let conditions = conditions.iter().map(|(column, value)| (column.to_string(), vec![Known::Integer(*value)]));
        Rows { table: table.into(), conditions: conditions.collect(), columns: None }
    }

    fn change(table: &str, image: &[(&str, i64)]) -> Write {
        let image = image.iter().map(|(column, value)| (column.to_string(), vec![Known::Integer(*value)]));
        let change = Change { table: table.into(), images: vec![image.collect()], columns: None };
        Write { everything: false, changes: vec![change] }
    }

    fn page(rows: Vec<Rows>) -> Read {
        Read { rows, ..Read::default() }
    }

    #[test]
    fn a_write_finds_the_pages_that_it_touches() {
        let mut index = Index::default();
        index.insert(1, page(vec![rows("posts", &[("id", 1)])]));
        index.insert(2, page(vec![rows("posts", &[("id", 2)]), rows("tags", &[])]));
        index.insert(3, page(vec![rows("posts", &[("author", 7), ("id", 3)])]));
        index.insert(4, Read { everything: true, ..Read::default() });
        let touched = |write| index.touched(&write).into_iter().collect::<Vec<_>>();
        assert_eq!(touched(change("posts", &[("id", 1)])), [1, 4]);
        assert_eq!(touched(change("posts", &[("id", 3)])), [3, 4]);
        assert_eq!(touched(change("posts", &[])), [1, 2, 3, 4]);
        assert_eq!(touched(change("tags", &[("id", 9)])), [2, 4]);
        assert_eq!(touched(change("others", &[])), [4]);
        assert!(index.touched(&Write::default()).is_empty());
        assert_eq!(index.touched(&Write { everything: true, changes: vec![] }).len(), 4);
    }

    #[test]
    fn nothing_is_left_of_removed_pages() {
        let mut index = Index::default();
        index.insert(1, page(vec![rows("posts", &[("id", 1)]), rows("tags", &[])]));
        index.insert(1, page(vec![rows("posts", &[("id", 2)])]));
        assert!(index.touched(&change("tags", &[])).is_empty());
        index.remove(1);
        assert!(index.is_empty() && index.tables.is_empty());
    }

    #[test]
    fn many_rows_of_a_table_count_as_all_of_them() {
        let mut index = Index::default();
        index.insert(1, page((0..300).map(|id| rows("posts", &[("id", id)])).collect()));
        assert_eq!(index.read(1).map(|read| read.rows.len()), Some(1));
        assert_eq!(index.touched(&change("posts", &[("id", 1000)])).len(), 1);
    }
}
