//! The fast path: a page that the cache has, fresh, where nothing goes before the cache.
//! It never waits.

use http::{request::Parts, Response};

use super::origin::has_body;
use crate::{
    caching::Lookup,
    content::body::ResponseBody,
    request::{exchange::Exchange, incoming::Arriving, route::Site},
};

/// What the cache has, where there is no limit of requests, and no file that might be there.
pub fn look_ahead(site: &Site, head: &Parts, body: &Arriving, exchange: &Exchange) -> Option<Lookup> {
    let cache = site.cache.as_ref()?;
    let no_file = site.folder.as_ref().is_none_or(|folder| folder.lacks(head.uri.path()));
    (no_file && site.rate_limits.is_empty()).then(|| cache.look(head, has_body(Some(body)), exchange))
}

/// The page as it lies in the cache. None: it is not there as it has to be sent.
pub fn answer(
    site: Option<&Site>,
    lookup: Option<&mut Lookup>,
    head: &Parts,
    exchange: &mut Exchange,
) -> Option<Response<ResponseBody>> {
    let mut response = lookup?.answer_as_it_is()?;
    let cache = site?.cache.as_ref()?;
    exchange.cache = Some(cache.tell(head.uri.path(), &mut response));
    Some(response)
}
