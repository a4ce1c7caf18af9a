//! ESI 1.0 (W3C Note "ESI Language Specification 1.0", 4 August 2001): pages put together from fragments. Documents
//! come as bytes in any cuts, requests for fragments and the page's bytes go out as values. Nothing here reads, writes,
//! waits or knows the time.
//!
//! A [`Parser`] makes [`Piece`]s of a document's bytes; an [`Assembler`] makes [`Action`]s of the pieces and the
//! [`Facts`] of a request.
//!
//! ```
//! use std::sync::Arc;
//! use esi::{Action, Assembler, Facts, Limits, Parser};
//!
//! let (limits, facts) = (Limits::default(), Facts { host: "shop.example".into(), ..Facts::default() });
//! let (mut parser, mut assembler, mut pieces) = (Parser::new(&limits), Assembler::new(Arc::new(facts), &limits), Vec::new());
//! parser.feed("Hello <esi:include src=\"/name\"/>!".into(), &mut pieces)?;
//! parser.finish(&mut pieces)?;
//! pieces.iter().for_each(|piece| assembler.feed(piece));
//! assembler.end();
//! let mut page = Vec::new();
//! while let Some(action) = assembler.poll() {
//!     match action {
//!         Action::Emit(bytes) => page.extend_from_slice(&bytes),
//!         Action::Fetch { id, url } => {
//!             assert_eq!(url, "/name");
//!             // Later, when it has come; a fragment that is ESI itself goes through a parser and `assembler.nested()` first.
//!             assembler.received(id, "Ann".into());
//!             assembler.finished(id);
//!         }
//!         Action::Cancel(_) | Action::Done => {}
//!         Action::Failed(failure) => panic!("no page without {}", failure.url),
//!     }
//! }
//! assert_eq!(page, b"Hello Ann!");
//! # Ok::<(), esi::Error>(())
//! ```
//!
//! Where the note leaves something open, or this processor differs:
//!
//! - Variables stand for their values in attributes and within `vars`, nowhere else. Within `vars` what the client sent
//!   is escaped for HTML; in URLs it is percent-encoded.
//! - Parameters of `QUERY_STRING` are decoded; of several with one name the last counts, of cookies the first, as in
//!   Rack.
//! - Text in single quotes is never a number; a variable's value is one if it looks like one.
//! - A comparison with something empty is false, `!=` too (5.1).
//! - A variable alone as a test tells whether there is something; a literal alone is an error.
//! - `inline` (3.2) is optional: its content stays where it is and is not kept under its name.
//! - Attributes that the note does not know are ignored; elements that it does not know are errors.
//! - Elements in HTML comments are processed too. `<!--esi` ends at the next `-->`.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

mod assembler;
mod error;
mod expression;
mod facts;
mod limits;
mod parser;
mod piece;
mod scan;
mod surrogate;
mod tag;
mod template;
mod url;
mod variable;

pub use assembler::{Action, Assembler, Failure, FetchId};
pub use error::{Error, ErrorKind, ExpressionError};
pub use expression::Expression;
pub use facts::Facts;
pub use limits::Limits;
pub use parser::Parser;
pub use piece::{Include, Piece};
pub use surrogate::{asks_for_esi, SURROGATE_CAPABILITY};
pub use template::Template;
pub use url::{resolve, Base, Refused, Target};
pub use variable::Variable;
