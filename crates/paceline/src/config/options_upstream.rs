//! The settings of sites that another HTTP server answers, in the words of `options`. It never reads a value.

use std::time::Duration;

use super::{
    groups::{LIMITS, SITES},
    option::{
        Opt,
        Preset::Unset,
        Scope::{Site, SiteByAdmin},
    },
    option_checks::{exact_host, upstream},
    value::{From, Kind},
};

#[rustfmt::skip]
pub static UPSTREAM_OPTIONS: &[Opt] = &[
    Opt::new(SiteByAdmin, SITES, "upstream", Kind::Text { check: upstream },
        "Pass the site's requests to another HTTP server instead of an application: http://HOST:PORT, https://HOST:PORT or http://unix:/PATH. No Ruby is \
        started and no root is needed. If the site sets `public` or a root, files from `public` are served first. `app_hard_timeout` limits the wait for an answer.")
        .env(&["PACELINE_UPSTREAM"]).common(None, "upstream")
        .risk("A connection to an http:// upstream is not encrypted. The upstream gets the client's address in X-Forwarded-For, and must trust this server \
        alone."),
    Opt::new(SiteByAdmin, SITES, "upstream_ca_file", Kind::Path { from: From::Settings, off: false },
        "PEM file with the certificates that an https `upstream` is verified with, for a private authority. They replace the machine's. The file is read again \
        when it changes.")
        .preset(Unset("this machine's root certificates")).flag("upstream-ca-file"),
    Opt::new(SiteByAdmin, SITES, "upstream_tls_name", Kind::Text { check: exact_host },
        "Name that the certificate of an https `upstream` must have. It is sent as the server name (SNI), too. The Host header stays the client's.")
        .preset(Unset("the host in `upstream`")).flag("upstream-tls-name"),
    Opt::new(Site, LIMITS, "upstream_connect_timeout", Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        "Time limit for connecting to the `upstream`, TLS included; after it the request gets 504.").fixed("5s").flag("upstream-connect-timeout"),
];
