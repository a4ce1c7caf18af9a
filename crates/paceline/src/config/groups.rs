//! Under which headings the settings stand in `--help` and docs/configuration.md, in this order.
//! It never says which setting belongs where.

pub const LISTEN: &str = "Listening";
pub const TLS: &str = "TLS";
pub const HTTP2: &str = "HTTP/2";
pub const PROXIES: &str = "Proxies in front";
pub const APP: &str = "Application";
pub const RUBY: &str = "Tuning of Ruby";
pub const RESTARTS: &str = "Restarts";
pub const MEMORY: &str = "Memory of workers";
pub const FILES: &str = "Static files and compression";
pub const CACHE: &str = "Page cache";
pub const CLUSTER: &str = "Several machines";
pub const LIMITS: &str = "Queue and time limits";
pub const BODIES: &str = "Bodies and memory";
pub const RULES: &str = "Rules";
pub const SIGN_ON: &str = "Single sign-on";
pub const OUTBOUND: &str = "Outbound calls";
pub const CLIENTS: &str = "Clients";
pub const LOGS: &str = "Logs";
pub const TRACES: &str = "Traces";
pub const PROCESS: &str = "Server process";
pub const SITES: &str = "Sites";

pub const GROUPS: &[&str] = &[
    LISTEN, TLS, HTTP2, PROXIES, APP, RUBY, RESTARTS, MEMORY, SITES, FILES, CACHE, CLUSTER, LIMITS, BODIES, CLIENTS,
    RULES, SIGN_ON, OUTBOUND, LOGS, TRACES, PROCESS,
];
