//! From a response head and an open file to the finished response: 200, 206, 304, 412 or 416.
//! It never chooses the file, and never takes away what the head says about anything but the content.

use std::{io, ops::Range, time::SystemTime};

use bytes::Bytes;
use http::{header, HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::{
    body::{self, FileBody, Segment},
    conditional::{self, Precondition, Validators},
    entity_tag::EntityTag,
    not_modified::{not_modified, CONTENT_FIELDS},
    open_file::OpenFile,
    ranges::{self, RangeDecision},
};

/// Fields that would let caches keep a 412 or 416 as if it were the representation.
const REPRESENTATION_FIELDS: [HeaderName; 5] =
    [header::ETAG, header::LAST_MODIFIED, header::CACHE_CONTROL, header::EXPIRES, header::CONTENT_DISPOSITION];

/// `head` is that of the 200 which a request without conditions would get, for GET and HEAD.
pub(super) async fn compose(
    method: &Method,
    asked: &HeaderMap,
    mut head: Response<()>,
    file: &OpenFile,
    validators: &Validators,
) -> io::Result<Response<FileBody>> {
    match conditional::evaluate(method, asked, validators) {
        Precondition::Proceed => {}
        Precondition::NotModified => return Ok(unchanged(head)),
        Precondition::Failed => return Ok(refused(head, StatusCode::PRECONDITION_FAILED)),
    }
    let fields = head.headers_mut();
    let takes_ranges = fields.entry(header::ACCEPT_RANGES).or_insert(HeaderValue::from_static("bytes")) == "bytes";
    let decision =
        if takes_ranges { ranges::decide(method, asked, validators, file.length) } else { RangeDecision::Whole };
    match decision {
        RangeDecision::Whole => whole(method, head, file).await,
        RangeDecision::Single(range) => {
            let content_range = ranges::content_range(&range, file.length);
            head.headers_mut().insert(header::CONTENT_RANGE, content_range);
            *head.status_mut() = StatusCode::PARTIAL_CONTENT;
            with_body(head, file, vec![Segment::Span(range)]).await
        }
        // A Content-Encoding would be read as that of the multipart message; ignoring the field is allowed (14.2).
        RangeDecision::Multiple(_) if head.headers().contains_key(header::CONTENT_ENCODING) => {
            whole(method, head, file).await
        }
        RangeDecision::Multiple(ranges) => {
            let boundary = uuid::Uuid::new_v4().simple().to_string();
            let content_type = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}"))
                .map_err(io::Error::other)?;
            let part_type = head.headers_mut().insert(header::CONTENT_TYPE, content_type);
            let segments = multipart(&boundary, part_type.as_ref(), ranges, file.length);
            *head.status_mut() = StatusCode::PARTIAL_CONTENT;
            with_body(head, file, segments).await
        }
        RangeDecision::Unsatisfiable => {
            let mut response = refused(head, StatusCode::RANGE_NOT_SATISFIABLE);
            let content_range = ranges::unsatisfied_range(file.length);
            response.headers_mut().insert(header::CONTENT_RANGE, content_range);
            Ok(response)
        }
    }
}

/// All of the file, whatever the request's conditions say.
pub(super) async fn whole(method: &Method, mut head: Response<()>, file: &OpenFile) -> io::Result<Response<FileBody>> {
    if method == Method::HEAD {
        head.headers_mut().insert(header::CONTENT_LENGTH, file.length.into());
        return Ok(head.map(|()| body::empty()));
    }
    with_body(head, file, vec![Segment::Span(0..file.length)]).await
}

async fn with_body(mut head: Response<()>, file: &OpenFile, segments: Vec<Segment>) -> io::Result<Response<FileBody>> {
    let length: u64 = segments.iter().map(Segment::len).sum();
    head.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    let body = body::assemble(&file.file, segments).await?;
    Ok(head.map(|()| body))
}

/// RFC 9110 section 14.6: what stands between the ranges, and the ranges.
pub fn multipart(
    boundary: &str,
    content_type: Option<&HeaderValue>,
    ranges: Vec<Range<u64>>,
    length: u64,
) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(ranges.len() * 2 + 1);
    for (at, range) in ranges.into_iter().enumerate() {
        let mut head = Vec::new();
        let line_break = if at == 0 { "" } else { "\r\n" };
        head.extend_from_slice(format!("{line_break}--{boundary}\r\n").as_bytes());
        if let Some(content_type) = content_type {
            head.extend_from_slice(b"Content-Type: ");
            head.extend_from_slice(content_type.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"Content-Range: ");
        head.extend_from_slice(ranges::content_range(&range, length).as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        segments.push(Segment::Bytes(head.into()));
        segments.push(Segment::Span(range));
    }
    segments.push(Segment::Bytes(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    segments
}

fn unchanged(mut head: Response<()>) -> Response<FileBody> {
    not_modified(&mut head);
    head.map(|()| body::empty())
}

fn refused(mut head: Response<()>, status: StatusCode) -> Response<FileBody> {
    remove(head.headers_mut(), &CONTENT_FIELDS);
    remove(head.headers_mut(), &REPRESENTATION_FIELDS);
    head.headers_mut().insert(header::CONTENT_LENGTH, 0.into());
    *head.status_mut() = status;
    head.map(|()| body::empty())
}

fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// ETag and Last-Modified where the head has none of its own.
pub(super) fn fill_in_validators(headers: &mut HeaderMap, validators: &Validators) {
    if let Some(tag) = validators.entity_tag.as_ref().and_then(EntityTag::to_header_value) {
        headers.entry(header::ETAG).or_insert(tag);
    }
    if let Some(date) = validators.last_modified.and_then(http_date) {
        headers.entry(header::LAST_MODIFIED).or_insert(date);
    }
}

/// None for times that HTTP's dates can't express (httpdate panics on those).
fn http_date(time: SystemTime) -> Option<HeaderValue> {
    /// 9999-12-31T23:59:59Z
    const LAST_SECOND: u64 = 253_402_300_799;
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let expressible = since_epoch.as_secs() <= LAST_SECOND;
    expressible.then(|| HeaderValue::try_from(httpdate::fmt_http_date(time)).ok())?
}
