//! What a client's connection can do beside taking a response: it can have interim responses, and be taken over by the
//! application. It never writes to it.

use std::{any::Any, sync::Arc};

use http::{HeaderMap, StatusCode};
use hyper::upgrade::OnUpgrade;

use crate::observe::in_flight::Listed;

/// What the connection of an exchange can do.
#[derive(Default)]
pub struct Offers {
    /// Where interim responses go (RFC 9110 section 15.2). None: the client can't have them.
    pub hints: Option<Hints>,
    /// The client's connection, should the app take it over.
    pub upgrade: Option<Upgrade>,
}

/// Counts as a request in flight for as long as it is held.
pub type Hold = Arc<dyn Any + Send + Sync>;

/// A connection (or stream of HTTP/2) that the client offers to the app.
pub struct Upgrade {
    pub on: OnUpgrade,
    /// Counts as a request under way for as long as it is held.
    pub stream: Option<Hold>,
    /// Lists the exchange for as long as the connection is the app's.
    pub live: Listed,
}

/// A connection that can send interim responses. To be told within the request's own task, which then has them written.
pub trait Interim: Send + Sync {
    /// One with this status (1xx, but never 101) and these fields; left out where it can't be sent without waiting.
    fn interim(&self, status: StatusCode, headers: &HeaderMap);
}

pub type Hints = Arc<dyn Interim>;
