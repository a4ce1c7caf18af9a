//! Outbound calls: the settings, and the policy that they make. It never makes a call.

use egress::Policy;

use crate::config::{
    groups::OUTBOUND,
    hosts::parse_network,
    layer::View,
    option::{Opt, Preset::Unset, Scope::Site},
    option_checks::{host_name, network},
    value::Kind,
};

/// Bytes of responses that each site of an account may keep.
const MAX_KEPT: u64 = 64 << 20;

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, OUTBOUND, "egress", Kind::Bool,
        "Make outbound HTTP calls for the application's processes, over open connections that all of them share. The front listens on a socket of mode 0600, \
        tmp/paceline-egress.sock below the root; the application gets its path as PACELINE_EGRESS. Only code that opts in uses it (docs/outbound.md).")
        .fixed("true").flag("egress"),
    Opt::new(Site, OUTBOUND, "egress_connections", Kind::Int { min: 1, max: 10_000 },
        "Number of connections to each upstream at a time; further calls wait, for no longer than their own open_timeout. One HTTP/2 connection carries many calls \
        at once.")
        .fixed("64").flag("egress-connections"),
    Opt::new(Site, OUTBOUND, "egress_breaker", Kind::Int { min: 0, max: 10_000 },
        "After this many failures in a row to connect to an upstream, calls to it fail at once, for a second at first and half a minute at most. Then one call \
        tries again. 0: each call tries.").fixed("0").flag("egress-breaker"),
    Opt::new(Site, OUTBOUND, "egress_cancel", Kind::Bool,
        "Cancel a GET or HEAD call through the front when the visitor of the GET or HEAD request that made it has left. The application gets \
        Paceline::HTTP::ClientGone, and its thread is free.").fixed("false").flag("egress-cancel")
        .risk("The application sees an error that it would not see otherwise, but only in the request of a visitor who has left."),
    Opt::new(Site, OUTBOUND, "egress_cache", Kind::Bytes { min: 1 << 20, max: 1 << 40, off: true },
        "Memory for responses to GET that may be cached (RFC 9111, a private cache of the site). Fresh responses are reused, stale ones revalidated, and concurrent \
        calls for the same URL wait for one answer. Calls with different Authorization or Cookie have separate entries.")
        .fixed("off").flag("egress-cache"),
    Opt::new(Site, OUTBOUND, "egress_guard", Kind::Bool,
        "Refuse calls to addresses that are not public (loopback, private, link-local: SSRF), even if a public name leads there. A single call can ask for it, too.")
        .fixed("false").flag("egress-guard")
        .risk("Without it, anyone who can choose a URL that the application fetches can reach everything this machine reaches, such as a cloud's metadata service."),
    Opt::new(Site, OUTBOUND, "egress_guard_allow", Kind::List { check: network },
        "Networks and addresses that the guard allows, such as 10.1.0.0/16.").preset(Unset("none")).flag("egress-guard-allow"),
    Opt::new(Site, OUTBOUND, "egress_allow", Kind::List { check: host_name },
        "Hosts that may be called, with wildcards such as *.example.com; all others are refused.").preset(Unset("all")).flag("egress-allow"),
    Opt::new(Site, OUTBOUND, "egress_deny", Kind::List { check: host_name },
        "Hosts that may not be called.").preset(Unset("none")).flag("egress-deny")
        .risk("The lists apply to calls through the front. A process can still open connections of its own; use a firewall to prevent that."),
];

/// None: the front makes no calls for the application.
pub fn policy(view: &View) -> Option<Policy> {
    view.bool("egress").then(|| Policy {
        connections: view.count("egress_connections"),
        breaker: u32::try_from(view.count("egress_breaker")).unwrap_or(u32::MAX),
        cancel: view.bool("egress_cancel"),
        cache: view.number_or_off("egress_cache").unwrap_or(0),
        guard: view.bool("egress_guard"),
        guard_allow: view.list("egress_guard_allow").iter().filter_map(|text| parse_network(text)).collect(),
        allow: view.list("egress_allow").to_vec(),
        deny: view.list("egress_deny").to_vec(),
    })
}

/// What is wrong with a policy in a file of an account. None: nothing.
pub fn too_much_kept(policy: &Policy) -> Option<String> {
    (policy.cache > MAX_KEPT).then(|| {
        let [kept, most] = [policy.cache, MAX_KEPT].map(|bytes| bytes.div_ceil(1 << 10));
        format!(
            "egress_cache is {kept} KB, and in a file of an account it may be {most} KB: set a lower value, or set it in the server's own settings"
        )
    })
}
