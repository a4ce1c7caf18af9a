//! That no cache on the way to a visitor keeps a page that is theirs alone, such as a proxy or a CDN in front, whatever
//! the application says of it (RFC 9111 section 5.2.2.7). Our own cache keeps one for each visitor. It never makes a page
//! cacheable that was not.

use cache::fields::members;
use http::{header, HeaderMap, HeaderName, HeaderValue};

/// What caches of others obey before Cache-Control (RFC 9213).
const OF_OTHERS: [HeaderName; 4] = [
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("cloudflare-cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("edge-control"),
];

/// Whether nobody but its visitor keeps a response with these fields.
pub fn is_private(headers: &HeaderMap) -> bool {
    let is_for_one = |member: &[u8]| [&b"private"[..], b"no-store"].iter().any(|one| member.eq_ignore_ascii_case(one));
    !OF_OTHERS.iter().any(|name| headers.contains_key(name)) && members(headers, header::CACHE_CONTROL).any(is_for_one)
}

/// Makes it so.
pub fn mark(headers: &mut HeaderMap) {
    OF_OTHERS.iter().for_each(|name| drop(headers.remove(name)));
    let mut kept = vec!["private".to_owned()];
    for member in members(headers, header::CACHE_CONTROL) {
        let name = member.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let is_for_shared = ["public", "private", "s-maxage", "proxy-revalidate"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
        if !is_for_shared {
            kept.extend(std::str::from_utf8(member).ok().map(str::to_owned));
        }
    }
    match HeaderValue::from_str(&kept.join(", ")) {
        Ok(value) => drop(headers.insert(header::CACHE_CONTROL, value)),
        Err(_) => drop(headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_else_keeps() {
        for (name, value, is) in [
            ("cache-control", "max-age=0, Private, must-revalidate", true),
            ("cache-control", "no-store", true),
            ("cache-control", "private=\"set-cookie\"", false),
            ("cache-control", "no-cache", false),
            ("cache-control", "public, max-age=60", false),
            ("x-own", "private", false),
        ] {
            let mut headers: HeaderMap =
                [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(is_private(&headers), is, "{name}: {value}");
            headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=60"));
            assert!(!is_private(&headers), "a CDN keeps it");
        }
    }

    #[test]
    fn a_page_of_somebody_is_private_whatever_the_application_says() {
        for (said, told) in [
            (&[][..], "private"),
            (&["public, max-age=60"], "private, max-age=60"),
            (&["max-age=60, s-maxage=600"], "private, max-age=60"),
            (&["Public", "MAX-AGE=5"], "private, MAX-AGE=5"),
            (&["private"], "private"),
            (&["private=\"set-cookie\", max-age=1"], "private, max-age=1"),
            (&["no-store"], "private, no-store"),
            (&["max-age=0, private, must-revalidate"], "private, max-age=0, must-revalidate"),
            (&["public, max-age=31536000, immutable"], "private, max-age=31536000, immutable"),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append("cache-control", HeaderValue::from_static(value));
            }
            headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=60"));
            mark(&mut headers);
            assert_eq!((headers["cache-control"].to_str().unwrap(), headers.len()), (told, 1), "{said:?}");
        }
    }
}
