//! What was seen, in the few figures that the other servers of the cluster show.
//! It asks no application, so it takes no longer than a moment.

use std::time::Instant;

use cluster::Status;

use super::{counts_of, Samples};
use crate::{
    apps::overview::{Overview, Role},
    observe::metrics::Histogram,
    request::front::Front,
};

impl Samples {
    /// How this server is doing.
    pub fn status(&self, front: &Front) -> Status {
        let routes = front.routes();
        let now = Instant::now();
        let mut status = Status { uptime: front.up_since.elapsed().as_secs(), ..Status::default() };
        let mut total = Histogram::default();
        for site in routes.all() {
            status.sites += 1;
            if let Some(closed) = site.maintenance.closed() {
                status.closed += 1;
                status.closed_here += u64::from(closed.here.is_some());
            }
            let counts = counts_of(site, &site.metrics);
            status.hits += counts.hits;
            status.asked += counts.asked;
            status.waiting += counts.waiting as u64;
            status.busy += counts.busy as u64;
            let lately = site.metrics.lately(now, &site.metrics.snapshot());
            status.per_second += lately.per_second();
            total.merge(&lately.counts.total());
        }
        status.p99_ms = (total.count() > 0).then(|| total.quantile(0.99)).flatten().map(|micros| micros / 1000.0);
        let seen = self.seen();
        for overview in routes.all().iter().filter_map(|site| seen.overviews.get(&site.config.name)) {
            add_app(&mut status, overview);
        }
        status
    }
}

fn add_app(status: &mut Status, overview: &Overview) {
    status.apps += 1;
    let is_next = |role: Role| matches!(role, Role::Next | Role::Canary);
    let restarts = overview.restarts > 0 || overview.generations.iter().any(|generation| is_next(generation.role));
    status.restarting += u64::from(restarts);
    status.failing += u64::from(overview.failure.is_some());
    status.workers_wanted += overview.workers_wanted as u64;
    let current = overview.current();
    let ready =
        current.map_or(0, |current| current.workers.iter().filter(|worker| worker.ready && !worker.leaving).count());
    status.workers += ready as u64;
    // Of several none is the server's.
    let only = current.filter(|_| status.apps == 1);
    status.generation = only.map_or(0, |current| current.number);
    status.release =
        only.and_then(|current| Some(current.release.file_name()?.to_string_lossy().into_owned())).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::apps::{
        generation::Phase,
        overview::{GenerationView, Standing, WorkerView},
    };

    fn overview(role: Role) -> Overview {
        let generation = GenerationView {
            role,
            number: 3,
            phase: Phase::Ready,
            began: Instant::now(),
            began_at: 1.5,
            release: "/srv/shop/releases/2".into(),
            versions: String::new(),
            reforked: false,
            preloader: None,
            workers: vec![WorkerView::sample()],
        };
        Overview { workers_wanted: 2, generations: vec![generation], ..Overview::empty(Standing::Ready, None) }
    }

    #[test]
    fn one_application_has_a_generation_and_several_have_none() {
        let mut status = Status::default();
        add_app(&mut status, &overview(Role::Current));
        assert_eq!((status.generation, &*status.release, status.workers, status.restarting), (3, "2", 1, 0));
        add_app(&mut status, &overview(Role::Next));
        assert_eq!((status.generation, &*status.release, status.restarting), (0, "", 1));
        assert_eq!((status.apps, status.workers, status.workers_wanted), (2, 1, 4));
    }
}
