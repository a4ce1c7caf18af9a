//! A restart of all fronts, one after the other, by what Valkey has: a lease, so that nobody else begins one; in it the
//! order for one front, which that front hears when it says that it is there; and what the front says of it. Which front is next
//! is decided by the command that has the lease and keeps it: when the command ends, nothing more is restarted. It never
//! restarts anything itself.

use std::sync::Arc;

use ::cluster::{Millis, RestartOrder, RestartProgress, RestartState, Sighting};

use super::{error::SharedStateError, link::mark, now, Cluster};

/// How long the lease lasts without being kept.
const LEASE: Millis = 10_000;

/// Why a restart of all fronts has not begun.
pub enum NotBegun {
    /// Somebody else has begun one.
    Taken(String),
    Unreachable(SharedStateError),
}

/// How one front stands with its order.
pub struct Standing {
    /// The lease is somebody else's, or Valkey has lost it.
    pub has_lost_lease: bool,
    /// None: it is not in the list any more.
    pub member: Option<Sighting>,
}

impl Cluster {
    /// Takes the lease. What it is kept and given back by.
    ///
    /// # Errors
    /// Nothing has begun.
    pub async fn begin_restart(&self) -> Result<String, NotBegun> {
        let token = mark();
        let owner = self.me.shown();
        match self.link.take_restart(&token, &owner, LEASE).await {
            Ok(None) => Ok(token),
            Ok(Some(owner)) => Err(NotBegun::Taken(owner)),
            Err(why) => Err(NotBegun::Unreachable(self.unreachable(why))),
        }
    }

    /// Tells one front to restart. The order's id; None: the lease is lost.
    pub async fn order_restart(
        &self,
        token: &str,
        member: &str,
        site: Option<&str>,
        watch: Millis,
    ) -> Result<Option<String>, SharedStateError> {
        let order = RestartOrder { id: mark(), site: site.map(str::to_owned), watch };
        let is_kept = self.link.keep_restart(token, LEASE, Some((member, &order))).await;
        Ok(is_kept.map_err(|why| self.unreachable(why))?.then_some(order.id))
    }

    /// Keeps the lease, and looks at one front.
    pub async fn look_at_restart(&self, token: &str, member: &str) -> Result<Standing, SharedStateError> {
        let is_kept = self.link.keep_restart(token, LEASE, None).await.map_err(|why| self.unreachable(why))?;
        let members = self.sightings().await?;
        let member = members.into_iter().find(|seen| seen.member.id == member);
        Ok(Standing { has_lost_lease: !is_kept, member })
    }

    /// Gives the lease back, with an order that its front has not heard yet.
    pub async fn end_restart(&self, token: &str) -> Result<(), SharedStateError> {
        self.link.end_restart(token).await.map_err(|why| self.unreachable(why))
    }

    /// An order for this front, in the answer to a question of the time `asked`. It is obeyed once, and not after its time: this
    /// process may have been stopped meanwhile.
    pub(super) fn heard_order(self: &Arc<Self>, text: &str, asked: Millis, left: Millis) {
        // Of one that it can't read nothing is said; that it does not begin is noticed.
        let Some(order) = RestartOrder::from_json(text) else { return };
        let is_known = self.restart.lock().as_ref().is_some_and(|progress| progress.order == order.id);
        let Some(own) = self.own.get().filter(|_| !is_known && now() < asked + left) else { return };
        self.restart_is(RestartProgress::new(&order.id, RestartState::Restarting, ""));
        own.restart(order);
    }

    /// How it goes on with its order: the others hear it at once.
    pub fn restart_is(&self, progress: RestartProgress) {
        *self.restart.lock() = Some(progress);
        self.has_news();
    }
}
