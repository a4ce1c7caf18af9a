//! Tables of TOML, however they are written. It never reads what is in them.

use toml_edit::Item;

/// The tables of `[[name]]`, or of a list of inline ones. None: it is neither.
pub fn tables_of(item: &Item) -> Option<Vec<&dyn toml_edit::TableLike>> {
    match (item.as_array_of_tables(), item.as_array()) {
        (Some(tables), _) => Some(tables.iter().map(|table| table as &dyn toml_edit::TableLike).collect()),
        (None, Some(array)) => {
            array.iter().map(|one| Some(one.as_inline_table()? as &dyn toml_edit::TableLike)).collect()
        }
        _ => None,
    }
}
