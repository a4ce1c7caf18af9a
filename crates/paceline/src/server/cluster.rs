//! The front's part in a cluster begins and ends with the server: it has a thread with an event loop of its own, so that no
//! visitor waits for it. What the other fronts want of this one is done here. It never speaks with them itself.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use ::cluster::{ClosedSites, RestartOrder, Status};
use serde_json::Value;
use tokio::runtime::Handle;

use super::{rolling, thread_with_loop};
use crate::{
    cluster::OwnFront,
    observe::log::Name,
    request::{front::Front, maintenance::Notice, route::Site},
};

/// How long the first visitor waits for what the others have decided, if Valkey is slow.
const SETTLING: Duration = Duration::from_millis(500);

/// Joins the cluster, if there is one. Returns when it is known which sites are closed on all fronts.
pub async fn begin(front: &Arc<Front>) -> io::Result<()> {
    let Some(cluster) = &front.cluster else { return Ok(()) };
    let event_loop = thread_with_loop("cluster")?;
    let own = Own { front: Arc::downgrade(front), event_loop: event_loop.clone() };
    cluster.begin(&event_loop, Box::new(own));
    cluster.settled(SETTLING).await;
    Ok(())
}

/// This front, as its cluster knows it.
struct Own {
    front: Weak<Front>,
    event_loop: Handle,
}

impl OwnFront for Own {
    /// Of pages that No-Vary-Search joins.
    fn aliases(&self, url: &str) -> Vec<String> {
        let Some(front) = self.front.upgrade() else { return Vec::new() };
        let routes = front.routes();
        routes.all().iter().filter_map(|site| site.cache.as_ref()?.kept_under(url)).collect()
    }

    fn close(&self, sites: &ClosedSites) {
        if let Some(front) = self.front.upgrade() {
            close(&front, front.routes().all(), sites);
        }
    }

    fn restart(&self, order: RestartOrder) {
        if let Some(front) = self.front.upgrade() {
            self.event_loop.spawn(rolling::restart(front, order));
        }
    }

    fn status(&self) -> Status {
        self.front.upgrade().map_or_else(Status::default, |front| front.samples.status(&front))
    }
}

/// Closes these sites, as all fronts of the cluster do.
pub fn close_as_all(front: &Front, sites: &[Arc<Site>]) {
    if let Some(cluster) = &front.cluster {
        cluster.apply_closed(|closed| close(front, sites, closed));
    }
}

fn close(front: &Front, sites: &[Arc<Site>], closed: &ClosedSites) {
    for site in sites {
        let name = &site.config.name;
        let notice = closed.notice(name);
        let is_closed = notice.is_some();
        if site.maintenance.set_for_cluster(notice.map(read)) {
            let state = if is_closed { "closed for maintenance" } else { "open again" };
            front.log.of(name).event(Name::Maintenance, format!("{name} is {state} on all servers of the cluster"));
        }
    }
}

/// A notice of another version, perhaps: the site is closed all the same.
fn read(notice: &Value) -> Notice {
    serde_json::from_value(notice.clone()).unwrap_or_else(|_| Notice {
        since: notice["since"].as_u64().unwrap_or(0),
        retry_after: notice["retry_after"].as_u64().unwrap_or(300),
        page: None,
        allow: Vec::new(),
    })
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
