//! What an answer says of other responses that are kept: one to HEAD of that to GET, one to an unsafe request of all
//! that it has changed. It never stores the answer itself.

use std::sync::Arc;

use cache::{
    freshness::ExchangeTimes,
    groups,
    invalidating::invalidated,
    key::Target,
    store::{How, Moment},
    stored::Entry,
    updating::{self, HeadMeans},
};
use http::{request::Parts, response, StatusCode};

use super::{cache_request::CacheRequest, Purge, SiteCache};

impl SiteCache {
    /// An answer to HEAD speaks of what is stored for GET, too.
    pub(super) fn heard(&self, wanted: &mut CacheRequest, parts: &response::Parts, at: ExchangeTimes, moment: Moment) {
        let Some(stored) = &wanted.stored else { return };
        if self.rule_of(wanted).is_some() || parts.status == StatusCode::NOT_MODIFIED {
            return;
        }
        let own = wanted.visitor.is_some();
        match updating::head(stored, parts, at, self.settings.stale_if_error) {
            HeadMeans::Freshened(mut newer) => {
                newer.freshness.holds = stored.freshness.holds;
                // What was purged while it was asked stays so.
                let _ = self.cache.put(wanted.key, Arc::new(Entry::Response(Arc::new(*newer))), moment, own);
            }
            HeadMeans::Outdated => self.cache.take(wanted.key, own),
            HeadMeans::Unrelated => {}
        }
    }

    /// Something was changed (RFC 9111 section 4.4).
    pub(super) fn invalidate(&self, wanted: &mut CacheRequest, head: &Parts, parts: &response::Parts) {
        if !self.settings.rules.is_empty() {
            self.changed(head, &parts.headers);
        }
        let target = target_of(&wanted.url);
        let Some(dropped) = invalidated(&head.method, &target, parts) else { return };
        let urls = dropped.urls.into_iter().map(Purge::Url);
        for what in urls.chain(dropped.tags.into_iter().map(Purge::Tag)) {
            wanted.purging.push(self.cache.purge_soon(&what, How::Drop).1);
        }
    }
}

/// A URL as the target it was made of.
pub(super) fn target_of(url: &str) -> Target<'_> {
    let origin = groups::origin(url);
    let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
    Target { scheme, authority, path: &url[origin.len()..] }
}
