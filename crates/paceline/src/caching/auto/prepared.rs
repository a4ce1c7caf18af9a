//! What is made of a page once, for all who are shown it: its head as it is sent, its body, and that in the codings that were asked
//! for. It has nothing that differs for each visitor, and decides nothing.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use ::auto_cache::{holes::Template, watch::Page};
use bytes::Bytes;
use http::{header, HeaderMap, HeaderName, HeaderValue};
use http_guard::coding::ContentCoding;
use parking_lot::Mutex;

use crate::content::{compress::CodedBodyStore, static_files::conditional::Validators};

#[derive(Default)]
pub struct Prepared {
    /// None: it has holes, or can't be made as it has to be.
    pub head: Option<PreparedHead>,
    /// None: it has holes.
    pub body: Option<Bytes>,
    coded: Mutex<CodedBodies>,
}

/// A head, but for Age.
pub struct PreparedHead {
    pub headers: HeaderMap,
    pub validators: Validators,
}

#[derive(Default)]
struct CodedBodies {
    all: Vec<(ContentCoding, Bytes)>,
    /// They are being made.
    making: Vec<ContentCoding>,
}

impl Prepared {
    /// The page's. What it had before is dropped with it.
    pub fn of(page: &Page) -> &Prepared {
        static NOTHING: Prepared =
            Prepared { head: None, body: None, coded: Mutex::new(CodedBodies { all: Vec::new(), making: Vec::new() }) };
        page.prepared.get_or_init(|| Box::new(Prepared::new(page))).downcast_ref().unwrap_or(&NOTHING)
    }

    fn new(page: &Page) -> Prepared {
        let whole = |template: &Template| template.whole().map(|text| Bytes::from_owner(text.clone()));
        Prepared {
            head: whole(&page.head).and_then(|lines| PreparedHead::of(page, &lines)),
            body: whole(&page.template),
            coded: Mutex::default(),
        }
    }
}

impl PreparedHead {
    /// `lines`: the page's, with its holes filled. None: no head can be made of them.
    pub fn of(page: &Page, lines: &[u8]) -> Option<PreparedHead> {
        let mut headers = fields(lines)?;
        if let Some(etag) = &page.etag {
            headers.insert(header::ETAG, HeaderValue::from_str(etag).ok()?);
        }
        if page.has_holes() {
            headers.remove(header::LAST_MODIFIED);
        }
        if page.is_private {
            keep_private(&mut headers);
        }
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(page.at));
        headers.insert(header::DATE, HeaderValue::try_from(date).ok()?);
        Some(PreparedHead { validators: Validators::from_headers(&headers), headers })
    }
}

/// The bodies that were made of a page's, kept with it. Together they have no more bytes than that: `Page::prepared` says so.
pub struct CodedPage(pub Arc<Page>);

impl CodedBodyStore for CodedPage {
    fn recall(&self, coding: ContentCoding) -> Option<Bytes> {
        let coded = Prepared::of(&self.0).coded.lock();
        coded.all.iter().find(|(own, _)| *own == coding).map(|(_, bytes)| bytes.clone())
    }

    fn begin(&self, coding: ContentCoding) -> bool {
        let mut coded = Prepared::of(&self.0).coded.lock();
        let is_new = !coded.making.contains(&coding);
        if is_new {
            coded.making.push(coding);
        }
        is_new
    }

    fn remember(&self, coding: ContentCoding, bytes: Bytes) {
        let mut coded = Prepared::of(&self.0).coded.lock();
        coded.making.retain(|own| *own != coding);
        let size: usize = coded.all.iter().map(|(_, bytes)| bytes.len()).sum();
        let is_new = coded.all.iter().all(|(own, _)| *own != coding);
        if is_new && size + bytes.len() <= self.0.template.size() {
            // It does not hold on to more than its bytes.
            coded.all.push((coding, Bytes::copy_from_slice(&bytes)));
        }
    }
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
    let has = |word: &[u8]| lines.windows(word.len()).any(|part| part == word);
    // `private="x-a"` is said of that field alone.
    let is_shared = [&b"public"[..], b"s-maxage", b"private="].iter().any(|word| has(word));
    if is_shared || !has(b"private") {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=0, must-revalidate"));
    }
    for name in ["surrogate-control", "cdn-cache-control"] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::auto_cache::holes::Visitor;

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

    #[test]
    fn coded_bodies_are_kept_with_their_page() {
        let text = "Pils ".repeat(100);
        let cut = |text: &str| Template::cut(text.as_bytes(), &Visitor::default());
        let page = Arc::new(Page {
            url: "http://shop.test/".into(),
            route: "GET /".into(),
            head: cut("content-type: text/plain\n"),
            template: cut(&text),
            etag: None,
            is_private: false,
            read: Arc::default(),
            keys: Default::default(),
            files: Vec::new(),
            makers: Default::default(),
            readings: Vec::new(),
            place: Default::default(),
            prepared: Default::default(),
            is_confirmed: Default::default(),
            kept: 1,
            at: 0,
            good_until: None,
        });
        let prepared = Prepared::of(&page);
        assert_eq!(prepared.head.as_ref().unwrap().headers.get("content-type").unwrap(), "text/plain");
        assert_eq!(prepared.body.as_deref(), Some(text.as_bytes()));
        let coded = CodedPage(page.clone());
        assert!(coded.begin(ContentCoding::Gzip) && !coded.begin(ContentCoding::Gzip));
        coded.remember(ContentCoding::Gzip, Bytes::from_static(b"short"));
        assert_eq!(CodedPage(page).recall(ContentCoding::Gzip).as_deref(), Some(&b"short"[..]));
        assert_eq!(coded.recall(ContentCoding::Brotli), None);
        coded.remember(ContentCoding::Brotli, text.into());
        assert_eq!(coded.recall(ContentCoding::Brotli), None, "together they would be longer than the page");
        assert!(coded.begin(ContentCoding::Gzip));
    }
}
