//! Where a document is from, and where its includes lead: into its own site, or to another site of this server that it
//! may include. It never leads anywhere else, and never takes one site's cookies to another.

use std::sync::Arc;

use esi::{Base, Target};
use http::{header, request::Parts, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use super::Page;
use crate::{
    exchange::{Exchange, Offers},
    observe::in_flight::Listed,
    request::route::Site,
};
use http_guard::host;

/// Where a document is from.
#[derive(Clone)]
pub struct Place {
    pub site: Arc<Site>,
    scheme: &'static str,
    /// As the client sees it: host, and port if it is not the scheme's own.
    authority: String,
    /// What the Host field says.
    host: String,
    path: String,
    /// Not the site that the client asked.
    foreign: bool,
}

/// Fields of the client's request that speak of that request alone: of its body, its connection, what the client has
/// already, or which part it wants.
const OF_THE_PAGE: [HeaderName; 16] = [
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("x-http-method-override"),
];

/// Fields that are one site's secrets, or say what another site was asked as.
const OF_THE_SITE: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
];

/// Why the URL of a fragment leads nowhere. Its words go behind `URL is not included: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    #[error("{0}")]
    Refused(esi::Refused),
    #[error("the path is not valid in a URL")]
    BadPath,
    #[error("the host is not valid in a URL")]
    BadHost,
    #[error("{0} is another host, and not in esi_hosts")]
    OtherHost(String),
    #[error("no site of this server has the host {0}")]
    NoSite(String),
}

impl Place {
    /// Of the page itself.
    pub fn of(site: Arc<Site>, head: &Parts, exchange: &Exchange) -> Place {
        let host = host::host(head).into_owned();
        let authority = exchange.client.host.clone().unwrap_or_else(|| host.clone());
        let path = head.uri.path().to_owned();
        Place { site, scheme: exchange.client.scheme(), authority, host, path, foreign: false }
    }

    /// The path, for the log.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where `url` leads, the request for it, and the exchange of that.
    pub fn follow(&self, url: &str, page: &Page) -> Result<(Place, Parts, Exchange), NoPlace> {
        let base = Base { scheme: self.scheme, authority: &self.authority, path: &self.path };
        let (mut place, path_and_query) = match esi::resolve(url, &base).map_err(NoPlace::Refused)? {
            Target::Site { path_and_query } => (self.clone(), path_and_query),
            Target::Foreign { authority, path_and_query, .. } => (self.other(authority, page)?, path_and_query),
        };
        let uri: Uri = path_and_query.parse().map_err(|_| NoPlace::BadPath)?;
        place.path = uri.path().to_owned();
        let host = HeaderValue::from_str(&place.host).map_err(|_| NoPlace::BadHost)?;
        let (mut head, ()) = Request::new(()).into_parts();
        (head.method, head.uri, head.version) = (Method::GET, uri, page.head.version);
        head.headers = fields(&page.head.headers, place.foreign);
        head.headers.insert(header::HOST, host);
        let site = Some(place.site.metrics.clone());
        // Listed by itself, where more than the cache is asked.
        let mut exchange =
            Exchange { offers: Offers::default(), live: Listed::default(), site, ..page.exchange.branch() };
        if place.foreign {
            // Another site has people of its own.
            exchange.requester.user = None;
        }
        if place.foreign && exchange.client.host.is_some() {
            (exchange.client.host, exchange.client.port) = (Some(place.authority.clone()), None);
        }
        Ok((place, head, exchange))
    }

    fn other(&self, authority: String, page: &Page) -> Result<Place, NoPlace> {
        let host = host::split_host(&authority).0;
        let may =
            self.site.config.parts.esi.as_ref().is_some_and(|settings| settings.hosts.iter().any(|one| one == host));
        if !may {
            return Err(NoPlace::OtherHost(host.to_owned()));
        }
        let routes = page.server.routes();
        let site = routes.named(host).ok_or_else(|| NoPlace::NoSite(host.to_owned()))?.clone();
        Ok(Place { site, authority: authority.clone(), host: authority, path: String::new(), foreign: true, ..*self })
    }
}

/// The client's fields that go to a fragment, too.
fn fields(headers: &HeaderMap, foreign: bool) -> HeaderMap {
    let mut fields = headers.clone();
    OF_THE_PAGE.iter().for_each(|name| drop(fields.remove(name)));
    if foreign {
        OF_THE_SITE.iter().for_each(|name| drop(fields.remove(name)));
    }
    let content: Vec<_> = fields.keys().filter(|name| name.as_str().starts_with("content-")).cloned().collect();
    content.iter().for_each(|name| drop(fields.remove(name)));
    // Bytes of it become bytes of the page.
    fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields
}
