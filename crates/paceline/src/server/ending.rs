//! The end of the server: what is in hand is finished, clients are let go, Ruby processes end.
//! It never decides when.

use std::time::{Duration, Instant};

use super::{drain::Stopping, notify, signals::Signals, sites::Sites, Server};
use crate::log::Name;

/// What Ruby processes get to end after the last request.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// What a client has that is idle, for a request that may be on its way. Longer than a packet is.
const CHANCE: Duration = Duration::from_secs(1);

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Requests in hand are finished.
    Drained,
    /// The same, but somebody has lost patience.
    AtOnce,
    Halted,
}

/// Readiness goes down; what comes is still served.
pub fn begin(server: &Server) {
    server.ready.drain();
    notify::manager("STOPPING=1");
    let delay = server.config.shutdown_delay;
    if !delay.is_zero() {
        let delay = crate::config::show_duration(delay);
        server.log.event(Name::Stopping, format!("Draining: new connections are taken for {delay} more"));
    }
}

/// Ends it. Its listeners are closed already, but for those of the event loops.
pub async fn end(end: End, told: Instant, server: &Server, stopping: &Stopping, sites: &Sites, signals: &mut Signals) {
    if end == End::Halted {
        notify::manager("STOPPING=1");
        stopping.at_once();
        return server.log.event(Name::Stopping, "Halted");
    }
    server.log.event(Name::Stopping, "Stopping: requests in hand are finished first");
    // These have requests of nobody in hand, and times of their own.
    let processes = sites.stop_processes();
    let grace = server.config.shutdown_timeout;
    let finished = async {
        let _ = tokio::time::timeout(grace, stopping.drain(CHANCE.min(grace / 2))).await;
        let _ = tokio::time::timeout(LAST_MOMENTS, sites.stop(LAST_MOMENTS)).await;
        processes.await;
    };
    tokio::select! {
        biased;
        () = std::future::ready(()), if end == End::AtOnce => server.log.event(Name::Stopping, "Stopping at once"),
        _ = finished => {}
        _ = signals.again(told) => server.log.event(Name::Stopping, "Stopping at once"),
    }
    server.cache.close();
    server.incidents.close();
    server.log.event(Name::Stopped, "Stopped");
}
