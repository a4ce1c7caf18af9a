//! Sites that are closed for a while, and opened again, by this server or on all servers of its cluster. It never says what
//! visitors see.

use std::{io, sync::Arc};

use ::cluster::Sighting;
use serde_json::{json, Map, Value};

use super::{
    answer::{aside, ControlRequest, JsonResult, Refusal},
    parts::cluster::{alone, not_reached},
};
use crate::{
    cluster::{Cluster, SharedStateError},
    config::TrustedProxies,
    observe::log::Name,
    request::{
        front::Front,
        maintenance::{Closed, ClosedBy, Notice},
        route::Site,
    },
    support::clock,
};

/// Bytes of a page: the request for it has to fit into what the control socket takes.
pub const MAX_PAGE: usize = 48 << 10;
/// Seconds, if nobody has said something else.
const RETRY_AFTER: u64 = 300;
const MAX_RETRY_AFTER: u64 = 7 * 86_400;

/// GET /maintenance: what is closed, by this server and by its cluster.
pub async fn standing(front: Arc<Front>) -> JsonResult {
    let mut cluster = Value::Null;
    if let Some(own) = &front.cluster {
        let trouble = own.hear_closed().await;
        cluster = json!({ "name": own.name(), "server": own.place_of_server(), "trouble": trouble, "closed": own.closed().shown() });
    }
    let routes = front.routes();
    let sites: Map<_, _> = routes.all().iter().map(|site| (site.config.name.clone(), of_site(site))).collect();
    Ok(json!({ "sites": sites, "cluster": cluster }))
}

/// POST /maintenance `{"on": true, "site": "shop", "page": "<p>...", "allow": ["192.0.2.1"], "retry_after": 300, "cluster": true}`;
/// only `on` is needed.
pub async fn turn(asked: ControlRequest, front: Arc<Front>) -> JsonResult {
    let said: Value =
        serde_json::from_slice(&asked.body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    let notice = wanted(&said)?;
    let routes = front.routes();
    let named = said["site"].as_str();
    let sites: Vec<Arc<Site>> =
        routes.all().iter().filter(|site| named.is_none_or(|name| site.config.name == name)).cloned().collect();
    if sites.is_empty() {
        let names: Vec<&str> = routes.all().iter().map(|site| site.config.name.as_str()).collect();
        let named = named.unwrap_or_default();
        return Err(Refusal::bad(format!("there is no site {named:?}; the sites are: {}", names.join(", "))));
    }
    match said["cluster"] {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => return turn_all(&front, named, notice, &sites).await,
        _ => return Err(Refusal::bad("cluster must be true or false")),
    }
    let turning = front.clone();
    let told = aside(move || {
        sites.iter().map(|site| (site.config.name.clone(), set(&turning, site, notice.clone()))).collect::<Map<_, _>>()
    });
    let told = told.await?;
    if let Some(cluster) = &front.cluster {
        cluster.tell().await;
    }
    Ok(json!({ "sites": told }))
}

/// Turns maintenance on or off on all servers of the cluster.
async fn turn_all(front: &Front, site: Option<&str>, notice: Option<Notice>, sites: &[Arc<Site>]) -> JsonResult {
    let cluster = front.cluster.as_ref().ok_or_else(|| alone("`paceline maintenance` without --cluster"))?;
    let is_on = notice.is_some();
    let notice = notice.map(|notice| json!(notice));
    let unchanged =
        |why: SharedStateError| not_reached(format!("{why}. As far as this server knows, nothing has changed"));
    let number = cluster.close_sites(site, notice.as_ref()).await.map_err(unchanged)?;
    let state = if is_on { "closed for maintenance" } else { "open again" };
    let what = site.map_or("all sites are".into(), |site| format!("{site} is"));
    let text = format!("Cluster {}: {what} {state} on all servers, as this one was told", cluster.name());
    front.log.event(Name::Maintenance, text);
    // They apply it whatever becomes of this answer.
    let members = cluster.confirmed(number).await;
    let (members, trouble) = match members {
        Ok(members) => (members.iter().filter_map(|seen| member(cluster, seen, number)).collect(), None),
        Err(why) => (Vec::new(), Some(why.to_string())),
    };
    let sites: Map<_, _> = sites.iter().map(|site| (site.config.name.clone(), of_site(site))).collect();
    Ok(json!({
        "cluster": cluster.name(), "server": cluster.place_of_server(), "on": is_on, "site": site, "members": members,
        "trouble": trouble, "sites": sites,
    }))
}

/// Whether a member has confirmed the change. None: it has left.
fn member(cluster: &Cluster, seen: &Sighting, number: u64) -> Option<Value> {
    let Sighting { member, silent, .. } = seen;
    let is_this = member.id == cluster.own_id();
    let state = match member.closed {
        _ if member.has_left => return None,
        _ if is_this => "confirmed",
        Some(applied) if applied >= number => "confirmed",
        _ if seen.is_silent() => "silent",
        None => "unable",
        Some(_) => "waiting",
    };
    let closed_here = member.status.as_ref().map_or(0, |status| status.closed_here);
    Some(json!({
        "host": member.host, "pid": member.pid, "is_this": is_this, "state": state, "silent_ms": silent, "closed_here": closed_here,
    }))
}

/// None: the sites are to be opened.
fn wanted(said: &Value) -> Result<Option<Notice>, Refusal> {
    match said["on"].as_bool() {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => return Err(Refusal::bad("must have on: true or false")),
    }
    let page = said["page"].as_str().map(str::to_owned);
    if page.as_ref().is_some_and(|page| page.len() > MAX_PAGE) {
        return Err(Refusal::bad(format!("the page has more than {} KB", MAX_PAGE >> 10)));
    }
    let allow: Option<Vec<String>> = match said["allow"].as_array() {
        None => Some(Vec::new()),
        Some(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
    };
    let allow = allow.ok_or_else(|| Refusal::bad("allow must have strings"))?;
    if let Some(wrong) = allow.iter().find(|text| !TrustedProxies::knows(text)) {
        return Err(Refusal::bad(format!("allow must have addresses or networks like \"10.0.0.0/8\", not {wrong:?}")));
    }
    let retry_after = match &said["retry_after"] {
        Value::Null => RETRY_AFTER,
        said => said
            .as_u64()
            .filter(|seconds| (1..=MAX_RETRY_AFTER).contains(seconds))
            .ok_or_else(|| Refusal::bad(format!("retry_after must be seconds from 1 to {MAX_RETRY_AFTER}")))?,
    };
    Ok(Some(Notice { since: clock::unix_seconds() as u64, retry_after, page, allow }))
}

fn set(front: &Front, site: &Site, notice: Option<Notice>) -> Value {
    let name = &site.config.name;
    let is_on = notice.is_some();
    let kept: io::Result<bool> = site.maintenance.set(notice);
    let state = if is_on { "closed for maintenance" } else { "open again" };
    front.log.of(name).event(Name::Maintenance, format!("{name} is {state}"));
    let trouble = match kept {
        Ok(true) => None,
        Ok(false) if !is_on => None,
        Ok(false) => Some(
            "a restart of the server opens it: the server's account has no state folder (HOME or STATE_DIRECTORY)"
                .to_owned(),
        ),
        Err(why) => Some(format!("a restart of the server forgets this: its file can't be written: {why}")),
    };
    let mut told = of_site(site);
    told["trouble"] = trouble.into();
    told
}

/// What is closed by this server, and what by the cluster.
fn of_site(site: &Site) -> Value {
    let ClosedBy { here, cluster } = site.maintenance.closed().unwrap_or_default();
    let shown = |closed: Option<Arc<Closed>>| closed.map(|closed| of_notice(&closed.notice));
    json!({ "maintenance": shown(here), "cluster": shown(cluster) })
}

/// As GET /status has it.
pub fn of_closed(closed: &ClosedBy) -> Value {
    let Some(first) = closed.first() else { return Value::Null };
    let mut told = of_notice(&first.notice);
    told["here"] = closed.here.is_some().into();
    told["cluster"] = closed.cluster.is_some().into();
    told
}

fn of_notice(notice: &Notice) -> Value {
    let Notice { since, retry_after, page, allow } = notice;
    json!({ "since": since, "retry_after": retry_after, "own_page": page.is_some(), "allow": allow })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        assert_eq!(wanted(&json!({ "on": false })).unwrap(), None);
        let notice = wanted(&json!({ "on": true })).unwrap().unwrap();
        assert_eq!((notice.retry_after, notice.page, notice.allow.len()), (300, None, 0));
        let all = json!({ "on": true, "page": "<p>", "allow": ["192.0.2.0/24", "private"], "retry_after": 60 });
        let notice = wanted(&all).unwrap().unwrap();
        assert_eq!((notice.retry_after, notice.page.as_deref(), notice.allow.len()), (60, Some("<p>"), 2));
        for (wrong, told) in [
            (json!({}), "must have on"),
            (json!({ "on": true, "allow": ["office"] }), "not \"office\""),
            (json!({ "on": true, "allow": [1] }), "strings"),
            (json!({ "on": true, "retry_after": 0 }), "seconds from 1"),
            (json!({ "on": true, "page": "x".repeat(MAX_PAGE + 1) }), "more than 48 KB"),
        ] {
            let refusal = wanted(&wrong).unwrap_err();
            assert!(refusal.why.contains(told), "{}", refusal.why);
        }
    }
}
