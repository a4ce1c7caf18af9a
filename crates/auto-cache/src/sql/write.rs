//! What INSERT, UPDATE and DELETE change: of which table the rows with which values, before and after. Whatever has another
//! form changes every row of every table that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    conditions::{conditions, operand, split, Condition, Operand},
    scan::{path, Scan},
    token::Token,
};
use crate::schema::{Schema, Table};

/// What is known of a row: columns that have one of these values. Of any other column nothing is known.
pub(crate) type RowImage = BTreeMap<String, Vec<Operand>>;

/// Rows of one table that a statement changes: each fits one of the images, before or after.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableChange {
    pub(crate) table: String,
    pub(crate) images: Vec<RowImage>,
    /// None: all columns.
    pub(crate) columns: Option<BTreeSet<String>>,
    /// Rows are inserted: a column that nothing is known to be stored in gets a value of the database's own for NULL, too.
    pub(crate) inserts: bool,
    /// One row is inserted: what its generated key is says the worker afterwards.
    pub(crate) inserted: bool,
}

impl TableChange {
    pub(crate) fn whole(table: &str) -> Self {
        TableChange {
            table: table.to_owned(),
            images: vec![RowImage::new()],
            columns: None,
            inserts: false,
            inserted: false,
        }
    }
}

/// What the statement changes, with what follows from it by triggers and foreign keys. None: anything.
pub(crate) fn changes(tokens: &[Token], scan: &Scan, schema: &Schema) -> Option<Vec<TableChange>> {
    let Some(change) = narrow(tokens, schema) else {
        return everything_named(scan, schema);
    };
    let table = schema.get(&change.table)?;
    let deletes = tokens[0].is_word("delete");
    let key_kept = change.columns.is_some() || change.inserted && !deletes;
    let mut found: Vec<_> =
        schema.changed_besides(&change.table, key_kept)?.iter().map(|table| TableChange::whole(table)).collect();
    if table.has_triggers() {
        found.push(TableChange::whole(&change.table));
    }
    found.push(change);
    Some(found)
}

fn everything_named(scan: &Scan, schema: &Schema) -> Option<Vec<TableChange>> {
    let mut tables = scan.tables.clone();
    for table in &scan.tables {
        tables.extend(schema.changed_besides(table, false)?);
    }
    Some(tables.iter().map(|table| TableChange::whole(table)).collect())
}

fn narrow(tokens: &[Token], schema: &Schema) -> Option<TableChange> {
    match tokens.first()? {
        Token::Word(verb) => match verb.as_str() {
            "insert" => insert(&tokens[1..], schema),
            "update" => update(&tokens[1..], schema),
            "delete" => delete(&tokens[1..], schema),
            _ => None,
        },
        _ => None,
    }
}

/// The table, and what follows it and its alias.
struct Target<'a> {
    name: String,
    table: &'a Table,
    alias: String,
    rest: &'a [Token],
}

fn target<'a>(tokens: &'a [Token], schema: &'a Schema) -> Option<Target<'a>> {
    let (name, mut length) = path(tokens)?;
    let table = schema.get(&name).filter(|_| schema.view_effects(&name).is_none())?;
    let mut alias = name.clone();
    let next = tokens.get(length);
    if next.is_some_and(|token| token.is_word("as")) {
        alias = tokens.get(length + 1)?.name()?.to_owned();
        length += 2;
    } else if let Some(Token::Word(word)) = next {
        let words = [
            "set",
            "where",
            "using",
            "returning",
            "values",
            "select",
            "default",
            "indexed",
            "not",
            "overriding",
            "with",
            "order",
            "limit",
        ];
        if !words.contains(&word.as_str()) {
            alias = word.clone();
            length += 1;
        }
    }
    Some(Target { name, table, alias, rest: &tokens[length..] })
}

fn insert(tokens: &[Token], schema: &Schema) -> Option<TableChange> {
    let ignores = tokens.first()?.is_word("or") && tokens.get(1)?.is_word("ignore");
    let tokens = if ignores { &tokens[2..] } else { tokens };
    if !tokens.first()?.is_word("into") {
        return None;
    }
    let Target { name, table, rest, .. } = target(&tokens[1..], schema)?;
    let close = rest.iter().position(|token| token.is_symbol(")"))?;
    if !rest[0].is_symbol("(") || !rest.get(close + 1)?.is_word("values") {
        return None;
    }
    let names: Option<Vec<_>> = split(&rest[1..close], |token| token.is_symbol(","))?
        .into_iter()
        .map(|part| match part {
            [name] => name.name().filter(|name| table.get(name).is_some()),
            _ => None,
        })
        .collect();
    let names = names?;
    let (rows, rest) = rows(&rest[close + 2..])?;
    // A row that is there already may be changed instead: of that one nothing is known.
    let replaces =
        rest.first().is_some_and(|token| token.is_word("on")) && rest.iter().any(|token| token.is_word("update"));
    let replaces = replaces || rest.iter().any(|token| token.is_word("replace"));
    let known_end = rest.first().is_none_or(|token| token.is_word("returning") || token.is_word("on"));
    if replaces || !known_end {
        return None;
    }
    let images: Option<Vec<_>> = rows.iter().map(|row| inserted(row, &names, table)).collect();
    let inserted = rows.len() == 1;
    Some(TableChange { table: name, images: images?, columns: None, inserts: true, inserted })
}

/// The tokens of each value.
type Row<'a> = Vec<&'a [Token]>;

/// The rows of `(a, b), (c, d)`, and what follows.
fn rows(tokens: &[Token]) -> Option<(Vec<Row<'_>>, &[Token])> {
    let mut found = Vec::new();
    let mut rest = tokens;
    loop {
        if !rest.first()?.is_symbol("(") {
            return None;
        }
        let mut depth = 0_i32;
        let close = rest.iter().position(|token| {
            depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
            depth == 0
        })?;
        found.push(split(&rest[1..close], |token| token.is_symbol(","))?);
        rest = &rest[close + 1..];
        if !rest.first().is_some_and(|token| token.is_symbol(",")) {
            return Some((found, rest));
        }
        rest = &rest[1..];
    }
}

fn inserted(row: &[&[Token]], names: &[&str], table: &Table) -> Option<RowImage> {
    if row.len() != names.len() {
        return None;
    }
    let mut image = RowImage::new();
    for (name, column) in table.columns() {
        let value = match names.iter().position(|own| own == name) {
            Some(at) if row[at].len() == 1 && row[at][0].is_word("default") => {
                column.default.clone().map(Operand::Literal)
            }
            Some(at) => operand(row[at]).filter(|(_, length)| *length == row[at].len()).map(|(operand, _)| operand),
            None => column.default.clone().map(Operand::Literal),
        };
        if let Some(value) = value {
            image.insert(name.clone(), vec![value]);
        }
    }
    Some(image)
}

fn update(tokens: &[Token], schema: &Schema) -> Option<TableChange> {
    let tokens = match tokens {
        [or, how, rest @ ..] if or.is_word("or") && !how.is_word("replace") => rest,
        _ => tokens,
    };
    let Target { name, table, alias, rest } = target(tokens, schema)?;
    if !rest.first()?.is_word("set") {
        return None;
    }
    let ends = |token: &Token| ["from", "where", "returning", "order", "limit"].iter().any(|word| token.is_word(word));
    let set = split(&rest[1..], ends)?[0];
    let others = split(rest, |token| token.is_word("from"))?.len() > 1;
    let before = before(filter(rest)?, table, &alias, !others);
    let mut after = before.clone();
    let mut columns = BTreeSet::new();
    for assignment in split(set, |token| token.is_symbol(","))? {
        let [column, equal, value @ ..] = assignment else { return None };
        let column = column.name().filter(|name| table.get(name).is_some())?;
        if !equal.is_symbol("=") {
            return None;
        }
        columns.insert(column.to_owned());
        match operand(value).filter(|(_, length)| *length == value.len()) {
            Some((operand, _)) => after.insert(column.to_owned(), vec![operand]),
            None => after.remove(column),
        };
    }
    let columns = (!table.has_generated()).then_some(columns);
    // What it is computed from has changed.
    if columns.is_none() {
        return Some(TableChange::whole(&name));
    }
    Some(TableChange { table: name, images: vec![before, after], columns, inserts: false, inserted: false })
}

fn delete(tokens: &[Token], schema: &Schema) -> Option<TableChange> {
    if !tokens.first()?.is_word("from") {
        return None;
    }
    let Target { name, table, alias, rest } = target(&tokens[1..], schema)?;
    let others = rest.iter().any(|token| token.is_word("using"));
    let image = before(filter(rest)?, table, &alias, !others);
    Some(TableChange { table: name, images: vec![image], columns: None, inserts: false, inserted: false })
}

/// The tokens of WHERE.
fn filter(tokens: &[Token]) -> Option<&[Token]> {
    let parts = split(tokens, |token| token.is_word("where"))?;
    let Some(filter) = parts.get(1) else { return Some(&[]) };
    let ends = |token: &Token| ["returning", "order", "limit"].iter().any(|word| token.is_word(word));
    Some(split(filter, ends)?[0])
}

fn before(filter: &[Token], table: &Table, alias: &str, alone: bool) -> RowImage {
    let mut image = RowImage::new();
    for Condition { column, values } in conditions(filter, table, alias, alone) {
        // Two conditions on one column: a row fulfils both, so either says enough.
        image.entry(column).or_insert(values);
    }
    image
}
