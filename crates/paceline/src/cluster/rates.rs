//! Rate limits that count the requests of all fronts: each client's bucket is in Valkey, by the generic cell rate algorithm and
//! by Valkey's own time. A request waits for one answer, and not longer than it is told to; without one the front's own
//! buckets decide. It never makes a request wait for a connection, and never answers.

use std::{
    net::IpAddr,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc, LazyLock,
    },
    time::Duration,
};

use ::cluster::{Breaker, Millis};
use parking_lot::Mutex;
use redis::{aio::MultiplexedConnection, RedisResult, Script};
use serde_json::{json, Value};
use tokio::time::timeout;
use units::show_duration;

use super::{error::LinkError, link, now, scripts::repairing, Cluster};
use crate::{
    exchange::rate_limit::{Bucket, RateLimits},
    observe::log::Name,
};

/// Shared rate limits, as this front uses them.
pub struct Rates {
    /// For how long a request waits.
    time: Duration,
    breaker: Mutex<Breaker>,
    connected: Mutex<Option<MultiplexedConnection>>,
    is_connecting: AtomicBool,
    /// Why it was not asked last.
    trouble: Mutex<Option<String>>,
    admitted: AtomicU64,
    refused: AtomicU64,
    errors: AtomicU64,
    skipped: AtomicU64,
}

/// What they have done since the server began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateFigures {
    /// Requests that were let in by what all fronts have counted.
    pub admitted: u64,
    /// Those that were refused by that.
    pub refused: u64,
    /// Questions without an answer, or without one in time.
    pub errors: u64,
    /// Requests for which nobody was asked.
    pub skipped: u64,
    /// For how long nobody is asked yet.
    pub open_for: Millis,
}

/// What Valkey says: how long until there is a token, and until each bucket is full again, in microseconds.
struct Verdict {
    wait: u64,
    full_in: Vec<u64>,
}

impl Rates {
    pub fn new(time: Duration) -> Rates {
        Rates {
            time,
            breaker: Mutex::default(),
            connected: Mutex::default(),
            is_connecting: AtomicBool::new(false),
            trouble: Mutex::default(),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    fn figures(&self) -> RateFigures {
        RateFigures {
            admitted: self.admitted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            errors: self.errors.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            open_for: self.breaker.lock().open_for(now()),
        }
    }

    /// For `paceline cluster`.
    pub fn report(&self) -> Value {
        let RateFigures { admitted, refused, errors, skipped, open_for } = self.figures();
        json!({
            "admitted": admitted, "refused": refused, "errors": errors, "skipped": skipped, "open_for_ms": open_for,
            "trouble": self.trouble.lock().clone(), "is_connected": self.connected.lock().is_some(),
        })
    }
}

impl Cluster {
    /// What the shared rate limits have done, if there are any.
    pub fn rate_figures(&self) -> Option<RateFigures> {
        self.rates.as_ref().map(Rates::figures)
    }

    /// Whether rate limits count the requests of all fronts.
    pub fn shares_rate_limits(&self) -> bool {
        self.rates.is_some()
    }

    /// Takes a token for each rule that the path falls under, here and for all fronts. Err: none is left; so long until there
    /// is one. `site`: the name that it has on all of them.
    pub async fn admit(
        self: &Arc<Self>,
        site: &str,
        limits: &RateLimits,
        address: Option<IpAddr>,
        path: &str,
        now: Duration,
    ) -> Result<(), Duration> {
        // What is in a bucket here is never less than what was in the shared one: who gets no token here gets none there.
        let buckets = limits.take(address, path, now)?;
        let Some(rates) = self.rates.as_ref().filter(|_| !buckets.is_empty()) else { return Ok(()) };
        let Some(Verdict { wait, full_in }) = self.count(rates, site, limits, &buckets).await else { return Ok(()) };
        for (bucket, full_in) in buckets.into_iter().zip(full_in) {
            limits.correct(bucket, now + Duration::from_micros(full_in));
        }
        let count = if wait == 0 { &rates.admitted } else { &rates.refused };
        count.fetch_add(1, Relaxed);
        if wait == 0 {
            Ok(())
        } else {
            Err(Duration::from_micros(wait))
        }
    }

    /// None: Valkey has not answered in time, or is not asked now.
    async fn count(
        self: &Arc<Self>,
        rates: &Rates,
        site: &str,
        limits: &RateLimits,
        buckets: &[Bucket],
    ) -> Option<Verdict> {
        let admits = rates.breaker.lock().admits(now());
        let connected = rates.connected.lock().clone();
        let Some(mut connection) = connected.filter(|_| admits) else {
            rates.skipped.fetch_add(1, Relaxed);
            if admits {
                self.connect_rates();
            }
            return None;
        };
        let mut script = COUNT.prepare_invoke();
        for (rule, name) in buckets.iter().filter_map(|bucket| limits.named(*bucket)) {
            script.key(self.link.key(&format!("rate:{site} {name}")));
            script.arg(rule.each.as_micros() as u64).arg(rule.at_once().as_micros() as u64);
        }
        let asked = script.invoke_async::<Vec<u64>>(&mut connection);
        let answer: Result<RedisResult<Vec<u64>>, _> = timeout(rates.time, asked).await;
        let why = match answer {
            Ok(Ok(told)) if told.len() == buckets.len() + 1 => {
                self.rates_succeeded(rates);
                return Some(Verdict { wait: told[0], full_in: told[1..].to_vec() });
            }
            Ok(Ok(_)) => LinkError::Malformed,
            Ok(Err(error)) => {
                *rates.connected.lock() = None;
                LinkError::from(error)
            }
            Err(_) => LinkError::NoAnswer(rates.time),
        };
        self.rates_failed(rates, true, why);
        None
    }

    /// Connects in the background, unless that is being done.
    pub(super) fn connect_rates(self: &Arc<Self>) {
        let (Some(rates), Some(event_loop)) = (&self.rates, self.event_loop.get()) else { return };
        if rates.is_connecting.swap(true, Relaxed) {
            return;
        }
        let cluster = self.clone();
        event_loop.spawn(async move {
            let Some(rates) = &cluster.rates else { return };
            match cluster.link.connect(link::ANSWER_TIME).await {
                Ok(connection) => *rates.connected.lock() = Some(connection),
                Err(why) => cluster.rates_failed(rates, false, why),
            }
            rates.is_connecting.store(false, Relaxed);
        });
    }

    fn rates_succeeded(&self, rates: &Rates) {
        rates.breaker.lock().succeeded(now());
        if rates.trouble.lock().take().is_some() {
            let text = format!("Cluster {}: rate limits count the requests of all servers again", self.settings.name);
            self.log.event(Name::Cluster, text);
        }
    }

    /// `is_there`: it has a connection.
    fn rates_failed(&self, rates: &Rates, is_there: bool, why: LinkError) {
        rates.errors.fetch_add(1, Relaxed);
        let now = now();
        let open_for = {
            let mut breaker = rates.breaker.lock();
            let has_opened = if is_there { breaker.failed(now) } else { breaker.unreachable(now) };
            if !has_opened {
                return;
            }
            breaker.open_for(now)
        };
        // Perhaps the connection is dead, and nobody has said so.
        *rates.connected.lock() = None;
        let text = format!(
            "Cluster {}: rate limits count this server's own requests alone for {}, and longer if that does not help: {why}",
            self.settings.name,
            show_duration(Duration::from_millis(open_for)),
        );
        if rates.trouble.lock().replace(why.to_string()).is_none() {
            self.log.event(Name::Cluster, text);
        }
    }
}

// KEYS: buckets. ARGV: for each the time in which one token comes back, and that in which an empty one is full again, in
// microseconds. A bucket says when it is full; one that is full is not there. All give a token, or none does. One that is full
// later than an empty one could be was written by another clock, and counts as full. What is no time was
// written by another program, and counts as full, too.
static COUNT: LazyLock<Script> = LazyLock::new(|| {
    repairing(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local before, after, wait = {}, {}, 0
        for at, key in ipairs(KEYS) do
          local each, at_once = tonumber(ARGV[2 * at - 1]), tonumber(ARGV[2 * at])
          local left = (tonumber(string.match(sure('GETRANGE', key, 0, 20), '^%d+$')) or 0) - now
          if left < 0 or left > at_once then left = 0 end
          before[at], after[at] = left, left + each
          wait = math.max(wait, left + each - at_once)
        end
        local told = { wait }
        for at, key in ipairs(KEYS) do
          if wait == 0 then
            redis.call('SET', key, string.format('%.0f', now + after[at]), 'PX', math.ceil(after[at] / 1000))
          end
          told[at + 1] = wait == 0 and after[at] or before[at]
        end
        return told
        ",
    )
});
