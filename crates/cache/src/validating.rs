//! The request that asks the origin whether a stored response is still good (RFC 9111 section 4.3.1).
//! It never sends it.

use http::{header, HeaderMap, HeaderName, HeaderValue};

use crate::stored::Stored;

/// The conditions that a client may set; in a request of the cache's own they are its own.
pub const CONDITIONS: [HeaderName; 5] =
    [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE, header::IF_RANGE];

/// Takes the client's conditions and range out: the whole of it is asked for.
pub fn unconditional(request: &mut HeaderMap) {
    CONDITIONS.iter().for_each(|name| drop(request.remove(name)));
    request.remove(header::RANGE);
}

/// Makes the request a question about the stored response. false: it has nothing to ask by.
pub fn conditional(request: &mut HeaderMap, stored: &Stored) -> bool {
    unconditional(request);
    let mut asked = false;
    for (validator, condition) in
        [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)]
    {
        if let Some(value) = stored.headers.get(validator) {
            request.insert(condition, value.clone());
            asked = true;
        }
    }
    asked
}

/// Whether a 304 speaks of this stored response (section 4.3.4): "if the new response contains any strong validators,
/// each of those must match; a weak one likewise".
pub fn is_meant(stored: &Stored, not_modified: &HeaderMap) -> bool {
    let theirs = not_modified.get_all(header::ETAG);
    match theirs.iter().next() {
        // There should be one; of several any will do, since one of them was asked for.
        Some(_) => theirs.iter().any(|theirs| {
            let same = |ours: &HeaderValue| weakly(theirs.as_bytes()) == weakly(ours.as_bytes());
            stored.headers.get_all(header::ETAG).iter().any(same)
        }),
        None => match (not_modified.get(header::LAST_MODIFIED), stored.headers.get(header::LAST_MODIFIED)) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => true,
        },
    }
}

fn weakly(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}
