//! Which room may use which, and which crate which: what is so today, so that a new use is a decision and no accident.
//! A room is a module of `crates/paceline/src`. The pipeline composes the steps of a request; the steps do not compose each other.
//! Add a word only if the room cannot be handed what it needs; take words out whenever you can.

/// A room, and the rooms that it uses. One that is not here uses none.
pub const ROOMS: &[(&str, &str)] = &[
    ("accepted", "acme admission clock config connection exchange http2 preface proxy_protocol server tls"),
    ("access_log", "clock config exchange local_time outbound_advice worker"),
    ("acme", "config http log tls"),
    (
        "answers",
        "account config dispatch exchange guard http incidents pages route server static_files supervisor \
         upstream worker",
    ),
    ("caching", "account clock compress exchange http log static_files"),
    ("cli", "account config control incidents server startup_report supervisor tls"),
    ("compress", "http static_files"),
    ("config", "account caching compress egress fragments guard http rate_limit traces upstream"),
    ("connection", "exchange guard http pipeline server"),
    (
        "control",
        "account accounting caching clock config dashboard egress live local_time log memory metrics \
         private_socket route server startup_report supervisor",
    ),
    ("dashboard", "incidents metrics startup_report"),
    ("dispatch", "account clock exchange http incidents live memory static_files supervisor worker"),
    ("egress", "http live"),
    ("exchange", "clock http2 live metrics traces worker"),
    ("finish", "access_log clock config dispatch exchange http live log metrics outbound_advice route server traces"),
    ("forwarded", "config exchange http"),
    ("fragments", "answers compress exchange http live log route server"),
    ("guard", "http"),
    (
        "http",
        "caching clock compress dispatch exchange finish fragments http2 live memory static_files upstream \
         worker",
    ),
    ("http2", "config exchange guard http memory pipeline server"),
    ("https_only", "exchange http"),
    ("incidents", "account clock"),
    ("listen", "config"),
    ("live", "clock metrics striped"),
    ("log", "account clock config local_time"),
    ("main", "cli"),
    ("metrics", "clock striped"),
    ("outbound_advice", "worker"),
    ("pages", "account startup_report"),
    (
        "pipeline",
        "account acme answers caching clock compress dispatch exchange finish forwarded fragments http \
         http2 https_only live metrics route server upstream",
    ),
    ("private_socket", "account"),
    ("proxy_protocol", "preface"),
    ("rate_limit", "admission"),
    ("route", "account caching config metrics rate_limit static_files supervisor upstream"),
    (
        "server",
        "accepted account accounting acme admission caching clock config connection control dashboard \
         dispatch egress http incidents listen live log memory metrics outbound_advice private_socket route \
         startup_report static_files supervisor traces upstream",
    ),
    ("startup_report", "account"),
    ("static_files", "account clock http"),
    ("supervisor", "account accounting clock config dispatch incidents log metrics startup_report worker"),
    ("tls", "account acme config"),
    ("traces", "access_log clock exchange log metrics"),
    ("upstream", "clock exchange http live static_files"),
    ("worker", "clock"),
];

/// A crate, and the crates of this checkout that it depends on. The gem carries paceline-native, -store and -xml, and
/// builds them alone.
pub const CRATES: &[(&str, &str)] = &[
    ("cache", "esi"),
    ("esi", ""),
    ("loadgen", ""),
    ("paceline", "cache esi paceline-store"),
    ("paceline-fuzz", "esi paceline paceline-xml"),
    ("paceline-native", "paceline-store paceline-xml"),
    ("paceline-store", ""),
    ("paceline-xml", ""),
];
