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
