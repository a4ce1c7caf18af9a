//! Which site answers a host (RFC 9110 section 7.2; longest match first).
//! It never looks at paths.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use crate::{
    apps::app::App,
    caching::{auto::AutoCache, SiteCache},
    config::{AppKind, SiteConfig},
    content::{live_reload::LiveReload, static_files::Folder},
    exchange::{crawlers::Crawlers, rate_limit::RateLimits},
    observe::metrics,
    origins::upstream::Upstream,
    request::{auth::Gate, maintenance::Maintenance, rules::Rules},
    support::site_files::SiteFiles,
};

/// A site with what serves it.
pub struct Site {
    pub config: SiteConfig,
    pub rate_limits: RateLimits,
    /// None: crawlers count as visitors.
    pub crawlers: Option<Crawlers>,
    /// None: there are none.
    pub rules: Option<Rules>,
    /// Whether it is closed for a while.
    pub maintenance: Maintenance,
    /// None: nothing of it is protected.
    pub gate: Option<Arc<Gate>>,
    /// None: static files are off.
    pub folder: Option<Folder>,
    /// None: a folder of plain files, or `upstream` answers.
    pub app: Option<Arc<App>>,
    /// Servers that answer in place of an app.
    pub upstream: Option<Upstream>,
    /// None: it keeps no pages.
    pub cache: Option<Arc<SiteCache>>,
    /// None: nobody watches what its pages are made of.
    pub auto_cache: Option<Arc<AutoCache>>,
    /// None: pages that are open are told of nothing.
    pub live_reload: Option<Arc<LiveReload>>,
    /// With whose rights its files are read. None: that could not be determined, so none are.
    pub files: Option<SiteFiles>,
    pub metrics: Arc<metrics::Site>,
}

impl Site {
    pub fn new(
        config: SiteConfig,
        folder: Option<Folder>,
        app: Option<Arc<App>>,
        files: Option<SiteFiles>,
        cache: Option<Arc<SiteCache>>,
        metrics: Arc<metrics::Site>,
    ) -> Site {
        let rate_limits = RateLimits::new(config.parts.rate_limits.clone());
        let crawlers = config.parts.crawlers.as_ref().map(Crawlers::new);
        let upstream = config.upstream.clone().filter(|_| app.is_none()).map(|targets| {
            let (tls, check) = (config.upstream_tls.clone(), config.upstream_check.clone());
            Upstream::new(
                targets,
                tls,
                config.upstream_connect_timeout,
                check,
                config.upstream_sticky,
                config.app_hard_timeout,
            )
        });
        let gate = Gate::of(&config).map(Arc::new);
        let (rules, maintenance) = (Rules::new(&config.parts.rules), Maintenance::of(&config));
        let live_reload = config.parts.live_reload.then(Arc::default);
        let auto_cache = None;
        Site {
            config,
            rate_limits,
            crawlers,
            rules,
            maintenance,
            gate,
            folder,
            app,
            upstream,
            cache,
            auto_cache,
            live_reload,
            files,
            metrics,
        }
    }

    /// Ends the streams to its pages that are open.
    pub fn end_streams(&self) {
        self.live_reload.iter().for_each(|live| live.close());
    }

    /// Drops the pages that are known by what they were made of, if there are any by then.
    pub fn purger(&self) -> impl Fn() + Send + Sync + 'static {
        let auto_cache = self.auto_cache.as_ref().map(Arc::downgrade);
        move || auto_cache.iter().filter_map(Weak::upgrade).for_each(|auto| auto.purge())
    }

    /// Whether the site is made of files alone.
    pub fn is_files(&self) -> bool {
        self.config.kind == Some(AppKind::Files)
    }

    /// Whether it lets only some visitors see some of it.
    pub fn protects(&self) -> bool {
        self.gate.is_some() || self.rules.as_ref().is_some_and(Rules::are_for_some)
    }

    /// Whether errors are shown in full.
    pub fn shows_details(&self) -> bool {
        self.config.environment != "production"
    }
}

/// All sites by host.
#[derive(Default)]
pub struct Routes {
    exact: HashMap<String, Arc<Site>>,
    /// `*.example.org` as `.example.org`.
    suffixes: Vec<(String, Arc<Site>)>,
    /// The site without hosts.
    fallback: Option<Arc<Site>>,
    all: Vec<Arc<Site>>,
}

impl Routes {
    pub fn new(sites: Vec<Arc<Site>>) -> Routes {
        let mut routes = Routes { all: sites, ..Routes::default() };
        for site in &routes.all {
            for host in &site.config.hosts {
                match host.strip_prefix('*') {
                    Some(suffix) => routes.suffixes.push((suffix.to_owned(), site.clone())),
                    None => drop(routes.exact.entry(host.clone()).or_insert_with(|| site.clone())),
                }
            }
            if site.config.hosts.is_empty() && routes.fallback.is_none() {
                routes.fallback = Some(site.clone());
            }
        }
        routes.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        routes
    }

    /// The site for a host name without port; letter case and a trailing dot do not matter.
    pub fn find(&self, host: &str) -> Option<&Arc<Site>> {
        self.named(host).or(self.fallback.as_ref())
    }

    /// The site that has this host name of its own.
    pub fn named(&self, host: &str) -> Option<&Arc<Site>> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let wildcard =
            || self.suffixes.iter().find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix.as_str()));
        self.exact.get(&host).or_else(|| wildcard().map(|(_, site)| site))
    }

    pub fn all(&self) -> &[Arc<Site>] {
        &self.all
    }
}
