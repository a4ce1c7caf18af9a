//! Settings of the page cache for pages of fragments, and of the automatic page cache, in the words of `options`. It never reads a value.

use super::{
    groups::CACHE,
    option::{Opt, Preset::Unset, Scope::Site},
    option_checks::exact_host,
    value::Kind,
};
use crate::caching::OnRestart;

#[rustfmt::skip]
pub static CACHE_OPTIONS: &[Opt] = &[
    Opt::new(Site, CACHE, "purge_on_restart", Kind::Enum(OnRestart::WORDS),
        "Purge the site's stored pages when another generation takes over (a restart, a deployment, a rollback): `changed` if its code is other code (files of code, \
        templates and configuration, bundle, environment, Ruby), `always`, or `off`. With `changed` a restart of the same code leaves the cache warm. Pages that the old \
        code still makes at that moment, and those of a canary, are not stored. See docs/caching.md.").fixed("changed").flag("purge-on-restart")
        .risk("After a purge the application makes each page once more. With `off`, pages of the old code are shown until they expire. A folder outside the root that \
        the application names by its path is not compared."),
    Opt::new(Site, CACHE, "esi", Kind::Bool,
        "Assemble a page from fragments (ESI 1.0) if its response asks for it with Surrogate-Control: content=\"ESI/1.0\". Needs `page_cache`. Fragments are \
        fetched in parallel, and each is cached by its own rules. See docs/esi.md.").fixed("true").flag("esi"),
    Opt::new(Site, CACHE, "esi_hosts", Kind::List { check: exact_host },
        "Hosts of other sites of this server that pages may include. Includes from any other place but the site itself are refused.")
        .preset(Unset("none")).flag("esi-hosts")
        .risk("Anyone who can write an include into a page (for example in a comment that is not escaped) can show what these sites answer without a login."),
    Opt::new(Site, CACHE, "auto_cache", Kind::AutoCache,
        "The automatic page cache: the server learns what each page was made of (rows of the database, cookies, the session, files) and which writes change that. \
        `mode = \"watch\"` counts and compares, and shows nothing; `\"verify\"` turns a route off when a page differs from the application's; `\"serve\"` answers requests of routes that \
        were compared 300 times without a difference. `max_ttl` (1h) bounds the age of a page, `verify` (1%) is the share of hits that the application answers all the same, for a \
        comparison. `paceline cache advise` prints how far each route has come. As text: `serve max_ttl=1h verify=1%`. In a site: [site.auto_cache]. See docs/automatic-page-cache.md.")
        .fixed("off").flag("auto-cache")
        .risk("Methods of Active Record, Rack, Rails, Time and File are wrapped in the application's processes, which costs some time of each request. Up to \
        32 MB of pages for each site are kept in memory. With \"serve\", what programs without Rails write to a database other than SQLite, and don't announce, is seen after `max_ttl` at the latest."),
];
