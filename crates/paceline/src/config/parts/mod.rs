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

use path_patterns::weight;

use super::{layer::View, option::Opt, SiteConfig};
use crate::caching::Settings;

/// The tables whose patterns of paths have a weight.
pub const WEIGHED: &str = "[[rule]], [[rate_limit]], [[cache]], [[scheduled]]";
/// Bytes that a table, a header, a host or a cookie counts as.
pub const PART: usize = 64;

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

/// What the log says when a server of these sites starts.
pub fn notices<'a>(sites: impl Iterator<Item = View<'a>>) -> Option<String> {
    live_reload::notice(sites)
}

/// What is wrong with these sites, beyond each table by itself.
pub fn check(sites: &[SiteConfig]) -> Vec<String> {
    [rules::check(sites), sign_on::check(sites)].concat()
}

/// What a server of these sites can't do in a cluster.
pub fn conflict_with_cluster<'a>(mut sites: impl Iterator<Item = &'a SiteConfig>) -> Option<String> {
    sites.any(|site| site.parts.auto_cache.is_some_and(auto_cache::serves)).then(|| auto_cache::IN_CLUSTER.into())
}

/// What the parts are to do for a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteParts {
    /// None: it keeps no pages.
    pub cache: Option<Settings>,
    /// The automatic page cache. None: there is none.
    pub auto_cache: Option<crate::caching::auto::Policy>,
    /// How pages are put together from fragments. None: they are not.
    pub esi: Option<esi::EsiConfig>,
    /// What its processes may call through the front. None: nothing.
    pub egress: Option<::egress::Policy>,
    /// How often one address may ask for what.
    pub rate_limits: Vec<crate::exchange::rate_limit::Rule>,
    /// How crawlers are recognized. None: they count as visitors.
    pub crawlers: Option<crate::exchange::crawlers::Settings>,
    /// What is done with requests for some paths, in the order of the file.
    pub rules: Vec<rules::Rule>,
    /// Which paths need somebody who has signed in; the first that matches counts.
    pub sign_on: Vec<sign_on::SignOn>,
    /// Pages that are open are told when files have changed.
    pub live_reload: bool,
}

impl SiteParts {
    pub fn of(view: &View, is_upstream: bool) -> SiteParts {
        SiteParts {
            cache: page_cache::settings(view).map(|cache| Settings {
                scheduled: scheduled::rules(view),
                crawlers_stale: crawlers::stale(view),
                ..cache
            }),
            auto_cache: view.table("auto_cache").flatten(),
            esi: esi::settings(view),
            egress: outbound::policy(view),
            rate_limits: view.table("rate_limit").unwrap_or_default(),
            crawlers: crawlers::settings(view),
            rules: view.table("rule").unwrap_or_default(),
            sign_on: view.table("sso").unwrap_or_default(),
            live_reload: !is_upstream && live_reload::is_on(view),
        }
    }

    /// What `paceline check` says of them beside what is wrong.
    pub fn notice(&self) -> Option<String> {
        self.auto_cache.and_then(auto_cache::notice)
    }

    /// What comparing paths with the patterns of its tables costs.
    pub fn weight(&self) -> usize {
        let rules = self.rules.iter().map(rules::Rule::weight);
        let limits = self.rate_limits.iter().map(|limit| weight(&limit.path) + PART);
        let stored = self.cache.iter().flat_map(|cache| cache.rules.iter().map(page_cache::weight));
        let changing = self.cache.iter().flat_map(|cache| cache.scheduled.iter().map(scheduled::weight));
        rules.chain(limits).chain(stored).chain(changing).sum()
    }

    /// What a site of an account may not keep in the memory of all. None: it keeps no more than it may.
    pub fn too_much_kept(&self) -> Option<String> {
        outbound::too_much_kept(self.egress.as_ref()?)
    }
}

fn weight_of_all(patterns: &[String]) -> usize {
    patterns.iter().map(|pattern| weight(pattern)).sum()
}
