//! The fast path: a page that one of the caches has, fresh, where nothing goes before the cache.
//! It never waits.

use http::{request::Parts, Response};

use super::origin::has_body;
use crate::{
    caching::{auto::NoPage, tell_auto, Lookup},
    content::body::ResponseBody,
    exchange::{incoming::Arriving, Exchange},
    request::{preview, route::Site},
};

/// What was found before the request was handed to the steps that may wait.
#[derive(Default)]
pub struct Ahead {
    /// What the page cache has. None: it has not been asked.
    pub lookup: Option<Lookup>,
    /// The automatic page cache has been asked, and has no page, or one that is to be compared.
    pub is_unlearned: bool,
}

/// There is no limit of requests, and no file that might be there.
fn is_open(site: &Site, head: &Parts) -> bool {
    site.rate_limits.is_empty() && site.folder.as_ref().is_none_or(|folder| folder.lacks(head.uri.path()))
}

/// What the page cache has.
pub fn look_ahead(site: &Site, head: &Parts, body: &Arriving, exchange: &Exchange) -> Option<Lookup> {
    let cache = site.cache.as_ref()?;
    is_open(site, head).then(|| cache.look(head, has_body(Some(body)), exchange))
}

/// A page of the automatic page cache, which goes before the page cache: it is never older than what it was made of. Err: whether
/// that cache was asked.
pub fn learned_ahead(
    site: &Site,
    head: &Parts,
    body: &Arriving,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, bool> {
    let may_be = learns(site) && site.gate.is_none() && is_open(site, head) && !preview::is_asked(head);
    if may_be {
        // What has to be looked at first is for a step that may wait.
        learned(site, head, has_body(Some(body)), exchange).map_err(|why| matches!(why, NoPage::Missing))
    } else {
        Err(false)
    }
}

/// Whether the site has an automatic page cache.
pub fn learns(site: &Site) -> bool {
    site.auto_cache.is_some()
}

/// A page of the automatic page cache where something goes before it: it may wait until the page's files are looked at.
pub async fn learned_in_time(
    site: &Site,
    head: &Parts,
    has_body: bool,
    exchange: &mut Exchange,
) -> Option<Response<ResponseBody>> {
    match learned(site, head, has_body, exchange) {
        Ok(page) => Some(page),
        Err(NoPage::Missing) => None,
        Err(NoPage::LookFirst(files)) => {
            site.auto_cache.as_ref()?.look(&files).await;
            learned(site, head, has_body, exchange).ok()
        }
    }
}

fn learned(
    site: &Site,
    head: &Parts,
    has_body: bool,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, NoPage> {
    let auto = site.auto_cache.as_ref().filter(|_| !has_body).ok_or(NoPage::Missing)?;
    let mut page = auto.answer(head, exchange)?;
    exchange.log.cache = match &site.cache {
        Some(cache) => {
            cache.end_with_rules(head.uri.path(), &mut page);
            Some(cache.tell(head.uri.path(), &mut page))
        }
        None => tell_auto(&mut page),
    };
    Ok(page)
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
    exchange.log.cache = Some(cache.tell(head.uri.path(), &mut response));
    Some(response)
}
