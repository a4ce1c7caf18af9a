//! What single sign-on needs beside requests: it is opened with its site, so that a mistake is told at once and not by the
//! first visitor, and sessions that have ended are removed from their store. It never signs anybody in.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    config::{Config, SiteConfig},
    observe::log::{Log, Name},
    request::{auth::Way, route::Site},
    server::sso_check,
    support::clock,
};

/// Between two times of tidying.
const TIDIED: Duration = Duration::from_secs(60);

/// Begins with a site.
pub fn begin(config: &Arc<Config>, site: &Site, log: Log) {
    let Some(gate) = &site.gate else { return };
    let name = &site.config.name;
    let has_tls = config.binds.iter().any(|bind| bind.tls.is_some());
    if !has_tls && !config.trusted_proxies.given {
        log.event(
            Name::Notice,
            format!(
                "{name}: [[sso]] without https: browsers keep its cookie only on this machine itself, so elsewhere each request has to be signed in again, \
                 and names and passwords are not taken. Listen on https (docs/tls.md), or name the proxy that ends TLS in trusted_proxies"
            ),
        );
    }
    for way in gate.ways() {
        tokio::spawn(open(way.clone(), name.clone(), log.clone()));
        tokio::spawn(tidy(Arc::downgrade(way)));
    }
    warn(config.clone(), site.config.clone(), log);
}

/// Says which usual mistakes the settings and files of a site show; they are read off the main thread.
fn warn(config: Arc<Config>, site: SiteConfig, log: Log) {
    tokio::task::spawn_blocking(move || {
        for warning in sso_check::warnings(&config, &site) {
            log.event(Name::Notice, format!("{}: {warning}", site.name));
        }
    });
}

async fn open(way: Arc<Way>, site: String, log: Log) {
    for problem in way.open().await {
        let problem = problem.trim_end_matches('.');
        log.event(Name::SignOn, format!("{site}: nobody can sign in: {problem}. It is tried again with each request"));
    }
}

/// Ends with the site.
async fn tidy(way: Weak<Way>) {
    loop {
        tokio::time::sleep(TIDIED).await;
        let Some(way) = way.upgrade() else { return };
        let Some(sessions) = way.sessions.known() else { continue };
        // Each call does a bounded part. A store that fails is told of by the requests that need it.
        while let Ok(swept) = sessions.sweep(clock::unix_millis()).await {
            if swept.sessions + swept.logins + swept.marks == 0 {
                break;
            }
        }
    }
}
