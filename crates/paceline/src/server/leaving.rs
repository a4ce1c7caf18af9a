//! Whether the client of the request that an outbound call is made for is still there. It never ends a call itself.

use std::{sync::Arc, time::Duration};

use http::Method;

use crate::observe::in_flight::{Client, EXCHANGES};

/// How often it is looked. A call that is answered earlier costs no look.
const LOOK: Duration = Duration::from_millis(200);

/// Resolves when the client of the exchange with this id has left. Never if it changes something: half of a change is
/// worse than a whole one that nobody waits for.
pub async fn left(id: &str) {
    tokio::time::sleep(LOOK).await;
    let reads = |method: &Method| *method == Method::GET || *method == Method::HEAD;
    let found = EXCHANGES.all().into_iter().find(|entry| entry.id == id && reads(&entry.method));
    // Not held, or it would be taken for one that goes on.
    let Some(entry) = found.map(|entry| Arc::downgrade(&entry)) else { return std::future::pending().await };
    loop {
        match entry.upgrade().map(|entry| entry.client_is()) {
            Some(Client::Gone) => return,
            Some(_) => tokio::time::sleep(LOOK).await,
            None => std::future::pending().await,
        }
    }
}
