//! Pages that are put together from fragments (ESI): the settings, and what they mean. It never reads a page.

use crate::config::{
    groups::CACHE,
    layer::View,
    option::{Opt, Preset::Unset, Scope::Site},
    option_checks::exact_host,
    value::Kind,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CACHE, "esi", Kind::Bool,
        "Assemble a page from fragments (ESI 1.0) if its response asks for it with Surrogate-Control: content=\"ESI/1.0\". Needs `page_cache`. Fragments are \
        fetched in parallel, and each is cached by its own rules. See docs/esi.md.").fixed("true").flag("esi"),
    Opt::new(Site, CACHE, "esi_hosts", Kind::List { check: exact_host },
        "Hosts of other sites of this server that pages may include. Includes from any other place but the site itself are refused.")
        .preset(Unset("none")).flag("esi-hosts")
        .risk("Anyone who can write an include into a page (for example in a comment that is not escaped) can show what these sites answer without a login."),
];

/// How a site puts pages together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EsiConfig {
    /// Other sites of this server that its pages may include, by their hosts, in small letters.
    pub hosts: Vec<String>,
}

/// None: pages are not put together.
pub fn settings(view: &View) -> Option<EsiConfig> {
    (view.bool("page_cache") && view.bool("esi"))
        .then(|| EsiConfig { hosts: view.list("esi_hosts").iter().map(|host| host.to_ascii_lowercase()).collect() })
}
