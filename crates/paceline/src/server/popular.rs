//! The pages of a site that are asked for most, of those that the page cache keeps for everybody.
//! It never names a visitor's own page.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use cache::{
    directives::ResponseDirectives,
    stored::{Entry, Stored},
};
use http::{header, StatusCode, Uri};

use crate::{apps::ready_check::Page, request::front::Front};

/// The most requested first, `most` at most. Looks through all that is kept.
pub fn of_site(server: &Weak<Front>, site: &str, most: usize) -> Vec<Page> {
    let Some(server) = server.upgrade() else { return Vec::new() };
    let routes = server.routes();
    let mut hits: HashMap<Arc<str>, u64> = HashMap::new();
    server.cache.store().each(|_, kept| {
        if let Entry::Response(stored) = &**kept {
            if stored.hits() > 0 && is_for_everybody(stored) {
                *hits.entry(stored.url.clone()).or_default() += stored.hits();
            }
        }
    });
    let mut urls: Vec<_> = hits.into_iter().collect();
    urls.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let pages = urls.into_iter().filter_map(|(url, _)| page(&url));
    let of_site = |page: &Page| {
        let host = http_guard::host::split_host(&page.host).0;
        routes.find(host).is_some_and(|found| found.config.name == site)
    };
    pages.filter(of_site).take(most).collect()
}

fn is_for_everybody(stored: &Stored) -> bool {
    // Tags of single visitors begin with a control character.
    let own = stored.tags.iter().any(|tag| tag.starts_with(char::is_control));
    let private = ResponseDirectives::of(&stored.headers).restricts_reuse();
    stored.status == StatusCode::OK && !own && !private && !stored.headers.contains_key(header::SET_COOKIE)
}

fn page(url: &str) -> Option<Page> {
    let uri: Uri = url.parse().ok()?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    Some(Page { https: uri.scheme_str() == Some("https"), host: uri.authority()?.to_string(), target })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_as_a_request() {
        let asked = |https, host: &str, target: &str| Page { https, host: host.into(), target: target.into() };
        assert_eq!(page("https://shop.test/a?b=1"), Some(asked(true, "shop.test", "/a?b=1")));
        assert_eq!(page("http://shop.test:3000/"), Some(asked(false, "shop.test:3000", "/")));
        assert_eq!(page("/no-host"), None);
    }
}
