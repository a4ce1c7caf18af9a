//! What any statement may touch at most, by its tokens alone, whatever its grammar: a statement reads and writes no table
//! that it does not name (views, triggers and foreign keys are in the schema). It never decides what a statement reads less.

use std::collections::BTreeSet;

use super::{
    token::{Dialect, Token},
    words::{self, Function},
};
use crate::schema::Schema;

#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Of the schema, those that are named; and those of named views.
    pub(crate) tables: BTreeSet<String>,
    /// A function or table that the schema does not have: it may read anything, and in PostgreSQL write.
    pub(crate) unknown: Option<String>,
    pub(crate) unknown_function: bool,
    /// What depends on the moment, chance, or the connection.
    pub(crate) volatile: Option<String>,
    /// A view is named.
    pub(crate) views: bool,
    /// SQL that changes rows is within it.
    pub(crate) changes: bool,
}

impl Scan {
    pub(crate) fn of(tokens: &[Token], schema: &Schema) -> Scan {
        let mut scan = Scan::default();
        let defined = defined_by_with(tokens);
        for (at, token) in tokens.iter().enumerate() {
            scan.name(token, schema);
            scan.moment(token);
            if tokens.get(at + 1).is_some_and(|next| next.is_symbol("(")) {
                scan.call(tokens, at, schema, &defined);
            } else if let Token::Word(word) = token {
                // A column may have such a name, after a point.
                let qualified = at > 0 && tokens[at - 1].is_symbol(".");
                if words::is_volatile_word(word) && !qualified {
                    scan.volatile.get_or_insert_with(|| word.clone());
                }
            }
            scan.changes |= changes(tokens, at);
        }
        scan.sources(tokens, schema, &defined);
        scan
    }

    fn name(&mut self, token: &Token, schema: &Schema) {
        let Some(name) = token.name_or_text() else { return };
        if schema.get(&name).is_some() {
            self.tables.insert(name.clone());
        }
        if let Some(effects) = schema.view_effects(&name) {
            self.views = true;
            self.tables.extend(effects.tables.iter().cloned());
            if effects.everything {
                self.unknown.get_or_insert_with(|| name.clone());
            }
            if effects.volatile {
                self.volatile.get_or_insert(name);
            }
        }
    }

    fn moment(&mut self, token: &Token) {
        if let Some(text) =
            token.name_or_text().filter(|text| !matches!(token, Token::Word(_)) && words::is_moment(text))
        {
            self.volatile.get_or_insert(text);
        }
    }

    /// A name with a parenthesis behind it.
    fn call(&mut self, tokens: &[Token], at: usize, schema: &Schema, defined: &BTreeSet<&str>) {
        let (name, quoted) = match &tokens[at] {
            Token::Word(name) => (name, false),
            Token::Quoted(name) => (name, true),
            _ => return,
        };
        if !quoted && !words::is_called(name) || defined.contains(name.as_str()) {
            return;
        }
        let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
        // `INSERT INTO posts (title)`, `INSERT INTO main.posts (title)`, `posts AS p (title)`.
        let listed = ["into", "as", "."]
            .iter()
            .any(|word| before(1).is_some_and(|token| token.is_word(word) || token.is_symbol(word)));
        if listed && (schema.get(name).is_some() || before(1).is_some_and(|token| token.is_word("as"))) {
            return;
        }
        match words::function(name) {
            Function::Pure => {}
            Function::Volatile => drop(self.volatile.get_or_insert_with(|| name.clone())),
            Function::Date => {
                if tells_the_moment(&tokens[at..]) || schema.dialect() == Dialect::Postgres {
                    self.volatile.get_or_insert_with(|| name.clone());
                }
            }
            Function::Unknown => {
                self.unknown.get_or_insert_with(|| name.clone());
                self.unknown_function = true;
                self.volatile.get_or_insert_with(|| name.clone());
            }
        }
    }

    /// Each name where a table must be: after FROM, JOIN, INTO and UPDATE, and after a comma within FROM.
    fn sources(&mut self, tokens: &[Token], schema: &Schema, defined: &BTreeSet<&str>) {
        // For each open parenthesis: whether a comma there separates tables, and whether FROM there belongs to a function.
        let mut open = vec![(false, false)];
        for (at, token) in tokens.iter().enumerate() {
            match token {
                Token::Symbol(symbol) if symbol == "(" => {
                    let function = at.checked_sub(1).and_then(|before| tokens[before].name());
                    let from = matches!(function, Some("extract" | "trim" | "substring" | "overlay" | "position"));
                    // `FROM (a, b)`: what is within are tables, unless it is a SELECT, whose words end that.
                    let tables =
                        open.last().is_some_and(|last| last.0) && function.is_none_or(|name| !words::is_called(name));
                    open.push((tables, from));
                    if tables {
                        self.source(&tokens[at + 1..], schema, defined);
                    }
                }
                Token::Symbol(symbol) if symbol == ")" => {
                    open.pop();
                    if open.is_empty() {
                        open.push((false, false));
                    }
                }
                Token::Symbol(symbol) if symbol == "," && open.last().is_some_and(|last| last.0) => {
                    self.source(&tokens[at + 1..], schema, defined);
                }
                Token::Word(word) => self.clause(word, tokens, at, &mut open, schema, defined),
                _ => {}
            }
        }
    }

    fn clause(
        &mut self,
        word: &str,
        tokens: &[Token],
        at: usize,
        open: &mut [(bool, bool)],
        schema: &Schema,
        defined: &BTreeSet<&str>,
    ) {
        let Some(last) = open.last_mut() else { return };
        match word {
            "from" if last.1 || at > 1 && tokens[at - 1].is_word("distinct") && tokens[at - 2].is_word("is") => {}
            "from" if at > 2 && tokens[at - 1].is_word("distinct") && tokens[at - 2].is_word("not") => {}
            "from" | "join" | "into" | "using" => {
                // USING of a JOIN has columns in parentheses.
                if word == "using" && tokens.get(at + 1).is_some_and(|next| next.is_symbol("(")) {
                    last.0 = false;
                    return;
                }
                last.0 = word != "into";
                self.source(&tokens[at + 1..], schema, defined);
            }
            "update" if at == 0 || tokens[at - 1].is_symbol("(") => self.source(&tokens[at + 1..], schema, defined),
            "select" | "where" | "group" | "order" | "having" | "limit" | "window" | "union" | "intersect"
            | "except" | "on" | "returning" | "set" | "values" => last.0 = false,
            _ => {}
        }
    }

    fn source(&mut self, tokens: &[Token], schema: &Schema, defined: &BTreeSet<&str>) {
        let skipped = tokens.iter().take_while(|token| {
            ["only", "lateral", "or", "ignore", "replace", "abort", "fail", "rollback"]
                .iter()
                .any(|word| token.is_word(word))
        });
        let tokens = &tokens[skipped.count()..];
        let Some((name, length)) = path(tokens) else {
            // A parenthesis: what is within is looked at by itself. Anything else is not understood.
            let known = tokens
                .first()
                .is_some_and(|token| token.is_symbol("(") || token.is_word("select") || token.is_word("values"));
            if !known {
                self.unknown.get_or_insert_with(|| "a source without a name".into());
            }
            return;
        };
        let function = tokens.get(length).is_some_and(|next| next.is_symbol("(")) && schema.get(&name).is_none();
        let known =
            schema.get(&name).is_some() || schema.view_effects(&name).is_some() || defined.contains(name.as_str());
        let catalogue = tokens.iter().take(length).filter_map(Token::name).any(words::is_catalogue);
        if !(known || function || catalogue || ["select", "values"].contains(&name.as_str())) {
            // What PostgreSQL says of itself (`pg_stat_activity`) changes without a write.
            if schema.dialect() == Dialect::Postgres && name.starts_with("pg_") {
                self.volatile.get_or_insert_with(|| name.clone());
            }
            self.unknown.get_or_insert(name);
        }
    }
}

/// `a`, `a.b` or `a.b.c`: the last part, and how many tokens these are.
pub(crate) fn path(tokens: &[Token]) -> Option<(String, usize)> {
    let mut name = tokens.first()?.name_or_text()?;
    let mut length = 1;
    while tokens.get(length).is_some_and(|token| token.is_symbol(".")) {
        name = tokens.get(length + 1)?.name_or_text()?;
        length += 2;
    }
    Some((name, length))
}

/// The names that WITH defines: `name AS (`, `name (columns) AS (`.
fn defined_by_with(tokens: &[Token]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    if !tokens.iter().any(|token| token.is_word("with")) {
        return found;
    }
    for (at, token) in tokens.iter().enumerate() {
        let (Some(name), true) = (token.name(), at > 0) else { continue };
        if !["with", "recursive"].iter().any(|word| tokens[at - 1].is_word(word)) && !tokens[at - 1].is_symbol(",") {
            continue;
        }
        let mut next = at + 1;
        if tokens.get(next).is_some_and(|token| token.is_symbol("(")) {
            let Some(length) = tokens[next..].iter().position(|token| token.is_symbol(")")) else { continue };
            next += length + 1;
        }
        let words = tokens[next.min(tokens.len())..]
            .iter()
            .take_while(|token| ["as", "not", "materialized"].iter().any(|word| token.is_word(word)));
        let count = words.count();
        if count > 0 && tokens.get(next + count).is_some_and(|token| token.is_symbol("(")) {
            found.insert(name);
        }
    }
    found
}

/// INSERT, DELETE, UPDATE or MERGE as a verb: not in `FOR UPDATE`, `ON DELETE` and the like.
fn changes(tokens: &[Token], at: usize) -> bool {
    let Token::Word(word) = &tokens[at] else { return false };
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    let after = |word: &str| before.is_some_and(|token| token.is_word(word));
    match word.as_str() {
        "insert" | "delete" | "merge" => {
            !after("on") && !after("or") && before.is_none_or(|token| !token.is_symbol("."))
        }
        "update" => {
            !after("for")
                && !after("key")
                && !after("on")
                && !after("do")
                && before.is_none_or(|token| !token.is_symbol("."))
        }
        // `SELECT ... INTO copy` makes a table; `REPLACE INTO` replaces rows.
        "into" => true,
        _ => false,
    }
}

/// `date()`, `strftime('%s')`.
fn tells_the_moment(call: &[Token]) -> bool {
    let empty = call.get(2).is_some_and(|token| token.is_symbol(")"));
    let alone = call.get(3).is_some_and(|token| token.is_symbol(")"));
    empty || alone && call[0].is_word("strftime")
}
