//! Pages that the fronts of a cluster share, in its Valkey or Redis: whether they are asked for now, and by which
//! connection. What is done with them is in `caching`. It never makes a request wait for a connection, and keeps no page
//! here.
//!
//! A page is only asked for at the very server that it was stored in, by its run id: one that was started again, or has
//! taken the place of another, may have lost purges and kept pages.
//!
//! Reading order: `session` (what is asked there), `scripts`, `figures`.

mod figures;
mod scripts;
mod session;

use std::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    Arc,
};

use ::cluster::{Breaker, Millis};
use cache::key::KeyMaker;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use units::show_duration;

use super::{error::LinkError, link, now, settings::SharedCache, Cluster};
use crate::{
    caching::{SharedTier, TierSession},
    observe::log::Name,
};

use self::{figures::Figures, scripts::SCRIPTS, session::Session};

pub use figures::TierFigures;

/// The tier, as this front uses it.
pub struct Tier {
    settings: SharedCache,
    breaker: Mutex<Breaker>,
    connected: Mutex<Option<Arc<Connected>>>,
    is_connecting: AtomicBool,
    /// Why it was not asked last.
    trouble: Mutex<Option<String>>,
    figures: Figures,
    /// Bytes on their way there.
    writing: AtomicU64,
}

/// A connection to one run of the server.
struct Connected {
    connection: MultiplexedConnection,
    keys: KeyMaker,
    run: String,
}

impl Tier {
    pub fn new(settings: SharedCache) -> Tier {
        Tier {
            settings,
            breaker: Mutex::default(),
            connected: Mutex::default(),
            is_connecting: AtomicBool::new(false),
            trouble: Mutex::default(),
            figures: Figures::default(),
            writing: AtomicU64::new(0),
        }
    }

    pub fn figures(&self) -> TierFigures {
        let breaker = self.breaker.lock();
        self.figures.read(breaker.open_for(now()), breaker.opened())
    }

    /// For `paceline cluster`.
    pub fn report(&self) -> Value {
        let mut report = self.figures().to_json();
        report["trouble"] = self.trouble.lock().clone().into();
        report["is_connected"] = self.connected.lock().is_some().into();
        report
    }

    /// An answer came in time. True: none had for a while.
    fn succeeded(&self, now: Millis) -> bool {
        self.breaker.lock().succeeded(now);
        self.trouble.lock().take().is_some()
    }

    /// For how long it is skipped now, if that has just begun. `is_there`: it has a connection.
    fn failed(&self, is_there: bool, now: Millis) -> Option<Millis> {
        self.figures.errors.fetch_add(1, Relaxed);
        let mut breaker = self.breaker.lock();
        let has_opened = if is_there { breaker.failed(now) } else { breaker.unreachable(now) };
        has_opened.then(|| breaker.open_for(now))
    }
}

impl Cluster {
    /// Connects in the background, unless that is being done.
    pub(super) fn connect_tier(self: &Arc<Self>) {
        let (Some(tier), Some(event_loop)) = (&self.tier, self.event_loop.get()) else { return };
        if tier.is_connecting.swap(true, Relaxed) {
            return;
        }
        let cluster = self.clone();
        event_loop.spawn(async move {
            let Some(tier) = &cluster.tier else { return };
            match cluster.connect_to_run().await {
                Ok(connected) => *tier.connected.lock() = Some(Arc::new(connected)),
                Err(why) => cluster.tier_failed(false, why),
            }
            tier.is_connecting.store(false, Relaxed);
        });
    }

    async fn connect_to_run(&self) -> Result<Connected, LinkError> {
        let mut connection = self.link.connect(link::ANSWER_TIME).await?;
        let mut asked = redis::pipe();
        asked.cmd("INFO").arg("server").cmd("INFO").arg("memory");
        let (server, memory) = asked.query_async::<(String, String)>(&mut connection).await?;
        let mut script = SCRIPTS.secret.prepare_invoke();
        script.key(self.link.key("secret")).arg(uuid::Uuid::new_v4().simple().to_string());
        let secret = script.invoke_async::<String>(&mut connection).await?;
        if let Some(policy) = policy_that_evicts_purges(&memory) {
            return Err(LinkError::EvictsPurges(policy.to_owned()));
        }
        let run = field(&server, "run_id").ok_or(LinkError::NoRunId)?;
        let secret = u128::from_str_radix(&secret, 16).map_err(|_| LinkError::BadSecret)?;
        let keys = KeyMaker::new([(secret >> 64) as u64, secret as u64]);
        Ok(Connected { connection, keys, run: run.chars().take(16).collect() })
    }

    fn tier_succeeded(&self) {
        if self.tier.as_ref().is_some_and(|tier| tier.succeeded(now())) {
            self.log.event(Name::Cluster, format!("Cluster {}: the shared cache is used again", self.settings.name));
        }
    }

    fn tier_failed(&self, is_there: bool, why: LinkError) {
        let Some(tier) = &self.tier else { return };
        let Some(open_for) = tier.failed(is_there, now()) else { return };
        // Perhaps the connection is dead, and nobody has said so.
        *tier.connected.lock() = None;
        let text = format!(
            "Cluster {}: the shared cache is skipped for {}, and longer if that does not help: {why}",
            self.settings.name,
            show_duration(std::time::Duration::from_millis(open_for)),
        );
        if tier.trouble.lock().replace(why.to_string()).is_none() {
            self.log.event(Name::Cluster, text);
        }
    }
}

impl SharedTier for Cluster {
    fn session(self: Arc<Self>) -> Option<Arc<dyn TierSession>> {
        let tier = self.tier.as_ref()?;
        let connected = tier.connected.lock().clone();
        let admits = tier.breaker.lock().admits(now());
        if let (Some(connected), true) = (connected.clone(), admits) {
            return Some(Arc::new(Session::new(self, connected)));
        }
        tier.figures.skipped.fetch_add(1, Relaxed);
        if admits && connected.is_none() {
            self.connect_tier();
        }
        None
    }
}

/// A field of what INFO says.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The server's policy, if pages must not be stored under it: they would take the place of purges, or leave none for them. Pages
/// expire and purges do not, so with a policy for what expires only pages are evicted.
fn policy_that_evicts_purges(memory: &str) -> Option<&str> {
    let (limit, policy) = (field(memory, "maxmemory")?, field(memory, "maxmemory_policy")?);
    (limit != "0" && !policy.starts_with("volatile-")).then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_must_not_take_the_place_of_purges() {
        let memory = |limit, policy| {
            format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_human:1\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        for (limit, policy, is_refused) in [
            ("0", "noeviction", false),
            ("0", "allkeys-lru", false),
            ("100", "volatile-lru", false),
            ("100", "noeviction", true),
            ("100", "allkeys-lru", true),
        ] {
            assert_eq!(policy_that_evicts_purges(&memory(limit, policy)).is_some(), is_refused, "{limit} {policy}");
        }
        assert_eq!(field("# Server\r\nrun_id:abc\r\nrun:x\r\n", "run_id"), Some("abc"));
    }
}
