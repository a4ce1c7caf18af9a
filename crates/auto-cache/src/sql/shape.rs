//! A statement, understood once for its text: what it reads and changes as soon as the bound values are known. It never
//! says less than what the database does.

use super::{
    conditions::{Condition, Operand},
    query::{self, TableRead},
    scan::Scan,
    token::{tokens, Token},
    value::{Known, Value},
    words,
    write::{self, RowImage, TableChange},
};
use crate::{
    effects::{Change, Image, Read, Rows, Write},
    schema::Schema,
};

/// What a statement does to the transaction that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

#[derive(Debug, Clone, Default)]
pub struct Shape {
    reads: Vec<TableRead>,
    reads_everything: bool,
    /// Why another run at once could read something else, though nothing was written.
    volatile: Option<String>,
    changes: Vec<TableChange>,
    changes_everything: bool,
    changes_schema: bool,
    control: Option<Control>,
}

impl Shape {
    pub fn parse(sql: &str, schema: &Schema) -> Shape {
        let Ok(tokens) = tokens(sql, schema.dialect()) else { return Shape::unknown("SQL that can't be read") };
        let mut shape = Shape::default();
        for statement in tokens.split(|token| token.is_symbol(";")).filter(|statement| !statement.is_empty()) {
            shape.add(Shape::of(statement, schema));
        }
        shape
    }

    /// It may do anything.
    fn unknown(why: &str) -> Shape {
        Shape { reads_everything: true, volatile: Some(why.into()), changes_everything: true, ..Shape::default() }
    }

    /// It makes, changes or drops tables: the schema has to be learnt once more.
    fn of_schema() -> Shape {
        Shape { changes_everything: true, changes_schema: true, ..Shape::default() }
    }

    fn volatile(why: &str) -> Shape {
        Shape { volatile: Some(why.into()), ..Shape::default() }
    }

    fn control(control: Control) -> Shape {
        Shape { control: Some(control), ..Shape::default() }
    }

    pub(crate) fn add(&mut self, other: Shape) {
        self.reads.extend(other.reads);
        self.reads_everything |= other.reads_everything;
        self.volatile = self.volatile.take().or(other.volatile);
        self.changes.extend(other.changes);
        self.changes_everything |= other.changes_everything;
        self.changes_schema |= other.changes_schema;
        self.control = other.control.or(self.control.take());
    }

    fn of(tokens: &[Token], schema: &Schema) -> Shape {
        let word = match &tokens[0] {
            Token::Word(word) => word.as_str(),
            Token::Symbol(open) if open == "(" => "select",
            _ => return Shape::unknown("a statement without a verb"),
        };
        match word {
            "select" | "values" | "with" | "table" => Shape::of_query(tokens, schema),
            "insert" | "update" | "delete" | "replace" | "merge" => Shape::of_change(tokens, schema),
            "explain" => Shape::of_explained(tokens, schema),
            "truncate" => Shape::of_truncate(tokens, schema),
            "begin" | "start" => Shape::control(Control::Begin),
            "commit" | "end" => Shape::control(Control::Commit),
            "abort" => Shape::control(Control::Rollback),
            "savepoint" | "release" | "rollback" => Shape::of_savepoint(word, tokens),
            "pragma" => Shape::of_pragma(tokens),
            "set" | "reset" => Shape::of_setting(tokens),
            "show" => Shape::volatile("SHOW"),
            "analyze" | "vacuum" | "reindex" | "listen" | "unlisten" | "notify" | "lock" | "checkpoint"
            | "deallocate" | "close" => Shape::default(),
            "create" | "alter" | "drop" | "attach" | "detach" | "refresh" | "grant" | "revoke" | "comment" => {
                Shape::of_schema()
            }
            _ => Shape::unknown(word),
        }
    }

    fn of_query(tokens: &[Token], schema: &Schema) -> Shape {
        let scan = Scan::of(tokens, schema);
        let mut shape = Shape {
            reads: query::reads(tokens, &scan, schema),
            reads_everything: scan.unknown.is_some(),
            volatile: scan.volatile.clone(),
            ..Shape::default()
        };
        if scan.changes {
            let into =
                tokens.iter().any(|token| token.is_word("into")) && !tokens.iter().any(|token| token.is_word("insert"));
            shape.add(if into { Shape::of_schema() } else { Shape::of_change(tokens, schema) });
        }
        // A function of the database's own may write.
        shape.changes_everything |= scan.unknown_function && schema.dialect() == super::token::Dialect::Postgres;
        shape
    }

    fn of_change(tokens: &[Token], schema: &Schema) -> Shape {
        let scan = Scan::of(tokens, schema);
        let changes = if scan.unknown.is_some() { None } else { write::changes(tokens, &scan, schema) };
        Shape {
            // What it answers (RETURNING, a count of rows) depends on all that it names.
            reads: scan.tables.iter().map(|table| query::whole(table)).collect(),
            reads_everything: scan.unknown.is_some(),
            volatile: scan.volatile,
            changes_everything: changes.is_none(),
            changes: changes.unwrap_or_default(),
            ..Shape::default()
        }
    }

    /// EXPLAIN ANALYZE runs the statement.
    fn of_explained(tokens: &[Token], schema: &Schema) -> Shape {
        let verbs = ["select", "with", "values", "table", "insert", "update", "delete", "replace", "merge"];
        match tokens.iter().position(|token| verbs.iter().any(|verb| token.is_word(verb))) {
            Some(at) => Shape { volatile: Some("EXPLAIN".into()), ..Shape::of(&tokens[at..], schema) },
            None => Shape::unknown("EXPLAIN"),
        }
    }

    fn of_truncate(tokens: &[Token], schema: &Schema) -> Shape {
        let scan = Scan::of(tokens, schema);
        let cascades = tokens.iter().any(|token| token.is_word("cascade"));
        let tables: Vec<_> = scan.tables.iter().map(|table| TableChange::whole(table)).collect();
        let triggers = scan.tables.iter().filter_map(|table| schema.get(table)).any(|table| table.has_triggers());
        if cascades || triggers || tables.is_empty() {
            return Shape { changes_everything: true, ..Shape::default() };
        }
        Shape { changes: tables, ..Shape::default() }
    }

    fn of_savepoint(word: &str, tokens: &[Token]) -> Shape {
        let name = tokens.last().and_then(Token::name_or_text).unwrap_or_default();
        Shape::control(match word {
            "savepoint" => Control::Savepoint(name),
            "release" => Control::Release(name),
            _ if tokens.iter().any(|token| token.is_word("to")) => Control::RollbackTo(name),
            _ => Control::Rollback,
        })
    }

    /// Pragmas that show or set what no page depends on; any other may do anything.
    fn of_pragma(tokens: &[Token]) -> Shape {
        const HARMLESS: &[&str] = &[
            "busy_timeout",
            "cache_size",
            "foreign_key_list",
            "foreign_keys",
            "index_info",
            "index_list",
            "index_xinfo",
            "journal_mode",
            "journal_size_limit",
            "mmap_size",
            "optimize",
            "query_only",
            "synchronous",
            "table_info",
            "table_list",
            "table_xinfo",
            "temp_store",
            "wal_autocheckpoint",
            "wal_checkpoint",
            "defer_foreign_keys",
        ];
        let names = tokens.iter().filter_map(Token::name).skip(1).take(2);
        if names.into_iter().any(|name| HARMLESS.contains(&name)) {
            Shape::default()
        } else {
            Shape::unknown("PRAGMA")
        }
    }

    /// How a client is set up; any other setting may decide what a statement reads.
    fn of_setting(tokens: &[Token]) -> Shape {
        const HARMLESS: &[&str] = &[
            "client_min_messages",
            "standard_conforming_strings",
            "statement_timeout",
            "lock_timeout",
            "application_name",
            "idle_in_transaction_session_timeout",
            "intervalstyle",
            "constraints",
            "transaction",
            "client_encoding",
        ];
        let zone = tokens.iter().any(|token| token.is_word("timezone") || token.is_word("zone"))
            && tokens.iter().any(|token| token.name_or_text().as_deref() == Some("utc"));
        let names = tokens.iter().filter_map(Token::name);
        if zone || names.into_iter().any(|name| HARMLESS.contains(&name)) {
            Shape::default()
        } else {
            Shape { volatile: Some("SET".into()), changes_everything: true, ..Shape::default() }
        }
    }

    pub fn transaction(&self) -> Option<&Control> {
        self.control.as_ref()
    }

    /// It may change rows or the schema.
    pub fn writes(&self) -> bool {
        self.changes_everything || !self.changes.is_empty()
    }

    /// It makes, changes or drops tables: the schema has to be learnt once more.
    pub fn changes_schema(&self) -> bool {
        self.changes_schema
    }

    /// What it reads, with these bound values. A value that is missing counts as unknown.
    pub fn read(&self, bound: &[Value], schema: &Schema) -> Read {
        let moment = bound.iter().find_map(|value| match value {
            Value::Text(text) if words::is_moment(text) => Some(text.clone()),
            _ => None,
        });
        Read {
            everything: self.reads_everything,
            volatile: self.volatile.clone().or(moment),
            rows: self.reads.iter().map(|read| rows(read, bound, schema)).collect(),
        }
    }

    /// What it changes, with these bound values; and, if it is known and one row was inserted, its generated key.
    pub fn write(&self, bound: &[Value], generated: Option<(&str, Value)>, schema: &Schema) -> Write {
        let generated = generated.as_ref();
        Write {
            everything: self.changes_everything,
            changes: self.changes.iter().map(|change| resolve(change, bound, generated, schema)).collect(),
        }
    }
}

fn canonical(table: &str, column: &str, values: &[Operand], bound: &[Value], schema: &Schema) -> Option<Vec<Known>> {
    let class = schema.get(table)?.get(column)?.class;
    let value = |operand: &Operand| match operand {
        Operand::Literal(value) => class.canonical(value),
        Operand::Bound(number) => class.canonical(bound.get(*number)?),
    };
    let mut known = values.iter().map(value).collect::<Option<Vec<_>>>()?;
    known.sort();
    known.dedup();
    Some(known)
}

fn rows(read: &TableRead, bound: &[Value], schema: &Schema) -> Rows {
    let condition = |Condition { column, values }: &Condition| {
        Some((column.clone(), canonical(&read.table, column, values, bound, schema)?))
    };
    Rows {
        table: read.table.clone(),
        conditions: read.conditions.iter().filter_map(condition).collect(),
        columns: read.columns.clone(),
    }
}

fn resolve(change: &TableChange, bound: &[Value], generated: Option<&(&str, Value)>, schema: &Schema) -> Change {
    let generates = |column: &String| {
        change.inserts
            && schema.get(&change.table).and_then(|table| table.get(column)).is_none_or(|own| own.default.is_none())
    };
    let known = |(column, values): (&String, &Vec<Operand>)| {
        let known = canonical(&change.table, column, values, bound, schema)?;
        (!(known.contains(&Known::Null) && generates(column))).then(|| (column.clone(), known))
    };
    let image = |image: &RowImage| -> Image { image.iter().filter_map(known).collect() };
    let mut images: Vec<Image> = change.images.iter().map(image).collect();
    if let (true, Some((column, value)), [image]) = (change.inserted, generated, &mut images[..]) {
        let column = column.to_ascii_lowercase();
        let known = canonical(&change.table, &column, &[Operand::Literal(value.clone())], &[], schema);
        match known {
            Some(known) => image.insert(column, known),
            None => image.remove(&column),
        };
    }
    Change { table: change.table.clone(), images, columns: change.columns.clone() }
}
