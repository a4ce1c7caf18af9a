//! The files of passwords of `[[rule]]`s: they are read with their site, so that a mistake is told at once and not by the
//! first visitor. It never lets anybody in.

use std::sync::Arc;

use crate::{
    config::Config,
    observe::log::{Log, Name},
    request::route::Site,
};

/// Begins with a site.
pub fn begin(config: &Arc<Config>, site: &Site, log: Log) {
    let files = site.rules.as_ref().map(|rules| rules.password_files()).unwrap_or_default();
    if files.is_empty() {
        return;
    }
    let is_tls_only = config.binds.iter().all(|bind| bind.tls.is_some());
    let is_safe = site.config.redirect_https || is_tls_only || config.trusted_proxies.given;
    let site = site.config.name.clone();
    if !is_safe {
        log.event(
            Name::Notice,
            format!(
                "{site}: [[rule]] with basic_auth without https: passwords are readable on the way. Listen on https (docs/tls.md), \
                 or name the proxy that ends TLS in trusted_proxies"
            ),
        );
    }
    tokio::task::spawn_blocking(move || {
        for file in files {
            if let Err(why) = file.load() {
                log.event(Name::BasicAuth, format!("{site}: basic_auth rejects every request: {why}"));
            }
        }
    });
}
