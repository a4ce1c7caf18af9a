//! A thread with an event loop for what one site's processes say or ask: no other site waits for it. It never serves clients.

use std::{io, thread, time::Duration};

use tokio::{
    runtime::{EnterGuard, Handle},
    sync::oneshot,
};

use super::event_loop;
use crate::support::signal_mask;

/// How often a thread that is not wanted any more looks whether it still has work.
const LOOK: Duration = Duration::from_secs(1);

/// It ends when this is dropped and nothing runs there any more: processes that are connected stay so.
pub struct SiteThread {
    event_loop: Handle,
    _until: oneshot::Sender<()>,
}

impl SiteThread {
    /// # Errors
    /// The system has no thread, or no descriptor for its event loop.
    pub fn begin(name: &str) -> io::Result<SiteThread> {
        let runtime = event_loop()?;
        let event_loop = runtime.handle().clone();
        let (until, dropped) = oneshot::channel();
        let rest = async move {
            let _ = dropped.await;
            while Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        signal_mask::block();
        let began = thread::Builder::new().name(name.into()).spawn(move || runtime.block_on(rest));
        signal_mask::unblock();
        began?;
        Ok(SiteThread { event_loop, _until: until })
    }

    pub fn event_loop(&self) -> &Handle {
        &self.event_loop
    }

    pub fn enter(&self) -> EnterGuard<'_> {
        self.event_loop.enter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_nothing_is_left_to_do() {
        let thread = SiteThread::begin("test").unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let (gone, went) = std::sync::mpsc::channel::<()>();
        let work = thread.event_loop().spawn(async move {
            let _ = ended.await;
            drop(gone);
        });
        drop(thread);
        assert!(!work.is_finished(), "what runs goes on");
        end.send(()).unwrap();
        assert!(went
            .recv_timeout(Duration::from_secs(30))
            .is_err_and(|why| why == std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
