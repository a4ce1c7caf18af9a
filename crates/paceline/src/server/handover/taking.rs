//! The new front's side of a handover, on its main thread: the applications boot, the cache comes, and then it serves.
//! It never accepts a connection itself.

use std::sync::Arc;

use super::Inheritance;
use crate::{
    observe::log::Name,
    request::front::Front,
    server::{
        signals::{SignalCommand, Signals},
        sites::Sites,
        TakeoverError,
    },
};

/// Boots beside the old front until that one lets us serve. Ok(None): told to stop meanwhile. Err: the old one goes on,
/// and why.
pub async fn boot(
    mut inheritance: Inheritance,
    server: &Arc<Front>,
    sites: &Sites,
    signals: &mut Signals,
) -> Result<Option<Inheritance>, TakeoverError> {
    let (taking, log) = (server.clone(), server.log.clone());
    let booted = async move {
        sites.take_over(inheritance.up()).await?;
        let took = tokio::task::spawn_blocking(move || {
            let disk = taking.config.cache_disk.as_ref();
            let say = Arc::new(move |line| log.event(Name::Cache, line));
            let kept = inheritance.take(&taking.cache, disk, say)?;
            Ok::<_, TakeoverError>((inheritance, kept))
        });
        took.await.map_err(|_| TakeoverError::Panicked)?
    };
    let stopped = async {
        loop {
            if let SignalCommand::Stop | SignalCommand::Halt = signals.next().await {
                return;
            }
        }
    };
    let (inheritance, kept) = tokio::select! {
        booted = booted => booted?,
        () = stopped => return Ok(None),
    };
    server.log.event(
        Name::Upgrade,
        format!(
            "Taking over as part of pid {}, with {kept} cached response{}",
            inheritance.identity(),
            if kept == 1 { "" } else { "s" }
        ),
    );
    Ok(Some(inheritance))
}
