//! Tells the service manager how far the server is (sd_notify(3)), and that each event loop is alive.
//! It never waits for the manager.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::Arc,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use crate::{apps::attempts::Outcome, request::front::Front, support::clock};

/// How often the manager is asked for patience while applications boot, and for how much: more than until the next
/// time.
const EXTEND: Duration = Duration::from_secs(10);
const EXTENDED: Duration = Duration::from_secs(30);

/// Sends a state such as `READY=1` to the socket that NOTIFY_SOCKET names, if there is one.
pub fn manager(state: &str) {
    // A manager that is gone is no reason to stop.
    let _ = send(state);
}

/// Something is changed while it serves; to be followed by `READY=1`.
pub fn reloading(status: &str) {
    manager(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS={status}", clock::now()));
}

/// Asks for patience for as long as it takes.
pub async fn booting(started: impl std::future::Future<Output = ()>) {
    let mut started = std::pin::pin!(started);
    let state = format!("STATUS=Starting\nEXTEND_TIMEOUT_USEC={}", EXTENDED.as_micros());
    manager(&state);
    while timeout(EXTEND, &mut started).await.is_err() {
        manager(&state);
    }
    manager("READY=1\nSTATUS=Serving");
}

/// Tells of restarts until all of them have ended, however they did.
pub async fn restarting(restarts: Vec<oneshot::Receiver<Outcome>>) {
    if restarts.is_empty() {
        return;
    }
    reloading("Booting a new generation");
    let mut failed = false;
    for restart in restarts {
        failed |= !matches!(restart.await, Ok(Outcome::Serves { .. }));
    }
    let status = if failed { "Serving; a restart did not succeed" } else { "Serving" };
    manager(&format!("READY=1\nSTATUS={status}"));
}

/// How often the manager wants to hear that we are alive. `identity`: the pid by which it knows the server.
fn watchdog(identity: i32, variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let number = |name: &str| variable(name)?.parse::<u64>().ok();
    let meant = number("WATCHDOG_PID").is_none_or(|pid| pid == identity as u64);
    number("WATCHDOG_USEC").filter(|micros| meant && *micros > 0).map(Duration::from_micros)
}

/// Tells the manager at half the time that it allows that the server is alive: if every event loop has done a task
/// since it was asked to. Nothing else counts.
pub async fn watch(server: Arc<Front>, identity: i32) {
    let Some(allowed) = watchdog(identity, |name| std::env::var(name).ok()) else { return };
    let mut interval = tokio::time::interval(allowed / 2);
    loop {
        interval.tick().await;
        let loops = server.loops();
        let asked: Vec<_> = loops.iter().map(|event_loop| event_loop.spawn(async {})).collect();
        let all = async {
            for answered in asked {
                if answered.await.is_err() {
                    return false;
                }
            }
            true
        };
        if timeout(allowed / 2, all).await == Ok(true) {
            manager("WATCHDOG=1");
        }
    }
}

fn send(state: &str) -> io::Result<usize> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(0) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_somebody_else_is_not_ours() {
        let told = |pid: Option<&'static str>, micros: Option<&'static str>| {
            watchdog(7, move |name| (if name == "WATCHDOG_PID" { pid } else { micros }).map(str::to_owned))
        };
        assert_eq!(told(Some("7"), Some("3000000")), Some(Duration::from_secs(3)));
        assert_eq!(told(None, Some("1")), Some(Duration::from_micros(1)));
        for (pid, micros) in [(Some("8"), Some("1")), (Some("x"), None), (Some("7"), Some("0")), (None, Some("soon"))] {
            assert_eq!(told(pid, micros), None, "{pid:?} {micros:?}");
        }
    }
}
