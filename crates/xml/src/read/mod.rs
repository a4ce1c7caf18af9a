//! XML read into the hashes that ActiveSupport's XmlMini makes of it. quick-xml finds where each piece of markup ends;
//! here every piece is held to XML 1.0 (fifth edition) and Namespaces in XML 1.0, within [`Limits`], and becomes a
//! [`Document`]. What Ruby has to build of that is a [`Program`]. Pure: bytes in, values out; nothing is fetched, and
//! no input panics.
//!
//! ```
//! use paceline_xml::read::{parse, Limits, Op};
//!
//! let mut document = parse(b"<a b='1'>x</a>", &Limits::default()).unwrap();
//! let program = document.plain();
//! assert_eq!(program.ops.last(), Some(&Op::Hash(1)));
//! let mistake = parse(b"<a>", &Limits::default()).err().unwrap();
//! assert_eq!(mistake.message, "element \"a\" is not closed");
//! ```

mod attributes;
mod characters;
mod convert;
mod doctype;
mod document;
mod emit;
mod error;
mod limits;
mod namespaces;
mod parser;
mod references;
mod symbols;
#[cfg(test)]
mod tests;

pub use convert::Unusual;
pub use document::{Document, Source, Span};
pub use emit::{Op, Program};
pub use error::Error;
pub use limits::Limits;
pub use parser::parse;
