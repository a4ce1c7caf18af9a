//! Files that the app named: by X-Sendfile or X-Accel-Redirect, or as a Rack body with `to_path`.
//! It never decides whether the app may name a path, and never overwrites what the app's own head says.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use http::{header, request, HeaderName, Method, Response, StatusCode};

use super::{
    body::{self, FileBody, Segment},
    conditional::Validators,
    content_type::content_type,
    open_file::{self, OpenFile},
    response,
};
use crate::support::site_files::SiteFiles;

const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// The app's head with the file at `path` as its body. Where the app says 200 to a GET or HEAD, validators it left out
/// are filled in and conditions and ranges are honoured; any other answer of the app is sent with the whole file.
///
/// The error is `NotFound` where `path` is no regular file.
pub async fn send_file(
    request_head: &request::Parts,
    app_response: Response<()>,
    files: &SiteFiles,
    path: &Path,
) -> io::Result<Response<FileBody>> {
    let mut head = app_response;
    let (method, status) = (&request_head.method, head.status());
    let file = open(files, path).await?;
    let fields = head.headers_mut();
    for name in [X_SENDFILE, X_ACCEL_REDIRECT, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        fields.remove(name);
    }
    if status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return Ok(head.map(|()| body::empty()));
    }
    if !fields.contains_key(header::CONTENT_TYPE) {
        fields.insert(header::CONTENT_TYPE, content_type(path));
    }
    let is_read = method == Method::GET || method == Method::HEAD;
    if status != StatusCode::OK || !is_read {
        return response::whole(method, head, &file).await;
    }
    let now = SystemTime::now();
    let mut validators = file.validators(now);
    let of_app = Validators::from_headers(fields);
    if fields.contains_key(header::ETAG) {
        validators.entity_tag = of_app.entity_tag;
    }
    if fields.contains_key(header::LAST_MODIFIED) {
        validators.last_modified = of_app.last_modified;
        validators.last_modified_is_strong = of_app
            .last_modified
            .and_then(|modified| now.duration_since(modified).ok())
            .is_some_and(|age| age >= Duration::from_secs(1));
    }
    response::fill_in_validators(fields, &validators);
    response::compose(method, &request_head.headers, head, &file, &validators).await
}

/// A `to_path` body: exactly the file's bytes and their number. The head is the app's own affair.
///
/// The error is `NotFound` where `path` is no regular file.
pub async fn plain_file(files: &SiteFiles, path: &Path) -> io::Result<(u64, FileBody)> {
    let file = open(files, path).await?;
    let body = body::assemble(&file.file, vec![Segment::Span(0..file.length)]).await?;
    Ok((file.length, body))
}

async fn open(files: &SiteFiles, path: &Path) -> io::Result<OpenFile> {
    match files.at_once(|reader| open_file::open(reader, path)) {
        Some(opened) => opened,
        None => {
            let path = path.to_path_buf();
            files.wait(move |reader| open_file::open(reader, &path)).await
        }
    }
}
