//! What this front does when a restart of all fronts has come to it: it restarts its applications as `paceline restart`
//! does, and looks for a while whether the new code answers as well as the old did. It never decides which front is next, and
//! never goes back to the old code by itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ::cluster::{RestartOrder, RestartProgress, RestartState};
use tokio::sync::oneshot;
use units::show_duration;

use crate::{
    apps::{
        app::App,
        attempts::{Cause, Outcome},
        orders::{Order, Wish},
    },
    observe::metrics::{Kind, Snapshot},
    request::{front::Front, route::Site},
    support::explanation::Explanation,
};

/// So many failed answers are none yet, and so much more than before is as before.
const MIN_FAILED: u64 = 3;
const MARGIN: f64 = 0.01;

/// An application that is restarted.
struct Restarted {
    site: Arc<Site>,
    app: Arc<App>,
    /// Share of its answers that were 5xx, before.
    before: f64,
}

/// Does it, and says how it goes on.
pub async fn restart(front: Arc<Front>, order: RestartOrder) {
    let Some(cluster) = &front.cluster else { return };
    let tell = |state, text: &str| cluster.restart_is(RestartProgress::new(&order.id, state, text));
    let began = Instant::now();
    let applications = applications(&front, order.site.as_deref());
    if applications.is_empty() {
        let which = order.site.as_ref().map_or_else(String::new, |site| format!(" of the name {site:?}"));
        return tell(RestartState::Nothing, &format!("serves no application{which}"));
    }
    tell(RestartState::Restarting, "");
    let served = all_serve(&applications).await;
    front.samples.look_at_apps(&front).await;
    let generations = match served {
        Ok(generations) => generations,
        Err(why) => return tell(RestartState::Failed, &why.to_string()),
    };
    let serves = format!("{} after {:.1} s", shown(&generations), began.elapsed().as_secs_f64());
    let watch = Duration::from_millis(order.watch);
    if watch.is_zero() {
        return tell(RestartState::Serves, &serves);
    }
    tell(RestartState::Watching, &serves);
    match watched(&applications, &generations, watch).await {
        Ok(counted) => tell(RestartState::Serves, &format!("{serves}; {counted} in {}", show_duration(watch))),
        Err(why) => tell(RestartState::Failed, &format!("{serves}, but {why}")),
    }
}

fn applications(front: &Front, named: Option<&str>) -> Vec<Restarted> {
    let routes = front.routes();
    let meant = routes.all().iter().filter(|site| named.is_none_or(|name| site.config.name == name));
    let restarted = |site: &Arc<Site>| {
        let app = site.app.clone()?;
        let lately = site.metrics.lately(Instant::now(), &site.metrics.snapshot());
        Some(Restarted { site: site.clone(), app, before: Answers::of_app(&lately.counts).failing() })
    };
    meant.filter_map(restarted).collect()
}

/// The new generation of each, once all of them serve. Err: the first that does not, and why.
async fn all_serve(applications: &[Restarted]) -> Result<Vec<u64>, Explanation> {
    let mut ends = Vec::new();
    for Restarted { app, .. } in applications {
        let (done, end) = oneshot::channel();
        let by = Cause::Told("paceline restart --rolling");
        app.order(Order::Restart(Wish { done: Some(done), ..Wish::by(by) }));
        ends.push(end);
    }
    let mut generations = Vec::new();
    let mut failed = None;
    for (end, Restarted { site, .. }) in ends.into_iter().zip(applications) {
        let name = &site.config.name;
        let why = match end.await {
            Ok(Outcome::Serves { generation, .. }) => {
                generations.push(generation);
                continue;
            }
            Ok(Outcome::Failed(report)) => report.summary(),
            Ok(Outcome::RolledBack(why)) => format!("{name} was rolled back: {why}"),
            Ok(Outcome::Refused(why)) => format!("{name}: {why}"),
            Err(_) => format!("{name} is stopping"),
        };
        failed.get_or_insert_with(|| Explanation::new(why));
    }
    failed.map_or(Ok(generations), Err)
}

fn shown(generations: &[u64]) -> String {
    match generations {
        [0] => "is not running, its next request starts the new code".into(),
        [one] => format!("generation {one} serves"),
        all => format!("{} applications serve", all.len()),
    }
}

/// Counts the answers of the new code for a while. Err: why it is not as good as the old.
async fn watched(applications: &[Restarted], generations: &[u64], time: Duration) -> Result<String, Explanation> {
    let before: Vec<Snapshot> = applications.iter().map(|one| one.site.metrics.snapshot()).collect();
    tokio::time::sleep(time).await;
    let mut all = Answers::default();
    for ((one, before), generation) in applications.iter().zip(&before).zip(generations) {
        let name = &one.site.config.name;
        let answers = Answers::of_app(&one.site.metrics.snapshot().since(before));
        if answers.are_worse(one.before) {
            let Answers { all: requests, failed } = answers;
            return Err(Explanation::new(format!(
                "{failed} of {requests} answers of {name} were 5xx in {}, before {:.1} %. `paceline rollback` there goes back",
                show_duration(time),
                one.before * 100.0
            )));
        }
        // Somebody else may have restarted it, or rolled it back.
        let serving = one.app.overview().await.current().map(|current| current.number);
        if *generation > 0 && serving != Some(*generation) {
            let why = format!("generation {generation} of {name} does not serve any more");
            return Err(Explanation::new(why));
        }
        all = Answers { all: all.all + answers.all, failed: all.failed + answers.failed };
    }
    Ok(format!("{} of {} answers failed", all.failed, all.all))
}

/// Answers of an application.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    all: u64,
    /// Those that were 5xx.
    failed: u64,
}

impl Answers {
    fn of_app(counts: &Snapshot) -> Answers {
        let counts = counts.of(Kind::App);
        Answers { all: counts.requests(), failed: counts.classes[4] }
    }

    /// The share that failed.
    fn failing(self) -> f64 {
        self.failed as f64 / self.all.max(1) as f64
    }

    /// `before`: the share that failed with the old code.
    fn are_worse(self, before: f64) -> bool {
        self.failed >= MIN_FAILED && self.failing() > before + MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_code_is_worse_by_more_failures_than_before() {
        for (all, failed, before, worse) in [
            (0, 0, 0.0, false),
            (2, 2, 0.0, false),
            (3, 3, 0.0, true),
            (100, 3, 0.0, true),
            (1000, 3, 0.0, false),
            (100, 20, 0.2, false),
            (100, 22, 0.2, true),
        ] {
            assert_eq!(Answers { all, failed }.are_worse(before), worse, "{failed} of {all} {before}");
        }
    }

    #[test]
    fn what_serves_is_said() {
        assert_eq!((shown(&[4]), shown(&[4, 7])), ("generation 4 serves".into(), "2 applications serve".into()));
    }
}
