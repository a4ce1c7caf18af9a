//! The front's part in a cluster begins and ends with the server: it has a thread with an event loop of its own, so that no
//! visitor waits for it. It never speaks with the other fronts itself.

use std::{
    io,
    sync::{Arc, Weak},
};

use super::thread_with_loop;
use crate::front::Front;

/// Joins the cluster, if there is one.
pub fn begin(front: &Arc<Front>) -> io::Result<()> {
    let Some(cluster) = &front.cluster else { return Ok(()) };
    let event_loop = thread_with_loop("cluster")?;
    let weak = Arc::downgrade(front);
    cluster.begin(&event_loop, Box::new(move |url| aliases(&weak, url)));
    Ok(())
}

/// Other URLs under which pages of this URL are kept (No-Vary-Search).
fn aliases(front: &Weak<Front>, url: &str) -> Vec<String> {
    let Some(front) = front.upgrade() else { return Vec::new() };
    let routes = front.routes();
    routes.all().iter().filter_map(|site| site.cache.as_ref()?.kept_under(url)).collect()
}

/// Leaves it, with the pages that are kept.
pub async fn leave(front: &Front) {
    if let Some(cluster) = &front.cluster {
        cluster.leave().await;
    }
    front.cache.close();
    if let Some(cluster) = &front.cluster {
        cluster.close();
    }
}
