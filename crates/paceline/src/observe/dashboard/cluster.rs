//! The servers of the cluster, as a part of the dashboard's page.
//! It never shows more than each says of itself.

use cluster::{RestartState, Sighting, Status};
use maud::{html, Markup};
use units::{age, grouped, millis, number};

use super::{
    html::{table, visible},
    view::{ClusterState, View},
};

/// Rows of the table.
const MAX_MEMBERS: usize = 50;

impl View<'_> {
    /// None: the server is alone.
    pub(super) fn cluster(&self) -> Option<Markup> {
        self.cluster.as_ref().map(shown)
    }
}

fn shown(cluster: &ClusterState) -> Markup {
    let heads = ["server", "", "generation", "#workers", "#requests/s", "#p99", "#waiting", "#cache hits", "#version"];
    let more = cluster.members.len().saturating_sub(MAX_MEMBERS);
    html! {
        p.hint { (visible(&cluster.name)) ", by " (visible(&cluster.server)) }
        @if let Some(why) = &cluster.trouble {
            p.alarm { "The server that joins them is not reached: " (visible(why)) ". This is what was known before." }
        }
        (table(&heads, &html! { @for seen in cluster.members.iter().take(MAX_MEMBERS) { (row(seen, &cluster.own_id)) } }))
        @if more > 0 { p.empty { "and " (grouped(more as u64)) " more" } }
    }
}

fn row(seen: &Sighting, own_id: &str) -> Markup {
    let member = &seen.member;
    let unknown = Status::default();
    let status = member.status.as_ref().unwrap_or(&unknown);
    let generation = match (status.generation, status.apps) {
        (0, 0 | 1) => "–".to_owned(),
        (0, apps) => format!("{apps} applications"),
        (generation, _) => format!("g{generation} {}", status.release),
    };
    let ratio = status.hit_ratio().map_or("–".into(), |ratio| format!("{:.0} %", ratio * 100.0));
    html! {
        tr class=[seen.is_silent().then_some("warn")] {
            td { (visible(&member.host)) " pid " (member.pid) @if member.id == own_id { ", this one" } }
            td { @for (class, words) in states(seen) { b class={ "badge " (class) } { (words) } " " } }
            td { (visible(&generation)) }
            td.n { (status.workers) " of " (status.workers_wanted) }
            td.n { (number(status.per_second)) }
            td.n { (status.p99_ms.map_or("–".into(), millis)) }
            td.n { (grouped(status.waiting)) }
            td.n { (ratio) }
            td.n { (visible(&member.version)) }
        }
    }
}

/// What it is occupied with: the badge's class, and words.
fn states(seen: &Sighting) -> Vec<(&'static str, String)> {
    if seen.is_silent() {
        return vec![("failed", format!("silent for {}", age(seen.silent / 1000)))];
    }
    let Some(status) = &seen.member.status else { return vec![("stopped", "older Paceline".into())] };
    let mut states = Vec::new();
    if status.closed > 0 {
        states.push(("leaving", format!("closed: {} of {}", status.closed, status.sites)));
    }
    match seen.member.restart.as_ref().map(|progress| progress.state) {
        Some(RestartState::Restarting | RestartState::Watching) => states.push(("starting", "restarting".into())),
        Some(RestartState::Failed) => states.push(("failed", "rolling restart failed".into())),
        _ if status.restarting > 0 => states.push(("starting", "restarting".into())),
        _ => {}
    }
    if status.failing > 0 {
        states.push(("failed", "last start failed".into()));
    }
    if states.is_empty() {
        states.push(("ready", "ready".into()));
    }
    states
}

#[cfg(test)]
mod tests {
    use cluster::{Member, RestartProgress};

    use super::*;

    #[test]
    fn each_server_has_a_row() {
        let status = Status {
            apps: 1,
            generation: 4,
            release: "<b>".into(),
            workers: 3,
            workers_wanted: 4,
            ..Status::default()
        };
        let member = |id: &str, status: Option<Status>| Member {
            id: id.into(),
            host: "<i>web".into(),
            status,
            ..Member::default()
        };
        let closed = Status { closed: 1, sites: 2, ..status.clone() };
        let mut restarting = member("c", Some(closed));
        restarting.restart = Some(RestartProgress::new("a", RestartState::Watching, ""));
        let members = vec![
            Sighting { member: member("a", Some(status)), left: 9, silent: 0 },
            Sighting { member: member("b", None), left: 0, silent: 8000 },
            Sighting { member: restarting, left: 9, silent: 0 },
            Sighting { member: member("d", None), left: 9, silent: 0 },
        ];
        let cluster = ClusterState {
            name: "shop".into(),
            server: "10.0.0.5:6379".into(),
            trouble: Some("refused".into()),
            own_id: "a".into(),
            members,
        };
        let page = shown(&cluster).into_string();
        for part in [
            "shop, by 10.0.0.5:6379",
            "is not reached: refused",
            "pid 0, this one",
            "g4 &lt;b&gt;",
            "3 of 4",
            ">ready<",
            "silent for 8 s",
            "closed: 1 of 2",
            ">restarting<",
            "older Paceline",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<i>web"), "{page}");
    }
}
