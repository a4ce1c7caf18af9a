//! Compresses responses on their way out: zstd, Brotli or gzip, as the client accepts (RFC 9110 sections 8.4 and
//! 12.5.3). It never compresses twice, never changes what a body says, and never holds back what the app has flushed.

mod body;
mod eligible;
mod encoder;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use cache::fields::tokens;
use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};

pub use body::CompressedBody;
pub use eligible::DIGESTS;
use encoder::Encoder;

use crate::content::{
    body::ResponseBody,
    static_files::{
        conditional::{self, Precondition, Validators},
        entity_tag::EntityTag,
    },
};
use http_guard::coding::{AcceptEncoding, ContentCoding};

/// How hard it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Fast,
    Balanced,
    Small,
}

/// How a site compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub effort: Effort,
    /// Bodies of known length below this stay as they are.
    pub min: u64,
}

/// Where what was made of a body is kept, for those who want the same.
pub trait CodedBodyStore: Send + Sync {
    fn recall(&self, coding: ContentCoding) -> Option<Bytes>;
    /// Whether it is to be made now: false while somebody makes it.
    fn begin(&self, coding: ContentCoding) -> bool;
    fn remember(&self, coding: ContentCoding, bytes: Bytes);
}

/// In a response's extensions: its body was compressed before, or will be wanted again.
#[derive(Clone)]
pub struct Memo(pub Arc<dyn CodedBodyStore>);

/// Where a compressed body comes from.
enum CodedSource {
    /// It was made before.
    Known(Bytes),
    Encoder(Box<Encoder>),
}

/// Bodies up to this are compressed in one go, so that their length is known. (Others would hold up the event loop.)
const AT_ONCE: usize = 32 << 10;

/// None: the client wants the body as it is.
fn coding(request: &Parts) -> Option<ContentCoding> {
    let accepted = AcceptEncoding::from_headers(&request.headers);
    accepted.choose(ContentCoding::ALL.into_iter().zip(0..).map(|(coding, rank)| (coding, rank, coding)))
}

/// The response as the client gets it.
pub fn response(request: &Parts, settings: Settings, response: Response<ResponseBody>) -> Response<ResponseBody> {
    if response.status() == StatusCode::NOT_MODIFIED {
        return not_modified(request, response);
    }
    if request.method == Method::HEAD || !eligible::eligible(&response, settings.min) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // Whoever stores it has to know that another client gets other bytes (RFC 9110 section 12.5.5).
    vary(&mut head.headers);
    let Some(coding) = coding(request) else { return Response::from_parts(head, body) };
    let memo = head.extensions.remove::<Memo>();
    // An encoder has hundreds of kilobytes, which take longer to make than a hit takes to answer.
    let source = match memo.as_ref().and_then(|memo| memo.0.recall(coding)) {
        Some(known) => CodedSource::Known(known),
        None => match Encoder::new(coding, settings.effort) {
            Some(encoder) => CodedSource::Encoder(Box::new(encoder)),
            None => return Response::from_parts(head, body),
        },
    };
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    head.headers.remove(header::CONTENT_LENGTH);
    // Ranges of this representation are not to be had.
    head.headers.remove(header::ACCEPT_RANGES);
    if weaken(&mut head.headers) && head.status == StatusCode::OK {
        // The app has compared its own tag, and may take the weak one that the client sent back for another.
        let validators = Validators::from_headers(&head.headers);
        let is_unchanged =
            || conditional::revalidate(&request.method, &request.headers, &validators) == Precondition::NotModified;
        if request.method == Method::GET && request.headers.contains_key(header::IF_NONE_MATCH) && is_unchanged() {
            head.status = StatusCode::NOT_MODIFIED;
            head.headers.remove(header::CONTENT_TYPE);
            head.headers.remove(header::CONTENT_ENCODING);
            return Response::from_parts(head, ResponseBody::Empty);
        }
    }
    let encoder = match source {
        CodedSource::Encoder(encoder) => *encoder,
        CodedSource::Known(known) => {
            head.headers.insert(header::CONTENT_LENGTH, known.len().into());
            return Response::from_parts(head, ResponseBody::Whole(known));
        }
    };
    if let (Some(memo), ResponseBody::Whole(bytes)) = (&memo, &body) {
        make_ahead(memo, bytes, coding, settings.effort);
    }
    let body = match body {
        ResponseBody::Whole(bytes) if bytes.len() <= AT_ONCE => match encoder.whole(&bytes) {
            Ok(compressed) => {
                if let Some(memo) = memo {
                    memo.0.remember(coding, compressed.clone());
                }
                head.headers.insert(header::CONTENT_LENGTH, compressed.len().into());
                ResponseBody::Whole(compressed)
            }
            Err(_) => {
                // As it was: only memory can have failed here.
                head.headers.remove(header::CONTENT_ENCODING);
                head.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
                ResponseBody::Whole(bytes)
            }
        },
        body => ResponseBody::stream(CompressedBody::new(body, encoder)),
    };
    Response::from_parts(head, body)
}

/// What is too large to be compressed at once is compressed beside the event loop, for those who come later.
fn make_ahead(memo: &Memo, bytes: &Bytes, coding: ContentCoding, effort: Effort) {
    if bytes.len() <= AT_ONCE || !memo.0.begin(coding) {
        return;
    }
    let (memo, bytes) = (memo.clone(), bytes.clone());
    tokio::task::spawn_blocking(move || {
        if let Some(Ok(compressed)) = Encoder::new(coding, effort).map(|encoder| encoder.whole(&bytes)) {
            memo.0.remember(coding, compressed);
        }
    });
}

/// RFC 9110 section 15.4.5: the fields that the 200 would have had. A client that names the weak form of a tag has the
/// compressed representation; a strong tag would be no news of that one (RFC 9111 section 4.3.4).
fn not_modified(request: &Parts, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let lines = request.headers.get_all(header::IF_NONE_MATCH);
    let own = response.headers().get(header::ETAG).and_then(|tag| EntityTag::parse(tag.as_bytes()));
    let Some(own) = own.filter(|tag| !tag.is_weak()) else { return response };
    let weak = format!("W/{}", own.to_header_value().as_ref().and_then(|tag| tag.to_str().ok()).unwrap_or("\"\""));
    let names_weak = |line: &HeaderValue| line.to_str().is_ok_and(|line| line.contains(&weak));
    if coding(request).is_some() && lines.iter().any(names_weak) {
        weaken(response.headers_mut());
        vary(response.headers_mut());
    }
    response
}

fn vary(headers: &mut HeaderMap) {
    if !tokens(headers, header::VARY).any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding")) {
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// A strong tag would promise the same bytes (RFC 9110 sections 8.8.1 and 8.8.3.3). true: it was one.
pub fn weaken(headers: &mut HeaderMap) -> bool {
    let tag = headers.get(header::ETAG).and_then(|tag| EntityTag::parse(tag.as_bytes()));
    let Some(tag) = tag.filter(|tag| !tag.is_weak()) else { return false };
    let Some(strong) = tag.to_header_value() else { return false };
    let weak = Bytes::from([b"W/", strong.as_bytes()].concat());
    if let Ok(weak) = HeaderValue::from_maybe_shared(weak) {
        headers.insert(header::ETAG, weak);
    }
    true
}
