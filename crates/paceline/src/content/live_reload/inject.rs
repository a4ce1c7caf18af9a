//! Puts the script into pages: before `</body>`, or at the end. A response that is no page, or whose bytes must not be
//! changed, passes as it is. It never changes what the page itself says.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::{Bytes, BytesMut};
use cache::directives::forbids_transforming;
use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::{
    body_end::{BodyEnd, BodyEndPlace},
    SCRIPT,
};
use crate::content::{
    body::ResponseBody,
    compress::{self, Memo, DIGESTS},
};

/// What code sends that asks for a part of a page, or for data.
const BY_CODE: [&str; 3] = ["x-requested-with", "turbo-frame", "x-turbo-request-id"];

/// A request whose response, if it is a page, is shown in a tab.
pub struct PageRequest(());

impl PageRequest {
    /// None: a script, a frame or a program asks. Browsers tell what they ask for, but only of hosts that they trust
    /// (https, localhost); of others Accept has to do.
    ///
    /// It makes the request unconditional: what a browser has may be the page without the script.
    pub fn take(head: &mut Parts) -> Option<PageRequest> {
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let is_for_tab = match field("sec-fetch-dest") {
            Some(destination) => destination == "document",
            None => field("accept").is_some_and(|accept| accept.contains("text/html")),
        };
        let is_by_code = BY_CODE.iter().any(|name| head.headers.contains_key(*name));
        if head.method != Method::GET || !is_for_tab || is_by_code {
            return None;
        }
        head.headers.remove(header::IF_NONE_MATCH);
        head.headers.remove(header::IF_MODIFIED_SINCE);
        Some(PageRequest(()))
    }
}

/// The response with the script in it, if it is a page.
pub fn inject(_request: &PageRequest, response: Response<ResponseBody>) -> Response<ResponseBody> {
    if !is_page(&response) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let tag = tag(head.status, &head.headers);
    // What was compressed before has no script.
    head.extensions.remove::<Memo>();
    head.headers.remove(header::ACCEPT_RANGES);
    // A script that fetches the page gets it without this tag, under an equal ETag: it is no strong one any more.
    compress::weaken(&mut head.headers);
    if let Some(length) = head.headers.get(header::CONTENT_LENGTH).and_then(length) {
        head.headers.insert(header::CONTENT_LENGTH, (length + tag.len() as u64).into());
    }
    let body = match body {
        ResponseBody::Whole(page) => ResponseBody::Whole(insert(&page, &tag)),
        body => ResponseBody::stream(InjectedBody::new(body, tag)),
    };
    Response::from_parts(head, body)
}

fn length(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.parse().ok()
}

fn is_page(response: &Response<ResponseBody>) -> bool {
    let (status, headers) = (response.status(), response.headers());
    let text = |name: header::HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim().to_ascii_lowercase()
    };
    let (content_type, disposition) = (text(header::CONTENT_TYPE), text(header::CONTENT_DISPOSITION));
    let is_html = content_type.split(';').next().is_some_and(|essence| essence.trim() == "text/html");
    let without_content = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    is_html
        // Of these a byte of ASCII is none of the page.
        && !content_type.contains("utf-16")
        && !content_type.contains("utf-32")
        && !status.is_informational()
        && !without_content.contains(&status)
        && status != StatusCode::PARTIAL_CONTENT
        && !matches!(response.body(), ResponseBody::Empty | ResponseBody::Hijacked(_))
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_RANGE)
        && !disposition.starts_with("attachment")
        && !DIGESTS.iter().any(|name| headers.contains_key(name))
        && !forbids_transforming(headers)
}

/// The element. An error is replaced as a whole when it is over, so the script has to know of it.
fn tag(status: StatusCode, headers: &HeaderMap) -> Bytes {
    let error = if status.as_u16() >= 400 { " data-error" } else { "" };
    let nonce = nonce(headers).map(|nonce| format!(" nonce=\"{nonce}\"")).unwrap_or_default();
    format!("<script src=\"{SCRIPT}\" async data-turbo-eval=\"false\"{error}{nonce}></script>").into()
}

/// The nonce that the page's policy lets scripts run by (Content Security Policy level 3).
fn nonce(headers: &HeaderMap) -> Option<&str> {
    let fields = ["content-security-policy", "content-security-policy-report-only"];
    let policies = fields.iter().flat_map(|name| headers.get_all(*name)).filter_map(|value| value.to_str().ok());
    let directives: Vec<&str> = policies.flat_map(|policy| policy.split([';', ','])).map(str::trim).collect();
    let of = |name: &str| {
        let own = directives.iter().filter_map(|directive| directive.split_once(char::is_whitespace));
        let mut sources =
            own.filter(|(own, _)| own.eq_ignore_ascii_case(name)).flat_map(|(_, all)| all.split_whitespace());
        sources.find_map(|source| source.strip_prefix("'nonce-")?.strip_suffix('\''))
    };
    let is_plain = |nonce: &&str| nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte));
    ["script-src-elem", "script-src", "default-src"].into_iter().find_map(of).filter(is_plain)
}

fn insert(page: &Bytes, tag: &Bytes) -> Bytes {
    let at = match BodyEnd::default().look(page, true) {
        BodyEndPlace::At(at) => at,
        BodyEndPlace::NotBefore(_) => page.len(),
    };
    let mut whole = BytesMut::with_capacity(page.len() + tag.len());
    whole.extend_from_slice(&page[..at]);
    whole.extend_from_slice(tag);
    whole.extend_from_slice(&page[at..]);
    whole.freeze()
}

/// A page that comes in pieces. Each is passed on at once, but for a few bytes that may be the beginning of `</body>`.
struct InjectedBody {
    body: ResponseBody,
    search: BodyEnd,
    /// None: it is in the page.
    tag: Option<Bytes>,
    /// The last bytes of what came, if they may be a tag that is cut off.
    held: Bytes,
    ready: VecDeque<Bytes>,
}

impl InjectedBody {
    fn new(body: ResponseBody, tag: Bytes) -> InjectedBody {
        InjectedBody { body, search: BodyEnd::default(), tag: Some(tag), held: Bytes::new(), ready: VecDeque::new() }
    }

    fn take(&mut self, piece: Bytes) {
        if self.tag.is_none() {
            return self.pass(piece);
        }
        let mut bytes =
            if self.held.is_empty() { piece } else { [std::mem::take(&mut self.held), piece].concat().into() };
        match self.search.look(&bytes, false) {
            BodyEndPlace::At(at) => {
                let before = bytes.split_to(at);
                self.pass(before);
                let tag = self.tag.take();
                self.ready.extend(tag);
                self.pass(bytes);
            }
            BodyEndPlace::NotBefore(at) => {
                self.held = bytes.split_off(at);
                self.pass(bytes);
            }
        }
    }

    /// The page has come to its end: the last bytes may be a whole `</body` all the same.
    fn end(&mut self) {
        let Some(tag) = self.tag.take() else { return };
        let held = std::mem::take(&mut self.held);
        let end = insert_at_end(&mut self.search, &held, &tag);
        self.pass(end);
    }

    fn pass(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.ready.push_back(piece);
        }
    }
}

fn insert_at_end(search: &mut BodyEnd, held: &Bytes, tag: &Bytes) -> Bytes {
    let at = match search.look(held, true) {
        BodyEndPlace::At(at) => at,
        BodyEndPlace::NotBefore(_) => held.len(),
    };
    [&held[..at], &tag[..], &held[at..]].concat().into()
}

impl Body for InjectedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.body.is_end_stream() {
                if this.tag.is_none() {
                    return Poll::Ready(None);
                }
                this.end();
                continue;
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => this.take(piece),
                    // No more data comes after trailer fields, and a page has none that anybody reads.
                    Err(_) => this.end(),
                },
                // Broken off: what the client has must not look whole.
                Some(Err(error)) => {
                    this.tag = None;
                    this.body = ResponseBody::Empty;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.body = ResponseBody::Empty;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.tag.is_none() && self.ready.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let own = self.held.len()
            + self.tag.as_ref().map_or(0, Bytes::len)
            + self.ready.iter().map(Bytes::len).sum::<usize>();
        let (hint, own) = (self.body.size_hint(), own as u64);
        let mut sum = SizeHint::new();
        sum.set_lower(hint.lower() + own);
        if let Some(upper) = hint.upper().and_then(|upper| upper.checked_add(own)) {
            sum.set_upper(upper);
        }
        sum
    }
}
