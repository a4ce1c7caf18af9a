//! Pages put together from fragments: a response that asks for ESI by its Surrogate-Control is a template, of which
//! each request gets a page of its own. The law is the crate `esi`; here are its bytes and its waiting. It never asks
//! anybody but sites of this server, and never by itself: how a fragment is asked for is handed to it.
//!
//! Reading order: `place` (where an include leads, and as what request), `document`
//! (a template and what it includes, each fragment on its way), `body` (the page as the client gets it), `coded` (templates that came
//! compressed).

mod body;
mod coded;
mod document;
mod place;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
        Arc,
    },
};

use bytes::Bytes;
use cache::targeted::SURROGATE_CONTROL;
use esi::{Assembler, Facts, Limits};
use http::{header, request::Parts, HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use parking_lot::Mutex;

use crate::{
    content::{body::ResponseBody, compress::Memo},
    exchange::{Exchange, Offers},
    observe::log::{Log, Name},
    request::{errors, front::Front, private, route::Site},
};
use http_guard::host;

pub use body::AssembledBody;
use body::PageStart;
use coded::DecodedTemplate;
use document::Document;
use place::Place;

/// A fragment as it was answered.
pub struct FragmentResponse {
    pub response: Response<ResponseBody>,
    /// What the log is to say of it.
    pub note: Option<String>,
    /// Not every visitor of the page gets it.
    pub is_protected: bool,
}

/// How a site is asked for a fragment.
pub type Ask =
    Arc<dyn Fn(Arc<Site>, Parts, Exchange) -> Pin<Box<dyn Future<Output = FragmentResponse> + Send>> + Send + Sync>;

/// What requests to those who may answer with a template say (Surrogate-Capability).
pub fn capability(site: &Site) -> Option<HeaderValue> {
    site.cache.as_ref()?;
    Some(match &site.config.parts.esi {
        Some(_) => HeaderValue::from_static(esi::SURROGATE_CAPABILITY),
        None => HeaderValue::from_static("paceline=\"Surrogate/1.0\""),
    })
}

/// Takes the mark of a template out of the response. Whether it is one, of which the site makes pages.
pub fn are_asked_for(site: &Site, headers: &mut HeaderMap) -> bool {
    headers.remove(SURROGATE_CONTROL).is_some() && site.config.parts.esi.is_some()
}

/// What all documents of a page share.
pub struct Page {
    server: Arc<Front>,
    log: Log,
    /// The client's request.
    head: Parts,
    exchange: Exchange,
    ask: Ask,
    /// Fragments that were asked for.
    fragments: Arc<AtomicU32>,
    /// What the access log is to say, as long as it can be told.
    note: Mutex<Option<String>>,
    begun: AtomicBool,
    /// A fragment is not for every visitor, so the page is not, either.
    is_protected: AtomicBool,
}

impl Page {
    /// Says what is wrong: with the request's own line as long as that is to be had.
    fn say(&self, place: &Place, what: &str) {
        let what = format!("esi: {}: {what}", place.path());
        let mut note = self.note.lock();
        match *note {
            None if !self.begun.load(Relaxed) => *note = Some(what),
            _ => {
                let site = &place.site.config.name;
                self.log.of(site).event(Name::Esi, format!("{site}: {what}"))
            }
        }
    }
}

/// The page that the template makes for this request. Comes when the page's first bytes are known.
pub async fn answer(
    server: &Arc<Front>,
    site: &Arc<Site>,
    head: &Parts,
    exchange: &mut Exchange,
    template: Response<ResponseBody>,
    ask: Ask,
) -> Response<ResponseBody> {
    let (mut parts, source) = template.into_parts();
    if matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT)
        || matches!(source, ResponseBody::Hijacked(_))
    {
        return Response::from_parts(parts, source);
    }
    let source = match DecodedTemplate::of(&parts.headers, source) {
        Ok(source) => source,
        Err(source) => {
            exchange.log.note = Some("esi: no page can be made of a template with this Content-Encoding".into());
            return Response::from_parts(parts, source);
        }
    };
    about_another_body(&mut parts);
    let is_for_all = !exchange.response.protected && !private::is_private(&parts.headers);
    let must_be_whole = is_for_all && may_protect(server, site);
    if head.method == Method::HEAD {
        exchange.response.protected |= must_be_whole;
        return Response::from_parts(parts, ResponseBody::Empty);
    }
    let place = Place::of(site.clone(), head, exchange);
    let (mut asked, _) = http::Request::new(()).into_parts();
    (asked.method, asked.uri, asked.version, asked.headers) =
        (head.method.clone(), head.uri.clone(), head.version, head.headers.clone());
    let fragments = exchange.log.fragments.get_or_insert_with(Arc::default).clone();
    let page = Arc::new(Page {
        server: server.clone(),
        log: server.log.clone(),
        head: asked,
        exchange: Exchange { offers: Offers::default(), ..exchange.branch() },
        ask,
        fragments,
        note: Mutex::default(),
        begun: AtomicBool::new(false),
        is_protected: AtomicBool::new(false),
    });
    let limits = Limits::default();
    let assembler = Assembler::new(Arc::new(facts(head, exchange)), &limits);
    let begun = AssembledBody::begin(page.clone(), Document::new(place, assembler, source), must_be_whole).await;
    page.begun.store(true, Relaxed);
    // What is too large to wait for may have such a fragment yet.
    let is_unknown = must_be_whole && matches!(begun, PageStart::Arriving(_));
    exchange.response.protected |= is_unknown || page.is_protected.load(Relaxed);
    if let Some(note) = page.note.lock().take() {
        exchange.log.note = Some(note);
    }
    let body = match begun {
        PageStart::Whole(bytes) if bytes.is_empty() => ResponseBody::Empty,
        PageStart::Whole(bytes) => ResponseBody::Whole(bytes),
        PageStart::Arriving(body) => ResponseBody::Stream(Box::into_pin(body)),
        PageStart::Failed => return errors::incomplete(site, head, exchange),
    };
    Response::from_parts(parts, body)
}

/// Whether some fragments of this site's pages may be for some visitors only: then it is not known before they are asked for
/// whether other caches may keep a page.
fn may_protect(server: &Front, site: &Site) -> bool {
    let includes_others = site.config.parts.esi.as_ref().is_some_and(|settings| !settings.hosts.is_empty());
    site.protects() || includes_others && server.routes().all().iter().any(|other| other.protects())
}

/// Takes out what is said of the template's bytes and not of the page's. What it says to caches stays: that is the
/// app's word.
fn about_another_body(parts: &mut http::response::Parts) {
    for name in [
        header::ETAG,
        header::LAST_MODIFIED,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::ACCEPT_RANGES,
        HeaderName::from_static("content-md5"),
        HeaderName::from_static("digest"),
        HeaderName::from_static("content-digest"),
        HeaderName::from_static("repr-digest"),
    ] {
        parts.headers.remove(name);
    }
    // Of the template's bytes, too.
    parts.extensions.remove::<Memo>();
}

/// What ESI's variables are about.
fn facts(head: &Parts, exchange: &Exchange) -> Facts {
    let lines = |name: HeaderName, separator: &[u8]| -> Bytes {
        let lines: Vec<_> = head.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        lines.join(separator).into()
    };
    let host = exchange.client.host.clone().unwrap_or_else(|| host::host(head).into_owned());
    Facts {
        accept_language: lines(header::ACCEPT_LANGUAGE, b","),
        cookie: lines(header::COOKIE, b"; "),
        host: host.into(),
        referer: lines(header::REFERER, b","),
        user_agent: lines(header::USER_AGENT, b" "),
        query: head.uri.query().unwrap_or("").to_owned().into(),
        path: head.uri.path().to_owned().into(),
    }
}
