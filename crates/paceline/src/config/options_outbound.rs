//! The settings of outbound calls, in the words of `options`. It never reads a value.

use super::{
    groups::OUTBOUND,
    option::{Opt, Preset::Unset, Scope::Site},
    option_checks::{host_name, network},
    value::Kind,
};

#[rustfmt::skip]
pub static OUTBOUND_OPTIONS: &[Opt] = &[
    Opt::new(Site, OUTBOUND, "egress", Kind::Bool,
        "Make outbound HTTP calls for the application's processes, over connections that are kept and shared by all of them: a socket of mode 0600 at \
        tmp/paceline-egress.sock below the root, which the application is told of as PACELINE_EGRESS. It is used by what asks for it (docs/outbound.md).")
        .fixed("true").flag("egress"),
    Opt::new(Site, OUTBOUND, "egress_connections", Kind::Int { min: 1, max: 10_000 },
        "Connections to each upstream at a time; further calls wait, for no longer than their own open_timeout. One of HTTP/2 carries many calls at once.")
        .fixed("64").flag("egress-connections"),
    Opt::new(Site, OUTBOUND, "egress_breaker", Kind::Int { min: 0, max: 10_000 },
        "After so many failures in a row to connect to an upstream calls to it fail at once, for a second at first and half a minute at most; then one tries again. \
        0: each call tries.").fixed("0").flag("egress-breaker"),
    Opt::new(Site, OUTBOUND, "egress_cancel", Kind::Bool,
        "Give up a GET or HEAD call through the front when the visitor has left whose GET or HEAD it is made for: the application gets \
        Paceline::HTTP::ClientGone, and its thread is free.").fixed("false").flag("egress-cancel")
        .risk("The application sees an error of its call that it would not see otherwise, if only for somebody who is gone."),
    Opt::new(Site, OUTBOUND, "egress_cache", Kind::Bytes { min: 1 << 20, max: 1 << 40, off: true },
        "Memory for responses to GET that say that they may be kept (RFC 9111, a private cache of the site): what is fresh is not asked for again, what is stale is asked \
        about, and calls for the same at the same time wait for one answer. What is asked with another Authorization or Cookie is kept apart.")
        .fixed("off").flag("egress-cache"),
    Opt::new(Site, OUTBOUND, "egress_guard", Kind::Bool,
        "Refuse calls to addresses that are not public (loopback, private, link-local: SSRF), whatever name led there. A call can ask for it, too.")
        .fixed("false").flag("egress-guard")
        .risk("Without it whoever can choose a URL that the application fetches reaches what this machine reaches, such as a cloud's metadata service."),
    Opt::new(Site, OUTBOUND, "egress_guard_allow", Kind::List { check: network },
        "Networks and addresses that the guard lets pass, such as 10.1.0.0/16.").preset(Unset("none")).flag("egress-guard-allow"),
    Opt::new(Site, OUTBOUND, "egress_allow", Kind::List { check: host_name },
        "Hosts that may be called, *.example.com among them; all others are refused.").preset(Unset("all")).flag("egress-allow"),
    Opt::new(Site, OUTBOUND, "egress_deny", Kind::List { check: host_name },
        "Hosts that may not be called.").preset(Unset("none")).flag("egress-deny")
        .risk("The lists hold for what goes through the front. A process that opens connections of its own is not kept from it: that is a firewall's work."),
];
