//! The statements of one site's database, each text understood once. It never runs one. Until a worker has told the schema,
//! every statement counts as one that reads and writes everything.

use std::collections::HashMap;

use crate::{
    effects::{Read, Write},
    schema::Schema,
    sql::{shape::Shape, value::Value},
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

    /// The schema is another one, which nobody has told yet.
    pub fn forget(&mut self) {
        *self = Statements::default();
    }

    pub fn run(&mut self, sql: &str, bound: &[Value], generated: Option<&(String, Value)>) -> Effects {
        let Some(schema) = &self.schema else { return unknown() };
        if self.shapes.len() >= MAX_SHAPES {
            self.shapes.clear();
        }
        let fresh;
        let shape = match sql.len() <= MAX_TEXT {
            true if self.shapes.contains_key(sql) => &self.shapes[sql],
            true => self.shapes.entry(sql.to_owned()).or_insert_with(|| Shape::parse(sql, schema)),
            false => {
                fresh = Shape::parse(sql, schema);
                &fresh
            }
        };
        let generated = generated.map(|(column, value)| (column.as_str(), value.clone()));
        Effects {
            read: shape.read(bound, schema),
            write: shape.write(bound, generated, schema),
            writes: shape.writes(),
            changes_schema: shape.changes_schema(),
        }
    }
}

fn unknown() -> Effects {
    Effects {
        read: Read { everything: true, ..Read::default() },
        write: Write { everything: true, ..Write::default() },
        writes: false,
        changes_schema: false,
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
    }
}
