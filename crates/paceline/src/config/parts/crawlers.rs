//! Crawlers that wait behind visitors: the settings, and what they mean. It never looks at a request.

use std::time::Duration;

use crate::{
    config::{
        groups::CLIENTS,
        layer::View,
        option::{Opt, Scope::Site},
        option_checks::exact_host,
        value::Kind,
    },
    exchange::crawlers::Settings,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, CLIENTS, "crawlers", Kind::Enum(&["equal", "last"]),
        "\"last\": crawlers get worker threads that no visitor wants, few at a time, and are the first to be refused (503 with Retry-After). \"equal\": they are \
        treated as visitors. A crawler is known by its user agent, or by what its address does (`crawlers_pages`). See docs/crawlers.md.")
        .fixed("equal").flag("crawlers")
        .risk("A busy site is crawled more slowly, and search engines see its changes later. Anybody can send the user agent of a browser."),
    Opt::new(Site, CLIENTS, "crawlers_pages", Kind::Int { min: 0, max: 500 },
        "With `crawlers = \"last\"`, an address (IPv6: one /64) that asks for more different pages (HTML) than this in a minute counts as a crawler for ten minutes, \
        if none of its requests has a cookie, Authorization or Sec-Fetch-Mode, and none is for a style sheet, script, image or font. 0: only the user agent counts.")
        .fixed("60").flag("crawlers-pages")
        .risk("Behind a proxy that is not in trusted_proxies all visitors have one address."),
    Opt::new(Site, CLIENTS, "crawlers_verified", Kind::List { check: exact_host },
        "With `crawlers = \"last\"`, domains of crawlers that count as visitors all the same, such as googlebot.com or search.msn.com: those that name themselves in their user agent, \
        whose address has a name in one of the domains, and whose name leads back to the address. Until the name servers have answered, they are crawlers.")
        .flag("crawlers-verified")
        .risk("The name servers are asked about every address that says it is a crawler's, up to four at a time."),
    Opt::new(Site, CLIENTS, "crawlers_stale", Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(365 * 86_400), off: true },
        "With `crawlers = \"last\"`, how long after it became stale a page of the page cache is shown to crawlers without asking the application. Pages that were purged, or \
        that say must-revalidate, s-maxage or no-cache, are not.")
        .fixed("1h").flag("crawlers-stale"),
];

/// None: they are treated as visitors.
pub fn settings(view: &View) -> Option<Settings> {
    are_last(view).then(|| Settings {
        pages: u32::try_from(view.number("crawlers_pages")).ok().filter(|pages| *pages > 0),
        verified: view.list("crawlers_verified"),
    })
}

/// How long after it became stale a page is shown to them: milliseconds.
pub fn stale(view: &View) -> u64 {
    let time = view.time_or_off("crawlers_stale").filter(|_| are_last(view));
    time.map_or(0, |time| time.as_millis() as u64)
}

fn are_last(view: &View) -> bool {
    view.text("crawlers").as_deref() == Some("last")
}
