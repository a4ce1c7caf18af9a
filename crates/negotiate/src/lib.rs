//! Single sign-on by Kerberos: who brings a ticket is signed in (RFC 4559, SPNEGO of RFC 4178, GSS-API of RFC 2743).
//! Tokens are checked by the system's libgssapi_krb5, which is loaded only when an acceptor is opened. It never speaks
//! HTTP, never keeps a session, and logs nothing: its words are for those who do.
//!
//! ```no_run
//! # async fn example(authorization: &[u8]) -> Result<(), negotiate::Refusal> {
//! use negotiate::{Acceptor, Answer, Conversation, Settings};
//!
//! let settings = Settings { keytab: "/etc/paceline/http.keytab".into(), ..Settings::default() };
//! let acceptor = Acceptor::open(settings)?;
//! // One for each connection.
//! let mut conversation = Conversation::default();
//! if let Some(token) = negotiate::token(authorization) {
//!     match acceptor.accept(&mut conversation, token?, None).await {
//!         Answer::Accepted { principal, reply } => println!("{}: {}", principal.name, negotiate::challenge(&reply)),
//!         Answer::Continue { reply } => println!("401, {}", negotiate::challenge(&reply)),
//!         Answer::Refused(refusal) => println!("401, {refusal}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `header` (the field), `token` (what came), `acceptor` (the way of a token), `gss` (the library),
//! `explain` and `refusal` (what went wrong), `keytab`, `pac` (groups), `check` (what an operator asks before people do).

#![deny(clippy::unwrap_used, clippy::expect_used)]

mod acceptor;
mod bindings;
pub mod check;
mod der;
mod explain;
mod gss;
mod header;
pub mod keytab;
pub mod pac;
mod pool;
mod principal;
mod refusal;
mod token;

pub use acceptor::{Acceptor, Answer, BindingPolicy, Conversation, Settings};
pub use bindings::ChannelBindings;
pub use header::{challenge, token, MAX_TOKEN};
pub use principal::{Mechanism, Principal};
pub use refusal::Refusal;
pub use token::{etype_name, sniff, Ticket, Token};
