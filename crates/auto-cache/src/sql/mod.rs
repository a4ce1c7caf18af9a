//! SQL, as far as it must be understood: which tables and rows a statement reads and changes.

pub mod literals;
pub mod shape;
pub mod token;
pub mod value;

pub(crate) mod conditions;
mod query;
pub(crate) mod scan;
mod words;
mod write;
