//! Where the server is that the fronts of a cluster share, and how long they trust what they know. It never connects,
//! and never shows a password.

use std::{path::PathBuf, time::Duration};

use super::Address;

/// `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub url: Address,
    /// The password, if it is not in the URL.
    pub password_file: Option<PathBuf>,
    /// That of the sentinels.
    pub sentinel_password_file: Option<PathBuf>,
    /// Certificates in PEM that are trusted in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Fronts with the same name belong together.
    pub name: String,
    /// How long a front that can't reach the server shows pages without asking the application.
    pub partition_ttl: Duration,
    /// Pages are shared, too.
    pub shared_cache: Option<SharedCache>,
    /// Rate limits count the requests of all fronts. How long a request waits for an answer.
    pub shared_rate_limits: Option<Duration>,
}

/// How fronts share pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCache {
    /// Bytes of a page, at most.
    pub object: u64,
    /// How long a request waits for an answer.
    pub time: Duration,
}
