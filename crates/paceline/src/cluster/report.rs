//! What `paceline cluster` shows. It never has a password in it.

use std::sync::atomic::Ordering::Relaxed;

use ::cluster::Sighting;
use serde_json::{json, Value};

use super::{now, rates::Rates, tier::Tier, Cluster};

impl Cluster {
    /// The cluster as this front sees it.
    pub async fn report(&self) -> Value {
        let found = self.link.members().await;
        let trouble = found.as_ref().err().cloned().or_else(|| self.trouble());
        let (at, behind, lease) = {
            let follower = self.follower.lock();
            (follower.at().cloned().unwrap_or_default(), follower.behind(), follower.lease())
        };
        let now = now();
        let members = found.unwrap_or_default();
        let end = members.iter().map(|seen| seen.member.applied).max().unwrap_or(0).max(at.number + behind);
        let mut members: Vec<_> = members.iter().filter(|seen| !seen.member.has_left).collect();
        members.sort_by(|a, b| (&a.member.host, a.member.pid).cmp(&(&b.member.host, b.member.pid)));
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
            "shared_cache": self.tier.as_ref().map(Tier::report),
            "shared_rate_limits": self.rates.as_ref().map(Rates::report),
            "members": members.into_iter().map(|seen| self.member(seen, end)).collect::<Vec<_>>(),
        })
    }

    fn member(&self, Sighting { member, left, silent }: &Sighting, end: u64) -> Value {
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
        })
    }
}
