//! The new front's side of a handover, on its main thread: the applications boot, the cache comes, and then it serves.
//! It never accepts a connection itself.

use std::sync::Arc;

use super::Inheritance;
use crate::{
    apps::pages::SitePages,
    caching::OnRestart,
    observe::log::Name,
    request::front::Front,
    server::{
        signals::{SignalCommand, Signals},
        site_pages::KeptPages,
        sites::Sites,
        TakeoverError,
    },
};

/// Pages that come from the old front may be of code from before the one that was loaded here.
fn drop_of_other_code(inheritance: &Inheritance, server: &Arc<Front>) {
    for site in server.routes().all().iter() {
        let Some(cache) = site.cache.as_ref().filter(|_| site.app.is_some()) else { continue };
        let code = inheritance.code_of(&site.config.name);
        let may_stay = || server.cache.take_code(&site.config.name, code);
        if cache.settings.on_restart != OnRestart::Off && !may_stay() {
            let count = KeptPages::of(server, &site.config).purge();
            if count > 0 {
                let text =
                    format!("{}: purged {count} of the pages taken over: other code made them", site.config.name);
                server.log.of(&site.config.name).event(Name::Cache, text);
            }
        }
    }
    server.cache.write_codes();
}

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
            drop_of_other_code(&inheritance, &taking);
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
