//! Single sign-on by OpenID Connect, as a relying party (OpenID Connect Core 1.0, by the crate `openidconnect`): where
//! to send a browser that has to sign in, what its way back says, refreshing, and logout from either side. PKCE with
//! S256 always; a token is believed only if it is signed with a public key of the issuer. It never keeps a login or a
//! session (the crate `sign-in` does), never reads a clock, and never shows a token or a secret.
//!
//! Reading order: `settings`, `client` (HTTP, over client-pool), `provider` (what the issuer says of itself: discovered,
//! kept, refreshed), `login` (begin and complete, refresh), `claims` (who it is), `logout` (both directions) with
//! `token` (a signed token that is no ID token), `check` (for `paceline sso check`), `error`.

mod check;
mod claims;
mod client;
mod error;
mod login;
mod logout;
mod provider;
mod settings;
mod token;

pub use self::{
    check::{CheckLine, Outcome},
    error::Error,
    login::{PendingLogin, SignedIn},
    provider::Provider,
    settings::{read_secret_file, Settings},
};

/// Milliseconds by which the clocks of the issuer and of this machine may differ.
const LEEWAY: u64 = 60_000;
