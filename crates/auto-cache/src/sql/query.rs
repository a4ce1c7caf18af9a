//! What a SELECT reads: for each table the rows by equality, and for a mere count or test only the columns that it names.
//! Whatever has another form than a single SELECT over tables reads whole tables.

use super::{
    conditions::{conditions, sources, Condition, Source},
    scan::Scan,
    token::Token,
};
use crate::schema::{Schema, Table};
use std::collections::BTreeSet;

/// Rows of one table that a statement reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRead {
    pub(crate) table: String,
    pub(crate) conditions: Vec<Condition>,
    /// None: all columns.
    pub(crate) columns: Option<BTreeSet<String>>,
}

pub(crate) fn reads(tokens: &[Token], scan: &Scan, schema: &Schema) -> Vec<TableRead> {
    narrow(tokens, scan, schema).unwrap_or_else(|| scan.tables.iter().map(|table| whole(table)).collect())
}

pub(crate) fn whole(table: &str) -> TableRead {
    TableRead { table: table.to_owned(), conditions: Vec::new(), columns: None }
}

/// Words after which a WHERE has ended.
const ENDS: &[&str] = &["group", "order", "having", "limit", "offset", "fetch", "for", "window"];
/// Words of statements that are more than one SELECT.
const COMPOUND: &[&str] =
    &["union", "intersect", "except", "values", "with", "tablesample", "indexed", "only", "lateral"];

fn narrow(tokens: &[Token], scan: &Scan, schema: &Schema) -> Option<Vec<TableRead>> {
    let compound = |token: &Token| COMPOUND.iter().any(|word| token.is_word(word));
    let selects = tokens.iter().filter(|token| token.is_word("select")).count();
    if scan.views || selects != 1 || !tokens[0].is_word("select") || tokens.iter().any(compound) {
        return None;
    }
    // SQLite reads a table in `id IN posts`, too.
    let listed = |pair: &[Token]| pair[0].is_word("in") && !pair[1].is_symbol("(");
    if tokens.windows(2).any(listed) {
        return None;
    }
    let (list, tokens) = cut(&tokens[1..], &["from"])?;
    let (from, rest) = cut(&tokens[1..], &[&["where"], ENDS].concat()).unwrap_or((&tokens[1..], &[]));
    let filter = match rest.first() {
        Some(first) if first.is_word("where") => cut(&rest[1..], ENDS).map_or(&rest[1..], |(filter, _)| filter),
        _ => &[],
    };
    let sources = sources(from, schema)?;
    let alone = sources.len() == 1;
    let named: BTreeSet<_> = sources.iter().map(|source| source.table.as_str()).collect();
    let counts = is_count(list);
    let reads = sources.iter().map(|source| {
        let table = schema.get(&source.table)?;
        let found = conditions(filter, table, &source.alias, alone);
        let columns = if counts { columns(list, tokens, source, table) } else { None };
        Some(TableRead { table: source.table.clone(), conditions: found, columns })
    });
    let mut reads = reads.collect::<Option<Vec<_>>>()?;
    // What has a table's name, and is probably a column or a text.
    let others = scan.tables.iter().filter(|table| !named.contains(table.as_str()));
    reads.extend(others.map(|table| whole(table)));
    Some(reads)
}

/// The tokens before the first of these words outside of parentheses, and those from it on.
fn cut<'a>(tokens: &'a [Token], words: &[&str]) -> Option<(&'a [Token], &'a [Token])> {
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate() {
        depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
        if depth == 0 && words.iter().any(|word| token.is_word(word)) && (at == 0 || !tokens[at - 1].is_symbol(".")) {
            // `IS DISTINCT FROM` separates nothing.
            if token.is_word("from") && at > 0 && tokens[at - 1].is_word("distinct") {
                return None;
            }
            return Some((&tokens[..at], &tokens[at..]));
        }
    }
    None
}

/// `1 AS one`, `COUNT(*)`, `COUNT(DISTINCT posts.id)`, `MAX(updated_at)`: the order of rows does not matter.
fn is_count(list: &[Token]) -> bool {
    let is_name = |token: &Token| token.name().is_some();
    let without_alias = |tokens: &[Token]| match tokens {
        [rest @ .., word, alias] if word.is_word("as") && is_name(alias) => rest.len(),
        _ => tokens.len(),
    };
    let list = &list[..without_alias(list)];
    match list {
        [Token::Number(_)] => true,
        [function, open, inside @ .., close] if open.is_symbol("(") && close.is_symbol(")") => {
            let count = function.is_word("count");
            let inside = match inside {
                [distinct, rest @ ..] if distinct.is_word("distinct") && count => rest,
                _ => inside,
            };
            match inside {
                [star] => count && star.is_symbol("*") || (count || extreme(function)) && is_name(star),
                [qualifier, point, column] => {
                    (count || extreme(function)) && is_name(qualifier) && point.is_symbol(".") && is_name(column)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

fn extreme(function: &Token) -> bool {
    function.is_word("max") || function.is_word("min")
}

/// The columns of this table that are named anywhere. None: all, because a row is named as a whole, or a column is not
/// named (NATURAL), or has no name in the schema (rowid).
fn columns(list: &[Token], tokens: &[Token], source: &Source, table: &Table) -> Option<BTreeSet<String>> {
    const HIDDEN: &[&str] =
        &["natural", "rowid", "oid", "_rowid_", "ctid", "xmin", "xmax", "tableoid", "group", "offset", "for"];
    let mut found = BTreeSet::new();
    let all = [list, tokens].concat();
    let mut mentions = 0;
    for (at, token) in all.iter().enumerate() {
        let Some(name) = token.name_or_text() else { continue };
        if HIDDEN.contains(&name.as_str()) {
            return None;
        }
        let qualifies = all.get(at + 1).is_some_and(|next| next.is_symbol("."));
        if (name == source.table || name == source.alias) && !qualifies {
            mentions += 1;
        }
        if table.get(&name).is_some() {
            found.insert(name);
        }
    }
    // Once in FROM, and once for its alias.
    let expected = if source.table == source.alias { 1 } else { 2 };
    (mentions <= expected && !table.has_generated()).then_some(found)
}
