//! A stored response as the client gets it: conditions, ranges, HEAD, Age (RFC 9111 sections 4 and 4.3.2, RFC 9110
//! section 14). It never decides whether it may be given.

use std::{
    cell::LazyCell,
    ops::Range,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use cache::{
    fields,
    store::Key,
    stored::{Content, Entry, Stored},
    targeted, Millis,
};
use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::Cache;
use crate::content::{
    body::ResponseBody,
    compress::Memo,
    static_files::{
        conditional::{self, Precondition, Validators},
        multipart,
        not_modified::{not_modified, CONTENT_FIELDS},
        ranges::{self, RangeDecision},
        Segment,
    },
};
use http_guard::coding::ContentCoding;

/// When its page changes. Goes with a response until it is told (`SiteCache::tell`).
#[derive(Clone, Copy)]
pub struct HoldsUntil(pub Millis);

/// A stored response, and who gets it.
pub struct StoredAnswer<'a> {
    pub cache: &'a Arc<Cache>,
    pub key: Key,
    pub stored: &'a Arc<Stored>,
    pub head: &'a Parts,
    pub now: Millis,
}

/// None: only a part of it is there, and not the one that is wanted.
pub fn stored(answering: &StoredAnswer<'_>) -> Option<Response<ResponseBody>> {
    let StoredAnswer { stored, head, now, .. } = answering;
    // Dates are parsed only for those who ask by them.
    let validators = LazyCell::new(|| validators(stored));
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = stored.status;
    // A page is made of a template for each request: what the client has of it is no news of what it would get.
    let is_template = targeted::asks_for_esi(&stored.headers);
    let conditions = (stored.status == StatusCode::OK || stored.status == StatusCode::PARTIAL_CONTENT) && !is_template;
    let unchanged = conditions
        && conditional::may_revalidate(&head.headers)
        && conditional::revalidate(&head.method, &head.headers, &validators) == Precondition::NotModified;
    let takes_ranges = conditions && head.method == Method::GET && head.headers.contains_key(header::RANGE);
    *response.headers_mut() = stored.headers.clone();
    // Age, Vary, Cache-Status and Connection.
    response.headers_mut().reserve(4);
    response.headers_mut().insert(header::AGE, HeaderValue::from(stored.freshness.age(*now) / 1000));
    if stored.freshness.holds.until != Millis::MAX {
        response.extensions_mut().insert(HoldsUntil(stored.freshness.holds.until));
    }
    if unchanged {
        not_modified(&mut response);
        return Some(response);
    }
    match &stored.content {
        Content::Whole(body) if head.method == Method::HEAD => {
            if !matches!(stored.status.as_u16(), 204 | 304) {
                response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
            }
        }
        Content::Whole(body) if takes_ranges => part_of_whole(&mut response, head, &validators, body),
        Content::Whole(body) => {
            *response.body_mut() = ResponseBody::Whole(body.clone());
            if !body.is_empty() {
                let memo =
                    DerivedBodies { cache: answering.cache.clone(), key: answering.key, stored: (*stored).clone() };
                response.extensions_mut().insert(Memo(Arc::new(memo)));
            }
        }
        Content::Pieces(pieces) => {
            if let Some((said, part)) = head.headers.get(header::RANGE).and_then(|asked| pieces.again(asked)) {
                if conditional::if_range_holds(&head.headers, &validators) {
                    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                    response.headers_mut().insert(header::CONTENT_RANGE, said.clone());
                    give(&mut response, part.clone());
                    return Some(response);
                }
            }
            let complete = pieces.complete?;
            let RangeDecision::Single(range) = ranges::decide(&head.method, &head.headers, &validators, complete)
            else {
                return None;
            };
            let part = pieces.get(range.clone())?;
            give_part(&mut response, &range, complete, part);
        }
    }
    Some(response)
}

/// "if a stored response has no Last-Modified, Date stands in its place" (RFC 9111 section 4.3.2).
fn validators(stored: &Stored) -> Validators {
    let mut validators = Validators::from_headers(&stored.headers);
    if validators.last_modified.is_none() {
        validators.last_modified = stored.modified.map(|modified| UNIX_EPOCH + Duration::from_millis(modified));
        validators.last_modified_is_strong = false;
    }
    validators
}

fn part_of_whole(response: &mut Response<ResponseBody>, head: &Parts, validators: &Validators, body: &Bytes) {
    let length = body.len() as u64;
    let slice = |range: &Range<u64>| body.slice(range.start as usize..range.end as usize);
    match ranges::decide(&head.method, &head.headers, validators, length) {
        RangeDecision::Whole => *response.body_mut() = ResponseBody::Whole(body.clone()),
        RangeDecision::Single(range) => give_part(response, &range, length, slice(&range)),
        // Its Content-Encoding would be read as that of the multipart message; ignoring the field is allowed (14.2).
        RangeDecision::Multiple(_) if response.headers().contains_key(header::CONTENT_ENCODING) => {
            *response.body_mut() = ResponseBody::Whole(body.clone());
        }
        RangeDecision::Multiple(ranges) => {
            let boundary = uuid::Uuid::new_v4().simple().to_string();
            let content_type = response.headers_mut().remove(header::CONTENT_TYPE);
            // An empty preamble (RFC 2046 section 5.1.1).
            let mut joined = BytesMut::from(&b"\r\n"[..]);
            for segment in multipart(&boundary, content_type.as_ref(), ranges, length) {
                match segment {
                    Segment::Bytes(bytes) => joined.extend_from_slice(&bytes),
                    Segment::Span(range) => joined.extend_from_slice(&slice(&range)),
                }
            }
            let kind = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}"));
            if let Ok(kind) = kind {
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
            }
            give(response, joined.freeze());
        }
        RangeDecision::Unsatisfiable => {
            for name in CONTENT_FIELDS.iter().chain(&[
                header::ETAG,
                header::LAST_MODIFIED,
                header::CACHE_CONTROL,
                header::EXPIRES,
            ]) {
                response.headers_mut().remove(name);
            }
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            response.headers_mut().insert(header::CONTENT_RANGE, ranges::unsatisfied_range(length));
            response.headers_mut().insert(header::CONTENT_LENGTH, 0.into());
        }
    }
}

fn give_part(response: &mut Response<ResponseBody>, range: &Range<u64>, complete: u64, part: Bytes) {
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    response.headers_mut().insert(header::CONTENT_RANGE, ranges::content_range(range, complete));
    give(response, part);
}

fn give(response: &mut Response<ResponseBody>, bytes: Bytes) {
    response.headers_mut().insert(header::CONTENT_LENGTH, bytes.len().into());
    *response.body_mut() = ResponseBody::Whole(bytes);
}

/// The stored fields with a Date, which a response that is kept must have (RFC 9110 section 6.6.1).
pub fn dated(headers: &mut HeaderMap, now: Millis) {
    if fields::date_in(headers, header::DATE).is_none() {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now));
        if let Ok(date) = HeaderValue::try_from(date) {
            headers.insert(header::DATE, date);
        }
    }
}

/// The bodies that were made of a stored one, kept beside it.
struct DerivedBodies {
    cache: Arc<Cache>,
    key: Key,
    stored: Arc<Stored>,
}

impl DerivedBodies {
    fn key(&self, coding: ContentCoding) -> Key {
        self.cache.keys.derived(self.key, self.stored.version, coding.name())
    }
}

impl crate::content::compress::CodedBodyStore for DerivedBodies {
    fn recall(&self, coding: ContentCoding) -> Option<Bytes> {
        match &*self.cache.store.get(self.key(coding))? {
            Entry::Derived { bytes, .. } => Some(bytes.clone()),
            _ => None,
        }
    }

    fn begin(&self, coding: ContentCoding) -> bool {
        let mut making = self.cache.making.lock();
        making.insert(self.key(coding))
    }

    fn remember(&self, coding: ContentCoding, bytes: Bytes) {
        self.cache.making.lock().remove(&self.key(coding));
        let kept = Entry::Derived { url: self.stored.url.clone(), bytes };
        // One that finds no room is made again.
        let _ = self.cache.store.insert(self.key(coding), Arc::new(kept));
    }
}
