//! What a cluster needs of the front that is its member here: what it is told by the others is done there. It never decides
//! what the others are told.

use ::cluster::{ClosedSites, RestartOrder, Status};

/// The front itself.
pub trait OwnFront: Send + Sync {
    /// Other URLs under which a page of this URL may be kept.
    fn aliases(&self, url: &str) -> Vec<String>;

    /// These sites are closed on all fronts, from now on.
    fn close(&self, sites: &ClosedSites);

    /// Begins what the order says; how it goes on is told by `Cluster::restart_is`.
    fn restart(&self, order: RestartOrder);

    /// How it is doing. It takes no longer than a moment.
    fn status(&self) -> Status;
}
