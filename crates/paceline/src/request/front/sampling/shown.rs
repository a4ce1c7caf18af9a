//! What was seen, as the dashboard shows it.
//! It never renders.

use std::{collections::HashMap, sync::Arc};

use cache::status::{Forward, Reason};

use super::{Samples, PANELS};
use crate::{
    apps::overview::{GenerationView, Overview, Role, WorkerView},
    cluster::Cluster,
    observe::{
        dashboard::{
            history::{Memories, Span},
            CacheState, ClusterState, Front as FrontState, Live, SiteState, Trouble, View, Worker,
        },
        in_flight::EXCHANGES,
        incidents::{Failed, Incident},
    },
    request::{front::Front, route::Site},
    support::clock,
};

/// Requests under way that are handed over for showing.
const MAX_LIVE: usize = 50;

impl Samples {
    /// Hands the view of a site, or of all, to what renders it. A site that is not there is all of them.
    pub fn view<T>(&self, server: &Front, site: Option<&str>, span: Span, render: impl FnOnce(&View) -> T) -> T {
        let routes = server.routes();
        let incidents = server.incidents.all();
        let seen = self.seen();
        let known = site.and_then(|site| seen.sites.get_key_value(site));
        let (site, history) = known.map_or((None, &seen.all), |(name, history)| (Some(name.as_str()), history));
        let is_shown = |name: &str| site.is_none_or(|site| site == name);
        let sites = routes.all().iter().map(|one| {
            site_state(one, seen.overviews.get(&one.config.name), |id| incidents.iter().any(|kept| kept.id == id))
        });
        let shown: Vec<_> = routes.all().iter().filter(|one| is_shown(&one.config.name)).collect();
        let overviews =
            shown.iter().filter_map(|one| Some((one.config.name.as_str(), seen.overviews.get(&one.config.name)?)));
        let workers = overviews.flat_map(|(name, overview)| workers(name, overview, &seen.memories)).collect();
        let (live, live_count) = live(&seen.overviews, is_shown);
        render(&View {
            now: clock::unix_seconds(),
            span,
            site,
            sites: sites.collect(),
            history,
            memories: &seen.memories,
            workers,
            front: FrontState {
                version: env!("CARGO_PKG_VERSION"),
                pid: std::process::id(),
                up: self.began.elapsed().as_secs_f64(),
                memory: seen.front,
            },
            cache: cache_state(&shown),
            live,
            live_count,
            incidents: incidents.iter().filter(|one| is_shown(&one.site)).map(of_incident).collect(),
            failed: server.incidents.all_failed().iter().filter(|one| is_shown(&one.site)).map(of_failed).collect(),
            cluster: server.cluster.as_ref().map(|cluster| cluster_state(cluster)),
        })
    }
}

/// How a site is. `is_kept`: whether there is still an incident of this id.
fn site_state(site: &Site, overview: Option<&Overview>, is_kept: impl Fn(&str) -> bool) -> SiteState {
    let failure = overview.and_then(|overview| overview.failure.as_ref());
    let current = overview.and_then(Overview::current);
    SiteState {
        name: site.config.name.clone(),
        standing: match (&site.app, site.config.upstream.is_some()) {
            (Some(_), _) => overview.map_or("starting", |overview| overview.state.as_str()),
            (None, true) => "upstream",
            (None, false) => "files",
        },
        failure: failure.map(|report| report.summary()),
        incident: failure.map(|report| report.id.clone()).filter(|id| is_kept(id)),
        versions: current.map(|current| current.versions.clone()).unwrap_or_default(),
        generation: current.map_or(0, |current| current.number),
        boots: overview.is_some_and(|overview| overview.generations.iter().any(|one| one.role == Role::Next)),
        notes: PANELS.iter().filter_map(|panel| panel(site)).collect(),
    }
}

/// The servers of the cluster, as they were seen a moment ago.
fn cluster_state(cluster: &Cluster) -> ClusterState {
    let (members, trouble) = cluster.members_lately();
    ClusterState {
        name: cluster.name().into(),
        server: cluster.place_of_server().into(),
        trouble,
        own_id: cluster.own_id().into(),
        members,
    }
}

/// What the page cache did for these sites; the most frequent reasons first.
fn cache_state(sites: &[&Arc<Site>]) -> CacheState {
    let mut cache = CacheState::default();
    let mut reasons: HashMap<String, u64> = HashMap::new();
    for counters in sites.iter().filter_map(|one| one.cache.as_ref()).map(|cache| &cache.counters) {
        for (name, count) in counters.all() {
            match name.split_once('=') {
                None if name == "hit" => (cache.hits, cache.asked) = (cache.hits + count, cache.asked + count),
                Some(("fwd", word)) => {
                    cache.asked += count;
                    if word != Forward::Bypass.as_str() {
                        *reasons.entry(name).or_default() += count;
                    }
                }
                Some(("detail", _)) => *reasons.entry(name).or_default() += count,
                _ => {}
            }
        }
    }
    cache.reasons = reasons.into_iter().map(|(name, count)| (name.clone(), meaning(&name).into(), count)).collect();
    cache.reasons.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
    cache
}

fn of_incident(incident: &Incident) -> Trouble {
    Trouble {
        href: format!("/incidents/{}", incident.id),
        at: incident.last,
        kind: incident.kind.as_str().into(),
        site: incident.site.clone(),
        what: incident.what.clone(),
        times: incident.times,
    }
}

fn of_failed(failed: &Failed) -> Trouble {
    Trouble {
        href: format!("/errors/{}", failed.id),
        at: failed.last,
        kind: failed.status.to_string(),
        site: failed.site.clone(),
        what: failed.what(),
        times: failed.times,
    }
}

fn workers(site: &str, overview: &Overview, memories: &Memories) -> Vec<Worker> {
    let memory = |pid| memories.of_process(pid).and_then(|samples| samples.back()).map(|(_, bytes)| *bytes);
    let one = |generation: &GenerationView, worker: &WorkerView| Worker {
        site: site.into(),
        generation: generation.number,
        index: worker.index,
        pid: worker.pid,
        state: if worker.leaving || generation.role == Role::Leaving {
            "leaving"
        } else if worker.ready {
            "ready"
        } else {
            "starting"
        },
        memory: memory(worker.pid),
        busy: worker.busy,
        answered: worker.answered,
        age: worker.forked.elapsed().as_secs_f64(),
    };
    let mut all = Vec::new();
    for generation in &overview.generations {
        all.extend(generation.workers.iter().map(|worker| one(generation, worker)));
        all.extend(generation.preloader.map(|pid| Worker {
            site: site.into(),
            generation: generation.number,
            pid,
            state: "preloader",
            memory: memory(pid),
            age: generation.began.elapsed().as_secs_f64(),
            ..Worker::default()
        }));
    }
    all
}

/// The oldest first.
fn live(overviews: &HashMap<String, Overview>, is_shown: impl Fn(&str) -> bool) -> (Vec<Live>, usize) {
    let now = clock::now();
    let mut entries = EXCHANGES.all();
    let name = |entry: &crate::observe::in_flight::Entry| {
        entry.site.as_ref().map_or_else(String::new, |site| site.name.clone())
    };
    entries.retain(|entry| is_shown(&name(entry)));
    entries.sort_by_key(|entry| entry.since);
    let count = entries.len();
    let shown = entries.iter().take(MAX_LIVE).map(|entry| {
        let site = name(entry);
        let worker = entry.held().and_then(|(id, thread)| {
            let generations = overviews.get(&site)?.generations.iter();
            let index = generations.flat_map(|generation| &generation.workers).find(|worker| worker.id == id)?.index;
            Some((index, thread))
        });
        Live {
            number: entry.number,
            method: entry.method.as_str().into(),
            path: entry.uri.path().into(),
            step: entry.step().0.as_str(),
            age_ms: now.saturating_sub(entry.since) / 1000,
            worker,
            site,
        }
    });
    (shown.collect(), count)
}

/// What a count of the cache means.
fn meaning(name: &str) -> &'static str {
    let advice = || Reason::ALL.iter().find(|reason| name.strip_prefix("detail=") == Some(reason.as_str()))?.advice();
    match name {
        "fwd=uri-miss" => "the page was not in the cache",
        "fwd=vary-miss" => "it was, for other request headers",
        "fwd=stale" => "it was out of date",
        "fwd=request" => "the client wanted a fresh one",
        "fwd=partial" => "only a part of it was",
        "fwd=method" | "detail=method" => "neither GET nor HEAD",
        "detail=status" => "a status that is not kept",
        "detail=request-no-store" => "Cache-Control: no-store in the request",
        "detail=uncacheable" => "known not to be kept",
        "detail=off" => "the cache is off",
        "detail=purged" => "purged while it was made",
        "detail=incomplete" => "the response broke off",
        "detail=upgrade" => "a WebSocket",
        _ => advice().unwrap_or(""),
    }
}
