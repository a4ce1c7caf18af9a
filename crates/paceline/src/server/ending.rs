//! The end of the server: what is in hand is finished, clients are let go, Ruby processes end.
//! It never decides when.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use rustix::process::{kill_process, Pid, Signal};
use units::show_duration;

use super::{
    cluster, notify,
    signals::{SignalCommand, Signals},
    sites::Sites,
};
use crate::{
    apps::worker_process::Grace,
    exchange::tunnel,
    observe::{
        in_flight::{Client, Step, EXCHANGES},
        log::Name,
    },
    request::front::{drain::DrainControl, Front},
    support::{clock, signal_mask},
};

/// What Ruby processes get to end after the last request.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// How long a request of nobody goes on before an exception ends it.
const INTERRUPT: Duration = Duration::from_secs(3);
/// After so long it is said what is waited for.
const SILENCE: Duration = Duration::from_millis(1500);
/// So many requests that are waited for are named.
const NAMED: usize = 3;
/// For connections to close that are cut.
const CUT: Duration = Duration::from_secs(1);
/// What a client has that is idle, for a request that may be on its way. Longer than a packet is.
const CHANCE: Duration = Duration::from_secs(1);

/// What those get who are being answered on the control socket.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// What a client has that is idle, where nobody waits for the end.
const LONG_CHANCE: Duration = Duration::from_secs(10);

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Requests in hand are finished.
    Drained,
    /// Somebody has lost patience: requests in hand are given no more time.
    AtOnce,
    Halted,
}

/// Readiness goes down; what comes is still served.
pub fn begin(front: &Front) {
    front.ready.drain();
    notify::manager("STOPPING=1\nSTATUS=Finishing the requests in hand");
    let delay = front.config.shutdown_delay;
    if !delay.is_zero() {
        let delay = show_duration(delay);
        front.log.event(Name::Stopping, format!("Draining: new connections are taken for {delay} more"));
    }
}

/// Ends it. Its listeners are closed already, but for those of the event loops.
pub async fn end(
    how: How,
    told: Instant,
    front: &Front,
    stopping: &DrainControl,
    sites: &Sites,
    signals: &mut Signals,
) {
    if how == How::Halted {
        notify::manager("STOPPING=1\nSTATUS=Finishing the requests in hand");
        stopping.at_once();
        return front.log.event(Name::Stopping, "Halted");
    }
    front.log.event(Name::Stopping, "Stopping: requests in hand are finished first");
    // These have requests of nobody in hand, and times of their own.
    let processes = sites.stop_processes();
    front.end_streams();
    let grace = front.config.shutdown_timeout;
    let finished = async {
        let last = Instant::now() + grace + LAST_MOMENTS;
        let_clients_go(front, stopping, stopping.drain(CHANCE.min(grace / 2))).await;
        tunnel::cut_tunnels();
        let stopped = tokio::time::timeout_at(last.into(), sites.stop(last_moments(grace)));
        let _ = or_tell(front, || "the application's processes".into(), stopped).await;
        or_tell(front, || sites.processes().join(", "), processes).await;
    };
    tokio::select! {
        biased;
        () = std::future::ready(()), if how == How::AtOnce => front.log.event(Name::Stopping, "Stopping at once"),
        _ = finished => {}
        _ = signals.again(told) => front.log.event(Name::Stopping, "Stopping at once"),
    }
    front.tracer.iter().for_each(|tracer| tracer.close());
    cluster::leave(front).await;
    front.incidents.close();
    front.log.event(Name::Stopped, "Stopped");
}

/// Ends it after another front has taken over: what is in hand is finished, and that front is told what we are told.
/// What we are told later waits for the stand-in. `answered`: those have their answers who asked on the control socket.
pub async fn replaced(
    successor: i32,
    front: &Front,
    stopping: &DrainControl,
    sites: &Sites,
    signals: &mut Signals,
    answered: impl Future<Output = ()>,
) {
    front.ready.drain();
    // It was kept for requests that go elsewhere now, where it may change.
    front.cache.forget_all();
    front.cluster.iter().for_each(|cluster| cluster.hand_over());
    // The other front runs its own.
    let processes = sites.stop_processes();
    front.end_streams();
    let grace = front.config.shutdown_timeout;
    let finished = async {
        let clients = async {
            stopping.drain(LONG_CHANCE.min(grace / 2)).await;
            tunnel::tunnels_closed().await;
        };
        let_clients_go(front, stopping, clients).await;
        tunnel::cut_tunnels();
        let _ = tokio::time::timeout(LAST_MOMENTS, sites.stop(last_moments(grace))).await;
        processes.await;
        let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
        signal_mask::block();
        // What has come before is still passed on.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let passed_on = async {
        loop {
            let signal = match signals.next().await {
                SignalCommand::Stop => Signal::TERM,
                SignalCommand::Halt => {
                    pass_on(successor, Signal::QUIT);
                    return;
                }
                SignalCommand::Restart => Signal::USR1,
                SignalCommand::Upgrade => Signal::USR2,
                SignalCommand::Reopen => {
                    front.log.reopen();
                    Signal::HUP
                }
                SignalCommand::Tell => Signal::POWER,
                SignalCommand::Grow => Signal::TTIN,
                SignalCommand::Shrink => Signal::TTOU,
            };
            pass_on(successor, signal);
        }
    };
    tokio::select! {
        () = finished => {}
        () = passed_on => {}
    }
    cluster::leave(front).await;
    front.log.event(Name::Upgrade, "Replaced: all requests are finished");
}

/// The times of workers that nobody waits for. In development an interrupt comes soon.
fn last_moments(grace: Duration) -> Grace {
    Grace { interrupt: INTERRUPT.min(grace / 3), kill: LAST_MOMENTS }
}

/// Resolves when `clients` have gone. After `shutdown_timeout` those are cut off that are left, and the application's
/// code for them ends as it does for any client that goes.
async fn let_clients_go(front: &Front, stopping: &DrainControl, clients: impl Future<Output = ()>) {
    let grace = front.config.shutdown_timeout;
    let told = || format!("{}, {} at most (shutdown_timeout)", in_hand(), show_duration(grace));
    if tokio::time::timeout(grace, or_tell(front, told, clients)).await.is_err() {
        let text = format!("Cutting off {} after {} (shutdown_timeout)", in_hand(), show_duration(grace));
        front.log.event(Name::Stopping, text);
        tunnel::cut_tunnels();
        let _ = tokio::time::timeout(CUT, stopping.cut()).await;
    }
}

/// Waits; if that takes longer than a moment, the log says what for.
async fn or_tell<T>(front: &Front, what: impl Fn() -> String, awaited: impl Future<Output = T>) -> T {
    let told = async {
        tokio::time::sleep(SILENCE).await;
        let text = format!("Waiting for {}. A second TERM or Ctrl-C stops at once", what());
        front.log.event(Name::Stopping, text);
        std::future::pending().await
    };
    tokio::select! {
        ended = awaited => ended,
        never = told => never,
    }
}

/// The requests whose clients wait, in a few words.
fn in_hand() -> String {
    let all = EXCHANGES.all();
    let now = clock::now();
    let waits = all.iter().filter(|entry| entry.client_is() == Client::Waits && entry.step().0 != Step::Upgraded);
    let each = waits.map(|entry| {
        let seconds = now.saturating_sub(entry.since) / 1_000_000;
        format!("{} {} ({seconds} s)", entry.method, entry.uri.path())
    });
    in_few_words(each.collect())
}

fn in_few_words(mut each: Vec<String>) -> String {
    match each.len() {
        0 => return "open connections".into(),
        count if count > NAMED => {
            each.truncate(NAMED);
            each.push(format!("{} more", count - NAMED));
        }
        _ => {}
    }
    each.join(", ")
}

fn pass_on(successor: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(successor) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_requests_are_named() {
        let each = |count: usize| (1..=count).map(|number| format!("GET /{number}")).collect();
        assert_eq!(in_few_words(each(0)), "open connections");
        assert_eq!(in_few_words(each(3)), "GET /1, GET /2, GET /3");
        assert_eq!(in_few_words(each(5)), "GET /1, GET /2, GET /3, 2 more");
    }
}
