//! The end of the server: what is in hand is finished, clients are let go, Ruby processes end.
//! It never decides when.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use rustix::process::{kill_process, Pid, Signal};

use super::{
    cluster, live_reload, notify,
    signals::{SignalCommand, Signals},
    sites::Sites,
};
use crate::{
    front::{drain::DrainControl, Front},
    observe::log::Name,
    request::tunnel,
    support::signal_mask,
};

/// What Ruby processes get to end after the last request.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// What a client has that is idle, for a request that may be on its way. Longer than a packet is.
const CHANCE: Duration = Duration::from_secs(1);

/// What those get who are being answered on the control socket.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The same where nobody waits for the end.
const LONG_CHANCE: Duration = Duration::from_secs(10);

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Requests in hand are finished.
    Drained,
    /// The same, but somebody has lost patience.
    AtOnce,
    Halted,
}

/// Readiness goes down; what comes is still served.
pub fn begin(front: &Front) {
    front.ready.drain();
    notify::manager("STOPPING=1\nSTATUS=Finishing the requests in hand");
    let delay = front.config.shutdown_delay;
    if !delay.is_zero() {
        let delay = crate::support::units::show_duration(delay);
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
    live_reload::close(front);
    let grace = front.config.shutdown_timeout;
    let finished = async {
        let _ = tokio::time::timeout(grace, stopping.drain(CHANCE.min(grace / 2))).await;
        let _ = tokio::time::timeout(LAST_MOMENTS, sites.stop(LAST_MOMENTS)).await;
        processes.await;
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
    live_reload::close(front);
    let grace = front.config.shutdown_timeout;
    let finished = async {
        let clients = async {
            stopping.drain(LONG_CHANCE.min(grace / 2)).await;
            tunnel::tunnels_closed().await;
        };
        let _ = tokio::time::timeout(grace, clients).await;
        let _ = tokio::time::timeout(LAST_MOMENTS, sites.stop(LAST_MOMENTS)).await;
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

fn pass_on(successor: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(successor) {
        let _ = kill_process(pid, signal);
    }
}
