//! The exchanges that are under way: what each asks for, how far it is and which worker thread has it. One is listed
//! from the moment that more is needed than a look into the cache until nobody works on it any more, also when its
//! client has left. It never keeps one alive, and never waits.

mod entry;
mod registry;

pub use self::{
    entry::{About, Client, Entry, Held, Listed, Step},
    registry::Registry,
};

/// Those of this server.
pub static EXCHANGES: Registry = Registry::new();
