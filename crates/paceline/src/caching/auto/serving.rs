//! A page in place of the application's answer: its holes are filled for the visitor, and its head says how old it is. It asks
//! nobody, waits for nothing, and decides only whether the request is one that a page may answer.

use std::sync::Arc;

use ::auto_cache::{
    holes::Template,
    watch::{Hit, Mode, PageRequest},
};
use base64::{engine::general_purpose::STANDARD, Engine};
use cache::status::CacheStatus;
use http::{header, request::Parts, HeaderName, HeaderValue, Method, Response, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};

use super::{
    file_marks::AskedFiles,
    observing::url,
    prepared::{CodedPage, Prepared, PreparedHead},
    request_parts::{is_for_pages, RequestView},
    AutoCache,
};
use crate::{
    content::{
        body::ResponseBody,
        compress::Memo,
        static_files::conditional::{self, Precondition},
    },
    exchange::Exchange,
    support::clock,
};

/// Says in a response that it is a page of this cache.
#[derive(Debug, Clone, Copy)]
pub struct AutoHit {
    /// Milliseconds that it would be given yet.
    ttl: i64,
}

impl AutoHit {
    pub fn status(self) -> CacheStatus {
        CacheStatus { detail: Some("auto"), ..CacheStatus::hit(self.ttl) }
    }
}

/// Why there is no page.
#[derive(Debug)]
pub enum NoPage {
    /// The application is asked.
    Missing,
    /// There may be one, once these files are looked at; the list may be empty, since the site's folder is looked at, too.
    LookFirst(Vec<String>),
}

/// Fields that describe content which is not sent.
const CONTENT_FIELDS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE];
/// Bytes of a nonce: as Rails makes them.
const NONCE: usize = 16;

impl AutoCache {
    /// The page for this request. Err: the application is asked, or `look` has to be first.
    pub fn answer(&self, head: &Parts, exchange: &Exchange) -> Result<Response<ResponseBody>, NoPage> {
        let policy = self.policy;
        if policy.mode != Mode::Serve || !is_for_pages(head, exchange) || self.is_sampled() {
            return Err(NoPage::Missing);
        }
        let url = url(head, exchange);
        let asked = PageRequest { url: &url, now: clock::unix_millis() };
        let files = AskedFiles::new(&self.marks);
        let (headers, query) = (&head.headers, head.uri.query());
        let view = RequestView { headers, query, address: exchange.client.address, files: &files };
        let held = self.trust.held_lately();
        if held == Some(false) {
            return Err(NoPage::Missing);
        }
        // What a process announces may take long to be understood, and the event loop serves the sites of others.
        let Some(watch) = self.watch.try_read() else { return Err(NoPage::LookFirst(Vec::new())) };
        if held.is_none() {
            return Err(NoPage::LookFirst(watch.files_of(asked.url)));
        }
        let found = watch.serve(&asked, &view);
        drop(watch);
        let Some(hit) = found else {
            let unknown = files.into_unknown();
            return Err(if unknown.is_empty() { NoPage::Missing } else { NoPage::LookFirst(unknown) });
        };
        let age = hit.page.age(asked.now);
        let ttl = i64::try_from(hit.page.left(asked.now, policy.max_ttl)).unwrap_or(i64::MAX);
        let mut response = page(&hit, head, age).ok_or(NoPage::Missing)?;
        response.extensions_mut().insert(AutoHit { ttl });
        Ok(response)
    }

    /// Looks at these files, and whether all writes are told here, beside the event loop and as the site's account.
    pub async fn look(self: &Arc<AutoCache>, files: &[String]) {
        let auto = self.clone();
        let beside = move || {
            if auto.trust.held_lately().is_none() {
                auto.is_trusted();
            }
            // Whoever changes something now has done so.
            drop(auto.watch.read());
        };
        self.marks.look(files, beside).await;
    }

    /// A hit that is chosen is asked of the application, and compared.
    fn is_sampled(&self) -> bool {
        is_drawn(self.policy.sampled)
    }
}

/// By chance, as often of a million. Nothing secret depends on it.
fn is_drawn(of_a_million: u32) -> bool {
    of_a_million > 0 && fastrand::u32(..1_000_000) < of_a_million
}

/// None: it can't be made as it has to be. `age`: milliseconds.
fn page(hit: &Hit, head: &Parts, age: u64) -> Option<Response<ResponseBody>> {
    let (page, prepared) = (&hit.page, Prepared::of(&hit.page));
    let nonce = (page.nonces() > 0).then(|| STANDARD.encode(random::<NONCE>()));
    let fill = |template: &Template| template.fill(hit.secret.as_ref(), nonce.as_deref(), random);
    let filled;
    let own = match &prepared.head {
        Some(own) => own,
        None => {
            filled = PreparedHead::of(page, &fill(&page.head)?)?;
            &filled
        }
    };
    let mut response = Response::new(ResponseBody::Empty);
    *response.headers_mut() = own.headers.clone();
    response.headers_mut().insert(header::AGE, HeaderValue::from(age / 1000));
    if conditional::revalidate(&head.method, &head.headers, &own.validators) == Precondition::NotModified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        CONTENT_FIELDS.iter().for_each(|name| drop(response.headers_mut().remove(name)));
        return Some(response);
    }
    let body = match &prepared.body {
        Some(body) => body.clone(),
        None => fill(&page.template)?.into(),
    };
    if head.method == Method::HEAD {
        response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
        return Some(response);
    }
    if prepared.body.is_some() {
        response.extensions_mut().insert(Memo(Arc::new(CodedPage(page.clone()))));
    }
    *response.body_mut() = ResponseBody::Whole(body);
    Some(response)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without chance there are no tokens; the kernel always has some once it runs.
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(method: &str, fields: &[(&'static str, &'static str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/beers/1");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_plain_requests_get_pages() {
        let mut exchange = Exchange::begin(std::sync::Arc::default(), None, None, None);
        for (method, fields, may) in [
            ("GET", &[][..], true),
            ("HEAD", &[("if-none-match", "\"a\"")], true),
            ("POST", &[], false),
            ("GET", &[("authorization", "Basic x")], false),
            ("GET", &[("upgrade", "websocket")], false),
            ("GET", &[("cache-control", "No-Cache")], false),
            ("GET", &[("cache-control", "max-age=0")], false),
            ("GET", &[("pragma", "no-cache")], false),
        ] {
            assert_eq!(is_for_pages(&head(method, fields), &exchange), may, "{method} {fields:?}");
        }
        exchange.response.protected = true;
        assert!(!is_for_pages(&head("GET", &[]), &exchange));
    }

    #[test]
    fn chance_is_even() {
        let below = (0..100_000).filter(|_| is_drawn(100_000)).count();
        assert!((9_000..11_000).contains(&below), "{below}");
    }
}
