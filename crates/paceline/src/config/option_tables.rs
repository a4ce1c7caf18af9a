//! The tables of settings beside `options`, in the order of the documentation. It never reads a value.

use super::{
    option::Opt, options_cache::CACHE_OPTIONS, options_cluster::CLUSTER_OPTIONS, options_crawlers::CRAWLER_OPTIONS,
    options_live_reload::LIVE_RELOAD_OPTIONS, options_outbound::OUTBOUND_OPTIONS, options_rules::RULE_OPTIONS,
    options_sign_on::SIGN_ON_OPTIONS, options_upstream::UPSTREAM_OPTIONS,
};

pub fn more() -> [&'static [Opt]; 8] {
    [
        CACHE_OPTIONS,
        CLUSTER_OPTIONS,
        LIVE_RELOAD_OPTIONS,
        CRAWLER_OPTIONS,
        UPSTREAM_OPTIONS,
        OUTBOUND_OPTIONS,
        RULE_OPTIONS,
        SIGN_ON_OPTIONS,
    ]
}
