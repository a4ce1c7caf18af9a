//! Which responses are worth compressing, and may be.
//! It never looks at the request.

use cache::directives::forbids_transforming;
use http::{header, HeaderMap, HeaderName, Response, StatusCode};
use http_body::Body;

use crate::content::body::ResponseBody;

/// Types beside `text/*`, `*+json` and `*+xml` that become smaller. Images, sound, film and archives are compressed
/// already.
const TYPES: &[&str] = &[
    "application/dns-json",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonlines",
    "application/manifest",
    "application/ndjson",
    "application/rtf",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

/// Digests of the bytes that are sent (RFC 9530 and its elders) would be wrong.
pub const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

pub fn eligible(response: &Response<ResponseBody>, min: u64) -> bool {
    let (status, headers) = (response.status(), response.headers());
    let has_content = !status.is_informational()
        && ![StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT].contains(&status);
    let is_ours = !matches!(response.body(), ResponseBody::Hijacked(_) | ResponseBody::Empty);
    has_content
        && is_ours
        && length(response).is_none_or(|length| length >= min)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_RANGE)
        && !DIGESTS.iter().any(|name| headers.contains_key(name))
        && is_compressible(headers)
        && !forbids_transforming(headers)
}

fn length(response: &Response<ResponseBody>) -> Option<u64> {
    let said = || response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    response.body().size_hint().exact().or_else(said)
}

fn is_compressible(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Events are few bytes each, and a client that decodes piece by piece may hold one back until the next comes.
    essence.starts_with("text/") && essence != "text/event-stream"
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || TYPES.contains(&essence.as_str())
}
