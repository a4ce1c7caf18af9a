//! The server's own browser session for single sign-on. A browser holds a random id in a `__Host-` cookie; a store (a
//! file, or Redis) holds the SHA-256 of the id, and the session sealed with a key that only the id gives. So the cookie
//! stays small, and a reader of the store learns neither ids, nor names, nor tokens. It never asks an identity provider,
//! never reads a clock, and never decides who may see what: the front does.
//!
//! Reading order: `id`, `cookie`, `return_to` (what comes from a browser), `session`, `seal`, `store` with
//! `file` and `redis` (where sessions are), `cache` (hits in memory), `sessions` (all of it in one place: this is what
//! the front uses), `failures` (who has failed to sign in too often).

mod cache;
mod cookie;
mod error;
mod failures;
mod file;
mod id;
mod redis_store;
mod return_to;
mod seal;
mod session;
mod sessions;
mod store;
mod visible;

pub use secret::Secret;

pub use self::{
    cookie::CookieName,
    error::Error,
    failures::{FailureLimit, Failures, RetryAfter},
    file::FileStore,
    id::{Key, SessionId},
    redis_store::{RedisSettings, RedisStore},
    return_to::ReturnTo,
    session::{Identity, Mechanism, NewSession, Provider, Session},
    sessions::{Limits, Logout, Sessions},
    store::{Answer, Record, Store, StoredRecord, Swept},
    visible::is_visible,
};

/// Milliseconds since 1970 (UTC).
pub type UnixMillis = u64;
