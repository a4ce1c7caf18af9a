//! A page in place of the application's answer: its holes are filled for the visitor, and its head says how old it is. It asks
//! nobody, waits for nothing, and decides only whether the request is one that a page may answer.

use std::time::{Duration, UNIX_EPOCH};

use ::auto_cache::watch::{Hit, Mode, PageRequest};
use base64::{engine::general_purpose::STANDARD, Engine};
use bytes::Bytes;
use cache::status::CacheStatus;
use doctor::route::label;
use http::{header, request::Parts, HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};

use super::{observing::url, request_parts::RequestView, AutoCache};
use crate::{
    content::{
        body::ResponseBody,
        static_files::conditional::{self, Precondition, Validators},
    },
    request::exchange::Exchange,
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

/// Fields that describe content which is not sent.
const CONTENT_FIELDS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE];
/// Bytes of a nonce: as Rails makes them.
const NONCE: usize = 16;

impl AutoCache {
    /// The page for this request. None: the application is asked.
    pub fn answer(&self, head: &Parts, exchange: &Exchange) -> Option<Response<ResponseBody>> {
        let policy = self.policy;
        if policy.mode != Mode::Serve || !is_for_pages(head, exchange) || self.is_sampled() {
            return None;
        }
        let (url, route) = (url(head, exchange), label("GET", head.uri.path()));
        let asked = PageRequest { url: &url, route: &route, now: clock::unix_millis() };
        let view = RequestView { headers: &head.headers, query: head.uri.query(), address: exchange.client.address };
        let hit = self.hit(&asked, &view)?;
        let age = hit.page.age(asked.now);
        let ttl = i64::try_from(policy.max_ttl.saturating_sub(age)).unwrap_or(i64::MAX);
        let mut response = page(&hit, head, asked.now)?;
        response.extensions_mut().insert(AutoHit { ttl });
        Some(response)
    }

    fn hit(&self, asked: &PageRequest, view: &RequestView) -> Option<Hit> {
        if !self.is_trusted() {
            return None;
        }
        let hit = self.change(|watch| watch.serve(asked, view))?;
        Some(hit)
    }

    /// A hit that is chosen is asked of the application, and compared.
    fn is_sampled(&self) -> bool {
        let sampled = self.policy.sampled;
        sampled > 0 && u32::from_be_bytes(random()) % 1_000_000 < sampled
    }
}

/// A request that asks for no more than the page.
fn is_for_pages(head: &Parts, exchange: &Exchange) -> bool {
    let headers = &head.headers;
    let refuses = || {
        let lines = headers.get_all(header::CACHE_CONTROL).iter();
        let wants = |line: &[u8]| {
            let line = line.to_ascii_lowercase();
            ["no-cache", "no-store", "max-age", "min-fresh"].iter().any(|word| contains(&line, word.as_bytes()))
        };
        lines.into_iter().any(|line| wants(line.as_bytes())) || headers.contains_key(header::PRAGMA)
    };
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    let is_plain = ![header::UPGRADE, header::AUTHORIZATION].iter().any(|name| headers.contains_key(name));
    is_read && is_plain && !exchange.protected && exchange.user.is_none() && !refuses()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// None: it can't be made as it has to be.
fn page(hit: &Hit, head: &Parts, now: u64) -> Option<Response<ResponseBody>> {
    let page = &hit.page;
    let nonce = (page.nonces() > 0).then(|| STANDARD.encode(random::<NONCE>()));
    let fill = |template: &::auto_cache::holes::Template| template.fill(hit.secret.as_ref(), nonce.as_deref(), random);
    let mut headers = fields(&fill(&page.head)?)?;
    if let Some(etag) = &page.etag {
        headers.insert(header::ETAG, HeaderValue::from_str(etag).ok()?);
    }
    if page.tokens() + page.nonces() > 0 {
        headers.remove(header::LAST_MODIFIED);
    }
    if page.is_private {
        keep_private(&mut headers);
    }
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(page.at));
    headers.insert(header::DATE, HeaderValue::try_from(date).ok()?);
    headers.insert(header::AGE, HeaderValue::from(page.age(now) / 1000));
    let mut response = Response::new(ResponseBody::Empty);
    let validators = Validators::from_headers(&headers);
    if conditional::revalidate(&head.method, &head.headers, &validators) == Precondition::NotModified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        CONTENT_FIELDS.iter().for_each(|name| drop(headers.remove(name)));
    } else {
        let body = Bytes::from(fill(&page.template)?);
        match head.method == Method::HEAD {
            true => drop(headers.insert(header::CONTENT_LENGTH, body.len().into())),
            false => *response.body_mut() = ResponseBody::Whole(body),
        }
    }
    *response.headers_mut() = headers;
    Some(response)
}

/// The lines of a head, as `observing` wrote them.
fn fields(lines: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let at = line.iter().position(|byte| *byte == b':')?;
        let value = HeaderValue::from_bytes(line.get(at + 2..)?).ok()?;
        headers.append(HeaderName::from_bytes(&line[..at]).ok()?, value);
    }
    Some(headers)
}

/// No other cache may give it to another visitor, whatever the application says of it.
fn keep_private(headers: &mut HeaderMap) {
    let lines: Vec<u8> =
        headers.get_all(header::CACHE_CONTROL).iter().flat_map(|line| line.as_bytes().to_ascii_lowercase()).collect();
    // `private="x-a"` is said of that field alone.
    let is_shared = [&b"public"[..], b"s-maxage", b"private="].iter().any(|word| contains(&lines, word));
    if is_shared || !contains(&lines, b"private") {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=0, must-revalidate"));
    }
    for name in ["surrogate-control", "cdn-cache-control"] {
        headers.remove(name);
    }
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
        let exchange = Exchange::begin(std::sync::Arc::default(), None, None, None);
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
        let signed_in = Exchange { protected: true, ..exchange };
        assert!(!is_for_pages(&head("GET", &[]), &signed_in));
    }

    #[test]
    fn a_head_comes_back_as_it_was() {
        let headers = fields(b"content-type: text/html\nlink: a: b\nlink: \nx-a: \xff\n").unwrap();
        assert_eq!(headers.get("content-type").unwrap(), "text/html");
        let links: Vec<_> = headers.get_all("link").iter().collect();
        assert_eq!(links, ["a: b", ""]);
        assert_eq!(headers.get("x-a").unwrap().as_bytes(), b"\xff");
        assert_eq!(fields(b"no colon\n"), None);
    }

    #[test]
    fn pages_of_one_visitor_are_for_no_other_cache() {
        for (said, sent) in [
            ("max-age=0, private, must-revalidate", "max-age=0, private, must-revalidate"),
            ("public, max-age=60", "private, max-age=0, must-revalidate"),
            ("private, s-maxage=60", "private, max-age=0, must-revalidate"),
            ("private=\"x-a\", max-age=60", "private, max-age=0, must-revalidate"),
            ("max-age=60", "private, max-age=0, must-revalidate"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(said));
            headers.insert("surrogate-control", HeaderValue::from_static("max-age=60"));
            keep_private(&mut headers);
            assert_eq!(
                (headers.get(header::CACHE_CONTROL).unwrap(), headers.len()),
                (&HeaderValue::from_static(sent), 1)
            );
        }
    }
}
