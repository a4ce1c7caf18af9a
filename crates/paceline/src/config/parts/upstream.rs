//! The settings of sites that another HTTP server answers, in the words of `options`. It never reads a value.

use std::time::Duration;

use crate::config::{
    groups::{LIMITS, SITES},
    option::{
        Opt,
        Preset::Unset,
        Scope::{Site, SiteByAdmin},
    },
    option_checks::{exact_host, upstream, upstream_check},
    value::{From, Kind},
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(SiteByAdmin, SITES, "upstream", Kind::List { check: upstream },
        "Pass the site's requests to another HTTP server instead of an application: http://HOST:PORT, https://HOST:PORT or http://unix:/PATH. No Ruby is \
        started and no root is needed. If the site sets `public` or a root, files from `public` are served first. `app_hard_timeout` limits the wait for an answer. \
        Several servers, or dns:NAME:PORT for all addresses of a name, are [balanced](balancing.md).")
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
    Opt::new(SiteByAdmin, SITES, "upstream_check", Kind::Text { check: upstream_check },
        "Path that each host of a balanced `upstream` is asked for regularly, such as /up. A host that does not answer with a status from 200 to 399 gets no \
        requests until it does; \"off\": hosts are judged by the requests of visitors alone.")
        .preset(Unset("off")).flag("upstream-check"),
    Opt::new(SiteByAdmin, SITES, "upstream_check_interval", Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3600), off: false },
        "Time between two checks of a host (`upstream_check`). A check may take as long, but at least one second.")
        .fixed("2s").flag("upstream-check-interval"),
    Opt::new(SiteByAdmin, SITES, "upstream_sticky", Kind::Enum(&["off", "cookie"]),
        "With \"cookie\", visitors stay with their host of a balanced `upstream`, by a cookie `paceline_host`. A host that is out is replaced.")
        .fixed("off").flag("upstream-sticky"),
    Opt::new(Site, LIMITS, "upstream_connect_timeout", Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        "Time limit for connecting to the `upstream`, TLS included; after it the request gets 504.").fixed("5s").flag("upstream-connect-timeout"),
];
