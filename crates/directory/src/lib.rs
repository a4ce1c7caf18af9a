//! People and groups of an LDAP directory: Active Directory, Samba, OpenLDAP, FreeIPA. It checks a password by a bind,
//! says in which groups somebody is, and names the groups of a Kerberos ticket. It never writes to the directory, never
//! sends a password over a connection that others can read, and logs nothing.
//!
//! ```no_run
//! # async fn example() -> Result<(), directory::Failure> {
//! use directory::{Directory, Secret, Settings};
//!
//! let directory = Directory::open(Settings {
//!     urls: vec!["ldaps://dc1.example.com".into()],
//!     base: "dc=example,dc=com".into(),
//!     account: Some(("paceline@example.com".into(), Secret::new("..."))),
//!     ..Settings::default()
//! })?;
//! let person = directory.authenticate("alice", &Secret::new("...")).await?;
//! println!("{} is in {}", person.name, person.groups.join(", "));
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `settings`, `directory` (what can be asked), `session` (one connection, and its questions), `query`
//! (filters), `failure`, `cache`, `secret`.
//!
//! Failed passwords are not counted here: the caller limits how often.

#![deny(clippy::unwrap_used, clippy::expect_used)]

mod cache;
mod directory;
mod failure;
mod query;
mod session;
mod settings;
pub mod trust;

pub use directory::{Directory, Person, Server};
pub use failure::{Denial, Failure};
pub use secret::Secret;
pub use settings::{Kind, Settings};
