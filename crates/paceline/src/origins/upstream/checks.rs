//! Health checks of hosts: each is asked for a page again and again, on a connection of its own. What follows from a result
//! is `crates/balance`'s to decide. It never touches a visitor's request.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::{header, HeaderValue, Request, StatusCode};
use tokio::time::{interval, timeout, MissedTickBehavior};

use super::{
    hosts::{Host, Hosts},
    outgoing::Outgoing,
};

/// A check may take as long as the time between two of them, but at least this long.
const SHORTEST: Duration = Duration::from_secs(1);

/// What is asked for, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub path: String,
    pub every: Duration,
}

/// Checks each host, also those that come, until it leaves or the hosts are not watched any more. `name`: what the Host field
/// says; None: the host itself.
pub fn begin(hosts: &Arc<Hosts>, check: Check, name: Option<String>) {
    let (known, check, name) = (Arc::downgrade(hosts), Arc::new(check), name.map(Arc::<str>::from));
    hosts.check_each(move |host| {
        tokio::spawn(run(known.clone(), host.clone(), check.clone(), name.clone())).abort_handle()
    });
}

async fn run(hosts: Weak<Hosts>, host: Arc<Host>, check: Arc<Check>, name: Option<Arc<str>>) {
    let mut rounds = interval(check.every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let result = within(&host, &check, name.as_deref()).await;
        let Some(hosts) = hosts.upgrade() else { return };
        match result {
            // What this machine lacks is no fault of the host's.
            Err(Wrong::Here) => {}
            Err(Wrong::There(why)) => hosts.checked(&host, Some(&why)),
            Ok(()) => hosts.checked(&host, None),
        }
    }
}

/// Why a check has not passed.
enum Wrong {
    /// This machine can't ask.
    Here,
    There(String),
}

async fn within(host: &Host, check: &Check, name: Option<&str>) -> Result<(), Wrong> {
    let time = check.every.max(SHORTEST);
    let checked = timeout(time, ask(host, check, name)).await;
    checked.unwrap_or_else(|_| Err(Wrong::There(format!("GET {}: no answer in time", check.path))))
}

async fn ask(host: &Host, check: &Check, name: Option<&str>) -> Result<(), Wrong> {
    // A new connection by HTTP/1.1: a host that takes none any more is no good, whatever those say that are open.
    let mut lease = host.pool.lease(true, true).await.map_err(|failure| {
        if failure.is_local() {
            Wrong::Here
        } else {
            Wrong::There(failure.words())
        }
    })?;
    let authority = name.map_or_else(|| host.address.authority(), str::to_owned);
    let host_field = HeaderValue::from_str(&authority).map_err(|error| Wrong::There(error.to_string()))?;
    let request = Request::get(check.path.as_str())
        .header(header::HOST, host_field)
        .header(header::USER_AGENT, "paceline-check")
        .header(header::CONNECTION, "close")
        .body(Outgoing::empty())
        .map_err(|error| Wrong::There(error.to_string()))?;
    let answer =
        lease.connection.ask(request).await.map_err(|unanswered| Wrong::There(unanswered.failure.explain()))?;
    judge(answer.status()).map_err(|status| Wrong::There(format!("GET {}: status {status}", check.path)))
}

/// As HAProxy has it: 2xx and 3xx are fine.
fn judge(status: StatusCode) -> Result<(), u16> {
    if status.is_success() || status.is_redirection() {
        Ok(())
    } else {
        Err(status.as_u16())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes() {
        for (status, passes) in
            [(200, true), (204, true), (301, true), (401, false), (404, false), (500, false), (503, false)]
        {
            assert_eq!(judge(StatusCode::from_u16(status).unwrap()).is_ok(), passes, "{status}");
        }
    }
}
