//! The tables of settings beside `options`, in the order of the documentation, and settings that there were. It never
//! reads a value.

use super::{
    option::Opt, options_cache::CACHE_OPTIONS, options_cluster::CLUSTER_OPTIONS, options_crawlers::CRAWLER_OPTIONS,
    options_live_reload::LIVE_RELOAD_OPTIONS, options_outbound::OUTBOUND_OPTIONS, options_rules::RULE_OPTIONS,
    options_sign_on::SIGN_ON_OPTIONS, options_tuning::TUNING_OPTIONS, options_upstream::UPSTREAM_OPTIONS,
};

pub fn more() -> [&'static [Opt]; 9] {
    [
        CACHE_OPTIONS,
        CLUSTER_OPTIONS,
        LIVE_RELOAD_OPTIONS,
        CRAWLER_OPTIONS,
        TUNING_OPTIONS,
        UPSTREAM_OPTIONS,
        OUTBOUND_OPTIONS,
        RULE_OPTIONS,
        SIGN_ON_OPTIONS,
    ]
}

/// Settings that there were, and what to do instead.
const REMOVED: [(&str, &str); 1] = [(
    "gc",
    "remove it: Ruby's own settings of the garbage collector apply. To trade CPU time for memory set RUBY_GC_ variables in env (docs/ruby-tuning.md)",
)];

/// What to do instead of setting `key`, which there is no more.
pub fn removed(key: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(name, _)| *name == key).map(|(_, instead)| *instead)
}
