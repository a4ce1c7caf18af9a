//! Where the answer to a request is kept, and requests like it look. It never stores anything.

use std::sync::Arc;

use cache::{store::Key, stored::Entry};

use super::cache_request::CacheRequest;

/// What of a request decides where its answer is kept.
pub struct Kin {
    pub url: Arc<str>,
    pub primary: Key,
    /// It is one visitor's, by an owner's rule.
    pub own: bool,
    pub directory: Option<Arc<Entry>>,
}

impl Kin {
    /// Of a page that nobody has asked for yet, and that is for everybody.
    pub fn shared(url: Arc<str>, primary: Key, directory: Option<Arc<Entry>>) -> Kin {
        Kin { url, primary, own: false, directory }
    }

    pub fn of(wanted: &CacheRequest) -> Kin {
        Kin {
            url: wanted.url.clone(),
            primary: wanted.primary,
            own: wanted.visitor.is_some(),
            directory: wanted.directory.clone(),
        }
    }
}
