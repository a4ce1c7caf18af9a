//! A head whose content is not sent: a 304, and what goes of others. It never decides which responses those are.

use http::{
    header::{self, HeaderName},
    Response, StatusCode,
};

/// Fields that describe content which is not sent.
pub const CONTENT_FIELDS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE];

/// Makes it a 304: validators and caching fields stay, the content's own go (RFC 9110 section 15.4.5).
pub fn not_modified<B>(response: &mut Response<B>) {
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    CONTENT_FIELDS.iter().for_each(|name| drop(response.headers_mut().remove(name)));
}
