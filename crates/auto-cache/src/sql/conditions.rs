//! Which rows a statement looks at: of its FROM the tables with their aliases, and of its WHERE the parts that every row
//! must fulfil and that say which values a column has: `column = value`, `column IN (values)`, `column IS NULL`. A part of
//! any other form is left out, so that more rows are taken for looked at, never fewer.

use super::{scan::path, token::Token, value::Value};
use crate::schema::{Schema, Table};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Literal(Value),
    /// The n-th bound value.
    Bound(usize),
}

/// The column has one of these values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) column: String,
    pub(crate) values: Vec<Operand>,
}

/// A table in FROM.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub(crate) table: String,
    /// The name by which its columns are qualified.
    pub(crate) alias: String,
}

/// `value`, `-value`: the operand, and how many tokens it has.
pub(crate) fn operand(tokens: &[Token]) -> Option<(Operand, usize)> {
    let literal = |value, length| Some((Operand::Literal(value), length));
    match tokens.first()? {
        Token::Parameter(number) => Some((Operand::Bound(*number), 1)),
        Token::Text(text) => literal(Value::Text(text.clone()), 1),
        Token::Number(number) => literal(numeric(number, false)?, 1),
        Token::Symbol(minus) if minus == "-" => match tokens.get(1)? {
            Token::Number(number) => literal(numeric(number, true)?, 2),
            _ => None,
        },
        Token::Word(word) => match word.as_str() {
            "null" => literal(Value::Null, 1),
            "true" => literal(Value::Boolean(true), 1),
            "false" => literal(Value::Boolean(false), 1),
            _ => None,
        },
        _ => None,
    }
}

fn numeric(digits: &str, negative: bool) -> Option<Value> {
    let digits = if negative { format!("-{digits}") } else { digits.to_owned() };
    match digits.parse() {
        Ok(number) => Some(Value::Integer(number)),
        Err(_) => digits.parse().ok().map(Value::Real),
    }
}

/// Cuts tokens at what `cut` finds outside of parentheses and CASE. None: parentheses don't match.
pub(crate) fn split(tokens: &[Token], cut: impl Fn(&Token) -> bool) -> Option<Vec<&[Token]>> {
    let mut parts = Vec::new();
    let (mut from, mut depth) = (0, 0_i32);
    for (at, token) in tokens.iter().enumerate() {
        if token.is_symbol("(") || token.is_symbol("[") || token.is_word("case") {
            depth += 1;
        } else if token.is_symbol(")") || token.is_symbol("]") || token.is_word("end") {
            depth -= 1;
            if depth < 0 {
                return None;
            }
        } else if depth == 0 && cut(token) {
            parts.push(&tokens[from..at]);
            from = at + 1;
        }
    }
    parts.push(&tokens[from..]);
    (depth == 0).then_some(parts)
}

/// The tables of a FROM without subqueries and functions. None: it has another form.
pub(crate) fn sources(tokens: &[Token], schema: &Schema) -> Option<Vec<Source>> {
    let mut found = Vec::new();
    let mut rest = tokens;
    loop {
        let (source, length) = source(rest, schema)?;
        found.push(source);
        rest = join_condition(&rest[length..])?;
        let Some(first) = rest.first() else { break };
        let words = rest
            .iter()
            .take_while(|token| {
                ["natural", "left", "right", "full", "inner", "cross", "outer"].iter().any(|word| token.is_word(word))
            })
            .count();
        let begins = if first.is_symbol(",") { 1 } else { words + usize::from(rest.get(words)?.is_word("join")) };
        if begins == words {
            return None;
        }
        rest = &rest[begins..];
    }
    let distinct =
        found.iter().enumerate().all(|(at, source)| found[..at].iter().all(|other| other.alias != source.alias));
    distinct.then_some(found)
}

/// `table`, `table alias` or `table AS alias`.
fn source(tokens: &[Token], schema: &Schema) -> Option<(Source, usize)> {
    let (table, mut length) = path(tokens)?;
    schema.get(&table)?;
    let mut alias = table.clone();
    if tokens.get(length).is_some_and(|token| token.is_word("as")) {
        alias = tokens.get(length + 1)?.name()?.to_owned();
        length += 2;
    } else if let Some(name) = tokens.get(length).and_then(Token::name).filter(|name| !is_clause(name)) {
        alias = name.to_owned();
        length += 1;
    }
    // A function, columns that get other names, or a subquery.
    if tokens.get(length).is_some_and(|token| token.is_symbol("(") || token.is_symbol(".")) {
        return None;
    }
    Some((Source { table, alias }, length))
}

/// Words that can't be an alias here. A word that is missing makes a table look aliased, and what comes next is refused.
fn is_clause(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "natural",
        "left",
        "right",
        "full",
        "inner",
        "cross",
        "outer",
        "join",
        "on",
        "using",
        "where",
        "indexed",
        "not",
        "tablesample",
        "set",
        "returning",
    ];
    WORDS.contains(&word)
}

/// What follows a table's ON or USING.
fn join_condition(tokens: &[Token]) -> Option<&[Token]> {
    match tokens.first() {
        Some(first) if first.is_word("on") => {}
        Some(first) if first.is_word("using") && tokens.get(1)?.is_symbol("(") => {}
        _ => return Some(tokens),
    }
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate().skip(1) {
        let ends =
            ["natural", "left", "right", "full", "inner", "cross", "join"].iter().any(|word| token.is_word(word));
        if token.is_symbol("(") || token.is_word("case") {
            depth += 1;
        } else if token.is_symbol(")") || token.is_word("end") {
            depth -= 1;
        } else if depth == 0 && (ends && !tokens.get(at + 1)?.is_symbol("(") || token.is_symbol(",")) {
            return Some(&tokens[at..]);
        }
    }
    (depth == 0).then_some(&[])
}

/// The conditions on one of the sources. Columns without a qualifier are taken for its own only if `alone`.
pub(crate) fn conditions(tokens: &[Token], table: &Table, alias: &str, alone: bool) -> Vec<Condition> {
    let Some(alternatives) = split(tokens, |token| token.is_word("or")) else { return Vec::new() };
    if alternatives.len() > 1 {
        return any_of(&alternatives, table, alias, alone).into_iter().collect();
    }
    let Some(parts) = conjuncts(tokens) else { return Vec::new() };
    if let [part] = parts[..] {
        return match inside_parentheses(part) {
            Some(inside) => conditions(inside, table, alias, alone),
            None => condition(part, table, alias, alone).into_iter().collect(),
        };
    }
    parts.into_iter().flat_map(|part| conditions(part, table, alias, alone)).collect()
}

/// `id = 1 OR id = 2`: one column, whichever of them is true.
fn any_of(alternatives: &[&[Token]], table: &Table, alias: &str, alone: bool) -> Option<Condition> {
    let mut found: Option<Condition> = None;
    for part in alternatives {
        // An alternative of several parts is as narrow as any one of them.
        let own = conditions(part, table, alias, alone).into_iter().next()?;
        match &mut found {
            None => found = Some(own),
            Some(known) if known.column == own.column => known.values.extend(own.values),
            Some(_) => return None,
        }
    }
    found
}

/// The parts between AND. The AND of `BETWEEN 1 AND 2` cuts nothing.
fn conjuncts(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    let cuts = split(tokens, |token| token.is_word("and"))?;
    let mut parts: Vec<&[Token]> = Vec::new();
    let mut from = 0;
    let mut at = 0;
    for (number, cut) in cuts.iter().enumerate() {
        at += cut.len();
        let between = split(&tokens[from..at], |token| token.is_word("between"))?.len() > 1;
        let ands = split(&tokens[from..at], |token| token.is_word("and"))?.len() > 1;
        if !between || ands || number + 1 == cuts.len() {
            parts.push(&tokens[from..at]);
            from = at + 1;
        }
        at += 1;
    }
    Some(parts)
}

/// What is within, if the first parenthesis closes at the end.
fn inside_parentheses(tokens: &[Token]) -> Option<&[Token]> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    if tokens.len() < 2 || !first.is_symbol("(") || !last.is_symbol(")") {
        return None;
    }
    let inside = &tokens[1..tokens.len() - 1];
    let mut depth = 0_i32;
    for token in inside {
        depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
        if depth < 0 {
            return None;
        }
    }
    Some(inside)
}

fn condition(tokens: &[Token], table: &Table, alias: &str, alone: bool) -> Option<Condition> {
    let (column, rest) = match tokens {
        [qualifier, point, column, rest @ ..] if point.is_symbol(".") && qualifier.name()? == alias => {
            (column.name()?, rest)
        }
        [column, rest @ ..] if alone && !rest.first()?.is_symbol(".") => (column.name()?, rest),
        _ => return None,
    };
    table.get(column)?;
    let values = match rest {
        [equal, value @ ..] if equal.is_symbol("=") || equal.is_symbol("==") => {
            let (operand, length) = operand(value)?;
            (length == value.len()).then(|| vec![operand])?
        }
        [is, null] if is.is_word("is") && null.is_word("null") => vec![Operand::Literal(Value::Null)],
        [within, list @ ..] if within.is_word("in") => {
            let parts = split(inside_parentheses(list)?, |token| token.is_symbol(","))?;
            let operands = parts.into_iter().map(|part| {
                let (operand, length) = operand(part)?;
                (length == part.len()).then_some(operand)
            });
            operands.collect::<Option<Vec<_>>>()?
        }
        _ => return None,
    };
    // In a join, NULL is also what a row has that was not found.
    let null = values.contains(&Operand::Literal(Value::Null));
    (alone || !null).then(|| Condition { column: column.to_owned(), values })
}
