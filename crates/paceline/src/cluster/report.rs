//! What `paceline cluster` and the dashboard show of all members. It never has a password in it.

use std::{
    sync::{atomic::Ordering::Relaxed, Arc},
    time::{Duration, Instant},
};

use ::cluster::{RestartProgress, Sighting, Status};
use serde_json::{json, Value};
use tokio::time::sleep;

use super::{error::SharedStateError, now, rates::Rates, tier::Tier, Cluster};

/// How often the members are read for a dashboard that is open, and for how long after somebody has looked.
const LOOK: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(10);

/// The members, as they were read last for a dashboard.
#[derive(Default)]
pub struct WatchedMembers {
    wanted: Option<Instant>,
    members: Vec<Sighting>,
}

/// Figures of this front alone, for Prometheus.
pub struct ClusterFigures {
    pub is_reached: bool,
    pub shows_pages: bool,
    pub behind: u64,
    pub unsent: u64,
}

impl Cluster {
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Host and port of Valkey, or the path of its socket.
    pub fn place_of_server(&self) -> &str {
        self.link.place()
    }

    /// The id of this front.
    pub fn own_id(&self) -> &str {
        &self.me.id
    }

    /// All members that have not left, by machine and process.
    ///
    /// # Errors
    /// Why they are not known.
    pub async fn sightings(&self) -> Result<Vec<Sighting>, SharedStateError> {
        let members = self.link.members().await.map_err(|why| self.unreachable(why))?;
        Ok(in_order(members))
    }

    /// The members as they were read a moment ago, and why Valkey does not answer, if it does not. They are read as long as
    /// somebody looks.
    pub fn members_lately(&self) -> (Vec<Sighting>, Option<String>) {
        let mut watched = self.watched.lock();
        watched.wanted = Some(Instant::now());
        (watched.members.clone(), self.trouble())
    }

    /// Reads the members, as long as somebody looks.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let is_wanted = self.watched.lock().wanted.is_some_and(|wanted| wanted.elapsed() < WATCHED);
            if is_wanted {
                if let Ok(members) = self.link.members().await {
                    self.watched.lock().members = in_order(members);
                }
            }
        }
    }

    pub fn figures(&self) -> ClusterFigures {
        ClusterFigures {
            is_reached: self.is_reached(),
            shows_pages: self.cache.may_show(now()),
            behind: self.follower.lock().behind(),
            unsent: self.unsent.load(Relaxed),
        }
    }

    /// The cluster as this front sees it now.
    pub async fn report(&self) -> Value {
        let trouble = self.hear_closed().await;
        let found = self.link.members().await;
        let trouble = found.as_ref().err().map(ToString::to_string).or(trouble);
        let (at, behind, lease) = {
            let follower = self.follower.lock();
            (follower.at().cloned().unwrap_or_default(), follower.behind(), follower.lease())
        };
        let now = now();
        let mut members = found.unwrap_or_default();
        // Of itself it knows more than it has said a moment ago.
        *self.status.lock() = None;
        for seen in members.iter_mut().filter(|seen| seen.member.id == self.me.id) {
            seen.member = self.myself(self.link.asked_since().unwrap_or(now));
        }
        let end = members.iter().map(|seen| seen.member.applied).max().unwrap_or(0).max(at.number + behind);
        let version = self.closed_version().number;
        json!({
            "name": self.settings.name,
            "server": self.link.place(),
            "primary": self.link.primary(),
            "trouble": trouble,
            "partition_ttl_ms": self.settings.partition_ttl.as_millis() as u64,
            "shows_pages": self.cache.may_show(now),
            "shows_pages_for_ms": lease.saturating_sub(now),
            "last_purge": end,
            "unsent": self.unsent.load(Relaxed),
            "unconfirmed": self.unconfirmed.load(Relaxed),
            "closed": self.closed().shown(),
            "shared_cache": self.tier.as_ref().map(Tier::report),
            "shared_rate_limits": self.rates.as_ref().map(Rates::report),
            "members": in_order(members).iter().map(|seen| self.member(seen, end, version)).collect::<Vec<_>>(),
        })
    }

    fn member(&self, Sighting { member, left, silent }: &Sighting, end: u64, closed: u64) -> Value {
        json!({
            "id": member.id,
            "host": member.host,
            "pid": member.pid,
            "version": member.version,
            "applied": member.applied,
            "behind": end.saturating_sub(member.applied),
            "unsent": member.unsent,
            "is_silent": *left == 0,
            "silent_ms": silent,
            "is_this": member.id == self.me.id,
            "knows_closed": member.closed.is_some_and(|applied| applied >= closed),
            "status": member.status.as_ref().map(Status::to_json),
            "restart": member.restart.as_ref().map(RestartProgress::to_json),
        })
    }
}

fn in_order(mut members: Vec<Sighting>) -> Vec<Sighting> {
    members.retain(|seen| !seen.member.has_left);
    members.sort_by(|a, b| (&a.member.host, a.member.pid).cmp(&(&b.member.host, b.member.pid)));
    members
}
