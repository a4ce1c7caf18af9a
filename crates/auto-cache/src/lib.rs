//! The rules of the automatic page cache: what a page was made of, and which writes make it another. Given are SQL with its
//! bound values, the schema, what a request holds and what a response contains. It never runs SQL, reads no clock, keeps no
//! page for visitors and never waits.
//!
//! 1. A worker says which statements a request ran. `sql::shape::Shape::parse(sql, &schema)` understands each text once;
//!    `shape.read(&bound, &schema)` and `shape.write(&bound, generated, &schema)` give what this run read and changed.
//! 2. `write.touches(&read)` is the rule; `index::Index` finds the pages that a write touches without trying each.
//! 3. `keys::Variants` finds the page that fits a request: by the names that were read when it was made, and their values.
//! 4. `holes::Template` is a body whose CSRF tokens, nonces and random texts are cut out, to be filled for each visitor. Which random texts may be, say
//!    `random_text` and `element_names`.
//! 5. `watch::Watch` puts these together: it counts what a cache would have answered, and compares.
//!
//! What it does not understand counts as the whole database. The statements it knows are those of SQLite and PostgreSQL.

pub mod effects;
mod element_names;
pub mod holes;
pub mod index;
pub mod keys;
pub mod random_text;
pub mod schema;
pub mod sql;
pub mod watch;
pub mod wire;
