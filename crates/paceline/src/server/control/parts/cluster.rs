//! The fronts of other machines, as this one sees them, and a restart of all of them, step by step as the command
//! line asks for it. It never restarts anything itself, and never goes on by itself.

use std::sync::Arc;

use ::cluster::{Millis, Sighting};
use http::StatusCode;
use serde_json::{json, Value};

use super::{
    answer::{ControlRequest, JsonResult, Refusal},
    json_of, ControlPart, Exposition, Route, SiteObservation, Type, NOTHING,
};
use crate::{
    cluster::{Cluster, NotBegun, SharedStateError},
    request::front::Front,
};

pub const PART: ControlPart = ControlPart { routes: ROUTES, metrics, ..NOTHING };

const ROUTES: &[Route] = &[
    Route { method: "GET", path: "/cluster", answer: |_, server| json_of(report(server)) },
    Route { method: "POST", path: "/cluster/restart", answer: |asked, server| json_of(begin_restart(asked, server)) },
    Route {
        method: "POST",
        path: "/cluster/restart/order",
        answer: |asked, server| json_of(order_restart(asked, server)),
    },
    Route {
        method: "POST",
        path: "/cluster/restart/look",
        answer: |asked, server| json_of(look_at_restart(asked, server)),
    },
    Route { method: "POST", path: "/cluster/restart/end", answer: |asked, server| json_of(end_restart(asked, server)) },
];

/// How long a front's answers are counted after it was restarted, if nobody says something else; and at most.
const WATCH: Millis = 5_000;
const MAX_WATCH: Millis = 3_600_000;

/// There is no cluster. `instead`: what to use for this server alone.
pub fn alone(instead: &str) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        why: format!(
            "this server is alone: a table [cluster] in its paceline.toml joins it with others (docs/cluster.md); for this server \
             alone use {instead}"
        ),
    }
}

/// Valkey does not answer.
pub fn not_reached(why: impl ToString) -> Refusal {
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, why: why.to_string() }
}

fn conflict(why: String) -> Refusal {
    Refusal { status: StatusCode::CONFLICT, why }
}

/// GET /cluster.
async fn report(front: Arc<Front>) -> JsonResult {
    let cluster = front.cluster.as_ref().ok_or_else(|| alone("`paceline status`"))?;
    front.samples.look_at_apps(&front).await;
    Ok(cluster.report().await)
}

fn clustered(front: &Front) -> Result<&Arc<Cluster>, Refusal> {
    front.cluster.as_ref().ok_or_else(|| alone("`paceline restart`"))
}

fn said(asked: &ControlRequest) -> Result<Value, Refusal> {
    let said: Value =
        serde_json::from_slice(&asked.body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    if said.is_object() {
        Ok(said)
    } else {
        Err(Refusal::bad("the body must be an object"))
    }
}

fn text<'a>(said: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    said[key].as_str().ok_or_else(|| Refusal::bad(format!("\"{key}\" must be a string")))
}

/// POST /cluster/restart `{"skip_silent": false}`: takes the lease. Its token, and the members that can be restarted.
async fn begin_restart(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let cluster = clustered(&front)?;
    let skips = said(&asked)?["skip_silent"] == true;
    let nothing = |why: SharedStateError| not_reached(format!("{why}. Nothing was restarted"));
    let members = cluster.sightings().await.map_err(nothing)?;
    let (silent, there): (Vec<_>, Vec<_>) = members.into_iter().partition(Sighting::is_silent);
    if let (false, [first, ..]) = (skips, &*silent) {
        let names: Vec<_> = silent.iter().map(|seen| seen.member.shown()).collect();
        let count = if names.len() == 1 { "is" } else { "are" };
        return Err(conflict(format!(
            "{} {count} silent, for {} s: nothing was restarted. Start it, or leave it out with --skip-silent; one that is gone for \
             good leaves the list after ten minutes",
            names.join(", "),
            first.silent / 1000
        )));
    }
    // These would not hear of it.
    if let Some(old) = there.iter().find(|seen| seen.member.status.is_none()) {
        let (name, version) = (old.member.shown(), &old.member.version);
        return Err(conflict(format!(
            "{name} runs Paceline {version}, which can't do this: nothing was restarted. Upgrade it"
        )));
    }
    let token = cluster.begin_restart().await.map_err(|why| match why {
        NotBegun::Taken(owner) => conflict(format!(
            "{owner} restarts all servers already: nothing was restarted. `paceline cluster` shows how far it is"
        )),
        NotBegun::Unreachable(why) => nothing(why),
    })?;
    let shown = |seen: &Sighting| json!({ "id": seen.member.id, "host": seen.member.host, "pid": seen.member.pid, "is_this": seen.member.id == cluster.own_id() });
    Ok(json!({
        "cluster": cluster.name(),
        "server": cluster.place_of_server(),
        "token": token,
        "members": there.iter().map(shown).collect::<Vec<_>>(),
        "skipped": silent.iter().map(shown).collect::<Vec<_>>(),
    }))
}

/// POST /cluster/restart/order `{"token": "...", "member": "...", "site": "shop", "watch": 5000}`: the next one.
async fn order_restart(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked)?;
    let watch = match &said["watch"] {
        Value::Null => WATCH,
        said => said
            .as_u64()
            .filter(|watch| *watch <= MAX_WATCH)
            .ok_or_else(|| Refusal::bad(format!("\"watch\" must be milliseconds up to {MAX_WATCH}")))?,
    };
    let (token, member) = (text(&said, "token")?, text(&said, "member")?);
    let ordered = clustered(&front)?.order_restart(token, member, said["site"].as_str(), watch).await;
    Ok(match ordered {
        Ok(Some(order)) => json!({ "order": order }),
        Ok(None) => json!({ "state": "lost" }),
        Err(why) => json!({ "trouble": why.to_string() }),
    })
}

/// POST /cluster/restart/look `{"token": "...", "member": "...", "order": "..."}`: keeps the lease; how the member is doing.
async fn look_at_restart(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked)?;
    let (token, member, order) = (text(&said, "token")?, text(&said, "member")?, text(&said, "order")?);
    let standing = match clustered(&front)?.look_at_restart(token, member).await {
        Ok(standing) => standing,
        Err(why) => return Ok(json!({ "trouble": why.to_string() })),
    };
    if standing.has_lost_lease {
        return Ok(json!({ "state": "lost" }));
    }
    Ok(shown(standing.member.as_ref(), order))
}

/// How a member stands with its order.
fn shown(member: Option<&Sighting>, order: &str) -> Value {
    let Some(seen) = member else { return json!({ "state": "left" }) };
    let progress = seen.member.restart.as_ref().filter(|progress| progress.order == order);
    match progress {
        Some(progress) if progress.state.has_ended() || !seen.is_silent() => {
            json!({ "state": progress.state.as_str(), "text": progress.text, "has_ended": progress.state.has_ended() })
        }
        _ if seen.is_silent() => json!({ "state": "silent" }),
        _ => json!({ "state": "waiting" }),
    }
}

/// POST /cluster/restart/end `{"token": "..."}`: nobody is restarted any more.
async fn end_restart(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said = said(&asked)?;
    clustered(&front)?.end_restart(text(&said, "token")?).await.map_err(not_reached)?;
    Ok(json!({}))
}

fn metrics(text: &mut Exposition, front: &Front, _: &[SiteObservation]) {
    let Some(cluster) = &front.cluster else { return };
    let told = cluster.figures();
    for (name, help, value) in [
        (
            "paceline_cluster_reached",
            "1 while the server that joins several machines answers.",
            u64::from(told.is_reached),
        ),
        ("paceline_cluster_shows_pages", "1 while pages are shown from the cache.", u64::from(told.shows_pages)),
        ("paceline_cluster_purges_behind", "Purges of other servers that are not applied yet.", told.behind),
        ("paceline_cluster_purges_unsent", "Own purges that the others can't know yet.", told.unsent),
    ] {
        text.family(name, Type::Gauge, help).sample(&[], value);
    }
    shared_cache(text, cluster);
    shared_rate_limits(text, cluster);
}

fn shared_cache(text: &mut Exposition, cluster: &Cluster) {
    let Some(told) = cluster.tier_figures() else { return };
    let help = "What the cache that the servers of a cluster share was asked for, by result.";
    let mut family = text.family("paceline_shared_cache_requests_total", Type::Counter, help);
    let results = [("hit", told.hits), ("miss", told.misses), ("error", told.errors), ("skipped", told.skipped)];
    results.iter().for_each(|(result, count)| family.sample(&[("result", result)], count));
    let help = "Bytes of pages read from the shared cache, and written there.";
    let mut family = text.family("paceline_shared_cache_bytes_total", Type::Counter, help);
    family.sample(&[("direction", "read")], told.bytes_read);
    family.sample(&[("direction", "write")], told.bytes_written);
    let help = "Pages written to the shared cache, and those that came too late.";
    let mut family = text.family("paceline_shared_cache_writes_total", Type::Counter, help);
    family.sample(&[("result", "stored")], told.writes);
    family.sample(&[("result", "late")], told.late);
    let help = "1 while the shared cache is skipped because it does not answer.";
    text.family("paceline_shared_cache_open", Type::Gauge, help).sample(&[], u8::from(told.open_for > 0));
}

fn shared_rate_limits(text: &mut Exposition, cluster: &Cluster) {
    let Some(told) = cluster.rate_figures() else { return };
    let help = "Requests that rate limits of all servers of a cluster were asked for, by result.";
    let mut family = text.family("paceline_shared_rate_limit_requests_total", Type::Counter, help);
    let results =
        [("admitted", told.admitted), ("refused", told.refused), ("error", told.errors), ("skipped", told.skipped)];
    results.iter().for_each(|(result, count)| family.sample(&[("result", result)], count));
    let help = "1 while rate limits count this server's requests alone, because the cluster's server does not answer.";
    text.family("paceline_shared_rate_limit_open", Type::Gauge, help).sample(&[], u8::from(told.open_for > 0));
}

#[cfg(test)]
mod tests {
    use ::cluster::{Member, RestartProgress, RestartState};

    use super::*;

    #[test]
    fn how_a_member_stands_with_its_order() {
        let with = |left: Millis, progress: Option<(&str, RestartState)>| {
            let restart = progress.map(|(order, state)| RestartProgress::new(order, state, "told"));
            Sighting { member: Member { restart, ..Member::default() }, left, silent: 0 }
        };
        for (seen, state) in [
            (None, "left"),
            (Some(with(9, None)), "waiting"),
            (Some(with(0, None)), "silent"),
            (Some(with(9, Some(("before", RestartState::Serves)))), "waiting"),
            (Some(with(9, Some(("this", RestartState::Restarting)))), "restarting"),
            (Some(with(0, Some(("this", RestartState::Watching)))), "silent"),
            (Some(with(9, Some(("this", RestartState::Failed)))), "failed"),
            (Some(with(0, Some(("this", RestartState::Serves)))), "serves"),
        ] {
            assert_eq!(shown(seen.as_ref(), "this")["state"], state, "{seen:?}");
        }
    }
}
