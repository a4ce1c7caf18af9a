//! The files of passwords of `[[rule]]`s: they are read with their site, so that a mistake is told at once and not by the
//! first visitor. It never lets anybody in.

use std::sync::Arc;

use crate::{
    observe::log::{Log, Name},
    request::rules::passwords::PasswordFile,
};

/// `is_safe`: browsers may come by https.
pub fn watch(files: Vec<Arc<PasswordFile>>, site: &str, is_safe: bool, log: Log) {
    if files.is_empty() {
        return;
    }
    if !is_safe {
        log.event(
            Name::Notice,
            format!(
                "{site}: [[rule]] with basic_auth without https: passwords are readable on the way. Listen on https (docs/tls.md), \
                 or name the proxy that ends TLS in trusted_proxies"
            ),
        );
    }
    let site = site.to_owned();
    tokio::task::spawn_blocking(move || {
        for file in files {
            if let Err(why) = file.load() {
                log.event(Name::BasicAuth, format!("{site}: basic_auth rejects every request: {why}"));
            }
        }
    });
}
