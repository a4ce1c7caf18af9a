//! The statements of one site's database, each text understood once. It never runs one. Until a worker has told the schema,
//! every statement counts as one that reads and writes everything; whether it asks for the moment or chance is known all the same.

use std::collections::HashMap;

use crate::{
    effects::{Read, Write},
    schema::Schema,
    sql::{
        shape::Shape,
        token::{tokens, Dialect},
        value::Value,
    },
    wire::{self, Malformed},
};

/// Texts that are kept. Applications have some hundreds; one that puts values into its texts has any number.
const MAX_SHAPES: usize = 2000;
/// A longer text is understood each time.
const MAX_TEXT: usize = 16 << 10;

#[derive(Debug, Default)]
pub struct Statements {
    schema: Option<Schema>,
    /// The schema as it came.
    told: Vec<u8>,
    shapes: HashMap<String, Shape>,
}

/// What one run of a statement did.
#[derive(Debug, Default)]
pub struct Effects {
    pub read: Read,
    pub write: Write,
    pub writes: bool,
    pub changes_schema: bool,
}

impl Statements {
    /// True: it is another schema than before.
    pub fn learn(&mut self, payload: &[u8]) -> Result<bool, Malformed> {
        if self.schema.is_some() && self.told == payload {
            return Ok(false);
        }
        self.schema = Some(wire::schema(payload)?);
        self.told = payload.to_vec();
        self.shapes.clear();
        Ok(true)
    }

    pub fn know_schema(&self) -> bool {
        self.schema.is_some()
    }

    /// The schema is about to be another one, which nobody has told yet.
    pub fn forget(&mut self) {
        *self = Statements::default();
    }

    pub fn run(&mut self, sql: &str, bound: &[Value], generated: Option<&(String, Value)>) -> Effects {
        let schema = self.schema.as_ref();
        let understand = |sql: &str| schema.map_or_else(|| guessed(sql), |schema| Shape::parse(sql, schema));
        if self.shapes.len() >= MAX_SHAPES {
            self.shapes.clear();
        }
        let fresh;
        let shape = if sql.len() > MAX_TEXT {
            fresh = understand(sql);
            &fresh
        } else if self.shapes.contains_key(sql) {
            &self.shapes[sql]
        } else {
            self.shapes.entry(sql.to_owned()).or_insert_with(|| understand(sql))
        };
        let Some(schema) = schema else { return without_schema(shape, bound) };
        let generated = generated.map(|(column, value)| (column.as_str(), value.clone()));
        Effects {
            read: shape.read(bound, schema),
            write: shape.write(bound, generated, schema),
            writes: shape.writes(),
            changes_schema: shape.changes_schema(),
        }
    }
}

/// By each database that can read it.
fn guessed(sql: &str) -> Shape {
    let mut shapes = [Dialect::Sqlite, Dialect::Postgres]
        .into_iter()
        .filter(|dialect| tokens(sql, *dialect).is_ok())
        .map(|dialect| Shape::parse(sql, &Schema::new(dialect)));
    let mut shape = shapes.next().unwrap_or_else(|| Shape::parse(sql, &Schema::new(Dialect::Sqlite)));
    shapes.for_each(|other| shape.add(other));
    shape
}

fn without_schema(shape: &Shape, bound: &[Value]) -> Effects {
    let volatile = shape.read(bound, &Schema::new(Dialect::Sqlite)).volatile;
    Effects {
        read: Read { everything: true, volatile, ..Read::default() },
        write: Write { everything: true, ..Write::default() },
        writes: false,
        changes_schema: shape.changes_schema(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_makes_statements_narrow() {
        let mut statements = Statements::default();
        let run = |statements: &mut Statements| {
            statements.run("SELECT * FROM beers WHERE id = ?", &[Value::Integer(1)], None)
        };
        assert!(run(&mut statements).read.everything);
        let schema = b"D\0sqlite\0T\0beers\0C\0id\0INTEGER\0?\0";
        assert_eq!(statements.learn(schema), Ok(true));
        assert_eq!(statements.learn(schema), Ok(false));
        let read = run(&mut statements).read;
        assert_eq!((read.everything, read.rows[0].conditions.len()), (false, 1));
        assert!(statements.learn(b"nothing").is_err() && !run(&mut statements).read.everything);
        statements.forget();
        assert!(run(&mut statements).read.everything);
        let changes = |statements: &mut Statements, sql: &str| statements.run(sql, &[], None).changes_schema;
        assert!(changes(&mut statements, "DROP TABLE beers") && !changes(&mut statements, "DELETE FROM beers"));
    }

    #[test]
    fn the_moment_is_known_without_a_schema() {
        let mut statements = Statements::default();
        let mut volatile = |sql: &str| statements.run(sql, &[Value::Integer(1)], None).read.volatile.is_some();
        for sql in ["SELECT NOW()", "SELECT random() FROM beers", "SELECT 1 FROM beers WHERE at < CURRENT_TIMESTAMP"] {
            assert!(volatile(sql), "{sql}");
        }
        assert!(volatile("SELECT * FROM beers WHERE id = $1 AND at < now()") && volatile("SELECT 'torn"));
        for sql in ["SELECT * FROM beers WHERE id = ?", "SELECT count(*) FROM \"beers\" WHERE id = $1::int"] {
            assert!(!volatile(sql), "{sql}");
        }
    }
}
