//! How the server ends without failing anybody: what it tells load balancers (readiness) and its own connections (the
//! phase). It never closes anything itself.

use std::{
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::Duration,
};

use tokio::sync::watch;

/// Whether requests should be sent here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Readiness {
    /// Applications that start with the server are not up yet. Requests wait for them.
    Starting = 0,
    Ready = 1,
    /// Told to stop, or replaced by a new program: what comes is still served, and each client is told to go.
    Draining = 2,
}

/// The server's readiness, which is looked at with each answer.
#[derive(Debug, Default)]
pub struct Ready(AtomicU8);

impl Ready {
    pub fn get(&self) -> Readiness {
        match self.0.load(Relaxed) {
            0 => Readiness::Starting,
            1 => Readiness::Ready,
            _ => Readiness::Draining,
        }
    }

    /// The applications are up. Nothing if it drains already.
    pub fn ready(&self) {
        let _ = self.0.compare_exchange(Readiness::Starting as u8, Readiness::Ready as u8, Relaxed, Relaxed);
    }

    pub fn drain(&self) {
        self.0.store(Readiness::Draining as u8, Relaxed);
    }
}

/// How far the end of the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Nothing is accepted any more. A connection that is idle has a chance to send the request that is on its way.
    Draining,
    /// That chance is over.
    Closing,
    /// The time of all is over: what is still open is closed as it is.
    Cut,
}

/// Tells connections of the end.
pub struct DrainControl(watch::Sender<Phase>);

/// How a connection learns of the end. The server waits for all who hold one.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Phase>);

pub fn stopping() -> (DrainControl, Stop) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (DrainControl(sender), Stop(receiver))
}

impl DrainControl {
    /// Lets connections end: what is in hand is finished, and a client that is idle has `chance` to ask once more.
    /// Resolves when the last is closed.
    pub async fn drain(&self, chance: Duration) {
        self.0.send_replace(Phase::Draining);
        if tokio::time::timeout(chance, self.0.closed()).await.is_err() {
            self.0.send_replace(Phase::Closing);
            self.0.closed().await;
        }
    }

    pub fn at_once(&self) {
        self.0.send_replace(Phase::Closing);
    }

    /// Closes what is still open, whatever goes on there, and resolves when that is done.
    pub async fn cut(&self) {
        self.0.send_replace(Phase::Cut);
        self.0.closed().await;
    }
}

impl Stop {
    /// Resolves when the server is to end.
    pub async fn asked_to_stop(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Draining).await;
    }

    /// Resolves when idle connections have had their chance.
    pub async fn closing(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Closing).await;
    }

    /// Resolves when nothing is waited for any more.
    pub async fn cut(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Cut).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_goes_one_way() {
        let ready = Ready::default();
        assert_eq!(ready.get(), Readiness::Starting);
        ready.ready();
        assert_eq!(ready.get(), Readiness::Ready);
        ready.drain();
        ready.ready();
        assert_eq!(ready.get(), Readiness::Draining);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_its_chance_and_one_in_use_is_waited_for() {
        let (stopping, stop) = stopping();
        let (mut idle, mut busy) = (stop.clone(), stop);
        let began = tokio::time::Instant::now();
        let idle = tokio::spawn(async move {
            idle.asked_to_stop().await;
            let told = began.elapsed();
            idle.closing().await;
            (told, began.elapsed())
        });
        let busy = tokio::spawn(async move {
            busy.closing().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        });
        stopping.drain(Duration::from_secs(1)).await;
        assert_eq!(began.elapsed().as_secs(), 6);
        let (told, closing) = idle.await.unwrap();
        assert_eq!((told.as_secs(), closing.as_secs()), (0, 1));
        busy.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_end_is_cut() {
        let (stopping, mut endless) = stopping();
        let endless = tokio::spawn(async move { endless.cut().await });
        assert!(tokio::time::timeout(Duration::from_secs(9), stopping.drain(Duration::ZERO)).await.is_err());
        stopping.cut().await;
        endless.await.unwrap();
    }
}
