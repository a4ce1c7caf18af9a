//! What a request is dispatched to: something that leases worker threads. An app of the supervisor is one.
//! It never says how its workers come to be.

use std::{future::Future, sync::Arc, time::Duration};

use super::{
    expectations::RequestLine,
    queue::{Again, Class, Lease, Offer, Refused, WorkerId},
    suspects::Suspects,
};
use crate::observe::incidents::InHand;
use startup_report::StartupReport;

/// Why there is no worker thread for a request.
pub enum Unavailable {
    Refused(Refused),
    /// The app did not start.
    Failed(Arc<StartupReport>),
}

/// What a conversation with a worker may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `rack.early_hints` is offered.
    pub early_hints: bool,
    /// After it the log says so. None: never.
    pub soft_timeout: Option<Duration>,
    /// After it the worker is replaced, and the client gets 504. None: never.
    pub hard_timeout: Option<Duration>,
    /// After its answer a thread that is still busy with the request is no longer counted. None: it always is.
    pub after_reply: Option<Duration>,
    /// Bytes of a response held in memory for a slow client.
    pub response_memory: usize,
    /// Bytes of a response held in a file beyond that.
    pub response_spool: u64,
}

/// Where requests are answered.
pub trait Origin {
    fn limits(&self) -> Limits;
    /// What its workers died with.
    fn suspects(&self) -> &Suspects;
    /// A worker thread for this request, in its turn. `again`: of a request whose worker has died.
    /// `offer`: it may be posted behind others.
    fn lease(
        &self,
        class: Class,
        request: RequestLine<'_>,
        again: Option<Again>,
        offer: Option<Offer>,
    ) -> impl Future<Output = Result<Lease, Unavailable>> + Send;
    /// Notes what a worker that is lost had in hand.
    fn lost(&self, worker: WorkerId, request: InHand);
}
