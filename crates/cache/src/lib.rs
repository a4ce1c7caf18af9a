//! HTTP caching as law: what may be stored, what may be answered from it, and what is dropped (RFC 9111 and its kin).
//! Pure: time and bytes are arguments. It never opens a socket or a file, never waits and never looks at a clock.
//!
//! Reading order: `fields` and `directives` (how the fields are read), `storing` (may it be kept), `freshness` (for how
//! long), `key`, `vary` and `parts` (which request it answers), `stored` (what is kept), `reusing` (may it be used now),
//! `validating` and `updating` (304 and HEAD), `partial` (ranges), `invalidating`, `private` (a cache for one user),
//! `record` (as bytes), `stubborn` (an owner's rules against the app's word), `cookies` (what it knows of a site's
//! cookies), `status`.

// What a client or a worker sends must never end in a panic.
#![deny(clippy::unwrap_used, clippy::expect_used)]

pub mod cookies;
pub mod directives;
pub mod fields;
pub mod freshness;
pub mod groups;
pub mod invalidating;
pub mod key;
pub mod partial;
pub mod parts;
pub mod private;
pub mod record;
pub mod reusing;
pub mod search;
pub mod status;
pub mod store;
pub mod stored;
pub mod storing;
pub mod stubborn;
pub mod targeted;
pub mod updating;
pub mod validating;
pub mod vary;

/// Milliseconds since the Unix epoch, or a span of them.
pub type Millis = u64;

/// The longest span that is told apart: 2^31 seconds (RFC 9111 section 1.2.2).
pub const FOREVER: Millis = (1 << 31) * 1000;
