//! What parts of the server can be told: each has its settings, their documentation and what they mean in a file or folder of
//! its own. It never acts on them.

pub mod auto_cache;
pub mod cluster;
pub mod crawlers;
pub mod esi;
pub mod live_reload;
pub mod outbound;
pub mod page_cache;
pub mod processes;
pub mod rate_limits;
pub mod rules;
pub mod scheduled;
pub mod sign_on;
pub mod upstream;

use super::option::Opt;

/// The settings of all parts, in the order of the documentation within each group.
pub fn options() -> [&'static [Opt]; 13] {
    [
        processes::OPTIONS,
        page_cache::OPTIONS,
        scheduled::OPTIONS,
        esi::OPTIONS,
        auto_cache::OPTIONS,
        cluster::OPTIONS,
        live_reload::OPTIONS,
        rate_limits::OPTIONS,
        crawlers::OPTIONS,
        upstream::OPTIONS,
        outbound::OPTIONS,
        rules::OPTIONS,
        sign_on::OPTIONS,
    ]
}
