//! The rooms of the front, from the bottom to the top: a room may use those before it, and none after it. So a request
//! can be followed downwards, and a room can be read, tested and moved with what lies below it alone.

/// Folders that only group rooms.
pub const GROUPS: &[&str] = &["content", "edge", "observe", "request", "support", "workers"];

/// Rooms within a room.
pub const NESTED: &[&str] = &["apps::incidents", "apps::memory_usage"];

/// The rooms, a line for each layer that belongs together.
pub const ROOMS: &[&str] = &[
    "support::clock support::units support::sharded support::buffer_memory",
    "support::private_file support::private_socket support::stall support::state_folder support::tick support::near_timer",
    "support::time_slice support::idle_policy support::pressure support::wall_timer support::signal_mask support::file_watch support::site_files",
    "shadow",
    "apps::memory_usage apps::incidents",
    "observe::local_time observe::log observe::metrics observe::reservoir observe::doctor_result observe::in_flight",
    "content::body content::spool content::static_files content::compress content::live_reload",
    "edge::admission edge::sniff edge::proxy_protocol",
    "request::http2_message request::incoming request::rate_limit request::crawlers request::exchange request::https_only request::outbound_advice request::tunnel request::private",
    "request::access_log request::server_timing observe::traces",
    "caching cluster upstream",
    "workers::response_buffer workers::protocol workers::rack",
    "config",
    "edge::listen edge::tls edge::acme request::forwarded request::access_rules request::auth request::rules request::maintenance",
    "workers::dispatch apps",
    "request::route request::pages observe::dashboard front",
    "scheduling",
    "request::errors request::finish content::fragments request::pipeline",
    "edge::h1 edge::h2 edge::negotiate",
    "sso_check observe::control server doctor cli main",
];

/// A crate, and the crates of this checkout that it depends on. The gem carries paceline-native, -store and -xml, and
/// builds them alone.
pub const CRATES: &[(&str, &str)] = &[
    ("auto-cache", ""),
    ("balance", ""),
    ("bench", "client-pool"),
    ("cache", "esi path-patterns"),
    ("client-pool", ""),
    ("cluster", ""),
    ("damage", "auto-cache esi http-guard mailbox negotiate paceline paceline-xml path-patterns sign-in"),
    ("directory", "secret"),
    ("doctor", ""),
    ("egress", "cache client-pool http-guard"),
    ("esi", ""),
    ("http-guard", "cache"),
    ("mailbox", ""),
    ("negotiate", ""),
    ("openid", "client-pool sign-in"),
    (
        "paceline",
        "auto-cache balance bench cache client-pool cluster directory doctor egress esi http-guard mailbox negotiate openid paceline-store \
         path-patterns scheduled secret sign-in startup-report unix-user",
    ),
    ("paceline-fuzz", "auto-cache esi http-guard mailbox negotiate paceline paceline-xml path-patterns sign-in"),
    ("paceline-native", "paceline-store paceline-xml"),
    ("paceline-store", ""),
    ("paceline-xml", ""),
    ("path-patterns", ""),
    ("scheduled", "cache path-patterns"),
    ("secret", ""),
    ("sign-in", "paceline-store secret"),
    ("startup-report", "unix-user"),
    ("unix-user", ""),
];
